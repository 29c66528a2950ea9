// What the handlers of changes work on: the servers of a warehouse, for one step.
import type { AppliedView } from '../../port/views.ts';
import type { Cluster } from '../cluster/cluster.ts';
import type { ClickHouseServer } from '../connection/server.ts';
import type { WarehouseContext } from '../context.ts';
import type { ServerTables } from './server_tables.ts';

export interface ChangeOn {
  readonly context: WarehouseContext;
  readonly cluster: Cluster;
  readonly step: string;
  readonly signal: AbortSignal;
  readonly tablesOf: (server: ClickHouseServer) => ServerTables;
  /** The views that the change created or changed. */
  readonly reportViews: (views: readonly AppliedView[]) => void;
  readonly onEach: (work: (tables: ServerTables) => Promise<void>) => Promise<void>;
  /** On each server whose rows do not come from another one: one replica of each shard, or where servers cannot replicate, all of them. */
  readonly onEachCopy: (work: (tables: ServerTables) => Promise<void>) => Promise<void>;
}
