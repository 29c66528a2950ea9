// Carries over the steps that an engine has recorded, so that a request that is repeated after the move finds that its work was done.
import type { CatalogRef } from '../engines/port/refs.ts';
import type { MoveSides } from './table_copier.ts';

const stepsPerPage = 10_000;

/** While nothing writes to the source. Idempotent. */
export async function copySteps(
  { source, target }: MoveSides,
  from: CatalogRef,
  to: CatalogRef,
  signal: AbortSignal,
): Promise<void> {
  for (let after: string | undefined; ; ) {
    signal.throwIfAborted();
    const steps = await source.engine.recordedSteps({ catalog: from, after, limit: stepsPerPage });
    if (steps.length > 0) await target.engine.recordSteps({ catalog: to, steps });
    if (steps.length < stepsPerPage) return;
    after = steps.at(-1)?.step;
  }
}
