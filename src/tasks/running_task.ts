// A task while it runs in this process: its signal, and its progress on the way to the store, which is not written to more
// than once a second.
import type { Observe } from '../observe/observations.ts';
import type { Store } from '../store/store.ts';
import type { TaskRecord } from './task.ts';

export const progressWriteEveryMs = 1000;

export class RunningTask {
  readonly controller = new AbortController();
  readonly record: TaskRecord;
  /** Work that ran before it became a task: it takes no runner's place. */
  readonly adopted: boolean;
  /** Resolves when the outcome is in the store; never rejects. */
  done: Promise<void> = Promise.resolve();
  fraction: number | null = null;
  text: string | null = null;
  readonly #store: Store;
  readonly #observe: Observe;
  #timer: NodeJS.Timeout | undefined;
  #writtenAt = Number.NEGATIVE_INFINITY;

  constructor(record: TaskRecord, adopted: boolean, store: Store, observe: Observe) {
    this.record = record;
    this.adopted = adopted;
    this.#store = store;
    this.#observe = observe;
  }

  readonly progress = (fraction: number | null, text?: string): void => {
    this.fraction = fraction === null || Number.isNaN(fraction) ? null : Math.min(1, Math.max(0, fraction));
    if (text !== undefined) this.text = text;
    const wait = this.#writtenAt + progressWriteEveryMs - performance.now();
    if (wait <= 0) void this.#write();
    else this.#timer ??= setTimeout(() => void this.#write(), wait).unref();
  };

  /** Nothing is written after this. */
  end(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#writtenAt = Number.POSITIVE_INFINITY;
  }

  async #write(): Promise<void> {
    this.#writtenAt = performance.now();
    clearTimeout(this.#timer);
    this.#timer = undefined;
    try {
      await this.#store.db
        .updateTable('tasks')
        .set({ progress: this.fraction, progress_text: this.text })
        .where('task_id', '=', this.record.taskId)
        .where('state', 'in', ['running', 'cancelling'])
        .execute();
    } catch (error) {
      this.#observe({ kind: 'backgroundError', what: 'save the progress of a task', error });
    }
  }
}
