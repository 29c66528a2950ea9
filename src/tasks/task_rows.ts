// Rows of tasks in the store: inserts and reads them, and moves them between states. See tasks.ts for when.
import type { Kysely, RawBuilder, Selectable, Transaction } from 'kysely';
import { newId } from '../model/ids.ts';
import type { Principal } from '../model/principal.ts';
import { parseJson } from '../standard/json/parse_json.ts';
import type { ChangeFeed } from '../store/changes/change_feed.ts';
import { bytesOf } from '../store/row_batches.ts';
import type { Schema, TaskState, TasksTable } from '../store/schema.ts';
import {
  priorities,
  type StoredTask,
  type TaskError,
  type TaskRecord,
  type TaskRequest,
  type WebhookState,
} from './task.ts';

/** Results contain data of callers, which can be nested deeply. */
const resultDepthMax = 10_000;

export type TaskRow = Selectable<TasksTable>;

const terminal: Record<TaskState, boolean> = {
  pending: false,
  running: false,
  cancelling: false,
  succeeded: true,
  failed: true,
  cancelled: true,
};

export function isTerminal(state: TaskState): boolean {
  return terminal[state];
}

export const terminalStates = (Object.keys(terminal) as TaskState[]).filter(isTerminal);

/** Inserts a pending task without a queue position, unless `columns` says otherwise. `db` can be a transaction. */
export async function insertRow(
  db: Kysely<Schema>,
  request: TaskRequest,
  now: number,
  columns: Partial<TaskRow> = {},
): Promise<TaskRow> {
  const row: TaskRow = {
    task_id: request.taskId ?? newId(now),
    type: request.type,
    state: 'pending',
    progress: null,
    progress_text: null,
    submitted_by: request.principal.name,
    owner: request.principal.id,
    principal: principalText(request.principal),
    submitted_at: now,
    started_at: null,
    ended_at: null,
    attempt: 0,
    not_before: now,
    target: request.target,
    request: JSON.stringify(request.request ?? null),
    result: null,
    error: null,
    priority: priorities.indexOf(request.priority ?? 'normal'),
    place: null,
    waits_for: 0,
    after_ids: request.after?.length ? JSON.stringify(request.after) : null,
    expected_end_at: null,
    notify: null,
    notify_at: null,
    leased_by: null,
    lease_until: null,
    server_id: request.serverId ?? null,
    ...columns,
  };
  await db.insertInto('tasks').values(row).execute();
  return row;
}

export function readTask(db: Kysely<Schema>, taskId: string): Promise<TaskRow | undefined> {
  return db.selectFrom('tasks').selectAll().where('task_id', '=', taskId).executeTakeFirst();
}

/** Those whose texts can be large. */
export const textColumns = ['request', 'result', 'error'] as const;

export const bytesOfRow = (row: TaskRow): number =>
  textColumns.reduce((bytes, column) => bytes + Buffer.byteLength(row[column] ?? ''), 0);

/** The sizes of the ended tasks of a principal that meet a condition, newest first. */
export function sizesOfEnded(
  db: Kysely<Schema>,
  which: RawBuilder<boolean>,
  { owner, after, limit }: { readonly owner: string; readonly after: string | undefined; readonly limit: number },
): Promise<{ readonly key: string; readonly bytes: number }[]> {
  let query = db
    .selectFrom('tasks')
    .select(['task_id as key', bytesOf(textColumns).as('bytes')])
    .where('owner', '=', owner)
    .where('state', 'in', terminalStates)
    .where(which)
    .orderBy('task_id', 'desc')
    .limit(limit);
  if (after !== undefined) query = query.where('task_id', '<', after);
  return query.execute();
}

