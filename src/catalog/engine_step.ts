// One call of the engine on behalf of an intent, and what its end means. An engine that refuses (a Failure that blames the
// request) did nothing; after anything else nobody knows what it did, and only trying again can tell.
import type { Change, WorkOptions } from '../engines/engine.ts';
import { codes } from '../standard/codes.ts';
import { Failure } from '../standard/failure.ts';
import type { CatalogEngine } from './context.ts';

/** A step that is not done within this time is stopped and counts as one of unknown outcome. Tasks have no such limit. */
export const engineStepMsMax = 120_000;

export type StepOutcome =
  | { readonly kind: 'done' }
  | { readonly kind: 'refused'; readonly failure: Failure }
  | { readonly kind: 'unknown'; readonly error: unknown };

export async function applyStep(
  engine: CatalogEngine,
  change: Change,
  step: string,
  options: WorkOptions = { signal: AbortSignal.timeout(engineStepMsMax) },
): Promise<StepOutcome> {
  try {
    await engine.apply(change, { ...options, step });
    return { kind: 'done' };
  } catch (error) {
    if (error instanceof Failure && codes[error.code].status < 500) return { kind: 'refused', failure: error };
    return { kind: 'unknown', error };
  }
}
