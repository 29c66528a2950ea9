// The action `load` of a database: creates a table from a file, or returns the definition that it would have.
import { notTogether } from '../../standard/documented_limits.ts';
import { strictObject, Type } from '../../standard/type.ts';
import { action } from '../declare.ts';
import { describedBody } from '../fields.ts';
import { codes, queryCost, WaitSeconds } from '../queries/statement_fields.ts';
import { columnsMax, definitionFields, keysNeeded } from '../tables/table_fields.ts';
import { InferredTable, NewTableColumn } from './inferred_table.ts';
import { fileFields, label, loadCodes, parquetNeeded } from './load_fields.ts';

const Body = strictObject(
  {
    table: Type.Optional(Type.String({ description: 'The name of the new table; optional with `inferOnly`.' })),
    ...fileFields,
    columns: Type.Optional(
      Type.Array(NewTableColumn, {
        minItems: 1,
        maxItems: columnsMax,
        description:
          'All columns of the table; by default those of the file. A column that is not in the file needs a type and a default.',
      }),
    ),
    types: Type.Optional(
      Type.Record(Type.String(), Type.String(), {
        maxProperties: columnsMax,
        description:
          'Instead of `columns`: the types of some columns of the file; the types of the others are inferred.',
      }),
    ),
    inferFrom: Type.Optional(
      Type.Union([Type.Literal('sample'), Type.Literal('all')], {
        default: 'sample',
        description:
          'Columns and types are inferred from the first 20,480 rows, or from all, which requires reading the file once more.',
      }),
    ),
    ...describedBody,
    ...definitionFields,
    label: label(
      'If a load with this label created the table, or is creating it, its task is returned instead of loading again.',
    ),
    inferOnly: Type.Optional(
      Type.Boolean({ default: false, description: 'Returns the definition of the table without creating it.' }),
    ),
    waitSeconds: Type.Optional(WaitSeconds),
  },
  { ...notTogether('columns', 'types') },
);
const exampleResult = {
  table: 'orders',
  columns: [
    { name: 'id', type: 'BIGINT', nullable: false },
    { name: 'placed', type: 'DATE', nullable: true },
  ],
  primaryKey: ['id'],
  rows: [[1, '2026-01-31']],
  format: 'csv',
  compression: 'none',
  csv: { delimiter: ',', header: true },
  bytes: 48120,
};

export const loadDatabaseApi = {
  load: action('object', {
    summary: 'Creates a table from a CSV, JSON, NDJSON or Parquet file, with all rows or not at all.',
    description:
      'Always a task, whose result is that of a load of a table, with `table`. The table is invisible before it is complete, and a failed load leaves no table. ' +
      'With `inferOnly` nothing is created: the response (200) is the definition that the table would have, and its first rows; after `waitSeconds` it continues as a task (202). With an existing `table`, `write` on it is sufficient for that.',
    permission: { privilege: 'create', on: 'object', orWithin: true },
    needs: [{ capability: 'schemaInference' }, parquetNeeded, ...keysNeeded],
    codes: [
      'INVALID_NAME',
      'OBJECT_ALREADY_EXISTS',
      ...loadCodes,
      ...codes.filter((code) => code !== 'RESULT_QUOTA_EXCEEDED' && code !== 'PARAMETERS_INVALID'),
      'DATA_INVALID',
      'REMOTE_REFUSED',
      'REMOTE_UNAVAILABLE',
      'TASK_ATTEMPTS_EXHAUSTED',
      'TASK_ENDED_ENGINE',
      'TASK_INTERRUPTED',
      'TASK_DEPENDENCY_FAILED',
    ],
    body: Body,
    bodyRequired: true,
    result: InferredTable,
    task: 'load_database',
    schedulable: true,
    cost: queryCost,
    example: {
      body: { table: 'orders', source: { path: '/data/incoming/orders.csv' }, primaryKey: ['id'], inferOnly: true },
      result: exampleResult,
    },
  }),
};
