// Why work ended whose engine process ended under it: the cause of its Failure, whatever the code of that is.
import { Failure } from '../standard/failure.ts';

export class EngineLost extends Error {
  override name = 'EngineLost';
  /** Whether it is certain that this work ended the process: it went over its own memory or time, or was the only work it could have. */
  readonly isToBlame: boolean;
  /** Whether nothing but this work ran in the process: the next process that ends so under it proves that it is to blame. */
  readonly ranAlone: boolean;

  constructor({ isToBlame, ranAlone = false }: { readonly isToBlame: boolean; readonly ranAlone?: boolean }) {
    super('the engine process ended');
    this.isToBlame = isToBlame;
    this.ranAlone = ranAlone;
  }
}

/** Whether it is certain that the work that failed so ended its engine process. */
export const endedEngine = (error: unknown): boolean =>
  error instanceof Failure && error.cause instanceof EngineLost && error.cause.isToBlame;

/** Whether the work ended only because its engine process did, through no known fault of its own. */
export const wasLost = (error: unknown): boolean =>
  error instanceof Failure && error.cause instanceof EngineLost && !error.cause.isToBlame;

/** Whether the engine process crashed, or was killed from outside, while nothing but the work that failed so ran in it. */
export const crashedAlone = (error: unknown): boolean =>
  error instanceof Failure && error.cause instanceof EngineLost && error.cause.ranAlone;

/** A failure of work that cost its engine process. */
export function blamedFor({ code, message, result, retryAfterSeconds, outcome }: Failure): Failure {
  return new Failure(code, message, result, {
    cause: new EngineLost({ isToBlame: true }),
    retryAfterSeconds,
    outcome,
  });
}

/** The failure of work that was lost with its engine. */
export const engineLost = (isToBlame: boolean, ranAlone = false): Failure =>
  new Failure(
    'WAREHOUSE_FAILED',
    'the engine of the warehouse stopped while the request ran',
    {},
    { cause: new EngineLost({ isToBlame, ranAlone }) },
  );
