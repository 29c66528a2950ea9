// Databases: what a catalog is divided into.

import {
  Comment,
  describedBody,
  engineCodes,
  exampleFields,
  nullable,
  Owner,
  PropertiesField,
  recordFields,
} from '../../api/fields.ts';
import { sqlActionsApi } from '../../api/queries/sql_actions.ts';
import { engineState, engineStateExample } from '../../api/states.ts';
import { NewNameByTask, sometimesByTask, taskCodes } from '../../api/task_fields.ts';
import { backupApi, restoreDatabaseApi } from '../../api/transfer/backup_actions.ts';
import { exportQueryApi } from '../../api/transfer/export_actions.ts';
import { loadDatabaseApi } from '../../api/transfer/load_database.ts';
import type { CatalogObject } from '../../catalog/object.ts';
import type { CatalogSpec, DatabaseSpec, TableSpec } from '../../model/records.ts';
import type { Category, PathParameters } from '../../standard/endpoint.ts';
import { Failure } from '../../standard/failure.ts';
import { Type } from '../../standard/type.ts';
import { sqlHandlers } from '../queries/sql_actions.ts';
import { defined, describe, last, shownDescription } from '../records/fields.ts';
import {
  accepted,
  action,
  type Context,
  commonFields,
  create,
  created,
  deleted,
  done,
  endpointsOf,
  found,
  get,
  list,
  newOwner,
  ownerId,
  ownerName,
  page,
  type Render,
  remove,
  render,
  requireTask,
  segment,
  show,
  update,
  updated,
} from '../records/handler_context.ts';
import { searchOf } from '../records/search.ts';
import { engineStateOf } from '../records/states.ts';
import { splitTaskOptions } from '../records/task_fields.ts';
import { Purge, retentionDoc, softDelete, undropAction } from '../records/undrop.ts';
import { definitionOf } from '../table_definitions/table_definition.ts';
import { backupHandlers, restoreDatabase } from '../transfer/backup_actions.ts';
import { exportQuery } from '../transfer/export_actions.ts';
import { loadDatabase } from '../transfer/load_database.ts';
import { defaultCatalogName } from './catalogs.ts';
import { keptViews, renamedDoc } from './view_definition.ts';

const DatabaseRecord = Type.Object({
  name: Type.String(),
  comment: nullable(Comment),
  properties: PropertiesField,
  tableCount: Type.Integer({ description: 'Tables in it.' }),
  viewCount: Type.Integer({ description: 'Views in it.' }),
  ...engineState,
  owner: Owner,
  ...recordFields,
});

const parentOf = (path: PathParameters) => [segment('catalogs', path.catalog as string)];
const pathOf = (path: PathParameters) => [...parentOf(path), segment('databases', path.database as string)];

const toRecord: Render = async (chain, uri, context) => {
  const object = last(chain) as CatalogObject<DatabaseSpec>;
  const { name, spec, id } = object;
  const count = (category: string) =>
    object.state === 'dropped' ? context.catalog.countDropped(id, category) : context.catalog.count(id, category);
  return {
    name,
    ...shownDescription(spec),
    tableCount: await count('tables'),
    viewCount: await count('views'),
    ...engineStateOf(object),
    owner: ownerName(object, context),
    ...commonFields(object, uri),
  };
};

type Chain = [CatalogObject<CatalogSpec>, CatalogObject<DatabaseSpec>];
const ref = ([root, database]: Chain) => ({ catalog: { id: root.id, name: root.name }, database: database.name });

async function requireUsableName(name: string, root: CatalogObject<CatalogSpec>, context: Context): Promise<void> {
  const fault = (await context.warehouses.engineOf(root.spec.warehouse)).reservedName('databases', name);
  if (fault !== undefined) throw new Failure('INVALID_NAME', fault, { name });
}

