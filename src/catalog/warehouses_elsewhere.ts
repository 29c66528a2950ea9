// The warehouses of a shared store that are not of this server: it leaves their recovery and their maintenance to the others.
import type { CatalogReader } from './catalog_reader.ts';

const warehousesMax = 1000;

/** The warehouses of which other servers have the data. `serverId`: this server, if several use the store. */
export async function warehousesElsewhere(
  catalog: Pick<CatalogReader, 'list'>,
  serverId: string | undefined,
): Promise<ReadonlySet<string>> {
  if (serverId === undefined) return new Set();
  const all = await catalog.list(null, 'warehouses', { limit: warehousesMax });
  const elsewhere = all.filter(({ spec }) => (spec.serverId ?? serverId) !== serverId);
  return new Set(elsewhere.map(({ name }) => name));
}
