// The durable task queue: submits, lists, awaits, cancels and deletes tasks. Independent of the kinds of tasks. See runner.ts for how
// they run.

import assert from 'node:assert/strict';
import { type Kysely, type RawBuilder, sql, type Transaction } from 'kysely';
import { noTrail, type Trail } from '../access/audit/audit_log.ts';
import { RetainedBytes, type RetainedRows, retainedBytesMax } from '../access/limits/retained_bytes.ts';
import { withTimeout } from '../model/concurrency/bounded_waits.ts';
import { dayMs } from '../model/durations.ts';
import { newId } from '../model/ids.ts';
import { type Actor, type Principal, systemActor } from '../model/principal.ts';
import type { Observe } from '../observe/observations.ts';
import { requireExpectedVersion } from '../standard/expected_version.ts';
import { Failure } from '../standard/failure.ts';
import type { Change } from '../store/changes/change.ts';
import type { ChangeFeed } from '../store/changes/change_feed.ts';
import { hasPendingNotification } from '../store/index_conditions.ts';
import { LeaseHolder } from '../store/leases.ts';
import { type Batch, readBatch } from '../store/row_batches.ts';
import type { Schema } from '../store/schema.ts';
import { isSweptHere } from '../store/servers.ts';
import type { Store } from '../store/store.ts';
import { afterCommit } from '../store/transactions.ts';
import { TaskRunner } from './runner.ts';
import { GroupedWrites, insertTask } from './submission.ts';
import {
  type AdoptedContext,
  type ResultOf,
  type StoredTask,
  type TaskError,
  type TaskKind,
  type TaskRecord,
  type TaskRequest,
  versionOfTask,
} from './task.ts';
import {
  announcedMoves,
  bytesOfRow,
  ending,
  insertRow,
  isTerminal,
  type MoveTask,
  moveTask,
  readTask,
  sizesOfEnded,
  type TaskRow,
  taskRecord,
  terminalStates,
  textColumns,
} from './task_rows.ts';
import { listTasks, type TaskListOptions } from './task_search.ts';
import { serverOfTask } from './task_server.ts';
import { TaskWaiters } from './task_waiters.ts';
import type { Webhooks } from './webhooks.ts';

/** How long the deletion of a running task waits for its end. */
const removeWaitMs = 10_000;
const decidedMsMax = 5000;
const retryPauseMs = 1000;
const sweepPage = 100;
/** Whoever waits for a task sees its end. */
const justEndedMs = 60_000;

export interface TasksOptions {
  readonly store: Store;
  /** Further kinds are registered before the start. */
  readonly kinds?: readonly TaskKind[] | undefined;
  readonly runnersMax: number;
  /** This process; by default the only one that uses the store. */
  readonly holder?: LeaseHolder | undefined;
  readonly retentionDays: number;
  /** Of the ended tasks of one principal, and again of those that are still needed. */
  readonly ownerBytesMax?: number | undefined;
  /** By which the servers of a shared store learn of ends and cancellations by others. */
  readonly changes?: Pick<ChangeFeed, 'append' | 'follow'> | undefined;
  /** Throws if the principal is at its limit of unfinished tasks. Called in the transaction that inserts the task. */
  readonly requireRoom?: ((db: Kysely<Schema>, principalId: string) => Promise<void>) | undefined;
  readonly observe?: Observe | undefined;
  readonly clock?: (() => number) | undefined;
  /** The delay before the second attempt; doubled for each further one. */
  readonly retryPauseMs?: number | undefined;
  readonly heartbeatEveryMs?: number | undefined;
  readonly trail?: Trail | undefined;
  readonly webhooks?: Pick<Webhooks, 'add' | 'remove' | 'dispatch'> | undefined;
  /** A random number from 0 to 1, for the jitter of delays. */
  readonly jitter?: (() => number) | undefined;
}

/** `startedAt` and `endedAt` in milliseconds since 1970. */
export interface FinishedTask<T extends string> extends TaskRequest<T> {
  readonly state: 'succeeded' | 'failed' | 'cancelled';
  readonly startedAt: number;
  readonly endedAt: number;
  readonly result?: ResultOf<T>;
  readonly error?: TaskError | null;
  /** For a task whose id was known in advance (the name of its files). */
  readonly taskId?: string;
}

