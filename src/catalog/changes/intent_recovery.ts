// How an interrupted change ends: a create is undone, an update is tried again or reverted, a drop is repeated until it is done.
// Done by whoever meets the object next, and for all open intents at start and every minute. Intents that a live task owns
// are the task's.

import type { Change } from '../../engines/engine.ts';
import { codes } from '../../standard/codes.ts';
import { Failure, outcomeOf, withOutcome } from '../../standard/failure.ts';
import { isTerminal } from '../../tasks/task_rows.ts';
import { type ObjectRow, objectColumns } from '../object_rows.ts';
import {
  Blocked,
  blockedWaitMs,
  type CatalogContext,
  changeInProgress,
  isVisible,
  lockWaitMs,
  nameKey,
} from './change_context.ts';
import { applyStep } from './engine_step.ts';
import {
  changeOf,
  type IntentRow,
  nextOf,
  notifyChanged,
  notifyRemoved,
  recordFailedAttempt,
  removeObject,
} from './intents.ts';
import { commitChange, commitDrop, purgeNow, revertChange } from './soft_delete.ts';

/** How often a change clears its way before it gives up. */
const unblockingsMax = 20;
/** How many steps the engine is told to forget at once. */
const stepsPerForgetMax = 1000;

/** Runs a change when its names are free. What is in its way from an interruption is settled first. */
export async function serialized<T>(
  context: CatalogContext,
  keys: readonly string[],
  change: () => Promise<T>,
): Promise<T> {
  try {
    return await context.locks.hold(keys, lockWaitMs, () => runUnblocked(context, keys, change));
  } catch (error) {
    // It may have been begun and not ended.
    if (!(error instanceof Failure) || outcomeOf(error) === 'unknown') context.scheduleRecovery();
    throw error;
  }
}

async function runUnblocked<T>(context: CatalogContext, keys: readonly string[], change: () => Promise<T>): Promise<T> {
  for (let clearings = 0; ; clearings++) {
    try {
      return await change();
    } catch (error) {
      if (!(error instanceof Blocked)) throw error;
      if (clearings === unblockingsMax) throw changeInProgress();
      for (const objectId of error.objectIds) await resolveBlocker(context, objectId, keys);
    }
  }
}

/** Throws CHANGE_IN_PROGRESS where the object is being changed for long, or by a task, or what the engine says where it cannot be settled. */
async function resolveBlocker(context: CatalogContext, objectId: string, heldKeys: readonly string[]): Promise<void> {
  const intent = await findBlockingIntent(context, objectId);
  if (!intent) return;
  const row = await context.statements.byId.first(context.store.db, { id: intent.object_id });
  if (!row) return;
  if (await isOwnedByTask(context, intent)) throw changeInProgress();
  const key = nameKey(row.parent_id, row.category, row.name);
  // Only a request about the object itself tries again what has ended the engine before.
  if (isBlocked(intent) && !heldKeys.includes(key)) throw blockedBy(row);
  const run = async (): Promise<void> => {
    // Whoever had the turn before may have ended it.
    if ((await context.statements.intentOf.first(context.store.db, { objectId: intent.object_id }))?.id !== intent.id)
      return;
    try {
      await recoverIntent(context, intent);
    } catch (error) {
      if (error instanceof Failure && codes[error.code].status === 503) throw withOutcome(error, 'notApplied');
      throw changeInProgress();
    }
  };
  if (heldKeys.includes(key)) {
    await run();
    return requireSameName(context, intent, row);
  }
  // A change that has begun waits for nobody, so that two cannot wait for each other.
  await context.locks.hold([key], blockedWaitMs, run);
}

