// The handlers of `search`: one page of results, and the key of the next page. See api/search.ts for the declaration.

import type { DeclaredCategory } from '../../api/declare.ts';
import type { ParentSegmentsOf, RecordOf } from '../../api/handlers.ts';
import type { ObjectOf, ObjectPath } from '../../catalog/object.ts';
import type { Listed } from '../../standard/endpoint.ts';
import { segment, uriOf } from '../../standard/paths.ts';
import { defined } from './fields.ts';
import type { Context } from './handler_context.ts';
import { type Page, pageOf } from './list_page.ts';
import { listing, type Member, type Render, type RenderOf } from './object_records.ts';
import { searchDropped } from './undrop.ts';

interface PageBody {
  readonly pageSize?: number;
  readonly pageToken?: string;
}

/** The handler of a search: `find` gets the search criteria, without the fields of the page. */
export function searchWith<B extends PageBody, I, R extends object>(
  find: (filter: Omit<B, keyof PageBody>, input: I, context: Context) => Promise<Listed<R>>,
) {
  return (input: I & { readonly body: B }, context: Context) => {
    const { pageSize: _size, pageToken: _token, ...filter } = input.body;
    return find(filter, input, context);
  };
}

/** Finds objects of a category by name pattern and comment, including dropped ones that can be restored. */
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
  const restrictTo = listing(category, chain, context);
  const parentId = chain.at(-1)?.id ?? null;
  const read = (after: string | undefined, limit: number) =>
    context.catalog.search(parentId, category, { ...by, after, limit, restrictTo });
  const show = (object: ObjectOf<K>) =>
    toRecord([...chain, object], uriOf(context.call.version, [...segments, segment(category, object.name)]), context);
  return pageOf(page, 'name', read, show);
}

interface ObjectSearchInput<P extends ObjectPath> {
  readonly segments: P;
  readonly body: NameFilter;
  readonly page: Page;
}

interface NameFilter {
  readonly namePattern?: string;
  readonly comment?: string;
  readonly dropped?: boolean;
}
