// The queue of tasks that are ready to start: ordered by priority; within a priority the owners take turns, each with its own tasks in
// order of submission. At a fixed interval the longest-waiting task goes first, so that no task starves. The whole queue is in the
// store and read by indexes, whatever its length; none of it is in memory.
import { type Kysely, type RawBuilder, sql, type Transaction } from 'kysely';
import { isPaused, isQueued } from '../store/index_conditions.ts';
import { type PreparedQuery, prepareQuery } from '../store/prepared.ts';
import type { Schema } from '../store/schema.ts';
import type { Store } from '../store/store.ts';
import { headsOfOwners } from './heads_of_owners.ts';
import type { TaskError } from './task.ts';
import { ending, type MoveTask, readTask, type TaskRow } from './task_rows.ts';

/** One of this many started tasks is the one that has waited longest, whatever its priority. */
export const longestWaitingEvery = 8;
/** No retry delay is longer: a longer one was computed before the clock was set back and counts as elapsed. */
const plausibleDelayMsMax = 3_600_000;
/** Tasks that are queued, or notified of an end, in one transaction. */
const batchMax = 100;

type QueueKey = Pick<TaskRow, 'owner' | 'priority'>;

/** The server that starts tasks; an empty id on a store that is not shared. */
type ServerKey = { readonly serverId: string };

/** Tasks that a server may run. */
export const ofServer = (serverId = ''): RawBuilder<boolean> =>
  sql<boolean>`(server_id is null or server_id = ${serverId})`;

interface Statements {
  readonly first: PreparedQuery<ServerKey, TaskRow>;
  readonly oldest: PreparedQuery<ServerKey, TaskRow>;
  readonly head: PreparedQuery<Pick<QueueKey, 'priority'>, { place: number | null }>;
  readonly lastOf: PreparedQuery<QueueKey, { place: number | null }>;
}

/** By the adapter of a store's dialect, which its connections and transactions share. */
const compiled = new WeakMap<object, Statements>();

/** Compiled once for each store. `db` can be a transaction. */
function statements(db: Kysely<Schema>): Statements {
  const { adapter } = db.getExecutor();
  const known = compiled.get(adapter) ?? compile(db);
  compiled.set(adapter, known);
  return known;
}

function compile(db: Kysely<Schema>): Statements {
  return {
    first: prepareQuery<ServerKey>()(db, (query, parameter) =>
      query
        .selectFrom('tasks')
        .selectAll()
        .where(isQueued)
        .where(ofServer(parameter('serverId')))
        .orderBy('priority')
        .orderBy('place')
        .orderBy('task_id')
        .limit(1),
    ),
    oldest: prepareQuery<ServerKey>()(db, (query, parameter) =>
      query
        .selectFrom('tasks')
        .selectAll()
        .where(isQueued)
        .where(ofServer(parameter('serverId')))
        .orderBy('task_id')
        .limit(1),
    ),
    head: prepareQuery<Pick<QueueKey, 'priority'>>()(db, (query, parameter) =>
      query
        .selectFrom('tasks')
        .select('place')
        .where('priority', '=', parameter('priority'))
        .where(isQueued)
        .orderBy('place')
        .limit(1),
    ),
    lastOf: prepareQuery<QueueKey>()(db, (query, parameter) =>
      query
        .selectFrom('tasks')
        .select('place')
        .where('owner', '=', parameter('owner'))
        .where('priority', '=', parameter('priority'))
        .where(isQueued)
        .orderBy('place', 'desc')
        .limit(1),
    ),
  };
}

/**
 * The queue position of a new task: after the last task of its owner or, if there is none, at the head. So the tasks of each owner have
 * consecutive positions, and a new owner starts at the same position as the next tasks of all others.
 */
export async function positionOf(db: Kysely<Schema>, { owner, priority }: QueueKey): Promise<number> {
  const { lastOf, head } = statements(db);
  const last = await lastOf.first(db, { owner, priority });
  if (last) return (last.place as number) + 1;
  return (await head.first(db, { priority }))?.place ?? 0;
}

/** The effect of an ended task on those that depend on it. */
export interface WaitOutcome {
  /** Tasks that failed because their dependency failed. */
  readonly failed: readonly TaskRow[];
  readonly more: boolean;
}

export class TaskQueue {
  readonly #store: Store;
  readonly #clock: () => number;
  readonly #move: MoveTask;
  readonly #serverId: string;
  readonly #types: () => readonly string[];
  #startedCount = 0;

  /** `types`: of the tasks that this server can run. */
  constructor(store: Store, clock: () => number, move: MoveTask, types: () => readonly string[], serverId = '') {
    this.#types = types;
    this.#move = move;
    this.#store = store;
    this.#clock = clock;
    this.#serverId = serverId;
  }

