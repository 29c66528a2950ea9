// Checks a property for a given time. fast-check fails a property that is interrupted within its first run, and on a slow machine
// one run can take all the time, so the first is always completed.
import fc from 'fast-check';

/** As `fc.assert`, but interrupts the runs after the first when `durationMs` have passed. */
export async function assertFor<Ts extends [unknown, ...unknown[]]>(
  property: fc.IAsyncPropertyWithHooks<Ts>,
  parameters: fc.Parameters<Ts>,
  durationMs: number | undefined,
): Promise<void> {
  if (durationMs === undefined) return await fc.assert(property, parameters);
  const deadline = performance.now() + durationMs;
  await fc.assert(property, { ...parameters, numRuns: 1 });
  const leftMs = deadline - performance.now();
  if (leftMs <= 0) return;
  const details = await fc.check(property, { ...parameters, interruptAfterTimeLimit: leftMs });
  if (details.failed && !(details.interrupted && details.counterexample === null))
    throw new Error(await fc.asyncDefaultReportMessage(details), { cause: details.errorInstance });
}
