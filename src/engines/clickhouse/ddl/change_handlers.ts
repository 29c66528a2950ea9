// How each kind of change is made on the servers. Local tables are renamed and dropped on every server that has them; Distributed tables
// have no rows and are made anew.

import type { Change } from '../../port/changes.ts';
import type { CatalogRef, DatabaseRef, TableRef } from '../../port/refs.ts';
import { databasePrefix, hiddenDatabase, hiddenPrefix, namesOf, storedDatabase } from '../names.ts';
import { takeOverChanges } from '../replication/take_over.ts';
import { qualifiedName } from '../sql/identifiers.ts';
import { catalogDropped } from '../steps/dropped_catalogs.ts';
import type { ChangeOn } from './change_on.ts';
import { distribute } from './distribute.ts';
import { createLocalTable } from './local_table.ts';
import { renameDatabases } from './rename_databases.ts';
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
  dropCatalog: async (on, { catalog }) => {
    await on.onEach(async (tables) => {
      for (const database of await tables.databasesOf(catalog.id)) await tables.dropDatabase(database);
      await tables.dropDatabase(hiddenDatabase(catalog.id));
    });
    if (on.cluster.isReplicated) await on.context.steps.record(catalog, [catalogDropped]);
  },
  renameCatalog: (on, { catalog: { id, name }, newName }) =>
    renameDatabases(on, { catalogId: id, from: databasePrefix(name), to: databasePrefix(newName) }),
  // Its views are created again when it is restored, under whatever name.
  hideCatalog: async (on, { catalog: { id, name } }) => {
    await renameDatabases(on, { catalogId: id, from: databasePrefix(name), to: hiddenPrefix(id) });
    await dropViews(on, id, hiddenPrefix(id));
  },
  restoreCatalog: async (on, { catalog, views = [] }) => {
    const { id, name } = catalog;
    await renameDatabases(on, { catalogId: id, from: hiddenPrefix(id), to: databasePrefix(name) });
    await dropViews(on, id, databasePrefix(name));
    await restoreViews(on, catalog, views);
  },
  createDatabase: (on, { database }) =>
    on.onEach((tables) => tables.createDatabaseOf(database.catalog.id, databaseOf(database))),
  dropDatabase: (on, { database, hidden = [] }) =>
    on.onEach(async (tables) => {
      await tables.dropDatabaseOf(database.catalog.id, databaseOf(database));
      for (const { id } of hidden) await tables.dropTable(hiddenDatabase(database.catalog.id), id);
    }),
  hideDatabase: async (on, { database, tables }) => {
    for (const { id, name } of tables) await hideTable(on, { ...database, table: name }, id);
    await on.onEach((server) => server.dropDatabaseOf(database.catalog.id, databaseOf(database)));
  },
  restoreDatabase: async (on, { database, tables, views = [] }) => {
    const restored = tables.map(({ name, ...rest }) => ({ ...rest, table: { ...database, table: name } }));
    const renames = restored.map(({ table, id }) => restoringOf(table, id));
    await renameLocalTables(on, renames, { catalogId: database.catalog.id, name: databaseOf(database) });
    for (const { table, definition } of restored) await distribute(on, table, definition);
    await restoreViews(on, database.catalog, views);
  },
  renameDatabase: (on, { database, newName }) => {
    const { id: catalogId, name } = database.catalog;
    return renameDatabases(on, {
      catalogId,
      from: databaseOf(database),
      to: storedDatabase(name, newName),
      isWhole: true,
    });
  },
  createTable: async (on, { table, definition }) => {
    const names = nameOf(table);
    const { isReplicated } = on.cluster;
    await on.onEach(async (tables) => {
      await tables.requireDatabaseOf(table.catalog.id, names.database);
      await createLocalTable(tables, { names, definition, step: on.step, isReplicated });
    });
    // Only now does every server have what a query of it reads.
    await distribute(on, table, definition);
  },
  dropTable: (on, { table }) =>
    on.onEach(async (tables) => {
      const { database, table: name, localTable } = nameOf(table);
      if (!(await tables.hasTablesOf(table.catalog.id, database, [name, localTable]))) return;
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

async function dropViews(on: ChangeOn, catalogId: string, prefix: string): Promise<void> {
  await on.onEach(async (tables) => {
    for (const name of await tables.databasesOf(catalogId, prefix)) await tables.dropViews(name);
  });
}

async function hideTable(on: ChangeOn, table: TableRef, id: string): Promise<void> {
  const { database, table: name, localTable } = nameOf(table);
  const hidden = await hiddenIn(on, table.catalog);
  await on.onEach(async (tables) => {
    // Another table may have the name since, or another catalog that of the database.
    if (await tables.hasTable(hidden, id)) return;
    if (!(await tables.hasTablesOf(table.catalog.id, database, [name, localTable]))) return;
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
