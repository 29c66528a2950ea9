// Recovery of interrupted changes: a create is undone, an update is retried or reverted, a drop is repeated until it succeeds. The next
// request on the object does this, and recovery_rounds.ts does it for all open intents. Intents that a live task owns are left to the task,
// and those that another server holds to that server.
import { setTimeout as pause } from 'node:timers/promises';
import { codes } from '../../standard/codes.ts';
import { Failure, outcomeOf, withOutcome } from '../../standard/failure.ts';
import { isTerminal } from '../../tasks/task_rows.ts';
import { isVisible, type ObjectRow, objectColumns } from '../object_rows.ts';
import { Blocked, blockedWaitMs, type CatalogContext, changeInProgress, lockWaitMs } from './change_context.ts';
import { applyStep, limitedBy, undoStep } from './engine_step.ts';
import { actorOf, type IntentRow, nextOf, recordFailedAttempt, removeObject } from './intents.ts';
import { endWithoutWarehouse } from './lost_warehouses.ts';
import { nameKey } from './name_locks.ts';
import { appendChange } from './object_changes.ts';
import { commitChange, commitDrop, purgeNow, revertChange } from './soft_delete.ts';

/** How many times a change recovers blocking intents before it fails. */
const blockerRecoveriesMax = 20;
/** How often a request that waits for another server reads whether its change has ended. */
const otherServerPollMs = 50;
/** Maximum number of steps that the engine forgets in one round. */
const stepsPerForgetMax = 1000;

/** Runs a change while holding the locks of its names. Interrupted changes that block it are recovered first. */
export async function serialized<T>(
  context: CatalogContext,
  keys: readonly string[],
  change: () => Promise<T>,
): Promise<T> {
  try {
    return await context.locks.hold(keys, lockWaitMs, () => runUnblocked(context, keys, change));
  } catch (error) {
    // The change may have begun and not ended.
    if (!(error instanceof Failure) || outcomeOf(error) === 'unknown') context.scheduleRecovery();
    throw error;
  }
}

async function runUnblocked<T>(context: CatalogContext, keys: readonly string[], change: () => Promise<T>): Promise<T> {
  for (let recoveries = 0; ; recoveries++) {
    try {
      return await change();
    } catch (error) {
      if (!(error instanceof Blocked)) throw error;
      if (recoveries === blockerRecoveriesMax) throw changeInProgress();
      for (const objectId of error.objectIds) await resolveBlocker(context, objectId, keys);
    }
  }
}

