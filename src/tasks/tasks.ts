// The durable queue of tasks and its runner. Knows no kind: kinds are handed to it.
import type { Transaction } from 'kysely';
import type { Observe } from '../observe/observations.ts';
import type { Schema } from '../store/schema.ts';
import type { Store } from '../store/store.ts';
import type { TaskError, TaskKind, TaskRecord, TaskRequest } from './task.ts';

export interface TasksOptions {
  readonly store: Store;
  readonly kinds: readonly TaskKind[];
  readonly runnersMax: number;
  readonly retentionDays: number;
  readonly observe?: Observe | undefined;
  readonly clock?: (() => number) | undefined;
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
  constructor(options: TasksOptions) {
    void options;
  }

  /** Durable before it returns; inside the caller's transaction if given, who then calls `notify` after its commit. */
  async submit(request: TaskRequest, tx?: Transaction<Schema>): Promise<TaskRecord> {
    throw new Error(`not yet: ${request} ${tx}`);
  }

  /** Looks for tasks to run, soon. */
  notify(): void {}

  /** Makes a task of work that runs in this process already. `running` links the work to the signal and returns its promise. */
  async adopt(
    request: TaskRequest & { readonly taskId?: string; readonly running: (signal: AbortSignal) => Promise<unknown> },
  ): Promise<TaskRecord> {
    throw new Error(`not yet: ${request}`);
  }

  /** A task that is done when it is written. */
  async record(finished: FinishedTask): Promise<TaskRecord> {
    throw new Error(`not yet: ${finished}`);
  }

  async get(taskId: string): Promise<TaskRecord | undefined> {
    throw new Error(`not yet: ${taskId}`);
  }

  /** By id, which is by time of submission. */
  async list(options: { readonly after?: string | undefined; readonly limit: number }): Promise<TaskRecord[]> {
    throw new Error(`not yet: ${options}`);
  }

  /** Returns when the task ended, `waitMs` passed or the signal was aborted. */
  async wait(taskId: string, waitMs: number, signal?: AbortSignal): Promise<TaskRecord | undefined> {
    throw new Error(`not yet: ${taskId} ${waitMs} ${signal}`);
  }

  /** Idempotent. A pending task is cancelled at once, a running one is told to stop, an ended one stays as it is. */
  async cancel(taskId: string): Promise<TaskRecord | undefined> {
    throw new Error(`not yet: ${taskId}`);
  }

  /** Cancels an unfinished task first. False where there is none. Throws TASK_NOT_CANCELLABLE if it does not end in time. */
  async remove(taskId: string): Promise<boolean> {
    throw new Error(`not yet: ${taskId}`);
  }

  /** Settles what a former process left running, then runs what is pending. */
  async start(): Promise<void> {}

  /** Hands running work back. Returns after at most `deadlineMs`. */
  async stop(deadlineMs: number): Promise<void> {
    void deadlineMs;
  }

  /** Removes ended tasks past their retention. Returns how many. */
  async sweep(): Promise<number> {
    return 0;
  }
}
