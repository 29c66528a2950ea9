// What a server says of itself and of its place in the cluster, and whether it can replicate tables.
import type { ServerIdentity } from '../../../model/records.ts';
import { Failure } from '../../../standard/failure.ts';
import { ClickHouseError } from '../connection/clickhouse_error.ts';
import type { ClickHouseServer } from '../connection/server.ts';

/** Reasons in the result of BACKEND_UNSUITABLE. */
export type Unsuitability = 'credentials' | 'version' | 'cluster' | 'replication' | 'registered' | 'protocol';

export const unsuitable = (reason: Unsuitability, message: string): Failure =>
  new Failure('BACKEND_UNSUITABLE', message, { reason });

interface ClusterRow {
  readonly shard_num: number;
  readonly replica_num: number;
  readonly is_local: number;
  /** Absent on servers that do not show it. */
  readonly internal_replication?: number;
}

const noSuchPort = 701;
/** Errors of a server without Keeper or ZooKeeper: no such table, no such configuration. */
const withoutKeeper: readonly number[] = [60, 139];
const noUuid = '00000000-0000-0000-0000-000000000000';

/** Throws BACKEND_UNSUITABLE if the server is no member of the cluster, and what the server answers. */
export async function readIdentity(
  server: ClickHouseServer,
  cluster: string,
  timeoutMs: number,
): Promise<ServerIdentity> {
  const [members, macros, replicates, id] = await Promise.all([
    server.rows<ClusterRow>({
      sql: 'SELECT * FROM system.clusters WHERE cluster = {cluster:String}',
      parameters: { cluster },
      timeoutMs,
    }),
    server.rows<{ macro: string; substitution: string }>({
      sql: 'SELECT macro, substitution FROM system.macros',
      timeoutMs,
    }),
    canReplicate(server, timeoutMs),
    readId(server, timeoutMs),
  ]);
  if (members.length === 0) throw unsuitable('cluster', 'the server knows no cluster of the name of the warehouse');
  const shardCount = Math.max(...members.map(({ shard_num }) => shard_num));
  const replicaCount = Math.max(...members.map(({ replica_num }) => replica_num));
  const macroOf = (name: string) => macros.find(({ macro }) => macro === name)?.substitution;
  const [local, ...more] = members.filter(({ is_local }) => is_local !== 0);
  const own = more.length === 0 ? local : undefined;
  const shard = own?.shard_num ?? (shardCount === 1 ? 1 : Number(macroOf('shard')));
  const replica = macroOf('replica') ?? own?.replica_num.toString();
  if (!Number.isInteger(shard) || shard < 1 || shard > shardCount || replica === undefined)
    throw unsuitable('cluster', 'the server is no member of the cluster, by its definition and by its macros');
  if (replicates && (macroOf('shard') === undefined || macroOf('replica') === undefined))
    throw unsuitable('cluster', 'the server has no macros shard and replica, by which tables are replicated');
  if (replicates && members.some(({ internal_replication }) => internal_replication === 0))
    throw unsuitable('cluster', 'the definition of the cluster must have internal_replication in each shard');
  // Each row would be in one copy only, and any of them is read.
  if (!replicates && replicaCount > 1 && members.some(({ internal_replication }) => internal_replication === 1))
    throw unsuitable(
      'cluster',
      'the definition of the cluster has internal_replication, and the server does not replicate: that needs Keeper, and interserver_http_port or interserver_https_port',
    );
  const identity = { id, shard, replica, shardCount, replicaCount, memberCount: members.length, replicates };
  return own ? { ...identity, position: own.replica_num } : identity;
}

/**
 * Unique among servers that run, and the same after a restart. Servers without an id of their own are known by host and port: of which kind
 * depends on what they listen on.
 */
async function readId(server: ClickHouseServer, timeoutMs: number): Promise<string> {
  const sql = 'SELECT toString(serverUUID()) AS uuid, hostName() AS host';
  const [row] = await server.rows<{ uuid: string; host: string }>({ sql, timeoutMs });
  if (row && row.uuid !== noUuid) return row.uuid;
  for (const name of ['tcp_port', 'tcp_port_secure', 'http_port', 'https_port']) {
    const port = await portOf(server, name, timeoutMs);
    if (port !== undefined) return `${row?.host}:${port}`;
  }
  throw unsuitable('protocol', 'the server has no id, and no port by which it could be known');
}

/** Replicas fetch parts from each other through a port of their own, and agree through Keeper or ZooKeeper. */
async function canReplicate(server: ClickHouseServer, timeoutMs: number): Promise<boolean> {
  const ports = ['interserver_http_port', 'interserver_https_port'].map((name) => portOf(server, name, timeoutMs));
  if ((await Promise.all(ports)).every((port) => port === undefined)) return false;
  const sql = `SELECT 1 FROM system.zookeeper WHERE path = '/' LIMIT 1`;
  return (await textUnless(withoutKeeper, server, sql, timeoutMs)) !== undefined;
}

/** Undefined if the server does not listen on a port of this name. */
const portOf = (server: ClickHouseServer, name: string, timeoutMs: number): Promise<string | undefined> =>
  textUnless([noSuchPort], server, `SELECT getServerPort('${name}')`, timeoutMs);

/** Undefined if the server refuses the statement for one of these reasons. */
async function textUnless(
  refusals: readonly number[],
  server: ClickHouseServer,
  sql: string,
  timeoutMs: number,
): Promise<string | undefined> {
  try {
    return (await server.text({ sql, timeoutMs })).trim();
  } catch (error) {
    if (error instanceof ClickHouseError && refusals.includes(error.code)) return undefined;
    throw error;
  }
}
