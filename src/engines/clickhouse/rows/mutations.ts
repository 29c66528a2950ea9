// UPDATE and DELETE: mutations of the local tables. Everything that could fail is computed before, because servers change the parts of a table
// one by one. A mutation has a mark by which a repetition of its step finds it.
import { createHash, randomUUID } from 'node:crypto';
import { Failure, withOutcome } from '../../../standard/failure.ts';
import { wasLost } from '../../engine_lost.ts';
import { ReadTracker } from '../cluster/read_tracker.ts';
import { ClickHouseError, serverFailure } from '../connection/clickhouse_error.ts';
import type { ClickHouseCluster, ClickHouseServer } from '../connection/server.ts';
import type { WarehouseContext } from '../context.ts';
import { namesOf } from '../names.ts';
import type { BoundWrite } from '../query/bound_statement.ts';
import { callerSettings, columnsBeforeAliases } from '../query/statement_settings.ts';
import { hasMutationInKeeper, pathInKeeper } from '../replication/keeper.ts';
import { isWaiting } from '../replication/server_errors.ts';
import { qualifiedName, quoteIdentifier, quoteLiteral } from '../sql/identifiers.ts';
import { withClaim } from '../steps/claim.ts';
import { recordedWrite, stepsOf } from '../steps/recorded_write.ts';
import { checkedConversion } from '../types/checked_conversion.ts';
import { mayBeNull } from '../types/type_mapping.ts';
import { toViolation } from './insert_block.ts';

export type BoundMutation = Exclude<BoundWrite, { readonly kind: 'insert' }>;

export interface Mutation {
  readonly write: BoundMutation;
  readonly parameters: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  /** The step by which the rows are changed once; called before the first of them is. */
  readonly takeStep: () => string | undefined;
  readonly toFailure: (error: unknown) => unknown;
}

/** The payload of a pending step. */
export interface MarkedMutation {
  readonly mark: string;
  readonly table: string;
  readonly command: string;
  readonly parameters: Readonly<Record<string, string>>;
  readonly database: string;
  readonly localTable: string;
}

interface NewValue {
  readonly column: string;
  readonly sql: string;
  readonly isNullable: boolean;
}

/** How long the servers may take to rewrite the rows of a table. */
const mutationTimeoutMs = 6 * 3600 * 1000;
const callTimeoutMs = 10_000;

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
  const recorded = stepsOf(context, step === undefined ? [] : [{ step, rowCount }], rowCount);
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
      try {
        await runMutation(context, payload);
      } catch (error) {
        throw work.toFailure(serverFailure(error));
      }
    });
  else if (step !== undefined) await context.steps.record(catalog, [{ step, state: 'applied', rowCount }]);
  return rowCount;
}

