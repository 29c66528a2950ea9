// The tables that the file of a catalog should contain according to the metadata store.
import type { ExpectedTable } from '../model/expected_table.ts';
import type { TableSpec } from '../model/records.ts';
import type { Store } from './store.ts';

/** Excludes tables with a change in progress. */
export async function expectedTables(store: Store, catalogId: string): Promise<ExpectedTable[]> {
  const rows = await store.db
    .selectFrom('objects as table')
    .innerJoin('objects as database', 'database.id', 'table.parent_id')
    .select(['database.name as database', 'table.name as table', 'table.spec as spec'])
    .where('database.parent_id', '=', catalogId)
    .where('table.category', '=', 'tables')
    .where('table.state', '=', 'ready')
    .where('database.state', '=', 'ready')
    .orderBy('database.name')
    .orderBy('table.name')
    .execute();
  return rows.map(({ database, table, spec }) => {
    const { columns } = JSON.parse(spec) as TableSpec;
    return { database, table, columns: columns.map(({ name, type }) => ({ name, type })) };
  });
}