/** A blocked rename that the request has completed: the object is not found under the name of the request any more, and was not changed. */
async function requireSameName(
  context: CatalogContext,
  intent: IntentRow,
  { id, category, name }: ObjectRow,
): Promise<void> {
  const now = isBlocked(intent) ? await context.statements.byId.first(context.store.db, { id }) : undefined;
  if (!now || now.name === name) return;
  const message = `"${name}" in ${category} was blocked in a rename, which is complete now: it is called "${now.name}".`;
  throw new Failure('CHANGE_IN_PROGRESS', message, { category, name, newName: now.name }, { outcome: 'notApplied' });
}

/** The object's own intent, or, for a row that only keeps a name free, that of the rename it is for. */
async function findBlockingIntent(context: CatalogContext, objectId: string): Promise<IntentRow | undefined> {
  const own = await context.statements.intentOf.first(context.store.db, { objectId });
  if (own) return own;
  const renames = await context.store.db.selectFrom('intents').selectAll().where('verb', '=', 'update').execute();
  return renames.find((intent) => nextOf(intent).reservationId === objectId);
}

/** Whether a task has it in hand, or still will. */
async function isOwnedByTask(context: CatalogContext, intent: IntentRow): Promise<boolean> {
  if (context.applying.has(intent.id)) return true;
  if (intent.task_id === null) return false;
  const task = await context.store.db
    .selectFrom('tasks')
    .select('state')
    .where('task_id', '=', intent.task_id)
    .executeTakeFirst();
  return task !== undefined && !isTerminal(task.state);
}

/** Ends an intent, with its object's name held. Throws where that cannot be done now. */
async function recoverIntent(context: CatalogContext, intent: IntentRow): Promise<void> {
  const { verb } = intent;
  try {
    const outcome = await recoverByVerb[verb](context, intent);
    context.intentEnded(intent.id);
    context.observe({ kind: 'intentRecovered', verb, outcome });
  } catch (error) {
    await recordFailedAttempt(context, intent, error);
    context.observe({ kind: 'intentRecovered', verb, outcome: 'failed', error });
    if (isEngineDeath(error)) await noteEngineDeath(context, intent);
    throw error;
  }
}

/** So often may a step end the engine, or outlast its time, before it is set aside. */
const engineDeathsMax = 2;

export const isBlocked = ({ engine_deaths }: IntentRow): boolean => engine_deaths >= engineDeathsMax;

/** The engine died while it ran the step, or ended the step because it took too long. */
function isEngineDeath(error: unknown): boolean {
  if (!(error instanceof Failure)) return false;
  return error.code === 'STATEMENT_CANCELLED' || (error.code === 'WAREHOUSE_FAILED' && outcomeOf(error) === 'unknown');
}

/** After too many of them the object is blocked, and recovery leaves it alone until a request changes or deletes it. */
async function noteEngineDeath(context: CatalogContext, intent: IntentRow): Promise<void> {
  const deaths = intent.engine_deaths + 1;
  const times = deaths === 1 ? 'once' : `${deaths} times`;
  const reason = `the engine ended ${times} while an interrupted change (${intent.verb}) was recovered`;
  const row = await context.store.transaction(async (tx) => {
    await tx.updateTable('intents').set({ engine_deaths: deaths }).where('id', '=', intent.id).execute();
    if (deaths < engineDeathsMax || intent.verb === 'purge') return undefined;
    return await tx
      .updateTable('objects')
      .set({ state: 'blocked', state_reason: reason })
      .where('id', '=', intent.object_id)
      .returning(objectColumns)
      .executeTakeFirst();
  });
  if (row) notifyChanged(context, row, true);
}

function blockedBy({ category, name }: ObjectRow): Failure {
  const message = `"${name}" in ${category} is blocked: an interrupted change of it cannot be recovered. Change or delete it first.`;
  return new Failure('CHANGE_IN_PROGRESS', message, { category, name }, { retryAfterSeconds: 60 });
}

const recoverByVerb: Record<
  IntentRow['verb'],
  (context: CatalogContext, intent: IntentRow) => Promise<'finished' | 'undone'>
