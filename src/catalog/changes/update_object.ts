// Updates the spec, the owner or the name of an object. Without an engine this is one transaction. With one it is an intent, the engine's
// step and the commit; if data has to be rewritten, it is an intent and a task that does the rest.
import { isDeepStrictEqual } from 'node:util';
import type { Change, ChangeCost } from '../../engines/port/changes.ts';
import type { WorkOptions } from '../../engines/port/work.ts';
import { newId } from '../../model/ids.ts';
import { foldName } from '../../model/names.ts';
import type { Actor } from '../../model/principal.ts';
import type { Code } from '../../standard/codes.ts';
import { ObjectChanged, requireExpectedVersion } from '../../standard/expected_version.ts';
import { Failure } from '../../standard/failure.ts';
import { visible } from '../../store/index_conditions.ts';
import { afterCommit } from '../../store/transactions.ts';
import { HandedBack, RetryableError } from '../../tasks/task.ts';
import { requireNoLeftCopy } from '../moves/left_copies.ts';
import type { CatalogObject, UpdateOutcome, UpdateRequest } from '../object.ts';
import { isVisible, type ObjectRow, objectColumns, versionOfRow } from '../object_rows.ts';
import { Blocked, type CatalogContext, type CatalogEngine, type Tx } from './change_context.ts';
import { checkChangePath, namesOf, requireReadyChain } from './change_path.ts';
import { applyFirstAttempt, applyStep } from './engine_step.ts';
import { serialized } from './intent_recovery.ts';
import {
  changedFields,
  commitUpdate,
  type IntentRow,
  insertIntent,
  leaveState,
  type NextRow,
  revert,
  updateRow,
} from './intents.ts';
import { nameKeys } from './name_locks.ts';
import { appendChange, noteRelocated } from './object_changes.ts';
import { alreadyExists, checkName, checkSharedNames, findSibling, notFound } from './object_names.ts';
import { commitChange, revertChange } from './soft_delete.ts';
import { addTask, hasPrerequisites } from './submit_change_task.ts';
import {
  recordSources,
  replaceSources,
  requireNameFree,
  requireSourcesUnchanging,
  sourcesOf,
} from './view_dependencies.ts';
import { withDependentViews } from './view_updates.ts';

type Begun =
  | { readonly kind: 'done'; readonly row: ObjectRow }
  | { readonly kind: 'task'; readonly taskId: string }
  | { readonly kind: 'intent'; readonly intent: IntentRow };

export async function updateObject(
  context: CatalogContext,
  object: CatalogObject,
  request: UpdateRequest,
): Promise<UpdateOutcome> {
  if (request.name !== undefined) checkName(request.name);
  const { change, warehouse } = request;
  const engine = change && warehouse !== undefined ? await context.engineOf(warehouse) : undefined;
  if (change && !engine) throw new Error('a change requires a warehouse');
  const names = [object.name, request.name ?? object.name];
  const keys = nameKeys(object.parentId, object.category, names, request.sharesNames);
  return serialized(context, keys, async () => {
    const byTask =
      change !== undefined &&
      engine !== undefined &&
      request.task !== undefined &&
      (hasPrerequisites(request.task) || (await estimateCost(context, engine, change, object)) === 'rewrite');
    const begun = await context.store.transaction((tx) => begin(context, tx, object, request, byTask));
    if (begun.kind === 'done') return { object: context.specs.toObject(begun.row) };
    if (begun.kind === 'task') {
      context.onTask();
      return { taskId: begun.taskId };
    }
    return { object: await applyAndCommit(context, engine as CatalogEngine, begun.intent, request.principal) };
  });
}

/** Runs before the intent is written, so the object may have been renamed meanwhile; such an error becomes ObjectChanged. */
async function estimateCost(
  context: CatalogContext,
  engine: CatalogEngine,
  change: Change,
  object: CatalogObject,
): Promise<ChangeCost> {
  try {
    return await engine.cost(change);
  } catch (error) {
    await context.store.transaction(async (tx) => {
      const row = await requireCurrentRow(context, tx, object, undefined);
      checkChangePath(change, namesOf(await requireReadyChain(context, tx, { ...object, name: row.name })));
    });
    throw error;
  }
}

