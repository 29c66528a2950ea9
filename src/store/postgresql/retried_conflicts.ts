// Repeats work that PostgreSQL rolled back because it conflicted with other transactions: nothing was changed, and it may succeed now.
import { setTimeout as pause } from 'node:timers/promises';
import { StoreUnchanged } from '../store_errors.ts';

/** serialization_failure and deadlock_detected. */
const conflictCodes: ReadonlySet<unknown> = new Set(['40001', '40P01']);
const attemptsMax = 30;
const pauseMsMin = 2;
const pauseMsMax = 250;

const isConflict = (error: unknown): boolean => conflictCodes.has((error as { code?: unknown } | undefined)?.code);

/** Throws what `attempt` throws, or StoreUnchanged if it still conflicts after `deadlineMs`. */
export async function retryConflicts<T>(attempt: () => Promise<T>, deadlineMs: number): Promise<T> {
  const beganMs = performance.now();
  for (let attempts = 1; ; attempts++) {
    try {
      return await attempt();
    } catch (error) {
      if (!isConflict(error)) throw error;
      // Random, so that the same transactions do not meet again.
      const pauseMs = Math.random() * Math.min(pauseMsMax, pauseMsMin * 2 ** attempts);
      if (attempts === attemptsMax || performance.now() - beganMs + pauseMs > deadlineMs)
        throw new StoreUnchanged('a change of the metadata store conflicted with others too often', error);
      await pause(pauseMs);
    }
  }
}
