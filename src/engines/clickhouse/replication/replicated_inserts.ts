// Inserts into replicated tables: acknowledged when enough replicas have the rows, and sent again as they are until then, which stores them
// once.
import { setTimeout as pause } from 'node:timers/promises';
import { Failure, outcomeOf, withOutcome } from '../../../standard/failure.ts';
import { serverFailure } from '../connection/clickhouse_error.ts';
import type { ClickHouseServer, ServerCall, StoredNames } from '../connection/server.ts';
import { blockSettings } from '../rows/block_settings.ts';
import { qualifiedName, quoteIdentifier, quoteLiteral } from '../sql/identifiers.ts';
import { replicationFeatures } from './replication_features.ts';
import { isAbsent, isKilled, isWaiting, serverCodeOf } from './server_errors.ts';

/** Of a batch for a server without tokens of inserts: it stores at most this many rows as one block, all or nothing. */
const oldBlockRowsMax = 1_000_000;

export interface ReplicatedBatch {
  /** `table` takes the rows: a Distributed table, or that of one replica. `localTable` stores them. */
  readonly names: StoredNames;
  /** Names of the columns, in the order of the data. */
  readonly columns: readonly string[];
  readonly format: string;
  readonly data: string | Uint8Array;
  /** A SELECT that reads the data, where the table cannot read it as it is. */
  readonly reading?: string | undefined;
  readonly rowCount: number;
  /** Different for each batch that is to be stored, also of the same rows; the same whenever a batch is sent again. */
  readonly token: string;
  /**
   * The column in which each row of the data has the token. Needed by servers that know no tokens of inserts, and would take two batches of
   * the same rows for one.
   */
  readonly batchColumn?: string | undefined;
}

export interface ReplicatedInsertOptions {
  /** The servers that count; the first is asked first. */
  readonly servers: readonly ClickHouseServer[];
  /** How many replicas the cluster has of each shard, whether they live or not. */
  readonly replicasOfShard: number;
  /** After which a batch that is not stored is given up. */
  readonly timeoutMs: number;
  /** For how long after the first failure it is sent again. Absent: all of the time. */
  readonly repeatMs?: number;
  readonly signal?: AbortSignal | undefined;
  /** Further settings of the INSERT on a server. */
  readonly settingsOn?: (server: ClickHouseServer) => ServerCall['settings'];
  /**
   * Whether another process has completed the insert; throws CHANGE_IN_PROGRESS if the insert was undone. Asked before a batch is sent again: a
   * server has forgotten the token of rows that were deleted since then, and would store them again.
   */
  readonly isCompleted?: (() => Promise<boolean>) | undefined;
}

/** Of three replicas one can be lost with its disk, and the rows be acknowledged and there. Two would refuse rows while one is down. */
const quorumReplicasMin = 3;
const quorum = 2;
/** Less than the time of an attempt, so that the server says what it waits for. */
const quorumTimeoutMs = 10_000;
/** A server that has lost its session with Keeper could store rows minutes later, when they have been stored by another one, and deleted. */
const keeperRetries = 0;
const retryMsMin = 100;
const retryMsMax = 1000;
const countMs = 15_000;

/** How many replicas must have a batch before it is acknowledged; 0 where the one that is asked suffices. */
export const quorumOf = (replicasOfShard: number): number => (replicasOfShard >= quorumReplicasMin ? quorum : 0);

/** The inserts of one warehouse. */
export class ReplicatedInserts {
  /** Servers without parallel quorums refuse a second insert into a table; the inserts of this process take turns. */
  readonly #turns = new Map<string, Promise<unknown>>();

