// Optimizes a table after many writes: refreshes the statistics that the planner uses, and checkpoints the catalog, which moves the
// write-ahead log into the file and frees the space of deleted rows.
import type { DuckDBConnection } from '@duckdb/node-api';
import { Failure } from '../../../standard/failure.ts';
import type { TableRef } from '../../engine.ts';
import { qualifiedTable, quoteIdentifier } from '../sql/identifiers.ts';

const checkpointTriesMax = 100;
const checkpointWaitMs = 50;

/** Idempotent. Throws WAREHOUSE_BUSY if statements keep writing to the catalog: DuckDB cannot checkpoint while they do. */
export async function optimizeTable(connection: DuckDBConnection, table: TableRef, signal: AbortSignal): Promise<void> {
  await connection.run(`VACUUM ANALYZE ${qualifiedTable(table)}`);
  for (let attempt = 1; ; attempt++) {
    if (signal.aborted) throw new Failure('STATEMENT_CANCELLED', 'the optimization was cancelled');
    try {
      await connection.run(`CHECKPOINT ${quoteIdentifier(table.catalog.name)}`);
      return;
    } catch (error) {
      if (!(error instanceof Error && /^TransactionContext Error/.test(error.message))) throw error;
      if (attempt >= checkpointTriesMax)
        throw new Failure(
          'WAREHOUSE_BUSY',
          'other statements keep writing to the catalog; retry later',
          {},
          { cause: error },
        );
      await new Promise((resolve) => setTimeout(resolve, checkpointWaitMs));
    }
  }
}
