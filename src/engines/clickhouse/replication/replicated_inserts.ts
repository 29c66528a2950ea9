// Inserts into replicated tables of rows: acknowledged when enough replicas have them, and sent again as they are until then, which stores
// them once.
import { setTimeout as pause } from 'node:timers/promises';
import { Failure, withOutcome } from '../../../standard/failure.ts';
import type { ClickHouseServer } from '../connection/server.ts';
import { qualifiedName, quoteIdentifier, quoteLiteral } from '../sql/identifiers.ts';
import { replicationFeatures } from './replication_features.ts';
import { isAbsent, isUncertain, isWaiting, serverCodeOf } from './server_errors.ts';

/** The most rows of a batch: a server stores at most this many as one block, and only blocks are stored all or nothing, and once. */
export const batchRowsMax = 1_000_000;

export interface ReplicatedBatch {
  /** As stored. */
  readonly database: string;
  readonly localTable: string;
  /** Names of the columns, in the order of the data. */
  readonly columns: readonly string[];
  readonly format: string;
  readonly data: string | Uint8Array;
  /** At most `batchRowsMax`. */
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
  /** The servers of the shard that count; the first is asked first. */
  readonly replicas: readonly ClickHouseServer[];
  /** How many replicas the cluster has of the shard, whether they live or not. */
  readonly replicasOfShard: number;
  /** After which a batch that is not stored is given up. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

export interface ReplicatedInsertResult {
  /** The servers of the shard that do not have the rows yet, and must not be read until they have caught up. */
  readonly behind: readonly string[];
}

/** Of three replicas one can be lost with its disk, and the rows be acknowledged and there. Two would refuse rows while one is down. */
const quorumReplicasMin = 3;
const quorum = 2;
/** For one server to store a batch on a quorum of replicas. */
const attemptMs = 15_000;
/** Less than that of an attempt, so that the server says what it waits for. */
const quorumTimeoutMs = 10_000;
const retryMsMin = 100;
const retryMsMax = 1000;
/** For another replica to take over what was acknowledged; a later one does not count. */
const syncMs = 2000;

/** How many replicas must have a batch before it is acknowledged; 0 where the one that is asked suffices. */
export const quorumOf = (replicasOfShard: number): number => (replicasOfShard >= quorumReplicasMin ? quorum : 0);

/** The inserts of one warehouse. */
export class ReplicatedInserts {
  /** Servers without parallel quorums refuse a second insert into a table; the inserts of this process take turns. */
  readonly #turns = new Map<string, Promise<unknown>>();

