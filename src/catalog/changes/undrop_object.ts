// Finds, restores and purges dropped objects.
import type { SelectQueryBuilder } from 'kysely';
import type { Change } from '../../engines/port/changes.ts';
import { newId } from '../../model/ids.ts';
import { foldName } from '../../model/names.ts';
import { systemActor } from '../../model/principal.ts';
import { likePattern } from '../../model/text_patterns.ts';
import { type Code, codes } from '../../standard/codes.ts';
import { Failure } from '../../standard/failure.ts';
import { type Batch, bytesOf } from '../../store/row_batches.ts';
import { type Candidate, searchRows } from '../../store/row_search.ts';
import type { Store } from '../../store/store.ts';
import { requireNoLeftCopy } from '../moves/left_copies.ts';
import type {
  CatalogObject,
  Category,
  DroppedObject,
  DroppedPosition,
  DroppedSearchOptions,
  UndropRequest,
  UpdateOutcome,
} from '../object.ts';
import { isVisible, type ObjectRow, objectColumns, textColumns, toRfc3339 } from '../object_rows.ts';
import { commentFilter } from '../object_search.ts';
import { Blocked, type CatalogContext, type Tx } from './change_context.ts';
import { applyFirstAttempt } from './engine_step.ts';
import { serialized } from './intent_recovery.ts';
import { type IntentRow, insertIntent, leaveState, recordFailedAttempt } from './intents.ts';
import { nameKey, nameKeys } from './name_locks.ts';
import { alreadyExists, checkName, checkSharedNames, findSibling, notFound } from './object_names.ts';
import { commitChange, purgeNow, retainedChildren, revertChange } from './soft_delete.ts';
import { addTask, hasPrerequisites } from './submit_change_task.ts';
import { recordSources } from './view_dependencies.ts';

/** Maximum number of objects purged in one round. */
const purgesPerRoundMax = 1000;

const columns = [
  ...objectColumns.map((column) => `objects.${column}` as const),
  'dropped_objects.warehouse',
  'dropped_objects.dropped_at',
  'dropped_objects.dropped_by',
  'dropped_objects.purge_at',
  'dropped_objects.purge',
] as const;

function selectDropped(context: CatalogContext) {
  return context.store.db
    .selectFrom('dropped_objects')
    .innerJoin('objects', 'objects.id', 'dropped_objects.object_id')
    .select(columns)
    .where('objects.state', '=', 'dropped');
}

type DroppedRow = ReturnType<typeof selectDropped> extends SelectQueryBuilder<infer _D, infer _T, infer R> ? R : never;

function toDroppedObject(context: CatalogContext, row: DroppedRow): DroppedObject {
  const { warehouse, dropped_at, dropped_by, purge_at, purge, ...object } = row;
  const change = JSON.parse(purge) as Change;
  return {
    object: context.specs.toObject(object),
    warehouse,
    droppedAt: toRfc3339(dropped_at),
    droppedBy: dropped_by,
    undropUntil: toRfc3339(purge_at),
    originalDatabase: change.kind === 'purge' ? change.hidden[0]?.database : undefined,
  };
}

interface DroppedCandidate extends Candidate {
  readonly name: string;
  readonly isNamed: boolean;
}

/** Ordered by name, then by id, which is the order of creation. */
export async function searchDropped(
  context: CatalogContext,
  parentId: string | null,
  category: Category,
  { after: start, limit, namePattern, comment, keep }: DroppedSearchOptions,
): Promise<Batch<DroppedObject, DroppedPosition>> {
  const fitsName = namePattern === undefined ? () => true : likePattern(namePattern);
  const fitsComment = commentFilter(comment) ?? (() => true);
  return searchRows<DroppedCandidate, DroppedObject>({
    limit,
    idOf: ({ object }) => object.id,
    async next(after, count) {
      const rows = await droppedCandidates(context, parentId, category, after ?? start, count);
      return rows.map((row) => {
        const isNamed = fitsName(row.name) && keep(row);
        return { id: row.id, name: row.name, isNamed, bytes: isNamed ? row.bytes : 0 };
      });
    },
    async examine(batch) {
      const ids = batch.filter(({ isNamed }) => isNamed).map(({ id }) => id);
      if (ids.length === 0) return [];
      const rows = await selectDropped(context)
        .select('folded_comment')
        .where('objects.id', 'in', ids)
        .orderBy('name')
        .orderBy('objects.id')
        .execute();
      return rows
        .filter(({ folded_comment: text }) => fitsComment(text ?? ''))
        .map((row) => toDroppedObject(context, row));
    },
  });
}