> = {
  async create(context, intent) {
    const engine = await context.engineOf(intent.warehouse);
    const undo = JSON.parse(intent.undo ?? 'null') as Change;
    const outcome = await applyStep(engine, undo, `${intent.id}/undo`);
    if (outcome.kind !== 'done') throw outcome.error;
    await removeObject(context, intent, 'TASK_INTERRUPTED');
    return 'undone';
  },
  update: retryOrRevert,
  undrop: retryOrRevert,
  async drop(context, intent) {
    const engine = await context.engineOf(intent.warehouse);
    const outcome = await applyStep(engine, changeOf(intent), intent.id);
    // Readers were told that it is gone: there is no way back.
    if (outcome.kind !== 'done') throw outcome.error;
    const row = await context.statements.byId.first(context.store.db, { id: intent.object_id });
    await commitDrop(context, intent);
    if (row) notifyRemoved(context, row, intent);
    return 'finished';
  },
  async purge(context, intent) {
    await purgeNow(context, intent);
    return 'finished';
  },
};

async function retryOrRevert(context: CatalogContext, intent: IntentRow): Promise<'finished' | 'undone'> {
  // A task that never began has asked nothing of the engine.
  if (intent.task_id !== null && intent.attempts === 0) {
    await revertChange(context, intent, 'TASK_INTERRUPTED');
    return 'undone';
  }
  const engine = await context.engineOf(intent.warehouse);
  const outcome = await applyStep(engine, changeOf(intent), intent.id);
  if (outcome.kind === 'refused') {
    await revertChange(context, intent, outcome.error.code);
    return 'undone';
  }
  // Of an attempt that changed nothing too: an earlier one may have.
  if (outcome.kind !== 'done') throw outcome.error;
  await commitChange(context, intent, outcome.applied);
  return 'finished';
}

/** A change that was begun and has not ended. */
export interface OpenIntent {
  readonly intent: IntentRow;
  readonly warehouse: string;
  /** Nobody has it in hand. */
  readonly isFree: boolean;
  /** Why it is set aside; null while recovery still tries. */
  readonly reason: string | null;
  /** Ids of the object that is changed and of what it is in, root first. */
  readonly path: readonly string[];
}

/** Changes that were interrupted: neither a request nor a task is at work on them. */
export async function openIntents(context: CatalogContext): Promise<OpenIntent[]> {
  const open: OpenIntent[] = [];
  for (const intent of await context.store.db.selectFrom('intents').selectAll().orderBy('id').execute()) {
    const row = await context.statements.byId.first(context.store.db, { id: intent.object_id });
    if (!row || (await isOwnedByTask(context, intent)) || (await waitsForUndrop(context, intent))) continue;
    const isHeld = context.locks.isHeld(nameKey(row.parent_id, row.category, row.name));
    // One that a request is at work on is interrupted only if an attempt has failed.
    if (isHeld && intent.attempts === 0) continue;
    const reason = isBlocked(intent) ? (row.state_reason ?? 'the engine ended while it was recovered') : null;
    const chain = await context.statements.ancestors.all(context.store.db, { id: row.id });
    const path = chain.map(({ id }) => id).reverse();
    open.push({ intent, warehouse: intent.warehouse, isFree: !isHeld, reason, path });
  }
  return open;
}

/** Has recovery try what it has set aside in a warehouse. @returns how many changes that are. */
export async function releaseBlocked(context: CatalogContext, warehouse: string): Promise<number> {
  const { numUpdatedRows } = await context.store.db
    .updateTable('intents')
    .set({ engine_deaths: 0 })
    .where('warehouse', '=', warehouse)
    .where('engine_deaths', '>=', engineDeathsMax)
    .executeTakeFirst();
  context.scheduleRecovery();
  return Number(numUpdatedRows);
}

/** Settles what is open and free in a warehouse. One failure does not stop the rest. */
export async function recoverWarehouse(context: CatalogContext, warehouse: string): Promise<void> {
  const { db } = context.store;
  const open = await db.selectFrom('intents').selectAll().where('warehouse', '=', warehouse).orderBy('id').execute();
  for (const intent of open) {
    const row = await context.statements.byId.first(db, { id: intent.object_id });
    if (row && !isBlocked(intent)) await recoverOne(context, row);
  }
}

