// One attempt to load rows into a table by way of staging tables. It counts from the moment when it is recorded with its staged rows: from then on,
// whoever repeats its step publishes them.
import { randomUUID } from 'node:crypto';
import { Failure } from '../../../standard/failure.ts';
import type { FileLoad } from '../../port/load.ts';
import { serverFailure } from '../connection/clickhouse_error.ts';
import type { ClickHouseServer } from '../connection/server.ts';
import type { WarehouseContext } from '../context.ts';
import { namesOf } from '../names.ts';
import { publishStaged } from '../rows/staged_rows.ts';
import { completeBefore } from '../steps/left_writes.ts';
import { createStaging, loadNumber, type StagedLoad, sizeOfStaged, stagingName } from './staging.ts';

/** Where rows are staged. */
export interface StagingPlace {
  /** The table to insert into. */
  readonly into: string;
  /** The value of its column `loadColumn`. */
  readonly number: string;
  /** Another one, which is empty: what a statement that has failed did store, or still stores, stays behind. */
  readonly renewed: () => Promise<StagingPlace>;
}

export interface StagedLoadOptions {
  /** Of the step (steps/applied_steps.ts). */
  readonly attempt: string;
  readonly signal: AbortSignal;
  /** Inserts the rows, on the server. */
  readonly stage: (place: StagingPlace) => Promise<void>;
  /** Throws if so many rows are not what was to be loaded. */
  readonly check?: (rows: number) => void;
}

/** @returns the number of rows. Throws with the outcome `unknown` if they count, or may: a repetition of the step says so. */
export async function loadStaged(
  context: WarehouseContext,
  server: ClickHouseServer,
  { table, step, mode }: Pick<FileLoad, 'table' | 'step' | 'mode'>,
  { attempt, signal, stage, check }: StagedLoadOptions,
): Promise<number> {
  const { cluster } = context;
  const { database, table: distributed, localTable } = namesOf({ ...table, catalog: table.catalog.name });
  const newLoad = (): StagedLoad => ({
    staging: stagingName(step, randomUUID()),
    database,
    localTable,
    mode: mode === 'replace' ? 'replace' : 'append',
  });
  let load = newLoad();
  const number = loadNumber(step);
  const newPlace = async (): Promise<StagingPlace> => ({
    into: await createStaging(cluster, server, { load, table: distributed, number }, signal),
    number,
    renewed: async () => {
      await context.endedStaging.drop(load.staging);
      load = newLoad();
      return newPlace();
    },
  });
  let isRecorded = false;
  try {
    await stage(await newPlace());
    const { rowCount } = await sizeOfStaged(cluster, load, signal);
    check?.(rowCount);
    // What an interrupted write has begun is not to be completed when its rows have been replaced.
    if (mode === 'replace') await completeBefore(context, table.catalog, { place: { database, localTable } });
    if (signal.aborted) throw cancelledLoad();
    isRecorded = true;
    const steps = [{ step, rowCount }];
    await publishStaged(context, table.catalog, { load, number }, { steps, isUnnamed: false, attempt });
    return rowCount;
  } catch (error) {
    if (!isRecorded) {
      await context.endedStaging.drop(load.staging);
      throw error;
    }
    // The load counts, or may: its repetition says so.
    const { code = 'WAREHOUSE_FAILED', message = 'a server of the warehouse was lost' } =
      serverFailure(error) instanceof Failure ? (serverFailure(error) as Failure) : {};
    throw new Failure(code, message, {}, { cause: error as Error, outcome: 'unknown' });
  }
}

export const cancelledLoad = (): Failure =>
  new Failure('STATEMENT_CANCELLED', 'the load was cancelled; nothing was loaded', {}, { outcome: 'notApplied' });