function droppedCandidates(
  context: CatalogContext,
  parentId: string | null,
  category: Category,
  after: DroppedPosition | undefined,
  limit: number,
) {
  let query = context.store.db
    .selectFrom('dropped_objects')
    .innerJoin('objects', 'objects.id', 'dropped_objects.object_id')
    .select(['objects.id', 'name', 'owner', bytesOf([...textColumns, 'purge']).as('bytes')])
    .where('state', '=', 'dropped')
    .where('parent_id', parentId === null ? 'is' : '=', parentId)
    .where('category', '=', category)
    .where('purge_at', '>', context.clock())
    .orderBy('name')
    .orderBy('objects.id')
    .limit(limit);
  if (after)
    query = query.where((e) =>
      e.or([e('name', '>', after.name), e.and([e('name', '=', after.name), e('objects.id', '>', after.id)])]),
    );
  return query.execute();
}

/** The dropped objects with this id or name, most recently dropped first. */
export async function findDropped(
  context: CatalogContext,
  parentId: string | null,
  category: Category,
  by: { readonly id: string } | { readonly name: string },
): Promise<DroppedObject[]> {
  const rows = await selectDropped(context)
    .where('parent_id', parentId === null ? 'is' : '=', parentId)
    .where('category', '=', category)
    .where('purge_at', '>', context.clock())
    .where('id' in by ? 'objects.id' : 'objects.name', '=', 'id' in by ? by.id : by.name)
    .orderBy('dropped_at', 'desc')
    .orderBy('objects.id', 'desc')
    .execute();
  return rows.map((row) => toDroppedObject(context, row));
}

/** Throws like `Catalog.create`, and OBJECT_NOT_FOUND if the object has been restored or purged meanwhile. */
export async function undropObject(
  context: CatalogContext,
  { object, warehouse }: DroppedObject,
  request: UndropRequest,
): Promise<UpdateOutcome> {
  const name = request.newName ?? object.name;
  checkName(name);
  const engine = await context.engineOf(warehouse);
  const keys = nameKeys(object.parentId, object.category, [object.name, name], request.sharesNames);
  return serialized(context, keys, async () => {
    const row = await context.statements.byId.first(context.store.db, { id: object.id });
    if (row?.state !== 'dropped') throw notFound(object.category, object.name);
    const change = request.change(await retainedChildren(context, object.id));
    const { task } = request;
    const byTask = task !== undefined && (hasPrerequisites(task) || (await engine.cost(change)) === 'rewrite');
    const begun = await context.store.transaction((tx) =>
      begin(context, tx, { object, warehouse, name, change, byTask }, request),
    );
    if (begun.taskId !== undefined) {
      context.onTask();
      return { taskId: begun.taskId };
    }
    const { intent } = begun;
    const undo = (why: Code) => revertChange(context, intent, why);
    return context.leases.whileHeld(intent, async (lost) => {
      const applied = await applyFirstAttempt(context, engine, intent, request.principal, lost, undo);
      return { object: await commitChange(context, intent, applied) };
    });
  });
}

interface PlannedUndrop {
  readonly object: CatalogObject;
  readonly warehouse: string;
  readonly name: string;
  readonly change: Change;
  readonly byTask: boolean;
}

async function begin(
  context: CatalogContext,
  tx: Tx,
  { object, warehouse, name, change, byTask }: PlannedUndrop,
  { principal, task, sharesNames, sources, spec }: UndropRequest,
): Promise<{ readonly intent: IntentRow; readonly taskId: string | undefined }> {
  const row = await context.statements.byId.first(tx, { id: object.id });
  if (row?.state !== 'dropped') throw notFound(object.category, object.name);
  await checkParents(context, tx, row);
  const sibling = await findSibling(context.statements, tx, row.parent_id, row.category, name);
  if (sibling && isVisible(sibling)) throw alreadyExists(row.category, name, sibling.name);
  if (sibling) throw new Blocked([sibling.id]);
  await checkSharedNames(context, tx, row.parent_id, name, sharesNames);
  if (row.category === 'catalogs') await requireNoLeftCopy(tx, warehouse, name);
  if (sources) await recordSources(context, tx, row.id, sources);
  const open = await context.statements.openBelow.all(tx, { id: row.id, limit: 10 });
  if (open.length > 0) throw new Blocked(open.map(({ object_id }) => object_id));
  const taskId = byTask && task ? await addTask(context, tx, { ...task, principal }, warehouse, principal) : undefined;
  const intent = await insertIntent(context, tx, {
    id: newId(),
    objectId: row.id,
    verb: 'undrop',
    warehouse,
    change,
    next: { was: row.name, ...(spec === undefined ? {} : { spec }) },
    taskId,
    principal,
  });
  const { numUpdatedRows } = await tx
    .updateTable('objects')
    .set({ state: 'restoring', name, folded_name: foldName(name) })
    .where('id', '=', row.id)
    .where('state', '=', 'dropped')
    .executeTakeFirst();
  if (numUpdatedRows !== 1n) throw new Blocked([row.id]);
  return { intent, taskId };
}