/** Changes a task if it is in one of the states `from` and its lease matches `held`; returns whether it was. An end is recorded for dependent tasks. */
export async function moveTask(
  tx: Transaction<Schema>,
  taskId: string,
  from: readonly TaskState[],
  to: Partial<TaskRow>,
  held: Partial<Pick<TaskRow, 'leased_by' | 'lease_until'>> = {},
): Promise<boolean> {
  let update = tx.updateTable('tasks').set(to).where('task_id', '=', taskId).where('state', 'in', from);
  for (const column of ['leased_by', 'lease_until'] as const)
    if (held[column] !== undefined) update = update.where(column, 'is not distinct from', held[column]);
  const { numUpdatedRows } = await update.executeTakeFirst();
  const moved = numUpdatedRows > 0n;
  if (moved && to.state && isTerminal(to.state)) {
    await noteEnd(tx, taskId, to.state);
    await tx
      .updateTable('tasks')
      .set((e) => ({ notify_at: e.ref('ended_at') }))
      .where('task_id', '=', taskId)
      .where('notify', 'is not', null)
      .execute();
  }
  return moved;
}

export type MoveTask = typeof moveTask;

/** Moves tasks so that the other servers of a shared store learn of ends and cancellations. */
export function announcedMoves(changes: Pick<ChangeFeed, 'append'>): MoveTask {
  return async (tx, taskId, from, to, held) => {
    const moved = await moveTask(tx, taskId, from, to, held);
    const { state } = to;
    if (moved && state && (isTerminal(state) || state === 'cancelling'))
      changes.append(tx, { kind: 'task', taskId, state });
    return moved;
  };
}

/** Records the end of a task, if other tasks depend on it. */
export async function noteEnd(tx: Transaction<Schema>, taskId: string, state: TaskState): Promise<void> {
  const dependent = await tx
    .selectFrom('task_waits')
    .select('task_id')
    .where('after_id', '=', taskId)
    .limit(1)
    .executeTakeFirst();
  if (!dependent) return;
  await tx
    .insertInto('task_ends')
    .values({ task_id: taskId, state })
    .onConflict((conflict) => conflict.column('task_id').doNothing())
    .execute();
}

/** The columns of an ended task. `result` is JSON text. */
export function ending(
  state: 'succeeded' | 'failed' | 'cancelled',
  now: number,
  outcome: { readonly result?: string | undefined; readonly error?: TaskError | null },
): Partial<TaskRow> {
  return {
    state,
    ended_at: now,
    place: null,
    expected_end_at: null,
    leased_by: null,
    lease_until: null,
    ...(state === 'succeeded' ? { progress: 1 } : {}),
    result: outcome.result ?? null,
    error: outcome.error ? JSON.stringify(outcome.error) : null,
  };
}

/** What is stored under a type was checked by the compiler where it was submitted and where it ended. */
export function taskRecord(row: TaskRow): StoredTask {
  const record: TaskRecord = {
    taskId: row.task_id,
    type: row.type,
    state: row.state,
    progress: row.progress,
    progressText: row.progress_text,
    expectedEndAt: row.expected_end_at === null ? null : timeText(row.expected_end_at),
    priority: priorities[row.priority] ?? 'normal',
    after: row.after_ids === null ? [] : (JSON.parse(row.after_ids) as string[]),
    principal: JSON.parse(row.principal) as Principal,
    notify: row.notify === null ? null : (JSON.parse(row.notify) as WebhookState),
    submittedBy: row.submitted_by,
    submittedAt: timeText(row.submitted_at),
    serverId: row.server_id,
    startedAt: row.started_at === null ? null : timeText(row.started_at),
    endedAt: row.ended_at === null ? null : timeText(row.ended_at),
    attempt: row.attempt,
    target: row.target,
    request: JSON.parse(row.request),
    result: row.result === null ? null : parseJson(row.result, resultDepthMax),
    error: row.error === null ? null : (JSON.parse(row.error) as TaskError),
  };
  return record as StoredTask;
}

/** Serializes the properties of a principal that a later run needs. */
export function principalText({ id, name, roles, scopes }: Principal): string {
  return JSON.stringify({ id, name, roles, scopes });
}

export function timeText(ms: number): string {
  return new Date(ms).toISOString();
}