async function begin(
  context: CatalogContext,
  tx: Tx,
  object: CatalogObject,
  request: UpdateRequest,
  byTask: boolean,
): Promise<Begun> {
  const row = await requireCurrentRow(context, tx, object, request.expectedVersion);
  requireExpectedVersion(versionOfRow(row), request.principal, (effect) => afterCommit(tx, effect));
  const chain = await requireReadyChain(context, tx, { ...object, name: row.name });
  const next = nextRow(row, request);
  const { change, warehouse } = request;
  if (!change || warehouse === undefined) {
    if (Object.keys(next).length === 0 && !request.inTransaction) return { kind: 'done', row };
    if (next.name !== undefined) await checkNewName(context, tx, row, next.name, request);
    const updated = await updateRow(context, tx, row.id, next, request.principal.name);
    await request.inTransaction?.(tx);
    const details = changedFields(next);
    await context.trail.append(tx, request.principal, { outcome: '0', objectId: row.id, details });
    appendChange(context, tx, updated, { deep: next.name !== undefined || next.owner !== undefined });
    if (next.name !== undefined) afterCommit(tx, () => noteRelocated(context, updated));
    return { kind: 'done', row: updated };
  }
  checkChangePath(change, namesOf(chain));
  if (request.children) await checkChildren(tx, row, request.children);
  if (next.name !== undefined) await checkNewName(context, tx, row, next.name, request);
  const sources = 'view' in change ? await stageSources(context, tx, row.id, request.sources) : undefined;
  const reservationId = next.name === undefined ? undefined : await reserveName(context, tx, row, next.name);
  const { principal } = request;
  const task = byTask && request.task ? { ...request.task, principal } : undefined;
  const taskId = task && (await addTask(context, tx, task, request.warehouse, principal));
  const intent = await insertIntent(context, tx, {
    id: newId(),
    objectId: row.id,
    verb: 'update',
    warehouse,
    change: await withDependentViews(context, tx, row.id, change),
    next: { ...next, ...(reservationId === undefined ? {} : { reservationId }), ...(sources && { sources }) },
    taskId,
    principal,
  });
  await leaveState(context, tx, row.id, 'ready', 'altering');
  appendChange(context, tx, { ...row, state: 'altering' }, { deep: false });
  return taskId !== undefined ? { kind: 'task', taskId } : { kind: 'intent', intent };
}

/** The current row. Throws unless it is still the version that the caller has read. */
async function requireCurrentRow(
  context: CatalogContext,
  tx: Tx,
  object: CatalogObject,
  expectedVersion: number | undefined,
): Promise<ObjectRow> {
  const row = await context.statements.byId.first(tx, { id: object.id });
  if (!row || !isVisible(row)) throw notFound(object.category, object.name);
  if (row.state !== 'ready') throw new Blocked([row.id]);
  // Checked before the version: `expectedVersion` refers to the object that has this name now.
  if (row.name !== object.name) throw new ObjectChanged(row.id);
  if (expectedVersion !== undefined && expectedVersion !== row.version) {
    const message = `the version is ${row.version}, not ${expectedVersion}`;
    throw new Failure('VERSION_CONFLICT', message, { version: row.version });
  }
  if (row.version !== object.version) throw new ObjectChanged(row.id);
  return row;
}

function nextRow(row: ObjectRow, request: UpdateRequest): NextRow {
  const { spec, owner, name } = request;
  // Compared in stored form, in which absent and undefined are equal.
  const sameSpec = spec === undefined || isDeepStrictEqual(JSON.parse(JSON.stringify(spec)), JSON.parse(row.spec));
  return {
    ...(sameSpec ? {} : { spec }),
    ...(owner === undefined || owner === row.owner ? {} : { owner }),
    ...(name === undefined || name === row.name ? {} : { name }),
  };
}

async function checkChildren(
  tx: Tx,
  row: ObjectRow,
  { category, expected }: NonNullable<UpdateRequest['children']>,
): Promise<void> {
  const children = await tx
    .selectFrom('objects')
    .select(['id', 'version'])
    .where('parent_id', '=', row.id)
    .where('category', '=', category)
    .where(visible)
    .execute();
  const versions = new Map(children.map(({ id, version }) => [id, version]));
  if (versions.size !== expected.length || expected.some(({ id, version }) => versions.get(id) !== version)) {
    throw new ObjectChanged(row.id);
  }
}

