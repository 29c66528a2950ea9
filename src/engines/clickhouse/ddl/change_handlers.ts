// How each kind of change is made on the servers. Local tables are renamed and dropped on every server that has them; Distributed tables
// have no rows and are made anew.

import { Failure } from '../../../standard/failure.ts';
import type { Change } from '../../port/changes.ts';
import type { CatalogRef, DatabaseRef, TableRef } from '../../port/refs.ts';
import { databasePrefix, hiddenDatabase, hiddenPrefix, localTableOf, namesOf, storedDatabase } from '../names.ts';
import { takeOverChanges } from '../replication/take_over.ts';
import { qualifiedName } from '../sql/identifiers.ts';
import type { ChangeOn } from './change_on.ts';
import { distribute } from './distribute.ts';
import { createLocalTable } from './local_table.ts';
import { type LocalRename, renameLocalTables, renameTable } from './rename_tables.ts';
import { createView, dropView, renameView, replaceView, restoreViews } from './views.ts';

type Kind = Exclude<Change['kind'], 'alterTable'>;
type Handlers = {
  readonly [K in Kind]: (on: ChangeOn, change: Extract<Change, { readonly kind: K }>) => Promise<void>;
};

const nameOf = ({ catalog, database, table }: TableRef) => namesOf({ catalog: catalog.name, database, table });
const databaseOf = ({ catalog, database }: DatabaseRef) => storedDatabase(catalog.name, database);

const handlers: Handlers = {
  // A catalog is a prefix of the names of its databases.
  createCatalog: async () => undefined,
  dropCatalog: (on, { catalog }) =>
    on.onEach(async (tables) => {
      for (const prefix of [databasePrefix(catalog.name), hiddenPrefix(catalog.id)])
        for (const database of await tables.databases(prefix)) await tables.dropDatabase(database);
      for (const database of await tables.databasesOf(catalog.id)) await tables.dropDatabase(database);
      await tables.dropDatabase(hiddenDatabase(catalog.id));
    }),
  renameCatalog: (on, { catalog, newName }) =>
    renameDatabases(on, databasePrefix(catalog.name), databasePrefix(newName)),
  // Its views are created again when it is restored, under whatever name.
  hideCatalog: async (on, { catalog }) => {
    await renameDatabases(on, databasePrefix(catalog.name), hiddenPrefix(catalog.id));
    await dropViews(on, hiddenPrefix(catalog.id));
  },
  restoreCatalog: async (on, { catalog, views = [] }) => {
    await renameDatabases(on, hiddenPrefix(catalog.id), databasePrefix(catalog.name));
    await dropViews(on, databasePrefix(catalog.name));
    await restoreViews(on, catalog, views);
  },
  createDatabase: (on, { database }) =>
    on.onEach((tables) => tables.createDatabaseOf(database.catalog.id, databaseOf(database))),
  dropDatabase: (on, { database, hidden = [] }) =>
    on.onEach(async (tables) => {
      await tables.dropDatabase(databaseOf(database));
      for (const { id } of hidden) await tables.dropTable(hiddenDatabase(database.catalog.id), id);
    }),
  hideDatabase: async (on, { database, tables }) => {
    for (const { id, name } of tables) await hideTable(on, { ...database, table: name }, id);
    await on.onEach((server) => server.dropDatabase(databaseOf(database)));
  },
  restoreDatabase: async (on, { database, tables, views = [] }) => {
    const restored = tables.map(({ name, ...rest }) => ({ ...rest, table: { ...database, table: name } }));
    const renames = restored.map(({ table, id }) => restoringOf(table, id));
    await renameLocalTables(on, renames, { catalogId: database.catalog.id, name: databaseOf(database) });
    for (const { table, definition } of restored) await distribute(on, table, definition);
    await restoreViews(on, database.catalog, views);
  },
  renameDatabase: async (on, { database, newName }) => {
    const to = storedDatabase(database.catalog.name, newName);
    await on.onEach((tables) => tables.renameDatabase(databaseOf(database), to));
    await on.onEach((tables) => tables.redistribute(on.cluster.name, to, localTableOf));
  },
  createTable: async (on, { table, definition }) => {
    const names = nameOf(table);
    const { isReplicated } = on.cluster;
    await on.onEach(async (tables) => {
      if (!(await tables.hasDatabase(names.database)))
        throw new Failure('CHANGE_IN_PROGRESS', 'the database is being changed; retry later');
      await createLocalTable(tables, { names, definition, step: on.step, isReplicated });
    });
    // Only now does every server have what a query of it reads.
    await distribute(on, table, definition);
  },
  dropTable: (on, { table }) =>
    on.onEach(async (tables) => {
      const { database, table: name, localTable } = nameOf(table);
      await tables.dropTable(database, name);
      await tables.dropTable(database, localTable);
    }),
  hideTable: (on, { table, id }) => hideTable(on, table, id),
  restoreTable: async (on, { table, id, definition }) => {
    await renameLocalTables(on, [restoringOf(table, id)]);
    await distribute(on, table, definition);
  },
  purge: (on, { catalog, hidden }) =>
    on.onEach(async (tables) => {
      for (const { id } of hidden) await tables.dropTable(hiddenDatabase(catalog.id), id);
    }),
  renameTable,
  truncateTable: async (on, { table }) => {
    const { database, localTable } = nameOf(table);
    const place = { database, table: localTable };
    await on.onEachCopy((tables) => tables.run(`TRUNCATE TABLE ${qualifiedName(place)}`));
    await takeOverChanges(on.cluster, place);
  },
  createView,
  replaceView,
  renameView,
  dropView: (on, { view }) => dropView(on, view),
};

