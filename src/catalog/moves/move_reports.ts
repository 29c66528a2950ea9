// What the server that moves a catalog asks of the other servers that write to it, and what they report, as rows of the store. A question may
// hold the writes to the catalog: from its report on, a server begins none until it reads that the hold is over or the move has switched.
import { Failure } from '../../standard/failure.ts';
import { isRunning } from '../../store/index_conditions.ts';
import type { LeaseHolder } from '../../store/leases.ts';
import type { Store } from '../../store/store.ts';
import type { CatalogContext, Tx } from '../changes/change_context.ts';

type Db = Store['db'];

/** A move, as the servers that write to its catalog see it. */
export interface AskedMove {
  readonly taskId: string;
  /** The catalog, by the id that it has before the switch. */
  readonly catalogId: string;
  /** The one that has the catalog; after the switch, the old copy. Null: that is not known. */
  readonly warehouse: string | null;
  readonly asks: number;
  /** The process that asked last. */
  readonly askedBy: string | null;
  readonly isHeld: boolean;
  readonly isSwitched: boolean;
}

/** A switch that a server has not heard of for longer is of no interest to it: no statement runs so long. */
const switchKeptMs = 7 * 24 * 3_600_000;
/** A server whose lease ended so long ago is down, whatever the clocks are. */
const deadAfterMs = 1_000;

export function moveGivenUp(): Failure {
  return new Failure('TASK_INTERRUPTED', 'the move was given up after an interruption');
}

/** Asks all servers for a new report. Throws TASK_INTERRUPTED if another process has the move. @returns the number of the question. */
export async function askServers(context: CatalogContext, taskId: string, isHeld: boolean): Promise<number> {
  const { store, leases, changes } = context;
  return store.transaction(async (tx) => {
    const row = await tx
      .updateTable('catalog_moves')
      .set((e) => ({ asks: e('asks', '+', 1), asked_by: leases.holderId, is_held: isHeld ? 1 : 0 }))
      .where('task_id', '=', taskId)
      .returning(['asks', 'switched_at'])
      .executeTakeFirst();
    if (!row || (row.switched_at === null && !(await isOwn(tx, taskId, leases.holderId)))) throw moveGivenUp();
    changes.append(tx, { kind: 'move', taskId });
    return row.asks;
  });
}

async function isOwn(tx: Tx, taskId: string, holderId: string): Promise<boolean> {
  const intents = await tx.selectFrom('intents').select('leased_by').where('task_id', '=', taskId).execute();
  return intents.length === 2 && intents.every(({ leased_by }) => leased_by === holderId);
}

/** Lets the servers write again, unless the move has switched. `asks`: only if that is the last question. @returns whether it did. */
export async function endHold(context: CatalogContext, taskId: string, asks?: number): Promise<boolean> {
  const { store, changes } = context;
  return store.transaction(async (tx) => {
    let held = tx.updateTable('catalog_moves').set({ is_held: 0 }).where('task_id', '=', taskId);
    held = held.where('switched_at', 'is', null).where('is_held', '=', 1);
    const { numUpdatedRows } = await (asks === undefined ? held : held.where('asks', '=', asks)).executeTakeFirst();
    if (numUpdatedRows > 0n) changes.append(tx, { kind: 'move', taskId });
    return numUpdatedRows > 0n;
  });
}

/** Throws TASK_INTERRUPTED if writes have continued since the hold of this question was reported. */
export async function requireHeld(tx: Tx, taskId: string, asks: number): Promise<void> {
  const row = await tx
    .selectFrom('catalog_moves')
    .select('asks')
    .where('task_id', '=', taskId)
    .where('asks', '=', asks)
    .where('is_held', '=', 1)
    .executeTakeFirst();
  if (!row) throw moveGivenUp();
}

