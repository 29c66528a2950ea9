// The actions `query`, `profile` and `explain`: SQL with the object of the path as its default namespace. One set for each category
// in which such a path can end.

import { exportFormats } from '../../model/export_formats.ts';
import { type Static, strictObject, Type } from '../../standard/type.ts';
import { action } from '../declare.ts';
import { nullable, oneOf } from '../fields.ts';
import { taskFields } from '../task_fields.ts';
import { CompressionOfFiles } from '../transfer/file_formats.ts';
import {
  ColumnOfResult,
  codes,
  explainCodes,
  Parameters,
  Plan,
  queryCost,
  ResultFiles,
  Sql,
  Statistics,
  WaitSeconds,
} from './statement_fields.ts';

const QueryBody = strictObject(
  {
    sql: Sql,
    parameters: Type.Optional(Parameters),
    waitSeconds: Type.Optional(WaitSeconds),
    rowsMax: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 1_000_000_000,
        description: 'The result is truncated after this many rows.',
      }),
    ),
    numbers: Type.Optional(
      Type.Union([Type.Literal('number'), Type.Literal('string')], {
        default: 'number',
        description:
          '`string`: 64-bit and wider integers and decimals as JSON strings, for clients whose numbers are doubles.',
      }),
    ),
    format: Type.Optional(
      oneOf(['json', ...exportFormats], {
        default: 'json',
        description:
          '`json`: rows in the response. Otherwise, for a SELECT, links to files with the rows, which count towards `principalFileBytesMax` and are deleted with the task of the result. `arrow`: Arrow IPC. Integers of 128 bits are DECIMAL(38,0) in Parquet and Arrow.',
      }),
    ),
    compression: Type.Optional(CompressionOfFiles),
    warehouse: Type.Optional(
      Type.String({ description: 'The warehouse that runs the statement; by default that of the catalog.' }),
    ),
    ...taskFields,
  },
  { title: 'QueryRequest' },
);

export type QueryBody = Static<typeof QueryBody>;

const QueryResult = Type.Object(
  {
    columns: Type.Array(ColumnOfResult),
    rows: Type.Optional(
      nullable(
        Type.Array(Type.Array(Type.Unknown()), {
          description:
            'The rows of the result or of its first page; null if a statement that writes is repeated with its idempotency key; absent if the rows are in `files`.',
        }),
      ),
    ),
    files: Type.Optional(ResultFiles),
    task: Type.Optional(Type.String({ description: 'The URI of the task that the files belong to.' })),
    rowCount: nullable(
      Type.Integer({
        description:
          'The number of rows of the whole result, null while later pages are computed; for DML the number of changed rows.',
      }),
    ),
    truncated: nullable(
      Type.Boolean({
        description: 'Whether the result was truncated by `rowsMax`; null while later pages are computed.',
      }),
    ),
    nextPage: Type.Optional(Type.String({ description: 'The URI of the next page; absent if there is none.' })),
    pageCount: nullable(
      Type.Integer({ description: 'Null while later pages are computed; 0 if the rows are in `files`.' }),
    ),
    statistics: Statistics,
    queryId: Type.String(),
  },
  { title: 'QueryResult' },
);

export type QueryResult = Static<typeof QueryResult>;

const ProfileBody = strictObject(
  {
    sql: Sql,
    parameters: Type.Optional(Parameters),
    waitSeconds: Type.Optional(WaitSeconds),
    warehouse: QueryBody.properties.warehouse,
    ...taskFields,
  },
  { title: 'ProfileRequest' },
);
const ProfileResult = Type.Object(
  {
    profile: Type.Object(
      {},
      {
        additionalProperties: true,
        description:
          'As reported by the engine: `latency` and `cpu_time` in seconds, and in `children` the operators, each with `operator_timing`, `operator_cardinality`, `operator_rows_scanned` and `extra_info`.',
      },
    ),
    rowCount: Type.Integer({ description: 'The number of rows of the result, which is discarded.' }),
    statistics: Statistics,
    queryId: Type.String(),
  },
  { title: 'ProfileResult' },
);

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

/** `what`: the title of the object. */
export const sqlActionsApi = (what: string) => ({
  query: action('object', {
    summary: `Runs one SQL statement with the ${what} as its default namespace.`,
    description:
      'Responds with 200 and the rows, or with 202 and a task after `waitSeconds`. A result larger than one page (8 MiB) is fetched page by page from `nextPage`: the first page is sent while later ones are computed. With a `format` other than `json`, the rows are in `files`, which are complete when the answer is sent.',
    permission: { privilege: 'read', on: 'object', orWithin: true },
    codes: [...codes, 'FILE_QUOTA_EXCEEDED'],
    needs: [{ capability: 'exports', when: 'with a `format` other than `json`' }],
    body: QueryBody,
    bodyRequired: true,
    result: QueryResult,
    task: 'run_query',
    schedulable: true,
    cost: queryCost,
    example,
  }),
  profile: action('object', {
    summary: `Runs a query with the ${what} as its default namespace, discards its rows, and returns the time spent in each operator.`,
    description:
      'Accepts the body of `query`, but only SELECT, and waits in the same way: 200 with the profile, or 202 with a task whose result it is.',
    permission: { privilege: 'read', on: 'object', orWithin: true },
    codes: explainCodes,
    needs: [{ capability: 'profile' }],
    body: ProfileBody,
    bodyRequired: true,
    result: ProfileResult,
    task: 'profile_query',
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
  }),
  explain: action('object', {
    summary: `Returns the plan of a SQL statement without running it.`,
    permission: { privilege: 'read', on: 'object', orWithin: true },
    codes: explainCodes,
    body: strictObject({ sql: Sql, parameters: Type.Optional(Parameters) }, { title: 'ExplainRequest' }),
    bodyRequired: true,
    queued: true,
    result: Plan,
    example: { body: { sql: 'SELECT count(*) FROM lineorder' }, result: { plan: 'UNGROUPED_AGGREGATE ...' } },
  }),
});
