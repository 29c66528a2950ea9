// Tables that were dropped and can come back: they stay in their schema under a name of ours that no statement may use, made of
// the object's id. Whether such a table is there says whether it is hidden, so that none of this needs a step remembered.
import type { DuckDBConnection } from '@duckdb/node-api';
import type { CatalogRef, Change, DatabaseRef, HiddenDefinition, HiddenTable, TableRef } from '../../engine.ts';
import { ownPrefix, rowsOf } from '../instance/applied_steps.ts';
import { type Stage, stagesOf } from '../instance/progress.ts';
import { qualifiedSchema, qualifiedTable, quoteIdentifier, sameName } from '../sql/identifiers.ts';
import { createTableText, createUniqueKeyTexts, dropIndexText, nameList } from '../sql/table_ddl.ts';
import { copyWeights } from './table_statistics.ts';
import { dropViewsOf } from './views.ts';

const hiddenPrefix = `${ownPrefix}dropped_`;

/** The table of an object that is hidden in a database. */
export function droppedTableName(database: DatabaseRef, id: string): TableRef {
  return { catalog: database.catalog, database: database.database, table: `${hiddenPrefix}${id}` };
}

/** All in the caller's transaction, as everything here. Done before, it does nothing. */
export async function hideTables(
  connection: DuckDBConnection,
  database: DatabaseRef,
  tables: readonly { readonly id: string; readonly name: string }[],
): Promise<void> {
  const there = await tablesOf(connection, database);
  const indexes = Map.groupBy(await indexesOf(connection, database), ({ table }) => folded(table));
  for (const { id, name } of tables) {
    const hidden = droppedTableName(database, id);
    if (there.has(hidden.table) || !there.has(folded(name))) continue;
    const table: TableRef = { ...hidden, table: name };
    // A table with an index cannot be renamed; its definition, which the catalog keeps, makes the index again.
    for (const { index } of indexes.get(folded(name)) ?? []) await connection.run(dropIndexText(table, index));
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

/** What was hidden in the schema `from` comes back in `database`. What is not there any more came back before. */
export async function restoreTables(
  connection: DuckDBConnection,
  database: DatabaseRef,
  from: string,
  tables: readonly HiddenDefinition[],
  stage?: Stage,
): Promise<void> {
  const source: DatabaseRef = { catalog: database.catalog, database: from };
  const there = await tablesOf(connection, source);
  const found = tables.map((one) => ({ ...one, table: droppedTableName(source, one.id) }));
  const left = found.filter(({ table }) => there.has(table.table));
  const next = stagesOf(stage, await copyWeights(connection, left));
  for (const { name, definition, table: hidden } of left) {
    const table: TableRef = { catalog: database.catalog, database: database.database, table: name };
    next();
    if (sameName(from, database.database)) {
      await connection.run(`ALTER TABLE ${qualifiedTable(hidden)} RENAME TO ${quoteIdentifier(name)}`);
    } else {
      // DuckDB moves no table between schemas.
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

/** For good. */
export async function dropHidden(
  connection: DuckDBConnection,
  catalog: CatalogRef,
  hidden: readonly HiddenTable[],
): Promise<void> {
  for (const [database, tables] of Map.groupBy(hidden, (table) => table.database)) {
    const there = await tablesOf(connection, { catalog, database });
    for (const { id } of tables) {
      const table = droppedTableName({ catalog, database }, id);
      if (there.has(table.table)) await connection.run(`DROP TABLE ${qualifiedTable(table)}`);
    }
  }
}

/** A database with its tables; those that are hidden in it, of whatever database they were, stay, and the schema with them. */
export async function dropDatabase(connection: DuckDBConnection, database: DatabaseRef): Promise<void> {
  const there = [...(await tablesOf(connection, database)).values()];
  const kept = there.filter((name) => name.startsWith(hiddenPrefix));
  if (kept.length === 0 && !isMain(database)) {
    await connection.run(`DROP SCHEMA IF EXISTS ${qualifiedSchema(database)} CASCADE`);
    return;
  }
  await dropViewsOf(connection, database);
  for (const table of there)
    if (!table.startsWith(hiddenPrefix)) await connection.run(`DROP TABLE ${qualifiedTable({ ...database, table })}`);
}

export async function dropIfEmpty(connection: DuckDBConnection, database: DatabaseRef): Promise<void> {
  if (isMain(database) || (await tablesOf(connection, database)).size > 0) return;
  await connection.run(`DROP SCHEMA IF EXISTS ${qualifiedSchema(database)}`);
}

/** Every file has a schema of this name that DuckDB does not let go of. */
const isMain = ({ database }: DatabaseRef) => folded(database) === 'main';

/** As DuckDB does: ASCII letters alone. */
const folded = (name: string) => name.replace(/[A-Z]/g, (letter) => letter.toLowerCase());

/** Names of a database's tables by their folded form, hidden ones among them. */
async function tablesOf(connection: DuckDBConnection, database: DatabaseRef): Promise<Map<string, string>> {
  const rows = await rowsOf(
    connection,
    'SELECT schema_name, table_name FROM duckdb_tables() WHERE lower(database_name) = lower($1) AND lower(schema_name) = lower($2)',
    [database.catalog.name, database.database],
  );
  const own = rows.filter(([schema]) => sameName(String(schema), database.database));
  return new Map(own.map(([, table]) => [folded(String(table)), String(table)]));
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
