// Compares the tables of a catalog on each server with those that the store describes.
import type { ExpectedTable } from '../../../model/expected_table.ts';
import type { CatalogFault, TableComparison } from '../../port/catalog_storage.ts';
import { isLocal, parsedDatabase, parsedTable } from '../names.ts';
import { serverType } from '../types/type_mapping.ts';

/** A column of a table on a server, by the names there. */
export interface StoredColumn {
  readonly database: string;
  readonly table: string;
  readonly name: string;
  readonly type: string;
}

type Columns = ReadonlyMap<string, string>;

const keyOf = (database: string, table: string): string => JSON.stringify([database, table]);

/** `servers`: the columns of each. A table is different if one of them has it in another form. */
export function comparedTables(
  expected: readonly ExpectedTable[],
  servers: readonly (readonly StoredColumn[])[],
): TableComparison {
  const faults = new Map<string, CatalogFault>();
  const tables = new Map<string, { readonly database: string; readonly table: string }>();
  for (const columns of servers) {
    const stored = storedTables(columns);
    for (const { database, table } of stored.values()) tables.set(keyOf(database, table), { database, table });
    for (const each of expected) {
      const fault = faultOf(each, stored.get(keyOf(each.database, each.table))?.columns);
      const { database, table } = each;
      if (fault) faults.set(keyOf(database, table), { kind: 'different', database, table, reason: fault });
    }
  }
  return { faults: [...faults.values()], tables: [...tables.values()] };
}

function storedTables(columns: readonly StoredColumn[]) {
  const found = new Map<string, { database: string; table: string; columns: Map<string, string> }>();
  for (const { database: stored, table: storedTable, name, type } of columns) {
    const parsed = parsedDatabase(stored);
    // A dropped table has its id as its name; the Distributed tables have no rows.
    if (parsed && !isLocal(storedTable)) continue;
    const database = parsed?.database ?? stored;
    const table = parsed ? parsedTable(storedTable) : storedTable;
    const key = keyOf(database, table);
    const known = found.get(key) ?? { database, table, columns: new Map<string, string>() };
    found.set(key, known);
    known.columns.set(name, type);
  }
  return found;
}

/** Undefined if the columns are those that are expected, in any order. */
function faultOf({ columns: expected }: ExpectedTable, stored: Columns | undefined): string | undefined {
  if (!stored) return 'a server does not have it';
  const different = expected.find(({ name, type }) => {
    const found = plainText(stored.get(name) ?? '');
    return found !== plainText(serverType(type, true)) && found !== plainText(serverType(type, false));
  });
  if (different) return `its column ${JSON.stringify(different.name)} is missing or has another type`;
  return expected.length === stored.size ? undefined : 'it has other columns';
}

/** Servers write long types on several lines. */
const plainText = (type: string): string => type.replaceAll(/\s+/g, '');
