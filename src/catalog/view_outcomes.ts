// What a change made of views besides what it was about, written down in the transaction that ends it: columns that are others now,
// and views that came back with what holds them, or could not.
import type { Change } from '../engines/engine.ts';
import type { Applied, AppliedView, DependentView, ViewSource } from '../engines/views.ts';
import { type CatalogContext, changeCatalog, isVisible, siblingOf, type Tx } from './context.ts';
import { hiddenName } from './hidden_name.ts';
import { changeOf, type IntentRow, noteColumns } from './intents.ts';
import type { ObjectRow } from './object_rows.ts';
import { reachedViews, replaceSources } from './view_sources.ts';

/** A change that views may not survive, with those that it reaches. */
export async function withReachedViews(
  context: CatalogContext,
  tx: Tx,
  objectId: string,
  change: Change,
): Promise<Change> {
  if (change.kind !== 'alterTable' && change.kind !== 'replaceView') return change;
  const views: DependentView[] = [];
  for (const [view, database, catalog] of await reachedViews(context, tx, objectId)) {
    if (!view || !database || !catalog) continue;
    const ref = { catalog: { id: catalog.id, name: catalog.name }, database: database.name, view: view.name };
    views.push({ id: view.id, view: ref });
  }
  return views.length === 0 ? change : { ...change, views };
}

export interface Kept {
  readonly warehouse: string;
  readonly dropped_at: number;
  readonly dropped_by: string;
  readonly purge_at: number;
}

/**
 * Views that came back with what holds them. One whose sources have gone meanwhile stays dropped, now by itself, for as long again as
 * what held it was kept. @returns the names of these.
 */
export async function settleRestored(
  context: CatalogContext,
  tx: Tx,
  intent: IntentRow,
  applied: Applied | undefined,
  was: Kept,
): Promise<string[]> {
  const views = applied?.views ?? [];
  const left: string[] = [];
  for (const view of views) {
    if (view.columns) await recordRestored(context, tx, view);
    else left.push(await leaveDropped(context, tx, view.id, changeOf(intent), was));
  }
  await noteColumns(context, tx, applied, intent.principal);
  return left;
}

async function recordRestored(context: CatalogContext, tx: Tx, { id, sources = [] }: AppliedView): Promise<void> {
  const rows = new Map<string, { source_id: string; uses: number }>();
  for (const source of sources) {
    const source_id = await idOfSource(context, tx, source);
    // It went between the engine's step and now: the step is done again, and leaves the view out.
    if (source_id === undefined) throw new Error(`the view ${id} came back, and what it is made of went`);
    rows.set(source_id, { source_id, uses: (rows.get(source_id)?.uses ?? 0) + source.uses });
  }
  await replaceSources(tx, id, [...rows.values()]);
}

async function idOfSource(context: CatalogContext, tx: Tx, { name, isView }: ViewSource): Promise<string | undefined> {
  const path = [
    ['catalogs', name.catalog],
    ['databases', name.database],
    [isView ? 'views' : 'tables', name.table],
  ] as const;
  let id: string | null = null;
  for (const [category, one] of path) {
    const row: ObjectRow | undefined = await siblingOf(context, tx, id, category, one);
    if (!row || !isVisible(row)) return undefined;
    id = row.id;
  }
  return id ?? undefined;
}

async function leaveDropped(
  context: CatalogContext,
  tx: Tx,
  id: string,
  change: Change,
  { warehouse, dropped_at, dropped_by, purge_at }: Kept,
): Promise<string> {
  const purge: Change = { kind: 'purge', catalog: changeCatalog(change), hidden: [], databases: [] };
  const { name } = await tx
    .updateTable('objects')
    .set({ state: 'dropped', folded_name: hiddenName(id) })
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