/** All moves that writes may have to heed: those that have not switched, and those that did lately. `taskIds`: only these. */
export async function askedMoves(db: Db, now: number, taskIds?: readonly string[]): Promise<AskedMove[]> {
  if (taskIds?.length === 0) return [];
  let query = db
    .selectFrom('catalog_moves')
    .leftJoin('intents', (join) =>
      join.onRef('intents.task_id', '=', 'catalog_moves.task_id').on('intents.verb', '=', 'update'),
    )
    .select([
      'catalog_moves.task_id',
      'catalog_id',
      'intents.warehouse',
      'asks',
      'asked_by',
      'is_held',
      'switched_at',
      'progress',
    ])
    .where((e) => e.or([e('switched_at', 'is', null), e('switched_at', '>', now - switchKeptMs)]));
  if (taskIds) query = query.where('catalog_moves.task_id', 'in', taskIds);
  const rows = await query.execute();
  return rows.map((row) => ({
    taskId: row.task_id,
    catalogId: row.catalog_id,
    // The intent ends with the switch.
    warehouse: row.warehouse ?? (row.switched_at === null ? null : movedFrom(row.progress)),
    asks: row.asks,
    askedBy: row.asked_by,
    isHeld: row.is_held === 1,
    isSwitched: row.switched_at !== null,
  }));
}

/** As a move that has switched has stored it (moves/move_plan.ts). */
function movedFrom(progress: string): string | null {
  const { from } = JSON.parse(progress) as { readonly from?: string };
  return from ?? null;
}

/** Whether a catalog was or is being moved away from where it has this id. */
export async function isMoved(db: Db, catalogIds: readonly string[]): Promise<boolean> {
  const moves = db.selectFrom('catalog_moves').select('task_id').where('catalog_id', 'in', catalogIds);
  return (await moves.executeTakeFirst()) !== undefined;
}

/** Whether the process that moves the catalog has ended, or its lease has expired. */
export async function isAbandoned(db: Db, taskId: string, holder: LeaseHolder): Promise<boolean> {
  const running = await db
    .selectFrom('tasks')
    .select(['leased_by', 'lease_until'])
    .where('task_id', '=', taskId)
    .where(isRunning)
    .executeTakeFirst();
  return !running || running.leased_by === null || (running.lease_until ?? 0) <= holder.expiredUntil(Date.now());
}

export async function saveReport(
  db: Db,
  taskId: string,
  serverId: string,
  asks: number,
  report: string,
): Promise<void> {
  await db
    .insertInto('move_reports')
    .values({ task_id: taskId, server_id: serverId, asks, report })
    .onConflict((conflict) => conflict.columns(['task_id', 'server_id']).doUpdateSet({ asks, report }))
    .execute();
}

export interface StoredReport {
  readonly serverId: string;
  readonly asks: number;
  readonly report: string;
}

export async function reportsOf(db: Db, taskId: string): Promise<StoredReport[]> {
  const rows = await db.selectFrom('move_reports').selectAll().where('task_id', '=', taskId).execute();
  return rows.map(({ server_id: serverId, asks, report }) => ({ serverId, asks, report }));
}

/** The servers need not watch the catalog any more. */
export async function endAsking({ store, changes }: CatalogContext, taskId: string): Promise<void> {
  await store.transaction(async (tx) => {
    await tx.deleteFrom('move_reports').where('task_id', '=', taskId).execute();
    await tx.updateTable('catalog_moves').set({ asks: 0 }).where('task_id', '=', taskId).execute();
    changes.append(tx, { kind: 'move', taskId });
  });
}

/** The other servers that may write. One whose lease is over has stopped by itself (store/leases.ts). */
export async function otherLiveServers(db: Db, holder: LeaseHolder): Promise<string[]> {
  const since = holder.storeTime(Date.now()) - deadAfterMs;
  const rows = await db.selectFrom('servers').select('id').where('lease_until', '>', since).execute();
  return rows.map(({ id }) => id).filter((id) => id !== holder.serverId);
}
