// The actions `query` and `explain`: SQL with the path as its default namespace. Declared once, for each category that a
// path of SQL can end in.
import { type Static, Type } from 'typebox';
import type { StatementParameters } from '../engines/engine.ts';
import type { QueryRequest, QueryRun } from '../query/queries.ts';
import type { PathParameters } from '../standard/endpoint.ts';
import { JsonText } from '../standard/envelope.ts';
import { type Segment, uriOf } from '../standard/paths.ts';
import { accepted, action, type Context, done } from './context.ts';
import { invalid, noNul } from './fields.ts';
import { notifyField, taskFields, taskOptions } from './task_fields.ts';

/** What a statement costs its caller, in GETs. */
export const queryCost = 20;
export const sqlCharactersMax = 1_048_576;
export const waitSecondsDefault = 30;
export const waitSecondsMax = 300;

export const Sql = Type.String({
  minLength: 1,
  maxLength: sqlCharactersMax,
  pattern: noNul,
  description: 'One statement: SELECT or DML.',
});

export const Parameters = Type.Union(
  [
    Type.Array(Type.Unknown(), { maxItems: 10_000 }),
    Type.Record(Type.String(), Type.Unknown(), { maxProperties: 10_000 }),
  ],
  { description: 'Values of `$1`, `?` (an array) or `$name` (an object): bound, never spliced into the text.' },
);
export const WaitSeconds = Type.Number({
  minimum: 0,
  maximum: waitSecondsMax,
  default: waitSecondsDefault,
  description: 'How long to wait for the result before the statement becomes a task; 0: a task at once.',
});

const QueryBody = Type.Object(
  {
    sql: Sql,
    parameters: Type.Optional(Parameters),
    waitSeconds: Type.Optional(WaitSeconds),
    rowsMax: Type.Optional(
      Type.Integer({ minimum: 1, maximum: 1_000_000_000, description: 'The result is cut after so many rows.' }),
    ),
    numbers: Type.Optional(
      Type.Union([Type.Literal('number'), Type.Literal('string')], {
        default: 'number',
        description:
          '`string`: 64-bit and wider integers and decimals as JSON strings, for clients whose numbers are doubles.',
      }),
    ),
    warehouse: Type.Optional(
      Type.String({ description: 'The warehouse to run in; by default the one of the catalog.' }),
    ),
    ...taskFields,
    ...notifyField,
  },
  { additionalProperties: false },
);

export const ColumnOfResult = Type.Object({ name: Type.String(), type: Type.String() });
export const Statistics = Type.Object({
  elapsedMs: Type.Number({ description: 'Milliseconds in the engine.' }),
  queuedMs: Type.Number({ description: 'Milliseconds in the queue of the warehouse.' }),
  resultBytes: Type.Integer({ description: 'Bytes of the rows as JSON.' }),
});

const QueryResult = Type.Object({
  columns: Type.Array(ColumnOfResult),
  rows: Type.Array(Type.Array(Type.Unknown()), { description: 'The rows, or those of the first page.' }),
  rowCount: Type.Integer({ description: 'Rows of the whole result; for DML the rows changed.' }),
  truncated: Type.Boolean({ description: 'Whether `rowsMax` cut the result.' }),
  nextPage: Type.Optional(Type.String({ description: 'URI of the next page, where the result has more than one.' })),
  pageCount: Type.Integer(),
  statistics: Statistics,
  queryId: Type.String(),
});

const example = {
  body: {
    sql: 'SELECT d_year, sum(lo_revenue) AS revenue FROM lineorder, dates WHERE lo_orderdate = d_datekey AND d_year >= $1 GROUP BY d_year ORDER BY d_year',
    parameters: [1997],
  },
  result: {
    columns: [
      { name: 'd_year', type: 'INT' },
      { name: 'revenue', type: 'LARGEINT' },
    ],
    rows: [
      [1997, 331190143214],
      [1998, 194122370121],
    ],
    rowCount: 2,
    truncated: false,
    pageCount: 1,
    statistics: { elapsedMs: 12.4, queuedMs: 0, resultBytes: 44 },
    queryId: '019aa0b4-7c1e-7d3a-9c55-0f6c1a2b3c4d',
  },
};

