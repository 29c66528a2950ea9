// The declaration of `queries`: records, operations, bodies and results.
import { strictObject, Type } from '../../standard/type.ts';
import { action, category, get, list, remove } from '../declare.ts';
import { nullable, recordFields, Timestamp } from '../fields.ts';
import { searchBy } from '../search.ts';
import { stateField } from '../states.ts';
import { explainCodes, Plan, Parameters as StatementParameters } from './statement_fields.ts';

const State = Type.Union([
  Type.Literal('queued'),
  Type.Literal('running'),
  Type.Literal('succeeded'),
  Type.Literal('failed'),
  Type.Literal('cancelled'),
]);

const QueryRecord = Type.Object({
  queryId: Type.String(),
  sql: Type.String({ description: 'The text of the statement, at most its first 64 Ki characters.' }),
  kind: nullable(
    Type.String({ description: '`select`, `insert`, `update`, `delete` or `merge`; null until it is known.' }),
  ),
  state: stateField({
    queued: 'it waits in the queue',
    running: 'it runs',
    succeeded: 'it ended with a result',
    failed: 'it ended with an error',
    cancelled: 'it was stopped',
  }),
  warehouse: Type.String(),
  catalog: Type.String(),
  database: nullable(Type.String()),
  startedAt: nullable(Timestamp),
  endedAt: nullable(Timestamp),
  elapsedMs: nullable(Type.Number()),
  queuedMs: nullable(Type.Number()),
  queuePosition: nullable(
    Type.Integer({
      minimum: 1,
      description:
        'While it is queued: 1 plus the number of statements that wait in the warehouse since before it. Users take turns, so that it can begin sooner or later than those. Null otherwise.',
    }),
  ),
  rowCount: nullable(Type.Integer()),
  resultBytes: nullable(Type.Integer()),
  error: nullable(Type.Object({ code: Type.String(), message: Type.String() }, { title: 'QueryError' })),
  task: nullable(
    Type.String({ description: 'The URI of the task that ran it, if any, which has the pages or files of its rows.' }),
  ),
  plan: Type.Optional(
    nullable(
      Type.String({
        description:
          "The engine's plan, with the values of parameters, of a statement that took 250 ms or longer; null for others: use `explain`. Not in lists.",
      }),
    ),
  ),
  ...recordFields,
});

const part = (of: string) =>
  Type.Optional(Type.String({ maxLength: 1024, description: `A substring of ${of}; case-insensitive.` }));

const name = Type.Optional(Type.String({ maxLength: 128 }));

const least = (of: string) => Type.Optional(Type.Number({ minimum: 0, description: `${of}: the minimum.` }));

const filterFields = {
  state: Type.Optional(State),
  text: part('the SQL'),
  errorText: part('the message of its error'),
  planText: part('the plan, if it is stored'),
  errorCode: name,
  kind: name,
  warehouse: name,
  catalog: name,
  database: name,
  submittedBy: name,
  from: Type.Optional(Type.String({ format: 'date-time', description: 'The earliest time of submission.' })),
  to: Type.Optional(Type.String({ format: 'date-time', description: 'Not included.' })),
  elapsedMsMin: least('Milliseconds in the engine'),
  queuedMsMin: least('Milliseconds in the queue'),
  rowCountMin: least('Rows'),
  resultBytesMin: least('Bytes of the result'),
};

const example = {
  queryId: '019aa0b4-7c20-7a11-8c34-1e2d3c4b5a69',
  sql: 'SELECT count(*) FROM lineorder',
  kind: 'select',
  state: 'succeeded',
  warehouse: 'default',
  catalog: 'default',
  database: 'ssb',
  startedAt: '2026-01-31T10:00:00.000Z',
  endedAt: '2026-01-31T10:00:00.004Z',
  elapsedMs: 3.8,
  queuedMs: 0,
  queuePosition: null,
  rowCount: 1,
  resultBytes: 8,
  error: null,
  task: null,
  createdAt: '2026-01-31T10:00:00.000Z',
  createdBy: 'root',
  updatedAt: '2026-01-31T10:00:00.004Z',
  updatedBy: 'root',
  version: 1,
  uri: '/api/v2/queries/019aa0b4-7c20-7a11-8c34-1e2d3c4b5a69',
};

export const queriesApi = category({
  name: 'queries',
  singular: 'query',
  title: 'Queries',
  doc: 'The history of SQL statements, newest first, including running ones.',
  parameter: 'queryId',
  idField: 'queryId',
  record: QueryRecord,
  example,
  endpoints: {
    list: list({
      summary: 'Lists statements, those submitted last first.',
      permission: { privilege: 'read', on: 'parent', orWithin: true },
    }),
    get: get({
      summary: 'Shows a statement.',
      permission: { privilege: 'read', on: 'target', orSelf: true },
    }),
    delete: remove({
      summary: 'Forgets a statement; one that runs is cancelled instead.',
      permission: { privilege: 'drop', on: 'target', orSelf: true },
    }),
    cancel: action('object', {
      freesSpace: true,
      summary: 'Cancels a running statement. A statement that has ended is not changed.',
      permission: { privilege: 'operate', on: 'target', orSelf: true },
      body: strictObject({}),
      result: QueryRecord,
    }),
    explain: action('object', {
      summary: 'Shows how the statement would be run now, with the rights of the caller. Runs nothing.',
      permission: { privilege: 'read', on: 'target', orSelf: true },
      codes: explainCodes,
      body: strictObject({ parameters: Type.Optional(StatementParameters) }),
      result: Plan,
      example: { body: {}, result: { plan: 'UNGROUPED_AGGREGATE ...' } },
    }),
    search: searchBy({
      category: 'queries',
      summary:
        'Finds statements by their text, times, sizes, errors and callers, newest first; all criteria must match.',
      permission: { privilege: 'read', on: 'parent', orWithin: true },
      fields: filterFields,
      record: QueryRecord,
      example: { state: 'failed', text: 'lineorder', from: '2026-01-31T00:00:00Z' },
    }),
  },
});
