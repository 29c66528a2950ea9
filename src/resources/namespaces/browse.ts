// The handler of `browse`: the names of the catalogs or databases on the way to what the caller may read.
import type { ObjectPath } from '../../catalog/object.ts';
import { segment, uriOf } from '../../standard/paths.ts';
import type { Context } from '../records/handler_context.ts';
import { type Page, pageOf } from '../records/list_page.ts';

interface BrowseInput {
  readonly segments: ObjectPath;
  readonly page: Page;
}

export const browse =
  (category: 'catalogs' | 'databases') =>
  async ({ segments, page }: BrowseInput, context: Context) => {
    const { principal, reach, version } = context.call;
    const { authorizer } = context.access;
    const chain = await context.catalog.require(segments);
    const restrictTo = reach === 'all' ? undefined : await authorizer.browsableChildren(principal, 'catalogs', chain);
    const read = (after: string | undefined, limit: number) =>
      context.catalog.search(chain.at(-1)?.id ?? null, category, { after, limit, restrictTo });
    return pageOf(page, 'name', read, (object) => ({
      name: object.name,
      uri: uriOf(version, [...segments, segment(category, object.name)]),
      readable: reach === 'all' || authorizer.isVisible(principal, 'read', 'catalogs', [...chain, object]),
    }));
  };
