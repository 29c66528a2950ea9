// One call of the engine on behalf of an intent, and the meaning of its result. A refused step changed nothing. After any other failure
// the outcome is unknown, and only a retry can determine it.
import type { Change } from '../../engines/port/changes.ts';
import type { Applied, BrokenViews } from '../../engines/port/views.ts';
import type { StepOptions, WorkOptions } from '../../engines/port/work.ts';
import type { Actor } from '../../model/principal.ts';
import type { Code } from '../../standard/codes.ts';
import { Failure, outcomeOf } from '../../standard/failure.ts';
import type { CatalogContext, CatalogEngine } from './change_context.ts';
import { engineStepMsMax } from './intent_leases.ts';
import { changeOf, type IntentRow, recordFailedAttempt } from './intents.ts';
import { UsedByViews } from './view_dependencies.ts';

export type StepOutcome =
  | { readonly kind: 'done'; readonly applied: Applied | undefined }
  /** The change is not possible: a retry would be refused too. */
  | { readonly kind: 'refused'; readonly error: Failure }
  /** This attempt changed nothing (the engine is starting, the object is busy); a retry may succeed. */
  | { readonly kind: 'notApplied'; readonly error: Failure }
  | { readonly kind: 'unknown'; readonly error: unknown };

/** The step of a request or of recovery: limited in time, and cancelled when another server has taken the change over. */
export const limitedBy = (lost: AbortSignal): WorkOptions => ({
  signal: AbortSignal.any([AbortSignal.timeout(engineStepMsMax), lost]),
});

/** `change`: that of the intent, unless it has another form by now. */
export function applyStep(
  context: CatalogContext,
  engine: CatalogEngine,
  intent: IntentRow,
  options: WorkOptions,
  change: Change = changeOf(intent),
): Promise<StepOutcome> {
  return outcomeOfStep(context, engine, intent, { ...options, change, step: intent.id });
}

/** Undoes the step of a creation. */
export function undoStep(
  context: CatalogContext,
  engine: CatalogEngine,
  intent: IntentRow,
  options: WorkOptions,
): Promise<StepOutcome> {
  const { id, undo } = intent;
  const change = JSON.parse(undo ?? 'null') as Change;
  return outcomeOfStep(context, engine, intent, { ...options, change, step: `${id}/undo`, undoes: id });
}

async function outcomeOfStep(
  context: CatalogContext,
  engine: CatalogEngine,
  intent: IntentRow,
  { change, ...options }: WorkOptions & StepOptions & { readonly change: Change },
): Promise<StepOutcome> {
  const confirm = () => context.leases.confirm(intent);
  try {
    return { kind: 'done', applied: await engine.apply(change, { ...options, confirm }) };
  } catch (error) {
    if (!(error instanceof Failure)) return { kind: 'unknown', error };
    if (error.code === 'IN_USE') return { kind: 'refused', error: toUsedByViews(error) };
    const outcome = outcomeOf(error);
    return { kind: outcome === undefined ? 'refused' : outcome, error };
  }
}

/**
 * The first attempt of an intent, for the request that began it. If nothing was changed, `undo` ends the intent. If the outcome is
 * unknown, the intent stays open for recovery. Throws what the engine threw.
 */
export async function applyFirstAttempt(
  context: CatalogContext,
  engine: CatalogEngine,
  intent: IntentRow,
  principal: Actor,
  lost: AbortSignal,
  undo: (why: Code) => Promise<void>,
): Promise<Applied | undefined> {
  const outcome = await applyStep(context, engine, intent, limitedBy(lost));
  if (outcome.kind === 'done') {
    principal.changed = true;
    return outcome.applied;
  }
  if (outcome.kind === 'unknown') await recordFailedAttempt(context, intent, outcome.error);
  else await undo(outcome.error.code);
  throw outcome.error;
}

const toUsedByViews = ({ result }: Failure) => new UsedByViews((result as Partial<BrokenViews>).broken ?? []);