/** All tables, for an engine that has to move them one by one. */
async function tablesOf(database: CatalogObject, context: Context): Promise<CatalogObject<TableSpec>[]> {
  const tables: CatalogObject<TableSpec>[] = [];
  for (let after: string | undefined; ; ) {
    const some = await context.catalog.list(database.id, 'tables', { limit: 1000, ...defined({ after }) });
    tables.push(...(some as CatalogObject<TableSpec>[]));
    if (some.length < 1000) return tables;
    after = some.at(-1)?.name;
  }
}

const changeCodes = ['OBJECT_NOT_FOUND', 'CHANGE_IN_PROGRESS', ...engineCodes] as const;

export const databases: Category<Context> = {
  name: 'databases',
  singular: 'database',
  title: 'Databases',
  doc: 'What a catalog is divided into: a database holds tables and is the default namespace of SQL sent to it.',
  parameter: 'database',
  parent: 'catalogs',
  parentDefault: defaultCatalogName,
  record: DatabaseRecord,
  example: {
    name: 'ssb',
    comment: null,
    properties: {},
    tableCount: 5,
    viewCount: 0,
    ...engineStateExample,
    owner: 'root',
    ...exampleFields('/api/v2/catalogs/default/databases/ssb'),
  },
  endpoints: [
    list({
      summary: 'Lists the databases of a catalog by name.',
      permission: { privilege: 'read', on: 'parent', orWithin: true },
      codes: ['OBJECT_NOT_FOUND'],
      handle: ({ path, page: at }, context) => page(parentOf(path), 'databases', at, context, toRecord),
    }),
    get({
      summary: 'Shows a database.',
      permission: { privilege: 'read', on: 'object' },
      handle: async ({ path }, context) => found(await show(pathOf(path), context, toRecord)),
    }),
    create({
      summary: 'Creates a database.',
      permission: { privilege: 'create', on: 'parent' },
      codes: [...changeCodes, 'INVALID_NAME', 'OBJECT_ALREADY_EXISTS'],
      body: Type.Object(describedBody, { additionalProperties: false }),
      example: { body: { name: 'ssb', comment: 'Star Schema Benchmark' } },
      handle: async ({ path, body, ifExists }, context) => {
        const { name } = body as typeof body & { name: string };
        const [root] = (await context.catalog.require(parentOf(path))) as [CatalogObject<CatalogSpec>];
        await requireUsableName(name, root, context);
        const database = { catalog: { id: root.id, name: root.name }, database: name };
        const { object, created: made } = await context.catalog.create({
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
        const at = [...parentOf(path), segment('databases', object.name)];
        const record = (await render(at, [root, object], context, toRecord)) as { uri: string };
        return created(record, made, record.uri);
      },
    }),
    update({
      summary: 'Changes comment, properties or owner of a database.',
      permission: { privilege: 'alter', on: 'object' },
      codes: ['OBJECT_NOT_FOUND', 'CHANGE_IN_PROGRESS'],
      body: Type.Object({ ...describedBody }, { additionalProperties: false }),
      example: { body: { comment: null, properties: { team: 'finance' } } },
      handle: async ({ path, body }, context) => {
        const [root, object] = (await context.catalog.require(pathOf(path))) as Chain;
        const changed = await context.catalog.update(object, {
          spec: describe(object.spec, body),
          principal: context.call.actor,
          owner: await newOwner(body.owner, pathOf(path), context),
        });
        return updated(await render(pathOf(path), [root, changed.object ?? object], context, toRecord));
      },
    }),
    remove({
      summary: 'Deletes a database; with `cascade=true` its tables and views too.',
      permission: { privilege: 'drop', on: 'object' },
      codes: ['NOT_EMPTY', 'IN_USE', 'CHANGE_IN_PROGRESS', ...engineCodes],
      description: retentionDoc,
      query: Type.Object(
        { cascade: Type.Optional(Type.Boolean({ default: false })), purge: Purge },
        { additionalProperties: false },
      ),
      handle: ({ path, query }, context) =>
        context.catalog.retrying(async () => {
          const chain = (await context.catalog.find(pathOf(path))) as Chain | undefined;
          if (!chain) return deleted(false);
          return deleted(
            await context.catalog.drop(chain[1], {
              principal: context.call.actor,
              cascade: query.cascade ?? false,
              childCategories: ['tables', 'views'],
              warehouse: chain[0].spec.warehouse,
              change: ({ hidden }) => ({ kind: 'dropDatabase', database: ref(chain), hidden }),
              keep: softDelete(query, context, {
                change: ({ children }) => ({
                  kind: 'hideDatabase',
                  database: ref(chain),
                  tables: children.filter(({ category }) => category === 'tables'),
                }),
                purge: { kind: 'purge', catalog: ref(chain).catalog, hidden: [], databases: [chain[1].name] },
              }),
            }),
          );
        }),
    }),
    action('rename', {
      on: 'object',
      summary: 'Renames a database.',
      description: sometimesByTask(
        `An engine that cannot rename a database moves its tables: a large one is renamed by a task (202). ${renamedDoc('A database')}`,
      ),
      permission: { privilege: 'alter', on: 'object' },
      codes: [...changeCodes, 'INVALID_NAME', 'OBJECT_ALREADY_EXISTS', 'IN_USE', ...taskCodes],
      body: NewNameByTask,
      bodyRequired: true,
      result: DatabaseRecord,
      mayAccept: true,
      example: { body: { newName: 'ssb_2026' } },
      handle: ({ path, body }, context) =>
        context.catalog.retrying(async () => {
          const { asked, options } = await splitTaskOptions(body, context);
          const chain = (await context.catalog.require(pathOf(path))) as Chain;
          const [root, object] = chain;
          await requireUsableName(body.newName, root, context);
          const tables = await tablesOf(object, context);
          const changed = await context.catalog.update(object, {
            name: body.newName,
            principal: context.call.actor,
            warehouse: root.spec.warehouse,
            change: {
              kind: 'renameDatabase',
              database: ref(chain),
              newName: body.newName,
              tables: tables.map(({ name, spec }) => ({ name, definition: definitionOf(spec) })),
            },
            children: { category: 'tables', expected: tables },
            task: {
              type: 'rename_database',
              target: ((await render(pathOf(path), chain, context, toRecord)) as { uri: string }).uri,
              request: asked,
              ...options,
            },
          });
          if (changed.taskId !== undefined) return accepted(await requireTask(changed.taskId, context), context);
          return done(
            await render(
              [...parentOf(path), segment('databases', body.newName)],
              [root, changed.object],
              context,
              toRecord,
            ),
          );
        }),
    }),
    searchOf({ category: 'databases', record: DatabaseRecord, toRecord, parentOf, retained: true, example: 'ss%' }),
    undropAction<CatalogObject<DatabaseSpec>>({
      category: 'databases',
      title: 'a database',
      record: DatabaseRecord,
      toRecord,
      parentOf,
      task: 'undrop_database',
      check: (name, [root], context) => requireUsableName(name, root as CatalogObject<CatalogSpec>, context),
      change: ({ object, name, parents, within }) => ({
        kind: 'restoreDatabase',
        database: ref([parents[0], { ...object, name }] as Chain),
        from: object.name,
        tables: (within.filter(({ category }) => category === 'tables') as CatalogObject<TableSpec>[]).map((table) => ({
          id: table.id,
          name: table.name,
          definition: definitionOf(table.spec),
        })),
        views: keptViews(within, () => name),
      }),
    }),
    ...endpointsOf(sqlActionsApi('database'), sqlHandlers),
    ...endpointsOf(exportQueryApi('database'), exportQuery),
    ...endpointsOf(backupApi('database'), backupHandlers),
    ...endpointsOf(restoreDatabaseApi, restoreDatabase),
    ...endpointsOf(loadDatabaseApi, loadDatabase),
  ],
};
