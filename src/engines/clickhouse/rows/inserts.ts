// Inserts of rows of requests, once for each step. The rows of a small insert are recorded with its step before they are inserted: a repetition
// may come alone, or in a batch with others, and then completes the insert that it finds.
import { createHash, randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { deserialize } from 'node:v8';
import { Failure } from '../../../standard/failure.ts';
import type { CatalogRef, EngineWarehouse, InsertStep, RowsBatch, TableRef } from '../../engine.ts';
import { isSmall } from '../../grouped_inserts.ts';
import type { WarehouseContext } from '../context.ts';
import { namesOf } from '../names.ts';
import { rowsText } from '../types/row_text.ts';
import { insertBlock, type RowsBlock } from './insert_block.ts';
import { completeBegun, type StoredBlock } from './pending_steps.ts';

export const insertsOf = (context: WarehouseContext): Pick<EngineWarehouse, 'insertRows'> => ({
  insertRows: (table, stored, { steps = [], signal }) =>
    context.run(signal, async (runSignal) => {
      const batch = 'file' in stored ? (deserialize(await readFile(stored.file)) as RowsBatch) : stored;
      if (batch.rowCount === 0) return 0;
      const block = blockOf(table, batch);
      if (runSignal.aborted) throw new Failure('STATEMENT_CANCELLED', 'the insert was cancelled; nothing was inserted');
      // From here on it is not cancelled: a part of the shards may have the rows.
      if (steps.length === 0) await insertBlock(context, { ...block, token: randomUUID() });
      else await insertOnce(context, table.catalog, block, batch, steps);
      context.changed.add({ catalog: table.catalog.name, database: table.database, table: table.table });
      return batch.rowCount;
    }),
});

type Block = Omit<RowsBlock, 'token'>;

function blockOf({ catalog, database, table }: TableRef, batch: RowsBatch): Block {
  return {
    names: namesOf({ catalog: catalog.name, database, table }),
    columns: batch.columns.map(({ name }) => name),
    rowCount: batch.rowCount,
    ...rowsText(batch),
  };
}

async function insertOnce(
  context: WarehouseContext,
  catalog: CatalogRef,
  block: Block,
  batch: RowsBatch,
  steps: readonly InsertStep[],
): Promise<void> {
  const found = await context.steps.find(
    catalog,
    steps.map(({ step }) => step),
  );
  if (found.size > 0) {
    const pending = new Set([...found.values()].flatMap(({ batch: id }) => id ?? []));
    for (const id of pending) await completeBegun(context, catalog, id);
    const keyedRows = steps.reduce((sum, { rowCount }) => sum + rowCount, 0);
    if (found.size < steps.length || keyedRows !== batch.rowCount)
      throw new Failure('CHANGE_IN_PROGRESS', 'some of the inserts were already completed');
    return;
  }
  const token = tokenOf(steps);
  if (isSmall(batch)) {
    const data = Buffer.from(block.data).toString('base64');
    const payload = JSON.stringify({ ...block, data } satisfies StoredBlock);
    await context.steps.record(
      catalog,
      steps.map(({ step, rowCount }, index) => ({
        step,
        rowCount,
        state: 'pending',
        batch: token,
        payload: index === 0 ? payload : '',
      })),
    );
  }
  await insertBlock(context, { ...block, token });
  await recordApplied(context, catalog, steps);
}

const tokenOf = (steps: readonly InsertStep[]): string =>
  createHash('sha256')
    .update(JSON.stringify(steps.map(({ step }) => step)))
    .digest('hex');

/** That the rows are stored is known for longer than the servers remember their token. */
async function recordApplied(
  context: WarehouseContext,
  catalog: CatalogRef,
  steps: readonly InsertStep[],
): Promise<void> {
  await context.steps.record(
    catalog,
    steps.map(({ step, rowCount }) => ({ step, rowCount, state: 'applied' })),
  );
}
