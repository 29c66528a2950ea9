// Stores the size of a table that a task has just created. The engine reported its writes while the table was not visible yet, so those
// reports had no effect.
import type { Catalog } from '../catalog/catalog.ts';
import type { CatalogObject } from '../catalog/object.ts';
import type { Warehouses } from '../engines/warehouses/warehouses.ts';
import type { CatalogSpec } from '../model/records.ts';
import type { Observe } from '../observe/observations.ts';

/** Best effort: statistics that are missing now are refreshed after the next write. */
export async function storeStatistics(
  parts: { readonly catalog: Catalog; readonly warehouses: Warehouses; readonly observe: Observe },
  { id }: CatalogObject,
): Promise<void> {
  try {
    const [root, database, table] = await parts.catalog.findChain(id);
    if (!root || !database || !table) return;
    const engine = await parts.warehouses.use((root as CatalogObject<CatalogSpec>).spec.warehouse);
    const statistics = await engine.tableStatistics({
      catalog: { id: root.id, name: root.name },
      database: database.name,
      table: table.name,
    });
    await parts.catalog.saveStatistics(id, { ...statistics, asOf: new Date().toISOString() });
  } catch (error) {
    parts.observe({ kind: 'backgroundError', what: 'table statistics', error });
  }
}
