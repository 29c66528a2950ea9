// The durable queue of tasks: submitted, shown, waited for, cancelled, removed. Knows no kind: kinds are handed to it. What
// runs them is runner.ts.
import assert from 'node:assert/strict';
import type { Kysely, Transaction } from 'kysely';
import { noTrail, type Trail } from '../access/audit/audit_log.ts';
import { newId } from '../model/ids.ts';
import { type Actor, type Principal, systemActor } from '../model/principal.ts';
import type { Observe } from '../observe/observations.ts';
import { requireBasis } from '../standard/basis.ts';
import { Failure } from '../standard/failure.ts';
import type { Schema } from '../store/schema.ts';
import type { Store } from '../store/store.ts';
import { heartbeatEveryMs } from './leases.ts';
import { TaskRunner } from './runner.ts';
import { GroupedWrites, insertTask } from './submission.ts';
import {
  basisOfTask,
  type TaskContext,
  type TaskError,
  type TaskKind,
  type TaskRecord,
  type TaskRequest,
} from './task.ts';
import {
  ending,
  insertRow,
  isTerminal,
  moveTask,
  principalText,
  readTask,
  type TaskRow,
  taskRecord,
  terminalStates,
} from './task_rows.ts';
import { conditionsOf, type TaskFilter } from './task_search.ts';
import type { Webhooks } from './webhooks.ts';

/** How long the removal of an unfinished task waits for it to end. */
const removeWaitMs = 10_000;
const retryPauseMs = 1000;
const sweepPage = 100;
const dayMs = 86_400_000;

export interface TasksOptions {
  readonly store: Store;
  readonly kinds: readonly TaskKind[];
  readonly runnersMax: number;
  /** Other servers have the store open and run its tasks too. By default, what a process left is this one's at once. */
  readonly isShared?: boolean | undefined;
  readonly retentionDays: number;
  /** Throws where the principal may have no further unfinished task; asked in the transaction that adds it. */
  readonly requireRoom?: ((on: Kysely<Schema>, principalId: string) => Promise<void>) | undefined;
  readonly observe?: Observe | undefined;
  readonly clock?: (() => number) | undefined;
  /** The pause before a second attempt; doubles for each further one. */
  readonly retryPauseMs?: number | undefined;
  readonly heartbeatEveryMs?: number | undefined;
  readonly trail?: Trail | undefined;
  readonly notices?: Pick<Webhooks, 'keep' | 'forget' | 'look'> | undefined;
  /** From 0 to 1: how much longer than need be a pause is. */
  readonly chance?: (() => number) | undefined;
}

/** `startedAt` and `endedAt` in milliseconds since 1970. */
export interface FinishedTask extends TaskRequest {
  readonly state: 'succeeded' | 'failed' | 'cancelled';
  readonly startedAt: number;
  readonly endedAt: number;
  readonly result?: unknown;
  readonly error?: TaskError | null;
  /** For a task whose id had to be known before (the name of its files). */
  readonly taskId?: string;
}

export class Tasks {
  readonly #store: Store;
  readonly #kinds: ReadonlyMap<string, TaskKind>;
  readonly #retentionMs: number;
  readonly #requireRoom: TasksOptions['requireRoom'];
  readonly #observe: Observe;
  readonly #clock: () => number;
  readonly #runner: TaskRunner;
  readonly #trail: Trail;
  readonly #notices: TasksOptions['notices'];
  readonly #submissions: GroupedWrites<TaskRow>;
  readonly #waiting = new Map<string, Set<() => void>>();

