// Moves a catalog to another warehouse, as far as the store is concerned: how a move begins, switches and is given up. A second catalog,
// invisible until the switch, has the copy; its id is the id of the catalog from then on. What is copied and proved is not known here.

import { newId } from '../../model/ids.ts';
import { foldName } from '../../model/names.ts';
import type { Actor, Principal } from '../../model/principal.ts';
import type { CatalogSpec, TableSpec, ViewColumn, ViewSpec } from '../../model/records.ts';
import { requireExpectedVersion } from '../../standard/expected_version.ts';
import { objectNotFound } from '../../standard/failure.ts';
import { afterCommit } from '../../store/transactions.ts';
import { isTerminal } from '../../tasks/task_rows.ts';
import { serverOfWarehouse } from '../../tasks/task_server.ts';
import { Blocked, type CatalogContext, type Tx } from '../changes/change_context.ts';
import { recoverOne, serialized } from '../changes/intent_recovery.ts';
import { actorOf, deleteIntent, type IntentRow, insertIntent, leaveState, updateRow } from '../changes/intents.ts';
import { nameKeys } from '../changes/name_locks.ts';
import { appendChange, appendRemoval } from '../changes/object_changes.ts';
import { droppedName, notFound } from '../changes/object_names.ts';
import { addTask } from '../changes/submit_change_task.ts';
import type { CatalogObject, TaskOfChange } from '../object.ts';
import { isVisible, type ObjectRow, versionOfRow } from '../object_rows.ts';
import { leftCopyCategory, leftName, requireNoLeftCopy } from './left_copies.ts';
import { moveGivenUp, requireHeld } from './move_reports.ts';
import { moveGrants } from './moved_grants.ts';

export interface MoveRequest {
  readonly to: string;
  readonly task: TaskOfChange & { readonly principal: Principal };
  readonly principal: Actor;
}

export interface CatalogMove {
  readonly taskId: string;
  /** The catalog, by the id that it has before the switch. */
  readonly catalogId: string;
  /** The id of the copy, and of the catalog after the switch. */
  readonly targetId: string;
  /** The name that the copy has in its engine before the switch. */
  readonly stagedName: string;
  readonly progress: unknown;
  readonly isSwitched: boolean;
}

/** What the switch changes besides the warehouse of the catalog. */
export interface MoveSwitch {
  readonly to: string;
  /** The question with which the writes of other servers were held; undefined: there are none. */
  readonly heldBy: number | undefined;
  /** Stored as the progress of the move. */
  readonly progress: unknown;
  /** When the copy that is left behind may be deleted, in milliseconds since 1970. */
  readonly purgeAt: number;
  /** The columns of views as the new engine has them. */
  readonly viewColumns: ReadonlyMap<string, readonly ViewColumn[]>;
  readonly droppedViews: readonly string[];
  /** New definitions of tables that lose their keys. */
  readonly tables: ReadonlyMap<string, TableSpec>;
}

export const stagedName = (targetId: string): string => `moving_${targetId}`;

/** Submits the task of a move. Until it has ended, definitions in the catalog do not change. @returns the id of the task. */
export async function beginMove(context: CatalogContext, object: CatalogObject, request: MoveRequest): Promise<string> {
  const taskId = await serialized(context, nameKeys(null, object.category, [object.name]), () =>
    context.store.transaction((tx) => begin(context, tx, object, request)),
  );
  context.onTask();
  return taskId;
}

async function begin(
  context: CatalogContext,
  tx: Tx,
  { id, name, category }: CatalogObject,
  { to, task, principal }: MoveRequest,
): Promise<string> {
  const row = await context.statements.byId.first(tx, { id });
  if (!row || !isVisible(row) || row.name !== name) throw notFound(category, name);
  if (row.state !== 'ready') throw new Blocked([row.id]);
  requireExpectedVersion(versionOfRow(row), principal, (effect) => afterCommit(tx, effect));
  const open = await context.statements.openBelow.all(tx, { id, limit: 10 });
  if (open.length > 0) throw new Blocked(open.map(({ object_id }) => object_id));
  if (!(await context.warehouseExists(tx, to)))
    throw objectNotFound('warehouses', to, 'the warehouse no longer exists');
  await requireNoLeftCopy(tx, to, name);
  const left = await interruptedCopies(tx, to);
  if (left.length > 0) throw new Blocked(left);
  const spec = JSON.parse(row.spec) as CatalogSpec;
  const from = spec.warehouse;
  const ownedFrom = context.store.isShared ? await serverOfWarehouse(tx, from) : null;
  const taskId = await addTask(context, tx, task, ownedFrom === null ? to : from, principal);
  const targetId = newId(context.clock());
  const staged = stagedName(targetId);
  const copy: ObjectRow = {
    ...row,
    id: targetId,
    name: staged,
    state: 'creating',
    spec: JSON.stringify({ warehouse: to }),
  };
  await context.statements.insertObject.run(tx, { ...copy, folded_name: foldName(staged), folded_comment: null });
  const catalog = { id: targetId, name: staged };
  await insertIntent(context, tx, {
    id: newId(),
    objectId: targetId,
    verb: 'create',
    warehouse: to,
    change: { kind: 'createCatalog', catalog },
    undo: { kind: 'dropCatalog', catalog },
    taskId,
    principal,
  });
  // Its change is never applied: an interrupted move is undone without the engine.
  await insertIntent(context, tx, {
    id: newId(),
    objectId: id,
    verb: 'update',
    warehouse: from,
    change: { kind: 'createCatalog', catalog: { id, name } },
    next: {},
    taskId,
    principal,
  });
  await leaveState(context, tx, id, 'ready', 'altering');
  appendChange(context, tx, { ...row, state: 'altering' }, { deep: false });
  const move = { task_id: taskId, catalog_id: id, target_id: targetId, progress: '{}', switched_at: null };
  await tx.insertInto('catalog_moves').values(move).execute();
  return taskId;
}

