// Converts errors of the engine into failures for the caller: the engine's message without paths, ASCII art or advice for
// operators, and the position in the caller's text.
import { Failure } from '../../../standard/failure.ts';
import { isFullDisk, storageFull } from '../../../store/disk_space.ts';
import { replacementsOfService } from '../../sql/refused_statements.ts';
import { sqlInvalid as sqlInvalidAt } from '../../sql/sql_invalid.ts';
import { checkpointFault, damageInError } from '../storage/catalog_damage.ts';

/** SQL_INVALID, with what the engine says. `offset`: into the text, in UTF-16 units; undefined if unknown. */
export const sqlInvalid = (message: string, sql: string, offset: number | undefined): Failure =>
  sqlInvalidAt(cleaned(message), sql, offset);

/** The endpoint to use instead of each refused statement. */
const replacements: readonly (readonly [RegExp, string])[] = [
  ...replacementsOfService,
  [
    /^create\s+(or\s+replace\s+)?(temp\w*\s+)?table\b/i,
    'use POST .../tables/create, which accepts this statement, to create tables',
  ],
  [
    /^create\s+(or\s+replace\s+)?(temp\w*\s+)?view\b/i,
    'use POST .../views/create, which accepts this statement, to create views',
  ],
  [/^create\s+(schema|database)\b/i, 'use POST .../databases to create databases'],
  [/^alter\s+table\b/i, 'use PATCH .../tables/{table} and its actions to change tables'],
  [/^alter\s+view\b/i, 'use PATCH .../views/{view} and its actions to change views'],
  [/^alter\s+(schema|database)\b/i, 'use PATCH .../databases/{database} and its actions to change databases'],
  [/^(copy|export)\b/i, 'use POST .../export to write rows to files, and POST .../load to read rows from files'],
  [/^comment\b/i, 'use PATCH on the object to change its comment'],
  [/^drop\s+table\b/i, 'use DELETE .../tables/{table} to drop tables'],
  [/^drop\s+view\b/i, 'use DELETE .../views/{view} to drop views'],
  [/^drop\s+(schema|database)\b/i, 'use DELETE .../databases/{database} to drop databases'],
  [/^truncate\b/i, 'use POST .../tables/{table}/truncate to truncate tables'],
  [
    /^(show|describe|desc|summarize)\b/i,
    'use GET .../tables to list tables, and GET .../tables/{table} to describe one',
  ],
  [/^explain\b/i, 'use POST .../explain to show plans'],
  [/^(use)\b/i, 'the path of the request sets the default namespace'],
  [/^(begin|start|commit|rollback|abort)\b/i, 'transaction control is not supported: each request is one transaction'],
  [/^(pivot|unpivot)\b/i, 'use it inside a SELECT: SELECT * FROM (PIVOT ...) with an IN list'],
];

/** SQL_NOT_SUPPORTED for a valid statement that is not offered as SQL. */
export function refusedStatement(sql: string, what: string): Failure {
  const start = withoutLeadingComments(sql);
  const hint = replacements.find(([pattern]) => pattern.test(start))?.[1];
  const message =
    hint ?? `only SELECT, INSERT, UPDATE, DELETE and MERGE can be run as SQL (${cleaned(what).slice(0, 120)})`;
  return new Failure('SQL_NOT_SUPPORTED', message);
}

function withoutLeadingComments(sql: string): string {
  return sql.replace(/^(?:\s+|--[^\n]*(?:\n|$)|\/\*[\s\S]*?\*\/)+/, '');
}

/** Whether the engine refused to open a file. Its message names the file. */
export const isAboutFiles = (message: string): boolean =>
  /file system operations are disabled by configuration|^(?:Permission Error: )?File system .* has been disabled/.test(
    message,
  );

export const filesRefused = (): Failure =>
  new Failure('SQL_NOT_SUPPORTED', 'SQL cannot read or write files: use POST .../load and POST .../export');

/** The engine is in an undefined state. */
export class FatalEngineError extends Error {
  override name = 'FatalEngineError';
}

export interface StatementText {
  /** The user's text. */
  readonly sql: string;
  /** How many generated lines precede it in the text that the engine ran. */
  readonly linesAbove: number;
}

