// What the server that moves a catalog, or takes a snapshot of it for a backup, asks of the other servers that write to it, and what they
// report, as rows of the store. A question may hold the writes to the catalog: from its report on, a server begins none until it reads that
// the hold is over or the move has switched. A snapshot has a row like that of a move, which moves the catalog to itself.
import type { HoldKind } from '../../engines/copies/catalog_writes.ts';
import { Failure } from '../../standard/failure.ts';
import { isRunning } from '../../store/index_conditions.ts';
import type { LeaseHolder } from '../../store/leases.ts';
import type { Store } from '../../store/store.ts';
import type { CatalogContext, Tx } from '../changes/change_context.ts';

type Db = Store['db'];

/** A move or a snapshot, as the servers that write to its catalog see it. */
export interface AskedMove {
  readonly taskId: string;
  readonly kind: HoldKind;
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

const holdLost = (): Failure =>
  new Failure('CHANGE_IN_PROGRESS', 'writes to the catalog have continued before its snapshot was taken');

/** From now on the other servers can be asked about the catalog, for a snapshot by this task in this process. Idempotent. */
export async function beginSnapshotHold(
  { store, changes, leases }: CatalogContext,
  { taskId, catalogId, warehouse }: { readonly taskId: string; readonly catalogId: string; readonly warehouse: string },
): Promise<void> {
  await store.transaction(async (tx) => {
    // An earlier attempt may have held the catalog by the id that it had before it was moved.
    const ids = { catalog_id: catalogId, target_id: catalogId };
    const asked = { ...ids, progress: JSON.stringify({ from: warehouse }), asked_by: leases.holderId, is_held: 0 };
    await tx
      .insertInto('catalog_moves')
      .values({ task_id: taskId, switched_at: null, ...asked })
      .onConflict((conflict) => conflict.column('task_id').doUpdateSet(asked))
      .execute();
    changes.append(tx, { kind: 'move', taskId });
  });
}

/** The hold of a snapshot is over, and nobody will be asked any more. `isOwn`: unless another process has the task now. Idempotent. */
export async function endSnapshotHold(
  { store, changes, leases }: CatalogContext,
  taskId: string,
  isOwn: boolean,
): Promise<void> {
  await store.transaction(async (tx) => {
    const holds = tx.deleteFrom('catalog_moves').where('task_id', '=', taskId).whereRef('target_id', '=', 'catalog_id');
    const ended = isOwn ? holds.where('asked_by', '=', leases.holderId) : holds;
    const { numDeletedRows } = await ended.executeTakeFirst();
    if (numDeletedRows === 0n) return;
    await tx.deleteFrom('move_reports').where('task_id', '=', taskId).execute();
    changes.append(tx, { kind: 'move', taskId });
  });
}

/** Throws CHANGE_IN_PROGRESS if writes have continued since the hold of this question was reported. */
export async function requireSnapshotHold({ store }: CatalogContext, taskId: string, asks: number): Promise<void> {
  if (!(await isHeldBy(store.db, taskId, asks))) throw holdLost();
}

/** Asks all servers for a new report. Throws TASK_INTERRUPTED if another process has the move. @returns the number of the question. */
export async function askServers(context: CatalogContext, taskId: string, isHeld: boolean): Promise<number> {
  const { store, leases, changes } = context;
  return store.transaction(async (tx) => {
    const row = await tx
      .updateTable('catalog_moves')
      .set((e) => ({ asks: e('asks', '+', 1), asked_by: leases.holderId, is_held: isHeld ? 1 : 0 }))
      .where('task_id', '=', taskId)
      .returning(['asks', 'switched_at', 'catalog_id', 'target_id'])
      .executeTakeFirst();
    if (!row) throw moveGivenUp();
    if (kindOf(row) === 'snapshot') {
      if (!(await isOwnTask(tx, taskId, leases.holderId))) throw holdLost();
    } else if (row.switched_at === null && !(await isOwn(tx, taskId, leases.holderId))) throw moveGivenUp();
    changes.append(tx, { kind: 'move', taskId });
    return row.asks;
  });
}

async function isOwn(db: Pick<Db, 'selectFrom'>, taskId: string, holderId: string): Promise<boolean> {
  const intents = await db.selectFrom('intents').select('leased_by').where('task_id', '=', taskId).execute();
  return intents.length === 2 && intents.every(({ leased_by }) => leased_by === holderId);
}

/** Throws TASK_INTERRUPTED if the move has switched, was given up, or another process has it. */
export async function confirmMove({ store, leases }: CatalogContext, taskId: string): Promise<void> {
  const { db } = store;
  const row = await db
    .selectFrom('catalog_moves')
    .select('task_id')
    .where('task_id', '=', taskId)
    .where('switched_at', 'is', null)
    .executeTakeFirst();
  if (!row || !(await isOwn(db, taskId, leases.holderId))) throw moveGivenUp();
}

async function isOwnTask(tx: Tx, taskId: string, holderId: string): Promise<boolean> {
  const own = tx.selectFrom('tasks').select('task_id').where('task_id', '=', taskId).where('leased_by', '=', holderId);
  return (await own.executeTakeFirst()) !== undefined;
}

const kindOf = (row: { readonly catalog_id: string; readonly target_id: string }): HoldKind =>
  row.catalog_id === row.target_id ? 'snapshot' : 'move';

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
  if (!(await isHeldBy(tx, taskId, asks))) throw moveGivenUp();
}

async function isHeldBy(db: Pick<Db, 'selectFrom'>, taskId: string, asks: number): Promise<boolean> {
  const row = await db
    .selectFrom('catalog_moves')
    .select('asks')
    .where('task_id', '=', taskId)
    .where('asks', '=', asks)
    .where('is_held', '=', 1)
    .executeTakeFirst();
  return row !== undefined;
}

/** All moves and snapshots that writes may have to heed: those that have not switched, and those that did lately. `taskIds`: only these. */
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
      'target_id',
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
    kind: kindOf(row),
    catalogId: row.catalog_id,
    // The intent of a move ends with the switch.
    warehouse: row.warehouse ?? (row.switched_at === null && kindOf(row) === 'move' ? null : movedFrom(row.progress)),
    asks: row.asks,
    askedBy: row.asked_by,
    isHeld: row.is_held === 1,
    isSwitched: row.switched_at !== null,
  }));
}

/** As a snapshot has stored it, or a move that has switched (moves/move_plan.ts). */
function movedFrom(progress: string): string | null {
  const { from } = JSON.parse(progress) as { readonly from?: string };
  return from ?? null;
}

/** Whether a catalog was or is being moved away from where it has this id. */
export async function isMoved(db: Db, catalogIds: readonly string[]): Promise<boolean> {
  const moves = db
    .selectFrom('catalog_moves')
    .select('task_id')
    .where('catalog_id', 'in', catalogIds)
    .whereRef('target_id', '!=', 'catalog_id');
  return (await moves.executeTakeFirst()) !== undefined;
}

/** Whether the process that asked last has ended, its lease has expired, or another process has the task by now. */
export async function isAbandoned(
  db: Db,
  { taskId, askedBy }: Pick<AskedMove, 'taskId' | 'askedBy'>,
  holder: LeaseHolder,
): Promise<boolean> {
  const running = await db
    .selectFrom('tasks')
    .select(['leased_by', 'lease_until'])
    .where('task_id', '=', taskId)
    .where(isRunning)
    .executeTakeFirst();
  if (!running || running.leased_by === null || running.leased_by !== askedBy) return true;
  return (running.lease_until ?? 0) <= holder.expiredUntil(Date.now());
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
