// Runs a query whose rows are read while they are computed, so that memory use does not depend on their number. DuckDB does not report an
// error in the middle of a stream: it ends like a complete one.
import type { DuckDBConnection, DuckDBPreparedStatement } from '@duckdb/node-api';
import type { WireStatement } from '../process/protocol.ts';
import { quoteLiteral } from '../sql/identifiers.ts';
import { preparedOnce } from './prepared_once.ts';

export interface StreamOptions {
  /** Throws if the statement must not continue: it was cancelled, or a definition that it uses changed before it was bound. */
  readonly requireCurrent: () => void;
  /** A file that the engine may write to, to find the reason why a stream ended early. */
  readonly scratchFile: string;
  /**
   * How many bytes of rows the engine computes before the reader gets the first of them. Its threads work on different row groups, and
   * wait for the earliest one unless the buffer holds a row group of each.
   */
  readonly bufferBytes: number;
}

/** The reader gets the first rows at once. */
export const promptBufferBytes = 1024 * 1024;
/** A row group has 122,880 rows, usually 10 to 15 MB. */
export const parallelBufferBytes = 32 * 1024 * 1024;

/** `read` reads all rows of the prepared text; what it returns counts only if the rows were complete. Throws the error of the query. */
export async function readStream<T>(
  connection: DuckDBConnection,
  text: string,
  statement: WireStatement,
  { requireCurrent, scratchFile, bufferBytes }: StreamOptions,
  read: (prepared: DuckDBPreparedStatement) => Promise<T>,
): Promise<T> {
  let isComplete = false;
  await connection.run(`SET streaming_buffer_size = '${bufferBytes / 1024}KiB'`);
  const result = await preparedOnce(connection, text, statement, async (prepared) => {
    requireCurrent();
    const rows = await read(prepared);
    // An error ends the stream like its last row, but it also aborts the transaction.
    isComplete = await connection.run('SELECT 1').then(
      () => true,
      () => false,
    );
    return rows;
  });
  if (isComplete) return result;
  requireCurrent();
  // COPY reports the error.
  const retry = `COPY (${text}) TO ${quoteLiteral(scratchFile)} (FORMAT parquet)`;
  await preparedOnce(connection, retry, statement, (prepared) => prepared.run());
  throw new Error('the rows of a query ended early for an unknown reason');
}
