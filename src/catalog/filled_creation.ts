// An object that a task makes and fills before anybody sees it: its row is `creating` until all is there. What fills it is the
// caller's; how an interrupted one ends is the same as for any creation (recovery.ts), once no task has it in hand.
import type { Change } from '../engines/engine.ts';
import { codes } from '../standard/codes.ts';
import { Failure } from '../standard/failure.ts';
import { HandedBack, RetryableError } from '../tasks/task.ts';
import { changedBefore, intentOfTask } from './alteration.ts';
import type { CatalogContext, CatalogEngine } from './context.ts';
import { applyStep } from './engine_step.ts';
import { changeOf, commitCreate, type IntentRow, noteAttempt, removeObject, tell } from './intents.ts';
import type { CatalogObject, MadeWithin } from './object.ts';

/** Told the id that the object has. */
export type Fill = (objectId: string) => Promise<MadeWithin | undefined>;

/**
 * The work of the task. `fill` may be run again after a crash, and has to find then that it was done. Throws its refusal (nothing
 * is left of the object then), or a RetryableError.
 */
export async function runCreation(
  context: CatalogContext,
  taskId: string,
  signal: AbortSignal,
  fill: Fill,
): Promise<CatalogObject> {
  const intent = await intentOfTask(context, taskId);
  if (!intent) return changedBefore(context, taskId);
  if (context.applying.has(intent.id)) throw new RetryableError('the object is still being made');
  context.applying.add(intent.id);
  try {
    const engine = await context.engineOf(intent.warehouse);
    return await made(context, engine, intent, signal, fill);
  } catch (error) {
    if (error instanceof Failure) throw error;
    throw new RetryableError('the making was interrupted', { cause: error });
  } finally {
    context.applying.delete(intent.id);
  }
}

async function made(
  context: CatalogContext,
  engine: CatalogEngine,
  intent: IntentRow,
  signal: AbortSignal,
  fill: Fill,
): Promise<CatalogObject> {
  let within: MadeWithin | undefined;
  try {
    const outcome = await applyStep(engine, changeOf(intent), intent.id, { signal });
    if (outcome.kind !== 'done') throw outcome.kind === 'refused' ? outcome.failure : outcome.error;
    within = await fill(intent.object_id);
  } catch (error) {
    const handedBack = signal.aborted && signal.reason instanceof HandedBack;
    const isFinal = error instanceof Failure && codes[error.code].status < 500;
    if (isFinal && !handedBack) await undo(context, engine, intent, error);
    throw error;
  }
  await commitCreate(context, intent, within);
  const row = await context.statements.byId.first(context.store.db, { id: intent.object_id });
  if (!row) throw new Error(`intent ${intent.id} has no object`);
  tell(context, row, within !== undefined);
  return context.specs.object(row);
}

async function undo(context: CatalogContext, engine: CatalogEngine, intent: IntentRow, why: Failure): Promise<void> {
  const change = JSON.parse(intent.undo ?? 'null') as Change;
  const outcome = await applyStep(engine, change, `${intent.id}/undo`);
  if (outcome.kind === 'done') return removeObject(context, intent, why.code);
  // Recovery goes on once the task has ended.
  await noteAttempt(context, intent, outcome.kind === 'refused' ? outcome.failure : outcome.error);
}
