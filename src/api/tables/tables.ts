// The declaration of `tables`: operations, bodies and results. See table_fields.ts for the fields of the record, table_writes.ts
// for the actions that change rows.
import type { Code } from '../../standard/codes.ts';
import { exactlyOneOf } from '../../standard/documented_limits.ts';
import { objectName } from '../../standard/object_name.ts';
import { strictObject, Type } from '../../standard/type.ts';
import { action, category, create, get, list, update } from '../declare.ts';
import { dependentsApi } from '../dependents.ts';
import { describedBody, engineCodes, exampleFields, noFields } from '../fields.ts';
import { databasesApi } from '../namespaces/databases.ts';
import { codes, Parameters, Query, queryCost, WaitSeconds } from '../queries/statement_fields.ts';
import { searchWithDropped } from '../search.ts';
import { engineStateExample } from '../states.ts';
import { NewNameByTask, sometimesByTask, taskFields } from '../task_fields.ts';
import { exportTableApi } from '../transfer/export_actions.ts';
import { loadTableApi } from '../transfer/load_table.ts';
import { drop, undropByTask } from '../undrop.ts';
import { compareTableApi } from './compare_table.ts';
import { tableChecksumApi } from './table_checksum.ts';
import { ColumnBody, CreateTableSql, columnsMax, definitionFields, keysNeeded, TableRecord } from './table_fields.ts';
import { tableWritesApi } from './table_writes.ts';

const AsSelect = strictObject(
  {
    sql: Query,
    parameters: Type.Optional(Parameters),
    waitSeconds: Type.Optional(WaitSeconds),
    ...taskFields,
  },
  {
    description:
      'A query instead of `columns`: it determines their names and types, and the rows. The table is invisible before it is complete.',
  },
);
/** Further codes of creating such a table. */
const fillCodes: readonly Code[] = [...codes, 'TASK_ATTEMPTS_EXHAUSTED', 'TASK_ENDED_ENGINE', 'TASK_INTERRUPTED'];

const CreateBody = strictObject(
  {
    ...describedBody,
    ...definitionFields,
    columns: Type.Optional(Type.Array(ColumnBody, { maxItems: columnsMax })),
    asSelect: Type.Optional(AsSelect),
    sql: Type.Optional(CreateTableSql),
  },
  { ...exactlyOneOf('columns', 'sql', 'asSelect') },
);

const copyFields = {
  newName: objectName('The name of the copy.'),
  catalog: Type.Optional(Type.String({ description: 'By default that of the table.' })),
  database: Type.Optional(Type.String({ description: 'By default that of the table.' })),
};

const keysCopied = [{ capability: 'enforcedKeys', when: 'on a table with a key' }] as const;

export const tablesApi = category({
  name: 'tables',
  singular: 'table',
  title: 'Tables',
  doc: 'Tables, with typed columns, keys, and the distribution and order of rows.',
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
    }),
    get: get({
      summary: 'Shows a table.',
      permission: { privilege: 'read', on: 'object' },
    }),
    create: create({
      summary: 'Creates a table from a definition or from a CREATE TABLE statement.',
      permission: { privilege: 'create', on: 'parent' },
      codes: [
        'CHANGE_IN_PROGRESS',
        'HOST_NOT_ALLOWED',
        'SQL_INVALID',
        'SQL_NOT_SUPPORTED',
        ...engineCodes,
        ...fillCodes,
      ],
      needs: keysNeeded,
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
      summary: 'Changes the description, the unique key or the columns of a table.',
      description:
        '`columns` is the complete new list: a column with an existing name is changed, a new one is added, an omitted one is dropped with its data.  ' +
        sometimesByTask('A change that has to rewrite a large table is made by a task (202).'),
      permission: { privilege: 'alter', on: 'object' },
      codes: ['CHANGE_IN_PROGRESS', 'CHANGE_NOT_SUPPORTED', 'CONSTRAINT_VIOLATED', 'IN_USE', ...engineCodes],
      needs: keysNeeded,
      body: strictObject({
        ...describedBody,
        unique_key_constraints: definitionFields.unique_key_constraints,
        columns: Type.Optional(Type.Array(ColumnBody, { minItems: 1, maxItems: columnsMax })),
        ...taskFields,
      }),
      task: 'alter_table',
      example: { body: { unique_key_constraints: ['order_number'], comment: 'All orders' } },
    }),
    delete: drop({
      summary: 'Deletes a table without dependent views, and its data.',
      codes: ['CHANGE_IN_PROGRESS', 'IN_USE', ...engineCodes],
    }),
    rename: action('object', {
      summary: 'Renames a table without dependent views.',
      description: sometimesByTask('A large table with a unique key is renamed by a task (202).'),
      permission: { privilege: 'alter', on: 'object' },
      codes: ['CHANGE_IN_PROGRESS', 'IN_USE', ...engineCodes],
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
      codes: ['CHANGE_IN_PROGRESS', ...engineCodes],
      body: noFields,
      result: TableRecord,
    }),
    ...tableWritesApi,
    compare: compareTableApi,
    ...tableChecksumApi,
    copy_definition: action('object', {
      summary: 'Creates an empty table with the same definition, in the same or another database.',
      permission: { privilege: 'read', on: 'object' },
      codes: ['CHANGE_IN_PROGRESS', ...engineCodes],
      needs: keysCopied,
      body: strictObject(copyFields),
      bodyRequired: true,
      result: TableRecord,
      creates: true,
      example: { body: { newName: 'orders_staging' } },
    }),
    clone: action('object', {
      summary: 'Creates a table with the same definition and the same rows, in the same or another database.',
      description: 'The copy is invisible before it is complete. After `waitSeconds` it continues as a task (202).',
      permission: { privilege: 'read', on: 'object' },
      codes: ['CHANGE_NOT_SUPPORTED', ...fillCodes],
      needs: keysCopied,
      body: strictObject({
        ...copyFields,
        rows: Type.Optional(
          Type.Boolean({ default: true, description: 'Whether the rows are copied; `false`: the copy is empty.' }),
        ),
        waitSeconds: Type.Optional(WaitSeconds),
        ...taskFields,
      }),
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
    search: searchWithDropped({ category: 'tables', record: TableRecord, example: 'ord%' }),
    undrop: undropByTask('undrop_table', { title: 'a table', record: TableRecord }),
  },
});