/** Of tasks that have ended, or were deleted since: such a copy may have the name of its catalog in the warehouse, in which another one could not get it. */
async function interruptedCopies(tx: Tx, warehouse: string): Promise<string[]> {
  const rows = await tx
    .selectFrom('intents')
    .innerJoin('objects', 'objects.id', 'intents.object_id')
    .leftJoin('tasks', 'tasks.task_id', 'intents.task_id')
    .select(['object_id', 'tasks.state'])
    .where('intents.warehouse', '=', warehouse)
    .where('intents.task_id', 'is not', null)
    .where('verb', '=', 'create')
    .where('category', '=', 'catalogs')
    .execute();
  return rows.filter(({ state }) => state === null || isTerminal(state)).map(({ object_id }) => object_id);
}

export async function findMove(context: CatalogContext, taskId: string): Promise<CatalogMove | undefined> {
  const row = await context.store.db
    .selectFrom('catalog_moves')
    .selectAll()
    .where('task_id', '=', taskId)
    .executeTakeFirst();
  return (
    row && {
      taskId,
      catalogId: row.catalog_id,
      targetId: row.target_id,
      stagedName: stagedName(row.target_id),
      progress: JSON.parse(row.progress) as unknown,
      isSwitched: row.switched_at !== null,
    }
  );
}

/**
 * Puts the intents of a move into the name of this process, and ends what an earlier attempt held. Throws TASK_INTERRUPTED if the move was given
 * up.
 */
export async function takeMove(context: CatalogContext, taskId: string): Promise<void> {
  await context.store.transaction(async (tx) => {
    const { numUpdatedRows } = await tx
      .updateTable('intents')
      .set(context.leases.newLease(true))
      .where('task_id', '=', taskId)
      .executeTakeFirst();
    if (numUpdatedRows !== 2n) throw moveGivenUp();
    const held = await tx
      .updateTable('catalog_moves')
      .set({ is_held: 0 })
      .where('task_id', '=', taskId)
      .where('is_held', '=', 1)
      .where('switched_at', 'is', null)
      .executeTakeFirst();
    if (held.numUpdatedRows > 0n) context.changes.append(tx, { kind: 'move', taskId });
  });
}

export async function saveMoveProgress(context: CatalogContext, taskId: string, progress: unknown): Promise<void> {
  await context.store.db
    .updateTable('catalog_moves')
    .set({ progress: JSON.stringify(progress) })
    .where('task_id', '=', taskId)
    .where('switched_at', 'is', null)
    .execute();
}

/** From its commit on, every server finds the catalog in its new warehouse. What is left in the old one is purged later. */
export async function switchMove(context: CatalogContext, move: CatalogMove, change: MoveSwitch): Promise<void> {
  const { taskId, catalogId, targetId } = move;
  await context.store.transaction(async (tx) => {
    const intents = await tx.selectFrom('intents').selectAll().where('task_id', '=', taskId).execute();
    const intent = intents.find(({ verb }) => verb === 'update');
    if (intents.length !== 2 || !intent) throw moveGivenUp();
    if (change.heldBy !== undefined) await requireHeld(tx, taskId, change.heldBy);
    for (const each of intents) await deleteIntent(context, tx, each);
    const row = await context.statements.byId.first(tx, { id: catalogId });
    if (!row) throw new Error(`the catalog of the move ${taskId} does not exist`);
    await leaveOldCopy(context, tx, row, intent, change.purgeAt);
    await forgetDropped(tx, catalogId);
    await tx.updateTable('objects').set({ parent_id: targetId }).where('parent_id', '=', catalogId).execute();
    await moveGrants(context, tx, catalogId, targetId);
    await moveReferences(tx, move, intent.warehouse, change.to);
    await changeContents(context, tx, change, intent.principal);
    await tx
      .updateTable('catalog_moves')
      .set({ progress: JSON.stringify(change.progress), switched_at: context.clock() })
      .where('task_id', '=', taskId)
      .execute();
    context.changes.append(tx, { kind: 'move', taskId });
    // An earlier move of the same catalog leads to the current id too. What holds it for a snapshot is no move.
    await tx
      .updateTable('catalog_moves')
      .set({ target_id: targetId })
      .where('target_id', '=', catalogId)
      .whereRef('catalog_id', '!=', 'target_id')
      .execute();
    await takeName(context, tx, row, targetId, { to: change.to, by: intent.principal });
    const details = { from: intent.warehouse, to: change.to };
    await context.trail.append(tx, actorOf(intent), { outcome: '0', objectId: targetId, details });
  });
}

