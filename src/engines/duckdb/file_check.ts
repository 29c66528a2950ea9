// Reads all of a catalog's file while no server has it: its headers, its log, and every block of its tables.
import { stat } from 'node:fs/promises';
import { DuckDBInstance } from '@duckdb/node-api';
import { faultOfPosition } from '../catalog_guard.ts';
import { DamagedFile, type RecordedPosition } from '../catalog_storage.ts';
import type { CatalogRef } from '../engine.ts';
import { catalogFile } from './catalog_files.ts';
import { damageIn } from './damage.ts';
import { duckdbStorage } from './file_position.ts';
import { quoteIdentifier, quoteLiteral } from './identifiers.ts';
import { ownSchema, rowsOf } from './steps.ts';

/** @returns what is wrong, each in a sentence, and the size of the file. Changes nothing: the file is attached read-only. */
export async function checkCatalogFile(
  dataDirectory: string,
  catalog: CatalogRef,
  recorded: RecordedPosition | undefined,
): Promise<{ readonly faults: readonly string[]; readonly bytes: number }> {
  const file = catalogFile(dataDirectory, catalog);
  const bytes = await stat(file).then(
    ({ size }) => size,
    () => 0,
  );
  try {
    const position = await duckdbStorage.position(dataDirectory, catalog.id);
    const lag = recorded && faultOfPosition(recorded, position);
    return { faults: [...(lag === undefined ? [] : [lag]), ...(await unreadable(file, recorded?.identity))], bytes };
  } catch (error) {
    if (error instanceof DamagedFile) return { faults: [error.message], bytes };
    throw error;
  }
}

async function unreadable(file: string, identity: string | undefined): Promise<string[]> {
  const instance = await DuckDBInstance.create(':memory:');
  const connection = await instance.connect();
  try {
    await connection.run(`ATTACH ${quoteLiteral(file)} AS checked (READ_ONLY)`);
    const found = await rowsOf(
      connection,
      `SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = 'checked'`,
    );
    const faults: string[] = [];
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

const reasonOf = (error: unknown): string =>
  damageIn(error) ?? `cannot be read (${(error as Error).message.split('\n', 1)[0]})`;
