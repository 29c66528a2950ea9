// An engine that stores only names, for tests of the catalog alone. It implements the port: steps are atomic, idempotent and
// recorded. `fault` is called before and after each step; the engine throws what it throws.

import type { CatalogEngine } from '../../src/catalog/changes/change_context.ts';
import type { Change, ChangeCost } from '../../src/engines/port/changes.ts';
import { Failure } from '../../src/standard/failure.ts';

type Databases = Map<string, Map<string, unknown>>;

export class EngineInMemory implements CatalogEngine {
  readonly catalogs = new Map<string, { name: string; readonly databases: Databases }>();
  /** Dropped objects that can be restored, by id. */
  readonly hidden = new Map<string, unknown>();
  readonly steps = new Set<string>();
  readonly forgotten: string[] = [];
  calls = 0;
  costs: ChangeCost = 'instant';
  fault: (point: { readonly when: 'before' | 'after'; readonly change: Change; readonly call: number }) => void =
    () => {};
  /** A step awaits this first. */
  gate: (signal: AbortSignal) => Promise<void> = async () => {};

  /** The next steps end only when they are cancelled. Resolves when the first of them has begun. */
  workUntilCancelled(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.gate = (signal) =>
      new Promise((_, reject) => {
        signal.addEventListener('abort', () => reject(new Failure('STATEMENT_CANCELLED', 'stopped')));
        resolve();
      });
    return promise;
  }

  async cost(): Promise<ChangeCost> {
    return this.costs;
  }

  async forget(_catalog: unknown, steps: readonly string[]): Promise<void> {
    for (const step of steps) this.steps.delete(step);
    this.forgotten.push(...steps);
  }

  async apply(
    change: Change,
    { step, signal }: { readonly step: string; readonly signal: AbortSignal },
  ): Promise<undefined> {
    const call = ++this.calls;
    this.fault({ when: 'before', change, call });
    await this.gate(signal);
    await Promise.resolve();
    if (!this.steps.has(step)) this.#apply(change);
    this.steps.add(step);
    this.fault({ when: 'after', change, call });
  }

  /** `catalog.database.table=definition`, sorted. */
  contents(): string[] {
    const contents: string[] = [];
    for (const { name, databases } of this.catalogs.values()) {
      contents.push(name);
      for (const [database, tables] of databases) {
        contents.push(`${name}.${database}`);
        for (const [table, definition] of tables)
          contents.push(`${name}.${database}.${table}=${JSON.stringify(definition)}`);
      }
    }
    return contents.sort();
  }

  /** The same of an engine that has to be asked. */
  async contentsNow(): Promise<string[]> {
    return this.contents();
  }

  /** What of contents an engine keeps: the others compare names exactly. */
  comparable: (contents: readonly string[]) => string[] = (contents) => [...contents];

  #apply(change: Change): void {
    switch (change.kind) {
      case 'createCatalog':
        this.catalogs.set(change.catalog.id, { name: change.catalog.name, databases: new Map() });
        break;
      case 'dropCatalog':
        this.catalogs.delete(change.catalog.id);
        this.hidden.delete(change.catalog.id);
        // One file holds them all.
        for (const [id, dropped] of this.hidden)
          if ((dropped as { catalogId?: string }).catalogId === change.catalog.id) this.hidden.delete(id);
        break;
      case 'renameCatalog':
        this.#catalog(change.catalog).name = change.newName;
        break;
      case 'createDatabase':
        this.#catalog(change.database.catalog).databases.set(change.database.database, new Map());
        break;
      case 'dropDatabase':
        this.catalogs.get(change.database.catalog.id)?.databases.delete(change.database.database);
        break;
      case 'renameDatabase':
        rename(this.#catalog(change.database.catalog).databases, change.database.database, change.newName);
        break;
      case 'createTable':
        this.#tables(change).set(change.table.table, change.definition);
        break;
      case 'dropTable':
        this.catalogs.get(change.table.catalog.id)?.databases.get(change.table.database)?.delete(change.table.table);
        break;
      case 'renameTable':
        rename(this.#tables(change), change.table.table, change.newName);
        break;
      case 'alterTable':
        if (!this.#tables(change).has(change.table.table)) throw new Error('there is no such table');
        this.#tables(change).set(change.table.table, change.to);
        break;
      case 'truncateTable':
        break;
      default:
        this.#applyToDropped(change);
    }
  }

  /** Dropped objects that can be restored: hidden, restored, deleted. */
  #applyToDropped(change: Change): void {
    switch (change.kind) {
      case 'hideCatalog': {
        const { catalog } = change;
        if (this.catalogs.has(catalog.id)) this.hidden.set(catalog.id, this.catalogs.get(catalog.id));
        this.catalogs.delete(catalog.id);
        break;
      }
      case 'restoreCatalog': {
        const { id, name } = change.catalog;
        const dropped = this.hidden.get(id) as { databases: Databases } | undefined;
        if (!dropped) break;
        this.catalogs.set(id, { name, databases: dropped.databases });
        this.hidden.delete(id);
        break;
      }
      case 'hideDatabase': {
        const databases = this.#catalog(change.database.catalog).databases;
        const { catalog, database } = change.database;
        for (const { id, name } of change.tables) this.#hide(catalog.id, databases.get(database), id, name);
        databases.delete(change.database.database);
        break;
      }
      case 'restoreDatabase': {
        const databases = this.#catalog(change.database.catalog).databases;
        const tables = new Map<string, unknown>();
        databases.set(change.database.database, tables);
        for (const { id, name } of change.tables) this.#restore(tables, id, name);
        break;
      }
      case 'hideTable':
        this.#hide(change.table.catalog.id, this.#tables(change), change.id, change.table.table);
        break;
      case 'restoreTable':
        this.#restore(this.#tables(change), change.id, change.table.table);
        break;
      case 'purge':
        for (const { id } of change.hidden) this.hidden.delete(id);
        break;
    }
  }

  #hide(catalogId: string, tables: Map<string, unknown> | undefined, id: string, name: string): void {
    if (!tables?.has(name)) return;
    this.hidden.set(id, { catalogId, definition: tables.get(name) });
    tables.delete(name);
  }

  #restore(tables: Map<string, unknown>, id: string, name: string): void {
    const dropped = this.hidden.get(id) as { definition: unknown } | undefined;
    if (!dropped) return;
    tables.set(name, dropped.definition);
    this.hidden.delete(id);
  }

  #catalog({ id }: { readonly id: string }) {
    const catalog = this.catalogs.get(id);
    if (!catalog) throw new Error('there is no such catalog');
    return catalog;
  }

  #tables({ table }: Extract<Change, { readonly table: unknown }>): Map<string, unknown> {
    const tables = this.#catalog(table.catalog).databases.get(table.database);
    if (!tables) throw new Error('there is no such database');
    return tables;
  }
}

function rename<T>(all: Map<string, T>, name: string, newName: string): void {
  const object = all.get(name);
  if (object === undefined) throw new Error(`there is no ${name}`);
  all.delete(name);
  all.set(newName, object);
}
