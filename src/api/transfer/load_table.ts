// The action `load` of a table.
import { strictObject, Type } from '../../standard/type.ts';
import { action } from '../declare.ts';
import { oneOf } from '../fields.ts';
import { columnsMax } from '../tables/table_fields.ts';
import { columnOrigin, fileFields, label, loadCodes, parquetNeeded } from './load_fields.ts';

const Column = strictObject({
  name: Type.String({ minLength: 1, maxLength: 255, description: 'The name of the column.' }),
  ...columnOrigin,
});

const LoadBody = strictObject({
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
        '`replace`: the rows of the file replace all rows of the table. `upsert`: they replace the rows with the same primary key.',
    }),
  ),
  label: label('If a load with this label succeeded on this table, its result is returned instead of loading again.'),
});

export const loadTableApi = {
  load: action('object', {
    summary: 'Loads a CSV, JSON, NDJSON or Parquet file into a table; loads all rows or none.',
    description:
      'Always a task. Its result has `rowsLoaded`, `rowsRejected`, the first `rejectedRows` (row, column, reason, text) and `bytes`; fields whose values were lost in a crash are null. ' +
      'If the file cannot be read or does not fit the table, the task fails with `DATA_INVALID`, row and column, and the table is unchanged.',
    permission: { privilege: 'write', on: 'object' },
    codes: loadCodes,
    needs: [{ capability: 'upsert', when: 'with the `mode` `upsert`' }, parquetNeeded],
    body: LoadBody,
    bodyRequired: true,
    task: 'load_table',
    schedulable: true,
    cost: 10,
    example: { body: { source: { path: '/data/incoming/orders.csv' }, mode: 'append', errorsMax: 10 } },
  }),
};
