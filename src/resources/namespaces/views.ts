// Views: made of a query, shown, changed, dropped. What their queries may be and name is view_definition.ts'.

import {
  Comment,
  describedBody,
  engineCodes,
  exampleFields,
  NewName,
  noNul,
  nullable,
  Owner,
  PropertiesField,
  recordFields,
} from '../../api/fields.ts';
import { codes as queryCodes, queryCost, sqlCharactersMax } from '../../api/queries/statement_fields.ts';
import { engineState, engineStateExample } from '../../api/states.ts';
import type { CatalogObject } from '../../catalog/object.ts';
import type { ViewSpec } from '../../model/records.ts';
import type { Category, PathParameters } from '../../standard/endpoint.ts';
import { uriOf } from '../../standard/paths.ts';
import { Type } from '../../standard/type.ts';
import { last, shownDescription } from '../records/fields.ts';
import {
  action,
  type Context,
  commonFields,
  create,
  created,
  deleted,
  done,
  found,
  freshPage,
  get,
  list,
  ownerName,
  type Render,
  remove,
  render,
  segment,
  unique,
  update,
  updated,
} from '../records/handler_context.ts';
import { searchOf } from '../records/search.ts';
import { engineStateOf } from '../records/states.ts';
import { Purge, retentionDoc, softDelete, undropAction } from '../records/undrop.ts';
import {
  changeView,
  createView,
  renameView,
  requireUsableViewName,
  restoredView,
  sharesNames,
  type ViewChain,
  viewRef,
} from './view_definition.ts';

const parentOf = (path: PathParameters) => [
  segment('catalogs', path.catalog as string),
  segment('databases', path.database as string),
];
const pathOf = (path: PathParameters) => [...parentOf(path), segment('views', path.view as string)];

const ViewRecord = Type.Object({
  name: Type.String(),
  comment: nullable(Comment),
  properties: PropertiesField,
  sql: Type.String({ description: 'The query, as it was given.' }),
  columns: Type.Array(
    Type.Object({
      name: Type.String(),
      position: Type.Integer({ minimum: 1 }),
      type: Type.String({ description: 'The logical type in its canonical form.' }),
    }),
  ),
  dependsOn: Type.Array(Type.String(), {
    description: 'URIs of the tables and views that the query names, as far as the caller may read them.',
  }),
  ...engineState,
  owner: Owner,
  ...recordFields,
});

const QueryField = Type.String({
  minLength: 1,
  maxLength: sqlCharactersMax,
  pattern: noNul,
  description:
    'One query, without parameters. Names that are not whole are looked for in the database of the view. To create: a CREATE VIEW statement too; its name need not be said again.',
});

/** Who is asked shows in it: it is made for each caller. */
const toRecord: Render = async (chain, uri, context) => {
  const object = last(chain) as CatalogObject<ViewSpec>;
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
  const uris: string[] = [];
  if (state === 'dropped') return uris;
  const { principal, version } = context.call;
  for (const source of await context.catalog.sourcesOf(id)) {
    const chain = await context.catalog.findChain(source);
    if (chain.length > 0 && context.access.authorizer.isVisible(principal, 'read', 'catalogs', chain))
      uris.push(uriOf(version, chain));
  }
  return uris.sort();
}

const changeCodes = ['OBJECT_NOT_FOUND', 'CHANGE_IN_PROGRESS', ...engineCodes] as const;
/** What the reading of a query can answer besides. */
const readCodes = queryCodes.filter((code) => code !== 'PARAMETERS_INVALID' && code !== 'CONSTRAINT_VIOLATED');

