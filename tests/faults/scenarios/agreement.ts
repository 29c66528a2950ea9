// Reads what a stopped server left on disk, store and engine files alike, and reports where the two disagree or a change was left
// open. An empty list: every object is complete, and nothing is left over.
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { type DuckDBConnection, DuckDBInstance, type DuckDBValue } from '@duckdb/node-api';
import { quoteIdentifier, quoteLiteral } from '../../../src/engines/duckdb/sql/identifiers.ts';
import { duckdbType, logicalTypeOf } from '../../../src/engines/duckdb/types/type_mapping.ts';
import type { Change } from '../../../src/engines/port/changes.ts';
import { foldName } from '../../../src/model/names.ts';
import type { ColumnDefinition, TableSpec } from '../../../src/model/records.ts';
import { formatType } from '../../../src/model/types.ts';

interface StoredObject {
  readonly id: string;
  readonly category: string;
  readonly parent_id: string | null;
  readonly name: string;
  readonly state: string;
  readonly spec: string;
}

export async function storeEngineDifferences(dataDirectory: string): Promise<string[]> {
  const differences: string[] = [];
  const store = new DatabaseSync(join(dataDirectory, 'metadata.sqlite'));
  const read = <T>(sql: string) => store.prepare(sql).all() as unknown as T[];
  for (const intent of read<object>('select verb, change, attempts, last_error from intents')) {
    differences.push(`open intent: ${JSON.stringify(intent)}`);
  }
  const open = "select task_id, type, state from tasks where state not in ('succeeded', 'failed', 'cancelled')";
  for (const task of read<object>(open)) differences.push(`task without an end: ${JSON.stringify(task)}`);
  const objects = read<StoredObject>('select id, category, parent_id, name, state, spec from objects');
  const dropped = read<Kept>('select object_id, purge from dropped_objects');
  store.close();
  for (const { category, name, state } of objects) {
    if (state !== 'ready' && state !== 'dropped') differences.push(`${category} ${JSON.stringify(name)} is ${state}`);
  }
  differences.push(...(await fileDisagreements(join(dataDirectory, 'catalogs'), objects, dropped)));
  return differences;
}

/** A dropped object that can be restored. */
interface Kept {
  readonly object_id: string;
  readonly purge: string;
}

/** Tables that the engine hides in a catalog's file, as `line`s; and their schemas. */
function hiddenIn(catalogId: string, dropped: readonly Kept[]): { tables: string[]; schemas: Set<string> } {
  const tables: string[] = [];
  const schemas = new Set<string>();
  for (const { purge } of dropped) {
    const change = JSON.parse(purge) as Change;
    if (change.kind !== 'purge' || change.catalog.id !== catalogId) continue;
    for (const { database, id } of change.hidden) {
      schemas.add(foldName(database));
      tables.push(line('hidden table', foldName(database), id));
    }
  }
  return { tables, schemas };
}

async function fileDisagreements(
  directory: string,
  objects: readonly StoredObject[],
  dropped: readonly Kept[],
): Promise<string[]> {
  const differences: string[] = [];
  const catalogs = objects.filter(({ category }) => category === 'catalogs');
  const files = existsSync(directory) ? readdirSync(directory) : [];
  for (const file of files) {
    const id = file.replace(/\.duckdb(?:\.wal)?$/, '');
    if (!catalogs.some((catalog) => catalog.id === id)) differences.push(`a file without a catalog: ${file}`);
  }
  const instance = await DuckDBInstance.create(':memory:');
  const connection = await instance.connect();
  for (const catalog of catalogs) {
    const file = join(directory, `${catalog.id}.duckdb`);
    // The contents of a dropped catalog are checked as if it had not been dropped.
    const droppedDatabases = dropped.filter(({ object_id }) => object_id !== catalog.id);
    const isGone = ({ id }: StoredObject) => droppedDatabases.some(({ object_id }) => object_id === id);
    const databases = objects.filter((object) => object.parent_id === catalog.id && !isGone(object));
    const hidden = hiddenIn(catalog.id, droppedDatabases);
    if (!existsSync(file)) {
      // The file of the first catalog is created when its warehouse is first used.
      if (databases.length > 0) differences.push(`a catalog without a file: ${JSON.stringify(catalog.name)}`);
      continue;
    }
    await connection.run(`ATTACH ${quoteLiteral(file)} AS looked_at`);
    // Every file has a schema of this name, whether or not it is one of the databases.
    const isMainOurs = databases.some(({ name }) => name === 'main');
    const stored = objects.filter((object) => !isGone(object));
    const inStore = [...databases.flatMap((database) => describeDatabase(database, stored)), ...hidden.tables];
    const nameOf = (schema: string) =>
      databases.find(({ name }) => foldName(name) === foldName(schema))?.name ?? schema;
    const inFile = await describeFile(connection, nameOf);
    const databaseNames = new Set(databases.map(({ name }) => foldName(name)));
    const isOnlyHolder = (schema: string) =>
      hidden.schemas.has(foldName(schema)) && !databaseNames.has(foldName(schema));
    const tolerated = new Set([...(isMainOurs ? [] : ['main']), ...inFile.schemas.filter(isOnlyHolder)]);
    const actualLines = inFile.lines.filter(
      (text) => ![...tolerated].some((schema) => text === line('database', schema)),
    );
    differences.push(...compare(catalog.name, inStore, actualLines));
    await connection.run('DETACH looked_at');
  }
  connection.closeSync();
  instance.closeSync();
  return differences;
}

