// The staging tables of a load: the rows of a file are first written to tables of the same structure on the servers of the table, which nobody
// reads, and published from there by partitions. Each row has the number of its load in a hidden column, by which a repeated publication
// sees what was published before it was interrupted.
import { createHash } from 'node:crypto';
import { isUndefinedTable } from '../cluster/missing_tables.ts';
import type { ClickHouseCluster, ClickHouseServer, ServerCall } from '../connection/server.ts';
import { parseDistributed } from '../ddl/table_sql.ts';
import { internalDatabase } from '../names.ts';
import { qualifiedName, quoteIdentifier, quoteLiteral } from '../sql/identifiers.ts';
import { Claims, withClaim } from '../steps/claim.ts';
import { createReplicas, onStaged, takeOver, takeOverPublished } from './replicated_staging.ts';

/** The hidden column with the number of the load; 0 in rows that were not loaded (ddl/table_sql.ts). */
export const loadColumn = '_load';
export const stagingPrefix = 'load_';
export const distributedSuffix = '_all';
const statementTimeoutMs = 600_000;

/** What is needed to publish a staged load. */
export interface StagedLoad {
  /** The name of its staging tables. */
  readonly staging: string;
  readonly database: string;
  readonly localTable: string;
  readonly mode: 'append' | 'replace';
}

type Call = Pick<ServerCall, 'timeoutMs' | 'signal'>;
const callOf = (signal?: AbortSignal): Call => ({ timeoutMs: statementTimeoutMs, signal });

/** A number for a step, in decimal; the same for all attempts. */
export const loadNumber = (step: string): string =>
  String(createHash('sha256').update(step).digest().readBigUInt64BE(0) >> 1n || 1n);

/** `attempt`: attempts have tables of their own, so that a late statement of an earlier one cannot add rows. */
export const stagingName = (step: string, attempt: string): string =>
  `${stagingPrefix}${createHash('sha256').update(step).digest('hex').slice(0, 24)}_${attempt.slice(0, 8)}`;

const localName = (load: Pick<StagedLoad, 'database' | 'localTable'>): string =>
  qualifiedName({ database: load.database, table: load.localTable });
const staged = (name: string): string => qualifiedName({ database: internalDatabase, table: name });

/**
 * Creates the staging tables. `table`: the Distributed table of the table.
 * @returns the name of the table to insert into, on `server` only.
 */
export async function createStaging(
  cluster: ClickHouseCluster,
  server: ClickHouseServer,
  { load, table, number }: { readonly load: StagedLoad; readonly table: string; readonly number: string },
  signal: AbortSignal,
): Promise<string> {
  const call = callOf(signal);
  if (cluster.isReplicated) await createReplicas(cluster, server, { load, number }, call);
  else {
    const copies = await cluster.onEach(async (each) => {
      await each.text({ ...call, sql: `CREATE TABLE ${staged(load.staging)} AS ${localName(load)}` });
      const column = quoteIdentifier(loadColumn);
      await each.text({
        ...call,
        sql: `ALTER TABLE ${staged(load.staging)} MODIFY COLUMN ${column} UInt64 DEFAULT ${number}`,
      });
      // The rows of one statement come in several blocks, of which the server would store equal ones once.
      await each.text({
        ...call,
        sql: `ALTER TABLE ${staged(load.staging)} MODIFY SETTING non_replicated_deduplication_window = 0`,
      });
    });
    if (cluster.shardCount === 1 && copies.length === 1) return staged(load.staging);
  }
  const name = `${load.staging}${distributedSuffix}`;
  const key = await shardingKey(server, load.database, table, call);
  const engine = `Distributed(${[cluster.name, internalDatabase, load.staging].map(quoteLiteral).join(', ')}, ${key})`;
  await server.text({ ...call, sql: `CREATE TABLE ${staged(name)} AS ${staged(load.staging)} ENGINE = ${engine}` });
  return staged(name);
}

/** The key by which rows are spread over the shards. */
async function shardingKey(server: ClickHouseServer, database: string, table: string, call: Call): Promise<string> {
  const [row] = await server.rows<{ engine: string }>({
    ...call,
    sql: 'SELECT engine_full AS engine FROM system.tables WHERE database = {database:String} AND name = {table:String}',
    parameters: { database, table },
  });
  return parseDistributed(row?.engine ?? '')?.key ?? 'rand()';
}

export interface StagedSize {
  /** Of all shards. */
  readonly rowCount: number;
  /** Of the shard that has most of them. */
  readonly partitions: number;
}

export async function sizeOfStaged(
  cluster: ClickHouseCluster,
  load: StagedLoad,
  signal: AbortSignal,
): Promise<StagedSize> {
  const call = callOf(signal);
  const one = async (server: ClickHouseServer, sql: string) =>
    Number((await server.rows<{ n: string }>({ ...call, sql }))[0]?.n ?? 0);
  const size = async (server: ClickHouseServer): Promise<StagedSize> => ({
    rowCount: await one(server, `SELECT toString(count()) AS n FROM ${staged(load.staging)}`),
    partitions: await one(
      server,
      `SELECT toString(uniqExact(partition_id)) AS n FROM system.parts WHERE ${partsOf(load.staging)}`,
    ),
  });
  const sizes = await (cluster.isReplicated ? onStaged(cluster, load, size) : cluster.onEachShard(size));
  return {
    rowCount: sizes.reduce((sum, { rowCount }) => sum + rowCount, 0),
    partitions: Math.max(0, ...sizes.map(({ partitions }) => partitions)),
  };
}

/**
 * Moves the staged rows into the table. `isRepeated`: an earlier attempt may have moved some of them. A server carries out the change of one
 * partition whole or not at all, except that one that is killed and cannot replicate may have attached a part of it, which is then removed and
 * attached again.
 */
