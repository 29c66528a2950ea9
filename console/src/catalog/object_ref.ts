// An object of the catalog: its kind and its names from the catalog down, its place in the client and in the addresses of the console.
import type { Client } from '../../../src/client/index.ts';
import { queryClient } from '../app/queries.ts';
import { objectsStore } from '../explorer/objects_store.ts';

export type ObjectKind = 'catalog' | 'database' | 'table' | 'view';

export interface ObjectRef {
  readonly kind: ObjectKind;
  readonly path: readonly string[];
}

export const nameOf = ({ path }: ObjectRef): string => path.at(-1) ?? '';

/** The object in the client. */
export function objectIn(client: Client, { kind, path }: ObjectRef) {
  const [catalog = '', database = '', name = ''] = path;
  const inCatalog = client.catalogs(catalog);
  switch (kind) {
    case 'catalog':
      return inCatalog;
    case 'database':
      return inCatalog.databases(database);
    case 'table':
      return inCatalog.databases(database).tables(name);
    case 'view':
      return inCatalog.databases(database).views(name);
  }
}

/** The collection of the objects of a kind in the client. `parent`: the names of what contains them. */
export function collectionIn(client: Client, kind: ObjectKind, parent: readonly string[]) {
  const [catalog = '', database = ''] = parent;
  switch (kind) {
    case 'catalog':
      return client.catalogs;
    case 'database':
      return client.catalogs(catalog).databases;
    case 'table':
      return client.catalogs(catalog).databases(database).tables;
    case 'view':
      return client.catalogs(catalog).databases(database).views;
  }
}

export const tableIn = (client: Client, [catalog = '', database = '', table = '']: readonly string[]) =>
  client.catalogs(catalog).databases(database).tables(table);

export const categoryOf = { catalog: 'catalogs', database: 'databases', table: 'tables', view: 'views' } as const;

/** The key of what is read of an object. */
export const keyOf = ({ kind, path }: ObjectRef): readonly string[] => [categoryOf[kind], ...path];

/** The search parameters of an object's address, which distinguish views from tables. */
export const searchOf = (kind: string): { readonly kind?: string } => (kind === 'view' ? { kind } : {});

/** The object of a URI such as `/api/v2/catalogs/default/databases/shop/views/big`; undefined for those without a page. */
export function refOfUri(uri: string): ObjectRef | undefined {
  const [, , , ...segments] = uri.split('/');
  const path = segments.filter((_, i) => i % 2 === 1).map(decodeURIComponent);
  const category = segments.at(-2);
  const kind = (['catalog', 'database', 'table', 'view'] as const).find((known) => categoryOf[known] === category);
  return kind && segments[0] === 'catalogs' ? { kind, path } : undefined;
}

/** To be called after a change: lists, records and the explorer are read again. */
export function catalogChanged(): void {
  const categories = new Set<unknown>([...Object.values(categoryOf), 'tablets', 'audit_events', 'grants', 'sample']);
  void queryClient.invalidateQueries({ predicate: ({ queryKey }) => categories.has(queryKey[0]) });
  objectsStore.refresh();
}

/** What the records of all kinds have. */
export interface ObjectRecord {
  readonly name: string;
  readonly comment: string | null;
  readonly properties: Readonly<Record<string, string>>;
  readonly owner: string;
  readonly state: string;
  readonly stateReason: string | null;
  readonly version: number;
  readonly createdAt: string;
  readonly createdBy: string;
  readonly updatedAt: string;
  readonly updatedBy: string;
  readonly uri: string;
  /** Of a catalog. */
  readonly warehouse?: string;
}

export type TableRecord = Awaited<ReturnType<ReturnType<typeof tableIn>['get']>>;

export type TableColumn = TableRecord['columns'][number];