/** In a damaged catalog that was deleted: its open changes wait until it comes back, or go with it. */
async function waitsForUndrop(context: CatalogContext, { object_id: id, verb }: IntentRow): Promise<boolean> {
  if (verb === 'purge') return false;
  const [, ...above] = await context.statements.ancestors.all(context.store.db, { id });
  return above.some((row) => !isVisible(row));
}

export async function recoverOne(context: CatalogContext, row: ObjectRow): Promise<void> {
  await context.locks.tryHold(nameKey(row.parent_id, row.category, row.name), async () => {
    const intent = await context.statements.intentOf.first(context.store.db, { objectId: row.id });
    if (!intent || (await isOwnedByTask(context, intent)) || (await waitsForUndrop(context, intent))) return;
    // Told and noted by settle; the next round tries again.
    await recoverIntent(context, intent).catch(() => {});
  });
}

/**
 * Ends what earlier attempts of a keyed request left open, so that the request can be confirmed or made again. Throws what the engine
 * throws where that cannot be done now, CHANGE_IN_PROGRESS where it is still under way.
 */
export async function recoverKeyed(context: CatalogContext, keyId: string): Promise<void> {
  const open = await context.store.db
    .selectFrom('intents')
    .select('object_id')
    .where('actor', 'like', `%"keyId":${JSON.stringify(keyId)}%`)
    .orderBy('id')
    .execute();
  for (const { object_id } of open) {
    const row = await context.statements.byId.first(context.store.db, { id: object_id });
    if (!row) continue;
    await context.locks.hold([nameKey(row.parent_id, row.category, row.name)], lockWaitMs, async () => {
      const intent = await context.statements.intentOf.first(context.store.db, { objectId: object_id });
      // What a task has in hand was answered with the task.
      if (!intent || (await isOwnedByTask(context, intent)) || (await waitsForUndrop(context, intent))) return;
      await recoverIntent(context, intent);
    });
  }
}

/** A step of a task is kept until the task ended: run again after a crash, it must find that its work is done. */
export async function forgetSpentSteps(context: CatalogContext): Promise<void> {
  const spent = await context.store.db
    .selectFrom('spent_steps')
    .leftJoin('tasks', 'tasks.task_id', 'spent_steps.task_id')
    .leftJoin('objects', 'objects.id', 'spent_steps.catalog_id')
    .select(['step', 'warehouse', 'catalog_id'])
    // The file of a dropped catalog is detached: its steps wait until it comes back, or is purged.
    .where((e) => e.or([e('objects.state', 'is', null), e('objects.state', 'in', ['ready', 'altering'])]))
    .where((e) => e.or([e('spent_steps.not_before', 'is', null), e('spent_steps.not_before', '<', context.clock())]))
    .where((e) => e.or([e('tasks.state', 'is', null), e('tasks.state', 'in', ['succeeded', 'failed', 'cancelled'])]))
    .limit(stepsPerForgetMax)
    .execute();
  const groups = Map.groupBy(spent, ({ warehouse, catalog_id }) => JSON.stringify([warehouse, catalog_id]));
  for (const group of groups.values()) {
    const { warehouse = '', catalog_id = '' } = group[0] ?? {};
    const steps = group.map(({ step }) => step);
    try {
      const catalog = await context.statements.byId.first(context.store.db, { id: catalog_id });
      // Where the catalog is gone, its memory of steps went with it.
      if (catalog) await (await context.engineOf(warehouse)).forget({ id: catalog.id, name: catalog.name }, steps);
      await context.store.db.deleteFrom('spent_steps').where('step', 'in', steps).execute();
    } catch (error) {
      context.observe({ kind: 'backgroundError', what: 'let the engine forget spent steps', error });
    }
  }
}
