// How many statements of one warehouse run at a time and how many may wait: a first-in-first-out queue with a deadline. Full,
// or too slow, is 503 WAREHOUSE_BUSY.
import { Failure } from '../standard/failure.ts';

export interface AdmissionLimits {
  readonly queriesMax: number;
  readonly queueMax: number;
  readonly queueWaitMs: number;
}

interface Waiter {
  readonly admit: () => void;
  readonly refuse: (reason: unknown) => void;
}

export class Admission {
  #running = 0;
  readonly #queue = new Set<Waiter>();

  get running(): number {
    return this.#running;
  }

  get queued(): number {
    return this.#queue.size;
  }

  /** Runs the work when its turn comes. `queuedMs` is how long it waited. */
  async run<T>(limits: AdmissionLimits, signal: AbortSignal, work: (queuedMs: number) => Promise<T>): Promise<T> {
    let queuedMs = 0;
    if (this.#running < limits.queriesMax && this.#queue.size === 0) this.#running++;
    else queuedMs = await this.#wait(limits, signal);
    try {
      return await work(queuedMs);
    } finally {
      this.#release(limits);
    }
  }

  /** Ends every wait, because the warehouse goes away. */
  refuseAll(reason: Failure): void {
    for (const waiter of [...this.#queue]) waiter.refuse(reason);
  }

  /** Gives a turn that ended to whoever waits longest. Who is admitted counts as running from here on. */
  #release(limits: AdmissionLimits): void {
    this.#running--;
    for (const waiter of this.#queue) {
      if (this.#running >= limits.queriesMax) return;
      this.#queue.delete(waiter);
      this.#running++;
      waiter.admit();
    }
  }

  async #wait(limits: AdmissionLimits, signal: AbortSignal): Promise<number> {
    if (this.#queue.size >= limits.queueMax) {
      const { queriesMax, queueMax } = limits;
      throw new Failure(
        'WAREHOUSE_BUSY',
        `${queriesMax} statements run and ${queueMax} wait, which is as many as may`,
        { queriesMax, queueMax },
      );
    }
    const since = performance.now();
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const waiter: Waiter = { admit: resolve, refuse: reject };
    const aborted = () => reject(new Failure('STATEMENT_CANCELLED', 'the statement was cancelled while it waited'));
    const timer = setTimeout(() => {
      reject(new Failure('WAREHOUSE_BUSY', `the statement waited ${limits.queueWaitMs} ms in vain for its turn`));
    }, limits.queueWaitMs);
    this.#queue.add(waiter);
    signal.addEventListener('abort', aborted, { once: true });
    if (signal.aborted) aborted();
    try {
      await promise;
      return performance.now() - since;
    } catch (error) {
      this.#queue.delete(waiter);
      throw error;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', aborted);
    }
  }
}
