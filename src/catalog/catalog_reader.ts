// Finds objects in the store. See catalog.ts for changes of them. It knows no category and checks no permission: callers have been
// authorized before.
import type { PathObject } from '../access/authorization/authorizer.ts';
import type { TableStatistics } from '../model/records.ts';
import { authorizedId } from '../standard/endpoint.ts';
import { ObjectChanged } from '../standard/expected_version.ts';
import { visible } from '../store/index_conditions.ts';
import { type Batch, readBatch } from '../store/row_batches.ts';
import type { Store } from '../store/store.ts';
import { findSibling, notFound } from './changes/object_names.ts';
import { dependentsOf } from './changes/view_dependencies.ts';
import type { CatalogObject, Category, ChainOf, ListOptions, ObjectOf, ObjectPath, SearchOptions } from './object.ts';
import { type ObjectLookups, objectLookups } from './object_lookups.ts';
import { isVisible, objectColumns, SpecCache, toRfc3339 } from './object_rows.ts';
import { searchObjects } from './object_search.ts';
import { type CatalogStatements, catalogStatements, pathRow, pathStatement, prefixStatement } from './statements.ts';

/** The store with what is prepared and cached for reading objects from it. */
export interface ObjectSource {
  readonly store: Store;
  readonly statements: CatalogStatements;
  readonly specs: SpecCache;
}

export const objectSource = (store: Store): ObjectSource => ({
  store,
  statements: catalogStatements(store.db),
  specs: new SpecCache(),
});

export class CatalogReader {
  readonly #parts: ObjectSource;
  readonly #lookups: ObjectLookups;
  readonly #paths: ReturnType<typeof pathStatement>[] = [];
  readonly #steps: ReturnType<typeof prefixStatement>[] = [];

  constructor(parts: ObjectSource) {
    this.#parts = parts;
    this.#lookups = objectLookups(parts.store, parts.statements);
  }