type NamedKind = Change['kind'];
/** After these, tables have names that they did not have. Done again, they do nothing. */
export const givesNames: ReadonlySet<NamedKind> = new Set<NamedKind>([
  'renameCatalog',
  'restoreCatalog',
  'renameDatabase',
  'restoreDatabase',
  'renameTable',
  'restoreTable',
]);
/** After these, and those, objects no longer have the names that they had. Done again, they do nothing. */
export const takesNames: ReadonlySet<NamedKind> = new Set<NamedKind>([
  ...givesNames,
  'dropCatalog',
  'hideCatalog',
  'dropDatabase',
  'hideDatabase',
  'dropTable',
  'hideTable',
  'purge',
  'dropView',
]);

/** Pairs kinds and handlers, but the type checker loses the pairing in a lookup by a union type. */
export const changeHandlers = {
  async apply(on: ChangeOn, change: Extract<Change, { readonly kind: Kind }>): Promise<void> {
    if (keepsName(change)) return;
    const handle = handlers[change.kind] as (on: ChangeOn, change: Change) => Promise<void>;
    await handle(on, change);
    // Another process may have brought a server to what its peers had a moment ago (replication/reconcile.ts), after the change was made there.
    if (on.cluster.isReplicated && takesNames.has(change.kind)) await handle(on, change);
  },
};

/** An object can be renamed to the name that it has, which changes nothing on the servers. */
function keepsName(change: Change): boolean {
  switch (change.kind) {
    case 'renameCatalog':
      return change.catalog.name === change.newName;
    case 'renameDatabase':
      return change.database.database === change.newName;
    case 'renameTable':
      return change.table.table === change.newName;
    case 'renameView':
      return change.view.view === change.newName;
    default:
      return false;
  }
}

/** Distributed tables name the database that they read from, so that they are made anew when all servers have the new one. */
async function renameDatabases(on: ChangeOn, from: string, to: string): Promise<void> {
  await on.onEach(async (tables) => {
    for (const name of await tables.databases(from))
      await tables.renameDatabase(name, `${to}${name.slice(from.length)}`);
  });
  await on.onEach(async (tables) => {
    for (const name of await tables.databases(to)) await tables.redistribute(on.cluster.name, name, localTableOf);
  });
}

async function dropViews(on: ChangeOn, prefix: string): Promise<void> {
  await on.onEach(async (tables) => {
    for (const name of await tables.databases(prefix)) await tables.dropViews(name);
  });
}

async function hideTable(on: ChangeOn, table: TableRef, id: string): Promise<void> {
  const { database, table: name, localTable } = nameOf(table);
  const hidden = await hiddenIn(on, table.catalog);
  await on.onEach(async (tables) => {
    // Another table may have the name since.
    if (await tables.hasTable(hidden, id)) return;
    await tables.dropTable(database, name);
    await tables.renameTable({ database, table: localTable }, { database: hidden, table: id });
  });
}

/** Back from the database of dropped tables. */
function restoringOf(table: TableRef, id: string): LocalRename {
  const { database, localTable } = nameOf(table);
  return { from: { database: hiddenDatabase(table.catalog.id), table: id }, to: { database, table: localTable } };
}

async function hiddenIn(on: ChangeOn, catalog: CatalogRef): Promise<string> {
  const hidden = hiddenDatabase(catalog.id);
  await on.onEach((tables) => tables.createDatabase(hidden));
  return hidden;
}
