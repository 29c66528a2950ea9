// Changes of objects, each in one transaction with the record of its step: every step is recorded, and a step that was undone, or that
// was applied before, does nothing.
import type { Change } from '../../../../src/engines/port/changes.ts';
import type { CatalogRef, DatabaseRef, TableRef } from '../../../../src/engines/port/refs.ts';
import { foldName } from '../../../../src/model/names.ts';
import type { TableDefinition } from '../../../../src/model/records.ts';
import { Failure } from '../../../../src/standard/failure.ts';
import {
  appliedStep,
  type Connection,
  fileName,
  findTable,
  recordStep,
  recordUndone,
  requireTable,
  type StoredTable,
} from './database.ts';
import { alterFileTable, createFileTable } from './tables.ts';

export interface ChangeCall {
  readonly change: Change;
  readonly step: string;
  readonly undoes?: string | undefined;
}

export function applyChange(on: Connection, { change, step, undoes }: ChangeCall): void {
  const catalog = catalogOf(change);
  if (appliedStep(on, catalog, step)) return;
  if (undoes !== undefined) recordUndone(on, catalog, undoes);
  handlerOf(change)(on, change);
  recordStep(on, catalog, step);
}

function catalogOf(change: Change): CatalogRef {
  if ('catalog' in change) return change.catalog;
  if ('database' in change) return change.database.catalog;
  return 'table' in change ? change.table.catalog : change.view.catalog;
}

type Handlers = { readonly [K in Change['kind']]: (on: Connection, change: Extract<Change, { kind: K }>) => void };

/** `handlers` pairs kinds and handlers, but the type checker loses the pairing in a lookup by a union type. */
function handlerOf(change: Change): (on: Connection, change: Change) => void {
  return handlers[change.kind] as (on: Connection, change: Change) => void;
}

/** The server refuses views before it calls the engine. */
function refuseView(): never {
  throw new Failure('NOT_SUPPORTED_BY_ENGINE', 'the engine does not support views');
}

const handlers: Handlers = {
  createCatalog: (on, { catalog: { id, name } }) => {
    on.run('INSERT INTO catalogs VALUES (?, ?, ?, 0) ON CONFLICT DO NOTHING', id, name, foldName(name));
  },
  dropCatalog: (on, { catalog }) => {
    for (const { id } of on.rows('SELECT id FROM tables WHERE catalog = ?', catalog.id)) dropFileTable(on, Number(id));
    on.run('DELETE FROM databases WHERE catalog = ?', catalog.id);
    on.run('DELETE FROM catalogs WHERE id = ?', catalog.id);
    on.run('UPDATE steps SET forgotten_at = ? WHERE catalog = ?', Date.now(), catalog.id);
  },
  renameCatalog: (on, { catalog, newName }) => {
    on.run('UPDATE catalogs SET name = ?, folded = ? WHERE id = ?', newName, foldName(newName), catalog.id);
  },
  hideCatalog: (on, { catalog }) => {
    on.run('UPDATE catalogs SET hidden = 1 WHERE id = ?', catalog.id);
  },
  restoreCatalog: (on, { catalog: { id, name } }) => {
    on.run('UPDATE catalogs SET hidden = 0, name = ?, folded = ? WHERE id = ?', name, foldName(name), id);
  },
  createDatabase: (on, { database }) => createDatabase(on, database),
  dropDatabase: (on, { database: { catalog, database }, hidden = [] }) => {
    const inside = 'SELECT id FROM tables WHERE catalog = ? AND database = ? AND hidden_id IS NULL';
    for (const { id } of on.rows(inside, catalog.id, foldName(database))) dropFileTable(on, Number(id));
    for (const { id } of hidden) purgeTable(on, catalog, id);
    on.run('DELETE FROM databases WHERE catalog = ? AND folded = ?', catalog.id, foldName(database));
  },
  hideDatabase: (on, { database: { catalog, database }, tables }) => {
    for (const { id, name } of tables) hideTable(on, { catalog, database, table: name }, id);
    on.run('DELETE FROM databases WHERE catalog = ? AND folded = ?', catalog.id, foldName(database));
  },
  restoreDatabase: (on, { database, tables }) => {
    createDatabase(on, database);
    for (const { id, name } of tables) restoreTable(on, { ...database, table: name }, id);
  },
  renameDatabase: (on, { database: { catalog, database }, newName }) => {
    const [from, to] = [foldName(database), foldName(newName)];
    on.run('UPDATE databases SET name = ?, folded = ? WHERE catalog = ? AND folded = ?', newName, to, catalog.id, from);
    // Dropped tables keep the name that the database had.
    const inside = 'catalog = ? AND database = ? AND hidden_id IS NULL';
    on.run(`UPDATE tables SET database = ?, version = version + 1 WHERE ${inside}`, to, catalog.id, from);
  },
  createTable: (on, { table, definition }) => createTable(on, table, definition),
  dropTable: (on, { table }) => {
    const found = findTable(on, table);
    if (found) dropFileTable(on, found.id);
  },
  hideTable: (on, { table, id }) => hideTable(on, table, id),
  restoreTable: (on, { table, id }) => restoreTable(on, table, id),
  purge: (on, { catalog, hidden }) => {
    for (const { id } of hidden) purgeTable(on, catalog, id);
  },
  renameTable: (on, { table, newName }) => {
    const { id } = requireTable(on, table);
    on.run(
      'UPDATE tables SET name = ?, folded = ?, version = version + 1 WHERE id = ?',
      newName,
      foldName(newName),
      id,
    );
  },
  truncateTable: (on, { table }) => {
    on.db.exec(`DELETE FROM ${fileName(requireTable(on, table).id)}`);
  },
  alterTable: (on, change) => {
    const { id } = requireTable(on, change.table);
    alterFileTable(on, fileName(id), change);
    const definition = JSON.stringify(change.to);
    on.run('UPDATE tables SET definition = ?, version = version + 1 WHERE id = ?', definition, id);
  },
  createView: refuseView,
  replaceView: refuseView,
  renameView: refuseView,
  dropView: refuseView,
};

