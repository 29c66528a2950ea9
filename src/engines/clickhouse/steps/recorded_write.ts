// A write that is recorded before it changes anything, so that whoever finds the record can complete it.
import { randomUUID } from 'node:crypto';
import { Failure, outcomeOf, withOutcome } from '../../../standard/failure.ts';
import type { CatalogRef } from '../../port/refs.ts';
import type { InsertStep } from '../../port/rows.ts';
import { serverFailure } from '../connection/clickhouse_error.ts';
import type { WarehouseContext } from '../context.ts';
import { endWrite, WriteEnded } from './ended_write.ts';

export interface RecordedWrite {
  readonly steps: readonly InsertStep[];
  /** The name of the record. */
  readonly batch: string;
  readonly payload: object;
  /** The attempt of the steps that this is (`AppliedSteps.begin`). Empty: nobody has begun them before. Undefined: there are none. */
  readonly attempt: string | undefined;
  /** Nobody repeats the step. */
  readonly isUnnamed: boolean;
}

export type WriteSteps = Pick<RecordedWrite, 'steps' | 'isUnnamed' | 'attempt'>;

interface WriteFacts {
  readonly rowCount: number;
  /** See `RecordedWrite`. */
  readonly attempt: string | undefined;
  /** A server is changed by several statements. */
  readonly isInParts?: boolean;
}

/**
 * The steps of a write: those of the caller, or where a server may miss what the others get, or get a part only, one by which the write is completed
 * although nobody repeats it.
 */
export function stepsOf(
  { cluster }: WarehouseContext,
  steps: readonly InsertStep[],
  { rowCount, attempt, isInParts = false }: WriteFacts,
): WriteSteps {
  if (steps.length > 0 || !(cluster.writesMany || isInParts)) return { steps, isUnnamed: false, attempt };
  return { steps: [{ step: randomUUID(), rowCount }], isUnnamed: true, attempt: '' };
}

/** Throws with the outcome `unknown`: what is recorded may be completed by others. */
export async function requireNewest(
  { steps }: WarehouseContext,
  catalog: CatalogRef,
  names: readonly string[],
  attempt: string,
): Promise<void> {
  try {
    await steps.requireNewest(catalog, names, attempt);
  } catch (cause) {
    if (cause instanceof Failure && outcomeOf(cause) === 'unknown') throw cause;
    const message = 'a server of the warehouse failed while the write was recorded';
    throw new Failure('WAREHOUSE_FAILED', message, {}, { cause, outcome: 'unknown' });
  }
}

/** Failures of `work` that mean that no server has done anything. */
const undoneCodes: ReadonlySet<string> = new Set(['NOT_ENOUGH_BACKENDS', 'CONSTRAINT_VIOLATED']);

/** Runs the work between its records. Without steps there are none. */
export async function recordedWrite(
  context: WarehouseContext,
  catalog: CatalogRef,
  { steps, batch, payload, isUnnamed, attempt }: RecordedWrite,
  work: () => Promise<void>,
): Promise<void> {
  const record = (state: 'pending' | 'refused' | 'undone' | 'applied') =>
    context.steps.record(
      catalog,
      steps.map((step, index) => ({
        ...step,
        state,
        ...(state === 'pending' || state === 'refused' ? { batch, attempt } : {}),
        payload: state === 'pending' && index === 0 ? JSON.stringify(payload) : '',
      })),
    );
  // What is recorded may be done later, although it was refused.
  context.cluster.requireAllCopies();
  await record('pending');
  const names = steps.map(({ step }) => step);
  if (attempt !== undefined && names.length > 0) await requireNewest(context, catalog, names, attempt);
  try {
    await work();
  } catch (error) {
    if (error instanceof WriteEnded) {
      await endWrite(context, catalog, { steps, attempt }, error);
      throw error.failure;
    }
    const isRefused = error instanceof Failure && undoneCodes.has(error.code) && outcomeOf(error) !== 'unknown';
    // Nobody does it later, except who repeats a step that has a name.
    const isRecorded =
      isRefused &&
      (await record(isUnnamed ? 'undone' : 'refused').then(
        () => true,
        () => false,
      ));
    // What is still recorded may be completed by others.
    throw isRecorded ? error : withOutcome(error, 'unknown');
  }
  // The work is done, whatever failed here: a request that failed would do it again.
  await record('applied').catch((error: unknown) => {
    throw withOutcome(serverFailure(error), 'unknown');
  });
}
