// The state of the replicas of one server, as it says itself.
import type { ClickHouseServer } from '../connection/server.ts';
import { quoteLiteral } from '../sql/identifiers.ts';
import { tableOfPath } from './replicated_tables.ts';

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

/** When a server started, by its own clock, in seconds since 1970, to within a second. */
export async function startOf(server: ClickHouseServer): Promise<number> {
  const sql = 'SELECT toUInt32(now()) - uptime() AS started';
  const [row] = await server.rows<{ started: number | string }>({ sql, timeoutMs: healthTimeoutMs });
  return Number(row?.started);
}
