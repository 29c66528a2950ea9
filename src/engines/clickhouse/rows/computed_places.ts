// Rows whose shard or partition follows from a default that each attempt to insert them computes anew, such as `now()`. Servers recognize rows that they
// have stored by the token of the insert: sent again, such rows would meet others, which store them twice, or take them for those that they have.
import type { TableDefinition } from '../../../model/records.ts';
import type { RowsBatch } from '../../port/rows.ts';
import type { ClickHouseCluster } from '../connection/server.ts';
import { shardingColumns } from '../ddl/table_sql.ts';

type Cluster = Pick<ClickHouseCluster, 'isReplicated' | 'shardCount' | 'replicasOfShard'>;

/** Any other default may have another value each time. */
const literal = /^(?:[-+]?[\d.]+(?:e[-+]?\d+)?|'(?:[^'\\]|'')*'|true|false|null)$/i;

export function haveComputedPlaces(cluster: Cluster, definition: TableDefinition, batch: RowsBatch): boolean {
  const given = new Set(batch.columns.map(({ name }) => name));
  for (const { column } of batch.omitted ?? []) given.delete(batch.columns[column]?.name ?? '');
  const computed = definition.columns.flatMap(({ name, defaultValue }) =>
    given.has(name) || defaultValue === undefined || literal.test(defaultValue.trim()) ? [] : [name],
  );
  // Each copy that does not replicate would have values of its own.
  if (!cluster.isReplicated && cluster.replicasOfShard > 1) return computed.length > 0;
  const places = [...definition.partitionBy, ...(cluster.shardCount > 1 ? shardingColumns(definition) : [])];
  return computed.some((name) => places.includes(name));
}
