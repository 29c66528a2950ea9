// A catalog on a real store and an engine in memory, with the calls that the handlers would make.
import { Catalog, type CatalogOptions } from '../../src/catalog/catalog.ts';
import type { CatalogObject, ObjectPath, SoftDelete } from '../../src/catalog/object.ts';
import type { TableDefinition } from '../../src/model/records.ts';
import { Failure } from '../../src/standard/failure.ts';
import { ChangeFeed } from '../../src/store/changes/change_feed.ts';
import type { Store } from '../../src/store/store.ts';
import type { StoreOptions, Stores } from '../stores.ts';
import { plain } from '../table_definition.ts';
import { EngineInMemory } from './engine_in_memory.ts';

export const principal = { id: 'root', name: 'root' };
export function path(...names: string[]): ObjectPath {
  return names.map((name, n) => ({ category: ['catalogs', 'databases', 'tables'][n] ?? 'columns', name }));
}

export function definition(...columns: string[]): TableDefinition & { readonly comment?: string } {
  return {
    columns: columns.map((name) => ({ name, type: { kind: 'INT' }, nullable: true })),
    ...plain,
  };
}

interface WarehouseOptions extends StoreOptions, Partial<Omit<CatalogOptions, 'store'>> {
  readonly engine?: EngineInMemory;
}

export class WarehouseInTest {
  readonly stores: Stores;
  readonly place: string;
  readonly store: Store;
  readonly changes: ChangeFeed;
  readonly engine: EngineInMemory;
  readonly catalog: Catalog;

  constructor(
    {
      stores,
      place,
      store,
      changes,
    }: { readonly stores: Stores; readonly place: string; readonly store: Store; readonly changes: ChangeFeed },
    engine: EngineInMemory,
    options: Partial<CatalogOptions> = {},
  ) {
    this.stores = stores;
    this.place = place;
    this.store = store;
    this.changes = changes;
    this.engine = engine;
    this.catalog = new Catalog({ store, changes, engineOf: async () => engine, ...options });
  }

  static async open(stores: Stores, options: WarehouseOptions = {}): Promise<WarehouseInTest> {
    const { place: existing, inject, isShared, engine = new EngineInMemory(), ...rest } = options;
    const { store, place } = await stores.open({ place: existing, inject, isShared });
    const changes = await ChangeFeed.open({ store, serverId: 'test', observe: () => {} });
    return new WarehouseInTest({ stores, place, store, changes }, engine, rest);
  }

  /** The place of a copy of the store as a kill -9 at this moment would leave it. */
  storeAfterKill(): Promise<string> {
    return this.stores.afterKill(this.place);
  }

  async close(): Promise<void> {
    await this.store.close();
    await this.stores.remove(this.place);
  }

  async createCatalog(name: string): Promise<CatalogObject> {
    const change = (id: string) => ({ kind: 'createCatalog', catalog: { id, name } }) as const;
    const undoCreate = (id: string) => ({ kind: 'dropCatalog', catalog: { id, name } }) as const;
    const spec = { warehouse: 'w' };
    const request = {
      parent: null,
      category: 'catalogs',
      name,
      spec,
      principal,
      warehouse: 'w',
      change,
      undo: undoCreate,
    } as const;
    return (await this.catalog.create({ ...request, ifExists: 'fail' })).object;
  }

  async createDatabase(catalogName: string, name: string, ifExists: 'fail' | 'return' = 'fail') {
    return this.catalog.retrying(async () => {
      const [parent] = await this.catalog.require(path(catalogName));
      const database = { catalog: { id: parent!.id, name: parent!.name }, database: name };
      return this.catalog.create({
        parent: parent!,
        category: 'databases',
        name,
        spec: {},
        principal,
        warehouse: 'w',
        change: { kind: 'createDatabase', database },
        undo: { kind: 'dropDatabase', database },
        ifExists,
      });
    });
  }

  async createTable(catalogName: string, databaseName: string, name: string, ifExists: 'fail' | 'return' = 'fail') {
    return this.catalog.retrying(async () => {
      const [catalog, parent] = await this.catalog.require(path(catalogName, databaseName));
      const table = { catalog: { id: catalog!.id, name: catalogName }, database: databaseName, table: name };
      const spec = definition('a');
      return this.catalog.create({
        parent: parent!,
        category: 'tables',
        name,
        spec,
        principal,
        warehouse: 'w',
        change: { kind: 'createTable', table, definition: spec },
        undo: { kind: 'dropTable', table },
        ifExists,
      });
    });
  }

  async alterTable(
    names: readonly [string, string, string],
    to: ReturnType<typeof definition>,
    more: { readonly asTask?: boolean; readonly expectedVersion?: number } = {},
  ) {
    return this.catalog.retrying(async () => {
      const [catalog, database, table] = await this.catalog.require(path(...names));
      const ref = { catalog: { id: catalog!.id, name: names[0] }, database: database!.name, table: names[2] };
      const from = table!.spec as TableDefinition;
      return this.catalog.update(table!, {
        spec: to,
        principal,
        warehouse: 'w',
        change: { kind: 'alterTable', table: ref, from, to, renamedColumns: {} },
        expectedVersion: more.expectedVersion,
        task: more.asTask ? { type: 'alter_table', target: '/t', request: {} } : undefined,
      });
    });
  }