/** Converts any error of a statement into the error to throw. Failures pass through. */
export function failureOf(error: unknown, statement: StatementText): Error {
  if (!(error instanceof Error)) return new Error(String(error));
  // An error of the operating system when this server writes, not the engine.
  if (isFullDisk(error)) return storageFull(error);
  if (error instanceof Failure || !/^[A-Z][A-Za-z ]* Error: |^INTERRUPT/.test(error.message)) return error;
  const { message } = error;
  if (isAboutFiles(message)) return filesRefused();
  const fatal = engineFailure(message);
  if (fatal) return fatal;
  if (/^INTERRUPT/.test(message)) return new Failure('STATEMENT_CANCELLED', 'the statement was cancelled');
  if (/^Out of Memory Error/.test(message)) {
    return message.includes('max_temp_directory_size')
      ? new Failure(
          'SPILL_LIMIT_EXCEEDED',
          'the statement needs more temporary disk space than the spill limit of the warehouse',
        )
      : new Failure(
          'MEMORY_LIMIT_EXCEEDED',
          'the statement needs more memory than `memoryLimitBytes` of the warehouse',
        );
  }
  // A commit on a full disk fails with an error of the transaction.
  if (/^(?:IO|TransactionContext) Error.*no space left/is.test(message)) return storageFull(error);
  if (/^IO Error/.test(message))
    return new Failure('WAREHOUSE_FAILED', 'the engine could not read or write its files', {}, { cause: error });
  if (/^Constraint Error/.test(message))
    return new Failure('CONSTRAINT_VIOLATED', cleaned(message), { engineMessage: cleaned(message) });
  if (/^TransactionContext Error/.test(message)) {
    return new Failure(
      'WAREHOUSE_BUSY',
      'gave up after repeated conflicts with concurrent changes of the same rows; retry later',
      {},
      { cause: error },
    );
  }
  return sqlInvalid(message, statement.sql, offsetOf(message, statement));
}

/** The failure for an error about the engine itself or a catalog file, independent of the operation; undefined for other errors. */
export function engineFailure(message: string): Error | undefined {
  const reason = damageInError(message);
  const isCheckpoint = checkpointFault(message) !== undefined;
  // Without damage, a new engine process only has to attach the database again.
  const isFatal = /^(?:FATAL|INTERNAL) Error|database has been invalidated/i.test(message) || isCheckpoint;
  if (isFatal && !(isCheckpoint && reason !== undefined)) return new FatalEngineError(message);
  if (reason === undefined) return undefined;
  return new Failure('CATALOG_DAMAGED', 'a catalog of the statement is damaged', { reason, isFatal: isCheckpoint });
}

/** Converts the engine's `LINE n:` and caret into an offset into the user's text. */
function offsetOf(message: string, { sql, linesAbove }: StatementText): number | undefined {
  const match = /\n\nLINE (\d+): (.*)\n( *)\^/.exec(message);
  if (!match) return undefined;
  const line = Number(match[1]) - linesAbove;
  const shown = match[2] as string;
  const lines = sql.split('\n');
  const text = lines[line - 1];
  if (text === undefined) return undefined;
  const start = lines.slice(0, line - 1).reduce((sum, { length }) => sum + length + 1, 0);
  const caret = (match[3] as string).length - `LINE ${match[1]}: `.length;
  if (!shown.startsWith('...')) return start + offsetOfWidth(text, caret);
  // A long line is abbreviated: locate the part that is shown.
  const part = shown.slice(3).replace(/\.\.\.$/, '');
  const index = text.indexOf(part);
  return index < 0 ? start : start + index + offsetOfWidth(text.slice(index), caret - 3);
}

const wide =
  /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{20000}-\u{3fffd}]|\p{Emoji_Presentation}/u;

/** Converts the engine's caret position, in terminal columns, into an offset. */
function offsetOfWidth(text: string, width: number): number {
  let offset = 0;
  for (const character of text) {
    if (width <= 0) break;
    width -= wide.test(character) ? 2 : 1;
    offset += character.length;
  }
  return offset;
}

/** Converts the engine's offset, in bytes of UTF-8, into UTF-16 units. */
export function offsetOfByte(sql: string, byte: number): number {
  return Buffer.from(sql, 'utf8').subarray(0, Math.max(0, byte)).toString('utf8').length;
}

/** Of a list of overloads, which can be of thousands of characters, the first lines up to this length are shown. */
const candidatesLengthMax = 120;

function shortenCandidates(message: string): string {
  return message.replace(/(\n\tCandidate functions:)((?:\n\t[^\n]*)+)/, (_, head: string, list: string) => {
    if (list.length <= candidatesLengthMax) return head + list;
    const end = list.lastIndexOf('\n', candidatesLengthMax);
    return `${head}${end > 0 ? list.slice(0, end) : ''}\n\t…`;
  });
}

/** The first paragraph of the message, without the type of the error and without anything that looks like a file path. */
export function cleaned(message: string): string {
  const [first = ''] = message.split(/\n\n|\nPossible solutions|\nLINE \d|(?<=\.) Use "SET /);
  return (
    shortenCandidates(first)
      .replace(/^[A-Z][A-Za-z ]* Error: /, '')
      // Suggestions would reveal names that the caller may not see.
      .replace(/\n*(?:Did you mean|Candidate tables)[^\n]*/g, '')
      .replace(/(?<![\w/])(?:\/[\w.@-]+){2,}/g, '<file>')
      .replace(/__tabularium\w*/g, '<engine>')
      .replace(/^NameListToString NOT IMPLEMENTED$/, 'a name has at most three parts: catalog.database.table')
      .trim()
      .slice(0, 2000)
  );
}