async function checkNewName(
  context: CatalogContext,
  tx: Tx,
  row: ObjectRow,
  name: string,
  { sharesNames, warehouse }: UpdateRequest,
): Promise<void> {
  if (row.category === 'catalogs' && warehouse !== undefined) await requireNoLeftCopy(tx, warehouse, name);
  await requireNameFree(context, tx, row.id);
  await checkSharedNames(context, tx, row.parent_id, name, sharesNames);
  const open = await context.statements.openBelow.all(tx, { id: row.id, limit: 10 });
  if (open.length > 0) throw new Blocked(open.map(({ object_id }) => object_id));
  const sibling = await findSibling(context.statements, tx, row.parent_id, row.category, name);
  if (!sibling || sibling.id === row.id) return;
  if (isVisible(sibling)) throw alreadyExists(row.category, name, sibling.name);
  throw new Blocked([sibling.id]);
}

/** Until the outcome of the change is known, the view depends on the sources of both its old and its new text. */
async function stageSources(
  context: CatalogContext,
  tx: Tx,
  viewId: string,
  sources: UpdateRequest['sources'],
): Promise<NextRow['sources']> {
  await requireSourcesUnchanging(context, tx, viewId);
  if (!sources) return undefined;
  const was = await sourcesOf(tx, viewId);
  await recordSources(context, tx, viewId, sources);
  const is = await sourcesOf(tx, viewId);
  const isNew = new Set(is.map((row) => row.source_id));
  await replaceSources(tx, viewId, [...is, ...was.filter((row) => !isNew.has(row.source_id))]);
  return { was, is };
}

/** Between the intent and the commit both names are taken: the old one by the object, the new one by a placeholder row. */
async function reserveName(context: CatalogContext, tx: Tx, row: ObjectRow, name: string): Promise<string | undefined> {
  if (foldName(name) === foldName(row.name)) return undefined;
  const id = newId();
  const inserted = await context.statements.insertObject.run(tx, {
    ...row,
    id,
    name,
    folded_name: foldName(name),
    folded_comment: null,
    state: 'creating',
    spec: '{}',
  });
  if (inserted !== 1) throw new ObjectChanged(row.id);
  return id;
}

async function applyAndCommit(
  context: CatalogContext,
  engine: CatalogEngine,
  intent: IntentRow,
  principal: Actor,
): Promise<CatalogObject> {
  const undo = (why: Code) => revert(context, intent, why);
  return context.leases.whileHeld(intent, async (lost) =>
    commitUpdate(context, intent, await applyFirstAttempt(context, engine, intent, principal, lost, undo)),
  );
}

/**
 * The work of a task that rewrites data. Throws the engine's Failure if the change is refused (it is reverted then), a RetryableError if
 * the outcome is unknown, and what the engine throws if the task is handed back: the change stays open then.
 */
export async function runIntent(context: CatalogContext, taskId: string, options: WorkOptions): Promise<CatalogObject> {
  const { signal } = options;
  const intent = await intentOfTask(context, taskId);
  if (!intent) return committedObject(context, taskId);
  if (context.applying.has(intent.id)) throw new RetryableError('the change is still being applied');
  context.applying.add(intent.id);
  try {
    const engine = await context.engineOf(intent.warehouse);
    // Durable before the engine is called: from here on the change may have been applied. An earlier runner that lost the task stops.
    await context.store.db
      .updateTable('intents')
      .set((e) => ({ attempts: e('attempts', '+', 1), ...context.leases.newLease(true) }))
      .where('id', '=', intent.id)
      .execute();
    const outcome = await applyStep(context, engine, intent, options);
    if (outcome.kind === 'done') return await commitChange(context, intent, outcome.applied);
    const handedBack = signal.aborted && signal.reason instanceof HandedBack;
    if (outcome.kind === 'refused' && !handedBack) await revertChange(context, intent, outcome.error.code);
    throw outcome.error;
  } catch (error) {
    if (error instanceof Failure) throw error;
    throw new RetryableError('the change was interrupted', { cause: error });
  } finally {
    context.applying.delete(intent.id);
  }
}

export function intentOfTask(context: CatalogContext, taskId: string): Promise<IntentRow | undefined> {
  return context.store.db.selectFrom('intents').selectAll().where('task_id', '=', taskId).executeTakeFirst();
}

/** The object of a task whose change was committed before the process ended and could record the end of the task. */
export async function committedObject(context: CatalogContext, taskId: string): Promise<CatalogObject> {
  const row = await context.store.db
    .selectFrom('spent_steps')
    .innerJoin('objects', 'objects.id', 'spent_steps.object_id')
    .select(objectColumns.map((column) => `objects.${column}` as const))
    .where('spent_steps.task_id', '=', taskId)
    .executeTakeFirst();
  if (row) return context.specs.toObject(row);
  throw new Failure('TASK_INTERRUPTED', 'the change was undone after an interruption');
}
