// What a change made of views besides what it was about, written down in the transaction that ends it: columns that are others now,
// and views that came back with what holds them, or could not.
import type { Change } from '../../engines/engine.ts';
import type { Applied, DependentView } from '../../engines/views.ts';
import { type CatalogContext, changeCatalog, type Tx } from './change_context.ts';
import { droppedName } from './dropped_name.ts';
import { changeOf, type IntentRow, updateViewColumns } from './intents.ts';
import { dependentViewChains, recordSourcesByName } from './view_dependencies.ts';

/** A change that views may not survive, with those that it reaches. */
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
 * Views that came back with what holds them. One whose sources have gone meanwhile stays dropped, now by itself, for as long again as
 * what held it was kept. @returns the names of these.
 */
export async function commitRestoredViews(
  context: CatalogContext,
  tx: Tx,
  intent: IntentRow,
  applied: Applied | undefined,
  was: DropRecord,
): Promise<string[]> {
  const views = applied?.views ?? [];
  const left: string[] = [];
  for (const view of views) {
    if (view.columns) await recordSourcesByName(context, tx, view.id, view.sources);
    else left.push(await keepDropped(context, tx, view.id, changeOf(intent), was));
  }
  await updateViewColumns(context, tx, applied, intent.principal);
  return left;
}

async function keepDropped(
  context: CatalogContext,
  tx: Tx,
  id: string,
  change: Change,
  { warehouse, dropped_at, dropped_by, purge_at }: DropRecord,
): Promise<string> {
  const purge: Change = { kind: 'purge', catalog: changeCatalog(change), hidden: [], databases: [] };
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
