// A statement taken through the optimizer, in a process that may die of it. Runs nothing.
import type { DuckDBConnection } from '@duckdb/node-api';
import { Failure } from '../../../standard/failure.ts';
import { FatalEngineError, failureOf } from '../instance/sql_errors.ts';

/** What the optimizer does with constants can cost the process, as binding can: it does it here first, not where others' statements run. */
export async function optimizePlan(connection: DuckDBConnection, sql: string): Promise<void> {
  try {
    (await connection.prepare(sql)).destroySync();
  } catch (error) {
    const failure = failureOf(error, { sql, linesAbove: 0 });
    if (failure instanceof FatalEngineError || (failure instanceof Failure && failure.code === 'STATEMENT_CANCELLED'))
      throw failure;
    // The run itself says what is wrong, with the parameters that it has.
  }
}
