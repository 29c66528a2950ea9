// UPDATE and DELETE: mutations of the local tables. Everything that could fail is computed before, because servers change the parts of a table
// one by one. A mutation has a mark by which a repetition of its step finds it.
import { createHash, randomUUID } from 'node:crypto';
import { Failure, withOutcome } from '../../../standard/failure.ts';
import { wasLost } from '../../engine_lost.ts';
import { requireTable } from '../cluster/missing_tables.ts';
import { ReadTracker } from '../cluster/read_tracker.ts';
import { ClickHouseError, serverFailure } from '../connection/clickhouse_error.ts';
import type { ClickHouseCluster, ClickHouseServer } from '../connection/server.ts';
import type { WarehouseContext } from '../context.ts';
import { namesOf } from '../names.ts';
import type { BoundWrite, WriteRun } from '../query/bound_statement.ts';
import { columnsBeforeAliases, readSettings } from '../query/statement_settings.ts';
import { isWaiting, serverCodeOf } from '../replication/server_errors.ts';
import { qualifiedName, quoteIdentifier, quoteLiteral } from '../sql/identifiers.ts';
import { withClaim } from '../steps/claim.ts';
import { WriteEnded } from '../steps/ended_write.ts';
import { recordedWrite, requireNewest, stepsOf } from '../steps/recorded_write.ts';
import { checkedConversion } from '../types/checked_conversion.ts';
import { mayBeNull } from '../types/type_mapping.ts';
import { toViolation } from './insert_block.ts';
import {
  endOf,
  isKnown,
  killMutation,
  MutationEnded,
  type MutationName,
  mayBeForgotten,
  waitForMutation,
  watchMutation,
} from './mutation_progress.ts';

type Mutation = WriteRun<Exclude<BoundWrite, { readonly kind: 'insert' }>>;

/** The payload of a pending step. */
export interface MarkedMutation extends MutationName {
  readonly table: string;
  readonly command: string;
  readonly parameters: Readonly<Record<string, string>>;
}

interface NewValue {
  readonly column: string;
  readonly sql: string;
  readonly isNullable: boolean;
}

/** How long the servers may take to rewrite the rows of a table. */
const mutationTimeoutMs = 6 * 3600 * 1000;
const callTimeoutMs = 10_000;
/** A statement that waits for a mutation says so of one that was killed, that has failed, and that others have yet to carry out. */
const unfinishedCode = 341;

/** @returns the number of rows that satisfied the condition. */
export async function mutate(context: WarehouseContext, work: Mutation): Promise<number> {
  const { catalog, database, table } = work.write.table;
  const names = namesOf({ catalog: catalog.name, database, table });
  const local = { database: names.database, localTable: names.localTable };
  let rowCount: number;
  let command: string;
  try {
    const types = await columnTypes(context, local, work.write);
    const values = await newValues(context, work, qualifiedName(names), types);
    rowCount = await checkedCount(context, work, qualifiedName(names), values);
    const condition = `(\n${work.write.where}\n)`;
    const assignments = values.map(({ column, sql }) => `${quoteIdentifier(column)} = ${sql}`).join(', ');
    command = work.write.kind === 'update' ? `UPDATE ${assignments} WHERE ${condition}` : `DELETE WHERE ${condition}`;
  } catch (error) {
    throw withOutcome(work.toFailure(toViolation(serverFailure(error), 'nothing was changed')), 'notApplied');
  }
  const step = work.takeStep();
  const { attempt = '' } = work;
  const recorded = stepsOf(context, step === undefined ? [] : [{ step, rowCount }], { rowCount, attempt });
  const mark = createHash('sha256')
    .update(recorded.steps[0]?.step ?? randomUUID())
    .digest('hex');
  const payload: MarkedMutation = {
    ...local,
    mark,
    table: qualifiedName({ database: local.database, table: local.localTable }),
    command,
    parameters: work.parameters,
  };
  if (rowCount > 0)
    await recordedWrite(context, catalog, { ...recorded, batch: mark, payload }, async () => {
      const watch = watchMutation(context.cluster, payload, work.progress);
      try {
        await runMutation(context, payload);
      } catch (error) {
        throw await endOfWrite(context, payload, error, work.toFailure);
      } finally {
        watch.stop();
      }
    });
  else if (step !== undefined) {
    // An earlier attempt may have changed the rows of this server, and not yet those of others.
    await requireNewest(context, catalog, [step], attempt);
    await context.steps.record(catalog, [{ step, state: 'applied', rowCount }]);
  }
  return rowCount;
}