function compare(catalog: string, inStore: readonly string[], inFile: readonly string[]): string[] {
  const [stored, realised] = [new Set(inStore), new Set(inFile)];
  return [
    ...[...stored]
      .filter((line) => !realised.has(line))
      .map((line) => `catalog ${catalog}: only in the store: ${line}`),
    ...[...realised].filter((line) => !stored.has(line)).map((line) => `catalog ${catalog}: only in its file: ${line}`),
  ];
}

/** Prefix of the engine's names of dropped tables. */
const hiddenPrefix = '__tabularium_dropped_';

const line = (...parts: readonly unknown[]) => JSON.stringify(parts);

/** A line for each object that the engine should have, in the format of `describeFile`. */
function describeDatabase(database: StoredObject, objects: readonly StoredObject[]): string[] {
  const lines = [line('database', database.name)];
  const inIt = objects.filter(({ parent_id }) => parent_id === database.id);
  // The engine derives a view's columns when it is used; the recorded ones may be older.
  for (const view of inIt.filter(({ category }) => category === 'views'))
    lines.push(line('view', database.name, view.name));
  for (const table of inIt.filter(({ category }) => category === 'tables')) {
    const spec = JSON.parse(table.spec) as TableSpec;
    const path = [database.name, table.name];
    lines.push(line('table', ...path));
    lines.push(...spec.columns.map((column, i) => line('column', ...path, i + 1, ...describeColumn(column))));
    if (spec.primaryKey.length > 0) lines.push(line('primary key', ...path, spec.primaryKey));
    if (spec.uniqueKey.length > 0) lines.push(line('unique key', ...path));
  }
  return lines;
}

function describeColumn({ name, type, nullable, defaultValue }: ColumnDefinition) {
  return [name, engineType(duckdbType(type)), nullable ? 'nullable' : 'not null', defaultValue !== undefined];
}

function engineType(text: string): string {
  const type = logicalTypeOf(text);
  return type ? formatType(type) : text;
}

/** `nameOf`: the catalog's name of a schema; a rename in case only happens in the catalog alone. */
async function describeFile(
  connection: DuckDBConnection,
  nameOf: (schema: string) => string,
): Promise<{ readonly lines: string[]; readonly schemas: string[] }> {
  const lines: string[] = [];
  const schemas: string[] = [];
  const rows = async (from: string) => {
    const sql = `FROM ${from} WHERE database_name = 'looked_at' AND schema_name NOT IN ('__tabularium', 'information_schema', 'pg_catalog')`;
    const all = (await connection.runAndReadAll(sql)).getRowObjectsJS() as Record<string, DuckDBValue>[];
    const visibleTables = all.filter(({ table_name }) => !String(table_name).startsWith(hiddenPrefix));
    for (const { schema_name, table_name } of from === 'duckdb_tables()' ? all : []) {
      if (!String(table_name).startsWith(hiddenPrefix)) continue;
      lines.push(line('hidden table', foldName(String(schema_name)), String(table_name).slice(hiddenPrefix.length)));
    }
    return visibleTables.map(
      (row): Record<string, DuckDBValue> => ({ ...row, schema_name: nameOf(String(row.schema_name)) }),
    );
  };
  for (const { schema_name } of await rows('duckdb_schemas()')) {
    schemas.push(String(schema_name));
    lines.push(line('database', schema_name));
  }
  for (const { schema_name, table_name } of await rows('duckdb_tables()')) {
    lines.push(line('table', schema_name, table_name));
  }
  const views = new Set<string>();
  for (const { schema_name, view_name, internal } of await rows('duckdb_views()')) {
    if (internal) continue;
    lines.push(line('view', schema_name, view_name));
    views.add(line(schema_name, view_name));
  }
  for (const row of await rows('duckdb_columns()')) {
    if (views.has(line(row.schema_name, row.table_name))) continue;
    const definition = [
      row.column_name,
      engineType(String(row.data_type)),
      row.is_nullable ? 'nullable' : 'not null',
      row.column_default !== null,
    ];
    lines.push(line('column', row.schema_name, row.table_name, Number(row.column_index), ...definition));
  }
  for (const row of await rows('duckdb_constraints()')) {
    if (row.constraint_type !== 'PRIMARY KEY') continue;
    lines.push(line('primary key', row.schema_name, row.table_name, row.constraint_column_names));
  }
  for (const row of await rows('duckdb_indexes()')) {
    if (row.is_unique) lines.push(line('unique key', row.schema_name, row.table_name));
  }
  return { lines, schemas };
}

/** For messages: how a name of any kind is written in SQL. */
export const quoted = (path: readonly string[]) => path.map(quoteIdentifier).join('.');
