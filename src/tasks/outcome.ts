// What becomes of a task when its work ends: done, failed for good, cancelled, or run again. Terminal and retryable are types
// here; the runner never guesses.

import { crashedAlone, endedEngine } from '../engines/engine_lost.ts';
import { newId } from '../model/ids.ts';
import { type Code, codes } from '../standard/codes.ts';
import { Failure } from '../standard/failure.ts';
import { Cancelled, HandedBack, RetryableError, type TaskError, type TaskKind, type TaskRecord } from './task.ts';

export const retryPauseMsMax = 60_000;
/** A task that is known to have ended so many engine processes is not run again: each costs everybody's statements. */
const enginesEndedMax = 2;
/** What is asked for as a pause is kept to, and stretched by up to this part of it. */
const wantedStretch = 0.25;

export type Ended = { readonly ok: true; readonly result: unknown } | { readonly ok: false; readonly error: unknown };

export type Outcome =
  /** `result` as JSON text: what cannot be written as JSON fails here, not when it is saved. */
  | { readonly kind: 'succeeded'; readonly result: string | undefined }
  | { readonly kind: 'failed'; readonly error: TaskError; readonly fault?: unknown }
  | { readonly kind: 'cancelled' }
  /** `counts`: the attempt was used up; a task that was handed back loses none. */
  | { readonly kind: 'again'; readonly pauseMs: number; readonly counts: boolean; readonly why: string };

/** As `decide`; an outcome that cannot be told is our own mistake. */
export function outcomeOf(...about: Parameters<typeof decide>): Outcome {
  try {
    return decide(...about);
  } catch (fault) {
    return { kind: 'failed', error: taskError(fault), fault };
  }
}

/**
 * `reason`: why the work was aborted, if it was. `pauseMs`: at most so long before the second attempt, at least half of it; it
 * doubles each time. `chance`: from 0 to 1, so that what failed together does not come again together. `enginesEnded`: by this task,
 * this time included.
 */
function decide(
  ended: Ended,
  reason: unknown,
  task: TaskRecord,
  kind: TaskKind | undefined,
  {
    pauseMs,
    chance,
    enginesEnded,
  }: { readonly pauseMs: number; readonly chance: number; readonly enginesEnded: number },
): Outcome {
  if (ended.ok) return { kind: 'succeeded', result: JSON.stringify(ended.result) };
  if (reason instanceof Cancelled) return { kind: 'cancelled' };
  if (reason instanceof HandedBack) return interruption(kind);
  const { error } = ended;
  if (!kind?.run || !isRetryable(error)) {
    return { kind: 'failed', error: taskError(error), ...(error instanceof Failure ? {} : { fault: error }) };
  }
  if (enginesEnded >= enginesEndedMax) return { kind: 'failed', error: endedEngines(enginesEnded), fault: error };
  if (task.attempt >= kind.attemptsMax) return { kind: 'failed', error: exhausted(task.attempt, error), fault: error };
  const wanted = error instanceof RetryableError ? error.retryAfterMs : wantedBy(error as Failure) * 1000;
  const longest = Math.min(retryPauseMsMax, pauseMs * 2 ** (task.attempt - 1));
  const backOff = Math.max((longest * (1 + chance)) / 2, (wanted ?? 0) * (1 + wantedStretch * chance));
  return { kind: 'again', pauseMs: Math.ceil(backOff), counts: true, why: taskError(error).message };
}

/** A full disk is not emptied in the seconds that attempts take otherwise. */
function wantedBy({ code, retryAfterSeconds }: Failure): number {
  return retryAfterSeconds ?? (code === 'STORAGE_FULL' ? (codes[code].retryAfterSeconds ?? 0) : 0);
}

/** What becomes of a task whose process stops under it in good order. */
export function interruption(kind: TaskKind | undefined): Outcome {
  if (kind?.run) return { kind: 'again', pauseMs: 0, counts: false, why: 'handed back by a server that stopped' };
  return { kind: 'failed', error: interrupted() };
}

/** What becomes of a task that a process left running when it died. */
export function afterCrash(task: TaskRecord, kind: TaskKind | undefined): Outcome {
  if (task.state === 'cancelling') return { kind: 'cancelled' };
  if (!kind?.run) return { kind: 'failed', error: interrupted() };
  if (task.attempt >= kind.attemptsMax) return { kind: 'failed', error: exhausted(task.attempt, undefined) };
  return { kind: 'again', pauseMs: 0, counts: true, why: 'the server died while it ran' };
}

function interrupted(): TaskError {
  return { code: 'TASK_INTERRUPTED', message: 'The server stopped while the task ran.' };
}

function exhausted(attempts: number, error: unknown): TaskError {
  const last = error === undefined ? 'the server died while it ran' : taskError(error).message;
  const code = error instanceof Failure ? { code: error.code } : {};
  return {
    code: 'TASK_ATTEMPTS_EXHAUSTED',
    message: `The task was begun ${attempts} times. The last time: ${last}`,
    result: { attempts, ...code },
  };
}

export const endsEngine = (ended: Ended): boolean =>
  !ended.ok && (endedEngine(ended.error) || crashedAlone(ended.error));

function endedEngines(times: number): TaskError {
  return {
    code: 'TASK_ENDED_ENGINE',
    message: `The engine crashed or had to be stopped ${times} times while nothing but this task ran in it.`,
    result: { enginesEnded: times },
  };
}

/** Of status 503, and another attempt would fail in the same way. */
const needsOperator: ReadonlySet<Code> = new Set<Code>(['CATALOG_DAMAGED', 'TASK_INTERRUPTED']);

function isRetryable(error: unknown): boolean {
  if (error instanceof RetryableError) return true;
  return error instanceof Failure && codes[error.code].status === 503 && !needsOperator.has(error.code);
}

/** What the caller may know of an error. Of one that is not a Failure, only an id that is in the log. */
function taskError(error: unknown): TaskError {
  if (error instanceof Failure) {
    const { code, message, result } = error;
    return Object.keys(result).length > 0 ? { code, message, result } : { code, message };
  }
  if (error instanceof RetryableError) return { code: 'INTERNAL_ERROR', message: error.message };
  return { code: 'INTERNAL_ERROR', message: 'An unexpected error of the service.', result: { errorId: newId() } };
}
