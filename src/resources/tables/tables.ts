// Tables: made, shown, changed, dropped. What a definition means is table_definition.ts; single columns are columns.ts.

import { describedBody, engineCodes, exampleFields, noNul } from '../../api/fields.ts';
import { queryCost, WaitSeconds } from '../../api/queries/statement_fields.ts';
import { engineStateExample } from '../../api/states.ts';
import { NewNameByTask, sometimesByTask, taskCodes, taskFields } from '../../api/task_fields.ts';
import { loadTableApi } from '../../api/transfer/load_table.ts';
import type { CatalogObject } from '../../catalog/object.ts';
import type { TableSpec } from '../../model/records.ts';
import type { Category, PathParameters } from '../../standard/endpoint.ts';
import { Type } from '../../standard/type.ts';
import { defined } from '../records/fields.ts';
import {
  accepted,
  action,
  type Context,
  create,
  created,
  deleted,
  done,
  endpointsOf,
  found,
  get,
  list,
  page,
  remove,
  render,
  requirePrivilege,
  requireTask,
  segment,
  show,
  unique,
  update,
  updated,
} from '../records/handler_context.ts';
import { searchOf } from '../records/search.ts';
import { splitTaskOptions } from '../records/task_fields.ts';
import { Purge, retentionDoc, undropAction } from '../records/undrop.ts';
import {
  changeTable,
  copyTable,
  createTable,
  type TableChain,
  tableRef,
} from '../table_definitions/create_and_alter.ts';
import { ColumnBody, columnsMax, definitionFields } from '../table_definitions/table_definition.ts';
import { TableRecord, tableRecordOf as toRecord } from '../table_definitions/table_record.ts';
import { loadTable } from '../transfer/load_table.ts';
import { AsSelect, cloneTable, createFromQuery, type Filled, fillCodes } from './create_table_as_select.ts';
import { dataActions } from './data_actions.ts';
import { requireUsableTableName, restoreTable, softDeleteTable } from './table_undrop.ts';

const parentOf = (path: PathParameters) => [
  segment('catalogs', path.catalog as string),
  segment('databases', path.database as string),
];
export const tablePathOf = (path: PathParameters) => [...parentOf(path), segment('tables', path.table as string)];

export { engineCodes };

const CreateBody = Type.Object(
  {
    ...describedBody,
    ...definitionFields,
    columns: Type.Optional(Type.Array(ColumnBody, { maxItems: columnsMax })),
    asSelect: Type.Optional(AsSelect),
    sql: Type.Optional(
      Type.String({
        maxLength: 1_048_576,
        pattern: noNul,
        description: 'A CREATE TABLE statement instead of `columns`; its table name need not be said again.',
      }),
    ),
  },
  { additionalProperties: false },
);

const copyFields = {
  newName: Type.String({ description: 'The name of the copy.' }),
  catalog: Type.Optional(Type.String({ description: 'By default the same.' })),
  database: Type.Optional(Type.String({ description: 'By default the same.' })),
};

/** The answer to a request that made a table, or will have made it. */
async function shownNew(outcome: Filled, context: Context) {
  if (outcome.accepted) return outcome.accepted;
  const { chain, made } = outcome;
  const at = chain.map(({ category, name }) => segment(category, name));
  const record = (await render(at, chain, context, toRecord)) as { uri: string };
  return created(record, made, record.uri);
}

