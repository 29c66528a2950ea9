// The action `search`, declared once: what a collection is searched by, one page of what was found, and the key of the next page.

import type { DeclaredCategory } from '../../api/declare.ts';
import { pageFields, searchFields } from '../../api/fields.ts';
import type { ParentSegmentsOf, RecordOf } from '../../api/handlers.ts';
import type { ListOptions, ObjectOf, ObjectPath } from '../../catalog/object.ts';
import type { Code } from '../../standard/codes.ts';
import type { Endpoint, Input, Listed, PathParameters } from '../../standard/endpoint.ts';
import { listKeyOf } from '../../standard/parameters.ts';
import { uriOf } from '../../standard/paths.ts';
import { type Static, type TObject, type TProperties, Type } from '../../standard/type.ts';
import { defined } from './fields.ts';
import {
  action,
  type Context,
  listed,
  listing,
  type Member,
  type Render,
  type RenderOf,
  segment,
} from './handler_context.ts';
import { searchDropped } from './undrop.ts';

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

/** Finds objects of a category by name pattern and comment, also those that were dropped and can come back. */
export function findByName<C extends DeclaredCategory>(declared: C, toRecord: RenderOf<C>) {
  const category: C['name'] = declared.name;
  return (input: ObjectSearchInput<ParentSegmentsOf<C>>, context: Context): Promise<Listed<RecordOf<C>>> =>
    findObjects(category, input, context, toRecord);
}

async function findObjects<T extends object, P extends ObjectPath, K extends string>(
  category: K,
  { segments, body, page }: ObjectSearchInput<P>,
  context: Context,
  toRecord: Render<T, Member<P, K>>,
): Promise<Listed<T>> {
  const chain = await context.catalog.require(segments);
  const { namePattern, comment, dropped } = body;
  const by = defined({ namePattern, comment });
  if (dropped) return searchDropped(category, segments, chain, by, page, context, toRecord);
  const only = listing(category, chain, context);
  const options: ListOptions = { ...by, after: page.after, limit: page.limit + 1, restrictTo: only };
  const objects = await context.catalog.list(chain.at(-1)?.id ?? null, category, options);
  const show = (object: ObjectOf<K>) =>
    toRecord([...chain, object], uriOf(context.call.version, [...segments, segment(category, object.name)]), context);
  return pageOf(objects, page, ({ name }) => name, show);
}

interface ObjectSearchInput<P extends ObjectPath> {
  readonly segments: P;
  readonly body: Sought;
  readonly page: Page;
}

interface Sought {
  readonly namePattern?: string;
  readonly comment?: string;
  readonly dropped?: boolean;
}

interface ObjectSearch {
  readonly category: string;
  readonly toRecord: Render;
  readonly record: TObject;
  readonly example: string;
}

/** The search of objects at the top of the catalog by name pattern and comment. */
export function searchOf({ category, record, example, toRecord }: ObjectSearch) {
  return searchBy({
    category,
    summary: `Finds ${category.replaceAll('_', ' ')} by name pattern and comment.`,
    permission: { privilege: 'read', on: 'parent', orWithin: true },
    codes: [],
    fields: searchFields,
    record,
    example: { namePattern: example },
    find: (body, { page }, context) =>
      findObjects<object, ObjectPath, string>(category, { segments: [], body, page }, context, toRecord),
  });
}
