// The action `search`, declared once: what a collection is searched by, one page of what was found, and the key of the next page.

import { pageFields, searchFields } from '../../api/fields.ts';
import type { CatalogObject, ListOptions, ObjectPath } from '../../catalog/object.ts';
import type { Code } from '../../standard/codes.ts';
import type { Endpoint, Input, Listed, PathParameters } from '../../standard/endpoint.ts';
import { listKeyOf } from '../../standard/parameters.ts';
import { type Static, type TObject, type TProperties, Type } from '../../standard/type.ts';
import { defined } from './fields.ts';
import { action, type Context, listed, listing, type Render, render, segment } from './handler_context.ts';
import { searchDropped, searchResultOf } from './undrop.ts';

export type Page = Input<unknown, unknown>['page'];

/** `find` returns one page of what fits all fields that are given. */
export function searchBy<F extends TProperties>(declared: {
  readonly category: string;
  readonly summary: string;
  readonly description?: string;
  readonly permission: Endpoint['permission'];
  readonly codes?: readonly Code[];
  readonly fields: F;
  readonly record: TObject;
  readonly example: Static<TObject<F>>;
  readonly find: (
    sought: Static<TObject<F>>,
    input: { readonly path: PathParameters; readonly page: Page },
    context: Context,
  ) => Promise<Listed>;
}) {
  const { category, fields, record, example, find, ...rest } = declared;
  const items = listKeyOf({ name: category });
  return action('search', {
    ...rest,
    on: 'collection',
    body: Type.Object({ ...fields, ...pageFields }, { additionalProperties: false }) as TObject,
    result: Type.Object({ [items]: Type.Array(record), nextPageToken: Type.Optional(Type.String()) }),
    example: { body: example },
    handle: searchWith(find),
  });
}

/** One page of `found`, which is sorted, has no more than one item beyond the page, and of which `key` tells the order. */
export async function pageOf<T, R extends object>(
  found: readonly T[],
  { limit }: Page,
  key: (item: T) => string,
  show: (item: T) => R | Promise<R>,
): Promise<Listed<R>> {
  const shown = found.slice(0, limit);
  const end = found.length > limit ? shown.at(-1) : undefined;
  const records: R[] = [];
  for (const item of shown) records.push(await show(item));
  return listed(records, end === undefined ? undefined : key(end));
}

interface SearchInput {
  readonly path: PathParameters;
  readonly body: object;
  readonly page: Page;
}

/** The handler of a search: `find` gets the fields that are sought, without those of the page. */
export function searchWith<S extends object, R extends object>(
  find: (sought: S, input: Pick<SearchInput, 'path' | 'page'>, context: Context) => Promise<Listed<R>>,
) {
  return ({ path, body, page }: SearchInput, context: Context) => {
    const { pageSize: _size, pageToken: _token, ...sought } = body as Record<string, unknown>;
    return find(sought as S, { path, page }, context);
  };
}

interface FoundObjects<T extends object> {
  readonly category: string;
  readonly toRecord: Render<T>;
  /** What holds the collection; absent: it is at the top. */
  readonly parentOf?: (path: PathParameters) => ObjectPath;
  /** Dropped objects of the category are retained for a while, and are found too. */
  readonly retained?: boolean;
}

/** Finds objects of the catalog by name pattern and comment. */
export function findByName<T extends object>({ category, toRecord, parentOf, retained = false }: FoundObjects<T>) {
  return async ({ path, body, page }: SearchInput, context: Context): Promise<Listed<T>> => {
    const holder = parentOf?.(path) ?? [];
    const chain = holder.length === 0 ? [] : await context.catalog.require(holder);
    const { namePattern, comment, dropped } = body as Sought;
    const by = defined({ namePattern, comment });
    if (retained && dropped)
      return (await searchDropped(category, holder, chain, by, page, context, toRecord)) as Listed<T>;
    const only = listing(category, chain, context);
    const options: ListOptions = { ...by, after: page.after, limit: page.limit + 1, restrictTo: only };
    const objects = await context.catalog.list(chain.at(-1)?.id ?? null, category, options);
    const show = (object: CatalogObject) =>
      render([...holder, segment(category, object.name)], [...chain, object], context, toRecord);
    return pageOf(objects, page, ({ name }) => name, show);
  };
}

interface Sought {
  readonly namePattern?: string;
  readonly comment?: string;
  readonly dropped?: boolean;
}

interface ObjectSearch extends FoundObjects<object> {
  readonly record: TObject;
  readonly example: string;
}

/** The search of objects of the catalog by name pattern and comment. */
export function searchOf({ record, example, ...found }: ObjectSearch) {
  const { category, parentOf, retained = false } = found;
  const find = findByName(found);
  const dropped = Type.Optional(
    Type.Boolean({ default: false, description: 'Those that were dropped and that the caller may bring back.' }),
  );
  return searchBy({
    category,
    summary: `Finds ${category.replaceAll('_', ' ')} by name pattern and comment${retained ? ', or those that were dropped' : ''}.`,
    permission: { privilege: 'read', on: 'parent', orWithin: true },
    codes: parentOf ? ['OBJECT_NOT_FOUND'] : [],
    fields: retained ? { ...searchFields, dropped } : searchFields,
    record: retained ? searchResultOf(record) : record,
    example: { namePattern: example },
    find: (sought, { path, page }, context) => find({ path, body: sought, page }, context),
  });
}
