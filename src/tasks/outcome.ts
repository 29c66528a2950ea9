// Determines the outcome of a task run: succeeded, failed, cancelled, or retried. Terminal and retryable are types, so that the runner
// never guesses.

import { crashedAlone, endedEngine } from '../engines/engine_lost.ts';
import { newId } from '../model/ids.ts';
import { type Code, codes } from '../standard/codes.ts';
import { Failure } from '../standard/failure.ts';
import { Cancelled, HandedBack, RetryableError, type TaskError, type TaskKind, type TaskRecord } from './task.ts';

export const retryPauseMsMax = 60_000;
const attemptsExhausted = 'TASK_ATTEMPTS_EXHAUSTED';
/** A task that has crashed this many engine processes is not retried: each crash also ends the statements of others. */
const enginesEndedMax = 2;
/** A requested retry delay is extended by a random part of at most this fraction. */
const requestedDelayJitter = 0.25;

export type Ended = { readonly ok: true; readonly result: unknown } | { readonly ok: false; readonly error: unknown };

export type Outcome =
  /** `result` as JSON text: a value that is not serializable fails here, not when it is saved. */
  | { readonly kind: 'succeeded'; readonly result: string | undefined }
  | { readonly kind: 'failed'; readonly error: TaskError; readonly fault?: unknown }
  | { readonly kind: 'cancelled' }
  /** It was cancelled, and whether its work counts is not known yet: whoever finds that out ends it. */
  | { readonly kind: 'undecided' }
  /** `counts`: whether the run counts as an attempt; a task that was handed back does not lose one. */
  | { readonly kind: 'retry'; readonly pauseMs: number; readonly counts: boolean; readonly why: string };

/** As `decide`; an exception in it is a defect of the server and fails the task. */
export function outcomeOf(...args: Parameters<typeof decide>): Outcome {
  try {
    return decide(...args);
  } catch (fault) {
    return { kind: 'failed', error: taskError(fault), fault };
  }
}

/**
 * `reason`: the abort reason, if the run was aborted. `pauseMs`: the maximum delay before the second attempt, at least half of which is
 * waited; it doubles each time. `jitter`: 0 to 1, random, so that tasks that failed together do not retry together. `enginesEnded`: engine
 * processes that this task has crashed, including this run.
 */
function decide(
  ended: Ended,
  reason: unknown,
  task: TaskRecord,
  kind: TaskKind | undefined,
  {
    pauseMs,
    jitter,
    enginesEnded,
  }: { readonly pauseMs: number; readonly jitter: number; readonly enginesEnded: number },
): Outcome {
  if (ended.ok) return { kind: 'succeeded', result: JSON.stringify(ended.result) };
  if (reason instanceof Cancelled || ended.error instanceof Cancelled) return { kind: 'cancelled' };
  if (reason instanceof HandedBack) return interruption(kind, reason.message);
  const { error } = ended;
  if (!kind?.run || !isRetryable(error)) {
    return { kind: 'failed', error: taskError(error), ...(error instanceof Failure ? {} : { fault: error }) };
  }
  if (enginesEnded >= enginesEndedMax) return { kind: 'failed', error: endedEngines(enginesEnded), fault: error };
  if (task.attempt >= kind.attemptsMax) return { kind: 'failed', error: exhausted(task.attempt, error), fault: error };
  const requestedMs =
    error instanceof RetryableError ? error.retryAfterMs : retryDelaySecondsOf(error as Failure) * 1000;
  const longest = longestPause(pauseMs, task.attempt);
  const backOff = Math.max((longest * (1 + jitter)) / 2, (requestedMs ?? 0) * (1 + requestedDelayJitter * jitter));
  return { kind: 'retry', pauseMs: Math.ceil(backOff), counts: true, why: taskError(error).message };
}

/** STORAGE_FULL has a longer delay, because a full disk is not freed within seconds. */
function retryDelaySecondsOf({ code, retryAfterSeconds }: Failure): number {
  return retryAfterSeconds ?? (code === 'STORAGE_FULL' ? (codes[code].retryAfterSeconds ?? 0) : 0);
}

