// The effects of a change on dependent views, recorded in the transaction that ends the change: changed columns, and views that were or
// could not be restored together with their database or catalog.
import { type Change, catalogOf } from '../../engines/port/changes.ts';
import type { Applied, DependentView } from '../../engines/port/views.ts';
import type { CatalogContext, Tx } from './change_context.ts';
import { changeOf, type IntentRow, updateViewColumns } from './intents.ts';
import { droppedName } from './object_names.ts';
import { dependentViewChains, recordSourcesByName } from './view_dependencies.ts';

/** Adds the dependent views to a change that may invalidate them. */
export async function withDependentViews(
  context: CatalogContext,
  tx: Tx,
  objectId: string,
  change: Change,
): Promise<Change> {
  if (change.kind !== 'alterTable' && change.kind !== 'replaceView') return change;
  const views: DependentView[] = [];
  for (const [view, database, catalog] of await dependentViewChains(context, tx, objectId)) {
    if (!view || !database || !catalog) continue;
    const ref = { catalog: { id: catalog.id, name: catalog.name }, database: database.name, view: view.name };
    views.push({ id: view.id, view: ref });
  }
  return views.length === 0 ? change : { ...change, views };
}

export interface DropRecord {
  readonly warehouse: string;
  readonly dropped_at: number;
  readonly dropped_by: string;
  readonly purge_at: number;
}

/**
 * Commits the views that were restored with their container. A view whose sources no longer exist stays dropped, now as an object of its
 * own, for the same retention as its container had. @returns the names of these views.
 */
export async function commitRestoredViews(
  context: CatalogContext,
  tx: Tx,
  intent: IntentRow,
  applied: Applied | undefined,
  record: DropRecord,
): Promise<string[]> {
  const views = applied?.views ?? [];
  const stillDropped: string[] = [];
  for (const view of views) {
    if (view.columns) await recordSourcesByName(context, tx, view.id, view.sources);
    else stillDropped.push(await keepDropped(context, tx, view.id, changeOf(intent), record));
  }
  await updateViewColumns(context, tx, applied, intent.principal);
  return stillDropped;
}

async function keepDropped(
  context: CatalogContext,
  tx: Tx,
  id: string,
  change: Change,
  { warehouse, dropped_at, dropped_by, purge_at }: DropRecord,
): Promise<string> {
  const purge: Change = { kind: 'purge', catalog: catalogOf(change), hidden: [], databases: [] };
  const { name } = await tx
    .updateTable('objects')
    .set({ state: 'dropped', folded_name: droppedName(id) })
    .where('id', '=', id)
    .returning('name')
    .executeTakeFirstOrThrow();
  await tx
    .insertInto('dropped_objects')
    .values({
      object_id: id,
      warehouse,
      dropped_at,
      dropped_by,
      purge_at: context.clock() + purge_at - dropped_at,
      purge: JSON.stringify(purge),
    })
    .execute();
  return name;
}
