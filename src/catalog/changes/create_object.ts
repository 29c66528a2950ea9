// Creates an object. With an engine: inserts an invisible row and an intent, applies the engine's step, then makes the row visible.
import assert from 'node:assert/strict';
import type { Change } from '../../engines/port/changes.ts';
import { newId } from '../../model/ids.ts';
import { foldName } from '../../model/names.ts';
import type { Actor } from '../../model/principal.ts';
import type { Code } from '../../standard/codes.ts';
import { objectNotFound } from '../../standard/failure.ts';
import type { ObjectsTable } from '../../store/schema.ts';
import { requireNoLeftCopy } from '../moves/left_copies.ts';
import type { CatalogObject, CreateRequest } from '../object.ts';
import { foldedComment, isVisible, type ObjectRow } from '../object_rows.ts';
import { Blocked, type CatalogContext, type CatalogEngine, type Tx } from './change_context.ts';
import { checkChangePath, namesOf, requireReadyChain } from './change_path.ts';
import { applyFirstAttempt } from './engine_step.ts';
import { serialized } from './intent_recovery.ts';
import { commitCreate, type IntentRow, insertIntent, recordFailedAttempt, removeObject } from './intents.ts';
import { nameKeys } from './name_locks.ts';
import { appendChange } from './object_changes.ts';
import { alreadyExists, checkName, checkSharedNames, findSibling } from './object_names.ts';
import { addTask } from './submit_change_task.ts';
import { recordSources } from './view_dependencies.ts';

export interface Created {
  readonly object: CatalogObject;
  readonly created: boolean;
  readonly taskId?: undefined;
}

export interface Submitted {
  readonly taskId: string;
}

interface PlannedCreation {
  readonly row: ObjectsTable;
  readonly change: Change | undefined;
  readonly undo: Change | undefined;
}

export async function createObject(context: CatalogContext, request: CreateRequest): Promise<Created | Submitted> {
  const { parent, category, name, warehouse } = request;
  checkName(name);
  const parentId = parent?.id ?? null;
  // Checked first, so that a request for an existing object needs no engine.
  const existing = await findSibling(context.statements, context.store.db, parentId, category, name);
  if (existing && isVisible(existing)) return answerExisting(context, request, existing);
  const planned = plan(context, request);
  const engine = planned.change && warehouse !== undefined ? await context.engineOf(warehouse) : undefined;
  return serialized(context, nameKeys(parentId, category, [name], request.sharesNames), async () => {
    const begun = await begin(context, request, planned);
    if ('existing' in begun) return answerExisting(context, request, begun.existing);
    if (begun.intent?.task_id) {
      context.onTask();
      return { taskId: begun.intent.task_id };
    }
    if (begun.intent && engine)
      await applyAndCommit(context, engine, { intent: begun.intent, planned: planned.row }, request.principal);
    return { object: context.specs.toObject({ ...planned.row, state: 'ready' }), created: true };
  });
}

function answerExisting(context: CatalogContext, request: CreateRequest, existing: ObjectRow): Created {
  // A name that differs in case is another name: its object is not the requested one.
  if (request.ifExists === 'fail' || existing.name !== request.name) {
    throw alreadyExists(request.category, request.name, existing.name);
  }
  return { object: context.specs.toObject(existing), created: false };
}

function plan(context: CatalogContext, request: CreateRequest): PlannedCreation {
  const now = context.clock();
  const id = newId(now);
  const resolve = (change: CreateRequest['change']): Change | undefined =>
    typeof change === 'function' ? change(id) : change;
  const change = resolve(request.change);
  const undo = resolve(request.undo);
  assert.equal(change === undefined, request.warehouse === undefined, 'a change requires a warehouse');
  assert.equal(change === undefined, undo === undefined, 'a creation in an engine requires an undo');
  const { id: userId, name: by } = request.principal;
  return {
    change,
    undo,
    row: {
      id,
      category: request.category,
      parent_id: request.parent?.id ?? null,
      name: request.name,
      folded_name: foldName(request.name),
      state: change ? 'creating' : 'ready',
      state_reason: null,
      owner: request.owner ?? userId,
      version: 1,
      created_at: now,
      created_by: by,
      updated_at: now,
      updated_by: by,
      folded_comment: foldedComment(request.spec),
      spec: JSON.stringify(request.spec),
    },
  };
}

function begin(
  context: CatalogContext,
  request: CreateRequest,
  { row, change, undo }: PlannedCreation,
): Promise<{ intent: IntentRow | undefined } | { existing: ObjectRow }> {
  return context.store.transaction(async (tx) => {
    const chain = request.parent ? await requireReadyChain(context, tx, request.parent) : [];
    if (change) checkChangePath(change, [...namesOf(chain), row.name]);
    await requireWarehouse(context, tx, request);
    const inserted = await context.statements.insertObject.run(tx, { ...row });
    if (inserted === 0) {
      const existing = await findSibling(context.statements, tx, row.parent_id, row.category, row.name);
      assert(existing, 'an insert conflicted with a row that does not exist');
      if (!isVisible(existing)) throw new Blocked([existing.id]);
      return { existing };
    }
    await checkSharedNames(context, tx, row.parent_id, row.name, request.sharesNames);
    if (request.sources) await recordSources(context, tx, row.id, request.sources);
    if (!change || request.warehouse === undefined) {
      await request.inTransaction?.(tx, row.id);
      await context.trail.append(tx, request.principal, { outcome: '0', objectId: row.id });
      appendChange(context, tx, row, { deep: false });
      return { intent: undefined };
    }
    const taskId = request.task && (await addTask(context, tx, request.task, request.warehouse, request.principal));
    if (taskId !== undefined) await request.task?.inTransaction?.(tx, taskId);
    const intent = await insertIntent(context, tx, {
      id: newId(row.created_at),
      taskId,
      objectId: row.id,
      verb: 'create',
      warehouse: request.warehouse,
      change,
      undo,
      principal: request.principal,
    });
    return { intent };
  });
}

/** The warehouse of a new catalog may have been deleted meanwhile; the catalogs in it keep one from that. */
async function requireWarehouse(
  context: CatalogContext,
  tx: Tx,
  { parent, name, warehouse }: CreateRequest,
): Promise<void> {
  if (parent !== null || warehouse === undefined) return;
  if (!(await context.warehouseExists(tx, warehouse)))
    throw objectNotFound('warehouses', warehouse, 'the warehouse no longer exists');
  await requireNoLeftCopy(tx, warehouse, name);
}

/** The engine's step and the commit. If either fails, intent_recovery.ts ends the intent. */
async function applyAndCommit(
  context: CatalogContext,
  engine: CatalogEngine,
  { intent, planned }: { readonly intent: IntentRow; readonly planned: ObjectRow },
  principal: Actor,
): Promise<void> {
  const undo = (why: Code) => removeObject(context, intent, why);
  await context.leases.whileHeld(intent, async (lost) => {
    await applyFirstAttempt(context, engine, intent, principal, lost, undo);
    try {
      await commitCreate(context, intent, { planned });
    } catch (error) {
      await recordFailedAttempt(context, intent, error);
      throw error;
    }
  });
}
