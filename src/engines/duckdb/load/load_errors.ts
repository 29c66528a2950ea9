// Converts the engine's errors about files to failures for the caller: with position and reason, but without the file's path, and without
// advice about options that callers do not have.
import { Failure } from '../../../standard/failure.ts';
import { lineLongerThan } from '../../data_files/csv_lines.ts';
import { jsonRowBytesMax } from '../../data_files/json_limits.ts';
import { dataInvalid, incompleteFile, withNothingLoaded } from '../../data_files/load_failures.ts';
import type { DataFile } from '../../port/load.ts';

/** Limit of a row's text in a failure. */
const textCharactersMax = 500;

/** Other errors pass through. */
export function dataFailure(error: unknown): unknown {
  if (!(error instanceof Error) || error instanceof Failure) return error;
  const { message } = error;
  if (/^IO Error/.test(message)) return ofReading(error);
  if (/^Constraint Error/.test(message)) return ofConstraint(message);
  if (
    !/^(?:Invalid Input|Conversion|Out of Range|Invalid Configuration|Binder|Not implemented|Serialization) Error/.test(
      message,
    )
  )
    return error;
  if (/maximum_object_size/.test(message))
    return dataInvalid(`the file has a JSON value of more than ${jsonRowBytesMax} bytes`, {
      bytesMax: jsonRowBytesMax,
    });
  if (/magic bytes|too small to be a Parquet/.test(message)) return incompleteFile();
  return csvFailure(message) ?? jsonFailure(message) ?? dataInvalid(publicMessage(message));
}

function ofReading(error: Error): unknown {
  const { message } = error;
  if (/[Pp]arquet|magic bytes|[Cc]orrupt|snappy|thrift|end of file|deserialize/.test(message)) return incompleteFile();
  return error;
}

function ofConstraint(message: string): Failure {
  const text = publicMessage(message);
  return new Failure('CONSTRAINT_VIOLATED', withNothingLoaded(text), { engineMessage: text });
}

function csvFailure(message: string): Failure | undefined {
  const found =
    /CSV Error on Line: (\d+)\n(?:Original Line: ?([\s\S]*?)\n)?((?:Error when|Expected|Invalid|Value|Maximum|The |Max)[^\n]*)/.exec(
      message,
    );
  if (!found) return undefined;
  const [, line, text = '', reason = ''] = found;
  const column = /column "([^"]*)"/.exec(reason)?.[1] ?? null;
  return dataInvalid(`line ${line}${column === null ? '' : `, column ${JSON.stringify(column)}`}: ${reason}`, {
    line: Number(line),
    column,
    reason,
    text: text.slice(0, textCharactersMax),
  });
}

function jsonFailure(message: string): Failure | undefined {
  const found =
    /(JSON transform error|Malformed JSON) in file "[^"]*", (?:at byte \d+ )?in (record\/value|line) (\d+): ([^\n]*)/.exec(
      message,
    );
  if (!found) return undefined;
  const [, kind, , counted, reason = ''] = found;
  // For a value that it cannot parse, DuckDB reports the number of the next one.
  const row = Number(counted) - (kind === 'Malformed JSON' ? 1 : 0);
  return dataInvalid(`row ${row}: ${reason.trim()}`, { row, column: null, reason: reason.trim() });
}

/** Like `dataFailure`, and adds the number of an NDJSON row that is too large, which DuckDB does not report. */
export async function fileFailure(error: unknown, { format, path }: DataFile): Promise<unknown> {
  const failure = dataFailure(error);
  const bytesMax = failure instanceof Failure ? failure.result.bytesMax : undefined;
  const row = format === 'ndjson' && typeof bytesMax === 'number' ? await lineLongerThan(path, bytesMax) : undefined;
  if (row === undefined) return failure;
  const reason = `a JSON value of more than ${bytesMax} bytes`;
  return dataInvalid(`row ${row}: ${reason}`, { row, column: null, reason, bytesMax });
}

/** The first line of the message, without the kind of error and without paths. */
function publicMessage(message: string): string {
  return (message.split('\n', 1)[0] as string)
    .replace(/^[A-Z][A-Za-z ]* Error: /, '')
    .replace(/(?:in )?(?:the )?file:? *["'][^"']*["']/gi, 'the file')
    .replace(/["']?(?:\/[^\s"'/]+){2,}["']?/g, 'the file')
    .replace(/\.$/, '')
    .slice(0, 1000);
}
