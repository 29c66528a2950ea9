// The handlers of `databases`, which divide a catalog.

import { databasesApi } from '../../api/namespaces/databases.ts';
import { type CatalogObject, isOf, type ObjectOf } from '../../catalog/object.ts';
import type { DatabaseSpec } from '../../model/records.ts';
import { segment, uriOf } from '../../standard/paths.ts';
import { sqlHandlers } from '../queries/sql_actions.ts';
import { describe, shownDescription } from '../records/fields.ts';
import { type Context, implement } from '../records/handler_context.ts';
import { commonFields, page, type RenderOf, render, show } from '../records/object_records.ts';
import { created, done, found, updated } from '../records/outcomes.ts';
import { newOwner, ownerId, ownerName, requireUnreserved } from '../records/permissions.ts';
import { findByName } from '../records/search.ts';
import { engineStateOf } from '../records/states.ts';
import { splitTaskOptions } from '../records/task_fields.ts';
import { acceptedTask } from '../records/task_record.ts';
import { dropHandler, undropHandlerByTask } from '../records/undrop.ts';
import { definitionOf } from '../table_definitions/table_definition.ts';
import { backupHandlers, restoreDatabase } from '../transfer/backup_actions.ts';
import { exportQuery } from '../transfer/export_actions.ts';
import { loadDatabase } from '../transfer/load_database.ts';
import { browse } from './browse.ts';
import { retainedViews } from './view_definition.ts';

const toRecord: RenderOf<typeof databasesApi> = async ([, object], uri, context) => {
  const { name, spec, id } = object;
  const count = (category: string) =>
    object.state === 'dropped' ? context.catalog.countDropped(id, category) : context.catalog.count(id, category);
  const [tableCount, viewCount] = await Promise.all([count('tables'), count('views')]);
  return {
    name,
    ...shownDescription(spec),
    tableCount,
    viewCount,
    ...engineStateOf(object),
    owner: ownerName(object, context),
    ...commonFields(object, uri),
  };
};

const ref = ({ id, name }: ObjectOf<'catalogs'>, database: string) => ({ catalog: { id, name }, database });

const requireUsableName = (name: string, { spec }: ObjectOf<'catalogs'>, context: Context) =>
  requireUnreserved('databases', name, spec.warehouse, context);

/** All tables of the database, for an engine that has to move them one by one. */
async function tablesOf(database: CatalogObject, context: Context): Promise<ObjectOf<'tables'>[]> {
  const tables: ObjectOf<'tables'>[] = [];
  for (let after: string | undefined; ; ) {
    const some = await context.catalog.list(database.id, 'tables', { after, limit: 1000 });
    tables.push(...some);
    if (some.length < 1000) return tables;
    after = some.at(-1)?.name;
  }
}

export const databases = implement(databasesApi, {
  list: ({ segments, page: requestedPage }, context) => page(segments, 'databases', requestedPage, context, toRecord),
  get: async ({ segments }, context) => found(await show(segments, context, toRecord)),
  create: async ({ segments, body, ifExists }, context) => {
    const { name } = body;
    const [root] = await context.catalog.require(segments);
    await requireUsableName(name, root, context);
    const database = ref(root, name);
    const { object, created: isNew } = await context.catalog.create<DatabaseSpec>({
      parent: root,
      category: 'databases',
      name,
      spec: describe({}, body),
      principal: context.call.actor,
      ifExists,
      warehouse: root.spec.warehouse,
      change: { kind: 'createDatabase', database },
      undo: { kind: 'dropDatabase', database },
      owner: ownerId(body.owner, context),
    });
    const path = [...segments, segment('databases', object.name)] as const;
    return created(await render(path, [root, object], context, toRecord), isNew);
  },
  update: async ({ segments, body }, context) => {
    const [root, object] = await context.catalog.require(segments);
    const changed = await context.catalog.update(object, {
      spec: describe(object.spec, body),
      principal: context.call.actor,
      owner: await newOwner(body.owner, segments, context),
    });
    return updated(await render(segments, [root, changed.object ?? object], context, toRecord));
  },
  delete: dropHandler<typeof databasesApi>(([root, { name }]) => {
    const database = ref(root, name);
    return {
      warehouse: root.spec.warehouse,
      change: ({ hidden }) => ({ kind: 'dropDatabase', database, hidden }),
      keep: {
        change: ({ children }) => ({
          kind: 'hideDatabase',
          database,
          tables: children.filter(({ category }) => category === 'tables'),
        }),
        purge: { kind: 'purge', catalog: database.catalog, hidden: [], databases: [name] },
      },
    };
  }),
  rename: async ({ segments, body }, context) => {
    const { request, options } = await splitTaskOptions(body, context);
    const { newName } = request;
    const [root, object] = await context.catalog.require(segments);
    await requireUsableName(newName, root, context);
    const tables = await tablesOf(object, context);
    const changed = await context.catalog.update(object, {
      name: newName,
      principal: context.call.actor,
      warehouse: root.spec.warehouse,
      change: {
        kind: 'renameDatabase',
        database: ref(root, object.name),
        newName,
        tables: tables.map(({ name, spec }) => ({ name, definition: definitionOf(spec) })),
      },
      children: { category: 'tables', expected: tables },
      task: { type: 'rename_database', target: uriOf(context.call.version, segments), request, ...options },
    });
    if (changed.taskId !== undefined) return acceptedTask(changed.taskId, 'rename_database', context);
    const path = [segments[0], segment('databases', newName)] as const;
    return done(await render(path, [root, changed.object], context, toRecord));
  },
  browse: browse('databases'),
  search: findByName(databasesApi, toRecord),
  undrop: undropHandlerByTask(databasesApi, 'undrop_database', {
    toRecord,
    check: (name, [root], context) => requireUsableName(name, root, context),
    prepare: ({ object, name, parents: [root] }) => ({
      change: (descendants) => ({
        kind: 'restoreDatabase',
        database: ref(root, name),
        from: object.name,
        tables: descendants
          .filter((object) => isOf(object, 'tables'))
          .map((table) => ({ id: table.id, name: table.name, definition: definitionOf(table.spec) })),
        views: retainedViews(descendants, () => name),
      }),
    }),
  }),
  ...sqlHandlers,
  ...exportQuery,
  ...backupHandlers,
  ...restoreDatabase,
  ...loadDatabase,
});