/** Throws SQL_NOT_SUPPORTED if the place of a row depends on a column that is to be updated. */
async function columnTypes(
  { cluster }: WarehouseContext,
  { database, localTable }: { readonly database: string; readonly localTable: string },
  write: Mutation['write'],
): Promise<ReadonlyMap<string, string>> {
  const sql = `SELECT name, type, is_in_sorting_key OR is_in_partition_key AS isKey FROM system.columns
    WHERE database = ${quoteLiteral(database)} AND table = ${quoteLiteral(localTable)}`;
  const rows = await cluster.onAny(
    async (server) => {
      const found = await server.rows<{ name: string; type: string; isKey: number }>({ sql, timeoutMs: callTimeoutMs });
      if (found.length === 0) await requireTable(server, { database, table: localTable });
      return found;
    },
    { isWhole: true },
  );
  const updated = write.kind === 'update' ? write.set.map(({ column }) => column) : [];
  const key = rows.find(({ name, isKey }) => isKey === 1 && updated.includes(name));
  if (key)
    throw new Failure(
      'SQL_NOT_SUPPORTED',
      `the column "${key.name}" is part of the order or the partitions of the rows, and cannot be updated`,
    );
  return new Map(rows.map(({ name, type }) => [name, type]));
}

/** The new values, so that one that its column cannot hold is refused. */
async function newValues(
  context: WarehouseContext,
  { write, parameters, timeoutMs, signal }: Mutation,
  table: string,
  types: ReadonlyMap<string, string>,
): Promise<readonly NewValue[]> {
  if (write.kind === 'delete') return [];
  const values = write.set.map(({ value }, i) => `(\n${value}\n) AS v${i}`).join(', ');
  const described = await context.cluster.onAny((server) =>
    server.rows<{ type: string }>({
      sql: `DESCRIBE (SELECT ${values} FROM ${table})`,
      parameters,
      settings: { ...columnsBeforeAliases, describe_compact_output: 1 },
      timeoutMs,
      isOfCaller: true,
      signal,
    }),
  );
  return write.set.map(({ column, value }, i) => {
    const target = types.get(column) ?? '';
    const source = described[i]?.type ?? target;
    return { column, sql: checkedConversion(source, target, `(\n${value}\n)`, column), isNullable: mayBeNull(target) };
  });
}

/** Counts the rows, computes the new values of all of them, and refuses nulls. */
async function checkedCount(
  context: WarehouseContext,
  { write, reads, parameters, timeoutMs, signal }: Mutation,
  table: string,
  values: readonly NewValue[],
): Promise<number> {
  const computed = values.map(({ sql }, i) => `toString(countIf(NOT ignore(isNull(${sql})))) AS c${i}`);
  const nulls = values.map(({ sql, isNullable }, i) =>
    isNullable ? `'0' AS n${i}` : `toString(countIf(isNull(${sql}))) AS n${i}`,
  );
  const sql = `SELECT ${['toString(count()) AS n', ...computed, ...nulls].join(', ')} FROM ${table} WHERE (\n${write.where}\n)`;
  const call = { sql, parameters, timeoutMs, isOfCaller: true, signal };
  const [row] = await context.cluster.onAny((server) => {
    const reading = readSettings(context.cluster, server, reads);
    const settings = { ...reading, ...columnsBeforeAliases, readonly: 1 };
    return server.rows<Readonly<Record<string, string>>>({ ...call, settings });
  });
  values.forEach(({ column }, i) => {
    if (Number(row?.[`n${i}`] ?? 0) > 0)
      throw new Failure('CONSTRAINT_VIOLATED', `the column "${column}" is not nullable; nothing was changed`);
  });
  return Number(row?.n ?? 0);
}

/** On every server whose rows do not come from another one, unless it is there already. `atSeconds`: see `runOn`. */
async function runMutation({ cluster }: WarehouseContext, payload: MarkedMutation, atSeconds?: number): Promise<void> {
  if (cluster.isReplicated) return runReplicated(cluster, payload, atSeconds);
  const run = runOnce(payload, atSeconds);
  let ended: MutationEnded | undefined;
  const work = (server: ClickHouseServer) =>
    run(server).catch((error: unknown) => {
      if (!(error instanceof MutationEnded)) throw error;
      ended = error;
    });
  try {
    await cluster.onEach(work, { isBegunWork: atSeconds !== undefined });
  } catch (error) {
    throw ended ?? error;
  }
  if (ended) throw ended;
}

/** What an earlier attempt has left undone. `atSeconds`: when it was recorded. Throws WriteEnded. */
export async function completeMutation(
  context: WarehouseContext,
  payload: MarkedMutation,
  atSeconds: number,
): Promise<void> {
  try {
    await runMutation(context, payload, atSeconds);
  } catch (error) {
    if (error instanceof MutationEnded) throw endedMutation(context, payload, error, undefined);
    throw error;
  }
}

