// Drops an object. The first transaction makes it and its descendants invisible, then the engine applies its step, and the last
// transaction deletes the rows or retains them for an undrop.
import assert from 'node:assert/strict';
import { newId } from '../../model/ids.ts';
import type { Actor } from '../../model/principal.ts';
import { ObjectChanged, requireExpectedVersion } from '../../standard/expected_version.ts';
import { Failure } from '../../standard/failure.ts';
import { visible } from '../../store/index_conditions.ts';
import { afterCommit } from '../../store/transactions.ts';
import type { CatalogObject, DropRequest } from '../object.ts';
import { isVisible, type ObjectRow, versionOfRow } from '../object_rows.ts';
import { Blocked, type CatalogContext, type CatalogEngine, type Tx } from './change_context.ts';
import { checkChangePath, namesOf } from './change_path.ts';
import { applyFirstAttempt } from './engine_step.ts';
import { serialized } from './intent_recovery.ts';
import { type IntentRow, insertIntent, leaveState, revert, revertInTransaction } from './intents.ts';
import { nameKey } from './name_locks.ts';
import { appendChange, appendRemoval } from './object_changes.ts';
import { childrenOf, commitDrop } from './soft_delete.ts';
import { requireUnused } from './view_dependencies.ts';

/** Maximum number of descendants with open changes that are recovered at once. */
const blockersMax = 10;

/** @returns false if the object no longer existed. */
export async function dropObject(
  context: CatalogContext,
  object: CatalogObject,
  request: DropRequest,
): Promise<boolean> {
  const { change, warehouse } = request;
  const engine = change && warehouse !== undefined ? await context.engineOf(warehouse) : undefined;
  if (change && !engine) throw new Error('a change requires a warehouse');
  const attempt = (isDamaged: boolean) =>
    serialized(context, [nameKey(object.parentId, object.category, object.name)], async () => {
      const begun = await context.store.transaction((tx) => begin(context, tx, object, request, isDamaged));
      // For a blocked object, the lock was obtained by completing the drop that recovery had set aside.
      if (begun === 'gone') return object.state === 'blocked';
      if (begun.intent) await applyAndCommit(context, engine as CatalogEngine, begun.intent, request.principal);
      return true;
    });
  const isDamaged = (await request.isDamaged?.()) === true;
  try {
    return await attempt(isDamaged);
  } catch (error) {
    // The attempt may have been the first access to the files.
    const isDamagedNow = !isDamaged && error instanceof Failure && (await request.isDamaged?.()) === true;
    if (!isDamagedNow) throw error;
    return attempt(true);
  }
}

async function begin(
  context: CatalogContext,
  tx: Tx,
  object: CatalogObject,
  request: DropRequest,
  isDamaged: boolean,
): Promise<'gone' | { readonly intent: IntentRow | undefined }> {
  const row = await context.statements.byId.first(tx, { id: object.id });
  if (!row || (row.state !== 'dropping' && !isVisible(row))) return 'gone';
  if (isDamaged) await abandonUpdate(context, tx, row);
  const chain = await context.statements.ancestors.all(tx, { id: object.id });
  if (chain.slice(1).some((ancestor) => !isVisible(ancestor))) return 'gone';
  const busy = chain.filter((each) => each.state !== 'ready').map((each) => each.id);
  if (busy.length > 0) throw new Blocked(busy);
  if (row.name !== object.name) throw new ObjectChanged(row.id);
  requireExpectedVersion(versionOfRow(row), request.principal, (effect) => afterCommit(tx, effect));
  if (!request.cascade) await checkEmpty(tx, row);
  const limit = isDamaged ? 0 : blockersMax;
  const open = await context.statements.openBelow.all(tx, { id: row.id, limit });
  if (open.length > 0) throw new Blocked(open.map(({ object_id }) => object_id));
  if (request.warehouse !== undefined) await requireUnused(context, tx, row.id);
  const { warehouse } = request;
  const keep = request.keep && request.keep.seconds > 0 ? request.keep : undefined;
  const requested = keep?.change ?? request.change;
  const change = typeof requested === 'function' ? requested(await childrenOf(tx, row.id)) : requested;
  if (!change || warehouse === undefined) {
    assert.equal(await context.statements.deleteObject.run(tx, { id: row.id }), 1);
    await request.inTransaction?.(tx);
    await context.trail.append(tx, request.principal, { outcome: '0', objectId: row.id });
    appendRemoval(context, tx, row, { deep: true });
    return { intent: undefined };
  }
  checkChangePath(change, namesOf(chain));
  await leaveState(context, tx, row.id, 'ready', 'dropping');
  const intent = await insertIntent(context, tx, {
    id: newId(),
    objectId: row.id,
    verb: 'drop',
    warehouse,
    change,
    next: keep && { keep: { purgeAt: context.clock() + keep.seconds * 1000, purge: keep.purge } },
    principal: request.principal,
  });
  appendChange(context, tx, { ...row, state: 'dropping' }, { deep: true });
  return { intent };
}

/**
 * Reverts an open change of a catalog whose files are damaged. A rename is safe to revert whether or not the engine applied it: the
 * file does not contain the name, and is attached under the name in the store.
 */
async function abandonUpdate(context: CatalogContext, tx: Tx, row: ObjectRow): Promise<void> {
  const open = await context.statements.intentOf.first(tx, { objectId: row.id });
  if (open?.verb !== 'update') return;
  const intent = await context.leases.claim(tx, open);
  if (!intent) throw new Blocked([row.id]);
  await revertInTransaction(context, tx, intent, 'CATALOG_DAMAGED');
}

async function checkEmpty(tx: Tx, row: ObjectRow): Promise<void> {
  const child = await tx
    .selectFrom('objects')
    .select('category')
    .where('parent_id', '=', row.id)
    .where(visible)
    .orderBy('category')
    .limit(1)
    .executeTakeFirst();
  if (!child) return;
  const { category } = child;
  throw new Failure('NOT_EMPTY', `"${row.name}" still contains ${category}`, { category });
}

async function applyAndCommit(
  context: CatalogContext,
  engine: CatalogEngine,
  intent: IntentRow,
  principal: Actor,
): Promise<void> {
  await context.leases.whileHeld(intent, async (lost) => {
    await applyFirstAttempt(context, engine, intent, principal, lost, (why) => revert(context, intent, why));
    await commitDrop(context, intent);
  });
}
