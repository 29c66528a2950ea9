// What the explorer has read of the catalog: the children of each node that was opened, page by page, and what a search found.
// Lists contain only what the user may read, because the API does so.
import type { Page } from '../../../src/client/index.ts';
import { onReconnect } from '../app/connection.ts';
import { containsPattern } from '../app/like_pattern.ts';
import { client } from '../app/session.ts';

export type ObjectKind = 'catalog' | 'database' | 'table' | 'view' | 'column';

export interface ExplorerObject {
  readonly kind: ObjectKind;
  /** Names from the catalog down. */
  readonly path: readonly string[];
  readonly name: string;
  /** Of a column. */
  readonly type?: string;
  readonly isKey?: boolean;
  /** Of a table, if known. */
  readonly rowCount?: number | null;
  readonly dataBytes?: number | null;
  /** Tables and views of a database. */
  readonly objectCount?: number;
  readonly comment: string | null;
}

export interface Children {
  readonly items: readonly ExplorerObject[];
  readonly isLoading: boolean;
  readonly hasMore: boolean;
  readonly error: unknown;
}

export const keyOf = (path: readonly string[], kind?: ObjectKind): string => JSON.stringify([kind ?? '', ...path]);

type FetchPage = (token: string | undefined) => Promise<Page<ExplorerObject>>;

interface Entry {
  children: Children;
  /** The lists whose items are the children, one after the other; the first is being read. */
  rest: readonly FetchPage[];
  token: string | undefined;
}

const pageSize = 500;
const foundMax = 500;
const untouched: Children = { items: [], isLoading: false, hasMore: true, error: undefined };

/** The lists of the children of an object. */
function listsOf(parent: ExplorerObject | undefined): readonly FetchPage[] {
  if (!parent)
    return [
      pagesOf(client.catalogs.list({ pageSize }), ({ name, comment }) => ({
        kind: 'catalog',
        path: [name],
        name,
        comment,
      })),
      pathsOf(client.catalogs.browse({ pageSize }), 'catalog', []),
    ];
  const [catalog = '', database = '', table = ''] = parent.path;
  const databases = client.catalogs(catalog).databases;
  switch (parent.kind) {
    case 'catalog':
      return [
        pagesOf(databases.list({ pageSize }), ({ name, comment, tableCount, viewCount }) => ({
          kind: 'database',
          path: [catalog, name],
          name,
          comment,
          objectCount: tableCount + viewCount,
        })),
        pathsOf(databases.browse({ pageSize }), 'database', parent.path),
      ];
    case 'database':
      return [
        pagesOf(databases(database).tables.list({ pageSize }), (record) => tableOf(parent.path, record)),
        pagesOf(databases(database).views.list({ pageSize }), (record) => viewOf(parent.path, record)),
      ];
    case 'table':
      return [columnsOf(async () => (await databases(database).tables(table).get()).columns, parent.path)];
    case 'view':
      return [columnsOf(async () => (await databases(database).views(table).get()).columns, parent.path)];
    case 'column':
      return [];
  }
}

interface Browsed {
  readonly name: string;
  readonly readable: boolean;
}

/** What may not be read itself, but contains something that may: only its name is known. */
const pathsOf =
  (list: { page(token?: string): Promise<Page<Browsed>> }, kind: ObjectKind, parent: readonly string[]): FetchPage =>
  async (token) => {
    const { items, nextPageToken } = await list.page(token);
    const unread = items.filter(({ readable }) => !readable);
    return {
      items: unread.map(({ name }) => ({ kind, path: [...parent, name], name, comment: null })),
      nextPageToken,
    };
  };

interface Named {
  readonly name: string;
  readonly comment: string | null;
}

interface TableLike extends Named {
  readonly statistics: { readonly rowCount: number | null; readonly dataBytes: number | null };
}

const tableOf = (parent: readonly string[], { name, comment, statistics }: TableLike): ExplorerObject => ({
  kind: 'table',
  path: [...parent, name],
  name,
  comment,
  rowCount: statistics.rowCount,
  dataBytes: statistics.dataBytes,
});

const viewOf = (parent: readonly string[], { name, comment }: Named): ExplorerObject => ({
  kind: 'view',
  path: [...parent, name],
  name,
  comment,
});

