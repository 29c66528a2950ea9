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
  return { id, shard, replica, shardCount, replicaCount, memberCount: members.length, replicates };
}

/** Unique among servers that run, and the same after a restart. Servers without an id of their own are known by host and port. */
async function readId(server: ClickHouseServer, timeoutMs: number): Promise<string> {
  const sql = `SELECT toString(serverUUID()) AS uuid, hostName() AS host, getServerPort('tcp_port') AS port`;
  const [row] = await server.rows<{ uuid: string; host: string; port: number }>({ sql, timeoutMs });
  return row === undefined || row.uuid === noUuid ? `${row?.host}:${row?.port}` : row.uuid;
}

/** Replicas fetch parts from each other through a port of their own, and agree through Keeper or ZooKeeper. */
async function canReplicate(server: ClickHouseServer, timeoutMs: number): Promise<boolean> {
  const ports = ['interserver_http_port', 'interserver_https_port'].map((name) =>
    answers(server, `SELECT getServerPort('${name}')`, [noSuchPort], timeoutMs),
  );
  if (!(await Promise.all(ports)).includes(true)) return false;
  return answers(server, `SELECT 1 FROM system.zookeeper WHERE path = '/' LIMIT 1`, withoutKeeper, timeoutMs);
}

async function answers(
  server: ClickHouseServer,
  sql: string,
  refusals: readonly number[],
  timeoutMs: number,
): Promise<boolean> {
  try {
    await server.text({ sql, timeoutMs });
    return true;
  } catch (error) {
    if (error instanceof ClickHouseError && refusals.includes(error.code)) return false;
    throw error;
  }
}
