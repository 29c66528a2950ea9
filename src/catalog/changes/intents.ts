// Intents: the records of changes that have begun. Inserts an intent, and ends it in the transaction that makes the outcome visible. The
// callers decide when and how one ends: the changes themselves, tasks, and intent_recovery.ts. Only the process that holds it can end it
// (intent_leases.ts), and each transaction asserts that it changed exactly the rows that it was to change.
import assert from 'node:assert/strict';
import { isDeepStrictEqual } from 'node:util';
import type { Selectable } from 'kysely';
import { type Change, catalogOf } from '../../engines/port/changes.ts';
import type { Applied } from '../../engines/port/views.ts';
import { foldName } from '../../model/names.ts';
import type { Actor } from '../../model/principal.ts';
import type { ViewSpec } from '../../model/records.ts';
import type { Code } from '../../standard/codes.ts';
import { noLease } from '../../store/leases.ts';
import type { IntentsTable, IntentVerb, ObjectState } from '../../store/schema.ts';
import { afterCommit } from '../../store/transactions.ts';
import type { CatalogObject, NewChildren } from '../object.ts';
import { foldedComment, type ObjectRow, objectColumns } from '../object_rows.ts';
import { Blocked, type CatalogContext, type Tx } from './change_context.ts';
import { insertChildren } from './insert_children.ts';
import { takenOver } from './intent_leases.ts';
import { appendChange, appendRemoval, noteRelocated } from './object_changes.ts';
import { replaceSources, type SourceRow } from './view_dependencies.ts';

export type IntentRow = Selectable<IntentsTable>;

/** The new values of the row when an update commits. Empty: the record does not change (a truncate, for example). */
export interface NextRow {
  readonly spec?: unknown;
  readonly owner?: string;
  readonly name?: string;
  /** The row that reserves the new name until the commit. */
  readonly reservationId?: string;
  /** For a drop: the object can be restored until `purgeAt`; `purge` deletes its data. */
  readonly keep?: { readonly purgeAt: number; readonly purge: Change };
  /** For a view: its sources before and after the change. */
  readonly sources?: { readonly was: readonly SourceRow[]; readonly is: readonly SourceRow[] };
  /** For an undrop: the name of the object when it was dropped. */
  readonly was?: string;
}

interface NewIntent {
  readonly id: string;
  readonly objectId: string;
  readonly verb: IntentVerb;
  readonly warehouse: string;
  readonly change: Change;
  readonly undo?: Change | undefined;
  readonly next?: NextRow | undefined;
  readonly taskId?: string | undefined;
  readonly principal: Actor;
}

export async function insertIntent(context: CatalogContext, tx: Tx, intent: NewIntent): Promise<IntentRow> {
  const { guard } = intent.principal;
  intent.principal.writing = true;
  await context.trail.requireKeyHeld(tx, guard);
  const row: IntentRow = {
    id: intent.id,
    object_id: intent.objectId,
    verb: intent.verb,
    undoing: 0,
    warehouse: intent.warehouse,
    change: JSON.stringify(intent.change),
    undo: intent.undo === undefined ? null : JSON.stringify(intent.undo),
    next: intent.next === undefined ? null : JSON.stringify(intent.next),
    task_id: intent.taskId ?? null,
    principal: intent.principal.name,
    // The intent is ended on behalf of the request, whichever attempt that has reached by then.
    actor: JSON.stringify({
      ...intent.principal,
      audited: undefined,
      writing: undefined,
      guard: guard && { ...guard, attempt: undefined },
    }),
    created_at: context.clock(),
    attempts: 0,
    last_error: null,
    engine_deaths: 0,
    ...context.leases.newLease(intent.taskId !== undefined),
  };
  await context.statements.insertIntent.run(tx, { ...row });
  // The audit event is written when the intent ends.
  afterCommit(tx, () => {
    intent.principal.audited = true;
    intent.principal.changing = true;
  });
  return row;
}

export function changeOf(intent: IntentRow): Change {
  return JSON.parse(intent.change) as Change;
}

export function nextOf(intent: IntentRow): NextRow {
  return intent.next === null ? {} : (JSON.parse(intent.next) as NextRow);
}

/** The state of an object while its change is open; it can also be `blocked`. */
export const changing: Readonly<Record<IntentVerb, ObjectState>> = {
  create: 'creating',
  update: 'altering',
  drop: 'dropping',
  undrop: 'restoring',
  purge: 'purging',
};

