// Soft delete: how a drop, an undrop and a purge end. While a dropped object is retained, its row and those of its contents are in state
// `dropped`, its name is free, and its grants remain, because they refer to its id.
import { sql } from 'kysely';
import { type Change, catalogOf, type DroppedTable } from '../../engines/port/changes.ts';
import type { Applied } from '../../engines/port/views.ts';
import { foldName } from '../../model/names.ts';
import type { Code } from '../../standard/codes.ts';
import { visible } from '../../store/index_conditions.ts';
import type { Store } from '../../store/store.ts';
import type { CatalogObject, DroppedChildren } from '../object.ts';
import { type ObjectRow, objectColumns, toRfc3339 } from '../object_rows.ts';
import { idsPerQueryMax } from '../statements.ts';
import type { CatalogContext, Tx } from './change_context.ts';
import { applyStep, limitedBy } from './engine_step.ts';
import {
  actorOf,
  changeOf,
  changing,
  commitUpdate,
  deleteIntent,
  type IntentRow,
  nextOf,
  removeObject,
  revert,
  updateRow,
} from './intents.ts';
import { appendChange, noteRelocated } from './object_changes.ts';
import { droppedName, findSibling } from './object_names.ts';
import { commitRestoredViews } from './view_updates.ts';

/** The visible children of an object, and the tables dropped earlier that the engine still stores. */
export async function childrenOf(tx: Tx, id: string): Promise<DroppedChildren> {
  const children = await tx
    .selectFrom('objects')
    .select(['id', 'category', 'name'])
    .where('parent_id', '=', id)
    .where(visible)
    .execute();
  return { children, hidden: await hiddenTablesIn(tx, id) };
}

async function hiddenTablesIn(db: Store['db'], id: string): Promise<DroppedTable[]> {
  const rows = await db
    .selectFrom('dropped_objects')
    .innerJoin('objects', 'objects.id', 'dropped_objects.object_id')
    .select('purge')
    .where('parent_id', '=', id)
    .execute();
  return rows.flatMap(({ purge }) => hiddenTablesOf(JSON.parse(purge) as Change));
}

const hiddenTablesOf = (change: Change): readonly DroppedTable[] => (change.kind === 'purge' ? change.hidden : []);

/** The contents of a dropped object when it was dropped, on all levels. */
export async function retainedChildren(context: CatalogContext, id: string): Promise<CatalogObject[]> {
  const found: CatalogObject[] = [];
  for (let parents = [id]; parents.length > 0; ) {
    const rows: ObjectRow[] = [];
    for (let start = 0; start < parents.length; start += idsPerQueryMax)
      rows.push(...(await childrenDroppedWith(context, parents.slice(start, start + idsPerQueryMax))));
    found.push(...rows.map((row) => context.specs.toObject(row)));
    parents = rows.map((row) => row.id);
  }
  return found;
}

function childrenDroppedWith(context: CatalogContext, parents: readonly string[]): Promise<ObjectRow[]> {
  return context.store.db
    .selectFrom('objects')
    .select(objectColumns)
    .where('parent_id', 'in', parents)
    .where('state', '=', 'dropped')
    .where('id', 'not in', (q) => q.selectFrom('dropped_objects').select('object_id'))
    .orderBy('name')
    .execute();
}

/** Ends a drop: the object is retained for an undrop, or deleted. */
export async function commitDrop(context: CatalogContext, intent: IntentRow): Promise<void> {
  const { keep } = nextOf(intent);
  if (!keep) return removeObject(context, intent, '0');
  const { object_id: id, warehouse, principal } = intent;
  await context.store.transaction(async (tx) => {
    await deleteIntent(context, tx, intent);
    const purge = withHiddenTables(keep.purge, changeOf(intent));
    await tx
      .insertInto('dropped_objects')
      .values({
        object_id: id,
        warehouse,
        dropped_at: context.clock(),
        dropped_by: principal,
        purge_at: keep.purgeAt,
        purge: JSON.stringify(purge),
      })
      .execute();
    appendChange(context, tx, await markDropped(tx, intent, {}), { deep: false });
    await setStateBelow(tx, id, 'ready', 'dropped');
    const details = { undropUntil: toRfc3339(keep.purgeAt) };
    await context.trail.append(tx, actorOf(intent), { outcome: '0', objectId: id, details });
  });
}

/** Gives the object of an intent the state `dropped`, in which its name is free. */
async function markDropped(tx: Tx, intent: IntentRow, columns: { readonly name?: string }): Promise<ObjectRow> {
  const { object_id: id, verb } = intent;
  return await tx
    .updateTable('objects')
    .set({ state: 'dropped', folded_name: droppedName(id), ...columns })
    .where('id', '=', id)
    .where('state', 'in', [changing[verb], 'blocked'])
    .returning(objectColumns)
    .executeTakeFirstOrThrow();
}

