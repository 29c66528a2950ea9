// Runs queued tasks, up to a limit of concurrent ones, and saves their outcomes. At startup it recovers the tasks of a dead process; at
// shutdown it returns running tasks to the queue.
import { setTimeout as pause } from 'node:timers/promises';
import type { Kysely } from 'kysely';
import { withTimeout } from '../model/concurrency/bounded_waits.ts';
import type { Observe } from '../observe/observations.ts';
import { Failure } from '../standard/failure.ts';
import { type ClockTimes, clockTimes, type Lease, type LeaseHolder, ownLeaseMs, passedMs } from '../store/leases.ts';
import type { Schema } from '../store/schema.ts';
import type { Store } from '../store/store.ts';
import { LeaseLost, Leases } from './leases.ts';
import {
  afterCrash,
  completion,
  type Ended,
  endsEngine,
  endsUndecided,
  interruption,
  type Outcome,
  outcomeOf,
  undecided,
} from './outcome.ts';
import { TaskQueue } from './queue.ts';
import { RunningTask } from './running_task.ts';
import {
  type AdoptedContext,
  Cancelled,
  HandedBack,
  type StoredTask,
  type TaskContext,
  type TaskKind,
  type TaskRecord,
} from './task.ts';
import { ending, isTerminal, type MoveTask, readTask, type TaskRow, taskRecord } from './task_rows.ts';

/** The queue is polled at this interval even without a notification, and more often if other servers queue tasks. */
const pollEveryMs = 30_000;
const sharedPollEveryMs = 1_000;
/** Part of the shutdown time that is reserved for writes to the store. */
const stopReserveMs = 500;
const saveRetryMsMin = 50;
const saveRetryMsMax = 5000;
/** For whoever says whether the work of a task counts. */
const decidedMsMax = 30_000;
const askAgainMs = 10_000;
const heldPauseMs = 200;
/** A timer that is later than this shows that the process was stalled, the machine suspended, or its clock set. */
const stallMs = 1_000;

export interface RunnerOptions {
  readonly store: Store;
  readonly kinds: ReadonlyMap<string, TaskKind>;
  readonly runnersMax: number;
  readonly holder: LeaseHolder;
  readonly heartbeatEveryMs: number;
  readonly retryPauseMs: number;
  readonly observe: Observe;
  readonly move: MoveTask;
  readonly clock: () => number;
  /** Returns a random number from 0 to 1, which spreads retries. */
  readonly jitter: () => number;
  /** Called when a task has ended. `abandoned`: `run` of its kind was not executing at the end. */
  readonly ended: (row: TaskRow, abandoned: boolean) => void;
}

export class TaskRunner {
  readonly #store: Store;
  readonly #options: RunnerOptions;
  readonly #kinds: ReadonlyMap<string, TaskKind>;
  readonly #observe: Observe;
  readonly #clock: () => number;
  readonly #queue: TaskQueue;
  readonly #leases: Leases;
  readonly #pollEveryMs: number;
  readonly #running = new Map<string, RunningTask>();
  /** Tasks without a runner of which is being asked whether their work counts. */
  readonly #deciding = new Set<string>();
  /** Engine processes that each task has crashed, for tasks that will be retried here. */
  readonly #enginesEnded = new Map<string, number>();
  #state: 'new' | 'started' | 'stopping' = 'new';
  #dispatching: Promise<void> | undefined;
  #dispatchAgain = false;
  #timer: NodeJS.Timeout | undefined;
  #heartbeat: NodeJS.Timeout | undefined;
  #beating: Promise<void> | undefined;
  #lapseCheck: NodeJS.Timeout | undefined;
  #checkedAt: ClockTimes;
  #stalledAt = Number.NEGATIVE_INFINITY;
  #takingOver: Promise<void> | undefined;

  constructor(options: RunnerOptions) {
    this.#options = options;
    this.#store = options.store;
    this.#kinds = options.kinds;
    this.#observe = options.observe;
    this.#clock = options.clock;
    this.#checkedAt = clockTimes(options.clock());
    const types = () => [...options.kinds.keys()];
    this.#queue = new TaskQueue(options.store, options.clock, options.move, types, options.holder.serverId);
    this.#pollEveryMs = options.holder.isShared ? sharedPollEveryMs : pollEveryMs;
    this.#leases = new Leases(options.store, options.clock, options.holder);
  }