  /**
   * Stores a batch once. Throws REPLICAS_UNAVAILABLE if it is not stored within the time; whether it will be is unknown if a server may have
   * received it. Other errors of servers are thrown as they are: nothing was stored. @returns the server that has the rows of its shard; those
   * of other replicas take them over. Undefined: another process has completed the insert.
   */
  async insert(batch: ReplicatedBatch, options: ReplicatedInsertOptions): Promise<ClickHouseServer | undefined> {
    const [first] = options.servers;
    if (!first) throw unavailable('notApplied');
    if (replicationFeatures(first.version).parallelQuorum) return insertBatch(batch, options);
    const key = `${batch.names.database} ${batch.names.localTable}`;
    const turn = (this.#turns.get(key) ?? Promise.resolve()).then(() => insertBatch(batch, options));
    const ended = turn.catch(() => {});
    this.#turns.set(key, ended);
    try {
      return await turn;
    } finally {
      if (this.#turns.get(key) === ended) this.#turns.delete(key);
    }
  }
}

const unavailable = (outcome: 'notApplied' | 'unknown', cause?: unknown): Failure =>
  new Failure('REPLICAS_UNAVAILABLE', 'too few replicas are available to store rows', {}, { outcome, cause });

async function insertBatch(
  batch: ReplicatedBatch,
  options: ReplicatedInsertOptions,
): Promise<ClickHouseServer | undefined> {
  const { servers, timeoutMs, repeatMs = timeoutMs, signal } = options;
  const endMs = performance.now() + timeoutMs;
  /** No attempt begins after it. */
  let repeatedUntilMs = endMs;
  const withoutTable = new Set<ClickHouseServer>();
  let mayBeStored = false;
  let last: unknown;
  for (let attempt = 0; attempt === 0 || performance.now() < repeatedUntilMs; attempt++) {
    const server = servers[attempt % servers.length] as ClickHouseServer;
    try {
      if (attempt > 0 && (await options.isCompleted?.())) return undefined;
      await insertOnce(server, batch, options, Math.max(1000, endMs - performance.now()));
      return server;
    } catch (error) {
      const failure = serverFailure(error);
      last = error;
      if (serverCodeOf(error) === undefined && !(error instanceof Failure)) throw error;
      if (isAbsent(error)) withoutTable.add(server);
      const hasOthers = isAbsent(error) && withoutTable.size < servers.length;
      // A Failure: of the connection, or a condition of the servers after which the rows may be stored.
      const isUncertain = isKilled(error) || (failure instanceof Failure && outcomeOf(failure) === 'unknown');
      const wasUndone = error instanceof Failure && error.code === 'CHANGE_IN_PROGRESS';
      const isRepeatable = (error instanceof Failure && !wasUndone) || isUncertain || isWaiting(error) || hasOthers;
      if (!isRepeatable) throw mayBeStored ? unavailable('unknown', error) : error;
      mayBeStored ||= isUncertain || (error instanceof Failure && error.outcome !== 'notApplied');
    }
    if (attempt === 0) repeatedUntilMs = Math.min(endMs, performance.now() + repeatMs);
    if (signal?.aborted) break;
    // All servers are asked before the first one is asked again.
    const round = Math.floor((attempt + 1) / servers.length);
    const waitMs = Math.min(retryMsMax, retryMsMin * 2 ** round, Math.max(0, repeatedUntilMs - performance.now()));
    await pause(waitMs, undefined, { signal }).catch(() => {});
  }
  const outcome = mayBeStored ? 'unknown' : 'notApplied';
  if (signal?.aborted && last instanceof Failure) throw withOutcome(last, outcome);
  throw unavailable(outcome, last);
}

async function insertOnce(
  server: ClickHouseServer,
  batch: ReplicatedBatch,
  { replicasOfShard, settingsOn, signal }: ReplicatedInsertOptions,
  timeoutMs: number,
): Promise<void> {
  const features = replicationFeatures(server.version);
  if (!features.insertTokens) checkWithoutTokens(batch);
  const { columns, format, reading = '', data, batchColumn } = batch;
  await server.text({
    sql: `INSERT INTO ${qualifiedName(batch.names)} (${columns.map(quoteIdentifier).join(', ')}) ${reading} FORMAT ${format}`,
    data,
    gzip: true,
    settings: { ...settingsOn?.(server), ...settingsOf(batch, features.insertTokens, replicasOfShard) },
    timeoutMs: Math.ceil(timeoutMs / 1000) * 1000,
    signal,
  });
  if (features.insertTokens || batchColumn === undefined) return;
  const writtenRows = await rowsOfBatch(server, batch, batchColumn);
  if (writtenRows !== batch.rowCount)
    throw new Failure(
      'WAREHOUSE_FAILED',
      `a server stored ${writtenRows} of ${batch.rowCount} rows`,
      {},
      { outcome: 'unknown' },
    );
}

function checkWithoutTokens({ batchColumn, rowCount }: ReplicatedBatch): void {
  if (batchColumn === undefined)
    throw new TypeError('a server that knows no tokens of inserts needs a column with the token');
  if (rowCount > oldBlockRowsMax) throw new RangeError(`a batch has at most ${oldBlockRowsMax} rows`);
}

/** Names that servers of all versions know, unless a guard says otherwise. */
function settingsOf({ token }: ReplicatedBatch, hasTokens: boolean, replicasOfShard: number) {
  const required = quorumOf(replicasOfShard);
  return {
    ...(hasTokens
      ? { ...blockSettings(token), insert_keeper_max_retries: keeperRetries }
      : { insert_deduplicate: 1, max_insert_block_size: oldBlockRowsMax }),
    ...(required > 0 && { insert_quorum: required, insert_quorum_timeout: quorumTimeoutMs }),
    ...(required > 0 && hasTokens && { insert_quorum_parallel: 1 }),
  };
}

/** A server to which a batch was sent again may know that another one has it before it has it itself. */
async function rowsOfBatch(
  server: ClickHouseServer,
  { names, token }: ReplicatedBatch,
  column: string,
): Promise<number> {
  const table = qualifiedName({ database: names.database, table: names.localTable });
  await server.text({ sql: `SYSTEM SYNC REPLICA ${table}`, timeoutMs: countMs });
  const sql = `SELECT count() AS stored FROM ${table} WHERE ${quoteIdentifier(column)} = ${quoteLiteral(token)}`;
  const [row] = await server.rows<{ stored: string }>({ sql, timeoutMs: countMs });
  return Number(row?.stored);
}
