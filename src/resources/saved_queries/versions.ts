// The handlers of `versions` of drafts and of saved queries.
import { draftVersionsApi, savedQueryVersionsApi } from '../../api/saved_queries/versions.ts';
import type { CatalogObject } from '../../catalog/object.ts';
import type { StoredVersion } from '../../catalog/object_versions.ts';
import type { QueryContent, SavedQuerySpec } from '../../model/saved_queries.ts';
import { objectNotFound } from '../../standard/failure.ts';
import { type Segment, uriOf } from '../../standard/paths.ts';
import { type Context, implement } from '../records/handler_context.ts';
import { type Page, pageOf, smallRows } from '../records/list_page.ts';
import { found } from '../records/outcomes.ts';
import { ownDraft } from './drafts.ts';
import { shownQuery } from './query_content.ts';

function record({ version, saved_at, saved_by, bytes }: StoredVersion, latest: number | undefined, uri: string) {
  const savedAt = new Date(saved_at).toISOString();
  return {
    version,
    bytes,
    state: version === latest ? ('current' as const) : ('superseded' as const),
    createdAt: savedAt,
    createdBy: saved_by,
    updatedAt: savedAt,
    updatedBy: saved_by,
    uri: `${uri}/versions/${version}`,
  };
}

async function versionsOf(object: CatalogObject, uri: string, page: Page, { objectVersions }: Context) {
  const latest = await objectVersions.latest(object.id);
  const read = smallRows(({ after, limit }) =>
    objectVersions.list(object.id, { before: after === undefined ? undefined : Number(after), limit }),
  );
  return pageOf(page, 'version', read, (version) => record(version, latest, uri));
}

async function versionOf(object: CatalogObject, uri: string, text: string, { objectVersions }: Context) {
  const number = /^[1-9]\d{0,14}$/.test(text) ? Number(text) : 0;
  const version = await objectVersions.find<QueryContent & Pick<SavedQuerySpec, 'chart'>>(object.id, number);
  if (!version) throw objectNotFound('versions', text, `there is no version ${JSON.stringify(text)}`);
  const { content } = version;
  return found({
    ...record(version, await objectVersions.latest(object.id), uri),
    ...shownQuery(content),
    ...(content.chart ? { chart: content.chart } : {}),
  });
}

const uri = (object: Segment, { call }: Context) => uriOf(call.version, [object]);

export const draftVersions = implement(draftVersionsApi, {
  list: async ({ segments: [draft], page }, context) =>
    versionsOf(await ownDraft(draft.name, context), uri(draft, context), page, context),
  get: async ({ segments: [draft, { name }] }, context) =>
    versionOf(await ownDraft(draft.name, context), uri(draft, context), name, context),
});

export const savedQueryVersions = implement(savedQueryVersionsApi, {
  list: async ({ segments, page }, context) => {
    const [object] = await context.catalog.require(segments);
    return versionsOf(object, uri(segments[0], context), page, context);
  },
  get: async ({ segments: [of, { name }] }, context) => {
    const [object] = await context.catalog.require([of]);
    return versionOf(object, uri(of, context), name, context);
  },
});