function createDatabase(on: Connection, { catalog, database }: DatabaseRef): void {
  if (!on.row('SELECT 1 FROM catalogs WHERE id = ?', catalog.id))
    throw new Failure('CHANGE_IN_PROGRESS', 'the catalog is being changed; retry later');
  const insert = 'INSERT INTO databases VALUES (?, ?, ?) ON CONFLICT DO NOTHING';
  on.run(insert, catalog.id, database, foldName(database));
}

/** Does nothing if the table exists. */
export function createTable(on: Connection, ref: TableRef, definition: TableDefinition): void {
  if (findTable(on, ref)) return;
  const database = foldName(ref.database);
  if (!on.row('SELECT 1 FROM databases WHERE catalog = ? AND folded = ?', ref.catalog.id, database))
    throw new Failure('CHANGE_IN_PROGRESS', 'the database is being changed; retry later');
  const insert = `INSERT INTO tables (catalog, database, name, folded, definition, version) VALUES (?, ?, ?, ?, ?, 1)`;
  on.run(insert, ref.catalog.id, database, ref.table, foldName(ref.table), JSON.stringify(definition));
  createFileTable(on, fileName((findTable(on, ref) as StoredTable).id), definition);
}

function dropFileTable(on: Connection, id: number): void {
  on.db.exec(`DROP TABLE IF EXISTS ${fileName(id)}`);
  on.run('DELETE FROM tables WHERE id = ?', id);
}

function purgeTable(on: Connection, catalog: CatalogRef, hiddenId: string): void {
  const row = on.row('SELECT id FROM tables WHERE catalog = ? AND hidden_id = ?', catalog.id, hiddenId);
  if (row) dropFileTable(on, Number(row.id));
}

function hideTable(on: Connection, table: TableRef, hiddenId: string): void {
  const found = findTable(on, table);
  if (found) on.run('UPDATE tables SET hidden_id = ? WHERE id = ?', hiddenId, found.id);
}

function restoreTable(on: Connection, { catalog, database, table }: TableRef, hiddenId: string): void {
  const set = 'hidden_id = NULL, database = ?, name = ?, folded = ?, version = version + 1';
  const values = [foldName(database), table, foldName(table), catalog.id, hiddenId];
  on.run(`UPDATE tables SET ${set} WHERE catalog = ? AND hidden_id = ?`, ...values);
}
