// The action `search`: one page of what is found by name pattern and comment, and the key of the next page where there is more.
import { type TObject, Type } from 'typebox';
import type { CatalogObject, ListOptions } from '../catalog/object.ts';
import { pageSizeDefault } from '../standard/parameters.ts';
import { action, type Context, listed, listing, type Render, render, segment } from './context.ts';
import { searchFields } from './fields.ts';

/** `find` is asked for one more than the page holds. The token is bound to the URI of the search. */
export async function searched(
  context: Context,
  body: { readonly pageSize?: number; readonly pageToken?: string },
  find: (after: string | undefined, limit: number) => Promise<CatalogObject[]>,
  show: (object: CatalogObject) => Promise<object>,
): Promise<{ records: object[]; next?: string }> {
  const limit = body.pageSize ?? pageSizeDefault;
  const objects = await find(context.call.pageTokens.read(body.pageToken), limit + 1);
  const records: object[] = [];
  for (const object of objects.slice(0, limit)) records.push(await show(object));
  const next = objects.length > limit ? objects[limit - 1]?.name : undefined;
  return next === undefined ? { records } : { records, next };
}

/** The search of a collection at the top, declared once for all that have no more to be found by. */
export function searchOf(category: string, record: TObject, as: Render) {
  return action('search', {
    on: 'collection',
    summary: `Finds ${category.replaceAll('_', ' ')} by name pattern and comment.`,
    permission: { privilege: 'read', on: 'parent', orWithin: true },
    codes: ['INVALID_PAGE_TOKEN'],
    body: Type.Object(searchFields, { additionalProperties: false }),
    result: Type.Object({ [category]: Type.Array(record), nextPageToken: Type.Optional(Type.String()) }),
    example: { body: { namePattern: 'a%' } },
    handle: async ({ body }, context) => {
      const { namePattern, comment } = body;
      const only = listing(category, [], context);
      const find = (after: string | undefined, limit: number) => {
        const options: ListOptions = { after, limit, namePattern, comment, only };
        return context.catalog.list(null, category, options);
      };
      const show = (object: CatalogObject) => render([segment(category, object.name)], [object], context, as);
      const { records, next } = await searched(context, body, find, show);
      return listed(records, next);
    },
  });
}
