// Inserts of rows of requests, once for each step. The rows of a small insert are recorded with its step before they are inserted: a repetition
// may come alone, or in a batch with others, and then completes the insert that it finds.
import { createHash, randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { deserialize } from 'node:v8';
import { Failure, withOutcome } from '../../../standard/failure.ts';
import { isSmall } from '../../grouped_inserts.ts';
import type { EngineWarehouse } from '../../port/engine.ts';
import type { CatalogRef, TableRef } from '../../port/refs.ts';
import type { InsertStep, RowsBatch } from '../../port/rows.ts';
import { ClickHouseError, lateFailure, serverFailure } from '../connection/clickhouse_error.ts';
import type { WarehouseContext } from '../context.ts';
import { createStaging, loadNumber, type StagedLoad, sizeOfStaged, stagingName } from '../load/staging.ts';
import { namesOf } from '../names.ts';
import { isAbsent } from '../replication/server_errors.ts';
import { quoteIdentifier } from '../sql/identifiers.ts';
import { recordedWrite, stepsOf, type WriteSteps } from '../steps/recorded_write.ts';
import { readsFloatsExactly } from '../types/read_values.ts';
import { rowsText } from '../types/row_text.ts';
import { blockSettings } from './block_settings.ts';
import { haveComputedPlaces } from './computed_places.ts';
import { insertBlock, type RowsBlock, toViolation } from './insert_block.ts';
import { changedCodes, isCompleted, type StoredBlock } from './pending_steps.ts';
import { publishStaged } from './staged_rows.ts';

export const insertsOf = (context: WarehouseContext): Pick<EngineWarehouse, 'insertRows'> => ({
  insertRows: (table, stored, { steps = [], signal, definition }) =>
    context.run(signal, async (runSignal) => {
      const batch = 'file' in stored ? (deserialize(await readFile(stored.file)) as RowsBatch) : stored;
      if (batch.rowCount === 0) return 0;
      const block = blockOf(context, table, batch);
      if (runSignal.aborted) throw new Failure('STATEMENT_CANCELLED', 'the insert was cancelled; nothing was inserted');
      // From here on it is not cancelled: a part of the shards may have the rows.
      const names = steps.map(({ step }) => step);
      const attempt = names.length === 0 ? undefined : await context.steps.begin(table.catalog, names);
      const isPlaceComputed = haveComputedPlaces(context.cluster, definition, batch);
      // A server that is killed may have stored the rows of some partitions only.
      const isInParts = definition.partitionBy.length > 0 && (batch.rowCount > 1 || isPlaceComputed);
      const recorded = stepsOf(context, steps, { rowCount: batch.rowCount, attempt, isInParts });
      const inserted =
        recorded.steps.length > 0
          ? insertOnce(context, table.catalog, block, { batch, recorded, isPlaceComputed })
          : insertBlock(context, { ...block, token: randomUUID() });
      await inserted.catch((error: unknown) => {
        throw isChangedMeanwhile(error) ? changedMeanwhile(context, error) : error;
      });
      context.changed.add({ catalog: table.catalog.name, database: table.database, table: table.table });
      return batch.rowCount;
    }),
});

/** The table has been dropped, renamed or altered since the rows were read, which fitted it. */
const isChangedMeanwhile = (error: unknown): error is ClickHouseError =>
  error instanceof ClickHouseError && (isAbsent(error) || changedCodes.has(error.code));

function changedMeanwhile({ cluster }: WarehouseContext, cause: ClickHouseError): Failure {
  const outcome = cluster.writesMany ? 'unknown' : 'notApplied';
  return new Failure('CHANGE_IN_PROGRESS', 'the table is being changed; retry later', {}, { cause, outcome });
}

type Block = Omit<RowsBlock, 'token'>;

interface Insert {
  readonly batch: RowsBatch;
  readonly recorded: WriteSteps;
  /** See `haveComputedPlaces`. */
  readonly isPlaceComputed: boolean;
}

function blockOf({ cluster }: WarehouseContext, { catalog, database, table }: TableRef, batch: RowsBatch): Block {
  const exactFloats = cluster.members().every(({ server }) => readsFloatsExactly(server.version));
  return {
    names: namesOf({ catalog: catalog.name, database, table }),
    columns: batch.columns.map(({ name }) => name),
    rowCount: batch.rowCount,
    ...rowsText(batch, { exactFloats }),
  };
}

async function insertOnce(
  context: WarehouseContext,
  catalog: CatalogRef,
  block: Block,
  { batch, recorded, isPlaceComputed }: Insert,
): Promise<void> {
  const { steps } = recorded;
  const found = await context.steps.find(
    catalog,
    steps.map(({ step }) => step),
  );
  let completed = 0;
  for (const step of found.values()) if (await isCompleted(context, catalog, step, recorded.attempt)) completed++;
  if (completed > 0) {
    const keyedRows = steps.reduce((sum, { rowCount }) => sum + rowCount, 0);
    if (completed < steps.length || keyedRows !== batch.rowCount)
      throw new Failure('CHANGE_IN_PROGRESS', 'some of the inserts were already completed');
    return;
  }
  const token = tokenOf(steps);
  if (isSmall(batch) && !isPlaceComputed && !(await mayPickOtherTable(context, block))) {
    const payload: StoredBlock = { ...block, data: Buffer.from(block.data).toString('base64') };
    const write = { ...recorded, batch: token, payload };
    return recordedWrite(context, catalog, write, () => insertBlock(context, { ...block, token }, { catalog, steps }));
  }
  return insertStaged(context, catalog, block, recorded);
}

/** See `Cluster.mayPickOtherTable`. Nothing is inserted yet. */
async function mayPickOtherTable({ cluster }: WarehouseContext, { names }: Block): Promise<boolean> {
  try {
    return await cluster.mayPickOtherTable(names);
  } catch (error) {
    throw withOutcome(serverFailure(error), 'notApplied');
  }
}

/**
 * Too many rows for a record, rows whose places are computed once, or that a server which does not count could be given for another table: they are
 * staged, so that none of the servers has them before all of them can be given them, and so that their record can name them. Servers that do not
 * count have no staging table. A server remembers the token of an insert for a while, and another table than the one that it was for never knew it.
 */
async function insertStaged(
  context: WarehouseContext,
  catalog: CatalogRef,
  { names, columns, rowCount, data, format, reading }: Block,
  recorded: WriteSteps,
): Promise<void> {
  const { cluster, spec } = context;
  const [attempt, token] = [randomUUID(), tokenOf(recorded.steps)];
  const [staging, number] = [stagingName(token, attempt), loadNumber(token)];
  const load: StagedLoad = { staging, database: names.database, localTable: names.localTable, mode: 'append' };
  const timeoutMs = spec.statementTimeoutSeconds * 1000;
  const signal = AbortSignal.timeout(timeoutMs);
  try {
    await cluster.onAny(async (server) => {
      const into = await createStaging(cluster, server, { load, table: names.table, number }, signal);
      const sql = `INSERT INTO ${into} (${columns.map(quoteIdentifier).join(', ')}) ${reading ?? ''} FORMAT ${format}`;
      const settings = blockSettings(token);
      await server.text({ sql, data, settings, timeoutMs, signal });
    });
    const stored = await sizeOfStaged(cluster, load, signal);
    if (stored.rowCount !== rowCount)
      throw new Failure('WAREHOUSE_FAILED', 'a server of the warehouse has not stored all rows; nothing was inserted');
  } catch (error) {
    // Nobody has cancelled it.
    const failure = signal.aborted ? lateFailure(timeoutMs) : toViolation(serverFailure(error), 'nothing was inserted');
    await context.endedStaging.drop(staging);
    throw withOutcome(failure, 'notApplied');
  }
  await publishStaged(context, catalog, { load, number }, recorded);
}

const tokenOf = (steps: readonly InsertStep[]): string =>
  createHash('sha256')
    .update(JSON.stringify(steps.map(({ step }) => step)))
    .digest('hex');
