// Rows that were written to staging tables, which nobody reads, and are published from there: all of them or none, and once for each step.
import { Failure, outcomeOf } from '../../../standard/failure.ts';
import type { CatalogRef } from '../../port/refs.ts';
import type { WarehouseContext } from '../context.ts';
import { publish, type StagedLoad } from '../load/staging.ts';
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
  } catch (error) {
    if (!first || !(await mayBeCompleted(context, catalog, first.step, error)))
      await context.endedStaging.drop(load.staging);
    throw error;
  }
  await context.endedStaging.drop(load.staging);
}

/** Whether somebody may find the step pending, and need the rows. `error`: with which its attempt has ended. */
async function mayBeCompleted(
  context: WarehouseContext,
  catalog: CatalogRef,
  step: string,
  error: unknown,
): Promise<boolean> {
  try {
    const found = (await context.steps.find(catalog, [step])).get(step);
    // A record that failed may be on a server that does not answer now.
    return found ? !found.isApplied : !(error instanceof Failure) || outcomeOf(error) === 'unknown';
  } catch {
    return true;
  }
}

/** Publishes the rows of an earlier attempt, which it may have done in part. */
export const completeInsert = ({ cluster }: WarehouseContext, { load, number }: StagedRows): Promise<void> =>
  publish(cluster, load, { number, isRepeated: true });