/** The first step of every transaction that ends an intent. Throws if another server has taken it over, which undoes the transaction. */
export async function deleteIntent(context: CatalogContext, tx: Tx, { id }: IntentRow): Promise<void> {
  const deleted = await context.statements.deleteIntent.run(tx, { id, holder: context.leases.holderId });
  if (deleted !== 1) throw takenOver();
}

/** Sets the state of the object of an intent, in the transaction that ends the intent. */
async function setState(context: CatalogContext, tx: Tx, intent: IntentRow, to: ObjectState): Promise<void> {
  const { object_id: id, verb } = intent;
  const changed = await context.statements.setState.run(tx, { id, from: changing[verb], orFrom: 'blocked', to });
  assert.equal(changed, 1, `the object of intent ${intent.id} is in another state`);
}

/** Begins a change of an object: `from` is its state without one. */
export async function leaveState(
  context: CatalogContext,
  tx: Tx,
  id: string,
  from: 'ready' | 'dropped',
  to: ObjectState,
): Promise<void> {
  const changed = await context.statements.setState.run(tx, { id, from, orFrom: from, to });
  if (changed !== 1) throw new Blocked([id]);
}

async function removeReservation(context: CatalogContext, tx: Tx, id: string | undefined): Promise<void> {
  if (id === undefined) return;
  assert.equal(await context.statements.deleteObject.run(tx, { id }), 1, 'the new name was not reserved');
}

/** Writes the changed fields of an object in state `ready` and increments its version; of the object of `intent`, if it ends with this. */
export async function updateRow(
  context: CatalogContext,
  tx: Tx,
  objectId: string,
  next: NextRow,
  principal: string,
  intent?: IntentRow,
): Promise<ObjectRow> {
  const from: ObjectState[] = intent ? [changing[intent.verb], 'blocked'] : ['ready'];
  return await tx
    .updateTable('objects')
    .set((e) => ({
      ...(next.spec === undefined ? {} : { spec: JSON.stringify(next.spec), folded_comment: foldedComment(next.spec) }),
      ...(next.owner === undefined ? {} : { owner: next.owner }),
      ...(next.name === undefined ? {} : { name: next.name, folded_name: foldName(next.name) }),
      version: e('version', '+', 1),
      updated_at: context.clock(),
      updated_by: principal,
      state: 'ready' as const,
    }))
    .where('id', '=', objectId)
    .where('state', 'in', from)
    .returning(objectColumns)
    .executeTakeFirstOrThrow();
}

/** Stores the new columns of dependent views. */
export async function updateViewColumns(
  context: CatalogContext,
  tx: Tx,
  applied: Applied | undefined,
  by: string,
): Promise<void> {
  for (const { id, columns } of applied?.views ?? []) {
    const row = await context.statements.byId.first(tx, { id });
    if (!columns || row?.state !== 'ready') continue;
    const spec = JSON.parse(row.spec) as ViewSpec;
    if (isDeepStrictEqual(spec.columns, columns)) continue;
    const changed = await updateRow(context, tx, id, { spec: { ...spec, columns } }, by);
    appendChange(context, tx, changed, { deep: false });
  }
}

/** Ends a create: the object becomes visible. `planned`: its row, if that has not changed since the create began. */
export async function commitCreate(
  context: CatalogContext,
  intent: IntentRow,
  { planned, within }: { readonly planned?: ObjectRow; readonly within?: NewChildren | undefined },
): Promise<ObjectRow> {
  return await context.store.transaction(async (tx) => {
    await deleteIntent(context, tx, intent);
    await setState(context, tx, intent, 'ready');
    if (within) await insertChildren(context, tx, intent.object_id, within);
    // The step with which a task filled the object. If the task runs again, it finds here that its work is done.
    if (intent.task_id !== null) await recordSpentStep(tx, intent, intent.task_id);
    const { details } = within ?? {};
    await context.trail.append(tx, actorOf(intent), { outcome: '0', objectId: intent.object_id, details });
    const row = planned
      ? { ...planned, state: 'ready' as const }
      : await context.statements.byId.first(tx, { id: intent.object_id });
    if (!row) throw new Error(`intent ${intent.id} has no object`);
    appendChange(context, tx, row, { deep: within !== undefined });
    return row;
  });
}

