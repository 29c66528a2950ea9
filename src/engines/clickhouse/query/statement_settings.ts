// The settings of statements of callers, and of all that read Distributed tables.
import type { TableName } from '../../port/refs.ts';
import { uncountedMark } from '../connection/clickhouse_error.ts';
import type { ClickHouseCluster, ClickHouseServer, CountedReplicas } from '../connection/server.ts';
import { namesOf } from '../names.ts';
import { quoteLiteral } from '../sql/identifiers.ts';

type OnServer = Pick<ClickHouseServer, 'name'>;
type OfCluster = Pick<ClickHouseCluster, 'countedReplicas'>;

/**
 * For a statement on `server` that reads these tables. The server picks the replicas of other shards itself: one that does not count answers with an
 * error, and one that counts is picked first.
 */
export function readSettings(cluster: OfCluster, server: OnServer, tables: readonly TableName[]) {
  const counted = tables.length > 0 ? cluster.countedReplicas(server) : undefined;
  if (!counted) return {};
  const filter = quoteLiteral(filterOf(counted));
  const filters = tables.map((table) => {
    const { database, localTable } = namesOf(table);
    return `${quoteLiteral(`${database}.${localTable}`)}: ${filter}`;
  });
  return { ...picking(counted), additional_table_filters: `{${filters.join(', ')}}` };
}

/** For a statement on `server` that writes rows into a Distributed table. */
export function writeSettings(cluster: OfCluster, server: OnServer) {
  const counted = cluster.countedReplicas(server);
  return counted ? picking(counted) : {};
}

/**
 * A condition of constants, which a replica computes before it reads: a value that is computed with rows would be none where it has no rows
 * that the statement reads.
 */
const filterOf = ({ ids }: CountedReplicas): string => {
  const counts = `has([${ids.map(quoteLiteral).join(', ')}], toString(serverUUID()))`;
  return `toUInt8(if(${counts}, '1', ${quoteLiteral(uncountedMark)})) = 1`;
};

/** More than a server counts. */
const errorsMax = 1_000_000;

const picking = ({ first }: CountedReplicas) => ({
  ...(first === undefined
    ? { load_balancing: 'random' }
    : { load_balancing: 'first_or_random', load_balancing_first_offset: first }),
  // Whatever happened before, the first one is tried first, and no other one is asked because it is slow.
  distributed_replica_max_ignored_errors: errorsMax,
  use_hedged_requests: 0,
  max_replica_delay_for_distributed_queries: 0,
});

/** For statements that name what they compute: the columns of a table may have the same names. */
export const columnsBeforeAliases = { prefer_column_name_to_alias: 1 } as const;
