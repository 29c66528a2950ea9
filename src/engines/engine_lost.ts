// The cause of the Failure of work whose engine process ended while it ran, whatever the code of that Failure.
import { Failure } from '../standard/failure.ts';

export class EngineLost extends Error {
  override name = 'EngineLost';
  /** Whether this work certainly ended the process: it exceeded its memory or time, or was the only work that could have. */
  readonly isToBlame: boolean;
  /** Whether the process ran nothing but this work: if the next process ends in the same way, the work is to blame. */
  readonly ranAlone: boolean;

  constructor({ isToBlame, ranAlone = false }: { readonly isToBlame: boolean; readonly ranAlone?: boolean }) {
    super('the engine process ended');
    this.isToBlame = isToBlame;
    this.ranAlone = ranAlone;
  }
}

/** Whether the failed work certainly ended its engine process. */
export const endedEngine = (error: unknown): boolean =>
  error instanceof Failure && error.cause instanceof EngineLost && error.cause.isToBlame;

/** Whether the work failed only because its engine process ended, through no known fault of its own. */
export const wasLost = (error: unknown): boolean =>
  error instanceof Failure && error.cause instanceof EngineLost && !error.cause.isToBlame;

/** Whether the engine process crashed, or was killed from outside, while it ran nothing but the failed work. */
export const crashedAlone = (error: unknown): boolean =>
  error instanceof Failure && error.cause instanceof EngineLost && error.cause.ranAlone;

/** The failure of work that ended its engine process. */
export function blamedFor({ code, message, result, retryAfterSeconds, outcome }: Failure): Failure {
  return new Failure(code, message, result, {
    cause: new EngineLost({ isToBlame: true }),
    retryAfterSeconds,
    outcome,
  });
}

/** The failure of work that was lost because its engine process ended. */
export const engineLost = (isToBlame: boolean, ranAlone = false): Failure =>
  new Failure(
    'WAREHOUSE_FAILED',
    'the engine of the warehouse stopped while the request ran',
    {},
    { cause: new EngineLost({ isToBlame, ranAlone }) },
  );
