// The actions `query`, `profile` and `explain`: SQL with the path as its default namespace. Declared once, for each category that a
// path of SQL can end in.

import { noNul, nullable } from '../../api/fields.ts';
import { taskCodes, taskFields, waitSecondsDefault } from '../../api/task_fields.ts';
import type { StatementParameters } from '../../engines/engine.ts';
import type { QueryRequest, QueryRun } from '../../query/statements/queries.ts';
import { confirmedRun, profileResult, type QueryAnswer } from '../../query/statements/query_submission.ts';
import type { PathParameters } from '../../standard/endpoint.ts';
import { JsonText } from '../../standard/envelope.ts';
import { type Segment, uriOf } from '../../standard/paths.ts';
import { type Static, Type } from '../../standard/type.ts';
import { accepted, action, type Context, done } from '../records/handler_context.ts';
import { taskOptions, waitSecondsOf } from '../records/task_fields.ts';

/** What a statement costs its caller, in GETs. */
export const queryCost = 20;
export const sqlCharactersMax = 1_048_576;
export const waitSecondsMax = 300;

export const Sql = Type.String({
  minLength: 1,
  maxLength: sqlCharactersMax,
  pattern: noNul,
  description: 'One statement: SELECT or DML.',
});

export const Query = Type.String({
  minLength: 1,
  maxLength: sqlCharactersMax,
  pattern: noNul,
  description: 'One query.',
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
  rows: nullable(
    Type.Array(Type.Array(Type.Unknown()), {
      description:
        'The rows, or those of the first page; null where a statement that writes is repeated with its idempotency key.',
    }),
  ),
  rowCount: Type.Integer({ description: 'Rows of the whole result; for DML the rows changed.' }),
  truncated: Type.Boolean({ description: 'Whether `rowsMax` cut the result.' }),
  nextPage: Type.Optional(Type.String({ description: 'URI of the next page, where the result has more than one.' })),
  pageCount: Type.Integer(),
  statistics: Statistics,
  queryId: Type.String(),
});

export const Plan = Type.Object({ plan: Type.String({ description: "The engine's plan as text." }) });

