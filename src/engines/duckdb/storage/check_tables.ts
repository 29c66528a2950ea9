// Checks the tables of an attached file: compares them with the descriptions in the store, and reads all blocks of one.
import type { DuckDBConnection } from '@duckdb/node-api';
import type { ExpectedTable } from '../../../model/expected_table.ts';
import { foldName } from '../../../model/names.ts';
import type { LogicalType } from '../../../model/types.ts';
import type { CatalogFault, TableComparison } from '../../port/catalog_storage.ts';
import type { TableRef } from '../../port/refs.ts';
import { rowsOf } from '../instance/applied_steps.ts';
import { qualifiedTable } from '../sql/identifiers.ts';
import { duckdbType, logicalTypeOf } from '../types/type_mapping.ts';

/** `attachedAs`: the name under which the file is attached. */
export async function compareTables(
  connection: DuckDBConnection,
  attachedAs: string,
  expected: readonly ExpectedTable[],
): Promise<TableComparison> {
  const listed = await rowsOf(
    connection,
    'SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = $1',
    [attachedAs],
  );
  return {
    faults: await differences(connection, attachedAs, expected),
    tables: listed.map(([database, table]) => ({ database: String(database), table: String(table) })),
  };
}

/** @returns false if the table does not exist (any more). Throws the engine's error for a damaged block. */
export async function readWholeTable(connection: DuckDBConnection, table: TableRef): Promise<boolean> {
  try {
    await rowsOf(connection, `SELECT bit_xor(hash(t)) FROM ${qualifiedTable(table)} t`);
    return true;
  } catch (error) {
    if (error instanceof Error && /^(?:Binder|Catalog) Error/.test(error.message)) return false;
    throw error;
  }
}

async function differences(
  connection: DuckDBConnection,
  attachedAs: string,
  expected: readonly ExpectedTable[],
): Promise<CatalogFault[]> {
  const found = await rowsOf(
    connection,
    'SELECT schema_name, table_name, column_name, data_type FROM duckdb_columns() WHERE database_name = $1 AND NOT internal',
    [attachedAs],
  );
  const nameOf = (schema: unknown, table: unknown) => JSON.stringify(foldName(`${schema}.${table}`));
  const columns = Map.groupBy(found, ([schema, table]) => nameOf(schema, table));
  const faults: CatalogFault[] = [];
  for (const { database, table, columns: expectedColumns } of expected) {
    const actual = columns.get(nameOf(database, table));
    const differs = (reason: string) => faults.push({ kind: 'different', database, table, reason });
    if (!actual) {
      differs('it is missing from the file');
      continue;
    }
    const types = new Map(actual.map(([, , column, type]) => [foldName(String(column)), String(type)]));
    for (const { name, type } of expectedColumns) {
      const actualType = types.get(foldName(name));
      if (actualType === undefined) differs(`its column ${JSON.stringify(name)} is missing from the file`);
      else if (!isType(actualType, type))
        differs(
          `its column ${JSON.stringify(name)} has the type ${actualType} in the file instead of ${duckdbType(type)}`,
        );
    }
  }
  return faults;
}

function isType(text: string, type: LogicalType): boolean {
  const found = logicalTypeOf(text);
  return text === duckdbType(type) || (found !== undefined && duckdbType(found) === duckdbType(type));
}
