// One page of a `search`: what is found, and the key of the next page where there is more.
import type { CatalogObject } from '../catalog/object.ts';
import { pageSizeDefault } from '../standard/parameters.ts';
import type { Context } from './context.ts';

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