const ProfileBody = Type.Object(
  {
    sql: Sql,
    parameters: Type.Optional(Parameters),
    waitSeconds: Type.Optional(WaitSeconds),
    warehouse: QueryBody.properties.warehouse,
    ...taskFields,
  },
  { additionalProperties: false },
);
const ProfileResult = Type.Object({
  profile: Type.Object(
    {},
    {
      additionalProperties: true,
      description:
        'As the engine tells it: `latency` and `cpu_time` in seconds, and in `children` the operators, each with `operator_timing`, `operator_cardinality`, `operator_rows_scanned` and `extra_info`.',
    },
  ),
  rowCount: Type.Integer({ description: 'Rows of the result, which is dropped.' }),
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
  'STATEMENT_QUARANTINED',
  'SPILL_LIMIT_EXCEEDED',
  'TOO_MANY_QUERIES',
  'RESULT_QUOTA_EXCEEDED',
  'WAREHOUSE_BUSY',
  'WAREHOUSE_SUSPENDED',
  'WAREHOUSE_STARTING',
  'WAREHOUSE_FAILED',
  'CATALOG_DAMAGED',
  'REPLICAS_UNAVAILABLE',
  'NOT_ENOUGH_BACKENDS',
  'STORAGE_FULL',
] as const;

export const explainCodes = codes.filter((code) => code !== 'CONSTRAINT_VIOLATED' && code !== 'RESULT_QUOTA_EXCEEDED');

type PathOf = (path: PathParameters) => readonly Segment[];

/** `pathOf`: the segments that the path of the category names. */
export const sqlActions = (what: string, pathOf: PathOf) => [
  queryAction(what, pathOf),
  profileAction(what, pathOf),
  explainAction(pathOf),
];

function requestOf(
  body: Pick<Static<typeof QueryBody>, 'sql'> & Partial<Static<typeof QueryBody>>,
  [root, database]: readonly Segment[],
): QueryRequest {
  return {
    sql: body.sql,
    parameters: body.parameters as StatementParameters | undefined,
    rowsMax: body.rowsMax,
    numbers: body.numbers ?? 'number',
    catalog: (root as Segment).name,
    database: database?.name,
    warehouse: body.warehouse,
  };
}

const queryAction = (what: string, pathOf: PathOf) =>
  action('query', {
    on: 'object',
    summary: `Runs one SQL statement with the ${what} as its default namespace.`,
    description:
      'Answers 200 with the rows, or 202 with a task once `waitSeconds` are over. A result larger than one page (8 MiB) is fetched page by page from `nextPage`.',
    permission: { privilege: 'read', on: 'object', orWithin: true },
    codes: [...codes, ...taskCodes],
    body: QueryBody,
    bodyRequired: true,
    result: QueryResult,
    mayAccept: true,
    cost: queryCost,
    example,
    handle: async ({ path, body }, context) => {
      const { applied } = context.call.actor.guard ?? {};
      if (applied) return done({ ...countsOnly, ...confirmedRun(applied) });
      const answer = await submitted(requestOf(body, pathOf(path)), body, pathOf(path), context);
      if (answer.kind === 'task') return accepted(answer.task, context);
      const { run } = answer;
      const result = rowsText(run, answer.rows, answer.pages, context);
      if (run.kind === 'select') return done(result, null);
      const { columns, rowCount } = run.result;
      const { statistics, queryId } = run;
      const counts = { ...countsOnly, columns, rowCount, statistics, queryId };
      if (run.result.repeated) return done(counts);
      return done(result, run.result.returned ? counts : result);
    },
  });

const profileAction = (what: string, pathOf: PathOf) =>
  action('profile', {
    on: 'object',
    summary: `Runs a query with the ${what} as its default namespace, drops its rows, and tells what took how long.`,
    description:
      'Takes what `query` takes, SELECT alone, and waits for it in the same way: 200 with the profile, or 202 with a task whose result it will be.',
    permission: { privilege: 'read', on: 'object', orWithin: true },
    codes: [...explainCodes, ...taskCodes],
    body: ProfileBody,
    bodyRequired: true,
    result: ProfileResult,
    mayAccept: true,
    cost: queryCost,
    example: {
      body: { sql: 'SELECT count(*) FROM lineorder' },
      result: {
        profile: { latency: 0.0113, cpu_time: 0.0102, children: [] },
        rowCount: 1,
        statistics: { elapsedMs: 12.4, queuedMs: 0, resultBytes: 0 },
        queryId: '019aa0b4-7c1e-7d3a-9c55-0f6c1a2b3c4d',
      },
    },
    handle: async ({ path, body }, context) => {
      const request: QueryRequest = { ...requestOf(body, pathOf(path)), profile: true };
      const answer = await submitted(request, body, pathOf(path), context);
      if (answer.kind === 'task') return accepted(answer.task, context);
      return done(profileResult(answer.run));
    },
  });

const explainAction = (pathOf: PathOf) =>
  action('explain', {
    on: 'object',
    summary: `Shows the plan of a SQL statement without running it.`,
    permission: { privilege: 'read', on: 'object', orWithin: true },
    codes: explainCodes,
    body: Type.Object({ sql: Sql, parameters: Type.Optional(Parameters) }, { additionalProperties: false }),
    bodyRequired: true,
    result: Plan,
    example: { body: { sql: 'SELECT count(*) FROM lineorder' }, result: { plan: 'UNGROUPED_AGGREGATE ...' } },
    handle: async ({ path, body }, context) => {
      return done({ plan: await context.queries.explain(requestOf(body, pathOf(path)), context.call) });
    },
  });

/** Waited for as long as the caller said. */
async function submitted(
  request: QueryRequest,
  body: Pick<Static<typeof QueryBody>, 'waitSeconds' | 'priority' | 'after' | 'notify'>,
  about: readonly Segment[],
  context: Context,
): Promise<QueryAnswer> {
  const waitSeconds = waitSecondsOf(body);
  const { principal, actor, signal, caller, version } = context.call;
  return context.submitter.submit({
    ...(await taskOptions(body, context)),
    request,
    principal,
    actor,
    signal,
    caller,
    waitSeconds,
    target: uriOf(version, about),
  });
}

/** Of a statement that wrote before. Rows that it returned are stored nowhere. */
const countsOnly = { columns: [], rows: null, truncated: false, pageCount: 1 };

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
