// Steps of earlier attempts that were recorded before their work was done: whoever finds one completes it, by what was recorded.
import { Failure } from '../../../standard/failure.ts';
import type { CatalogRef } from '../../port/refs.ts';
import { ClickHouseError, serverFailure } from '../connection/clickhouse_error.ts';
import type { ClickHouseServer } from '../connection/server.ts';
import type { WarehouseContext } from '../context.ts';
import { isAbsent } from '../replication/server_errors.ts';
import { quoteLiteral } from '../sql/identifiers.ts';
import type { FoundStep, PendingBatch } from '../steps/applied_steps.ts';
import { endWrite, WriteEnded } from '../steps/ended_write.ts';
import { insertBlock, type RowsBlock } from './insert_block.ts';
import { completeMutation, type MarkedMutation } from './mutations.ts';
import { completeInsert, type StagedRows } from './staged_rows.ts';

/** The rows of a small insert. */
export type StoredBlock = Omit<RowsBlock, 'token' | 'data'> & {
  /** In base64. */
  readonly data: string;
};

const callTimeoutMs = 10_000;
/** Of `completeBegun`: the servers would refuse the work again. */
export const refusals: ReadonlySet<string> = new Set(['OBJECT_NOT_FOUND', 'CONSTRAINT_VIOLATED']);
/** What is not in the table, or is of another type there. */
export const changedCodes: ReadonlySet<number> = new Set([10, 16, 47, 53, 122]);

/**
 * @returns the number of rows; undefined if no attempt has come so far that its effects could not be undone. Throws OBJECT_NOT_FOUND and
 * CONSTRAINT_VIOLATED like `completeBegun`.
 */
export async function completeEarlier(
  context: WarehouseContext,
  catalog: CatalogRef,
  step: string,
  attempt?: string,
): Promise<number | undefined> {
  const found = (await context.steps.find(catalog, [step])).get(step);
  return found && (await isCompleted(context, catalog, found, attempt)) ? found.rowCount : undefined;
}

/** Whether a step that was found is applied now. `attempt`: of whoever repeats it. Throws like `completeAsked`. */
export async function isCompleted(
  context: WarehouseContext,
  catalog: CatalogRef,
  found: FoundStep,
  attempt?: string,
): Promise<boolean> {
  return (
    found.isApplied ||
    (found.batch !== undefined && (await completeAsked(context, catalog, found.batch, attempt)) === 'done')
  );
}

/** Like `completeEarlier`; undefined if the work can no longer be done: whoever repeats the request learns why. */
export async function rowsOfEarlier(
  context: WarehouseContext,
  catalog: CatalogRef,
  step: string,
): Promise<number | undefined> {
  try {
    return await completeEarlier(context, catalog, step);
  } catch (error) {
    if (error instanceof Failure && refusals.has(error.code)) return undefined;
    throw error;
  }
}

/**
 * Completes what an earlier attempt of a request began. Throws OBJECT_NOT_FOUND if its table was dropped or renamed since, and CONSTRAINT_VIOLATED
 * if it has no such columns any more. Throws WriteEnded, which it has recorded, if nobody can complete it.
 */
export async function completeBegun(
  context: WarehouseContext,
  catalog: CatalogRef,
  batch: string,
  attempt?: string,
): Promise<Completion> {
  try {
    return await completeBatch(context, catalog, batch, attempt);
  } catch (error) {
    if (error instanceof WriteEnded) {
      await endWrite(context, catalog, await workOf(context, catalog, batch), error);
      throw error;
    }
    const refused = serverFailure(error);
    if (!(refused instanceof ClickHouseError)) throw refused;
    if (isAbsent(refused) && (await isGone(context, await workOf(context, catalog, batch)))) {
      const message = 'the table of an earlier attempt of the request no longer exists';
      throw new Failure('OBJECT_NOT_FOUND', message, { category: 'tables' }, { cause: refused });
    }
    if (isAbsent(refused))
      throw new Failure('CHANGE_IN_PROGRESS', 'a server does not have the table yet', {}, { cause: refused });
    if (!changedCodes.has(refused.code)) throw refused;
    const message = 'the columns of the table have changed since an earlier attempt of the request';
    throw new Failure('CONSTRAINT_VIOLATED', message, {}, { cause: refused });
  }
}

