// The Distributed tables above the local ones.
import type { TableDefinition } from '../../../model/records.ts';
import type { TableRef } from '../../port/refs.ts';
import { namesOf } from '../names.ts';
import type { ChangeOn } from './change_on.ts';
import { createDistributedSql, shardingKey } from './table_sql.ts';

/** Creates the Distributed table on every server, or lets it have the columns that the local one has now. */
export async function distribute(
  on: ChangeOn,
  table: TableRef,
  definition: TableDefinition,
  key = shardingKey(definition),
): Promise<void> {
  const sql = createDistributedSql(on.cluster.name, namesOf({ ...table, catalog: table.catalog.name }), key);
  await on.onEach((tables) => tables.run(sql));
}
