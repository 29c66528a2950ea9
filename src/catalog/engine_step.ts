// One call of the engine on behalf of an intent, and what its end means. An engine that refuses (a Failure that blames the
// request) did nothing; after anything else nobody knows what it did, and only trying again can tell.
import type { Change, WorkOptions } from '../engines/engine.ts';
import type { Applied, BrokenViews } from '../engines/views.ts';
import { codes } from '../standard/codes.ts';
import { Failure } from '../standard/failure.ts';
import type { CatalogEngine } from './context.ts';
import { UsedByViews } from './view_sources.ts';

/** A step that is not done within this time is stopped and counts as one of unknown outcome. Tasks have no such limit. */
export const engineStepMsMax = 120_000;

export type StepOutcome =
  | { readonly kind: 'done'; readonly applied: Applied | undefined }
  | { readonly kind: 'refused'; readonly failure: Failure }
  | { readonly kind: 'unknown'; readonly error: unknown };

export async function applyStep(
  engine: CatalogEngine,
  change: Change,
  step: string,
  options: WorkOptions = { signal: AbortSignal.timeout(engineStepMsMax) },
): Promise<StepOutcome> {
  try {
    return { kind: 'done', applied: await engine.apply(change, { ...options, step }) };
  } catch (error) {
    if (error instanceof Failure && error.code === 'IN_USE') return { kind: 'refused', failure: usedBy(error) };
    if (error instanceof Failure && codes[error.code].status < 500) return { kind: 'refused', failure: error };
    return { kind: 'unknown', error };
  }
}

const usedBy = ({ result }: Failure) => new UsedByViews((result as Partial<BrokenViews>).broken ?? []);
