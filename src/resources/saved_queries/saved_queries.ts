// The handlers of `saved_queries`: queries with a name, shared by grants.
import { isDeepStrictEqual } from 'node:util';
import type { BodyOf } from '../../api/handlers.ts';
import { chartBytesMax, savedQueriesApi } from '../../api/saved_queries/saved_queries.ts';
import { ready } from '../../api/states.ts';
import type { ObjectOf } from '../../catalog/object.ts';
import type { SavedQuerySpec } from '../../model/saved_queries.ts';
import { containing } from '../../model/text_patterns.ts';
import { invalidParameter } from '../../standard/failure.ts';
import { segment } from '../../standard/paths.ts';
import { mergePatch } from '../../standard/schema/merge_patch.ts';
import { shownDescription } from '../records/fields.ts';
import { type Context, implement } from '../records/handler_context.ts';
import { type Page, pageOf } from '../records/list_page.ts';
import { commonFields, listing, type RenderOf, render } from '../records/object_records.ts';
import { deleted, updated } from '../records/outcomes.ts';
import { newOwner, ownerId, ownerName } from '../records/permissions.ts';
import { searchWith } from '../records/search.ts';
import { handlersAtTop } from '../records/top_level_category.ts';
import { requireQuota, saveVersion, shownQuery } from './query_content.ts';

type Body = BodyOf<(typeof savedQueriesApi)['endpoints']['update']>;
type Change = { readonly [K in keyof Omit<Body, 'owner'>]?: Body[K] | undefined };

const toRecord: RenderOf<typeof savedQueriesApi> = async ([object], uri, context) => ({
  name: object.name,
  ...shownDescription(object.spec),
  folder: object.spec.folder ?? null,
  ...shownQuery(object.spec),
  chart: object.spec.chart ?? null,
  ...ready,
  owner: ownerName(object, context),
  ...commonFields(object, uri),
});

const commonHandlers = handlersAtTop('saved_queries', toRecord);

/** Throws INVALID_PARAMETER. */
function changedSpec(before: SavedQuerySpec, change: Change): SavedQuerySpec {
  const { chart } = change;
  if (chart && Buffer.byteLength(JSON.stringify(chart)) > chartBytesMax)
    throw invalidParameter('/chart', 'bytes', `is larger than ${chartBytesMax} bytes`);
  return mergePatch<SavedQuerySpec>(savedQueriesApi.endpoints.update.body, before, change);
}

/** The fields that versions record: all except comment, properties and folder. */
const contentOf = ({ comment: _comment, properties: _properties, folder: _folder, ...content }: SavedQuerySpec) =>
  content;

const ofOwner = (owner: string) => ({ category: 'saved_queries', parentId: null, owner }) as const;

interface QueryFilter {
  readonly namePattern?: string;
  readonly comment?: string;
  readonly folder?: string;
  readonly sql?: string;
}

async function search({ folder, sql, ...by }: QueryFilter, { page }: { readonly page: Page }, context: Context) {
  const contains = sql === undefined ? () => true : containing(sql);
  const fits = ({ spec }: ObjectOf<'saved_queries'>) =>
    (folder === undefined || spec.folder === folder || spec.folder?.startsWith(`${folder}/`) === true) &&
    contains(spec.sql);
  const restrictTo = listing('saved_queries', [], context);
  const read = (after: string | undefined, limit: number) =>
    context.catalog.search(null, 'saved_queries', { ...by, after, limit, restrictTo, fits });
  return pageOf(page, 'name', read, (object) =>
    render([segment('saved_queries', object.name)], [object], context, toRecord),
  );
}

export const savedQueries = implement(savedQueriesApi, {
  list: commonHandlers.list,
  get: commonHandlers.get,
  create: async ({ body, ifExists }, context) => {
    const { name, owner, ...change } = body;
    const spec = changedSpec({ sql: '' }, change);
    const ownedBy = ownerId(owner, context);
    const { object, created: isNew } = await context.catalog.create({
      parent: null,
      category: 'saved_queries',
      name,
      spec,
      owner: ownedBy,
      principal: context.call.actor,
      ifExists,
      inTransaction: async (tx, id) => {
        await saveVersion(tx, { id, version: 1 }, contentOf(spec), context);
        await requireQuota(tx, ofOwner(ownedBy ?? context.call.principal.id), { after: spec }, context);
      },
    });
    return commonHandlers.createdAs(object, isNew, context);
  },
  update: async ({ segments, body }, context) => {
    const [object] = await context.catalog.require(segments);
    const { owner, ...change } = body;
    const spec = changedSpec(object.spec, change);
    const isSame = isDeepStrictEqual(contentOf(spec), contentOf(object.spec));
    const next = { id: object.id, version: object.version + 1 };
    const ownedBy = await newOwner(owner, segments, context);
    const hasNewOwner = ownedBy !== undefined && ownedBy !== object.owner;
    const outcome = await context.catalog.update(object, {
      spec,
      owner: ownedBy,
      principal: context.call.actor,
      inTransaction:
        !hasNewOwner && isDeepStrictEqual(spec, object.spec)
          ? undefined
          : async (tx) => {
              if (!isSame) await saveVersion(tx, next, contentOf(spec), context);
              const contents = { before: hasNewOwner ? undefined : object.spec, after: spec };
              await requireQuota(tx, ofOwner(ownedBy ?? object.owner), contents, context);
            },
    });
    return updated(await render(segments, [outcome.object ?? object], context, toRecord));
  },
  delete: async ({ segments }, context) => {
    const [object] = (await context.catalog.find(segments)) ?? [];
    if (!object) return deleted(false);
    return deleted(await context.catalog.drop(object, { principal: context.call.actor, cascade: true }));
  },
  rename: commonHandlers.rename,
  search: searchWith(search),
});