async function checkParents(context: CatalogContext, tx: Tx, row: ObjectRow): Promise<void> {
  const parents = (await context.statements.ancestors.all(tx, { id: row.id })).slice(1);
  for (const parent of parents) if (!isVisible(parent)) throw notFound(parent.category, parent.name);
  const altering = parents.filter(({ state }) => state !== 'ready').map(({ id }) => id);
  if (altering.length > 0) throw new Blocked(altering);
}

/** The catalogs that a move leaves behind: it gives the copy the name by which it is purged after its switch. */
const ofUnfinishedMoves = (db: Store['db']) =>
  db
    .selectFrom('catalog_moves')
    .innerJoin('tasks', 'tasks.task_id', 'catalog_moves.task_id')
    .where('ended_at', 'is', null)
    .select('catalog_id');

/** Purges objects whose retention has expired. A failure does not stop the others; the next round retries. */
export async function purgeDue(context: CatalogContext): Promise<void> {
  const elsewhere = [...(await context.warehousesElsewhere())];
  const due = await context.store.db
    .selectFrom('dropped_objects')
    .innerJoin('objects', 'objects.id', 'dropped_objects.object_id')
    .select(['objects.id', 'parent_id', 'category', 'name'])
    .where('state', '=', 'dropped')
    .where('purge_at', '<=', context.clock())
    .$if(elsewhere.length > 0, (query) => query.where('warehouse', 'not in', elsewhere))
    .where('objects.id', 'not in', ofUnfinishedMoves(context.store.db))
    .orderBy('purge_at')
    .limit(purgesPerRoundMax)
    .execute();
  for (const { id, parent_id, category, name } of due) {
    try {
      await context.locks.tryHold(nameKey(parent_id, category, name), () => purge(context, id));
    } catch (error) {
      // The warehouse is suspended or starting; a later round succeeds.
      if (error instanceof Failure && codes[error.code].status === 503) continue;
      context.observe({ kind: 'backgroundError', what: 'purge of a dropped object', error });
    }
  }
}

async function purge(context: CatalogContext, id: string): Promise<void> {
  const intent = await context.store.transaction(async (tx) => {
    const row = await context.statements.byId.first(tx, { id });
    const dropped = await tx.selectFrom('dropped_objects').selectAll().where('object_id', '=', id).executeTakeFirst();
    if (row?.state !== 'dropped' || !dropped || dropped.purge_at > context.clock()) return undefined;
    const parents = (await context.statements.ancestors.all(tx, { id })).slice(1);
    // While its catalog is dropped too, the engine cannot reach the object; it is purged or restored with the catalog.
    if (parents.at(-1)?.state === 'dropped') return undefined;
    if (parents.some(({ state }) => state !== 'ready' && state !== 'dropped')) return undefined;
    if ((await context.statements.openBelow.first(tx, { id, limit: 1 })) !== undefined) return undefined;
    await leaveState(context, tx, id, 'dropped', 'purging');
    return insertIntent(context, tx, {
      id: newId(),
      objectId: id,
      verb: 'purge',
      warehouse: dropped.warehouse,
      change: withCurrentCatalogName(JSON.parse(dropped.purge) as Change, parents.at(-1)),
      principal: { ...systemActor, action: 'undrop.expire' },
    });
  });
  if (!intent) return;
  try {
    await context.leases.whileHeld(intent, (lost) => purgeNow(context, intent, lost));
  } catch (error) {
    await recordFailedAttempt(context, intent, error);
    context.scheduleRecovery();
    throw error;
  }
}

/** The catalog may have been renamed since the object was dropped. */
function withCurrentCatalogName(change: Change, root: { readonly name: string } | undefined): Change {
  if (change.kind !== 'purge' || root === undefined) return change;
  return { ...change, catalog: { ...change.catalog, name: root.name } };
}