/** Like `completeBegun`, for who repeats a request: throws the failure of a write that has ended. */
async function completeAsked(
  context: WarehouseContext,
  catalog: CatalogRef,
  batch: string,
  attempt: string | undefined,
): Promise<Completion> {
  try {
    return await completeBegun(context, catalog, batch, attempt);
  } catch (error) {
    throw error instanceof WriteEnded ? error.failure : error;
  }
}

/** Whether no server has the table: one that has lost its disk lacks it too. */
async function isGone({ cluster }: WarehouseContext, { work }: PendingWork): Promise<boolean> {
  const { database, localTable } = 'mark' in work ? work : 'data' in work ? work.names : work.load;
  const sql = `SELECT 1 AS found FROM system.tables WHERE database = ${quoteLiteral(database)} AND name = ${quoteLiteral(localTable)}`;
  const ask = (server: ClickHouseServer) => server.rows({ sql, timeoutMs: callTimeoutMs });
  const found = await cluster.onEach(ask, { isBegunWork: true });
  return found.every((rows) => rows.length === 0);
}

/**
 * `void`: some steps of the batch were applied in another one, so that nothing of it was done, and never will be. `superseded`: of some of its
 * steps, another batch counts.
 */
type Completion = 'done' | 'void' | 'superseded';

interface PendingWork extends PendingBatch {
  readonly work: StagedRows | MarkedMutation | StoredBlock;
}

async function workOf({ steps }: WarehouseContext, catalog: CatalogRef, batch: string): Promise<PendingWork> {
  const found = await steps.batch(catalog, batch);
  return { ...found, work: JSON.parse(found.payload) };
}

/** All steps that were recorded together. The servers do nothing that they have done already. @returns as `completeBegun`. */
async function completeBatch(
  context: WarehouseContext,
  catalog: CatalogRef,
  batch: string,
  continued: string | undefined,
): Promise<Completion> {
  const { work, payload, steps, atSeconds } = await workOf(context, catalog, batch);
  const names = steps.map(({ step }) => step);
  const attempt = await context.steps.begin(catalog, names, continued);
  const found = [...(await context.steps.find(catalog, names)).values()];
  const applied = found.filter(({ isApplied }) => isApplied);
  // Done again, it could bring back rows that were deleted since then, of which the servers have forgotten the token.
  if (applied.length === steps.length) return 'done';
  // The record is on so few servers that the repetition of a request did not find it, and was inserted with others or alone.
  if (applied.length > 0) return 'void';
  if (found.some((step) => step.batch !== batch)) return 'superseded';
  // Its age stays: by that, servers may have forgotten what they did of it, and nobody completes it any more some day.
  const own = { state: 'pending', batch, attempt, atSeconds } as const;
  await context.steps.record(
    catalog,
    steps.map((step, index) => ({ ...step, ...own, payload: index === 0 ? payload : '' })),
  );
  await context.steps.requireNewest(catalog, names, attempt);
  if ('mark' in work) await completeMutation(context, work, atSeconds);
  else if ('data' in work)
    await insertBlock(context, { ...work, data: Buffer.from(work.data, 'base64'), token: batch }, { catalog, steps });
  else await completeInsert(context, work);
  await context.steps.record(
    catalog,
    steps.map(({ step, rowCount }) => ({ step, rowCount, state: 'applied' })),
  );
  // Not before: whoever finds the steps pending needs the rows.
  if ('load' in work) await context.endedStaging.drop(work.load.staging);
  return 'done';
}

/** Only who repeats its steps tries the batch again. */
export async function refuse(context: WarehouseContext, catalog: CatalogRef, batch: string): Promise<void> {
  const { steps, attempt } = await context.steps.batch(catalog, batch);
  await context.steps.record(
    catalog,
    steps.map(({ step, rowCount }) => ({ step, rowCount, state: 'refused', batch, attempt })),
  );
}