  get stopping(): boolean {
    return this.#state === 'stopping';
  }

  notify(): void {
    if (this.#state !== 'started') return;
    this.#dispatchAgain = true;
    this.#dispatching ??= this.#dispatch();
  }

  /** The lease columns of a task that this runner runs. */
  lease(): Lease {
    return this.#leases.newLease();
  }

  /** Takes over work whose row is already in state `running`. */
  adopt(row: TaskRow, running: (task: AdoptedContext) => Promise<unknown>): void {
    const task = this.#register(row, true);
    task.isHeld = true;
    if (this.stopping) task.controller.abort(new HandedBack());
    task.done = this.#work(task, () => running(this.#contextOf(task)));
  }

  #contextOf(task: RunningTask): AdoptedContext {
    const { controller, progress } = task;
    const requireHeld = async (db: Kysely<Schema>) => {
      if (await this.#isHeld(db, task)) return;
      const lost = new LeaseLost();
      controller.abort(lost);
      throw lost;
    };
    return { signal: controller.signal, progress, requireHeld };
  }

  /** A store that fails for less time than a lease lasts ends no work. A transaction cannot continue after a failure. */
  async #isHeld(db: Kysely<Schema>, { controller: { signal }, record }: RunningTask): Promise<boolean> {
    const began = performance.now();
    for (;;) {
      try {
        return await this.#leases.isHeld(db, record.taskId);
      } catch (error) {
        if (db.isTransaction || signal.aborted || performance.now() - began > ownLeaseMs) throw error;
        await pause(heldPauseMs, undefined, { signal }).catch(() => undefined);
      }
    }
  }

  /** Does nothing if the task does not run here. */
  cancel(taskId: string): void {
    this.#running.get(taskId)?.controller.abort(new Cancelled());
  }

  async start(): Promise<void> {
    await this.#takeOver();
    this.#state = 'started';
    this.#scheduleHeartbeat();
    this.#lapseCheck = setInterval(() => this.#abortLapsed(), this.#options.heartbeatEveryMs).unref();
    this.notify();
  }

