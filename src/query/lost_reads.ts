// Reads whose engine process ended under them without their fault: run once more on the next process, so that their callers do not
// notice. One after another in a warehouse: if one of them is what ended the process, it meets the others no second time; and one that
// crashes the next process too, while nothing else runs in it, is to blame.
import { blamedFor, crashedAlone, wasLost } from '../engines/engine_lost.ts';
import type { Failure } from '../standard/failure.ts';

interface Read<T> {
  readonly warehouse: string;
  /** Asked after the work failed: a write may have been done, and is not repeated. */
  readonly isRead: () => boolean;
  /** Resolves when the engine runs again. */
  readonly revived: () => Promise<unknown>;
  /** Bounds its time itself; the second run has all of it: that the first was lost is no fault of the statement. */
  readonly work: () => Promise<T>;
}

export class LostReads {
  readonly #turns = new Map<string, Promise<unknown>>();

  async run<T>({ warehouse, isRead, revived, work }: Read<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (!wasLost(error) || !isRead()) throw error;
      return this.#inTurn(warehouse, async () => {
        await revived();
        try {
          return await work();
        } catch (again) {
          throw crashedAlone(again) ? blamedFor(again as Failure) : again;
        }
      });
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
