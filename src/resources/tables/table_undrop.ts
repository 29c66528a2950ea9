// A table that is dropped for a while, and how it comes back.
import type { CatalogObject } from '../../catalog/object.ts';
import type { Change } from '../../engines/engine.ts';
import type { CatalogSpec, TableSpec } from '../../model/records.ts';
import { Failure } from '../../standard/failure.ts';
import type { Context } from '../records/handler_context.ts';
import { type Restored, softDelete } from '../records/undrop.ts';
import { type TableChain, tableRef } from '../table_definitions/create_and_alter.ts';
import { definitionOf } from '../table_definitions/table_definition.ts';

export function softDeleteTable(query: { readonly purge?: boolean }, chain: TableChain, context: Context) {
  const table = tableRef(chain);
  const { id } = chain[2];
  return softDelete(query, context, {
    change: () => ({ kind: 'hideTable', table, id }),
    purge: { kind: 'purge', catalog: table.catalog, hidden: [{ database: table.database, id }], databases: [] },
  });
}

export async function requireUsableTableName(
  name: string,
  [root]: readonly CatalogObject[],
  context: Context,
): Promise<void> {
  const { warehouse } = (root as CatalogObject<CatalogSpec>).spec;
  const fault = (await context.warehouses.engineOf(warehouse)).reservedName('tables', name);
  if (fault !== undefined) throw new Failure('INVALID_NAME', fault, { name });
}

export function restoreTable({ object, name, parents, originalDatabase }: Restored<CatalogObject<TableSpec>>): Change {
  const [root, database] = parents as unknown as TableChain;
  const { id, spec } = object;
  const table = tableRef([root, database, { ...object, name, spec }]);
  return { kind: 'restoreTable', table, from: originalDatabase ?? database.name, id, definition: definitionOf(spec) };
}
