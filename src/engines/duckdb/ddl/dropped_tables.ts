// Dropped tables that can be restored: they stay in their schema under an internal name that no statement may use, derived from the
// object's id. Whether a table with that name exists shows whether the object is dropped, so no step has to be recorded.
import type { DuckDBConnection } from '@duckdb/node-api';
import type { Change, DroppedTable, DroppedTableDefinition } from '../../port/changes.ts';
import type { CatalogRef, DatabaseRef, TableRef } from '../../port/refs.ts';
import { ownPrefix, rowsOf } from '../instance/applied_steps.ts';
import { type Stage, stagesOf } from '../instance/progress.ts';
import { foldedName, qualifiedSchema, qualifiedTable, quoteIdentifier, sameName } from '../sql/identifiers.ts';
import { createTableText, createUniqueKeyTexts, dropIndexText, nameList } from '../sql/table_ddl.ts';
import { copyWeights } from './table_statistics.ts';
import { dropViewsOf } from './views.ts';

const hiddenPrefix = `${ownPrefix}dropped_`;

/** The internal name of a dropped table. */
export function droppedTableName(database: DatabaseRef, id: string): TableRef {
  return { catalog: database.catalog, database: database.database, table: `${hiddenPrefix}${id}` };
}

/** Runs in the caller's transaction, like every function in this file. Idempotent. */
export async function hideTables(
  connection: DuckDBConnection,
  database: DatabaseRef,
  tables: readonly { readonly id: string; readonly name: string }[],
): Promise<void> {
  const existing = await tablesOf(connection, database);
  const indexes = Map.groupBy(await indexesOf(connection, database), ({ table }) => foldedName(table));
  for (const { id, name } of tables) {
    const hidden = droppedTableName(database, id);
    if (existing.has(hidden.table) || !existing.has(foldedName(name))) continue;
    const table: TableRef = { ...hidden, table: name };
    // A table with an index cannot be renamed; the index is created again from the definition in the metadata store.
    for (const { index } of indexes.get(foldedName(name)) ?? []) await connection.run(dropIndexText(table, index));
    await connection.run(`ALTER TABLE ${qualifiedTable(table)} RENAME TO ${quoteIdentifier(hidden.table)}`);
  }
}

export async function hideDatabase(
  connection: DuckDBConnection,
  { database, tables }: Extract<Change, { readonly kind: 'hideDatabase' }>,
): Promise<void> {
  await hideTables(connection, database, tables);
  await dropIfEmpty(connection, database);
}

/** Restores tables that were dropped in the schema `from` into `database`. A missing table was restored before. */
export async function restoreTables(
  connection: DuckDBConnection,
  database: DatabaseRef,
  from: string,
  tables: readonly DroppedTableDefinition[],
  stage?: Stage,
): Promise<void> {
  const source: DatabaseRef = { catalog: database.catalog, database: from };
  const existing = await tablesOf(connection, source);
  const dropped = tables.map((table) => ({ ...table, table: droppedTableName(source, table.id) }));
  const remaining = dropped.filter(({ table }) => existing.has(table.table));
  const next = stagesOf(stage, await copyWeights(connection, remaining));
  for (const { name, definition, table: hidden } of remaining) {
    const table: TableRef = { catalog: database.catalog, database: database.database, table: name };
    next();
    if (sameName(from, database.database)) {
      await connection.run(`ALTER TABLE ${qualifiedTable(hidden)} RENAME TO ${quoteIdentifier(name)}`);
    } else {
      // DuckDB cannot move a table between schemas.
      const columns = nameList(definition.columns.map((column) => column.name));
      await connection.run(createTableText(table, definition, { ifNotExists: false }));
      await connection.run(
        `INSERT INTO ${qualifiedTable(table)} (${columns}) SELECT ${columns} FROM ${qualifiedTable(hidden)}`,
      );
      await connection.run(`DROP TABLE ${qualifiedTable(hidden)}`);
    }
    next();
    for (const text of createUniqueKeyTexts(table, definition)) await connection.run(text);
  }
}

export async function restoreDatabase(
  connection: DuckDBConnection,
  { database, from, tables }: Extract<Change, { readonly kind: 'restoreDatabase' }>,
  stage?: Stage,
): Promise<void> {
  await connection.run(`CREATE SCHEMA IF NOT EXISTS ${qualifiedSchema(database)}`);
  await restoreTables(connection, database, from, tables, stage);
}

/** Drops hidden tables permanently. */
export async function dropHidden(
  connection: DuckDBConnection,
  catalog: CatalogRef,
  hidden: readonly DroppedTable[],
): Promise<void> {
  for (const [database, tables] of Map.groupBy(hidden, (table) => table.database)) {
    const existing = await tablesOf(connection, { catalog, database });
    for (const { id } of tables) {
      const table = droppedTableName({ catalog, database }, id);
      if (existing.has(table.table)) await connection.run(`DROP TABLE ${qualifiedTable(table)}`);
    }
  }
}

/** Drops a database with its tables. If its schema contains dropped tables that can be restored, these and the schema remain. */
export async function dropDatabase(connection: DuckDBConnection, database: DatabaseRef): Promise<void> {
  const existing = [...(await tablesOf(connection, database)).values()];
  const hasHidden = existing.some((name) => name.startsWith(hiddenPrefix));
  if (!hasHidden && !isMain(database)) {
    await connection.run(`DROP SCHEMA IF EXISTS ${qualifiedSchema(database)} CASCADE`);
    return;
  }
  await dropViewsOf(connection, database);
  for (const table of existing)
    if (!table.startsWith(hiddenPrefix)) await connection.run(`DROP TABLE ${qualifiedTable({ ...database, table })}`);
}

export async function dropIfEmpty(connection: DuckDBConnection, database: DatabaseRef): Promise<void> {
  if (isMain(database) || (await tablesOf(connection, database)).size > 0) return;
  await connection.run(`DROP SCHEMA IF EXISTS ${qualifiedSchema(database)}`);
}

/** Every DuckDB file has a schema of this name, which cannot be dropped. */
const isMain = ({ database }: DatabaseRef) => foldedName(database) === 'main';

/** The names of a database's tables by their folded form, including hidden tables. */
async function tablesOf(connection: DuckDBConnection, database: DatabaseRef): Promise<Map<string, string>> {
  const rows = await rowsOf(
    connection,
    'SELECT schema_name, table_name FROM duckdb_tables() WHERE lower(database_name) = lower($1) AND lower(schema_name) = lower($2)',
    [database.catalog.name, database.database],
  );
  const matching = rows.filter(([schema]) => sameName(String(schema), database.database));
  return new Map(matching.map(([, table]) => [foldedName(String(table)), String(table)]));
}

async function indexesOf(connection: DuckDBConnection, database: DatabaseRef) {
  const rows = await rowsOf(
    connection,
    'SELECT schema_name, table_name, index_name FROM duckdb_indexes() WHERE lower(database_name) = lower($1) AND lower(schema_name) = lower($2)',
    [database.catalog.name, database.database],
  );
  return rows
    .filter(([schema]) => sameName(String(schema), database.database))
    .map(([, table, index]) => ({ table: String(table), index: String(index) }));
}