export const codes = [
  'OBJECT_NOT_FOUND',
  'CHANGE_IN_PROGRESS',
  'SQL_INVALID',
  'SQL_NOT_SUPPORTED',
  'SQL_FORBIDDEN_FUNCTION',
  'PARAMETERS_INVALID',
  'CONSTRAINT_VIOLATED',
  'STATEMENT_TIMEOUT',
  'STATEMENT_CANCELLED',
  'MEMORY_LIMIT_EXCEEDED',
  'SPILL_LIMIT_EXCEEDED',
  'TOO_MANY_QUERIES',
  'RESULT_QUOTA_EXCEEDED',
  'WAREHOUSE_BUSY',
  'WAREHOUSE_SUSPENDED',
  'WAREHOUSE_STARTING',
  'WAREHOUSE_FAILED',
  'REPLICAS_UNAVAILABLE',
  'NOT_ENOUGH_BACKENDS',
  'STORAGE_FULL',
] as const;

/** `pathOf`: the segments that the path of the category names. */
export function sqlActions(what: string, pathOf: (path: PathParameters) => readonly Segment[]) {
  const requestOf = (
    body: Pick<Static<typeof QueryBody>, 'sql'> & Partial<Static<typeof QueryBody>>,
    path: PathParameters,
  ): QueryRequest => {
    const [root, database] = pathOf(path);
    return {
      sql: body.sql,
      parameters: body.parameters as StatementParameters | undefined,
      rowsMax: body.rowsMax,
      numbers: body.numbers ?? 'number',
      catalog: (root as Segment).name,
      database: database?.name,
      warehouse: body.warehouse,
    };
  };
  return [
    action('query', {
      on: 'object',
      summary: `Runs one SQL statement with the ${what} as its default namespace.`,
      description:
        'Answers 200 with the rows, or 202 with a task once `waitSeconds` are over. A result larger than one page (8 MiB) is fetched page by page from `nextPage`.',
      permission: { privilege: 'read', on: 'object', orWithin: true },
      codes: [...codes, 'HOST_NOT_ALLOWED'],
      body: QueryBody,
      bodyRequired: true,
      result: QueryResult,
      mayAccept: true,
      cost: queryCost,
      example,
      handle: async ({ path, body }, context) => {
        const waits = body.after !== undefined && body.after.length > 0;
        if (waits && body.waitSeconds)
          throw invalid(
            '/waitSeconds',
            'after',
            'is 0 where there is `after`: what waits for others is a task at once',
          );
        const answer = await context.submitter.submit({
          ...(await taskOptions(body, context)),
          request: requestOf(body, path),
          principal: context.call.principal,
          actor: context.call.actor,
          signal: context.call.signal,
          waitSeconds: waits ? 0 : (body.waitSeconds ?? waitSecondsDefault),
          target: uriOf(context.call.version, pathOf(path)),
        });
        if (answer.kind === 'task') return accepted(answer.task, context);
        return done(rowsText(answer.run, answer.rows, answer.pages, context));
      },
    }),
    action('explain', {
      on: 'object',
      summary: `Shows the plan of a SQL statement without running it.`,
      permission: { privilege: 'read', on: 'object', orWithin: true },
      codes: codes.filter((code) => code !== 'CONSTRAINT_VIOLATED' && code !== 'RESULT_QUOTA_EXCEEDED'),
      body: Type.Object({ sql: Sql }, { additionalProperties: false }),
      bodyRequired: true,
      result: Type.Object({ plan: Type.String({ description: "The engine's plan as text." }) }),
      example: { body: { sql: 'SELECT count(*) FROM lineorder' }, result: { plan: 'UNGROUPED_AGGREGATE ...' } },
      handle: async ({ path, body }, context) => {
        return done({ plan: await context.queries.explain(requestOf(body, path), context.call) });
      },
    }),
  ];
}

/** The result as text: the rows are the engine's own bytes. */
function rowsText(
  run: QueryRun,
  rows: string | Uint8Array,
  pages: { readonly taskId: string; readonly pageCount: number } | undefined,
  context: Context,
): JsonText {
  const { columns, rowCount, truncated } = run.result;
  const rest = {
    rowCount,
    truncated,
    ...(pages ? { nextPage: pageUri(context, pages.taskId, 1) } : {}),
    pageCount: pages?.pageCount ?? 1,
    statistics: run.statistics,
    queryId: run.queryId,
  };
  return new JsonText(`{"columns":${JSON.stringify(columns)},"rows":[`, rows, `],${JSON.stringify(rest).slice(1)}`);
}

export function pageUri(context: Context, taskId: string, page: number): string {
  return uriOf(context.call.version, [
    { category: 'tasks', name: taskId },
    { category: 'pages', name: String(page) },
  ]);
}
