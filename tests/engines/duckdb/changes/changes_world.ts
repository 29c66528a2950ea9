// A DuckDB with one catalog and one database of hostile names, for tests of changes; and copies of its files as a crash would leave
// them.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import { applyChange } from '../../../../src/engines/duckdb/ddl/apply_change.ts';
import { quoteIdentifier } from '../../../../src/engines/duckdb/sql/identifiers.ts';
import { attachCatalog, catalogFile } from '../../../../src/engines/duckdb/storage/catalog_files.ts';
import type { Change } from '../../../../src/engines/port/changes.ts';
import type { CatalogRef, DatabaseRef, TableRef } from '../../../../src/engines/port/refs.ts';
import type { ColumnDefinition, TableDefinition } from '../../../../src/model/records.ts';
import { parseType } from '../../../../src/model/types.ts';
import { Failure } from '../../../../src/standard/failure.ts';
import { plain } from '../../../table_definition.ts';

const root = mkdtempSync(join(tmpdir(), 'tabularium-changes-'));
// Files that run in the same process share this module.
process.once('exit', () => rmSync(root, { recursive: true, force: true }));

export const hostileName = 'a "b" %/\\\' 😀 select.;--';

export interface World {
  readonly instance: DuckDBInstance;
  readonly connection: DuckDBConnection;
  readonly dataDirectory: string;
  readonly catalog: CatalogRef;
  readonly database: DatabaseRef;
  readonly table: TableRef;
  readonly apply: (change: Change, step?: string) => Promise<unknown>;
  readonly rows: (sql: string) => Promise<unknown[][]>;
}

export async function world(name = 'main catalog'): Promise<World> {
  const dataDirectory = mkdtempSync(join(root, 'data-'));
  mkdirSync(join(dataDirectory, 'catalogs'));
  const instance = await DuckDBInstance.create(':memory:', { threads: '2' });
  const connection = await instance.connect();
  const catalog: CatalogRef = { id: randomUUID(), name };
  const database: DatabaseRef = { catalog, database: hostileName };
  const self: World = {
    instance,
    connection,
    dataDirectory,
    catalog,
    database,
    table: { ...database, table: `t ${hostileName}` },
    apply: (change, step = randomUUID()) => applyChange(connection, change, { dataDirectory, step }),
    rows: async (sql) => (await connection.runAndReadAll(sql)).getRowsJson() as unknown[][],
  };
  await self.apply({ kind: 'createCatalog', catalog });
  await self.apply({ kind: 'createDatabase', database });
  return self;
}

export function column(name: string, type: string, options: Partial<ColumnDefinition> = {}): ColumnDefinition {
  return { name, type: parseType(type), nullable: true, ...options };
}

export function definition(columns: readonly ColumnDefinition[], keys: Partial<TableDefinition> = {}): TableDefinition {
  return { columns, ...plain, ...keys };
}

/** Everything in a catalog's file: structure and data, except names of indexes and times of steps. */
export async function dump(connection: DuckDBConnection, catalogName: string): Promise<unknown> {
  const read = async (sql: string): Promise<unknown[][]> =>
    (await connection.runAndReadAll(sql)).getRowsJson() as unknown[][];
  const filter = `database_name = '${catalogName.replaceAll("'", "''")}' AND schema_name <> '__tabularium'`;
  const columns = await read(
    `SELECT schema_name, table_name, column_index, column_name, data_type, column_default, is_nullable FROM duckdb_columns() WHERE ${filter} ORDER BY ALL`,
  );
  const constraints = await read(
    `SELECT schema_name, table_name, constraint_text FROM duckdb_constraints() WHERE ${filter} ORDER BY ALL`,
  );
  const indexes = await read(
    `SELECT schema_name, table_name, expressions FROM duckdb_indexes() WHERE ${filter} ORDER BY ALL`,
  );
  const schemas = await read(`SELECT schema_name FROM duckdb_schemas() WHERE ${filter} ORDER BY ALL`);
  const views = await read(`SELECT sql FROM duckdb_views() WHERE ${filter} AND NOT internal ORDER BY ALL`);
  const data: Record<string, unknown> = {};
  for (const [schema, table] of await read(
    `SELECT schema_name, table_name FROM duckdb_tables() WHERE ${filter} ORDER BY ALL`,
  )) {
    const from = [catalogName, String(schema), String(table)].map(quoteIdentifier).join('.');
    data[from] = await read(`SELECT t::VARCHAR FROM ${from} t ORDER BY ALL`);
  }
  return { schemas, columns, constraints, indexes, views, data };
}

/** The state that a process killed now would leave. */
export async function assertSurvives(fixture: World): Promise<void> {
  const copy = mkdtempSync(join(root, 'copy-'));
  mkdirSync(join(copy, 'catalogs'));
  for (const end of ['', '.wal']) {
    const file = catalogFile(fixture.dataDirectory, fixture.catalog) + end;
    if (existsSync(file)) copyFileSync(file, catalogFile(copy, fixture.catalog) + end);
  }
  const instance = await DuckDBInstance.create(':memory:', { threads: '1' });
  const connection = await instance.connect();
  await attachCatalog(connection, copy, fixture.catalog);
  assert.deepEqual(await dump(connection, fixture.catalog.name), await dump(fixture.connection, fixture.catalog.name));
  connection.closeSync();
  instance.closeSync();
}

/** Applied twice with one step, a change takes effect once; and it survives a crash. */
export async function requireIdempotent(fixture: World, change: Change): Promise<void> {
  const step = randomUUID();
  await fixture.apply(change, step);
  const first = await dump(fixture.connection, fixture.catalog.name);
  await fixture.apply(change, step);
  assert.deepEqual(await dump(fixture.connection, fixture.catalog.name), first);
  await assertSurvives(fixture);
}

export async function failureOf(work: Promise<unknown>): Promise<Failure> {
  try {
    await work;
  } catch (error) {
    if (error instanceof Failure) return error;
    throw error;
  }
  throw new assert.AssertionError({ message: 'it should have failed' });
}