/** On one replica of each shard; the others that are available follow. One that is away follows before it counts again. */
async function runReplicated(cluster: ClickHouseCluster, payload: MarkedMutation, atSeconds?: number): Promise<void> {
  await allSettled(cluster.availableOfShards().map((replicas) => runOnShard(replicas, payload, atSeconds)));
  const counting = new Set(cluster.availableOfShards().flat());
  const failures: unknown[] = [];
  await cluster.takeOver(async (server) => {
    try {
      await waitForMutation(server, payload, mutationTimeoutMs);
    } catch (error) {
      // What a replica says that does not count yet, says nothing of the others.
      const isAway = wasLost(serverFailure(error)) || isWaiting(error);
      if (!counting.has(server) || (isAway && !(error instanceof MutationEnded))) throw error;
      failures.push(error);
    }
  });
  if (failures.length > 0) throw failures.find((failure) => failure instanceof MutationEnded) ?? failures[0];
}

/** By all processes on the same replica, as long as it is available. */
async function runOnShard(
  replicas: readonly ClickHouseServer[],
  payload: MarkedMutation,
  atSeconds: number | undefined,
): Promise<void> {
  const inOrder = [...replicas].sort((a, b) => (a.name < b.name ? -1 : 1));
  for (const [index, server] of inOrder.entries()) {
    const tracker = new ReadTracker(server);
    try {
      return await runOnce(payload, atSeconds)(tracker.server);
    } catch (error) {
      const failure = serverFailure(error);
      if (!(failure instanceof Failure) || !wasLost(failure) || index === inOrder.length - 1) throw failure;
      if (failure.outcome !== 'notApplied' && !tracker.hasOnlyRead) throw failure;
    }
  }
}

/** Throws only when all have ended: what still runs would belong to nobody. */
async function allSettled(works: readonly Promise<void>[]): Promise<void> {
  const failed = (await Promise.allSettled(works)).filter((result) => result.status === 'rejected');
  // One that has not come to its end is more than one that may.
  const worst = failed.find(({ reason }) => reason instanceof MutationEnded) ?? failed[0];
  if (worst) throw worst.reason;
}

const runOnce = (payload: MarkedMutation, atSeconds?: number) => (server: ClickHouseServer) =>
  withClaim(server, payload.mark, (claimed) => runOn(claimed, payload, atSeconds));

/** `atSeconds`: of an earlier attempt, when it was recorded. */
async function runOn(server: ClickHouseServer, payload: MarkedMutation, atSeconds?: number): Promise<void> {
  const { mark, table, command, parameters } = payload;
  if (await isKnown(server, payload)) return waitForMutation(server, payload, mutationTimeoutMs);
  if (atSeconds !== undefined && (await mayBeForgotten(server, payload, atSeconds)))
    throw new MutationEnded('the mutation may have been forgotten');
  try {
    await server.text({
      sql: `ALTER TABLE ${table} ${command} AND ${quoteLiteral(mark)} != ''`,
      parameters,
      // On this server: a replica that is away would make it fail where it must wait for all.
      settings: { mutations_sync: 1 },
      timeoutMs: mutationTimeoutMs,
    });
  } catch (error) {
    if (serverCodeOf(error) === unfinishedCode) throw (await endOf(server, payload)) ?? error;
    throw error;
  }
}

/** The error with which a write ends whose mutation does not come to its end, or is refused. */
async function endOfWrite(
  context: WarehouseContext,
  payload: MarkedMutation,
  error: unknown,
  toFailure: Mutation['toFailure'],
): Promise<unknown> {
  if (error instanceof MutationEnded)
    return endedMutation(context, payload, error, error.cause && toFailure(error.cause));
  const failure = serverFailure(error);
  if (!(failure instanceof ClickHouseError)) return failure;
  const shown = toFailure(failure);
  // Refused before it began; another server may have taken it.
  const isBegun = await context.cluster
    .onEach((server) => isKnown(server, payload), { withoutDisabled: true })
    .then((found) => found.includes(true))
    .catch(() => true);
  if (isBegun || !(shown instanceof Failure))
    return endedMutation(context, payload, new MutationEnded('the mutation was refused', { cause: failure }), shown);
  return new WriteEnded(shown, { state: 'refused', batch: payload.mark });
}

/**
 * A mutation that cannot be computed would be tried again for ever, and keep later ones waiting: it is killed. It is not begun again either,
 * because rows that it has changed would be changed twice.
 */
function endedMutation(
  { cluster }: WarehouseContext,
  payload: MarkedMutation,
  ended: MutationEnded,
  reason: unknown,
): WriteEnded {
  const why = reason instanceof Failure ? `: ${reason.message}` : '';
  const what =
    ended.cause === undefined ? 'was ended on the servers' : 'could not be computed for some rows and was ended';
  const failure = new Failure(
    'WAREHOUSE_FAILED',
    `the change ${what}; other rows may have been changed${why}`,
    {},
    { cause: ended, outcome: 'unknown' },
  );
  const kill = (server: ClickHouseServer) => killMutation(server, payload);
  const stop = () => cluster.onEach(kill, { isBegunWork: true, withoutDisabled: true });
  return new WriteEnded(failure, { state: 'failed', batch: payload.mark, stop });
}