export const tables: Category<Context> = {
  name: 'tables',
  singular: 'table',
  title: 'Tables',
  doc: 'What a database holds: typed columns, keys, and how the rows are spread and ordered.',
  parameter: 'table',
  parent: 'databases',
  record: TableRecord,
  example: {
    name: 'orders',
    comment: null,
    properties: {},
    columns: [
      { name: 'id', position: 1, type: 'BIGINT', nullable: false, defaultValue: null, comment: null, isKey: true },
      {
        name: 'placed_at',
        position: 2,
        type: 'DATETIME',
        nullable: true,
        defaultValue: 'current_timestamp',
        comment: null,
        isKey: false,
      },
    ],
    primaryKey: ['id'],
    unique_key_constraints: [],
    orderBy: [],
    partitionBy: [],
    distribution: { by: [], buckets: 1 },
    replicationNum: 1,
    ...engineStateExample,
    owner: 'root',
    statistics: { rowCount: 1200, dataBytes: 65536, asOf: '2026-01-31T10:00:01.000Z' },
    ...exampleFields('/api/v2/catalogs/default/databases/shop/tables/orders'),
  },
  endpoints: [
    list({
      summary: 'Lists the tables of a database by name.',
      permission: { privilege: 'read', on: 'parent', orWithin: true },
      codes: ['OBJECT_NOT_FOUND'],
      handle: ({ path, page: at }, context) => page(parentOf(path), 'tables', at, context, toRecord),
    }),
    get({
      summary: 'Shows a table.',
      permission: { privilege: 'read', on: 'object' },
      handle: async ({ path }, context) => found(await show(tablePathOf(path), context, toRecord)),
    }),
    create({
      summary: 'Creates a table, from a definition or from a CREATE TABLE statement.',
      permission: { privilege: 'create', on: 'parent' },
      codes: unique([
        'OBJECT_NOT_FOUND',
        'INVALID_NAME',
        'OBJECT_ALREADY_EXISTS',
        'CHANGE_IN_PROGRESS',
        'SQL_INVALID',
        'SQL_NOT_SUPPORTED',
        'NOT_ENOUGH_BACKENDS',
        ...engineCodes,
        ...fillCodes,
        ...taskCodes,
      ]),
      body: CreateBody,
      mayAccept: true,
      textBodies: { 'application/sql': 'sql' },
      bodyRequired: true,
      nameOptional: true,
      example: {
        body: {
          name: 'orders',
          columns: [
            { name: 'id', type: 'BIGINT' },
            { name: 'placed_at', type: 'DATETIME', defaultValue: 'current_timestamp' },
          ],
          primaryKey: ['id'],
        },
      },
      handle: async ({ path, body, ifExists }, context) => {
        const { asSelect } = body;
        if (!asSelect) return shownNew(await createTable(parentOf(path), body, ifExists, context), context);
        return shownNew(await createFromQuery(parentOf(path), { ...body, asSelect }, ifExists, context), context);
      },
    }),
    update({
      summary: 'Changes a table: its description, its unique key, its columns.',
      description:
        '`columns` is the whole new list: a column of the same name is changed, one that is new is added, one that is left out is dropped with its data. ' +
        sometimesByTask('A change that has to write the data of a large table again is done by a task (202).'),
      permission: { privilege: 'alter', on: 'object' },
      codes: [
        'OBJECT_NOT_FOUND',
        'VERSION_CONFLICT',
        'CHANGE_IN_PROGRESS',
        'CHANGE_NOT_SUPPORTED',
        'CONSTRAINT_VIOLATED',
        'IN_USE',
        ...engineCodes,
        ...taskCodes,
      ],
      body: Type.Object(
        {
          ...describedBody,
          unique_key_constraints: definitionFields.unique_key_constraints,
          columns: Type.Optional(Type.Array(ColumnBody, { minItems: 1, maxItems: columnsMax })),
          ...taskFields,
        },
        { additionalProperties: false },
      ),
      mayAccept: true,
      example: { body: { unique_key_constraints: ['order_number'], comment: 'All orders' } },
      handle: async ({ path, body }, context) => {
        const { asked, options } = await splitTaskOptions(body, context);
        const outcome = await changeTable(tablePathOf(path), { kind: 'patch', body: asked }, context, options);
        if (outcome.taskId !== undefined) return accepted(await requireTask(outcome.taskId, context), context);
        return updated(await render(tablePathOf(path), outcome.chain, context, toRecord));
      },
    }),
    remove({
      summary: 'Deletes a table, and its data, that no view is made of.',
      permission: { privilege: 'drop', on: 'object' },
      description: retentionDoc,
      codes: ['CHANGE_IN_PROGRESS', 'IN_USE', ...engineCodes],
      query: Type.Object({ purge: Purge }, { additionalProperties: false }),
      handle: async ({ path, query }, context) => {
        const chain = (await context.catalog.find(tablePathOf(path))) as TableChain | undefined;
        if (!chain) return deleted(false);
        return deleted(
          await context.catalog.drop(chain[2], {
            principal: context.call.actor,
            cascade: true,
            childCategories: [],
            warehouse: chain[0].spec.warehouse,
            change: { kind: 'dropTable', table: tableRef(chain) },
            keep: softDeleteTable(query, chain, context),
          }),
        );
      },
    }),
    action('rename', {
      on: 'object',
      summary: 'Renames a table that no view is made of.',
      description: sometimesByTask('A large table with a unique key is renamed by a task (202).'),
      permission: { privilege: 'alter', on: 'object' },
      codes: [
        'OBJECT_NOT_FOUND',
        'INVALID_NAME',
        'OBJECT_ALREADY_EXISTS',
        'CHANGE_IN_PROGRESS',
        'IN_USE',
        ...engineCodes,
        ...taskCodes,
      ],
      body: NewNameByTask,
      bodyRequired: true,
      result: TableRecord,
      mayAccept: true,
      example: { body: { newName: 'orders_2026' } },
      handle: async ({ path, body }, context) => {
        const { asked, options } = await splitTaskOptions(body, context);
        const change = { kind: 'rename', newName: asked.newName } as const;
        const outcome = await changeTable(tablePathOf(path), change, context, options);
        if (outcome.taskId !== undefined) return accepted(await requireTask(outcome.taskId, context), context);
        return done(
          await render([...parentOf(path), segment('tables', body.newName)], outcome.chain, context, toRecord),
        );
      },
    }),
    action('truncate', {
      freesSpace: true,
      on: 'object',
      summary: 'Deletes all rows of a table.',
      permission: { privilege: 'write', on: 'object' },
      codes: ['OBJECT_NOT_FOUND', 'CHANGE_IN_PROGRESS', ...engineCodes],
      body: Type.Object({}, { additionalProperties: false }),
      result: TableRecord,
      handle: async ({ path }, context) => {
        const { chain } = (await changeTable(tablePathOf(path), { kind: 'truncate' }, context)) as {
          chain: TableChain;
        };
        await context.catalog.saveStatistics(chain[2].id, {
          rowCount: 0,
          dataBytes: 0,
          asOf: new Date().toISOString(),
        });
        return done(await render(tablePathOf(path), chain, context, toRecord));
      },
    }),
    ...dataActions(tablePathOf),
    action('copy_definition', {
      on: 'object',
      summary: 'Creates an empty table with the same definition, in the same or another database.',
      permission: { privilege: 'read', on: 'object' },
      codes: [
        'OBJECT_NOT_FOUND',
        'INVALID_NAME',
        'OBJECT_ALREADY_EXISTS',
        'CHANGE_IN_PROGRESS',
        'NOT_ENOUGH_BACKENDS',
        ...engineCodes,
      ],
      body: Type.Object(copyFields, { additionalProperties: false }),
      bodyRequired: true,
      result: TableRecord,
      creates: true,
      example: { body: { newName: 'orders_staging' } },
      handle: async ({ path, body }, context) => {
        const to: PathParameters = { ...path, ...defined({ catalog: body.catalog, database: body.database }) };
        await requirePrivilege('create', parentOf(to), context);
        return shownNew(await copyTable(tablePathOf(path), parentOf(to), body.newName, context), context);
      },
    }),
    action('clone', {
      on: 'object',
      summary: 'Creates a table with the same definition and the same rows, in the same or another database.',
      description: 'Nobody sees the copy before it has all rows. Past `waitSeconds` it goes on as a task (202).',
      permission: { privilege: 'read', on: 'object' },
      codes: unique(['INVALID_NAME', 'OBJECT_ALREADY_EXISTS', 'CHANGE_NOT_SUPPORTED', ...fillCodes, ...taskCodes]),
      body: Type.Object(
        {
          ...copyFields,
          rows: Type.Optional(Type.Boolean({ default: true, description: 'False: the copy is empty.' })),
          waitSeconds: Type.Optional(WaitSeconds),
          ...taskFields,
        },
        { additionalProperties: false },
      ),
      bodyRequired: true,
      result: TableRecord,
      creates: true,
      mayAccept: true,
      cost: queryCost,
      example: { body: { newName: 'orders_as_of_friday' } },
      handle: async ({ path, body }, context) => {
        const { newName, rows = true } = body;
        const to: PathParameters = { ...path, ...defined({ catalog: body.catalog, database: body.database }) };
        await requirePrivilege('create', parentOf(to), context);
        if (!rows) return shownNew(await copyTable(tablePathOf(path), parentOf(to), newName, context), context);
        return shownNew(await cloneTable(tablePathOf(path), parentOf(to), body, context), context);
      },
    }),
    ...endpointsOf(loadTableApi, loadTable),
    searchOf({ category: 'tables', record: TableRecord, toRecord, parentOf, retained: true, example: 'ord%' }),
    undropAction<CatalogObject<TableSpec>>({
      category: 'tables',
      title: 'a table',
      record: TableRecord,
      toRecord,
      parentOf,
      task: 'undrop_table',
      check: requireUsableTableName,
      sharesNames: ['views'],
      change: restoreTable,
    }),
  ],
};