interface ColumnLike {
  readonly name: string;
  readonly type: string;
  readonly isKey?: boolean;
  readonly comment?: string | null;
}

const columnsOf =
  (read: () => Promise<readonly ColumnLike[]>, parent: readonly string[]): FetchPage =>
  async () => ({
    items: (await read()).map(({ name, type, isKey = false, comment = null }) => ({
      kind: 'column',
      path: [...parent, name],
      name,
      type,
      isKey,
      comment,
    })),
  });

const pagesOf =
  <T>(list: { page(token?: string): Promise<Page<T>> }, toObject: (record: T) => ExplorerObject): FetchPage =>
  async (token) => {
    const { items, nextPageToken } = await list.page(token);
    return { items: items.map(toObject), nextPageToken };
  };

class ObjectsStore {
  readonly #entries = new Map<string, Entry>();
  readonly #listeners = new Set<() => void>();
  #version = 0;

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  };
  readonly version = (): number => this.#version;

  /** What is known of the children; reading begins with `loadMore`. */
  childrenOf(parent: ExplorerObject | undefined): Children {
    return this.#entries.get(entryKey(parent))?.children ?? untouched;
  }

  /** Reads the next page of the children, unless there is none or it is being read. */
  async loadMore(parent: ExplorerObject | undefined): Promise<void> {
    const key = entryKey(parent);
    const entry = this.#entries.get(key) ?? { children: untouched, rest: listsOf(parent), token: undefined };
    const [fetchPage] = entry.rest;
    if (entry.children.isLoading || !entry.children.hasMore || !fetchPage) return;
    this.#entries.set(key, entry);
    this.#update(entry, { isLoading: true, error: undefined });
    try {
      const { items, nextPageToken } = await fetchPage(entry.token);
      entry.token = nextPageToken;
      if (nextPageToken === undefined) entry.rest = entry.rest.slice(1);
      const hasMore = entry.rest.length > 0;
      this.#update(entry, { items: [...entry.children.items, ...items], isLoading: false, hasMore });
      // A short list does not fill the view: what follows it is read as well.
      if (hasMore && items.length < pageSize) await this.loadMore(parent);
    } catch (error) {
      this.#update(entry, { isLoading: false, error });
    }
  }

  /** Forgets everything; what is open is read again. */
  refresh(): void {
    this.#entries.clear();
    this.#notify();
  }

  /** What could not be read is read again where it is shown. */
  retryFailed(): void {
    for (const entry of this.#entries.values()) entry.children = { ...entry.children, error: undefined };
    this.#notify();
  }

  #update(entry: Entry, change: Partial<Children>): void {
    entry.children = { ...entry.children, ...change };
    this.#notify();
  }

  #notify(): void {
    this.#version++;
    for (const listener of this.#listeners) listener();
  }
}

const entryKey = (parent: ExplorerObject | undefined): string => (parent ? keyOf(parent.path, parent.kind) : 'root');

export const objectsStore = new ObjectsStore();
onReconnect(() => objectsStore.retryFailed());

/** Tables and views of all databases whose names contain a text, and how many databases were searched. */
export async function searchObjects(text: string, signal: AbortSignal): Promise<readonly ExplorerObject[]> {
  const namePattern = containsPattern(text);
  const catalogs = await client.catalogs.browse({}, { signal }).all();
  const perCatalog = await Promise.all(
    catalogs.map(async ({ name: catalog }) => {
      const { databases } = client.catalogs(catalog);
      const all = await databases.browse({ pageSize }, { signal }).all();
      const options = { signal };
      const perDatabase = all.map(async ({ name: database }) => {
        const own = databases(database);
        const [tables, views] = await Promise.all([
          own.tables.search({ namePattern, pageSize }, options).page(),
          own.views.search({ namePattern, pageSize }, options).page(),
        ]);
        const isNamed = database.toLowerCase().includes(text.toLowerCase());
        const self: ExplorerObject = { kind: 'database', path: [catalog, database], name: database, comment: null };
        return [
          ...(isNamed ? [self] : []),
          ...tables.items.map((record) => tableOf([catalog, database], record)),
          ...views.items.map((record) => viewOf([catalog, database], record)),
        ];
      });
      return (await Promise.all(perDatabase)).flat();
    }),
  );
  return perCatalog.flat().slice(0, foundMax);
}