/** Ends an update: the row gets its new values, and the engine may forget the step. */
export async function commitUpdate(
  context: CatalogContext,
  intent: IntentRow,
  applied: Applied | undefined,
): Promise<CatalogObject> {
  const { reservationId, sources, ...next } = nextOf(intent);
  const row = await context.store.transaction(async (tx) => {
    await deleteIntent(context, tx, intent);
    await removeReservation(context, tx, reservationId);
    if (sources) await replaceSources(tx, intent.object_id, sources.is);
    await updateViewColumns(context, tx, applied, intent.principal);
    await recordSpentStep(tx, intent, intent.id);
    const details = changedFields(next);
    await context.trail.append(tx, actorOf(intent), { outcome: '0', objectId: intent.object_id, details });
    const isRecordChanged = Object.keys(next).length > 0;
    if (!isRecordChanged) await setState(context, tx, intent, 'ready');
    const row = isRecordChanged
      ? await updateRow(context, tx, intent.object_id, next, intent.principal, intent)
      : await context.statements.byId.first(tx, { id: intent.object_id });
    if (!row) throw new Error(`intent ${intent.id} has no object`);
    appendChange(context, tx, row, { deep: next.name !== undefined || next.owner !== undefined });
    return row;
  });
  if (next.name !== undefined) noteRelocated(context, row);
  return context.specs.toObject(row);
}

/** Records that the engine may forget a step once its task no longer exists. */
async function recordSpentStep(tx: Tx, intent: IntentRow, step: string): Promise<void> {
  await tx
    .insertInto('spent_steps')
    .values({
      step,
      warehouse: intent.warehouse,
      catalog_id: catalogOf(changeOf(intent)).id,
      object_id: intent.object_id,
      task_id: intent.task_id,
      not_before: null,
    })
    // The step may have been recorded before the statement that filled the object ran; from now on it identifies the object.
    .onConflict((c) => c.column('step').doUpdateSet({ object_id: intent.object_id }))
    .execute();
}

/** Ends an update or a drop that did not happen: the object is unchanged. */
export async function revert(context: CatalogContext, intent: IntentRow, why: Code): Promise<void> {
  await context.store.transaction(async (tx) => {
    await revertInTransaction(context, tx, intent, why);
    const row = await context.statements.byId.first(tx, { id: intent.object_id });
    if (row) appendChange(context, tx, row, { deep: intent.verb === 'drop' });
  });
}

/** Like `revert`, as part of a transaction. */
export async function revertInTransaction(
  context: CatalogContext,
  tx: Tx,
  intent: IntentRow,
  why: Code,
): Promise<void> {
  const { reservationId, sources } = nextOf(intent);
  await deleteIntent(context, tx, intent);
  await removeReservation(context, tx, reservationId);
  if (sources) await replaceSources(tx, intent.object_id, sources.was);
  await setState(context, tx, intent, 'ready');
  await context.trail.append(tx, actorOf(intent), { outcome: why, objectId: intent.object_id });
}

/** Ends a create that did not happen, or a drop: deletes the row, and with it the intent and all descendants. */
export async function removeObject(context: CatalogContext, intent: IntentRow, outcome: Code | '0'): Promise<void> {
  const held = { id: intent.object_id, intentId: intent.id, holder: context.leases.holderId };
  await context.store.transaction(async (tx) => {
    const removed = await context.statements.deleteObjectOf.first(tx, held);
    if (!removed) throw takenOver();
    // A dropped object has been invisible since its drop began.
    appendRemoval(context, tx, removed, { deep: false });
    await context.trail.append(tx, actorOf(intent), { outcome, objectId: intent.object_id });
  });
}

/** The fields that a change wrote, for the audit trail. It contains no values except the owner and the name. */
export function changedFields({ spec, owner, name }: NextRow): Readonly<Record<string, unknown>> | undefined {
  const fields = { ...(spec === undefined ? {} : { changed: true }), ...(owner === undefined ? {} : { owner }) };
  return Object.keys(fields).length === 0 && name === undefined
    ? undefined
    : { ...fields, ...(name === undefined ? {} : { newName: name }) };
}

/** Stores why an attempt failed, and that nobody works on the intent now. Best effort: it is recovered without this record too. */
export async function recordFailedAttempt(context: CatalogContext, intent: IntentRow, error: unknown): Promise<void> {
  const undoing = intent.verb === 'create' ? 1 : 0;
  try {
    await context.store.db
      .updateTable('intents')
      .set((e) => ({ attempts: e('attempts', '+', 1), last_error: String(error).slice(0, 1000), undoing, ...noLease }))
      .where('id', '=', intent.id)
      .where('leased_by', '=', context.leases.holderId)
      .execute();
  } catch (fault) {
    context.observe({ kind: 'backgroundError', what: 'note a failed attempt of a change', error: fault });
  }
}

/** The principal that began an intent. An intent written by an earlier release has only a name. */
export function actorOf(intent: IntentRow): Actor {
  return intent.actor === null ? { id: intent.principal, name: intent.principal } : (JSON.parse(intent.actor) as Actor);
}