/** The old row is that of a dropped object, which maintenance purges. */
async function leaveOldCopy(
  context: CatalogContext,
  tx: Tx,
  row: ObjectRow,
  { warehouse, principal }: IntentRow,
  purgeAt: number,
): Promise<void> {
  const { id } = row;
  await tx
    .updateTable('objects')
    .set({ category: leftCopyCategory, state: 'dropped', folded_name: droppedName(id) })
    .where('id', '=', id)
    .execute();
  const purge = { kind: 'dropCatalog', catalog: { id, name: leftName(id) } };
  await tx
    .insertInto('dropped_objects')
    .values({
      object_id: id,
      warehouse,
      dropped_at: context.clock(),
      dropped_by: principal,
      purge_at: purgeAt,
      purge: JSON.stringify(purge),
    })
    .execute();
  appendRemoval(context, tx, row, { deep: true });
}

/** Dropped objects in the catalog: their data are only in the old copy. Rows below them follow. */
async function forgetDropped(tx: Tx, catalogId: string): Promise<void> {
  for (const id of await droppedWithin(tx, catalogId)) await tx.deleteFrom('objects').where('id', '=', id).execute();
}

/** The ids of the objects in a catalog that were dropped on their own and can be restored. */
export async function droppedWithin(tx: Pick<Tx, 'selectFrom'>, catalogId: string): Promise<string[]> {
  const rows = await tx
    .selectFrom('dropped_objects')
    .innerJoin('objects', 'objects.id', 'dropped_objects.object_id')
    .leftJoin('objects as parent', 'parent.id', 'objects.parent_id')
    .select('objects.id')
    .where((e) => e.or([e('objects.parent_id', '=', catalogId), e('parent.parent_id', '=', catalogId)]))
    .execute();
  return rows.map(({ id }) => id);
}

/** The copy becomes the catalog. */
async function takeName(
  context: CatalogContext,
  tx: Tx,
  row: ObjectRow,
  targetId: string,
  { to, by }: { readonly to: string; readonly by: string },
): Promise<void> {
  const { name, owner, version, created_at, created_by } = row;
  const spec: CatalogSpec = { ...(JSON.parse(row.spec) as CatalogSpec), warehouse: to };
  await tx
    .updateTable('objects')
    .set({ state: 'ready', version, owner, created_at, created_by })
    .where('id', '=', targetId)
    .where('state', '=', 'creating')
    .execute();
  const moved = await updateRow(context, tx, targetId, { name, spec }, by);
  appendChange(context, tx, moved, { deep: true });
}

/** Rows that refer to the catalog by its id. */
async function moveReferences(tx: Tx, { catalogId, targetId }: CatalogMove, from: string, to: string): Promise<void> {
  await tx
    .updateTable('spent_steps')
    .set({ catalog_id: targetId, warehouse: to })
    .where('catalog_id', '=', catalogId)
    .where('warehouse', '=', from)
    .execute();
  await tx.updateTable('spent_steps').set({ object_id: targetId }).where('object_id', '=', catalogId).execute();
  await tx.updateTable('idempotency_keys').set({ object_id: targetId }).where('object_id', '=', catalogId).execute();
}

async function changeContents(
  context: CatalogContext,
  tx: Tx,
  { viewColumns, droppedViews, tables }: MoveSwitch,
  by: string,
): Promise<void> {
  for (const [id, columns] of viewColumns) {
    const row = await context.statements.byId.first(tx, { id });
    if (!row) continue;
    const spec = JSON.parse(row.spec) as ViewSpec;
    if (JSON.stringify(spec.columns) !== JSON.stringify(columns))
      await updateRow(context, tx, id, { spec: { ...spec, columns } }, by);
  }
  for (const [id, spec] of tables) await updateRow(context, tx, id, { spec }, by);
  for (const id of droppedViews) await tx.deleteFrom('objects').where('id', '=', id).execute();
}

/** Ends a move that did not switch, once its task has ended: deletes the copy, and lets the catalog be changed again. Idempotent. */
export async function settleMove(context: CatalogContext, taskId: string): Promise<void> {
  const elsewhere = await context.warehousesElsewhere();
  const intents = await context.store.db.selectFrom('intents').selectAll().where('task_id', '=', taskId).execute();
  for (const { object_id: id, warehouse } of intents) {
    const row = await context.statements.byId.first(context.store.db, { id });
    if (row && !elsewhere.has(warehouse)) await recoverOne(context, row);
  }
  await context.store.transaction(async (tx) => {
    const moves = tx.deleteFrom('catalog_moves').where('task_id', '=', taskId);
    const { numDeletedRows } = await moves.where('switched_at', 'is', null).executeTakeFirst();
    if (numDeletedRows === 0n) return;
    await tx.deleteFrom('move_reports').where('task_id', '=', taskId).execute();
    context.changes.append(tx, { kind: 'move', taskId });
  });
}
