// Exports the rows of a SELECT, as a server streams them, to files. The directory gets its name when all files are complete.
import { mkdir, rename, rm } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { type ExportInto, filesDirectory } from '../../port/export.ts';
import type { ExecuteOptions, StatementResult } from '../../port/statements.ts';
import { cancelledFailure } from '../connection/clickhouse_error.ts';
import { readToEnd } from '../connection/read_to_end.ts';
import type { ConvertedFiles } from './conversion.ts';
import { ConversionThreads, type RowsTaker } from './conversion_threads.ts';

type Options = Pick<ExecuteOptions, 'principalId' | 'resultPath' | 'rowsMax' | 'signal' | 'timeoutMs'> & {
  readonly into: ExportInto;
};

/** In these formats, wide numbers become numbers of the format: they must not be rounded before. */
export const needsNumbersAsStrings = ({ format }: ExportInto): boolean =>
  format.kind === 'arrow' || format.kind === 'parquet';

/** Of all warehouses, so that their memory is bounded. */
const allThreads = new ConversionThreads();

/**
 * Atomic: writes all files or none. Throws the failures of `ConversionThreads.run` and those of the server.
 * @param open begins to read the rows.
 */
export async function exportRows(
  open: () => Promise<Readable>,
  { into, principalId = '', resultPath, rowsMax, signal, timeoutMs }: Options,
  threads: ConversionThreads = allThreads,
): Promise<StatementResult> {
  const final = filesDirectory(resultPath);
  const directory = `${final}.incomplete`;
  try {
    await mkdir(directory, { mode: 0o700 });
    const { columns, rowCount, truncated, entries } = await threads.run(
      { into, directory, rowsMax },
      { principalId, signal, timeoutMs },
      async (thread) => convert(await open(), thread),
    );
    if (signal.aborted) throw cancelledFailure('notApplied');
    await rename(directory, final);
    return {
      columns,
      rowCount,
      truncated,
      rows: { kind: 'text', text: '' },
      files: { format: into.format.kind, directory: final, entries },
    };
  } catch (error) {
    for (const path of [directory, final]) await rm(path, { recursive: true, force: true });
    throw error;
  }
}

const convert = (stream: Readable, thread: RowsTaker): Promise<ConvertedFiles> =>
  readToEnd(
    stream,
    (chunk) => thread.add(chunk),
    () => thread.finish(),
  );
