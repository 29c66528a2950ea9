// Statements that are prepared for one run.
import type { DuckDBConnection, DuckDBPreparedStatement } from '@duckdb/node-api';
import type { WireStatement } from '../process/protocol.ts';
import { bindParameters } from './parameters.ts';

/** Plans and runs in one transaction, so that the statistics that the plan relies on match the rows that it reads. */
export async function preparedOnce<T>(
  connection: DuckDBConnection,
  text: string,
  statement: WireStatement,
  run: (prepared: DuckDBPreparedStatement) => Promise<T>,
): Promise<T> {
  await connection.run('BEGIN TRANSACTION');
  try {
    return await withPrepared(connection, text, statement, run);
  } finally {
    // The statement changed nothing; the transaction ends the same way if it failed.
    await connection.run('ROLLBACK').catch(() => undefined);
  }
}

/** Prepares the text and binds the statement's parameters. */
export async function withPrepared<T>(
  connection: DuckDBConnection,
  text: string,
  { parameters }: WireStatement,
  run: (prepared: DuckDBPreparedStatement) => Promise<T>,
): Promise<T> {
  const prepared = await connection.prepare(text);
  try {
    await bindParameters(prepared, parameters, connection);
    return await run(prepared);
  } finally {
    prepared.destroySync();
  }
}
