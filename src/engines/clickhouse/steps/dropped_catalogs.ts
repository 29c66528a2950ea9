// That a catalog was dropped, as the servers record it: one that was away may have databases of it. That the store does not know their catalog would not
// prove it, because other installations can have databases on the same servers.
import type { ClickHouseServer } from '../connection/server.ts';
import { hiddenCatalogOf } from '../names.ts';
import { catalogOf, type StoredDatabase } from '../owned_databases.ts';
import { quoteLiteral } from '../sql/identifiers.ts';
import { stepsTable } from './record_copies.ts';

/** To be recorded when the catalog is dropped, and not before: a drop that was refused is not repeated. */
export const catalogDropped = { step: 'catalog dropped', state: 'applied' } as const;

/** Whether the catalog that a database was created for was dropped: one of the servers has the record. One that does not answer has not. */
export async function wasDropped(
  servers: readonly ClickHouseServer[],
  database: StoredDatabase,
  timeoutMs: number,
): Promise<boolean> {
  const catalogId = catalogOf(database) ?? hiddenCatalogOf(database.name);
  if (catalogId === undefined) return false;
  const sql = `SELECT 1 FROM ${stepsTable} WHERE catalog = ${quoteLiteral(catalogId)} AND step = ${quoteLiteral(catalogDropped.step)} LIMIT 1`;
  const found = await Promise.all(servers.map((server) => server.rows({ sql, timeoutMs }).catch(() => [])));
  return found.some(({ length }) => length > 0);
}
