// Reads whose engine process ended without their fault are run once more on the next process, so that their callers do not notice. In each
// warehouse they are repeated one at a time: the one that ended the process cannot end it for the others a second time, and a read that
// ends the next process too, while nothing else runs in it, is blamed.
import { blamedFor, crashedAlone, wasLost } from '../../engines/engine_lost.ts';
import { Failure } from '../../standard/failure.ts';

interface Read<T> {
  readonly warehouse: string;
  /** Called after the work failed: a write may have been applied and is not repeated. */
  readonly isRead: () => boolean;
  /** Resolves when the engine runs again. */
  readonly revived: () => Promise<unknown>;
  /** Limits its own time. The second run gets the whole time again: the loss of the first is not the statement's fault. */
  readonly work: () => Promise<T>;
  /** Aborted when the caller has gone. */
  readonly signal: AbortSignal;
}

export class LostReads {
  readonly #turns = new Map<string, Promise<unknown>>();

  /** Throws what the work throws, and STATEMENT_CANCELLED where the caller goes before the second run begins. */
  async run<T>({ warehouse, isRead, revived, work, signal }: Read<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (!wasLost(error) || !isRead()) throw error;
      return this.#inTurn(warehouse, signal, async () => {
        await unlessAborted(revived(), signal);
        try {
          return await work();
        } catch (again) {
          throw crashedAlone(again) ? blamedFor(again as Failure) : again;
        }
      });
    }
  }

  async #inTurn<T>(warehouse: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    const before = this.#turns.get(warehouse) ?? Promise.resolve();
    const running = before.then(() => {
      if (signal.aborted) throw cancelled();
      return work();
    });
    const settled = running.catch(() => undefined);
    this.#turns.set(warehouse, settled);
    settled.then(() => {
      if (this.#turns.get(warehouse) === settled) this.#turns.delete(warehouse);
    });
    await unlessAborted(before, signal);
    return running;
  }
}

/** Stops the wait, not what is waited for. */
async function unlessAborted<T>(waited: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const abort = () => reject(cancelled());
  signal.addEventListener('abort', abort, { once: true });
  try {
    if (signal.aborted) abort();
    return await Promise.race([waited, aborted]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

const cancelled = () => new Failure('STATEMENT_CANCELLED', 'the statement was cancelled before it was repeated');
