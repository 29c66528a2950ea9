// The declaration of `optimize`, and of the actions that change rows of a table by naming columns and giving expressions for their values.
import { strictObject, Type } from '../../standard/type.ts';
import { action } from '../declare.ts';
import { noNul } from '../fields.ts';
import { codes, Parameters, Query, queryCost, Statistics, WaitSeconds } from '../queries/statement_fields.ts';
import { taskFields } from '../task_fields.ts';
import { columnsMax } from './table_fields.ts';

const expressionCharactersMax = 65_536;

const Expression = Type.String({
  minLength: 1,
  maxLength: expressionCharactersMax,
  pattern: noNul,
  description: 'One SQL expression over the columns of the table.',
});
const Where = Type.String({
  minLength: 1,
  maxLength: expressionCharactersMax,
  pattern: noNul,
  description: 'A SQL condition that selects the rows; `true` selects all.',
});
const common = { parameters: Type.Optional(Parameters), waitSeconds: Type.Optional(WaitSeconds), ...taskFields };
const Changed = Type.Object(
  {
    rowCount: Type.Integer({ description: 'The number of changed rows.' }),
    statistics: Statistics,
    queryId: Type.String(),
  },
  { title: 'ChangedRows' },
);
const exampleResult = {
  rowCount: 3,
  statistics: { elapsedMs: 2.1, queuedMs: 0, resultBytes: 3 },
  queryId: '019aa0b4-7c1e-7d3a-9c55-0f6c1a2b3c4d',
};

const UpdateBody = strictObject({
  set: Type.Record(Type.String(), Expression, {
    minProperties: 1,
    maxProperties: columnsMax,
    description: 'SQL expressions by column name.',
  }),
  where: Where,
  ...common,
});
const DeleteBody = strictObject({ where: Where, ...common });
const InsertBody = strictObject({
  sql: Query,
  columns: Type.Optional(
    Type.Array(Type.String(), {
      minItems: 1,
      maxItems: columnsMax,
      description:
        'The columns that receive the values of the query, in order; others get their defaults. By default all.',
    }),
  ),
  ...common,
});
const shared = {
  permission: { privilege: 'write', on: 'object' },
  codes,
  bodyRequired: true,
  result: Changed,
  task: 'run_query',
  schedulable: true,
  cost: queryCost,
} as const;
const thenByTask = 'After `waitSeconds` it continues as a task (202).';

export const tableWritesApi = {
  update_rows: action('object', {
    ...shared,
    action: 'update',
    auditName: 'update_rows',
    summary: 'Updates rows of a table: sets columns to the values of expressions.',
    description: `Requires \`read\` on the table and on every table that an expression names. ${thenByTask}`,
    body: UpdateBody,
    example: { body: { set: { price: 'price * 1.1' }, where: "kind = 'book'" }, result: exampleResult },
  }),
  delete_rows: action('object', {
    ...shared,
    freesSpace: true,
    summary: 'Deletes rows of a table.',
    description: `Requires \`read\` on the table. ${thenByTask}`,
    body: DeleteBody,
    example: { body: { where: "placed_at < DATE '2020-01-01'" }, result: exampleResult },
  }),
  insert_select: action('object', {
    ...shared,
    summary: 'Inserts the rows of a query into a table; inserts all of them or none.',
    description: `Requires \`read\` on every table of the query. ${thenByTask}`,
    body: InsertBody,
    example: {
      body: { sql: 'SELECT id, placed_at FROM orders_staging', columns: ['id', 'placed_at'] },
      result: exampleResult,
    },
  }),
  optimize: action('object', {
    summary: 'Optimizes a table: reclaims the space of deleted rows and updates the statistics for plans.',
    description:
      'Always a task (202). Its result has `rowCount`, `dataBytes` and `dataBytesBefore`. While statements write to the catalog it waits and is retried.',
    permission: { privilege: 'alter', on: 'object' },
    body: strictObject(taskFields),
    task: 'optimize_table',
    schedulable: true,
  }),
};
