// What DuckDB can do for a table that was written much: its catalog's log put into the file, with the room of deleted rows given
// back, and the statistics that plans are made by taken anew.
import type { DuckDBConnection } from '@duckdb/node-api';
import { Failure } from '../../../standard/failure.ts';
import type { TableRef } from '../../engine.ts';
import { qualifiedTable, quoteIdentifier } from '../sql/identifiers.ts';

const checkpointTriesMax = 100;
const checkpointWaitMs = 50;

/** Idempotent. Throws WAREHOUSE_BUSY where statements keep writing in the catalog: the log is not put away under them. */
export async function optimizeTable(connection: DuckDBConnection, table: TableRef, signal: AbortSignal): Promise<void> {
  await connection.run(`VACUUM ANALYZE ${qualifiedTable(table)}`);
  for (let attempt = 1; ; attempt++) {
    if (signal.aborted) throw new Failure('STATEMENT_CANCELLED', 'the work was cancelled');
    try {
      await connection.run(`CHECKPOINT ${quoteIdentifier(table.catalog.name)}`);
      return;
    } catch (error) {
      if (!(error instanceof Error && /^TransactionContext Error/.test(error.message))) throw error;
      if (attempt >= checkpointTriesMax)
        throw new Failure('WAREHOUSE_BUSY', 'statements keep writing in the catalog', {}, { cause: error });
      await new Promise((resolve) => setTimeout(resolve, checkpointWaitMs));
    }
  }
}
