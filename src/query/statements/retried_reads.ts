// Retries reads whose engine process ended through no fault of their own, so that their callers do not notice. In each warehouse retries
// run one at a time: the read that crashed the process cannot crash it for the others again, and a read that crashes the next process
// too, while nothing else runs in it, is blamed.
import { blamedFor, crashedAlone, wasLost } from '../../engines/engine_lost.ts';
import { unlessAborted } from '../../model/concurrency/bounded_waits.ts';
import { Failure } from '../../standard/failure.ts';

interface Read<T> {
  readonly warehouse: string;
  /** Called after the work failed. A write is not retried, because it may have been applied. */
  readonly isRead: () => boolean;
  /** Resolves when the engine is running again. */
  readonly awaitRevival: () => Promise<unknown>;
  /** Enforces its own timeout. The retry gets the full timeout again, because losing the first run is not the fault of the statement. */
  readonly work: () => Promise<T>;
  /** Aborted when the caller disconnects. */
  readonly signal: AbortSignal;
}

export class RetriedReads {
  readonly #lastRetries = new Map<string, Promise<unknown>>();

  /** Throws the errors of `work`, and STATEMENT_CANCELLED if the caller disconnects before the retry begins. */
  async run<T>({ warehouse, isRead, awaitRevival: revived, work, signal }: Read<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (!wasLost(error) || !isRead()) throw error;
      return this.#runSerially(warehouse, signal, async () => {
        await unlessAborted(revived(), signal, cancelled);
        try {
          return await work();
        } catch (secondError) {
          throw crashedAlone(secondError) ? blamedFor(secondError as Failure) : secondError;
        }
      });
    }
  }

  async #runSerially<T>(warehouse: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    const previous = this.#lastRetries.get(warehouse) ?? Promise.resolve();
    const running = previous.then(() => {
      if (signal.aborted) throw cancelled();
      return work();
    });
    const settled = running.catch(() => undefined);
    this.#lastRetries.set(warehouse, settled);
    settled.then(() => {
      if (this.#lastRetries.get(warehouse) === settled) this.#lastRetries.delete(warehouse);
    });
    await unlessAborted(previous, signal, cancelled);
    return running;
  }
}

const cancelled = () => new Failure('STATEMENT_CANCELLED', 'the statement was cancelled before it was retried');
