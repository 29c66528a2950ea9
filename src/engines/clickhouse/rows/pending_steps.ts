// Steps of earlier attempts that were recorded before their work was done: whoever finds one completes it, by what was recorded.
import type { CatalogRef } from '../../engine.ts';
import type { WarehouseContext } from '../context.ts';
import { insertBlock, type RowsBlock } from './insert_block.ts';
import { completeInsert, type StagedRows } from './insert_select.ts';
import { type MarkedMutation, runMutation } from './mutations.ts';

/** The rows of a small insert. */
export type StoredBlock = Omit<RowsBlock, 'token' | 'data'> & {
  /** In base64. */
  readonly data: string;
};

/** @returns the number of rows; undefined if no attempt has come so far that its effects could not be undone. */
export async function completeEarlier(
  context: WarehouseContext,
  catalog: CatalogRef,
  step: string,
): Promise<number | undefined> {
  const found = (await context.steps.find(catalog, [step])).get(step);
  if (found && !found.isApplied && found.batch !== undefined) await completeBatch(context, catalog, found.batch);
  return found?.rowCount;
}

/** All steps that were recorded together. The servers do nothing that they have done already. */
export async function completeBatch(context: WarehouseContext, catalog: CatalogRef, batch: string): Promise<void> {
  const { payload, steps } = await context.steps.batch(catalog, batch);
  const work = JSON.parse(payload) as StagedRows | MarkedMutation | StoredBlock;
  if ('mark' in work) await runMutation(context, work);
  else if ('data' in work)
    await insertBlock(context, { ...work, data: Buffer.from(work.data, 'base64'), token: batch });
  else await completeInsert(context, work);
  await context.steps.record(
    catalog,
    steps.map(({ step, rowCount }) => ({ step, rowCount, state: 'applied' })),
  );
}
