// The action `load` of a table.
import { Type } from '../../standard/type.ts';
import { action } from '../declare.ts';
import { oneOf } from '../fields.ts';
import { columnsMax } from '../tables/table_fields.ts';
import { columnOrigin, fileFields, label, loadCodes } from './load_fields.ts';

const Column = Type.Object(
  {
    name: Type.String({ minLength: 1, maxLength: 255, description: 'Of the table.' }),
    ...columnOrigin,
  },
  { additionalProperties: false },
);

const LoadBody = Type.Object(
  {
    ...fileFields,
    columns: Type.Optional(
      Type.Array(Column, {
        minItems: 1,
        maxItems: columnsMax,
        description:
          'The sources of the columns of the table; columns that are not listed get their defaults. By default columns are matched by name.',
      }),
    ),
    mode: Type.Optional(
      oneOf(['append', 'replace', 'upsert'], {
        default: 'append',
        description:
          '`replace`: the table holds the file and nothing else. `upsert`: rows of the same primary key are replaced.',
      }),
    ),
    label: label('A load of this label that succeeded on this table is not done again: its result is answered.'),
  },
  { additionalProperties: false },
);

export const loadTableApi = {
  load: action('object', {
    summary: 'Loads a file into a table, all or nothing: CSV, JSON, NDJSON or Parquet.',
    description:
      'Always a task. Its result has `rowsLoaded`, `rowsRejected`, the first `rejectedRows` (row, column, reason, text) and `bytes`; fields whose values were lost in a crash are null. ' +
      'If the file cannot be read or does not fit the table, the task fails with `DATA_INVALID`, row and column, and the table is unchanged.',
    permission: { privilege: 'write', on: 'object' },
    codes: loadCodes,
    body: LoadBody,
    bodyRequired: true,
    task: 'load_table',
    schedulable: true,
    cost: 10,
    example: { body: { source: { path: '/data/incoming/orders.csv' }, mode: 'append', errorsMax: 10 } },
  }),
};
