// The specs of objects as stored in the metadata store and passed between modules. See resources/ for the records that callers see, and
// their validation. Ids never change and are never reused.
import type { LogicalType } from './types.ts';

export type Properties = Readonly<Record<string, string>>;

export interface CatalogSpec {
  readonly comment?: string;
  readonly properties?: Properties;
  /** The name of the warehouse that stores and queries the data of this catalog. */
  readonly warehouse: string;
}

export interface DatabaseSpec {
  readonly comment?: string;
  readonly properties?: Properties;
}

/** A column as the engine creates it. */
export interface ColumnDefinition {
  readonly name: string;
  readonly type: LogicalType;
  readonly nullable: boolean;
  /** A SQL literal or expression text without column references, bound by the engine; absent: no default. */
  readonly defaultValue?: string;
}

export interface ColumnSpec extends ColumnDefinition {
  readonly comment?: string;
  /** Set when the column is changed after the creation of the table; until then the history of the table applies. */
  readonly history?: {
    readonly createdAt: string;
    readonly createdBy: string;
    readonly updatedAt: string;
    readonly updatedBy: string;
    readonly version: number;
  };
}

/** What the rows of a table must be like. */
export interface TableStructure {
  readonly columns: readonly ColumnDefinition[];
  readonly primaryKey: readonly string[];
  /** The columns of a unique key in addition to the primary key; empty: none. */
  readonly uniqueKey: readonly string[];
}

/** Where and in which order the rows of a table are stored; an engine ignores what it cannot use. */
export interface TableLayout {
  readonly orderBy: readonly string[];
  readonly partitionBy: readonly string[];
  /** `buckets`: the number of tablets. */
  readonly distribution: { readonly by: readonly string[]; readonly buckets: number };
  /** The number of replicas of each tablet. */
  readonly replicationNum: number;
}

/** The part of a table that the engine creates. */
export interface TableDefinition extends TableStructure, TableLayout {}

export interface TableSpec extends TableDefinition {
  readonly columns: readonly ColumnSpec[];
  readonly comment?: string;
  readonly properties?: Properties;
}

/** A column as bound by the engine; the type in its canonical form. */
export interface ViewColumn {
  readonly name: string;
  readonly type: string;
}

export interface ViewSpec {
  readonly comment?: string;
  readonly properties?: Properties;
  /** The query as written. Unqualified names are resolved in the database of the view. */
  readonly sql: string;
  readonly columns: readonly ViewColumn[];
}

export interface TableStatistics {
  readonly rowCount: number;
  readonly dataBytes: number;
  /** RFC 3339; when the engine last reported them. */
  readonly asOf: string;
}

export interface WarehouseSpec {
  readonly engine: string;
  /** The server whose data directory has its data; absent if the store is not shared, or if all servers reach the data. */
  readonly serverId?: string;
  readonly comment?: string;
  readonly properties?: Properties;
  /** The desired state; see engines/warehouses/warehouses.ts for the actual one. */
  readonly suspended: boolean;
  readonly threads: number;
  readonly memoryLimitBytes: number;
  readonly spillLimitBytes: number;
  /** 0: never. */
  readonly autoSuspendSeconds: number;
  readonly autoResume: boolean;
  readonly queriesMax: number;
  readonly queueMax: number;
  readonly statementTimeoutSeconds: number;
  /** Present if the engine runs on a cluster of its own. Its limits of memory, threads and temporary disk space do not apply then. */
  readonly cluster?: ClusterSpec;
}

export interface ClusterSpec {
  /** By which its servers know it. */
  readonly name: string;
  readonly user: string;
  /** Changes whenever the password does, which is stored encrypted elsewhere. */
  readonly passwordVersion: number;
}

/** What a server of a cluster reported when it was registered. */
export interface ServerIdentity {
  /** Distinguishes it from other servers, whatever their URLs are. */
  readonly id: string;
  /** From 1. */
  readonly shard: number;
  /** Unique in the shard. */
  readonly replica: string;
  readonly shardCount: number;
  /** The number of replicas that the cluster is set up for, of each shard. */
  readonly replicaCount: number;
  /** The number of servers that its definition of the cluster has; absent where it was stored by an earlier release. */
  readonly memberCount?: number;
  /** Its place among the replicas of its shard in its definition of the cluster, from 1; absent where that does not say which of them it is. */
  readonly position?: number;
  /** Whether it can replicate tables. */
  readonly replicates: boolean;
}

export interface Decommission {
  readonly taskId: string;
  readonly startedAt: string;
  /** `dropping`: it can no longer be cancelled. */
  readonly phase: 'draining' | 'dropping' | 'done';
  /** Ids of the statements that were cancelled, none if absent. */
  readonly cancelled?: readonly string[];
  /** The number of tablets before the first one was dropped. */
  readonly tablets?: number;
  /** The run of the task that drops the tables, or has dropped them. No other one drops anything. */
  readonly run?: string;
}

export interface BackendSpec {
  readonly disabled: boolean;
  readonly location: string;
  readonly comment?: string;
  readonly zone?: string;
  /** Absent if the engine has no cluster. */
  readonly server?: ServerIdentity;
  /** Present from the begin of a decommission until the backend is enabled again; it is disabled meanwhile. */
  readonly decommission?: Decommission;
}
