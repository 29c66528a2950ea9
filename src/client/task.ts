// Tasks: a call that is answered with one can be waited for, watched and cancelled.

import type { RecordOf } from '../api/handlers.ts';
import type { tasksApi } from '../api/tasks/tasks.ts';
import { errorOf } from './errors.ts';
import type { Answer, Outgoing, Sender } from './transport.ts';

export type TaskRecord = RecordOf<typeof tasksApi>;

export interface WaitOptions {
  /** Called with each record of the task that is read, including the last. */
  readonly onProgress?: ((task: TaskRecord) => void) | undefined;
  /** Ends the wait, not the task; see `cancel`. */
  readonly signal?: AbortSignal | undefined;
}

/** How long the server waits at most before it shows a task that has not ended. */
const waitSeconds = 20;

/** A task; `R` is its result. */
export class Task<R = unknown> {
  readonly taskId: string;
  readonly uri: string;
  readonly #transport: Sender;
  #record: TaskRecord;

  constructor(transport: Sender, record: TaskRecord) {
    this.taskId = record.taskId;
    this.uri = record.uri;
    this.#transport = transport;
    this.#record = record;
  }

  /** As it was when it was last read. */
  get record(): TaskRecord {
    return this.#record;
  }

  /**
   * Its result, once it has succeeded. Throws the error of a failed task, and TASK_CANCELLED.
   * `onProgress` is called whenever its progress is read, at least every 20 s.
   */
  async done({ onProgress, signal }: WaitOptions = {}): Promise<R> {
    for (;;) {
      onProgress?.(this.#record);
      const { state, error, result } = this.#record;
      if (state === 'succeeded') return result as R;
      if (state === 'cancelled') throw errorOf('TASK_CANCELLED', this.#failure('the task was cancelled'));
      if (state === 'failed') throw errorOf(error?.code ?? 'INTERNAL_ERROR', this.#failure(error?.message ?? state));
      const seconds = onProgress ? 1 : waitSeconds;
      const path = `${this.uri}?waitSeconds=${seconds}`;
      await this.#read({ method: 'GET', path, isRead: true, signal, waitMs: seconds * 1000 });
    }
  }

  /** Resolves when the first page of its rows is complete or it has ended. `onProgress`: as for `done`, without the last record. */
  async begun({ onProgress, signal }: WaitOptions = {}): Promise<TaskRecord> {
    for (let seconds = 1; ; seconds = onProgress ? 1 : Math.min(waitSeconds, seconds * 2)) {
      const { endedAt, firstPage } = this.#record;
      if (endedAt !== null || firstPage !== undefined) return this.#record;
      onProgress?.(this.#record);
      const path = `${this.uri}?waitSeconds=${seconds}`;
      await this.#read({ method: 'GET', path, isRead: true, signal, waitMs: seconds * 1000 });
    }
  }

  /** Reads the record again. */
  async refresh(signal?: AbortSignal): Promise<TaskRecord> {
    return this.#read({ method: 'GET', path: this.uri, isRead: true, signal });
  }

  /** One that has ended stays as it is. */
  async cancel(signal?: AbortSignal): Promise<TaskRecord> {
    // Cancelling twice is cancelling once.
    return this.#read({ method: 'POST', path: this.#record.cancelUri, body: {}, isRead: true, signal });
  }

  async #read(outgoing: Outgoing): Promise<TaskRecord> {
    const { result } = await this.#transport.send(outgoing);
    this.#record = result as unknown as TaskRecord;
    return this.#record;
  }

  #failure(message: string) {
    return { status: 200, message: `task ${this.taskId}: ${message}`, result: { task: this.#record } };
  }
}

/** The answer to a call that may have become a task. `R`: the result of the call; `T`: that of the task. */
export class Submitted<R, T = R> implements PromiseLike<R | Task<T>> {
  readonly #answer: Promise<R | Task<T>>;

  constructor(transport: Sender, answer: Promise<Answer>) {
    this.#answer = answer.then(({ status, result }) =>
      status === 202 ? new Task<T>(transport, result as unknown as TaskRecord) : (result as R),
    );
  }

  /** The result, whether it came at once or a task has to end first. */
  async done(options: WaitOptions = {}): Promise<R | T> {
    const answer = await this.#answer;
    return answer instanceof Task ? answer.done(options) : answer;
  }

  // biome-ignore lint/suspicious/noThenProperty: it is awaited like the promise that it contains
  then<A = R | Task<T>, B = never>(
    onFulfilled?: ((value: R | Task<T>) => A | PromiseLike<A>) | null,
    onRejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    return this.#answer.then(onFulfilled, onRejected);
  }
}
