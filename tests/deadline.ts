// How long tests wait before they give up: a duration that is ample on a quiet machine, times the factor that scripts/test.ts
// measured. Only for waits whose end fails the test, and `analysisTimeoutMs`; never for another setting of the product under test.
import { setTimeout as pause } from 'node:timers/promises';

const scale = Math.max(1, Number(process.env.TEST_TIME_SCALE) || 1);
const pollMs = 10;
/** The maximum of the API, for statements. */
const waitSecondsMax = 300;

export function deadlineMs(quietMs: number): number {
  return Math.ceil(quietMs * scale);
}

/** The setting of this name in tests whose statements must not exceed it: ample on a slow machine, too. */
export const analysisTimeoutMs = Math.min(600_000, deadlineMs(10_000));

/** `waitSeconds` for a statement whose result a test needs: scaled, at most the maximum of the API; by default that maximum. */
export function statementWaitSeconds(quietSeconds = 30): number {
  return Math.min(waitSecondsMax, Math.ceil(quietSeconds * scale));
}

/** Polls until `look` returns something, and returns it. Throws with `what` after `quietMs`, scaled. */
export async function eventually<T>(
  description: string,
  condition: () => T | Promise<T>,
  quietMs = 10_000,
): Promise<Exclude<T, undefined | null | false>> {
  const ms = deadlineMs(quietMs);
  for (const deadline = performance.now() + ms; ; await pause(pollMs)) {
    const value = await condition();
    if (value !== undefined && value !== null && value !== false) return value as Exclude<T, undefined | null | false>;
    if (performance.now() > deadline) throw new Error(`not within ${ms} ms: ${description}`);
  }
}
