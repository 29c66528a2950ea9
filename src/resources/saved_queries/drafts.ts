// The handlers of `drafts`: the texts of open editors, private to their user. They are children of the user in the catalog, so that they
// are renamed and deleted with it.
import { isDeepStrictEqual } from 'node:util';
import { draftsApi } from '../../api/saved_queries/drafts.ts';
import { ready } from '../../api/states.ts';
import { uuid } from '../../api/transfer/uploads.ts';
import type { CatalogObject } from '../../catalog/object.ts';
import { newId } from '../../model/ids.ts';
import type { DraftSpec } from '../../model/saved_queries.ts';
import { invalidParameter } from '../../standard/failure.ts';
import { segment, uriOf } from '../../standard/paths.ts';
import { defined, describe } from '../records/fields.ts';
import { type Context, implement } from '../records/handler_context.ts';
import { pageOf } from '../records/list_page.ts';
import { commonFields } from '../records/object_records.ts';
import { created, deleted, found, updated } from '../records/outcomes.ts';
import { changedQuery, type QueryChange, requireQuota, saveVersion, shownQuery } from './query_content.ts';

const isUuid = new RegExp(uuid);

interface DraftChange extends QueryChange {
  readonly name?: string | undefined;
  readonly properties?: Readonly<Record<string, string | null>> | null | undefined;
}

/** The session may be older than the name of its user. */
const user = ({ call, directory }: Context) => segment('users', directory.nameOf(call.principal.id));

/** A draft of the caller. Throws OBJECT_NOT_FOUND. */
export async function ownDraft(draftId: string, context: Context): Promise<CatalogObject<DraftSpec>> {
  const [, draft] = await requireOwn(draftId, context);
  return draft;
}

const requireOwn = (draftId: string, context: Context) =>
  context.catalog.require([user(context), segment('drafts', draftId)]);

function record(draft: CatalogObject<DraftSpec>, context: Context) {
  return {
    draftId: draft.name,
    name: draft.spec.title,
    ...shownQuery(draft.spec),
    properties: draft.spec.properties ?? {},
    ...ready,
    ...commonFields(draft, uriOf(context.call.version, [segment('drafts', draft.name)])),
  };
}

function changed(before: DraftSpec, { name, properties, ...query }: DraftChange): DraftSpec {
  const described = describe({ ...defined({ properties: before.properties }) }, { properties });
  return { title: name ?? before.title, ...described, ...changedQuery(before, query) };
}

const contentOf = ({ title: _title, properties: _properties, ...content }: DraftSpec) => content;

const ofUser = (parentId: string) => ({ category: 'drafts', parentId }) as const;

export const drafts = implement(draftsApi, {
  list: async ({ page }, context) => {
    const [parent] = await context.catalog.require([user(context)]);
    const read = (after: string | undefined, limit: number) =>
      context.catalog.batch(parent.id, 'drafts', { after, limit });
    return pageOf(page, 'name', read, (draft) => record(draft, context));
  },
  get: async ({ path }, context) => found(record(await ownDraft(path.draftId, context), context)),
  create: async ({ body, ifExists }, context) => {
    const { draftId = newId(), ...change } = body;
    if (!isUuid.test(draftId)) throw invalidParameter('/draftId', 'pattern', 'must be a UUID in lower case');
    const [parent] = await context.catalog.require([user(context)]);
    const spec = changed({ title: '', sql: '' }, change);
    const { object, created: isNew } = await context.catalog.create({
      parent,
      category: 'drafts',
      name: draftId,
      spec,
      principal: context.call.actor,
      ifExists,
      inTransaction: async (tx, id) => {
        await saveVersion(tx, { id, version: 1 }, contentOf(spec), context);
        await requireQuota(tx, ofUser(parent.id), { after: spec }, context);
      },
    });
    return created(record(object, context), isNew);
  },
  update: async ({ path, body }, context) => {
    const [owner, draft] = await requireOwn(path.draftId, context);
    const spec = changed(draft.spec, body);
    const isSame = isDeepStrictEqual(contentOf(spec), contentOf(draft.spec));
    const next = { id: draft.id, version: draft.version + 1 };
    const { object = draft } = await context.catalog.update(draft, {
      spec,
      principal: context.call.actor,
      inTransaction: isDeepStrictEqual(spec, draft.spec)
        ? undefined
        : async (tx) => {
            if (!isSame) await saveVersion(tx, next, contentOf(spec), context);
            await requireQuota(tx, ofUser(owner.id), { before: draft.spec, after: spec }, context);
          },
    });
    return updated(record(object, context));
  },
  delete: async ({ path }, context) => {
    const [, draft] = (await context.catalog.find([user(context), segment('drafts', path.draftId)])) ?? [];
    if (!draft) return deleted(false);
    return deleted(await context.catalog.drop(draft, { principal: context.call.actor, cascade: true }));
  },
});
