// The actions that change rows of a table without SQL: the columns are named, their values are expressions. And `optimize`.
import { Type } from '../../standard/type.ts';
import { action } from '../declare.ts';
import { noNul } from '../fields.ts';
import { codes, Parameters, Query, queryCost, Statistics, WaitSeconds } from '../queries/statement_fields.ts';
import { taskCodes, taskFields } from '../task_fields.ts';
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
  description: 'Which rows: one SQL expression. `true` is all of them.',
});
const common = { parameters: Type.Optional(Parameters), waitSeconds: Type.Optional(WaitSeconds), ...taskFields };
const Changed = Type.Object(
  {
    rowCount: Type.Integer({ description: 'Rows changed.' }),
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

const UpdateBody = Type.Object(
  {
    set: Type.Record(Type.String(), Expression, {
      minProperties: 1,
      maxProperties: columnsMax,
      description: 'Column to expression.',
    }),
    where: Where,
    ...common,
  },
  { additionalProperties: false },
);
const DeleteBody = Type.Object({ where: Where, ...common }, { additionalProperties: false });
const InsertBody = Type.Object(
  {
    sql: Query,
    columns: Type.Optional(
      Type.Array(Type.String(), {
        minItems: 1,
        maxItems: columnsMax,
        description: 'The columns that it fills, in its order; others get their defaults. By default all.',
      }),
    ),
    ...common,
  },
  { additionalProperties: false },
);
const shared = {
  permission: { privilege: 'write', on: 'object' },
  codes: [...codes, ...taskCodes],
  bodyRequired: true,
  result: Changed,
  task: 'run_query',
  schedulable: true,
  cost: queryCost,
} as const;
const past = 'After `waitSeconds` it continues as a task (202).';

export const tableWritesApi = {
  update_rows: action('object', {
    ...shared,
    action: 'update',
    auditName: 'update_rows',
    summary: 'Changes rows of a table: columns get the values of expressions.',
    description: `The caller reads the table too, and so needs \`read\` on it, as on every table that an expression names. ${past}`,
    body: UpdateBody,
    example: { body: { set: { price: 'price * 1.1' }, where: "kind = 'book'" }, result: exampleResult },
  }),
  delete_rows: action('object', {
    ...shared,
    freesSpace: true,
    summary: 'Deletes rows of a table.',
    description: `The caller reads the table too, and so needs \`read\` on it. ${past}`,
    body: DeleteBody,
    example: { body: { where: "placed_at < DATE '2020-01-01'" }, result: exampleResult },
  }),
  insert_select: action('object', {
    ...shared,
    summary: 'Inserts the rows of a query into a table, all or none.',
    description: `The caller needs \`read\` on every table of the query. ${past}`,
    body: InsertBody,
    example: {
      body: { sql: 'SELECT id, placed_at FROM orders_staging', columns: ['id', 'placed_at'] },
      result: exampleResult,
    },
  }),
  optimize: action('object', {
    summary: 'Has the engine put a table in order: room of deleted rows, statistics for its plans.',
    description:
      'Always a task (202). Its result has `rowCount`, `dataBytes` and `dataBytesBefore`. While statements write to the catalog it waits and is retried.',
    permission: { privilege: 'alter', on: 'object' },
    codes: ['OBJECT_NOT_FOUND', ...taskCodes],
    body: Type.Object(taskFields, { additionalProperties: false }),
    task: 'optimize_table',
    schedulable: true,
  }),
};