export const views: Category<Context> = {
  name: 'views',
  singular: 'view',
  title: 'Views',
  doc: 'Queries with a name: SQL reads a view as it reads a table. Who reads one needs `read` on it and on all that it is made of.',
  parameter: 'view',
  parent: 'databases',
  record: ViewRecord,
  example: {
    name: 'big_orders',
    comment: null,
    properties: {},
    sql: 'SELECT id, placed_at FROM orders WHERE total > 1000',
    columns: [
      { name: 'id', position: 1, type: 'BIGINT' },
      { name: 'placed_at', position: 2, type: 'DATETIME' },
    ],
    dependsOn: ['/api/v2/catalogs/default/databases/shop/tables/orders'],
    ...engineStateExample,
    owner: 'root',
    ...exampleFields('/api/v2/catalogs/default/databases/shop/views/big_orders'),
  },
  endpoints: [
    list({
      summary: 'Lists the views of a database by name.',
      permission: { privilege: 'read', on: 'parent', orWithin: true },
      codes: ['OBJECT_NOT_FOUND'],
      handle: ({ path, page: at }, context) => freshPage(parentOf(path), 'views', at, context, toRecord),
    }),
    get({
      summary: 'Shows a view.',
      permission: { privilege: 'read', on: 'object' },
      handle: async ({ path }, context) => {
        const chain = await context.catalog.require(pathOf(path));
        return found(await render(pathOf(path), chain, context, toRecord));
      },
    }),
    create({
      summary: 'Creates a view, of a query or from a CREATE VIEW statement.',
      description: 'The caller must be able to run the query.',
      permission: { privilege: 'create', on: 'parent' },
      codes: unique([...changeCodes, 'INVALID_NAME', 'OBJECT_ALREADY_EXISTS', ...readCodes]),
      body: Type.Object({ ...describedBody, sql: QueryField }, { additionalProperties: false }),
      textBodies: { 'application/sql': 'sql' },
      bodyRequired: true,
      nameOptional: true,
      cost: queryCost,
      example: { body: { name: 'big_orders', sql: 'SELECT id, placed_at FROM orders WHERE total > 1000' } },
      handle: async ({ path, body, ifExists }, context) => {
        const { chain, made } = await createView(parentOf(path), body, ifExists, context);
        const at = chain.map(({ category, name }) => segment(category, name));
        const record = (await render(at, chain, context, toRecord)) as { uri: string };
        return created(record, made, record.uri);
      },
    }),
    update({
      summary: 'Changes a view: its query, its description.',
      description:
        'The caller must be able to run the new query. One with which views over it would not be valid any more is refused (`IN_USE`).',
      permission: { privilege: 'alter', on: 'object' },
      codes: unique([...changeCodes, 'IN_USE', ...readCodes]),
      body: Type.Object({ ...describedBody, sql: Type.Optional(QueryField) }, { additionalProperties: false }),
      cost: queryCost,
      example: { body: { sql: 'SELECT id, placed_at FROM orders WHERE total > 5000', comment: 'Over 5000' } },
      handle: async ({ path, body }, context) =>
        updated(await render(pathOf(path), await changeView(pathOf(path), body, context), context, toRecord)),
    }),
    remove({
      summary: 'Deletes a view. What it is made of stays.',
      description: retentionDoc,
      permission: { privilege: 'drop', on: 'object' },
      codes: ['CHANGE_IN_PROGRESS', 'IN_USE', ...engineCodes],
      query: Type.Object({ purge: Purge }, { additionalProperties: false }),
      handle: async ({ path, query }, context) => {
        const chain = (await context.catalog.find(pathOf(path))) as ViewChain | undefined;
        if (!chain) return deleted(false);
        const view = viewRef(chain);
        const change = { kind: 'dropView', view } as const;
        const purge = { kind: 'purge', catalog: view.catalog, hidden: [], databases: [] } as const;
        return deleted(
          await context.catalog.drop(chain[2], {
            principal: context.call.actor,
            cascade: true,
            childCategories: [],
            warehouse: chain[0].spec.warehouse,
            change,
            keep: softDelete(query, context, { change: () => change, purge }),
          }),
        );
      },
    }),
    action('rename', {
      on: 'object',
      summary: 'Renames a view that no other view is made of.',
      permission: { privilege: 'alter', on: 'object' },
      codes: [...changeCodes, 'INVALID_NAME', 'OBJECT_ALREADY_EXISTS', 'IN_USE', 'SQL_INVALID', 'SQL_NOT_SUPPORTED'],
      body: NewName,
      bodyRequired: true,
      result: ViewRecord,
      example: { body: { newName: 'large_orders' } },
      handle: async ({ path, body }, context) => {
        const chain = await renameView(pathOf(path), body.newName, context);
        return done(await render([...parentOf(path), segment('views', body.newName)], chain, context, toRecord));
      },
    }),
    searchOf({ category: 'views', record: ViewRecord, toRecord, parentOf, retained: true, example: '%orders' }),
    undropAction<CatalogObject<ViewSpec>>({
      category: 'views',
      title: 'a view',
      record: ViewRecord,
      toRecord,
      parentOf,
      check: requireUsableViewName,
      sharesNames,
      codes: readCodes,
      change: { prepare: ({ object, name, parents }, context) => restoredView(object, name, parents, context) },
    }),
  ],
};