  /** The objects of the path, root first; undefined if any of them does not exist, or is another one than was authorized. */
  async find<const P extends ObjectPath>(path: P): Promise<ChainOf<P> | undefined> {
    return (await this.#find(path)) as ChainOf<P> | undefined;
  }

  async #find(path: ObjectPath): Promise<CatalogObject[] | undefined> {
    if (path.length === 0) return [];
    const { store, specs } = this.#parts;
    this.#paths[path.length] ??= pathStatement(store.db, path.length);
    const values: Record<string, string> = {};
    for (const [n, { category, name }] of path.entries()) {
      values[`category${n}`] = category;
      values[`name${n}`] = name;
    }
    const row = await this.#paths[path.length]?.first(store.db, values);
    const chain = row && path.map((_, n) => specs.toObject(pathRow(row, n)));
    for (const [n, { id }] of (chain ?? []).entries()) if (!(await this.#isAuthorized(path[n], id))) return undefined;
    return chain;
  }

  /**
   * Like `find`, but case-insensitive: SQL names are, and an engine may hold the previous name of a database that was renamed in case
   * only. Siblings never differ in case alone, so at most one matches.
   */
  async findFolded(path: ObjectPath): Promise<CatalogObject[] | undefined> {
    const { store, specs } = this.#parts;
    const chain: CatalogObject[] = [];
    for (const { category, name } of path) {
      const row = await findSibling(this.#parts.statements, store.db, chain.at(-1)?.id ?? null, category, name);
      if (!row || !isVisible(row)) return undefined;
      chain.push(specs.toObject(row));
    }
    return chain;
  }

  /** Like `find`, but throws OBJECT_NOT_FOUND {category, name} for the first missing object. */
  async require<const P extends ObjectPath>(path: P): Promise<ChainOf<P>> {
    const found = await this.find(path);
    if (found) return found;
    for (const [n, { category, name }] of path.entries()) {
      if (!(await this.find(path.slice(0, n + 1)))) throw notFound(category, name);
    }
    throw new ObjectChanged();
  }

  /** The longest existing prefix of a path, root first, in one query. */
  async findPrefix(path: ObjectPath): Promise<PathObject[]> {
    if (path.length === 0) return [];
    const { store } = this.#parts;
    this.#steps[path.length] ??= prefixStatement(store.db, path.length);
    const values: Record<string, string> = {};
    for (const [n, { category, name }] of path.entries()) {
      values[`category${n}`] = category;
      values[`name${n}`] = name;
    }
    const row = await this.#steps[path.length]?.first(store.db, values);
    const steps: PathObject[] = [];
    for (let n = 0; row && n < path.length; n++) {
      const id = row[`id${n}`];
      if (typeof id !== 'string' || !(await this.#isAuthorized(path[n], id))) break;
      steps.push({ id, owner: row[`owner${n}`] as string });
    }
    return steps;
  }

  /** The visible objects with these ids, in the order of the ids; ids that no longer exist are omitted. */
  async findByIds(ids: readonly string[]): Promise<CatalogObject[]> {
    const found = await Promise.all(ids.map((id) => this.byId(id)));
    return found.filter((object) => object !== undefined);
  }

  /** Like `findByIds`, including dropped objects that can be restored: grants still refer to them. */
  async findByIdsWithDropped(ids: readonly string[]): Promise<CatalogObject[]> {
    const { specs } = this.#parts;
    const rows = await Promise.all(ids.map((id) => this.#lookups.rows.get(id)));
    return rows.filter((row) => row !== undefined).map((row) => specs.toObject(row));
  }

  /** An object and its ancestors, root first; empty if the object no longer exists. Earlier ids of catalogs that were moved are known. */
  async findChain(id: string): Promise<CatalogObject[]> {
    const chain: CatalogObject[] = [];
    for (let next: string | null = id; next !== null; ) {
      const object: CatalogObject | undefined = await this.byId(next);
      if (!object) {
        next = await this.#movedTo(next);
        if (next === null) return [];
        continue;
      }
      chain.unshift(object);
      next = object.parentId;
    }
    return chain;
  }

  /** Whether an object is the one of the segment on which a request was authorized, also if that was moved since. */
  async #isAuthorized(segment: ObjectPath[number] | undefined, id: string): Promise<boolean> {
    const authorized = segment?.[authorizedId];
    if (authorized === undefined) return true;
    for (let known: string | null = authorized; known !== null; known = await this.#movedTo(known))
      if (known === id) return true;
    return false;
  }

  /** The id that an object has now: a catalog gets another one each time that it is moved to another warehouse. */
  async latestId(id: string): Promise<string> {
    let latest = id;
    for (let next = await this.#movedTo(id); next !== null; next = await this.#movedTo(next)) latest = next;
    return latest;
  }

  /** The id that a catalog has since it was moved to another warehouse; null if it was not. */
  async #movedTo(id: string): Promise<string | null> {
    const row = await this.#parts.store.db
      .selectFrom('catalog_moves')
      .select('target_id')
      .where('catalog_id', '=', id)
      .where('switched_at', 'is not', null)
      .executeTakeFirst();
    return row?.target_id ?? null;
  }

  /** Whether a user owns a descendant of an object, at most two levels down (the depth of a catalog). */
  async ownsDescendant(owner: string, objectId: string): Promise<boolean> {
    const { store, statements } = this.#parts;
    return (await statements.ownedDescendant.first(store.db, { owner, objectId })) !== undefined;
  }

  /** The ids of the parents and grandparents of all objects of a user that can be seen. */
  async ancestorsOfOwned(owner: string): Promise<string[]> {
    const { store, statements } = this.#parts;
    const rows = await statements.ancestorsOfOwned.all(store.db, { owner });
    const ids = rows.flatMap(({ parent_id, grandparent_id }) => [parent_id, grandparent_id]);
    return [...new Set(ids.filter((id) => id !== null))];
  }

  /** The ids of the tables and views that a visible view names, in no particular order. */
  async sourcesOf(viewId: string): Promise<readonly string[]> {
    return (await this.#lookups.sources.get(viewId)) ?? [];
  }

  /** The ids of the views that name a table or a view, in no particular order; some may be dropped. */
  dependentsOf(id: string): Promise<string[]> {
    return dependentsOf(this.#parts.store.db, id);
  }

  async byId(id: string): Promise<CatalogObject | undefined> {
    const { specs } = this.#parts;
    const row = await this.#lookups.rows.get(id);
    return row && isVisible(row) ? specs.toObject(row) : undefined;
  }

  /** All of them, ordered by the code points of the name. */
  async list<K extends Category>(
    parentId: string | null,
    category: K,
    { limit, after }: ListOptions,
  ): Promise<ObjectOf<K>[]> {
    const rows = await this.#query(parentId, category, after).limit(limit).execute();
    return rows.map((row) => this.#parts.specs.toObject(row)) as ObjectOf<K>[];
  }

  /** For a page, in the same order: fewer than `limit` where their definitions are large. */
  async batch<K extends Category>(
    parentId: string | null,
    category: K,
    { limit, after }: ListOptions,
  ): Promise<Batch<ObjectOf<K>>> {
    const query = this.#query(parentId, category, after);
    const { items, hasMore } = await readBatch(query, { key: 'name', texts: ['spec'] }, limit);
    return { items: items.map((row) => this.#parts.specs.toObject(row)) as ObjectOf<K>[], hasMore };
  }

  #query(parentId: string | null, category: Category, after: string | undefined) {
    const query = this.#parts.store.db
      .selectFrom('objects')
      .select(objectColumns)
      .where('parent_id', parentId === null ? 'is' : '=', parentId)
      .where('category', '=', category)
      .where(visible)
      .orderBy('name');
    return after === undefined ? query : query.where('name', '>', after);
  }

  /** Of those that the caller may see: fewer than `limit` where they are large, or where the time of the search was over. */
  async search<K extends Category>(
    parentId: string | null,
    category: K,
    options: SearchOptions<ObjectOf<K>>,
  ): Promise<Batch<ObjectOf<K>, string>> {
    return (await searchObjects(this.#parts, parentId, category, options as SearchOptions)) as Batch<
      ObjectOf<K>,
      string
    >;
  }

  async count(parentId: string | null, category: Category): Promise<number> {
    if (parentId !== null) return (await this.#lookups.count(parentId, category)) ?? 0;
    const { store, statements } = this.#parts;
    return Number((await statements.countRoot.first(store.db, { category }))?.count ?? 0);
  }

  /** The number of objects of a category that a dropped object contained. */
  async countDropped(parentId: string, category: Category): Promise<number> {
    return (await this.#lookups.countDropped(parentId, category)) ?? 0;
  }

  async statistics(objectId: string): Promise<TableStatistics | undefined> {
    const row = await this.#lookups.statistics.get(objectId);
    return row && { rowCount: row.row_count, dataBytes: row.data_bytes, asOf: toRfc3339(row.as_of) };
  }
}
