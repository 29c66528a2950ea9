// Removes warehouses that are lost for good, and their catalogs, from the store alone: those whose data were in the data directory of a server,
// and one whose cluster is lost. Ends what is left open of warehouses that do not exist any more.
import type { Actor } from '../../model/principal.ts';
import type { CatalogSpec, WarehouseSpec } from '../../model/records.ts';
import { requireExpectedVersion } from '../../standard/expected_version.ts';
import { afterCommit } from '../../store/transactions.ts';
import type { CatalogObject } from '../object.ts';
import { isVisible, objectColumns, versionOfRow } from '../object_rows.ts';
import type { CatalogContext, Tx } from './change_context.ts';
import { type IntentRow, removeObject } from './intents.ts';
import { appendRemoval } from './object_changes.ts';
import { revertChange } from './soft_delete.ts';

/** The names of what was removed; those of dropped catalogs are not shown. */
export interface LostWarehouses {
  readonly warehouses: readonly string[];
  readonly catalogs: readonly string[];
}

interface Warehouse {
  readonly id: string;
  readonly spec: WarehouseSpec;
}

/** Those of a server. In any state, with their open changes: nobody can complete those. */
export const removeLostWarehouses = (context: CatalogContext, tx: Tx, serverId: string): Promise<LostWarehouses> =>
  removeThose(context, tx, ({ spec }) => spec.serverId === serverId);

/** One whose servers are lost. @returns false if it no longer exists. */
export async function dropLostWarehouse(
  context: CatalogContext,
  { id }: CatalogObject,
  { principal, inTransaction }: { readonly principal: Actor; readonly inTransaction: (tx: Tx) => Promise<void> },
): Promise<boolean> {
  return context.store.transaction(async (tx) => {
    const row = await context.statements.byId.first(tx, { id });
    if (!row || !isVisible(row)) return false;
    requireExpectedVersion(versionOfRow(row), principal, (effect) => afterCommit(tx, effect));
    const removed = await removeThose(context, tx, (warehouse) => warehouse.id === id);
    await inTransaction(tx);
    await context.trail.append(tx, principal, { outcome: '0', objectId: id, details: { ...removed } });
    return true;
  });
}

async function removeThose(
  context: CatalogContext,
  tx: Tx,
  isLost: (warehouse: Warehouse) => boolean,
): Promise<LostWarehouses> {
  const roots = await tx
    .selectFrom('objects')
    .select(objectColumns)
    .where('category', 'in', ['catalogs', 'warehouses'])
    .where('parent_id', 'is', null)
    .execute();
  const warehouses = roots.filter(
    ({ id, category, spec }) => category === 'warehouses' && isLost({ id, spec: JSON.parse(spec) as WarehouseSpec }),
  );
  const names = new Set(warehouses.map(({ name }) => name));
  const catalogs = roots.filter(
    ({ category, spec }) => category === 'catalogs' && names.has((JSON.parse(spec) as CatalogSpec).warehouse),
  );
  for (const row of [...catalogs, ...warehouses]) {
    await context.statements.deleteObject.run(tx, { id: row.id });
    appendRemoval(context, tx, row, { deep: true });
  }
  // What moves have left there of catalogs that are elsewhere now.
  if (names.size > 0) {
    const left = tx
      .selectFrom('dropped_objects')
      .select('object_id')
      .where('warehouse', 'in', [...names]);
    await tx.deleteFrom('objects').where('id', 'in', left).execute();
  }
  return { warehouses: [...names], catalogs: catalogs.filter(isVisible).map(({ name }) => name) };
}

/** Ends an open change of a warehouse that no longer exists: no engine can complete or undo it. The caller holds the intent. */
export async function endWithoutWarehouse(context: CatalogContext, intent: IntentRow): Promise<'finished' | 'undone'> {
  const { verb } = intent;
  if (verb === 'update' || verb === 'undrop') {
    await revertChange(context, intent, 'TASK_INTERRUPTED');
    return 'undone';
  }
  const isUndone = verb === 'create';
  await removeObject(context, intent, isUndone ? 'TASK_INTERRUPTED' : '0');
  return isUndone ? 'undone' : 'finished';
}
