// Callers that wait for the ends of tasks, by any server.
import type { StoredTask } from './task.ts';
import { isTerminal } from './task_rows.ts';

export class TaskWaiters {
  readonly #waiters = new Map<string, Set<() => void>>();
  #isStopped = false;

  /** Returns what `read` returns when the task has ended, `waitMs` passed, the signal is aborted or `stop` is called. */
  async wait(
    taskId: string,
    read: () => Promise<StoredTask | undefined>,
    { waitMs, signal }: { readonly waitMs: number; readonly signal: AbortSignal | undefined },
  ): Promise<StoredTask | undefined> {
    let isOver = signal?.aborted ?? false;
    let wake = (): void => {};
    const waiter = (): void => wake();
    const end = (): void => {
      isOver = true;
      wake();
    };
    const waiters = this.#waiters.get(taskId) ?? new Set();
    this.#waiters.set(taskId, waiters.add(waiter));
    const timer = setTimeout(end, waitMs);
    signal?.addEventListener('abort', end, { once: true });
    try {
      for (;;) {
        // Before the task is read, so that an end in between is not missed.
        const woken = new Promise<void>((resolve) => {
          wake = resolve;
        });
        const record = await read();
        if (!record || isTerminal(record.state) || isOver || this.#isStopped) return record;
        await woken;
      }
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', end);
      waiters.delete(waiter);
      if (waiters.size === 0 && this.#waiters.get(taskId) === waiters) this.#waiters.delete(taskId);
    }
  }

  /** Those who wait for the task read it again. */
  wake(taskId: string): void {
    for (const wake of this.#waiters.get(taskId) ?? []) wake();
  }

  wakeAll(): void {
    for (const taskId of this.#waiters.keys()) this.wake(taskId);
  }

  stop(): void {
    this.#isStopped = true;
    this.wakeAll();
  }
}
