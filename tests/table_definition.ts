// The parts of a table's definition, other than its columns, that most tests of the port do not vary.
import type { TableDefinition } from '../src/model/records.ts';

/** No keys, and the default layout. */
export const plain: Omit<TableDefinition, 'columns'> = {
  primaryKey: [],
  uniqueKey: [],
  orderBy: [],
  partitionBy: [],
  distribution: { by: [], buckets: 1 },
  replicationNum: 1,
};