export async function publish(
  cluster: ClickHouseCluster,
  load: StagedLoad,
  { number, isRepeated }: { readonly number: string; readonly isRepeated: boolean },
): Promise<void> {
  const { isReplicated } = cluster;
  const work = (server: ClickHouseServer) => publishOn(server, load, { number, isRepeated, isReplicated });
  if (isReplicated)
    await onStaged(cluster, load, async (server, shard) => {
      // Another replica may have been published on, of which this one has not heard yet.
      if (isRepeated) await takeOverPublished(server, load);
      const needsClaims = load.mode === 'replace' || (await hasEqualParts(server, load));
      if (needsClaims) await withClaims(cluster, load, { server, shard }, work);
      else await work(server);
      await takeOver(cluster, load, { from: server, shard });
    });
  else await cluster.onEach((server) => withClaim(server, load.staging, work), { isBegunWork: isRepeated });
}

/** Of equal parts, a table recognizes only one that was attached before. */
async function hasEqualParts(server: ClickHouseServer, { staging }: StagedLoad): Promise<boolean> {
  const sql = `SELECT 1 AS found FROM system.parts WHERE ${partsOf(staging)} GROUP BY partition_id, hash_of_all_files HAVING count() > 1 LIMIT 1`;
  return (await server.rows({ ...callOf(), sql })).length > 0;
}

const partsOf = (staging: string): string =>
  `active AND database = ${quoteLiteral(internalDatabase)} AND table = ${quoteLiteral(staging)}`;

/**
 * Whichever replica an earlier attempt has worked on, what it has sent to drop or to replace partitions, or to attach equal parts, does nothing if it
 * arrives now. Other parts that it has sent to attach are known to be there.
 */
async function withClaims(
  cluster: ClickHouseCluster,
  { staging }: StagedLoad,
  { server, shard }: { readonly server: ClickHouseServer; readonly shard: number },
  work: (claimed: ClickHouseServer) => Promise<void>,
): Promise<void> {
  // One that comes later finds no staging table.
  const claims = new Claims(staging, async () => undefined);
  try {
    await claims.takeOn(cluster.availableOfShards()[shard - 1] ?? []);
    await work(await claims.of(server));
  } finally {
    await claims.drop();
  }
}

interface Publication {
  readonly number: string;
  readonly isRepeated: boolean;
  /** The change of a partition is one entry of the log of its replicas, which remember the parts that were attached. */
  readonly isReplicated: boolean;
}

async function publishOn(
  server: ClickHouseServer,
  load: StagedLoad,
  { number, isRepeated, isReplicated }: Publication,
): Promise<void> {
  const call = callOf();
  const table = localName(load);
  const counts = async (from: string, where: string) => {
    const sql = `SELECT _partition_id AS id, toString(count()) AS n FROM ${from} WHERE ${where} GROUP BY id`;
    return new Map((await server.rows<{ id: string; n: string }>({ ...call, sql })).map(({ id, n }) => [id, n]));
  };
  const all = await counts(staged(load.staging), '1');
  const column = quoteIdentifier(loadColumn);
  const present = isRepeated ? await counts(table, `${column} = ${number}`) : new Map<string, string>();
  if (load.mode === 'replace' && present.size === 0) await dropOthers(server, load, new Set(all.keys()), call);
  for (const [id, rowCount] of all) {
    const found = present.get(id);
    // Where it cannot be a part of a change, rows that lack were deleted since.
    if (found === rowCount || (found !== undefined && isReplicated)) continue;
    const partition = `PARTITION ID ${quoteLiteral(id)}`;
    if (load.mode === 'replace') {
      await server.text({ ...call, sql: `ALTER TABLE ${table} REPLACE ${partition} FROM ${staged(load.staging)}` });
      continue;
    }
    if (found !== undefined)
      await server.text({
        ...call,
        sql: `ALTER TABLE ${table} DELETE IN ${partition} WHERE ${column} = ${number}`,
        settings: { mutations_sync: 1 },
      });
    await server.text({ ...call, sql: `ALTER TABLE ${table} ATTACH ${partition} FROM ${staged(load.staging)}` });
  }
}

/** The partitions that get no row of the load, before those that do. */
async function dropOthers(
  server: ClickHouseServer,
  load: StagedLoad,
  kept: ReadonlySet<string>,
  call: Call,
): Promise<void> {
  const rows = await server.rows<{ id: string }>({
    ...call,
    sql: 'SELECT DISTINCT partition_id AS id FROM system.parts WHERE active AND database = {database:String} AND table = {table:String}',
    parameters: { database: load.database, table: load.localTable },
  });
  for (const { id } of rows) {
    if (kept.has(id)) continue;
    await server.text({ ...call, sql: `ALTER TABLE ${localName(load)} DROP PARTITION ID ${quoteLiteral(id)}` });
  }
}

/** Whether the table of a load still exists where its rows would go. Throws 503 if a server lacks it although it is defined. */
export async function hasTable(cluster: ClickHouseCluster, load: StagedLoad, signal?: AbortSignal): Promise<boolean> {
  const place = { database: load.database, table: load.localTable };
  const find = async (server: ClickHouseServer) => {
    const rows = await server.rows({
      ...callOf(signal),
      sql: 'SELECT 1 FROM system.tables WHERE database = {database:String} AND name = {table:String}',
      parameters: place,
    });
    return rows.length > 0 || !(await isUndefinedTable(server, place));
  };
  const found = await (cluster.isReplicated ? cluster.onEachShard(find) : cluster.onEach(find));
  return !found.includes(false);
}
