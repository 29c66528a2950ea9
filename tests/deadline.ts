// How long tests wait before they give up: a duration that is ample on a quiet machine, times a factor for this machine, of which
// scripts/test.ts measures once a minute how slow it is.
import { readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { deadlineFactor } from '../scripts/machine_speed.ts';

/** Between two polls, at first and after a long wait: each costs the processors that the other tests use, too. */
const pollMsMin = 10;
const pollMsMax = 50;
/** Of the time waited so far. */
const pollPart = 0.1;
/** The maximum of the API, for statements. */
const waitSecondsMax = 300;

/** As last measured; outside a run of scripts/test.ts as TEST_TIME_SCALE says. */
function slowness(): number {
  const { TEST_SLOWNESS_FILE: file, TEST_TIME_SCALE: least } = process.env;
  return Math.max(1, Number(least) || 1, file === undefined ? 1 : Number(readFileSync(file, 'utf8')));
}

/** Only for waits whose end fails the test, and `analysisTimeoutMs`; never for another setting of the product under test. */
export function deadlineMs(quietMs: number): number {
  return Math.ceil(quietMs * deadlineFactor(slowness()));
}

/** For a duration that a passing test may spend: without the allowance of a deadline for bursts of other load. */
export function spentMs(quietMs: number): number {
  return Math.ceil(quietMs * slowness());
}

/** The setting of this name in tests whose statements must not exceed it: ample on a slow machine, too. */
export const analysisTimeoutMs = Math.min(600_000, deadlineMs(10_000));

/** `waitSeconds` for a statement whose result a test needs: scaled, at most the maximum of the API; by default that maximum. */
export function statementWaitSeconds(quietSeconds = 30): number {
  return Math.min(waitSecondsMax, deadlineMs(quietSeconds));
}

/** Whether a wait that begins now is over: by the factor at the time of the question, which may have grown since. */
export function deadlineFromNow(quietMs: number): () => boolean {
  const beganMs = performance.now();
  return () => performance.now() - beganMs > deadlineMs(quietMs);
}

/** Polls until `condition` returns something, and returns it. Throws with `description` after `quietMs`, scaled as measured by then. */
export async function eventually<T>(
  description: string,
  condition: () => T | Promise<T>,
  quietMs = 10_000,
): Promise<Exclude<T, undefined | null | false>> {
  const beganMs = performance.now();
  const isOver = deadlineFromNow(quietMs);
  for (;;) {
    const value = await condition();
    if (value !== undefined && value !== null && value !== false) return value as Exclude<T, undefined | null | false>;
    if (isOver()) throw new Error(`not within ${deadlineMs(quietMs)} ms: ${description}`);
    await pause(Math.min(pollMsMax, Math.max(pollMsMin, (performance.now() - beganMs) * pollPart)));
  }
}