  async rename(names: readonly string[], newName: string) {
    return this.catalog.retrying(async () => {
      const chain = await this.catalog.require(path(...names));
      const catalog = { id: chain[0]!.id, name: chain[0]!.name };
      const database = { catalog, database: names[1] ?? '' };
      const isDatabase = names.length === 2;
      const expected = isDatabase ? await this.catalog.list(chain.at(-1)!.id, 'tables', { limit: 1000 }) : [];
      const tables = expected.map(({ name, spec }) => ({ name, definition: spec as TableDefinition }));
      const change =
        names.length === 1
          ? ({ kind: 'renameCatalog', catalog, newName } as const)
          : isDatabase
            ? ({ kind: 'renameDatabase', database, newName, tables } as const)
            : ({
                kind: 'renameTable',
                table: { ...database, table: names[2] ?? '' },
                newName,
                definition: chain[2]!.spec as TableDefinition,
              } as const);
      const children = isDatabase ? ({ category: 'tables', expected } as const) : undefined;
      return this.catalog.update(chain.at(-1)!, { name: newName, principal, warehouse: 'w', change, children });
    });
  }

  async drop(names: readonly string[], cascade = false): Promise<boolean> {
    return this.catalog.retrying(async () => {
      const chain = await this.catalog.find(path(...names));
      if (!chain) return false;
      const catalog = { id: chain[0]!.id, name: chain[0]!.name };
      const database = { catalog, database: names[1] ?? '' };
      const change =
        names.length === 1
          ? ({ kind: 'dropCatalog', catalog } as const)
          : names.length === 2
            ? ({ kind: 'dropDatabase', database } as const)
            : ({ kind: 'dropTable', table: { ...database, table: names[2] ?? '' } } as const);
      return this.catalog.drop(chain.at(-1)!, { principal, cascade, warehouse: 'w', change });
    });
  }

  /** A soft drop: it can be undone for `seconds`. */
  async hide(names: readonly string[], seconds: number): Promise<boolean> {
    return this.catalog.retrying(async () => {
      const chain = await this.catalog.find(path(...names));
      const [root, , table] = chain ?? [];
      if (!chain || !root) return false;
      const catalog = { id: root.id, name: root.name };
      const database = { catalog, database: names[1] ?? '' };
      const hidden = table ? [{ database: database.database, id: table.id }] : [];
      const ofCatalog = { kind: 'dropCatalog', catalog: { id: root.id, name: 'dropped' } } as const;
      const purge =
        names.length === 1
          ? ofCatalog
          : ({ kind: 'purge', catalog, hidden, databases: table ? [] : [database.database] } as const);
      const change: SoftDelete['change'] = ({ children: tables }) =>
        names.length === 1
          ? { kind: 'hideCatalog', catalog }
          : table
            ? { kind: 'hideTable', table: { ...database, table: table.name }, id: table.id }
            : { kind: 'hideDatabase', database, tables };
      const keep = { seconds, change, purge };
      const request = { principal, cascade: true, warehouse: 'w', keep };
      return this.catalog.drop(chain.at(-1)!, { ...request, change: purge });
    });
  }

  async undrop(names: readonly string[], newName: string) {
    return this.catalog.retrying(async () => {
      const parents = await this.catalog.require(path(...names.slice(0, -1)));
      const category = path(...names).at(-1)!.category;
      const name = names.at(-1)!;
      const [dropped] = await this.catalog.findDropped(parents.at(-1)?.id ?? null, category, { name });
      if (!dropped) throw new Failure('OBJECT_NOT_FOUND', `no dropped object is named ${name}`);
      const { id, spec } = dropped.object;
      const [root, database] = parents;
      const catalog = { id: root?.id ?? id, name: root?.name ?? newName };
      return this.catalog.undrop(dropped, {
        newName,
        principal,
        change: (children) => {
          if (!root) return { kind: 'restoreCatalog', catalog };
          if (database) {
            const table = { catalog, database: database.name, table: newName };
            return { kind: 'restoreTable', table, from: database.name, id, definition: spec as TableDefinition };
          }
          const tables = children.map((child) => ({
            id: child.id,
            name: child.name,
            definition: child.spec as TableDefinition,
          }));
          return { kind: 'restoreDatabase', database: { catalog, database: newName }, from: name, tables };
        },
      });
    });
  }

  /** What readers see, in the format of `EngineInMemory.contents`. */
  async contents(): Promise<string[]> {
    const contents: string[] = [];
    for (const catalog of await this.catalog.list(null, 'catalogs', { limit: 1000 })) {
      contents.push(catalog.name);
      for (const database of await this.catalog.list(catalog.id, 'databases', { limit: 1000 })) {
        contents.push(`${catalog.name}.${database.name}`);
        for (const table of await this.catalog.list(database.id, 'tables', { limit: 1000 })) {
          contents.push(`${catalog.name}.${database.name}.${table.name}=${JSON.stringify(table.spec)}`);
        }
      }
    }
    return contents.sort();
  }

  /** Objects in an intermediate state, and intents: both must be empty after recovery. */
  async unsettledObjects(): Promise<unknown[]> {
    return [
      ...(await this.store.db.selectFrom('objects').select(['name', 'state']).where('state', '!=', 'ready').execute()),
      ...(await this.store.db.selectFrom('intents').selectAll().execute()),
    ];
  }
}
