// The handlers of `views`. See view_definition.ts for their queries.

import { viewsApi } from '../../api/namespaces/views.ts';
import type { CatalogObject } from '../../catalog/object.ts';
import { segment, uriOf } from '../../standard/paths.ts';
import { shownDescription } from '../records/fields.ts';
import { type Context, implement } from '../records/handler_context.ts';
import { dependentViews } from '../records/in_use_by_views.ts';
import { commonFields, freshPage, type RenderOf, render } from '../records/object_records.ts';
import { created, done, found, updated } from '../records/outcomes.ts';
import { ownerName, requirePrivilege } from '../records/permissions.ts';
import { findByName } from '../records/search.ts';
import { engineStateOf } from '../records/states.ts';
import { dropHandler, undropHandler } from '../records/undrop.ts';
import {
  changeView,
  createView,
  readBody,
  renameView,
  requireUsableViewName,
  restoredView,
  sharesNames,
  viewRef,
} from './view_definition.ts';

/** The response depends on the caller, so it is not cached. */
const toRecord: RenderOf<typeof viewsApi> = async ([, , object], uri, context) => {
  const { name, spec } = object;
  const columns = spec.columns.map((column, i) => ({ name: column.name, position: i + 1, type: column.type }));
  const dependsOn = await sourceUris(object, context);
  return {
    name,
    ...shownDescription(spec),
    sql: spec.sql,
    columns,
    dependsOn,
    ...engineStateOf(object),
    owner: ownerName(object, context),
    ...commonFields(object, uri),
  };
};

async function sourceUris({ id, state }: CatalogObject, context: Context): Promise<string[]> {
  if (state === 'dropped') return [];
  const { principal, version } = context.call;
  const sources = await context.catalog.sourcesOf(id);
  const chains = await Promise.all(sources.map((source) => context.catalog.findChain(source)));
  const shown = chains.filter(
    (chain) => chain.length > 0 && context.access.authorizer.isVisible(principal, 'read', 'catalogs', chain),
  );
  return shown.map((chain) => uriOf(version, chain)).sort();
}

export const views = implement(viewsApi, {
  list: ({ segments, page: requestedPage }, context) => freshPage(segments, 'views', requestedPage, context, toRecord),
  get: async ({ segments }, context) =>
    found(await render(segments, await context.catalog.require(segments), context, toRecord)),
  create: async ({ segments, body, ifExists }, context) => {
    const { chain, isNew: made } = await createView(segments, body, ifExists, context);
    const path = [...segments, segment('views', chain[2].name)] as const;
    return created(await render(path, chain, context, toRecord), made);
  },
  update: async ({ segments, body }, context) =>
    updated(await render(segments, await changeView(segments, body, context), context, toRecord)),
  delete: dropHandler<typeof viewsApi>(([root, database, { name }]) => {
    const view = viewRef([root, database], name);
    const change = { kind: 'dropView', view } as const;
    const purge = { kind: 'purge', catalog: view.catalog, hidden: [], databases: [] } as const;
    return { warehouse: root.spec.warehouse, change, keep: { change: () => change, purge } };
  }),
  rename: async ({ segments, body: { newName } }, context) => {
    const [root, database] = segments;
    const chain = await renameView(segments, newName, context);
    return done(await render([root, database, segment('views', newName)], chain, context, toRecord));
  },
  compare: async ({ segments, body }, context) => {
    const { name, sql } = await readBody(body, await context.catalog.require(segments), context);
    const path = [...segments, segment('views', body.renamedFrom ?? name)] as const;
    const chain = await context.catalog.find(path);
    if (!chain) return done({ name, sql });
    await requirePrivilege('read', path, context);
    return done({ name, sql, view: await render(path, chain, context, toRecord) });
  },
  dependents: async ({ segments }, context) => {
    const [, , { id }] = await context.catalog.require(segments);
    return done(await dependentViews(id, context));
  },
  search: findByName(viewsApi, toRecord),
  undrop: undropHandler(viewsApi, {
    toRecord,
    check: requireUsableViewName,
    sharesNames,
    prepare: ({ object, name, parents }, context) => restoredView(object, name, parents, context),
  }),
});