  constructor(options: TasksOptions) {
    this.#store = options.store;
    this.#kinds = new Map(options.kinds.map((kind) => [kind.type, kind]));
    this.#observe = options.observe ?? (() => {});
    this.#clock = options.clock ?? Date.now;
    this.#trail = options.trail ?? noTrail;
    this.#retentionMs = options.retentionDays * dayMs;
    this.#requireRoom = options.requireRoom;
    this.#notices = options.notices;
    this.#submissions = new GroupedWrites(options.store);
    this.#runner = new TaskRunner({
      store: this.#store,
      kinds: this.#kinds,
      runnersMax: options.runnersMax,
      isShared: options.isShared ?? false,
      heartbeatEveryMs: options.heartbeatEveryMs ?? heartbeatEveryMs,
      retryPauseMs: options.retryPauseMs ?? retryPauseMs,
      observe: this.#observe,
      clock: this.#clock,
      chance: options.chance ?? Math.random,
      ended: (row, abandoned) => this.#ended(row, abandoned),
    });
  }

  /** Durable before it returns; inside the caller's transaction if given, who then calls `notify` after its commit. */
  async submit(request: TaskRequest, tx?: Transaction<Schema>): Promise<TaskRecord> {
    assert(this.#kinds.get(request.type)?.run, `nothing runs tasks of type ${request.type}`);
    const write = async (on: Transaction<Schema>) => {
      await this.#requireRoom?.(on, request.principal.id);
      const row = await this.#told(on, request, await insertTask(on, request, this.#clock()));
      await this.#trail.markKeyDone(on, request.guard, row.task_id);
      const { toTell } = request;
      const details = { taskId: row.task_id };
      if (toTell) await this.#trail.append(on, toTell.actor, { outcome: '0', objectId: toTell.objectId, details });
      return row;
    };
    if (tx) return taskRecord(await write(tx));
    const row = await this.#submissions.write(write);
    this.notify();
    return taskRecord(row);
  }

  /** Looks for tasks to run, soon. */
  notify(): void {
    this.#runner.notify();
  }

  /**
   * Makes a task of work that runs in this process already. `running` links the work to the task's signal and progress, and returns its promise.
   * Should the process die, the task runs again if its kind can, and fails with TASK_INTERRUPTED if not.
   */
  async adopt(
    request: TaskRequest & {
      readonly taskId?: string;
      readonly running: (task: Pick<TaskContext, 'signal' | 'progress'>) => Promise<unknown>;
    },
  ): Promise<TaskRecord> {
    if (this.#runner.stopping) throw new Failure('SHUTTING_DOWN', 'The server is shutting down.');
    const now = this.#clock();
    const row = await this.#insert(request, now, {
      task_id: request.taskId ?? newId(now),
      state: 'running',
      started_at: now,
      attempt: 1,
      ...this.#runner.lease(),
    });
    this.#runner.adopt(row, request.running);
    return taskRecord(row);
  }

  async #insert(request: TaskRequest, now: number, columns: Partial<TaskRow>) {
    return this.#store.transaction(async (tx) => {
      await this.#requireRoom?.(tx, request.principal.id);
      const row = await this.#told(tx, request, await insertRow(tx, request, now, columns));
      await this.#trail.markKeyDone(tx, request.guard, row.task_id);
      return row;
    });
  }

  /** Who is to be told of its end is noted. */
  async #told(tx: Transaction<Schema>, { notify }: TaskRequest, row: TaskRow): Promise<TaskRow> {
    if (!notify) return row;
    if (!this.#notices) throw new Error('nobody sends notices');
    return { ...row, notify: JSON.stringify(await this.#notices.keep(tx, row.task_id, notify)) };
  }

  /** A task that is done when it is written. */
  async record(finished: FinishedTask): Promise<TaskRecord> {
    const row = await insertRow(this.#store.db, finished, finished.startedAt, {
      ...ending(finished.state, finished.endedAt, {
        result: JSON.stringify(finished.result),
        error: finished.error ?? null,
      }),
      ...(finished.taskId === undefined ? {} : { task_id: finished.taskId }),
      started_at: finished.startedAt,
      attempt: 1,
    });
    return taskRecord(row);
  }

  /** One that failed before it could begin. Part of a transaction, after whose commit `committed` is to be called. */
  async recordFailed(
    request: TaskRequest,
    error: TaskError,
    tx: Transaction<Schema>,
  ): Promise<{ readonly taskId: string; readonly committed: () => void }> {
    const now = this.#clock();
    const row = await this.#told(tx, request, await insertRow(tx, request, now, ending('failed', now, { error })));
    const { task_id: taskId } = row;
    if (row.notify !== null)
      await tx.updateTable('tasks').set({ notify_at: now }).where('task_id', '=', taskId).execute();
    return { taskId, committed: () => this.#ended(row, false) };
  }

  async get(taskId: string): Promise<TaskRecord | undefined> {
    const row = await readTask(this.#store.db, taskId);
    return row && this.#runner.live(row);
  }

  /** By id, which is by time of submission. */
  async list(options: {
    readonly after?: string | undefined;
    readonly limit: number;
    /** Only what this principal submitted: a confined token sees its own alone. */
    readonly of?: Principal | undefined;
    readonly sought?: TaskFilter | undefined;
  }): Promise<TaskRecord[]> {
    let query = this.#store.db.selectFrom('tasks').selectAll().orderBy('task_id', 'desc').limit(options.limit);
    if (options.after !== undefined) query = query.where('task_id', '<', options.after);
    const { of } = options;
    if (of) query = query.where('owner', '=', of.id);
    if (of?.scopes) query = query.where('principal', '=', principalText(of));
    for (const condition of conditionsOf(options.sought ?? {})) query = query.where(condition);
    return (await query.execute()).map((row) => this.#runner.live(row));
  }

  /** Returns when the task ended, `waitMs` passed or the signal was aborted. */
  async wait(taskId: string, waitMs: number, signal?: AbortSignal): Promise<TaskRecord | undefined> {
    const { promise: ended, resolve } = Promise.withResolvers<void>();
    const all = this.#waiting.get(taskId) ?? new Set();
    this.#waiting.set(taskId, all.add(resolve));
    const timer = setTimeout(resolve, waitMs);
    const aborted = (): void => resolve();
    signal?.addEventListener('abort', aborted, { once: true });
    try {
      // Read after the waiting began, so that an end in between is not missed.
      const record = await this.get(taskId);
      if (!record || isTerminal(record.state) || signal?.aborted) return record;
      await ended;
      return await this.get(taskId);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', aborted);
      all.delete(resolve);
      if (all.size === 0 && this.#waiting.get(taskId) === all) this.#waiting.delete(taskId);
    }
  }

  /** Idempotent. A pending task is cancelled at once, a running one is told to stop, an ended one stays as it is. */
  async cancel(taskId: string, actor: Actor): Promise<TaskRecord | undefined> {
    const now = this.#clock();
    const moved = await this.#store.transaction(async (tx) => {
      const row = await readTask(tx, taskId);
      if (row) requireBasis(basisOfTask(taskRecord(row)), actor);
      const ended = await moveTask(tx, taskId, ['pending'], ending('cancelled', now, {}));
      const told = !ended && (await moveTask(tx, taskId, ['running'], { state: 'cancelling' }));
      if (ended || told) await this.#trail.append(tx, actor, { outcome: '0', objectId: taskId });
      return { ended, told };
    });
    if (moved.ended) {
      const row = await readTask(this.#store.db, taskId);
      if (row) this.#ended(row, true);
      // Somebody may wait for it.
      this.notify();
    } else if (moved.told) this.#runner.cancel(taskId);
    return this.get(taskId);
  }

  /** Cancels what runs as a principal that may no longer act. To be called every few seconds. */
  async revalidate(isActive: (principal: Principal) => boolean): Promise<void> {
    for (const { taskId, type, principal } of this.#runner.records())
      if (this.#kinds.get(type)?.actsAsPrincipal && !isActive(principal))
        await this.cancel(taskId, { ...systemActor, action: 'tasks.revalidate' });
  }

  /** Cancels an unfinished task first. False where there is none. Throws TASK_NOT_CANCELLABLE if it does not end in time. */
  async remove(taskId: string, actor: Actor): Promise<boolean> {
    let record = await this.cancel(taskId, actor);
    if (record && !isTerminal(record.state)) record = await this.wait(taskId, removeWaitMs);
    if (!record) return false;
    if (!isTerminal(record.state)) {
      throw new Failure('TASK_NOT_CANCELLABLE', 'The task was told to stop and has not stopped yet.', { taskId });
    }
    await this.#delete(record, actor);
    return true;
  }

  /** Settles what a former process left running, then runs what is pending. */
  async start(): Promise<void> {
    await this.#runner.start();
  }

  /** Hands running work back, and lets those go who wait for it. Returns after at most `deadlineMs`. */
  async stop(deadlineMs: number): Promise<void> {
    await this.#runner.stop(deadlineMs);
    for (const all of this.#waiting.values()) for (const wake of all) wake();
  }

  /** Removes ended tasks past their retention. Returns how many. */
  async sweep(): Promise<number> {
    const before = this.#clock() - this.#retentionMs;
    let removed = 0;
    for (let after = ''; ; ) {
      const page = await this.#store.db
        .selectFrom('tasks')
        .selectAll()
        .where('state', 'in', terminalStates)
        .where('ended_at', '<', before)
        .where('task_id', '>', after)
        .orderBy('task_id')
        .limit(sweepPage)
        .execute();
      for (const row of page) {
        after = row.task_id;
        try {
          await this.#delete(taskRecord(row), { ...systemActor, action: 'tasks.expire' });
          removed++;
        } catch (error) {
          this.#observe({ kind: 'backgroundError', what: 'remove a task past its retention', error });
        }
      }
      if (page.length < sweepPage) return removed;
    }
  }

  /** Files first: should it stop in between, the record is still there to find them by. */
  async #delete(record: TaskRecord, actor: Actor): Promise<void> {
    const { taskId } = record;
    actor.writing = true;
    await this.#kinds.get(record.type)?.removed?.(record);
    await this.#store.transaction(async (tx) => {
      const gone = await tx
        .deleteFrom('tasks')
        .where('task_id', '=', taskId)
        .where('state', 'in', terminalStates)
        .executeTakeFirst();
      if (gone.numDeletedRows === 0n) return;
      await this.#notices?.forget(tx, taskId);
      await this.#trail.append(tx, actor, { outcome: '0', objectId: taskId });
    });
  }

  #ended(row: TaskRow, abandoned: boolean): void {
    for (const wake of this.#waiting.get(row.task_id) ?? []) wake();
    if (row.notify !== null) this.#notices?.look();
    const ms = (row.ended_at ?? 0) - (row.started_at ?? row.submitted_at);
    this.#observe({ kind: 'taskEnded', taskId: row.task_id, type: row.type, state: row.state, ms });
    const kind = this.#kinds.get(row.type);
    const told = [kind?.ended?.(taskRecord(row)), abandoned ? kind?.abandoned?.(taskRecord(row)) : undefined];
    for (const one of told)
      one?.catch((error) => this.#observe({ kind: 'backgroundError', what: 'settle a task that ended', error }));
  }
}