  /** The next task that this server starts. `without`: tasks of which an earlier run still ends here. */
  async next(without: ReadonlySet<string>): Promise<TaskRow | undefined> {
    const isOldest = this.#isTurnOfOldest();
    if (this.#store.isShared) return this.#nextOf(isOldest, this.#startable(without));
    const { first, oldest } = statements(this.#store.db);
    const row = await (isOldest ? oldest : first).first(this.#store.db, { serverId: this.#serverId });
    return row && without.has(row.task_id) ? this.#nextOf(isOldest, this.#startable(without)) : row;
  }

  /**
   * The next task of an owner that is not one of `owners`: in the order of the queue, or the longest-waiting one when it is its turn. Costs
   * one look-up for each owner of queued tasks, however many tasks it has.
   */
  async nextOfOthers(owners: ReadonlySet<string>, without: ReadonlySet<string>): Promise<TaskRow | undefined> {
    const { db } = this.#store;
    const startable = this.#startable(without);
    const first = await headsOfOwners(db, isQueued, (queued) =>
      queued.where(startable).orderBy('priority').orderBy('place'),
    )
      .where('owners.owner', 'not in', [...owners])
      .orderBy('priority')
      .orderBy('place')
      .orderBy('task_id')
      .limit(1)
      .executeTakeFirst();
    if (!first || !this.#isTurnOfOldest()) return first;
    const others = db
      .selectFrom('tasks')
      .selectAll()
      .where(startable)
      .where('owner', 'not in', [...owners]);
    return others.orderBy('task_id').limit(1).executeTakeFirst();
  }

  async #nextOf(isOldest: boolean, startable: RawBuilder<boolean>): Promise<TaskRow | undefined> {
    const queued = this.#store.db.selectFrom('tasks').selectAll().where(startable);
    const ordered = isOldest ? queued : queued.orderBy('priority').orderBy('place');
    return ordered.orderBy('task_id').limit(1).executeTakeFirst();
  }

  #startable(without: ReadonlySet<string>): RawBuilder<boolean> {
    const conditions = [isQueued, ofServer(this.#serverId)];
    // A task of another type, which only servers of a later release can run, is left to them.
    if (this.#store.isShared) conditions.push(sql<boolean>`type in (${sql.join(this.#types())})`);
    if (without.size > 0) conditions.push(sql<boolean>`task_id not in (${sql.join([...without])})`);
    return sql<boolean>`${sql.join(conditions, sql` and `)}`;
  }

  #isTurnOfOldest(): boolean {
    return (this.#startedCount + 1) % longestWaitingEvery === 0;
  }

  /** Counts a task that was returned by `next` and started. */
  countStarted(): void {
    this.#startedCount++;
  }

  /** The end of the earliest retry delay, or undefined when no task is delayed. */
  async nextDueAt(): Promise<number | undefined> {
    const row = await this.#store.db
      .selectFrom('tasks')
      .select('not_before')
      .where(isPaused)
      .orderBy('not_before')
      .limit(1)
      .executeTakeFirst();
    return row?.not_before;
  }

  /** Queues the tasks whose retry delay is over. */
  async resume(): Promise<void> {
    for (let more = true; more; ) {
      const now = this.#clock();
      const dueAt = await this.nextDueAt();
      if (dueAt === undefined || isAhead(dueAt, now)) return;
      more = await this.#store.transaction(async (tx) => {
        const due = await tx
          .selectFrom('tasks')
          .select(['task_id', 'owner', 'priority'])
          .where(isPaused)
          .where((e) => e.or([e('not_before', '<=', now), e('not_before', '>', now + plausibleDelayMsMax)]))
          .orderBy('not_before')
          .limit(batchMax)
          .execute();
        for (const row of due) await enqueue(tx, row);
        return due.length === batchMax;
      });
    }
  }

  /** Updates tasks that depend on an ended task, a bounded number at a time. */
  async settle(): Promise<WaitOutcome> {
    const pending = await this.#store.db.selectFrom('task_ends').select('task_id').limit(1).executeTakeFirst();
    if (!pending) return { failed: [], more: false };
    return this.#store.transaction(async (tx) => {
      const end = await tx.selectFrom('task_ends').selectAll().orderBy('task_id').limit(1).executeTakeFirst();
      if (!end) return { failed: [], more: false };
      const waits = await tx
        .selectFrom('task_waits')
        .select('task_id')
        .where('after_id', '=', end.task_id)
        .limit(batchMax)
        .execute();
      const failed: TaskRow[] = [];
      for (const { task_id } of waits) {
        const error = end.state === 'succeeded' ? undefined : dependencyFailed(end.task_id, end.state);
        const row = error ? await this.#fail(tx, task_id, error) : await release(tx, task_id, end.task_id);
        if (row) failed.push(row);
      }
      const done = waits.length < batchMax;
      if (done) await tx.deleteFrom('task_ends').where('task_id', '=', end.task_id).execute();
      return { failed, more: true };
    });
  }

  async #fail(tx: Transaction<Schema>, taskId: string, error: TaskError): Promise<TaskRow | undefined> {
    await tx.deleteFrom('task_waits').where('task_id', '=', taskId).execute();
    const moved = await this.#move(tx, taskId, ['pending'], ending('failed', this.#clock(), { error }));
    return moved ? readTask(tx, taskId) : undefined;
  }
}

/** Removes one dependency of a task, and queues the task when it was the last. */
async function release(tx: Transaction<Schema>, taskId: string, afterId: string): Promise<undefined> {
  await tx.deleteFrom('task_waits').where('after_id', '=', afterId).where('task_id', '=', taskId).execute();
  const row = await readTask(tx, taskId);
  if (row?.state !== 'pending') return;
  const waits_for = Math.max(0, row.waits_for - 1);
  await tx.updateTable('tasks').set({ waits_for }).where('task_id', '=', taskId).execute();
  if (waits_for === 0) await enqueue(tx, row);
}

async function enqueue(tx: Transaction<Schema>, row: QueueKey & Pick<TaskRow, 'task_id'>): Promise<void> {
  const place = await positionOf(tx, row);
  await tx.updateTable('tasks').set({ place }).where('task_id', '=', row.task_id).execute();
}

const isAhead = (time: number, now: number): boolean => time > now && time <= now + plausibleDelayMsMax;

function dependencyFailed(taskId: string, state: string): TaskError {
  const message = `the task depends on ${taskId}, which did not succeed (${state})`;
  return { code: 'TASK_DEPENDENCY_FAILED', message, result: { taskId, state } };
}
