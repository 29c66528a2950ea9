// The settings of statements of callers.
import type { ClickHouseCluster } from '../connection/server.ts';
import type { WarehouseContext } from '../context.ts';

/**
 * For statements that read Distributed tables. Which replica of another shard is read, a server decides itself: it is to pick none that lacks
 * what was written two seconds ago or earlier. Changes are acknowledged when replicas have taken them over, or after as long.
 */
export const currentReplicas = ({ isReplicated, shardCount }: ClickHouseCluster) =>
  isReplicated && shardCount > 1
    ? { max_replica_delay_for_distributed_queries: 2, fallback_to_stale_replicas_for_distributed_queries: 0 }
    : {};

/** The limits of the warehouse, and what its statements may read. */
export const callerSettings = ({ spec, cluster }: WarehouseContext) => ({
  ...currentReplicas(cluster),
  max_threads: spec.threads,
  max_memory_usage: spec.memoryLimitBytes,
});

/** For statements that name what they compute: the columns of a table may have the same names. */
export const columnsBeforeAliases = { prefer_column_name_to_alias: 1 } as const;