/** The purge of a database also deletes the tables that were hidden with it. */
function withHiddenTables(purge: Change, hidden: Change): Change {
  if (purge.kind !== 'purge' || hidden.kind !== 'hideDatabase') return purge;
  const { database, tables } = hidden;
  return { ...purge, hidden: tables.map(({ id }) => ({ database: database.database, id })) };
}

/** Changes the state of all descendants, except those that were dropped on their own and everything below them. */
async function setStateBelow(tx: Tx, id: string, from: ObjectRow['state'], to: ObjectRow['state']): Promise<void> {
  await sql`
    with recursive below(id) as (
      select id from objects where parent_id = ${id} and state = ${from}
        and id not in (select object_id from dropped_objects)
      union all
      select objects.id from objects join below on objects.parent_id = below.id
        where objects.state = ${from} and objects.id not in (select object_id from dropped_objects)
    )
    update objects set state = ${to} where id in (select id from below)`.execute(tx);
}

/** Ends an update or an undrop. */
export function commitChange(
  context: CatalogContext,
  intent: IntentRow,
  applied: Applied | undefined,
): Promise<CatalogObject> {
  return intent.verb === 'undrop' ? commitUndrop(context, intent, applied) : commitUpdate(context, intent, applied);
}

/** Ends an update, a drop or an undrop that did not happen. */
export function revertChange(context: CatalogContext, intent: IntentRow, why: Code): Promise<void> {
  return intent.verb === 'undrop' ? revertUndrop(context, intent, why) : revert(context, intent, why);
}

async function commitUndrop(
  context: CatalogContext,
  intent: IntentRow,
  applied: Applied | undefined,
): Promise<CatalogObject> {
  const { object_id: id, task_id, warehouse } = intent;
  const row = await context.store.transaction(async (tx) => {
    await deleteIntent(context, tx, intent);
    const dropRecord = await tx
      .selectFrom('dropped_objects')
      .selectAll()
      .where('object_id', '=', id)
      .executeTakeFirstOrThrow();
    await tx.deleteFrom('dropped_objects').where('object_id', '=', id).execute();
    await setStateBelow(tx, id, 'dropped', 'ready');
    if (task_id !== null) {
      // If the task runs again after a crash, it finds here that its work is done.
      const catalog_id = catalogOf(changeOf(intent)).id;
      await tx
        .insertInto('spent_steps')
        .values({ step: intent.id, warehouse, catalog_id, object_id: id, task_id, not_before: null })
        .execute();
    }
    const { spec } = nextOf(intent);
    const restored = await updateRow(context, tx, id, spec === undefined ? {} : { spec }, intent.principal, intent);
    const viewsLeft = await commitRestoredViews(context, tx, intent, applied, dropRecord);
    const details = { name: restored.name, ...(viewsLeft.length === 0 ? {} : { viewsLeft }) };
    await context.trail.append(tx, actorOf(intent), { outcome: '0', objectId: id, details });
    appendChange(context, tx, restored, { deep: true });
    return restored;
  });
  noteRelocated(context, row);
  return context.specs.toObject(row);
}

async function revertUndrop(context: CatalogContext, intent: IntentRow, why: Code): Promise<void> {
  const { object_id: id } = intent;
  const { was: nameWhenDropped = '' } = nextOf(intent);
  await context.store.transaction(async (tx) => {
    await deleteIntent(context, tx, intent);
    const row = await markDropped(tx, intent, { name: nameWhenDropped });
    appendChange(context, tx, row, { deep: false });
    await context.trail.append(tx, actorOf(intent), { outcome: why, objectId: id });
  });
}

/** Applies and commits a purge. The caller holds the lock of the object's former name. Throws if it is not possible now. */
export async function purgeNow(context: CatalogContext, intent: IntentRow, lost: AbortSignal): Promise<void> {
  const row = await context.statements.byId.first(context.store.db, { id: intent.object_id });
  if (!row) return;
  const engine = await context.engineOf(intent.warehouse);
  const change = await withoutReusedNames(context, row, changeOf(intent));
  const outcome = await applyStep(context, engine, intent, limitedBy(lost), change);
  if (outcome.kind !== 'done') throw outcome.error;
  await removeObject(context, intent, '0');
}

/** Another object may have the former name by now; the schema of that name in the engine belongs to it and is not deleted. */
async function withoutReusedNames(context: CatalogContext, row: ObjectRow, change: Change): Promise<Change> {
  if (change.kind !== 'purge') return change;
  const databases: string[] = [];
  for (const name of change.databases) {
    const isRow = foldName(name) === foldName(row.name);
    if (isRow && !(await findSibling(context.statements, context.store.db, row.parent_id, row.category, name)))
      databases.push(name);
  }
  const hidden = await hiddenTablesIn(context.store.db, row.id);
  return { ...change, databases, hidden: [...change.hidden, ...hidden] };
}
