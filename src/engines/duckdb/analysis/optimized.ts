// Runs DuckDB's optimizer on a statement in an analysis process, where a crash does no harm. Does not run the statement.
import type { DuckDBConnection } from '@duckdb/node-api';
import { Failure } from '../../../standard/failure.ts';
import { FatalEngineError, failureOf } from '../instance/sql_errors.ts';

/** Constant folding in the optimizer can crash the process, as binding can: it happens here first, not in the process that runs statements. */
export async function optimizePlan(connection: DuckDBConnection, sql: string): Promise<void> {
  try {
    (await connection.prepare(sql)).destroySync();
  } catch (error) {
    const failure = failureOf(error, { sql, linesAbove: 0 });
    if (failure instanceof FatalEngineError || (failure instanceof Failure && failure.code === 'STATEMENT_CANCELLED'))
      throw failure;
    // Other errors are ignored here: running the statement reports them, with the values of its parameters.
  }
}
