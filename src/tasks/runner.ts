// Runs the tasks that the queue holds, as many at once as is allowed, and saves how they end. At a start it settles what a
// dead process left; at a stop it hands back what runs.
import { setTimeout as pause } from 'node:timers/promises';
import type { Observe } from '../observe/observations.ts';
import { Failure } from '../standard/failure.ts';
import type { Store } from '../store/store.ts';
import { type Lease, LeaseLost, Leases } from './leases.ts';
import { afterCrash, type Ended, endsEngine, interruption, type Outcome, outcomeOf } from './outcome.ts';
import { TaskQueue } from './queue.ts';
import { RunningTask } from './running_task.ts';
import { Cancelled, HandedBack, type TaskContext, type TaskKind, type TaskRecord } from './task.ts';
import { ending, isTerminal, moveTask, readTask, type TaskRow, taskRecord } from './task_rows.ts';

/** The queue is looked at this often even when nobody says that there is something in it. */
const pollEveryMs = 30_000;
/** Kept back from the time to stop, for the store. */
const stopReserveMs = 500;
const saveAgainMsMin = 50;
const saveAgainMsMax = 5000;

export interface RunnerOptions {
  readonly store: Store;
  readonly kinds: ReadonlyMap<string, TaskKind>;
  readonly runnersMax: number;
  /** Others run tasks of this store too. */
  readonly isShared: boolean;
  readonly heartbeatEveryMs: number;
  readonly retryPauseMs: number;
  readonly observe: Observe;
  readonly clock: () => number;
  /** From 0 to 1. */
  readonly chance: () => number;
  /** A task ended. `abandoned`: its kind's `run` did not see it end. */
  readonly ended: (row: TaskRow, abandoned: boolean) => void;
}

export class TaskRunner {
  readonly #store: Store;
  readonly #options: RunnerOptions;
  readonly #kinds: ReadonlyMap<string, TaskKind>;
  readonly #observe: Observe;
  readonly #clock: () => number;
  readonly #line: TaskQueue;
  readonly #leases: Leases;
  readonly #running = new Map<string, RunningTask>();
  /** How many engine processes each task has ended; of tasks that will run again here. */
  readonly #enginesEnded = new Map<string, number>();
  #state: 'new' | 'started' | 'stopping' = 'new';
  #looking = false;
  #lookAgain = false;
  #timer: NodeJS.Timeout | undefined;
  #heartbeat: NodeJS.Timeout | undefined;

  constructor(options: RunnerOptions) {
    this.#options = options;
    this.#store = options.store;
    this.#kinds = options.kinds;
    this.#observe = options.observe;
    this.#clock = options.clock;
    this.#line = new TaskQueue(options.store, options.clock);
    this.#leases = new Leases(options.store, options.clock);
  }

  get stopping(): boolean {
    return this.#state === 'stopping';
  }

