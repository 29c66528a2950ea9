// The processes or servers that do the work of a warehouse, and what each of them stores.
import type { Availability } from '../cluster/registered_servers.ts';
import type { TableRef } from './refs.ts';

/** A process or server that does the work of a warehouse. */
export interface Backend {
  readonly name: string;
  /** The URL of a server, or a word for processes of this server. */
  readonly location: string;
}

export interface BackendStatus {
  readonly alive: boolean;
  /** Absent: it is available whenever it is enabled, because statements start it. */
  readonly availability?: Availability;
  readonly version: string | null;
  readonly cpuCores: number;
  readonly memoryUsedBytes: number;
  readonly memoryLimitBytes: number;
  readonly dataUsedBytes: number;
  readonly diskAvailableBytes: number;
  readonly diskTotalBytes: number;
  /** Size of the data on disk now that did not fit into memory. */
  readonly spilledBytes: number;
  readonly runningQueries: number;
  readonly lastStartAt: string | null;
  readonly lastHeartbeatAt: string | null;
  /** As of the last start; empty before the first. */
  readonly confinement: readonly ConfinementMeasure[];
  readonly errorMessage: string | null;
}

/** A restriction that the operating system enforces on the processes of an engine. */
export interface ConfinementMeasure {
  readonly measure: 'namespaces' | 'landlock' | 'seccomp';
  readonly active: boolean;
  /** Why it is not active. */
  readonly reason: string | null;
}

export interface Tablet {
  readonly id: string;
  /** Absent if it is the only tablet: it has the rows of the table. Null: unknown. */
  readonly statistics?: { readonly rowCount: number | null; readonly dataBytes: number | null };
  readonly replicas: readonly Replica[];
}

export interface Replica {
  /** The name of the backend that stores it. */
  readonly backend: string;
  /** Whether it can be read. */
  readonly isAvailable: boolean;
}

/** Where a warehouse stores its data. Starts no process: while the warehouse is suspended, this is what was last known. */
export interface Topology {
  tablets(table: TableRef): Promise<readonly Tablet[]>;
  /** The number of tablets of which a backend has a replica. `tableCount`: the number of tables of the warehouse. */
  tabletCount(backend: string, tableCount: () => Promise<number>): Promise<number>;
}