  /**
   * Ends the work whose lease could not be renewed if another server may write the same files now. The store, which this server may not reach, is
   * not waited for. Mostly no server reaches it, and none takes anything over: other work continues.
   */
  #abortLapsed(): void {
    const { heartbeatEveryMs } = this.#options;
    const now = clockTimes(this.#clock());
    if (passedMs(this.#checkedAt, now.time) > heartbeatEveryMs + stallMs) this.#stalledAt = now.elapsed;
    this.#checkedAt = now;
    // The renewals are late too; the next one finds out whether another server has the tasks.
    if (now.elapsed - this.#stalledAt <= 2 * heartbeatEveryMs) return;
    for (const { isHeld, record, leasedAt, controller } of this.#running.values()) {
      const isShared = record.serverId === null && this.#kinds.get(record.type)?.writesFiles === true;
      if (isHeld && isShared && this.#leases.hasLapsed(leasedAt)) controller.abort(new LeaseLost());
    }
  }

  /** Requeues or ends tasks that have lost their runner. */
  async #takeOver(): Promise<void> {
    for (const row of await this.#leases.abandoned(new Set(this.#running.keys()))) {
      if (this.stopping) return;
      const outcome = afterCrash(taskRecord(row), this.#kinds.get(row.type));
      if (this.#mustAsk(row, outcome)) this.#takeOverWhenDecided(row, outcome);
      else await this.#settle(row, outcome);
    }
  }

  /** Whoever says whether the work of a task counts may take long to answer, or not answer at all: no other task waits for that. */
  #takeOverWhenDecided(row: TaskRow, outcome: Outcome): void {
    if (this.#deciding.has(row.task_id)) return;
    this.#deciding.add(row.task_id);
    void this.#decided(taskRecord(row), outcome, 0)
      .then(async (decided) => {
        await this.#settle(row, decided);
        this.notify();
      })
      .catch(async (error) => {
        this.#observe({ kind: 'backgroundError', what: 'take over a task', error });
        await pause(askAgainMs, undefined, { ref: false });
      })
      .finally(() => this.#deciding.delete(row.task_id));
  }

  async #settle(row: TaskRow, outcome: Outcome): Promise<void> {
    if (!(await this.#move(row, outcome, row))) return;
    const now = await readTask(this.#store.db, row.task_id);
    if (now && isTerminal(now.state)) this.#options.ended(now, true);
  }

  /** Not waited for: the tasks of a dead runner may be many, and the leases of this one are renewed meanwhile. */
  #startTakeOver(): void {
    this.#takingOver ??= this.#takeOver()
      .then(() => this.notify())
      .catch((error) => this.#observe({ kind: 'backgroundError', what: 'take over tasks', error }))
      .finally(() => {
        this.#takingOver = undefined;
      });
  }

  #scheduleHeartbeat(): void {
    this.#heartbeat = setTimeout(() => {
      this.#beating = this.#beat();
    }, this.#options.heartbeatEveryMs).unref();
  }

  async #beat(): Promise<void> {
    try {
      await this.#renewLeases();
      if (this.#state === 'started') this.#startTakeOver();
    } catch (error) {
      this.#observe({ kind: 'backgroundError', what: 'renew the leases of tasks', error });
    }
    if (this.#state === 'started') this.#scheduleHeartbeat();
  }

  /** Also applies cancellations by other servers. */
  async #renewLeases(): Promise<void> {
    const heldTasks = [...this.#running.values()].filter((task) => task.isHeld);
    if (heldTasks.length === 0) return;
    const leasedAt = clockTimes(this.#clock());
    const states = await this.#leases.renew(heldTasks.map(({ record }) => record.taskId));
    for (const task of heldTasks) {
      const state = states.get(task.record.taskId);
      if (state === undefined) task.controller.abort(new LeaseLost());
      else task.leasedAt = leasedAt;
      if (state === 'cancelling') task.controller.abort(new Cancelled());
    }
  }

  async stop(deadlineMs: number): Promise<void> {
    this.#state = 'stopping';
    clearTimeout(this.#timer);
    clearTimeout(this.#heartbeat);
    clearInterval(this.#lapseCheck);
    await withTimeout(this.#handBack(), Math.max(0, deadlineMs - stopReserveMs));
    // Tasks that do not stop in time are handed back too: their work ends with this process.
    for (const task of this.#running.values()) {
      const cancelled = task.controller.signal.reason instanceof Cancelled;
      const stopped = cancelled ? ({ kind: 'cancelled' } as const) : interruption(this.#kinds.get(task.record.type));
      // Whoever takes it over asks.
      const outcome = this.#mustAsk(task.record, stopped) ? undecided(task.record, stopped) : stopped;
      const row = await readTask(this.#store.db, task.record.taskId);
      if (row) await this.#move(row, outcome, this.#leases.own);
    }
  }

  /** Until no task runs, and none is being started or taken over. */
  async #handBack(): Promise<void> {
    const abortAll = () => {
      for (const { controller } of this.#running.values()) controller.abort(new HandedBack());
    };
    abortAll();
    await Promise.all([this.#dispatching, this.#beating]);
    await this.#takingOver;
    // Also what was being started.
    abortAll();
    await Promise.all([...this.#running.values()].map(({ done }) => done));
  }

  /** A task whose work counts is run until it has succeeded. */
  async #decided(task: TaskRecord, outcome: Outcome, pauseMs: number): Promise<Outcome> {
    if (!this.#mustAsk(task, outcome) || !(await this.#kinds.get(task.type)?.isDecided?.(task))) return outcome;
    return completion(task, outcome, pauseMs);
  }

  /** Whether the kind of a task must be asked before the task ends so. */
  #mustAsk({ type }: Pick<TaskRow, 'type'>, outcome: Outcome): boolean {
    return endsUndecided(outcome) && this.#kinds.get(type)?.isDecided !== undefined;
  }

  /** Without an answer in time the task keeps no runner waiting. */
  async #decidedInTime(task: TaskRecord, outcome: Outcome): Promise<Outcome> {
    const asked = this.#decided(task, outcome, this.#options.retryPauseMs);
    const decided = await withTimeout(asked, decidedMsMax, { ref: false }).catch(() => undefined);
    return decided ?? undecided(task, outcome);
  }

  #move(row: TaskRow, outcome: Outcome, held: Partial<Lease>): Promise<boolean> {
    const columns = this.#columns(outcome, row);
    const from = ['running', 'cancelling'] as const;
    return this.#store.transaction((tx) => this.#options.move(tx, row.task_id, from, columns, held));
  }

  /** The column of a task that succeeded here, if this server has its result. */
  serverOfResult(type: string): Partial<Pick<TaskRow, 'server_id'>> {
    const { serverId } = this.#options.holder;
    return serverId !== undefined && this.#kinds.get(type)?.leavesResult ? { server_id: serverId } : {};
  }

  /** The records of running tasks. */
  records(): TaskRecord[] {
    return [...this.#running.values()].map(({ record }) => record);
  }

  /** The record with progress that is not yet in the store. */
  live(row: TaskRow): StoredTask {
    const task = this.#running.get(row.task_id);
    if (!task || isTerminal(row.state)) return taskRecord(row);
    const { fraction: progress, text: progressText, expectedEndAt } = task;
    return { ...taskRecord(row), progress, progressText, expectedEndAt };
  }

  async #dispatch(): Promise<void> {
    try {
      while (this.#dispatchAgain && this.#state === 'started') {
        this.#dispatchAgain = false;
        await this.#settleWaits();
        await this.#queue.resume();
        while (this.#hasRoom() && (await this.#startNext()));
      }
      await this.#scheduleNextPoll();
    } catch (error) {
      this.#observe({ kind: 'backgroundError', what: 'start queued tasks', error });
      this.#dispatchAgain = false;
      this.#pollAfter(this.#options.retryPauseMs);
    } finally {
      this.#dispatching = undefined;
    }
    if (this.#dispatchAgain) this.notify();
  }

  /** Queues or fails the tasks that depended on ended tasks. */
  async #settleWaits(): Promise<void> {
    for (let more = true; more; ) {
      const settled = await this.#queue.settle();
      for (const row of settled.failed) this.#options.ended(row, true);
      more = settled.more;
    }
  }

  /** The owners of the tasks that have a runner, each as often as it has one. */
  #ownersServed(): string[] {
    return [...this.#running.values()].flatMap(({ adopted, record }) => (adopted ? [] : [record.principal.id]));
  }

  #hasRoom(): boolean {
    return this.#state === 'started' && this.#ownersServed().length < this.#options.runnersMax * 2;
  }

  async #scheduleNextPoll(): Promise<void> {
    if (this.#state !== 'started' || !this.#hasRoom()) return;
    const dueAt = await this.#queue.nextDueAt();
    const dueMs = dueAt === undefined ? Number.POSITIVE_INFINITY : Math.max(1, dueAt - this.#clock());
    this.#pollAfter(Math.min(this.#pollEveryMs, dueMs));
  }

  #pollAfter(ms: number): void {
    clearTimeout(this.#timer);
    if (this.#state === 'started') this.#timer = setTimeout(() => this.notify(), ms).unref();
  }

  /**
   * Starts the next task; returns false when none is due. As many runners again as `runnersMax` are for owners that have none: the tasks of
   * one owner, however long they run, do not keep those of others waiting.
   */
  async #startNext(): Promise<boolean> {
    const owners = this.#ownersServed();
    const known = new Set(this.#running.keys());
    const row = await (owners.length < this.#options.runnersMax
      ? this.#queue.next(known)
      : this.#queue.nextOfOthers(new Set(owners), known));
    if (!row) return false;
    const kind = this.#kinds.get(row.type);
    const started: TaskRow = {
      ...row,
      state: 'running',
      started_at: this.#clock(),
      attempt: row.attempt + 1,
      place: null,
      ...this.#leases.newLease(),
    };
    // Registered before the store is updated, so that a concurrent cancellation finds the task.
    const task = this.#register(started, false);
    const { state, started_at, attempt, place, leased_by, lease_until } = started;
    const columns = { state, started_at, attempt, place, leased_by, lease_until };
    const moved = await this.#store
      .transaction((tx) => this.#options.move(tx, row.task_id, ['pending'], columns))
      .catch((error) => {
        this.#running.delete(row.task_id);
        throw error;
      });
    if (!moved) this.#running.delete(row.task_id);
    else {
      task.isHeld = true;
      this.#queue.countStarted();
      const isRetry = row.started_at !== null;
      const context = { ...this.#contextOf(task), isRetry, store: this.#store };
      task.done = this.#work(task, () => runKind(kind, task, context));
    }
    return true;
  }

  #register(row: TaskRow, adopted: boolean): RunningTask {
    const task = new RunningTask(row, adopted, {
      store: this.#store,
      observe: this.#observe,
      clock: this.#clock,
    });
    this.#running.set(row.task_id, task);
    return task;
  }

  async #work(task: RunningTask, run: () => Promise<unknown>): Promise<void> {
    const ended: Ended = await Promise.resolve()
      .then(run)
      .then(
        (result) => ({ ok: true, result }),
        (error) => ({ ok: false, error }),
      );
    task.end();
    const { taskId, type } = task.record;
    const { reason } = task.controller.signal;
    if (endsEngine(ended)) this.#enginesEnded.set(taskId, (this.#enginesEnded.get(taskId) ?? 0) + 1);
    const enginesEnded = this.#enginesEnded.get(taskId) ?? 0;
    const pause = { pauseMs: this.#options.retryPauseMs, jitter: this.#options.jitter(), enginesEnded };
    const outcome = outcomeOf(ended, reason, task.record, this.#kinds.get(type), pause);
    if (outcome.kind === 'failed' && outcome.fault !== undefined) {
      const description = `task ${taskId}: ${JSON.stringify(outcome.error.result ?? outcome.error.code)}`;
      this.#observe({ kind: 'backgroundError', what: description, error: outcome.fault });
    }
    const row = await this.#save(task, outcome);
    if (outcome.kind !== 'retry') this.#enginesEnded.delete(taskId);
    this.#running.delete(taskId);
    if (row && isTerminal(row.state)) this.#options.ended(row, false);
    this.notify();
  }

  /** Retries until the store accepts the write: a task whose end is not saved would stay `running` without a runner. */
  async #save(task: RunningTask, outcome: Outcome): Promise<TaskRow | undefined> {
    const { taskId } = task.record;
    const progress = { progress: task.fraction, progress_text: task.text };
    for (let pauseMs = saveRetryMsMin; ; pauseMs = Math.min(saveRetryMsMax, pauseMs * 2)) {
      try {
        const { own } = this.#leases;
        const save = async (end: Outcome, from: readonly TaskRow['state'][]) => {
          const columns = { ...progress, ...this.#columns(end, task.record) };
          return this.#store.transaction((tx) => this.#options.move(tx, taskId, from, columns, own));
        };
        const ended = await this.#decidedInTime(task.record, outcome);
        const isRetry = ended.kind === 'retry' && outcome.kind !== 'cancelled';
        if (!(await save(ended, isRetry ? ['running'] : ['running', 'cancelling'])) && isRetry) {
          const row = await readTask(this.#store.db, taskId);
          // The task was cancelled while its retry was being scheduled.
          if (row?.state === 'cancelling' && row.leased_by === own.leased_by)
            await save(await this.#decidedInTime(task.record, { kind: 'cancelled' }), ['cancelling']);
        }
        return await readTask(this.#store.db, taskId);
      } catch (error) {
        this.#observe({ kind: 'backgroundError', what: 'save the end of a task', error });
        if (this.#state === 'stopping') return undefined;
        await pause(pauseMs, undefined, { ref: false });
      }
    }
  }

  #columns(outcome: Outcome, row: Pick<TaskRow, 'attempt' | 'type'>): Partial<TaskRow> {
    const now = this.#clock();
    if (outcome.kind === 'succeeded')
      return { ...ending('succeeded', now, { result: outcome.result }), ...this.serverOfResult(row.type) };
    if (outcome.kind === 'failed') return ending('failed', now, { error: outcome.error });
    if (outcome.kind === 'cancelled') return ending('cancelled', now, {});
    if (outcome.kind === 'undecided') return { state: 'cancelling', leased_by: null, lease_until: null };
    return {
      state: 'pending',
      not_before: now + outcome.pauseMs,
      attempt: outcome.counts ? row.attempt : Math.max(0, row.attempt - 1),
      leased_by: null,
      lease_until: null,
      progress: null,
      expected_end_at: null,
      progress_text: `attempt ${row.attempt}: ${outcome.why}`,
    };
  }
}

function runKind(kind: TaskKind | undefined, task: RunningTask, context: TaskContext): Promise<unknown> {
  // The task was cancelled, or the server stopped, before the run started.
  context.signal.throwIfAborted();
  if (kind?.run) return kind.run(task.record, context);
  throw new Failure('TASK_INTERRUPTED', 'this release cannot run tasks of this type');
}