/** Throws CHANGE_IN_PROGRESS if the other change takes long or belongs to a task, and the engine's Failure if it cannot be recovered. */
async function resolveBlocker(context: CatalogContext, objectId: string, heldKeys: readonly string[]): Promise<void> {
  const intent = await findBlockingIntent(context, objectId);
  if (!intent) return;
  const row = await context.statements.byId.first(context.store.db, { id: intent.object_id });
  if (!row) return;
  if (await isOwnedByTask(context, intent)) throw changeInProgress();
  await waitForOtherServer(context, intent);
  const key = nameKey(row.parent_id, row.category, row.name);
  // Only a request on the object itself retries a change that has crashed the engine before.
  if (isBlocked(intent) && !heldKeys.includes(key)) throw blockedBy(row);
  const run = async (): Promise<void> => {
    // The previous holder of the lock may have ended it.
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
  // A change that has begun waits for no other, which prevents deadlocks.
  await context.locks.hold([key], blockedWaitMs, run);
}

/** Waits for another server that works on the change. Throws CHANGE_IN_PROGRESS if that takes long. */
async function waitForOtherServer(context: CatalogContext, intent: IntentRow): Promise<void> {
  const deadline = performance.now() + blockedWaitMs;
  for (let open: IntentRow | undefined = intent; open?.id === intent.id && context.leases.isHeldElsewhere(open); ) {
    if (performance.now() >= deadline) throw changeInProgress();
    await pause(otherServerPollMs);
    open = await context.statements.intentOf.first(context.store.db, { objectId: intent.object_id });
  }
}

/** Throws if the request has just completed a blocked rename: the object no longer has the requested name, and nothing else was changed. */
async function requireSameName(
  context: CatalogContext,
  intent: IntentRow,
  { id, category, name }: ObjectRow,
): Promise<void> {
  const current = isBlocked(intent) ? await context.statements.byId.first(context.store.db, { id }) : undefined;
  if (!current || current.name === name) return;
  const newName = current.name;
  const message = `the blocked rename of "${name}" in ${category} is now complete; repeat the request with the name "${newName}"`;
  throw new Failure('CHANGE_IN_PROGRESS', message, { category, name, newName }, { outcome: 'notApplied' });
}

/** The intent of the object, or, for a row that only reserves a name, the intent of the rename. */
async function findBlockingIntent(context: CatalogContext, objectId: string): Promise<IntentRow | undefined> {
  const own = await context.statements.intentOf.first(context.store.db, { objectId });
  if (own) return own;
  const renames = await context.store.db.selectFrom('intents').selectAll().where('verb', '=', 'update').execute();
  return renames.find((intent) => nextOf(intent).reservationId === objectId);
}

/** Whether a task is applying the intent or will apply it. */
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

/** Ends an intent. The caller holds the lock of the object's name. Throws if it is not possible now, or another server works on it. */
async function recoverIntent(context: CatalogContext, open: IntentRow): Promise<void> {
  const intent = await context.leases.claim(context.store.db, open);
  if (!intent) throw changeInProgress();
  const { verb, warehouse } = intent;
  try {
    if (!(await context.warehouseExists(context.store.db, warehouse))) {
      const outcome = await endWithoutWarehouse(context, intent);
      context.observe({ kind: 'intentRecovered', verb, outcome, lostWarehouse: warehouse });
      return;
    }
    const outcome = await context.leases.whileHeld(intent, (lost) => recoverByVerb[verb](context, intent, lost));
    context.observe({ kind: 'intentRecovered', verb, outcome });
  } catch (error) {
    context.observe({ kind: 'intentRecovered', verb, outcome: 'failed', error });
    try {
      if (isEngineDeath(error)) await noteEngineDeath(context, intent);
    } finally {
      await recordFailedAttempt(context, intent, error);
    }
    throw error;
  }
}

/** How many times a step may crash the engine, or time out, before its object is blocked. */
const engineDeathsMax = 2;

export const isBlocked = ({ engine_deaths }: IntentRow): boolean => engine_deaths >= engineDeathsMax;

/** Whether the engine died while it ran the step, or cancelled the step because it took too long. */
function isEngineDeath(error: unknown): boolean {
  if (!(error instanceof Failure)) return false;
  return error.code === 'STATEMENT_CANCELLED' || (error.code === 'WAREHOUSE_FAILED' && outcomeOf(error) === 'unknown');
}

/** Counts a crash of the engine. At the limit the object is blocked, and recovery ignores it until a request changes or deletes it. */
async function noteEngineDeath(context: CatalogContext, intent: IntentRow): Promise<void> {
  const deaths = intent.engine_deaths + 1;
  const times = deaths === 1 ? 'once' : `${deaths} times`;
  const reason = `the engine ended ${times} while an interrupted change (${intent.verb}) was recovered`;
  await context.store.transaction(async (tx) => {
    const held = tx.updateTable('intents').set({ engine_deaths: deaths }).where('id', '=', intent.id);
    const { numUpdatedRows } = await held.where('leased_by', '=', context.leases.holderId).executeTakeFirst();
    if (numUpdatedRows !== 1n || deaths < engineDeathsMax || intent.verb === 'purge') return;
    const row = await tx
      .updateTable('objects')
      .set({ state: 'blocked', state_reason: reason })
      .where('id', '=', intent.object_id)
      .returning(objectColumns)
      .executeTakeFirst();
    if (row) appendChange(context, tx, row, { deep: true });
  });
}

function blockedBy({ category, name }: ObjectRow): Failure {
  const message = `"${name}" in ${category} is blocked: an interrupted change of it cannot be recovered; change or delete it first`;
  return new Failure('CHANGE_IN_PROGRESS', message, { category, name }, { retryAfterSeconds: 60 });
}

const recoverByVerb: Record<
  IntentRow['verb'],
  (context: CatalogContext, intent: IntentRow, lost: AbortSignal) => Promise<'finished' | 'undone'>
> = {
  async create(context, intent, lost) {
    if (!(await neverRan(context, intent))) {
      const engine = await context.engineOf(intent.warehouse);
      const outcome = await undoStep(context, engine, intent, limitedBy(lost));
      if (outcome.kind !== 'done') throw outcome.error;
    }
    await removeObject(context, intent, 'TASK_INTERRUPTED');
    return 'undone';
  },
  update: retryOrRevert,
  undrop: retryOrRevert,
  async drop(context, intent, lost) {
    const engine = await context.engineOf(intent.warehouse);
    const outcome = await applyStep(context, engine, intent, limitedBy(lost));
    // Readers have seen that the object is gone, so a drop is never reverted.
    if (outcome.kind !== 'done') throw outcome.error;
    await commitDrop(context, intent);
    return 'finished';
  },
  async purge(context, intent, lost) {
    await purgeNow(context, intent, lost);
    return 'finished';
  },
};

/** Whether the intent is of a task that ended before it was started, which has not called the engine. */
async function neverRan({ store }: CatalogContext, { task_id }: IntentRow): Promise<boolean> {
  if (task_id === null) return false;
  const task = await store.db
    .selectFrom('tasks')
    .select('started_at')
    .where('task_id', '=', task_id)
    .executeTakeFirst();
  return task !== undefined && task.started_at === null;
}

async function retryOrRevert(
  context: CatalogContext,
  intent: IntentRow,
  lost: AbortSignal,
): Promise<'finished' | 'undone'> {
  // A task that never began has not called the engine.
  if (intent.task_id !== null && intent.attempts === 0) {
    await revertChange(context, intent, 'TASK_INTERRUPTED');
    return 'undone';
  }
  const engine = await context.engineOf(intent.warehouse);
  const outcome = await applyStep(context, engine, intent, limitedBy(lost));
  if (outcome.kind === 'refused') {
    await revertChange(context, intent, outcome.error.code);
    return 'undone';
  }
  // Also if this attempt changed nothing, because an earlier one may have.
  if (outcome.kind !== 'done') throw outcome.error;
  await commitChange(context, intent, outcome.applied);
  return 'finished';
}

/** A change that has begun and not ended. */
export interface OpenIntent {
  readonly intent: IntentRow;
  readonly warehouse: string;
  /** Why it is blocked; null while recovery still retries. */
  readonly reason: string | null;
  /** Ids of the changed object and its ancestors, root first. */
  readonly path: readonly string[];
}

/** Interrupted changes, which neither a request nor a task is working on. */
export async function openIntents(context: CatalogContext): Promise<OpenIntent[]> {
  const open: OpenIntent[] = [];
  for (const intent of await context.store.db.selectFrom('intents').selectAll().orderBy('id').execute()) {
    const row = await context.statements.byId.first(context.store.db, { id: intent.object_id });
    if (!row || (await isOwnedByTask(context, intent)) || (await waitsForUndrop(context, intent))) continue;
    const isLocked = context.locks.isHeld(nameKey(row.parent_id, row.category, row.name));
    // A change that a request is working on counts as interrupted only if an attempt has failed.
    if ((isLocked || context.leases.isHeldElsewhere(intent)) && intent.attempts === 0) continue;
    const reason = isBlocked(intent) ? (row.state_reason ?? 'the engine ended while it was recovered') : null;
    const chain = await context.statements.ancestors.all(context.store.db, { id: row.id });
    const path = chain.map(({ id }) => id).reverse();
    open.push({ intent, warehouse: intent.warehouse, reason, path });
  }
  return open;
}

/** Lets recovery retry the blocked changes of a warehouse. @returns their number. */
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

/** Recovers the open changes of a warehouse that nobody is working on. A failure does not stop the others. */
export async function recoverWarehouse(context: CatalogContext, warehouse: string): Promise<void> {
  const { db } = context.store;
  const open = await db.selectFrom('intents').selectAll().where('warehouse', '=', warehouse).orderBy('id').execute();
  const isLost = open.some(isBlocked) && !(await context.warehouseExists(db, warehouse));
  for (const intent of open) {
    const row = await context.statements.byId.first(db, { id: intent.object_id });
    if (row && (isLost || !isBlocked(intent))) await recoverOne(context, row);
  }
}

/** Open changes in a damaged catalog that was dropped wait until it is restored, or are purged with it. */
async function waitsForUndrop(context: CatalogContext, { object_id: id, verb }: IntentRow): Promise<boolean> {
  if (verb === 'purge') return false;
  const [, ...above] = await context.statements.ancestors.all(context.store.db, { id });
  return above.some((row) => !isVisible(row));
}

export async function recoverOne(context: CatalogContext, row: ObjectRow): Promise<void> {
  await context.locks.tryHold(nameKey(row.parent_id, row.category, row.name), async () => {
    const intent = await context.statements.intentOf.first(context.store.db, { objectId: row.id });
    if (!intent || (await isOwnedByTask(context, intent)) || (await waitsForUndrop(context, intent))) return;
    // recoverIntent has recorded the failure; the next round retries.
    await recoverIntent(context, intent).catch(() => {});
  });
}

/**
 * Completes or reverts the changes that earlier attempts of a request with an idempotency key left open, so that the request can be
 * confirmed or repeated. If that is not possible now, throws what the engine throws; CHANGE_IN_PROGRESS while a change is in progress.
 */
export async function recoverKeyed(context: CatalogContext, keyId: string): Promise<void> {
  const open = await context.store.db.selectFrom('intents').selectAll().orderBy('id').execute();
  for (const each of open) {
    if (actorOf(each).guard?.keyId !== keyId) continue;
    const { object_id } = each;
    const row = await context.statements.byId.first(context.store.db, { id: object_id });
    if (!row) continue;
    await context.locks.hold([nameKey(row.parent_id, row.category, row.name)], lockWaitMs, async () => {
      const intent = await context.statements.intentOf.first(context.store.db, { objectId: object_id });
      // A change that a task owns was answered with the task.
      if (!intent || (await isOwnedByTask(context, intent)) || (await waitsForUndrop(context, intent))) return;
      await recoverIntent(context, intent);
    });
  }
}

/** Lets the engines forget spent steps. The step of a task is retained until the task has ended: a rerun after a crash must find it. */
export async function forgetSpentSteps(context: CatalogContext): Promise<void> {
  const elsewhere = [...(await context.warehousesElsewhere())];
  const spent = await context.store.db
    .selectFrom('spent_steps')
    .leftJoin('tasks', 'tasks.task_id', 'spent_steps.task_id')
    .leftJoin('objects', 'objects.id', 'spent_steps.catalog_id')
    .select(['step', 'warehouse', 'catalog_id'])
    // The file of a dropped catalog is detached: its steps wait until the catalog is restored or purged.
    .where((e) => e.or([e('objects.state', 'is', null), e('objects.state', 'in', ['ready', 'altering'])]))
    .where((e) => e.or([e('spent_steps.not_before', 'is', null), e('spent_steps.not_before', '<', context.clock())]))
    .where((e) => e.or([e('tasks.state', 'is', null), e('tasks.state', 'in', ['succeeded', 'failed', 'cancelled'])]))
    .$if(elsewhere.length > 0, (query) => query.where('warehouse', 'not in', elsewhere))
    .limit(stepsPerForgetMax)
    .execute();
  const groups = Map.groupBy(spent, ({ warehouse, catalog_id }) => JSON.stringify([warehouse, catalog_id]));
  for (const group of groups.values()) {
    const { warehouse = '', catalog_id = '' } = group[0] ?? {};
    const steps = group.map(({ step }) => step);
    try {
      const catalog = await context.statements.byId.first(context.store.db, { id: catalog_id });
      // The steps of a catalog that no longer exists were deleted with its file.
      if (catalog) await (await context.engineOf(warehouse)).forget({ id: catalog.id, name: catalog.name }, steps);
      await context.store.db.deleteFrom('spent_steps').where('step', 'in', steps).execute();
    } catch (error) {
      context.observe({ kind: 'backgroundError', what: 'let the engine forget spent steps', error });
    }
  }
}
