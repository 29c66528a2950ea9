// The state of the replicas of one server, as it says itself, compared with the tables that it must have.
import type { ClickHouseServer } from '../connection/server.ts';
import { quoteLiteral } from '../sql/identifiers.ts';
import { type ReplicatedTable, tableOfPath } from './replicated_tables.ts';

/** The time within which a server must say how it is. */
export const healthTimeoutMs = 2000;

export interface ReplicaState {
  readonly uuid: string;
  readonly shard: string;
  readonly database: string;
  readonly table: string;
  /** The name of the replica in Keeper. */
  readonly replica: string;
  readonly path: string;
  /** It has lost its session with Keeper, or has not begun one: it learns of nothing that others write. */
  readonly isReadOnly: boolean;
  /** Entries of the log that it has taken over and not carried out. */
  readonly queueSize: number;
  /** It has taken over all of the log. False, too, while Keeper is away. */
  readonly hasReadLog: boolean;
  /** How many replicas of the shard have a session with Keeper; 0 while Keeper is away. */
  readonly activeReplicas: number;
}

export interface ServerHealth {
  readonly replicas: readonly ReplicaState[];
  /** Tables that it must have and does not have under these names. */
  readonly missing: readonly ReplicatedTable[];
  /** When the server started, by its clock, in seconds since 1970, to within a second: it is stale after a restart until it has caught up. */
  readonly startedAtSeconds: number;
}

interface ReplicaRow {
  readonly database: string;
  readonly table: string;
  readonly replica_name: string;
  readonly zookeeper_path: string;
  readonly is_readonly: number;
  readonly is_session_expired: number;
  readonly queue_size: number;
  readonly log_max_index: string;
  readonly log_pointer: string;
  readonly active_replicas: number;
}

const replicaColumns =
  'database, table, replica_name, zookeeper_path, is_readonly, is_session_expired, queue_size, log_max_index, log_pointer, active_replicas';

/**
 * The replicas of this product on a server, or only that of a table. Throws what the server answers, or that it does not answer in time.
 */
export async function replicaStates(
  server: ClickHouseServer,
  timeoutMs: number = healthTimeoutMs,
  only?: Pick<ReplicaState, 'database' | 'table'>,
): Promise<ReplicaState[]> {
  const where = only ? ` WHERE database = ${quoteLiteral(only.database)} AND table = ${quoteLiteral(only.table)}` : '';
  const sql = `SELECT ${replicaColumns} FROM system.replicas${where}`;
  const rows = await server.rows<ReplicaRow>({ sql, timeoutMs });
  return rows.flatMap((row) => {
    const table = tableOfPath(row.zookeeper_path);
    if (!table) return [];
    const isReadOnly = row.is_readonly !== 0 || row.is_session_expired !== 0;
    return {
      ...table,
      database: row.database,
      table: row.table,
      replica: row.replica_name,
      path: row.zookeeper_path,
      isReadOnly,
      queueSize: row.queue_size,
      hasReadLog: !isReadOnly && BigInt(row.log_pointer) > BigInt(row.log_max_index),
      activeReplicas: row.active_replicas,
    };
  });
}

/**
 * The health of a server, in one round: two statements of `healthTimeoutMs`. Throws what the server answers, or that it does not answer.
 * That its replicas look healthy is no proof that they are complete: only `catchUp` proves that.
 */
export async function serverHealth(
  server: ClickHouseServer,
  expected: readonly ReplicatedTable[],
): Promise<ServerHealth> {
  const [replicas, startedAtSeconds] = await Promise.all([replicaStates(server), startOf(server)]);
  const present = new Set(replicas.map(({ uuid, database, table }) => placeOf({ uuid, database, localTable: table })));
  return {
    replicas,
    missing: expected.filter((table) => !present.has(placeOf(table))),
    startedAtSeconds,
  };
}

/** When a server started, by its own clock, in seconds since 1970, to within a second. */
export async function startOf(server: ClickHouseServer): Promise<number> {
  const sql = 'SELECT toUInt32(now()) - uptime() AS started';
  const [row] = await server.rows<{ started: number | string }>({ sql, timeoutMs: healthTimeoutMs });
  return Number(row?.started);
}

const placeOf = ({ uuid, database, localTable }: ReplicatedTable): string => `${uuid} ${database} ${localTable}`;

/** What is known of a server from its last healthy round. */
export interface CountedServer {
  readonly startedAtSeconds: number;
}

const roundingSeconds = 1;

/**
 * Whether a server that counted in the last round must catch up before it counts again: it was restarted, lacks a table, or has lost Keeper
 * while another server has it, so that rows are written without it. While no server has Keeper nothing is written, and all of them
 * remain right for reading.
 */
export function mustCatchUp(
  before: CountedServer,
  now: ServerHealth,
  others: readonly ServerHealth[],
): 'restarted' | 'tables missing' | 'cut off' | undefined {
  if (now.startedAtSeconds > before.startedAtSeconds + roundingSeconds) return 'restarted';
  if (now.missing.length > 0) return 'tables missing';
  const hasKeeper = ({ replicas }: ServerHealth, path: string) =>
    replicas.some((replica) => replica.path === path && !replica.isReadOnly);
  const isCutOff = now.replicas.some(
    ({ isReadOnly, path }) => isReadOnly && others.some((other) => hasKeeper(other, path)),
  );
  return isCutOff ? 'cut off' : undefined;
}
