// Creates and fills an object in a task before it becomes visible: its row stays `creating` until it is complete. The caller supplies
// the definition, if only the task can determine it, and the content. An interrupted creation is recovered like any other once its task
// has ended. See intent_recovery.ts.
import type { Change } from '../../engines/port/changes.ts';
import { codes } from '../../standard/codes.ts';
import { Failure } from '../../standard/failure.ts';
import { HandedBack, RetryableError } from '../../tasks/task.ts';
import type { CatalogObject, CreationWork, NewChildren } from '../object.ts';
import { foldedComment } from '../object_rows.ts';
import type { CatalogContext, CatalogEngine } from './change_context.ts';
import { applyStep, undoStep } from './engine_step.ts';
import { engineStepMsMax, takenOver } from './intent_leases.ts';
import { changeOf, commitCreate, type IntentRow, recordFailedAttempt, removeObject } from './intents.ts';
import { committedObject, intentOfTask } from './update_object.ts';

/** The work of the task. Throws a Failure if the creation is refused (the object is removed then), or a RetryableError. */
export async function runCreation(
  context: CatalogContext,
  taskId: string,
  signal: AbortSignal,
  work: CreationWork,
): Promise<CatalogObject> {
  const intent = await intentOfTask(context, taskId);
  if (!intent) return committedObject(context, taskId);
  if (context.applying.has(intent.id)) throw new RetryableError('the object is still being created');
  context.applying.add(intent.id);
  try {
    const engine = await context.engineOf(intent.warehouse);
    return await createAndFill(context, engine, intent, signal, work);
  } catch (error) {
    if (error instanceof Failure) throw error;
    throw new RetryableError('the creation was interrupted', { cause: error });
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
  let content: NewChildren | undefined;
  try {
    await takeOver(context, intent);
    const change = (await applyDefinition(context, intent, work)) ?? changeOf(intent);
    const outcome = await applyStep(context, engine, intent, { signal }, change);
    if (outcome.kind !== 'done') throw outcome.error;
    content = await work.fill(intent.object_id);
  } catch (error) {
    const handedBack = signal.aborted && signal.reason instanceof HandedBack;
    const isFinal = error instanceof Failure && codes[error.code].status < 500;
    if (isFinal && !handedBack) await undo(context, engine, intent, error);
    throw error;
  }
  return context.specs.toObject(await commitCreate(context, intent, { within: content }));
}

/** Stops an earlier runner that lost the task to this one. */
async function takeOver(context: CatalogContext, intent: IntentRow): Promise<void> {
  if (intent.leased_by === context.leases.holderId) return;
  await context.store.db
    .updateTable('intents')
    .set(context.leases.newLease(true))
    .where('id', '=', intent.id)
    .execute();
}

/** Stores the definition before the engine is called, so that every attempt applies the same change. */
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
    const { numUpdatedRows } = await tx
      .updateTable('intents')
      .set({ change: JSON.stringify(change) })
      .where('id', '=', intent.id)
      .where('leased_by', '=', context.leases.holderId)
      .executeTakeFirst();
    if (numUpdatedRows !== 1n) throw takenOver();
    await tx.updateTable('objects').set(columns).where('id', '=', row.id).execute();
  });
  return change;
}

async function undo(context: CatalogContext, engine: CatalogEngine, intent: IntentRow, why: Failure): Promise<void> {
  const outcome = await undoStep(context, engine, intent, { signal: AbortSignal.timeout(engineStepMsMax) });
  if (outcome.kind === 'done') return removeObject(context, intent, why.code);
  // Recovery continues once the task has ended.
  await recordFailedAttempt(context, intent, outcome.error);
}
