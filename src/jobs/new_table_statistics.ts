// How large a table is that a task has just made: of a table that nobody saw, the engine told in vain that it was written.
import type { Catalog } from '../catalog/catalog.ts';
import type { CatalogObject } from '../catalog/object.ts';
import type { Warehouses } from '../engines/warehouses.ts';
import type { CatalogSpec } from '../model/records.ts';
import type { Observe } from '../observe/observations.ts';

/** Best effort: what is not known of it now is asked again after the next write. */
export async function storeStatistics(
  parts: { readonly catalog: () => Catalog; readonly warehouses: Warehouses; readonly observe: Observe },
  { id }: CatalogObject,
): Promise<void> {
  try {
    const [root, database, table] = await parts.catalog().findChain(id);
    if (!root || !database || !table) return;
    const engine = await parts.warehouses.use((root as CatalogObject<CatalogSpec>).spec.warehouse);
    const statistics = await engine.tableStatistics({
      catalog: { id: root.id, name: root.name },
      database: database.name,
      table: table.name,
    });
    await parts.catalog().saveStatistics(id, { ...statistics, asOf: new Date().toISOString() });
  } catch (error) {
    parts.observe({ kind: 'backgroundError', what: 'table statistics', error });
  }
}
