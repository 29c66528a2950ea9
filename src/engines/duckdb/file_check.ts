// Reads all of a catalog's file while no server has it: its headers, its log, and every block of its tables.
import { stat } from 'node:fs/promises';
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import { foldName } from '../../model/names.ts';
import type { LogicalType } from '../../model/types.ts';
import { faultOfPosition } from '../catalog_guard.ts';
import { DamagedFile, type RecordedPosition } from '../catalog_storage.ts';
import type { CatalogRef } from '../engine.ts';
import { catalogFile } from './catalog_files.ts';
import { damageIn } from './damage.ts';
import { duckdbStorage } from './file_position.ts';
import { quoteIdentifier, quoteLiteral } from './identifiers.ts';
import { ownSchema, rowsOf } from './steps.ts';
import { duckdbType, logicalTypeOf } from './types.ts';

/** A table as the metadata store describes it. */
export interface ExpectedTable {
  readonly database: string;
  readonly table: string;
  readonly columns: readonly { readonly name: string; readonly type: LogicalType }[];
}

/** @returns what is wrong, each in a sentence, and the size of the file. Changes nothing: the file is attached read-only. */
export async function checkCatalogFile(
  dataDirectory: string,
  catalog: CatalogRef,
  recorded: RecordedPosition | undefined,
  expected: readonly ExpectedTable[],
): Promise<{ readonly faults: readonly string[]; readonly bytes: number }> {
  const file = catalogFile(dataDirectory, catalog);
  const bytes = await stat(file).then(
    ({ size }) => size,
    () => 0,
  );
  try {
    const position = await duckdbStorage.position(dataDirectory, catalog.id);
    const lag = recorded && faultOfPosition(recorded, position);
    return {
      faults: [...(lag === undefined ? [] : [lag]), ...(await faultsWithin(file, recorded?.identity, expected))],
      bytes,
    };
  } catch (error) {
    if (error instanceof DamagedFile) return { faults: [error.message], bytes };
    throw error;
  }
}

async function faultsWithin(
  file: string,
  identity: string | undefined,
  expected: readonly ExpectedTable[],
): Promise<string[]> {
  const instance = await DuckDBInstance.create(':memory:');
  const connection = await instance.connect();
  try {
    await connection.run(`ATTACH ${quoteLiteral(file)} AS checked (READ_ONLY)`);
    const found = await rowsOf(
      connection,
      `SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = 'checked'`,
    );
    const faults: string[] = await differences(connection, expected);
    for (const [schema, table] of found) {
      const name = `checked.${quoteIdentifier(String(schema))}.${quoteIdentifier(String(table))}`;
      try {
        await rowsOf(connection, `SELECT bit_xor(hash(t)) FROM ${name} t`);
        if (schema === ownSchema && table === 'identity' && identity !== undefined) {
          const [row] = await rowsOf(connection, `SELECT id FROM ${name}`);
          if (row?.[0] !== identity) faults.push('its file is the file of another catalog');
        }
      } catch (error) {
        faults.push(`table ${JSON.stringify(`${schema}.${table}`)}: ${reasonOf(error)}`);
      }
    }
    return faults;
  } catch (error) {
    return [reasonOf(error)];
  } finally {
    connection.closeSync();
    instance.closeSync();
  }
}

/** Between what the store says of tables and what is in the file. */
async function differences(connection: DuckDBConnection, expected: readonly ExpectedTable[]): Promise<string[]> {
  const found = await rowsOf(
    connection,
    `SELECT schema_name, table_name, column_name, data_type FROM duckdb_columns() WHERE database_name = 'checked' AND NOT internal`,
  );
  const nameOf = (schema: unknown, table: unknown) => JSON.stringify(foldName(`${schema}.${table}`));
  const columns = Map.groupBy(found, ([schema, table]) => nameOf(schema, table));
  const faults: string[] = [];
  for (const { database, table, columns: wanted } of expected) {
    const has = columns.get(nameOf(database, table));
    const shown = `table ${JSON.stringify(`${database}.${table}`)}`;
    if (!has) {
      faults.push(`${shown}: it is not in the file`);
      continue;
    }
    const types = new Map(has.map(([, , column, type]) => [foldName(String(column)), String(type)]));
    for (const { name, type } of wanted) {
      const typeThere = types.get(foldName(name));
      if (typeThere === undefined) faults.push(`${shown}: its column ${JSON.stringify(name)} is not in the file`);
      else if (!isType(typeThere, type))
        faults.push(
          `${shown}: its column ${JSON.stringify(name)} is ${typeThere} in the file, not ${duckdbType(type)}`,
        );
    }
  }
  return faults;
}

function isType(text: string, type: LogicalType): boolean {
  const found = logicalTypeOf(text);
  return text === duckdbType(type) || (found !== undefined && duckdbType(found) === duckdbType(type));
}

const reasonOf = (error: unknown): string =>
  damageIn(error) ?? `cannot be read (${(error as Error).message.split('\n', 1)[0]})`;
