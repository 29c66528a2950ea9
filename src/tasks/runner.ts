// Runs the tasks that the queue holds, as many at once as is allowed, and saves how they end. At a start it settles what a
// dead process left; at a stop it hands back what runs.
import { setTimeout as pause } from 'node:timers/promises';
import type { Observe } from '../observe/observations.ts';
import { Failure } from '../standard/failure.ts';
import type { Store } from '../store/store.ts';
import { afterCrash, type Ended, interruption, type Outcome, outcomeOf } from './outcome.ts';
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
  readonly retryPauseMs: number;
  readonly observe: Observe;
  readonly clock: () => number;
  /** A task ended. `abandoned`: its kind's `run` did not see it end. */
  readonly ended: (row: TaskRow, abandoned: boolean) => void;
}

export class TaskRunner {
  readonly #store: Store;
  readonly #options: RunnerOptions;
  readonly #kinds: ReadonlyMap<string, TaskKind>;
  readonly #observe: Observe;
  readonly #clock: () => number;
  readonly #running = new Map<string, RunningTask>();
  #state: 'new' | 'started' | 'stopping' = 'new';
  #looking = false;
  #lookAgain = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: RunnerOptions) {
    this.#options = options;
    this.#store = options.store;
    this.#kinds = options.kinds;
    this.#observe = options.observe;
    this.#clock = options.clock;
  }

  get stopping(): boolean {
    return this.#state === 'stopping';
  }

  notify(): void {
    if (this.#state === 'started') void this.#look();
  }

  /** Takes over work whose row says that it is running. */
  adopt(row: TaskRow, running: (signal: AbortSignal) => Promise<unknown>): void {
    const task = this.#enter(row, true);
    task.done = this.#work(task, () => running(task.controller.signal));
  }

  cancel(taskId: string): void {
    this.#running.get(taskId)?.controller.abort(new Cancelled());
  }

  async start(): Promise<void> {
    const left = await this.#store.db
      .selectFrom('tasks')
      .selectAll()
      .where('state', 'in', ['running', 'cancelling'])
      .execute();
    for (const row of left) {
      if (this.#running.has(row.task_id)) continue;
      const outcome = afterCrash(taskRecord(row), this.#kinds.get(row.type));
      await moveTask(this.#store.db, row.task_id, ['running', 'cancelling'], this.#columns(outcome, row));
      const now = await readTask(this.#store.db, row.task_id);
      if (now && isTerminal(now.state)) this.#options.ended(now, true);
    }
    this.#state = 'started';
    this.notify();
  }

  async stop(deadlineMs: number): Promise<void> {
    this.#state = 'stopping';
    clearTimeout(this.#timer);
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
      if (row) await moveTask(this.#store.db, row.task_id, ['running', 'cancelling'], this.#columns(outcome, row));
    }
  }

  /** What runs. */
  records(): TaskRecord[] {
    return [...this.#running.values()].map(({ record }) => record);
  }

  /** The record with the progress that is not in the store yet. */
  live(row: TaskRow): TaskRecord {
    const task = this.#running.get(row.task_id);
    if (!task || isTerminal(row.state)) return taskRecord(row);
    return { ...taskRecord(row), progress: task.fraction, progressText: task.text };
  }

  async #look(): Promise<void> {
    this.#lookAgain = true;
    if (this.#looking) return;
    this.#looking = true;
    try {
      while (this.#lookAgain && this.#state === 'started') {
        this.#lookAgain = false;
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

  #hasRoom(): boolean {
    let runners = 0;
    for (const task of this.#running.values()) if (!task.adopted) runners++;
    return this.#state === 'started' && runners < this.#options.runnersMax;
  }

  async #lookLater(): Promise<void> {
    if (this.#state !== 'started' || !this.#hasRoom()) return;
    const next = await this.#store.db
      .selectFrom('tasks')
      .select('not_before')
      .where('state', '=', 'pending')
      .orderBy('not_before')
      .limit(1)
      .executeTakeFirst();
    this.#lookIn(next ? Math.min(pollEveryMs, Math.max(1, next.not_before - this.#clock())) : pollEveryMs);
  }

  #lookIn(ms: number): void {
    clearTimeout(this.#timer);
    if (this.#state === 'started') this.#timer = setTimeout(() => this.notify(), ms).unref();
  }

  /** Begins the task that waits longest; false where none is due. */
  async #beginNext(): Promise<boolean> {
    const now = this.#clock();
    const row = await this.#store.db
      .selectFrom('tasks')
      .selectAll()
      .where('state', '=', 'pending')
      .where('not_before', '<=', now)
      .orderBy('not_before')
      .orderBy('task_id')
      .limit(1)
      .executeTakeFirst();
    if (!row) return false;
    const kind = this.#kinds.get(row.type);
    const begun: TaskRow = { ...row, state: 'running', started_at: now, attempt: row.attempt + 1 };
    // Known as running before the store says so: who then cancels it finds it.
    const task = this.#enter(begun, false);
    const { state, started_at, attempt } = begun;
    const moved = await moveTask(this.#store.db, row.task_id, ['pending'], { state, started_at, attempt }).catch(
      (error) => {
        this.#running.delete(row.task_id);
        throw error;
      },
    );
    if (!moved) this.#running.delete(row.task_id);
    else {
      const context = { signal: task.controller.signal, progress: task.progress, store: this.#store };
      task.done = this.#work(task, () => runKind(kind, task, context));
    }
    return true;
  }

  #enter(row: TaskRow, adopted: boolean): RunningTask {
    const task = new RunningTask(taskRecord(row), adopted, this.#store, this.#observe);
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
    const outcome = outcomeOf(ended, reason, task.record, this.#kinds.get(type), this.#options.retryPauseMs);
    if (outcome.kind === 'failed' && outcome.fault !== undefined) {
      const what = `task ${taskId}: ${JSON.stringify(outcome.error.result ?? outcome.error.code)}`;
      this.#observe({ kind: 'backgroundError', what, error: outcome.fault });
    }
    const row = await this.#save(task, outcome);
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
        const moved = await moveTask(this.#store.db, taskId, from, { ...progress, ...this.#columns(outcome, row) });
        // It was cancelled while it was about to be run again.
        if (!moved && outcome.kind === 'again') {
          await moveTask(this.#store.db, taskId, ['cancelling'], ending('cancelled', this.#clock(), {}));
        }
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
      progress: null,
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
