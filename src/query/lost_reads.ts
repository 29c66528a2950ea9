// Reads whose engine process ended under them without their fault: run once more on the next process, so that their callers do not
// notice. One after another in a warehouse: if one of them is what ended the process, it meets the others no second time.
import { wasLost } from '../engines/engine_lost.ts';

interface Read<T> {
  readonly warehouse: string;
  /** Asked after the work failed: a write may have been done, and is not repeated. */
  readonly isRead: () => boolean;
  /** Milliseconds for all attempts together. */
  readonly timeoutMs: number;
  /** Resolves when the engine runs again. */
  readonly revived: () => Promise<unknown>;
  /** `timeoutMs`: what is left of the time. */
  readonly work: (timeoutMs: number) => Promise<T>;
}

export class LostReads {
  readonly #turns = new Map<string, Promise<unknown>>();

  async run<T>({ warehouse, isRead, timeoutMs, revived, work }: Read<T>): Promise<T> {
    const began = performance.now();
    try {
      return await work(timeoutMs);
    } catch (error) {
      if (!wasLost(error) || !isRead()) throw error;
      const again = async () => {
        const leftMs = timeoutMs - (performance.now() - began);
        if (leftMs <= 0) throw error;
        await revived();
        return work(leftMs);
      };
      return this.#inTurn(warehouse, again);
    }
  }

  async #inTurn<T>(warehouse: string, work: () => Promise<T>): Promise<T> {
    const before = this.#turns.get(warehouse);
    const running = (before ?? Promise.resolve()).then(work);
    const settled = running.catch(() => undefined);
    this.#turns.set(warehouse, settled);
    try {
      return await running;
    } finally {
      if (this.#turns.get(warehouse) === settled) this.#turns.delete(warehouse);
    }
  }
}
