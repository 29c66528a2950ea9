// Group commit: small inserts into one table that arrive while another is being committed become one transaction of the engine,
// with one flush of its log. Each insert has its own outcome: if the rows of one member are refused, the members are run again one
// by one. An insert that is aborted while it waits leaves the queue.
import { Failure, outcomeOf } from '../standard/failure.ts';
import { BatchQueue } from '../store/batch_queue.ts';
import { engineWith } from './derived_engine.ts';
import type { EngineWarehouse } from './port/engine.ts';
import type { TableRef } from './port/refs.ts';
import type { RowsBatch, StoredRows } from './port/rows.ts';

type InsertOptions = Parameters<EngineWarehouse['insertRows']>[2];

interface Insert {
  readonly table: TableRef;
  readonly batch: RowsBatch;
  readonly options: InsertOptions;
  readonly resolve: (rowCount: number) => void;
  readonly reject: (error: unknown) => void;
}

/** Larger inserts gain little from saving a flush, and would delay the other members of their group. */
const rowsMax = 100;
const charactersMax = 32 * 1024;
const groupMax = 64;

/** Whether an insert may share a transaction with others. The same insert is always, or never, small. */
export const isSmall = (batch: RowsBatch | StoredRows): batch is RowsBatch =>
  'json' in batch && batch.rowCount > 0 && batch.rowCount <= rowsMax && batch.json.length <= charactersMax;

/** Wraps an engine so that small inserts are grouped. */
export function withGroupedInserts(engine: EngineWarehouse): EngineWarehouse {
  const groups = new Map<string, BatchQueue<Insert>>();
  const groupsOf = (key: string) => {
    let known = groups.get(key);
    if (!known) {
      known = new BatchQueue(
        groupMax,
        (group) => insertGroup(engine, group),
        () => groups.delete(key),
      );
      groups.set(key, known);
    }
    return known;
  };
  const grouped: Pick<EngineWarehouse, 'insertRows'> = {
    insertRows(table, batch, options) {
      if (!isSmall(batch)) return engine.insertRows(table, batch, options);
      const { catalog, database, table: name } = table;
      const key = JSON.stringify([catalog.id, catalog.name, database, name, batch.columns]);
      return enqueue(groupsOf(key), { table, batch, options });
    },
  };
  return engineWith(engine, grouped);
}

/** Settles when the insert has been run, or when it is aborted while it waits. */
function enqueue(queue: BatchQueue<Insert>, request: Pick<Insert, 'table' | 'batch' | 'options'>): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  const insert = { ...request, resolve, reject };
  const { signal } = request.options;
  const leave = () => {
    if (queue.remove(insert)) reject(cancelled());
  };
  queue.add(insert);
  signal.addEventListener('abort', leave);
  if (signal.aborted) leave();
  return promise.finally(() => signal.removeEventListener('abort', leave));
}

const cancelled = () => new Failure('STATEMENT_CANCELLED', 'the insert was cancelled; nothing was inserted');

async function insertGroup(engine: EngineWarehouse, group: readonly Insert[]): Promise<void> {
  const [first] = group;
  if (!first) return;
  if (group.length === 1) return insertAlone(engine, first);
  const { signal, end } = abortedWithAll(group.map(({ options }) => options.signal));
  try {
    await engine.insertRows(first.table, merged(group.map(({ batch }) => batch)), {
      signal,
      definition: first.options.definition,
      steps: group.flatMap(({ options }) => options.steps ?? []),
    });
    for (const { batch, resolve } of group) resolve(batch.rowCount);
  } catch (error) {
    // Only running each member alone shows which of them caused the failure.
    if (mayBeOfOneMember(error)) await Promise.all(group.map((insert) => insertAlone(engine, insert)));
    else for (const { reject } of group) reject(error);
  } finally {
    end();
  }
}

/**
 * Whether nothing was inserted and other members may succeed: rows were refused, or some of the requests were applied before. A
 * busy warehouse refuses every member, and each would wait again.
 */
const mayBeOfOneMember = (error: unknown): boolean =>
  error instanceof Failure &&
  error.outcome !== 'unknown' &&
  (outcomeOf(error) === undefined || error.code === 'CHANGE_IN_PROGRESS');

async function insertAlone(engine: EngineWarehouse, { table, batch, options, resolve, reject }: Insert): Promise<void> {
  // It may have been aborted while its group ran.
  if (options.signal.aborted) return reject(cancelled());
  try {
    resolve(await engine.insertRows(table, batch, options));
  } catch (error) {
    reject(error);
  }
}

/** The rows of all batches, which have the same columns, in their order. */
export function merged(batches: readonly RowsBatch[]): RowsBatch {
  const omitted = new Map<number, number[]>();
  let rowCount = 0;
  for (const batch of batches) {
    for (const { column, rows } of batch.omitted ?? []) {
      const known = omitted.get(column) ?? [];
      for (const row of rows) known.push(row + rowCount);
      omitted.set(column, known);
    }
    rowCount += batch.rowCount;
  }
  return {
    columns: (batches[0] as RowsBatch).columns,
    json: `[${batches.map(({ json }) => json.slice(json.indexOf('[') + 1, json.lastIndexOf(']'))).join(',')}]`,
    rowCount,
    ...(omitted.size > 0 ? { omitted: [...omitted].map(([column, rows]) => ({ column, rows })) } : {}),
  };
}

/** Aborted when all signals are: as long as one caller waits, the group continues. */
function abortedWithAll(signals: readonly AbortSignal[]): { readonly signal: AbortSignal; readonly end: () => void } {
  const controller = new AbortController();
  const abortIfAll = () => {
    if (signals.every(({ aborted }) => aborted)) controller.abort();
  };
  for (const signal of signals) signal.addEventListener('abort', abortIfAll);
  abortIfAll();
  const end = () => {
    for (const signal of signals) signal.removeEventListener('abort', abortIfAll);
  };
  return { signal: controller.signal, end };
}
