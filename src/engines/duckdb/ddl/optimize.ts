// Optimizes a table after many writes: refreshes the statistics that the planner uses, and checkpoints the catalog, which moves the
// write-ahead log into the file and frees the space of deleted rows.
import type { DuckDBConnection } from '@duckdb/node-api';
import { Failure } from '../../../standard/failure.ts';
import type { TableRef } from '../../port/refs.ts';
import { qualifiedTable, quoteIdentifier } from '../sql/identifiers.ts';

const checkpointTriesMax = 100;
const checkpointWaitMs = 50;

/**
 * Idempotent. Throws WAREHOUSE_BUSY if statements keep writing to the catalog, because DuckDB cannot checkpoint while they do, or if its file
 * is being copied.
 */
export async function optimizeTable(
  connection: DuckDBConnection,
  table: TableRef,
  { signal, isCopied }: { readonly signal: AbortSignal; readonly isCopied: () => boolean },
): Promise<void> {
  await connection.run(`VACUUM ANALYZE ${qualifiedTable(table)}`);
  for (let attempt = 1; ; attempt++) {
    if (signal.aborted) throw new Failure('STATEMENT_CANCELLED', 'the optimization was cancelled');
    if (!isCopied() && (await checkpointed(connection, table))) return;
    if (attempt >= checkpointTriesMax)
      throw new Failure('WAREHOUSE_BUSY', 'statements keep writing to the catalog, or a backup copies it; retry later');
    await new Promise((resolve) => setTimeout(resolve, checkpointWaitMs));
  }
}

/** False if other statements write to the catalog. */
async function checkpointed(connection: DuckDBConnection, { catalog }: TableRef): Promise<boolean> {
  try {
    await connection.run(`CHECKPOINT ${quoteIdentifier(catalog.name)}`);
    return true;
  } catch (error) {
    if (error instanceof Error && /^TransactionContext Error/.test(error.message)) return false;
    throw error;
  }
}
