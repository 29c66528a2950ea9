// Data directories with many tables, created quickly: one table is created through REST, then its row in the metadata store is
// copied with other names and ids (with the columns of catalog/changes/create_object.ts), and where necessary its table in the
// engine's file too. 100,000 tables take a few seconds instead of minutes.
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { newId } from '../../src/model/ids.ts';
import { foldName } from '../../src/model/names.ts';
import { openSqliteStore } from '../../src/store/sqlite/sqlite_store.ts';
import { TabulariumServer } from './server.ts';

export const filledDatabase = 'filled';
/** For statements, which take at most 32,766 parameters. */
const rowsPerInsert = 1000;

export const tableName = (n: number): string => `table_${String(n).padStart(6, '0')}`;
export const tablesPath = `/api/v2/catalogs/default/databases/${filledDatabase}/tables`;

const integers =
  'linenumber custkey partkey suppkey orderdate shippriority quantity extendedprice ordtotalprice discount revenue supplycost tax commitdate';
const column = (name: string, type: string) => ({ name: `lo_${name}`, type, nullable: false });

/** The 17 columns of the Star Schema Benchmark's `lineorder`. */
export const lineorderColumns = [
  column('orderkey', 'BIGINT'),
  ...integers.split(' ').map((name) => column(name, 'INT')),
  column('orderpriority', 'VARCHAR(15)'),
  column('shipmode', 'VARCHAR(10)'),
];

/** `inEngine`: also creates the tables in DuckDB's file, not only in the catalog. */
export async function fillStore(
  dataDirectory: string,
  tables: number,
  options: { readonly inEngine: boolean },
): Promise<void> {
  const server = await TabulariumServer.start({ dataDirectory, pinned: false });
  try {
    await server.createDatabase(filledDatabase);
    await server.createTable(filledDatabase, tableName(0), { columns: lineorderColumns });
  } finally {
    await server.stop();
  }
  await repeatRow(join(dataDirectory, 'metadata.sqlite'), tables);
  if (options.inEngine) await repeatInEngine(dataDirectory, tables);
}

async function repeatRow(file: string, tables: number): Promise<void> {
  const store = await openSqliteStore({ file });
  try {
    const row = await store.db
      .selectFrom('objects')
      .selectAll()
      .where('category', '=', 'tables')
      .where('name', '=', tableName(0))
      .executeTakeFirstOrThrow();
    await store.transaction(async (tx) => {
      for (let from = 1; from < tables; from += rowsPerInsert) {
        const numbers = Array.from({ length: Math.min(rowsPerInsert, tables - from) }, (_, i) => from + i);
        const rows = numbers.map((n) => ({
          ...row,
          id: newId(),
          name: tableName(n),
          folded_name: foldName(tableName(n)),
        }));
        await tx.insertInto('objects').values(rows).execute();
      }
    });
  } finally {
    await store.close();
  }
}

async function repeatInEngine(dataDirectory: string, tables: number): Promise<void> {
  const directory = join(dataDirectory, 'catalogs');
  const file = (await readdir(directory)).find((name) => name.endsWith('.duckdb')) as string;
  const instance = await DuckDBInstance.create(':memory:');
  const connection = await instance.connect();
  await connection.run(`ATTACH '${join(directory, file)}' AS c`);
  await connection.run('BEGIN');
  const template = `c."${filledDatabase}"."${tableName(0)}"`;
  for (let n = 1; n < tables; n++) {
    await connection.run(`CREATE TABLE c."${filledDatabase}"."${tableName(n)}" AS SELECT * FROM ${template} LIMIT 0`);
  }
  await connection.run('COMMIT');
  await connection.run('DETACH c');
  connection.closeSync();
  instance.closeSync();
}