/** The outcome of a task whose process shuts down, or gives it up. */
export function interruption(kind: TaskKind | undefined, why = ''): Outcome {
  if (kind?.run)
    return { kind: 'retry', pauseMs: 0, counts: false, why: why || 'the server was shut down while it ran' };
  return { kind: 'failed', error: interrupted() };
}

/** The outcome of a task whose process crashed while it ran. */
export function afterCrash(task: TaskRecord, kind: TaskKind | undefined): Outcome {
  if (task.state === 'cancelling') return { kind: 'cancelled' };
  if (!kind?.run) return { kind: 'failed', error: interrupted() };
  if (task.attempt >= kind.attemptsMax) return { kind: 'failed', error: exhausted(task.attempt, undefined) };
  return { kind: 'retry', pauseMs: 0, counts: true, why: 'the server crashed while it ran' };
}

/** Whether a task ends so although it may have work that counts. */
export const endsUndecided = (outcome: Outcome): boolean =>
  outcome.kind === 'cancelled' || (outcome.kind === 'failed' && outcome.error.code === attemptsExhausted);

/** The outcome of a task whose work counts already: it is completed, however often it was tried, and also if it was cancelled. */
export function completion({ attempt }: TaskRecord, outcome: Outcome, pauseMs: number): Outcome {
  const why =
    outcome.kind === 'cancelled' ? 'it was cancelled when its work counted already' : 'its work counts already';
  return { kind: 'retry', pauseMs: longestPause(pauseMs, attempt), counts: true, why };
}

/** The outcome of a task of which is not known now whether its work counts: it has no runner until that is asked again. */
export const undecided = (task: TaskRecord, outcome: Outcome): Outcome =>
  outcome.kind === 'cancelled' ? { kind: 'undecided' } : completion(task, outcome, retryPauseMsMax);

const longestPause = (pauseMs: number, attempt: number): number =>
  Math.min(retryPauseMsMax, pauseMs * 2 ** Math.max(0, attempt - 1));

function interrupted(): TaskError {
  return { code: 'TASK_INTERRUPTED', message: 'the server stopped while the task ran' };
}

function exhausted(attempts: number, error: unknown): TaskError {
  const last = error === undefined ? 'the server crashed while it ran' : taskError(error).message;
  const code = error instanceof Failure ? { code: error.code } : {};
  return {
    code: attemptsExhausted,
    message: `the task failed after ${attempts} attempts; the last one: ${last}`,
    result: { attempts, ...code },
  };
}

export const endsEngine = (ended: Ended): boolean =>
  !ended.ok && (endedEngine(ended.error) || crashedAlone(ended.error));

function endedEngines(times: number): TaskError {
  return {
    code: 'TASK_ENDED_ENGINE',
    message: `the engine crashed or had to be stopped ${times} times while only this task was running in it`,
    result: { enginesEnded: times },
  };
}

/** Codes with status 503 that a further attempt cannot resolve. */
const needsOperator: ReadonlySet<Code> = new Set<Code>(['CATALOG_DAMAGED', 'TASK_INTERRUPTED']);

function isRetryable(error: unknown): boolean {
  if (error instanceof RetryableError) return true;
  return error instanceof Failure && codes[error.code].status === 503 && !needsOperator.has(error.code);
}

/** The error as shown to the caller. For an error that is not a Failure, only an id that the log also has. */
function taskError(error: unknown): TaskError {
  if (error instanceof Failure) {
    const { code, message, result } = error;
    return Object.keys(result).length > 0 ? { code, message, result } : { code, message };
  }
  if (error instanceof RetryableError) return { code: 'INTERNAL_ERROR', message: error.message };
  return {
    code: 'INTERNAL_ERROR',
    message: 'An unexpected error occurred in the service.',
    result: { errorId: newId() },
  };
}
