// An object that a task makes and fills before anybody sees it: its row is `creating` until all is there. What it is, where only
// the task can tell, and what fills it, is the caller's; how an interrupted one ends is the same as for any creation (recovery.ts),
// once no task has it in hand.
import type { Change } from '../../engines/engine.ts';
import { codes } from '../../standard/codes.ts';
import { Failure } from '../../standard/failure.ts';
import { HandedBack, RetryableError } from '../../tasks/task.ts';
import type { CatalogObject, CreationWork, NewChildren } from '../object.ts';
import { foldedComment } from '../object_rows.ts';
import type { CatalogContext, CatalogEngine } from './change_context.ts';
import { applyStep } from './engine_step.ts';
import { changeOf, commitCreate, type IntentRow, notifyChanged, recordFailedAttempt, removeObject } from './intents.ts';
import { committedObject, intentOfTask } from './update_object.ts';

/** The work of the task. Throws its refusal (nothing is left of the object then), or a RetryableError. */
export async function runCreation(
  context: CatalogContext,
  taskId: string,
  signal: AbortSignal,
  work: CreationWork,
): Promise<CatalogObject> {
  const intent = await intentOfTask(context, taskId);
  if (!intent) return committedObject(context, taskId);
  if (context.applying.has(intent.id)) throw new RetryableError('the object is still being made');
  context.applying.add(intent.id);
  try {
    const engine = await context.engineOf(intent.warehouse);
    return await createAndFill(context, engine, intent, signal, work);
  } catch (error) {
    if (error instanceof Failure) throw error;
    throw new RetryableError('the making was interrupted', { cause: error });
  } finally {
    context.applying.delete(intent.id);
  }
}

async function createAndFill(
  context: CatalogContext,
  engine: CatalogEngine,
  intent: IntentRow,
  signal: AbortSignal,
  work: CreationWork,
): Promise<CatalogObject> {
  let within: NewChildren | undefined;
  try {
    const change = (await applyDefinition(context, intent, work)) ?? changeOf(intent);
    const outcome = await applyStep(engine, change, intent.id, { signal });
    if (outcome.kind !== 'done') throw outcome.error;
    within = await work.fill(intent.object_id);
  } catch (error) {
    const handedBack = signal.aborted && signal.reason instanceof HandedBack;
    const isFinal = error instanceof Failure && codes[error.code].status < 500;
    if (isFinal && !handedBack) await undo(context, engine, intent, error);
    throw error;
  }
  await commitCreate(context, intent, within);
  const row = await context.statements.byId.first(context.store.db, { id: intent.object_id });
  if (!row) throw new Error(`intent ${intent.id} has no object`);
  notifyChanged(context, row, within !== undefined);
  return context.specs.toObject(row);
}

/** Durable before the engine is asked: what it is asked for is the same in every attempt. */
async function applyDefinition(
  context: CatalogContext,
  intent: IntentRow,
  { define }: CreationWork,
): Promise<Change | undefined> {
  if (!define) return undefined;
  const { db } = context.store;
  const row = await context.statements.byId.first(db, { id: intent.object_id });
  if (!row) throw new Error(`intent ${intent.id} has no object`);
  const definition = await define({ id: row.id, spec: JSON.parse(row.spec) });
  if (!definition) return undefined;
  const { spec, change } = definition;
  await context.store.transaction(async (tx) => {
    const columns = { spec: JSON.stringify(spec), folded_comment: foldedComment(spec) };
    await tx.updateTable('objects').set(columns).where('id', '=', row.id).execute();
    await tx
      .updateTable('intents')
      .set({ change: JSON.stringify(change) })
      .where('id', '=', intent.id)
      .execute();
  });
  return change;
}

async function undo(context: CatalogContext, engine: CatalogEngine, intent: IntentRow, why: Failure): Promise<void> {
  const change = JSON.parse(intent.undo ?? 'null') as Change;
  const outcome = await applyStep(engine, change, `${intent.id}/undo`);
  if (outcome.kind === 'done') return removeObject(context, intent, why.code);
  // Recovery goes on once the task has ended.
  await recordFailedAttempt(context, intent, outcome.error);
}