  /**
   * Stores a batch once. Throws REPLICAS_UNAVAILABLE if it is not stored within the time; whether it will be is unknown if a server may have
   * received it. Other errors of servers are thrown as they are: nothing was stored.
   */
  async insert(batch: ReplicatedBatch, options: ReplicatedInsertOptions): Promise<ReplicatedInsertResult> {
    if (batch.rowCount > batchRowsMax) throw new RangeError(`a batch has at most ${batchRowsMax} rows`);
    const [first] = options.replicas;
    if (!first) throw unavailable('notApplied');
    if (replicationFeatures(first.version).parallelQuorum) return insertBatch(batch, options);
    const key = `${batch.database} ${batch.localTable}`;
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

async function insertBatch(batch: ReplicatedBatch, options: ReplicatedInsertOptions): Promise<ReplicatedInsertResult> {
  const { replicas, timeoutMs, signal } = options;
  const endMs = performance.now() + timeoutMs;
  const withoutTable = new Set<ClickHouseServer>();
  let mayBeStored = false;
  let last: unknown;
  for (let attempt = 0; attempt === 0 || performance.now() < endMs; attempt++) {
    const server = replicas[attempt % replicas.length] as ClickHouseServer;
    try {
      await insertOnce(server, batch, options, Math.min(attemptMs, Math.max(1000, endMs - performance.now())));
      return { behind: await serversBehind(server, batch, options) };
    } catch (error) {
      last = error;
      const wasLost = serverCodeOf(error) === undefined;
      if (wasLost && !(error instanceof Failure)) throw error;
      if (isAbsent(error)) withoutTable.add(server);
      const hasOthers = isAbsent(error) && withoutTable.size < replicas.length;
      if (!wasLost && !isWaiting(error) && !hasOthers) throw mayBeStored ? unavailable('unknown', error) : error;
      mayBeStored ||= isUncertain(error) || (error instanceof Failure && error.outcome !== 'notApplied');
    }
    if (signal?.aborted) break;
    // All replicas are asked before the first one is asked again.
    const round = Math.floor((attempt + 1) / replicas.length);
    const waitMs = Math.min(retryMsMax, retryMsMin * 2 ** round, Math.max(0, endMs - performance.now()));
    await pause(waitMs, undefined, { signal }).catch(() => {});
  }
  const outcome = mayBeStored ? 'unknown' : 'notApplied';
  if (signal?.aborted && last instanceof Failure) throw withOutcome(last, outcome);
  throw unavailable(outcome, last);
}

async function insertOnce(
  server: ClickHouseServer,
  batch: ReplicatedBatch,
  { replicasOfShard, signal }: ReplicatedInsertOptions,
  timeoutMs: number,
): Promise<void> {
  const features = replicationFeatures(server.version);
  if (!features.insertTokens && batch.batchColumn === undefined)
    throw new TypeError('a server that knows no tokens of inserts needs a column with the token');
  const columns = batch.columns.map(quoteIdentifier).join(', ');
  const table = qualifiedName({ database: batch.database, table: batch.localTable });
  let writtenRows: number | undefined;
  await server.text({
    sql: `INSERT INTO ${table} (${columns}) FORMAT ${batch.format}`,
    data: batch.data,
    gzip: true,
    settings: settingsOf(batch, features.insertTokens, replicasOfShard),
    timeoutMs: Math.ceil(timeoutMs / 1000) * 1000,
    signal,
    onWritten: (rowCount) => {
      writtenRows = rowCount;
    },
  });
  if (!features.writtenRows && batch.batchColumn !== undefined)
    writtenRows = await rowsOfBatch(server, table, batch.batchColumn, batch.token);
  if (writtenRows !== undefined && writtenRows !== batch.rowCount)
    throw new Failure(
      'WAREHOUSE_FAILED',
      `a server stored ${writtenRows} of ${batch.rowCount} rows`,
      {},
      { outcome: 'unknown' },
    );
}

/** Names that servers of all versions know, unless a guard says otherwise. */
function settingsOf({ token }: ReplicatedBatch, hasTokens: boolean, replicasOfShard: number) {
  const required = quorumOf(replicasOfShard);
  return {
    insert_deduplicate: 1,
    // The batch is one block, however it arrives.
    max_insert_block_size: batchRowsMax,
    ...(required > 0 && { insert_quorum: required, insert_quorum_timeout: quorumTimeoutMs }),
    ...(hasTokens && { insert_deduplication_token: token, input_format_parallel_parsing: 0, max_insert_threads: 1 }),
  };
}

/** A server to which a batch was sent again may know that another one has it before it has it itself. */
async function rowsOfBatch(server: ClickHouseServer, table: string, column: string, token: string): Promise<number> {
  await server.text({ sql: `SYSTEM SYNC REPLICA ${table}`, timeoutMs: attemptMs });
  const sql = `SELECT count() AS stored FROM ${table} WHERE ${quoteIdentifier(column)} = ${quoteLiteral(token)}`;
  const [row] = await server.rows<{ stored: string }>({ sql, timeoutMs: attemptMs });
  return Number(row?.stored);
}

/** Lets the other replicas take over what was acknowledged, so that a caller reads it on any server that counts. */
async function serversBehind(
  inserted: ClickHouseServer,
  { database, localTable: table }: ReplicatedBatch,
  { replicas }: ReplicatedInsertOptions,
): Promise<string[]> {
  const sql = `SYSTEM SYNC REPLICA ${qualifiedName({ database, table })}`;
  const behind = await Promise.all(
    replicas
      .filter((server) => server !== inserted)
      .map((server) =>
        server.text({ sql, timeoutMs: syncMs }).then(
          () => [],
          () => [server.name],
        ),
      ),
  );
  return behind.flat();
}
