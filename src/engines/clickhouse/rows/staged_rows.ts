// Rows that were written to staging tables, which nobody reads, and are published from there: all of them or none, and once for each step.
import type { CatalogRef } from '../../port/refs.ts';
import type { WarehouseContext } from '../context.ts';
import { dropStaging, publish, type StagedLoad } from '../load/staging.ts';
import { recordedWrite, type WriteSteps } from '../steps/recorded_write.ts';

/** The payload of a pending step. */
export interface StagedRows {
  readonly load: StagedLoad;
  readonly number: string;
}

/** Publishes what this attempt has staged, and removes the staging tables. */
export async function publishStaged(
  context: WarehouseContext,
  catalog: CatalogRef,
  payload: StagedRows,
  recorded: WriteSteps,
): Promise<void> {
  const { cluster } = context;
  const { load, number } = payload;
  const [first] = recorded.steps;
  try {
    await recordedWrite(context, catalog, { ...recorded, batch: load.staging, payload }, () =>
      publish(cluster, load, { number, isRepeated: false }),
    );
  } finally {
    // The rows of a step that is pending are needed until it is applied.
    if (!first || (await isApplied(context, catalog, first.step)))
      await dropStaging(cluster, load.staging).catch(() => undefined);
  }
}

const isApplied = async (context: WarehouseContext, catalog: CatalogRef, step: string): Promise<boolean> =>
  context.steps.find(catalog, [step]).then(
    (found) => found.get(step)?.isApplied ?? true,
    () => false,
  );

/** Publishes the rows of an earlier attempt, which it may have done in part. */
export const completeInsert = ({ cluster }: WarehouseContext, { load, number }: StagedRows): Promise<void> =>
  publish(cluster, load, { number, isRepeated: true });