  notify(): void {
    if (this.#state === 'started') void this.#look();
  }

  /** Columns of a task that this one runs. */
  lease(): Lease {
    return this.#leases.begun();
  }

  /** Takes over work whose row says that it is running. */
  adopt(row: TaskRow, running: (task: Pick<TaskContext, 'signal' | 'progress'>) => Promise<unknown>): void {
    const task = this.#enter(row, true);
    task.isHeld = true;
    task.done = this.#work(task, () => running({ signal: task.controller.signal, progress: task.progress }));
  }

  cancel(taskId: string): void {
    this.#running.get(taskId)?.controller.abort(new Cancelled());
  }

  async start(): Promise<void> {
    await this.#takeOver(!this.#options.isShared);
    this.#state = 'started';
    this.#beatLater();
    this.notify();
  }

  /** What lost its runner goes back into the line, or ends. */
  async #takeOver(all: boolean): Promise<void> {
    for (const row of await this.#leases.abandoned(all)) {
      const outcome = afterCrash(taskRecord(row), this.#kinds.get(row.type));
      if (!(await this.#move(row, outcome, row))) continue;
      const now = await readTask(this.#store.db, row.task_id);
      if (now && isTerminal(now.state)) this.#options.ended(now, true);
    }
  }

  #beatLater(): void {
    this.#heartbeat = setTimeout(() => void this.#beat(), this.#options.heartbeatEveryMs).unref();
  }

  /** Says that this runner lives; hears what others did to its tasks; takes over from those that do not live. */
  async #beat(): Promise<void> {
    const mine = [...this.#running.values()].filter((task) => task.isHeld);
    try {
      if (mine.length > 0) {
        const held = await this.#leases.renew();
        for (const { record, controller } of mine) {
          const state = held.get(record.taskId);
          if (state === undefined) controller.abort(new LeaseLost());
          else if (state === 'cancelling') controller.abort(new Cancelled());
        }
      }
      await this.#takeOver(false);
      this.notify();
    } catch (error) {
      this.#observe({ kind: 'backgroundError', what: 'renew the leases of tasks', error });
    }
    if (this.#state === 'started') this.#beatLater();
  }

  async stop(deadlineMs: number): Promise<void> {
    this.#state = 'stopping';
    clearTimeout(this.#timer);
    clearTimeout(this.#heartbeat);
    const left = [...this.#running.values()];
    for (const task of left) task.controller.abort(new HandedBack());
    const deadline = new AbortController();
    const settled = Promise.all(left.map((task) => task.done)).then(() => deadline.abort());
    await Promise.race([settled, pause(Math.max(0, deadlineMs - stopReserveMs), undefined, deadline).catch(() => {})]);
    // What does not let go is handed back all the same: with this process, its work ends.
    for (const task of this.#running.values()) {
      const cancelled = task.controller.signal.reason instanceof Cancelled;
      const outcome = cancelled ? ({ kind: 'cancelled' } as const) : interruption(this.#kinds.get(task.record.type));
      const row = await readTask(this.#store.db, task.record.taskId);
      if (row) await this.#move(row, outcome, this.#leases.own);
    }
  }

  #move(row: TaskRow, outcome: Outcome, held: Partial<Lease>): Promise<boolean> {
    const columns = this.#columns(outcome, row);
    const from = ['running', 'cancelling'] as const;
    return this.#store.transaction((tx) => moveTask(tx, row.task_id, from, columns, held));
  }

  /** What runs. */
  records(): TaskRecord[] {
    return [...this.#running.values()].map(({ record }) => record);
  }

  /** The record with the progress that is not in the store yet. */
  live(row: TaskRow): TaskRecord {
    const task = this.#running.get(row.task_id);
    if (!task || isTerminal(row.state)) return taskRecord(row);
    const { fraction: progress, text: progressText, expectedEndAt } = task;
    return { ...taskRecord(row), progress, progressText, expectedEndAt };
  }

  async #look(): Promise<void> {
    this.#lookAgain = true;
    if (this.#looking) return;
    this.#looking = true;
    try {
      while (this.#lookAgain && this.#state === 'started') {
        this.#lookAgain = false;
        await this.#settle();
        await this.#line.resume();
        while (this.#hasRoom() && (await this.#beginNext()));
      }
      await this.#lookLater();
    } catch (error) {
      this.#observe({ kind: 'backgroundError', what: 'look for tasks to run', error });
      this.#lookAgain = false;
      this.#lookIn(this.#options.retryPauseMs);
    } finally {
      this.#looking = false;
    }
    if (this.#lookAgain) this.notify();
  }

  /** What waited for tasks that ended goes on, or fails as they did. */
  async #settle(): Promise<void> {
    for (let more = true; more; ) {
      const settled = await this.#line.settle();
      for (const row of settled.failed) this.#options.ended(row, true);
      more = settled.more;
    }
  }

  #hasRoom(): boolean {
    let runners = 0;
    for (const task of this.#running.values()) if (!task.adopted) runners++;
    return this.#state === 'started' && runners < this.#options.runnersMax;
  }

  async #lookLater(): Promise<void> {
    if (this.#state !== 'started' || !this.#hasRoom()) return;
    const at = await this.#line.nextDueAt();
    this.#lookIn(at === undefined ? pollEveryMs : Math.min(pollEveryMs, Math.max(1, at - this.#clock())));
  }

  #lookIn(ms: number): void {
    clearTimeout(this.#timer);
    if (this.#state === 'started') this.#timer = setTimeout(() => this.notify(), ms).unref();
  }

  /** Begins the task whose turn it is; false where none is due. */
  async #beginNext(): Promise<boolean> {
    const row = await this.#line.next();
    if (!row) return false;
    const kind = this.#kinds.get(row.type);
    const begun: TaskRow = {
      ...row,
      state: 'running',
      started_at: this.#clock(),
      attempt: row.attempt + 1,
      place: null,
      ...this.#leases.begun(),
    };
    // Known as running before the store says so: who then cancels it finds it.
    const task = this.#enter(begun, false);
    const { state, started_at, attempt, place, leased_by, lease_until } = begun;
    const columns = { state, started_at, attempt, place, leased_by, lease_until };
    const moved = await this.#store
      .transaction((tx) => moveTask(tx, row.task_id, ['pending'], columns))
      .catch((error) => {
        this.#running.delete(row.task_id);
        throw error;
      });
    if (!moved) this.#running.delete(row.task_id);
    else {
      task.isHeld = true;
      this.#line.hasBegun();
      const isAgain = row.started_at !== null;
      const context = { signal: task.controller.signal, progress: task.progress, isAgain, store: this.#store };
      task.done = this.#work(task, () => runKind(kind, task, context));
    }
    return true;
  }

  #enter(row: TaskRow, adopted: boolean): RunningTask {
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
    const pause = { pauseMs: this.#options.retryPauseMs, chance: this.#options.chance(), enginesEnded };
    const outcome = outcomeOf(ended, reason, task.record, this.#kinds.get(type), pause);
    if (outcome.kind === 'failed' && outcome.fault !== undefined) {
      const what = `task ${taskId}: ${JSON.stringify(outcome.error.result ?? outcome.error.code)}`;
      this.#observe({ kind: 'backgroundError', what, error: outcome.fault });
    }
    const row = await this.#save(task, outcome);
    if (outcome.kind !== 'again') this.#enginesEnded.delete(taskId);
    this.#running.delete(taskId);
    if (row && isTerminal(row.state)) this.#options.ended(row, false);
    this.notify();
  }

  /** Tries until the store takes it: a task whose end is not saved would stay running without a runner. */
  async #save(task: RunningTask, outcome: Outcome): Promise<TaskRow | undefined> {
    const { taskId } = task.record;
    const progress = { progress: task.fraction, progress_text: task.text };
    for (let pauseMs = saveAgainMsMin; ; pauseMs = Math.min(saveAgainMsMax, pauseMs * 2)) {
      try {
        const from = outcome.kind === 'again' ? (['running'] as const) : (['running', 'cancelling'] as const);
        const row = { attempt: task.record.attempt } as TaskRow;
        const columns = { ...progress, ...this.#columns(outcome, row) };
        await this.#store.transaction(async (tx) => {
          const { own } = this.#leases;
          const moved = await moveTask(tx, taskId, from, columns, own);
          // It was cancelled while it was about to be run again.
          if (!moved && outcome.kind === 'again')
            await moveTask(tx, taskId, ['cancelling'], ending('cancelled', this.#clock(), {}), own);
        });
        return await readTask(this.#store.db, taskId);
      } catch (error) {
        this.#observe({ kind: 'backgroundError', what: 'save the end of a task', error });
        if (this.#state === 'stopping') return undefined;
        await pause(pauseMs, undefined, { ref: false });
      }
    }
  }

  #columns(outcome: Outcome, row: Pick<TaskRow, 'attempt'>): Partial<TaskRow> {
    const now = this.#clock();
    if (outcome.kind === 'succeeded') return ending('succeeded', now, { result: outcome.result });
    if (outcome.kind === 'failed') return ending('failed', now, { error: outcome.error });
    if (outcome.kind === 'cancelled') return ending('cancelled', now, {});
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
  // Cancelled, or the server stopped, before it began.
  context.signal.throwIfAborted();
  if (kind?.run) return kind.run(task.record, context);
  throw new Failure('TASK_INTERRUPTED', 'This release does not know how to go on with tasks of this type.');
}
