// The declaration of `columns`: records, operations, bodies and results.
import { strictObject, Type } from '../../standard/type.ts';
import { action, category, create, get, list, remove, update } from '../declare.ts';
import { Comment, engineCodes, exampleFields, nullable, recordFields, searchFields } from '../fields.ts';
import { searchBy } from '../search.ts';
import { engineState, engineStateExample } from '../states.ts';
import { NewNameByTask, sometimesByTask, taskFields } from '../task_fields.ts';
import { columnFieldSchemas, DefaultValue } from './table_fields.ts';
import { tablesApi } from './tables.ts';

const ColumnRecord = Type.Object({ ...columnFieldSchemas, ...engineState, ...recordFields });

const changeFields = {
  type: Type.Optional(Type.String({ description: 'A type that holds every value of the old one.' })),
  nullable: Type.Optional(Type.Boolean()),
  defaultValue: Type.Optional(nullable(DefaultValue)),
  comment: Type.Optional(nullable(Comment)),
};

const changeCodes = ['CHANGE_IN_PROGRESS', 'CHANGE_NOT_SUPPORTED', ...engineCodes] as const;

const byTask = sometimesByTask('A change that has to read or rewrite a large table is made by a task (202).');

export const columnsApi = category({
  name: 'columns',
  singular: 'column',
  title: 'Columns',
  doc: 'The columns of a table, each with its own URI.',
  parameter: 'column',
  parent: tablesApi,
  record: ColumnRecord,
  example: {
    name: 'placed_at',
    position: 2,
    type: 'DATETIME',
    nullable: true,
    defaultValue: null,
    comment: null,
    isKey: false,
    ...engineStateExample,
    ...exampleFields('/api/v2/catalogs/default/databases/shop/tables/orders/columns/placed_at'),
  },
  endpoints: {
    list: list({
      summary: 'Lists the columns of a table by name; `position` is their order in the table.',
      permission: { privilege: 'read', on: 'parent' },
    }),
    get: get({
      summary: 'Shows a column.',
      permission: { privilege: 'read', on: 'object' },
    }),
    create: create({
      summary: 'Adds a column at the end of a table.',
      description: byTask,
      permission: { privilege: 'alter', on: 'parent' },
      codes: [...changeCodes, 'CONSTRAINT_VIOLATED', 'IN_USE'],
      body: strictObject({
        ...changeFields,
        type: Type.String({ description: 'A logical type, such as `BIGINT`.' }),
        ...taskFields,
      }),
      task: 'alter_table',
      example: { body: { name: 'note', type: 'VARCHAR(200)', comment: 'Free text' } },
    }),
    update: update({
      summary: 'Changes a column: comment, default, whether it may be NULL, or a wider type.',
      description: byTask,
      permission: { privilege: 'alter', on: 'object' },
      codes: [...changeCodes, 'CONSTRAINT_VIOLATED', 'IN_USE'],
      body: strictObject({ ...changeFields, ...taskFields }),
      task: 'alter_table',
      example: { body: { type: 'DECIMAL(38,2)', nullable: false } },
    }),
    delete: remove({
      summary: 'Deletes a column and its data.',
      permission: { privilege: 'alter', on: 'object' },
      codes: [...changeCodes, 'OBJECT_NOT_FOUND', 'IN_USE'],
      task: 'alter_table',
    }),
    rename: action('object', {
      summary: 'Renames a column, also in the keys and orders that name it.',
      description: byTask,
      permission: { privilege: 'alter', on: 'object' },
      codes: [...changeCodes, 'IN_USE'],
      body: NewNameByTask,
      bodyRequired: true,
      result: ColumnRecord,
      task: 'alter_table',
      example: { body: { newName: 'ordered_at' } },
    }),
    search: searchBy({
      category: 'columns',
      summary: 'Finds columns of a table by name pattern, comment or type.',
      permission: { privilege: 'read', on: 'parent' },
      fields: { ...searchFields, type: Type.Optional(Type.String({ description: 'The exact logical type.' })) },
      record: ColumnRecord,
      example: { namePattern: '%_at', type: 'DATETIME' },
    }),
  },
});
