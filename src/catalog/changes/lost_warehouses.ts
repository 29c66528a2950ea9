// Removes the warehouses of a server that is lost for good, and their catalogs, from the store alone: what the engine had of them was in the
// data directory of that server.
import type { CatalogSpec, WarehouseSpec } from '../../model/records.ts';
import { isVisible, objectColumns } from '../object_rows.ts';
import type { CatalogContext, Tx } from './change_context.ts';
import { appendRemoval } from './object_changes.ts';

/** The names of what was removed; those of dropped catalogs are not shown. */
export interface LostWarehouses {
  readonly warehouses: readonly string[];
  readonly catalogs: readonly string[];
}

/** In any state, with their open changes: nobody can complete those. */
export async function removeLostWarehouses(context: CatalogContext, tx: Tx, serverId: string): Promise<LostWarehouses> {
  const roots = await tx
    .selectFrom('objects')
    .select(objectColumns)
    .where('category', 'in', ['catalogs', 'warehouses'])
    .where('parent_id', 'is', null)
    .execute();
  const warehouses = roots.filter(
    ({ category, spec }) => category === 'warehouses' && (JSON.parse(spec) as WarehouseSpec).serverId === serverId,
  );
  const names = new Set(warehouses.map(({ name }) => name));
  const catalogs = roots.filter(
    ({ category, spec }) => category === 'catalogs' && names.has((JSON.parse(spec) as CatalogSpec).warehouse),
  );
  for (const row of [...catalogs, ...warehouses]) {
    await context.statements.deleteObject.run(tx, { id: row.id });
    appendRemoval(context, tx, row, { deep: true });
  }
  return { warehouses: [...names], catalogs: catalogs.filter(isVisible).map(({ name }) => name) };
}