/** Throws SQL_NOT_SUPPORTED if the place of a row depends on a column that is to be updated. */
async function columnTypes(
  { cluster }: WarehouseContext,
  { database, localTable }: { readonly database: string; readonly localTable: string },
  write: BoundMutation,
): Promise<ReadonlyMap<string, string>> {
  const sql = `SELECT name, type, is_in_sorting_key OR is_in_partition_key AS isKey FROM system.columns
    WHERE database = ${quoteLiteral(database)} AND table = ${quoteLiteral(localTable)}`;
  const rows = await cluster.onAny((server) =>
    server.rows<{ name: string; type: string; isKey: number }>({ sql, timeoutMs: callTimeoutMs }),
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
  { write, parameters, timeoutMs, signal }: Mutation,
  table: string,
  values: readonly NewValue[],
): Promise<number> {
  const computed = values.map(({ sql }, i) => `toString(countIf(NOT ignore(isNull(${sql})))) AS c${i}`);
  const nulls = values.map(({ sql, isNullable }, i) =>
    isNullable ? `'0' AS n${i}` : `toString(countIf(isNull(${sql}))) AS n${i}`,
  );
  const sql = `SELECT ${['toString(count()) AS n', ...computed, ...nulls].join(', ')} FROM ${table} WHERE (\n${write.where}\n)`;
  const settings = { ...callerSettings(context), ...columnsBeforeAliases, readonly: 1 };
  const [row] = await context.cluster.onAny((server) =>
    server.rows<Readonly<Record<string, string>>>({ sql, parameters, settings, timeoutMs, signal }),
  );
  values.forEach(({ column }, i) => {
    if (Number(row?.[`n${i}`] ?? 0) > 0)
      throw new Failure('CONSTRAINT_VIOLATED', `the column "${column}" is not nullable; nothing was changed`);
  });
  return Number(row?.n ?? 0);
}

/** On every server whose rows do not come from another one, unless it is there already. */
async function runMutation({ cluster }: WarehouseContext, payload: MarkedMutation): Promise<void> {
  if (cluster.isReplicated) await runReplicated(cluster, payload);
  else await cluster.onEach(runOnce(payload));
}

/** What an earlier attempt has left undone. */
export async function completeMutation({ cluster }: WarehouseContext, payload: MarkedMutation): Promise<void> {
  if (cluster.isReplicated) await runReplicated(cluster, payload);
  else await cluster.onEach(runOnce(payload), { isBegunWork: true });
}

/** On one replica of each shard; the others that are available follow. One that is away follows before it counts again. */
async function runReplicated(cluster: ClickHouseCluster, payload: MarkedMutation): Promise<void> {
  await allSettled(cluster.availableOfShards().map((replicas) => runOnShard(replicas, payload)));
  const counting = new Set(cluster.availableOfShards().flat());
  const failures: unknown[] = [];
  await cluster.takeOver(async (server) => {
    try {
      await waitForMutation(server, payload);
    } catch (error) {
      if (!counting.has(server) || wasLost(serverFailure(error)) || isWaiting(error)) throw error;
      failures.push(error);
    }
  });
  if (failures.length > 0) throw failures[0];
}

/** By all processes on the same replica, as long as it is available. */
async function runOnShard(replicas: readonly ClickHouseServer[], payload: MarkedMutation): Promise<void> {
  const inOrder = [...replicas].sort((a, b) => (a.name < b.name ? -1 : 1));
  for (const [index, server] of inOrder.entries()) {
    const tracker = new ReadTracker(server);
    try {
      return await runOnce(payload)(tracker.server);
    } catch (error) {
      const failure = serverFailure(error);
      if (!(failure instanceof Failure) || !wasLost(failure) || index === inOrder.length - 1) throw failure;
      if (failure.outcome !== 'notApplied' && !tracker.hasOnlyRead) throw failure;
    }
  }
}

/** Throws only when all have ended: what still runs would belong to nobody. */
async function allSettled(works: readonly Promise<void>[]): Promise<void> {
  const failed = (await Promise.allSettled(works)).find((result) => result.status === 'rejected');
  if (failed) throw failed.reason;
}

const runOnce = (payload: MarkedMutation) => (server: ClickHouseServer) =>
  withClaim(server, payload.mark, (claimed) => runOn(claimed, payload));

const isOfMutation = ({ mark, database, localTable }: MarkedMutation): string =>
  `database = ${quoteLiteral(database)} AND table = ${quoteLiteral(localTable)} AND position(command, ${quoteLiteral(mark)}) > 0`;

async function runOn(server: ClickHouseServer, payload: MarkedMutation): Promise<void> {
  const { mark, table, command, parameters } = payload;
  if (await isKnown(server, payload)) return waitForMutation(server, payload);
  try {
    await server.text({
      sql: `ALTER TABLE ${table} ${command} AND ${quoteLiteral(mark)} != ''`,
      parameters,
      // On this server: a replica that is away would make it fail where it must wait for all.
      settings: { mutations_sync: 1 },
      timeoutMs: mutationTimeoutMs,
    });
  } catch (error) {
    // A mutation that cannot be computed would be tried again for ever, and keep later ones waiting.
    if (error instanceof ClickHouseError && serverFailure(error) === error)
      await server.text({ sql: `KILL MUTATION WHERE ${isOfMutation(payload)}`, timeoutMs: callTimeoutMs });
    throw error;
  }
}

/** Whether it was begun: a replica learns of it a moment after the one that it was sent to, and has it in Keeper before that. */
async function isKnown(server: ClickHouseServer, payload: MarkedMutation): Promise<boolean> {
  const { database, localTable, mark } = payload;
  const sql = `SELECT 1 AS found FROM system.mutations WHERE ${isOfMutation(payload)} LIMIT 1`;
  if ((await server.rows({ sql, timeoutMs: callTimeoutMs })).length > 0) return true;
  const path = await pathInKeeper(server, { database, table: localTable }, callTimeoutMs);
  return path !== undefined && (await hasMutationInKeeper(server, path, mark, callTimeoutMs));
}

/** Until this server has carried it out. */
async function waitForMutation(server: ClickHouseServer, payload: MarkedMutation): Promise<void> {
  const deadline = performance.now() + mutationTimeoutMs;
  for (let pauseMs = 50; performance.now() < deadline; pauseMs = Math.min(2 * pauseMs, 2000)) {
    const [row] = await server.rows<{ known: string; pending: string }>({
      sql: `SELECT toString(count()) AS known, toString(countIf(is_done = 0)) AS pending FROM system.mutations WHERE ${isOfMutation(payload)}`,
      timeoutMs: callTimeoutMs,
    });
    if (Number(row?.known ?? 0) > 0 && Number(row?.pending ?? 0) === 0) return;
    // Of those that all replicas have carried out, only the latest are remembered.
    if (row?.known === '0' && !(await isKnown(server, payload))) return;
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
  throw new Failure(
    'WAREHOUSE_FAILED',
    'the servers of the warehouse do not end a change of rows',
    {},
    { outcome: 'unknown' },
  );
}