/** Work that already runs. `running` connects it to the signal and progress of its task. */
export interface AdoptedTask<T extends string> extends TaskRequest<T> {
  readonly taskId?: string;
  readonly running: (task: AdoptedContext) => Promise<ResultOf<T>>;
}

export class Tasks {
  readonly #store: Store;
  readonly #kinds = new Map<string, TaskKind>();
  readonly #retentionMs: number;
  readonly #retained: readonly RetainedBytes[];
  readonly #requireRoom: TasksOptions['requireRoom'];
  readonly #observe: Observe;
  readonly #clock: () => number;
  readonly #runner: TaskRunner;
  readonly #holder: LeaseHolder;
  readonly #trail: Trail;
  readonly #webhooks: TasksOptions['webhooks'];
  readonly #submissions: GroupedWrites<TaskRow>;
  readonly #move: MoveTask;
  readonly #waiters = new TaskWaiters();
  /** What is done because a task has ended. */
  readonly #endings = new Set<Promise<void>>();

  constructor(options: TasksOptions) {
    this.#store = options.store;
    this.register(options.kinds ?? []);
    this.#observe = options.observe ?? (() => {});
    this.#clock = options.clock ?? Date.now;
    this.#trail = options.trail ?? noTrail;
    this.#retentionMs = options.retentionDays * dayMs;
    const { ownerBytesMax = retainedBytesMax } = options;
    this.#retained = [true, false].map((isNeeded) => new RetainedBytes(ownerBytesMax, this.#endedRows(isNeeded)));
    this.#requireRoom = options.requireRoom;
    this.#webhooks = options.webhooks;
    this.#submissions = new GroupedWrites(options.store);
    const changes = options.store.isShared ? options.changes : undefined;
    this.#move = changes ? announcedMoves(changes) : moveTask;
    changes?.follow({
      changed: (change) => this.#changed(change),
      reload: () => this.#waiters.wakeAll(),
    });
    const holder = options.holder ?? new LeaseHolder();
    this.#holder = holder;
    this.#runner = new TaskRunner({
      store: this.#store,
      kinds: this.#kinds,
      runnersMax: options.runnersMax,
      holder,
      heartbeatEveryMs: options.heartbeatEveryMs ?? holder.renewEveryMs,
      retryPauseMs: options.retryPauseMs ?? retryPauseMs,
      observe: this.#observe,
      move: this.#move,
      clock: this.#clock,
      jitter: options.jitter ?? Math.random,
      ended: (row, abandoned) => this.#ended(row, abandoned),
    });
  }

  /** Must be called before `start`. */
  register(kinds: readonly TaskKind[]): void {
    for (const kind of kinds) {
      assert(!this.#kinds.has(kind.type), `the task type ${kind.type} is registered already`);
      this.#kinds.set(kind.type, kind);
    }
  }

  /** The task is durable when this returns. With `tx`, it is part of that transaction, and the caller calls `notify` after the commit. */
  async submit<T extends string>(request: TaskRequest<T>, tx?: Transaction<Schema>): Promise<TaskRecord<T>> {
    assert(this.#kinds.get(request.type)?.run, `nothing runs tasks of type ${request.type}`);
    const write = async (db: Transaction<Schema>) => {
      // Before anything is written: the transaction of a group is committed also if this throws.
      await this.#trail.requireKeyHeld(db, request.guard);
      await this.#requireRoom?.(db, request.principal.id);
      const ofServer = await this.#ofServer(db, request);
      const row = await this.#addWebhook(db, request, await insertTask(db, ofServer, this.#clock()));
      await this.#trail.markKeyDone(db, request.guard, row.task_id);
      const { submissionAudit } = request;
      const details = { taskId: row.task_id };
      if (submissionAudit)
        await this.#trail.append(db, submissionAudit.actor, {
          outcome: '0',
          objectId: submissionAudit.objectId,
          details,
        });
      return row;
    };
    if (tx) return newRecord(request, await write(tx));
    const row = await this.#submissions.write(write);
    this.notify();
    return newRecord(request, row);
  }

  /** Wakes the runner, for new tasks. */
  notify(): void {
    this.#runner.notify();
  }

  /**
   * Creates a task for work that already runs in this process. If the process dies, the task is run again if its kind allows that, and otherwise fails with TASK_INTERRUPTED.
   */
  async adopt<T extends string>(request: AdoptedTask<T>): Promise<TaskRecord<T>> {
    if (this.#runner.stopping) throw new Failure('SHUTTING_DOWN', 'the server is shutting down');
    const now = this.#clock();
    const row = await this.#insert(request, now, {
      task_id: request.taskId ?? newId(now),
      state: 'running',
      started_at: now,
      attempt: 1,
      ...this.#runner.lease(),
    });
    this.#runner.adopt(row, request.running);
    return newRecord(request, row);
  }

  async #insert(request: TaskRequest, now: number, columns: Partial<TaskRow>) {
    return this.#store.transaction(async (tx) => {
      await this.#requireRoom?.(tx, request.principal.id);
      const row = await this.#addWebhook(
        tx,
        request,
        await insertRow(tx, await this.#ofServer(tx, request), now, columns),
      );
      await this.#trail.markKeyDone(tx, request.guard, row.task_id);
      return row;
    });
  }

  async #ofServer<R extends TaskRequest>(db: Kysely<Schema>, request: R): Promise<R> {
    return this.#store.isShared ? { ...request, serverId: await serverOfTask(db, request) } : request;
  }

  /** Stores the webhook of the task, if there is one. */
  async #addWebhook(tx: Transaction<Schema>, { notify }: TaskRequest, row: TaskRow): Promise<TaskRow> {
    if (!notify) return row;
    if (!this.#webhooks) throw new Error('webhooks are not available');
    return { ...row, notify: JSON.stringify(await this.#webhooks.add(tx, row.task_id, notify)) };
  }

  /** Records work that has already ended. */
  async record<T extends string>(finished: FinishedTask<T>): Promise<StoredTask> {
    const request = await this.#ofServer(this.#store.db, finished);
    const row = await insertRow(this.#store.db, request, finished.startedAt, {
      ...ending(finished.state, finished.endedAt, {
        result: JSON.stringify(finished.result),
        error: finished.error ?? null,
      }),
      ...(finished.taskId === undefined ? {} : { task_id: finished.taskId }),
      started_at: finished.startedAt,
      attempt: 1,
      ...(finished.state === 'succeeded' ? this.#runner.serverOfResult(finished.type) : {}),
    });
    this.#retain(row);
    return taskRecord(row);
  }

  /** Records a task that failed before it started, and returns its id. */
  async recordFailed(request: TaskRequest, error: TaskError, tx: Transaction<Schema>): Promise<string> {
    const now = this.#clock();
    const row = await this.#addWebhook(
      tx,
      request,
      await insertRow(tx, await this.#ofServer(tx, request), now, ending('failed', now, { error })),
    );
    const { task_id: taskId } = row;
    if (row.notify !== null)
      await tx.updateTable('tasks').set({ notify_at: now }).where('task_id', '=', taskId).execute();
    afterCommit(tx, () => this.#ended(row, false));
    return taskId;
  }

  async get(taskId: string): Promise<StoredTask | undefined> {
    const row = await readTask(this.#store.db, taskId);
    return row && this.#runner.live(row);
  }

  /** In descending order of ids, which is the order of submission: fewer than `limit` where they are large. */
  async list(options: TaskListOptions): Promise<Batch<StoredTask>> {
    const { items, ...rest } = await listTasks(this.#store.db, options);
    return { items: items.map((row) => this.#runner.live(row)), ...rest };
  }

  /** Returns when the task ended, `waitMs` passed, the signal was aborted or the server stops. */
  wait(taskId: string, waitMs: number, signal?: AbortSignal): Promise<StoredTask | undefined> {
    return this.#waiters.wait(taskId, () => this.get(taskId), { waitMs, signal });
  }

  /** Changes fields of the stored request of a task that has not ended: what its next attempt must know. */
  async amendRequest(taskId: string, change: object): Promise<void> {
    await this.#store.transaction(async (tx) => {
      const row = await readTask(tx, taskId);
      if (!row || isTerminal(row.state)) return;
      const request = JSON.stringify({ ...JSON.parse(row.request), ...change });
      await tx.updateTable('tasks').set({ request }).where('task_id', '=', taskId).execute();
    });
  }

  /**
   * Idempotent. A pending task is cancelled immediately, unless its work counts already; a running one is signalled to stop, an ended one is
   * not changed.
   */
  async cancel(taskId: string, actor: Actor): Promise<StoredTask | undefined> {
    const now = this.#clock();
    const isDecided = await this.#isDecided(taskId);
    const moved = await this.#store.transaction(async (tx) => {
      const row = await readTask(tx, taskId);
      if (row) requireExpectedVersion(versionOfTask(taskRecord(row)), actor, (effect) => afterCommit(tx, effect));
      const ended = !isDecided && (await this.#move(tx, taskId, ['pending'], ending('cancelled', now, {})));
      const signalled = !ended && (await this.#move(tx, taskId, ['running'], { state: 'cancelling' }));
      if (ended || signalled) await this.#trail.append(tx, actor, { outcome: '0', objectId: taskId });
      return { ended, signalled };
    });
    if (moved.ended) {
      const row = await readTask(this.#store.db, taskId);
      if (row) this.#ended(row, true);
      // Other tasks may depend on it.
      this.notify();
    } else if (moved.signalled) this.#runner.cancel(taskId);
    return this.get(taskId);
  }

  /** Of a task that was interrupted: its kind says it. Also if that is not known within 5 s: what may count is not cancelled. */
  async #isDecided(taskId: string): Promise<boolean> {
    const row = await readTask(this.#store.db, taskId);
    if (row?.state !== 'pending' || row.started_at === null) return false;
    const asked = this.#kinds.get(row.type)?.isDecided?.(taskRecord(row));
    if (!asked) return false;
    const isDecided = await withTimeout(asked, decidedMsMax, { ref: false }).catch(() => true);
    return isDecided ?? true;
  }

  /** Cancels running tasks whose principal has been disabled. Called every few seconds. */
  async revalidate(isActive: (principal: Principal) => boolean): Promise<void> {
    for (const { taskId, type, principal } of this.#runner.records())
      if (this.#kinds.get(type)?.actsAsPrincipal && !isActive(principal))
        await this.cancel(taskId, { ...systemActor, action: 'tasks.revalidate' });
  }

  /** Deletes a task; cancels it first if it has not ended. Returns false if it does not exist. Throws TASK_NOT_CANCELLABLE if it does not end in time. */
  async remove(taskId: string, actor: Actor): Promise<boolean> {
    let record = await this.cancel(taskId, actor);
    if (record && !isTerminal(record.state)) record = await this.wait(taskId, removeWaitMs);
    if (!record) return false;
    if (!isTerminal(record.state)) {
      throw new Failure('TASK_NOT_CANCELLABLE', 'the task was cancelled but has not stopped yet', { taskId });
    }
    await this.#delete(record, actor);
    return true;
  }

  /** Recovers tasks of a previous process, then runs pending ones. */
  async start(): Promise<void> {
    await this.#runner.start();
  }

  /** Returns running tasks to the queue and wakes waiters. Takes at most `deadlineMs`. */
  async stop(deadlineMs: number): Promise<void> {
    const endsAt = performance.now() + deadlineMs;
    await this.#runner.stop(deadlineMs);
    this.#waiters.stop();
    await withTimeout(Promise.all(this.#endings), Math.max(0, endsAt - performance.now()));
  }

  /** Deletes ended tasks after their retention time, except those whose results other servers have that respond. Returns how many. */
  sweep(): Promise<number> {
    return this.#removeEnded(sql`ended_at < ${this.#clock() - this.#retentionMs}`);
  }

  async #removeEnded(which: RawBuilder<boolean>): Promise<number> {
    let removed = 0;
    for (let after = ''; ; ) {
      const query = this.#store.db
        .selectFrom('tasks')
        .selectAll()
        .where('state', 'in', terminalStates)
        .where(which)
        .where(isSweptHere(this.#holder, this.#clock()))
        .where('task_id', '>', after)
        .orderBy('task_id');
      const { items, hasMore } = await readBatch(query, { key: 'task_id', texts: textColumns }, sweepPage);
      for (const row of items) {
        after = row.task_id;
        try {
          await this.#delete(taskRecord(row), { ...systemActor, action: 'tasks.expire' });
          removed++;
        } catch (error) {
          this.#observe({ kind: 'backgroundError', what: 'delete a task after its retention time', error });
        }
      }
      if (!hasMore) return removed;
    }
  }

  /**
   * Ends the tasks of a server that is lost for good; results that it had have expired. In the transaction that removes the server.
   * @returns how many had not ended.
   */
  async abandon(tx: Transaction<Schema>, serverId: string): Promise<number> {
    const unfinished = await tx
      .selectFrom('tasks')
      .selectAll()
      .where('server_id', '=', serverId)
      .where('state', 'not in', terminalStates)
      .execute();
    const message = 'the server that had the data of the task was lost and removed';
    const ended = ending('failed', this.#clock(), { error: { code: 'TASK_INTERRUPTED', message } });
    for (const row of unfinished) {
      await tx.deleteFrom('task_waits').where('task_id', '=', row.task_id).execute();
      await this.#move(tx, row.task_id, ['pending', 'running', 'cancelling'], { ...ended, waits_for: 0 });
      afterCommit(tx, () => this.#ended({ ...row, ...ended }, true));
    }
    await tx.updateTable('tasks').set({ server_id: null }).where('server_id', '=', serverId).execute();
    return unfinished.length;
  }

  /** Deletes files first: after an interruption, the record is still available to find them. */
  async #delete(record: TaskRecord, actor: Actor): Promise<void> {
    const { taskId } = record;
    actor.writing = true;
    await this.#kinds.get(record.type)?.removed?.(record);
    await this.#store.transaction(async (tx) => {
      const deleted = await tx
        .deleteFrom('tasks')
        .where('task_id', '=', taskId)
        .where('state', 'in', terminalStates)
        .executeTakeFirst();
      if (deleted.numDeletedRows === 0n) return;
      await this.#webhooks?.remove(tx, taskId);
      await this.#trail.append(tx, actor, { outcome: '0', objectId: taskId });
    });
  }

  /** A change by any server, also by this one, to which it is no news. */
  #changed(change: Change): void {
    if (change.kind !== 'task') return;
    if (change.state === 'cancelling') this.#runner.cancel(change.taskId);
    else this.#waiters.wake(change.taskId);
  }

  /** Removes the oldest tasks of a principal whose ended ones occupy too much. */
  #retain(row: TaskRow): void {
    for (const retained of this.#retained)
      this.#follow('delete the oldest tasks', retained.written(row.owner, bytesOfRow(row)));
  }

  #follow(what: string, work: Promise<void>): void {
    const done = work
      .catch((error) => this.#observe({ kind: 'backgroundError', what, error }))
      .finally(() => this.#endings.delete(done));
    this.#endings.add(done);
  }

  /** `isNeeded`: those that are needed after their end, because their webhook is to be sent or what they made is found by them; or the others. */
  #endedRows(isNeeded: boolean): RetainedRows {
    const which = () => {
      const kinds = [...this.#kinds.values()].filter((kind) => kind.isNeededAfterEnd);
      const reasons = [hasPendingNotification, ...kinds.map(({ type }) => sql<boolean>`type = ${type}`)];
      const needed = sql<boolean>`(${sql.join(reasons, sql` or `)})`;
      return isNeeded ? needed : sql<boolean>`not ${needed}`;
    };
    return {
      sizes: (owner, after, limit) => sizesOfEnded(this.#store.db, which(), { owner, after, limit }),
      removeFrom: async (owner, key) => {
        const endedBefore = this.#clock() - justEndedMs;
        const oldest = sql`owner = ${owner} and task_id <= ${key} and ended_at < ${endedBefore}`;
        await this.#removeEnded(sql`${which()} and ${oldest}`);
      },
    };
  }

  #ended(row: TaskRow, abandoned: boolean): void {
    this.#waiters.wake(row.task_id);
    this.#retain(row);
    if (row.notify !== null) this.#webhooks?.dispatch();
    const ms = (row.ended_at ?? 0) - (row.started_at ?? row.submitted_at);
    this.#observe({ kind: 'taskEnded', taskId: row.task_id, type: row.type, state: row.state, ms });
    const kind = this.#kinds.get(row.type);
    const callbacks = [kind?.ended?.(taskRecord(row)), abandoned ? kind?.abandoned?.(taskRecord(row)) : undefined];
    for (const callback of callbacks) if (callback) this.#follow('handle the end of a task', callback);
  }
}

/** The record of a task that has just been submitted. */
const newRecord = <T extends string>({ type, request }: TaskRequest<T>, row: TaskRow): TaskRecord<T> => ({
  ...taskRecord(row),
  type,
  request,
  result: null,
});
