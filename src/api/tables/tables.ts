// The declaration of `tables`: operations, bodies and results. See table_fields.ts for the fields of the record, table_writes.ts
// for the actions that change rows.
import type { Code } from '../../standard/codes.ts';
import { exactlyOneOf } from '../../standard/documented_limits.ts';
import { objectName } from '../../standard/object_name.ts';
import { Type } from '../../standard/type.ts';
import { action, category, create, get, list, update } from '../declare.ts';
import { dependentsApi } from '../dependents.ts';
import { describedBody, engineCodes, exampleFields, noFields, noNul, unique } from '../fields.ts';
import { databasesApi } from '../namespaces/databases.ts';
import { codes, Parameters, Query, queryCost, WaitSeconds } from '../queries/statement_fields.ts';
import { searchWithDropped } from '../search.ts';
import { engineStateExample } from '../states.ts';
import { NewNameByTask, sometimesByTask, taskCodes, taskFields } from '../task_fields.ts';
import { exportTableApi } from '../transfer/export_actions.ts';
import { loadTableApi } from '../transfer/load_table.ts';
import { drop, undropByTask } from '../undrop.ts';
import { ColumnBody, columnsMax, definitionFields, TableRecord } from './table_fields.ts';
import { tableWritesApi } from './table_writes.ts';

const AsSelect = Type.Object(
  {
    sql: Query,
    parameters: Type.Optional(Parameters),
    waitSeconds: Type.Optional(WaitSeconds),
    ...taskFields,
  },
  {
    additionalProperties: false,
    description:
      'A query instead of `columns`: it determines their names and types, and the rows. The table is invisible before it is complete.',
  },
);
/** Further codes of creating such a table. */
const fillCodes: readonly Code[] = [
  ...codes,
  ...taskCodes,
  'TASK_ATTEMPTS_EXHAUSTED',
  'TASK_ENDED_ENGINE',
  'TASK_INTERRUPTED',
];

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
        description: 'A CREATE TABLE statement instead of `columns`; it then determines the name.',
      }),
    ),
  },
  { additionalProperties: false, ...exactlyOneOf('columns', 'sql', 'asSelect') },
);

const copyFields = {
  newName: objectName('The name of the copy.'),
  catalog: Type.Optional(Type.String({ description: 'By default the same.' })),
  database: Type.Optional(Type.String({ description: 'By default the same.' })),
};

export const tablesApi = category({
  name: 'tables',
  singular: 'table',
  title: 'Tables',
  doc: 'Tables: typed columns, keys, and how the rows are distributed and ordered.',
  parameter: 'table',
  parent: databasesApi,
  securable: true,
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
  endpoints: {
    list: list({
      summary: 'Lists the tables of a database by name.',
      permission: { privilege: 'read', on: 'parent', orWithin: true },
      codes: ['OBJECT_NOT_FOUND'],
    }),
    get: get({
      summary: 'Shows a table.',
      permission: { privilege: 'read', on: 'object' },
    }),
    create: create({
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
      task: 'create_filled_table',
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
    }),
    update: update({
      summary: 'Changes a table: its description, its unique key, its columns.',
      description:
        '`columns` is the complete new list: a column with an existing name is changed, a new one is added, an omitted one is dropped with its data.  ' +
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
      task: 'alter_table',
      example: { body: { unique_key_constraints: ['order_number'], comment: 'All orders' } },
    }),
    delete: drop({
      summary: 'Deletes a table, and its data, that no view is made of.',
      codes: ['CHANGE_IN_PROGRESS', 'IN_USE', ...engineCodes],
    }),
    rename: action('object', {
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
      task: 'alter_table',
      example: { body: { newName: 'orders_2026' } },
    }),
    truncate: action('object', {
      freesSpace: true,
      summary: 'Deletes all rows of a table.',
      permission: { privilege: 'write', on: 'object' },
      codes: ['OBJECT_NOT_FOUND', 'CHANGE_IN_PROGRESS', ...engineCodes],
      body: noFields,
      result: TableRecord,
    }),
    ...tableWritesApi,
    copy_definition: action('object', {
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
    }),
    clone: action('object', {
      summary: 'Creates a table with the same definition and the same rows, in the same or another database.',
      description: 'The copy is invisible before it is complete. After `waitSeconds` it continues as a task (202).',
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
      task: 'create_filled_table',
      cost: queryCost,
      example: { body: { newName: 'orders_as_of_friday' } },
    }),
    ...exportTableApi,
    ...loadTableApi,
    ...dependentsApi('table'),
    search: searchWithDropped({ category: 'tables', record: TableRecord, example: 'ord%', isChild: true }),
    undrop: undropByTask('undrop_table', { title: 'a table', record: TableRecord }),
  },
});
