// Common parts of all endpoints that run SQL: fields of the body and of the result, and codes.
import { exportFormats } from '../../model/export_formats.ts';
import { Type } from '../../standard/type.ts';
import { noNul, oneOf } from '../fields.ts';
import { waitSecondsDefault } from '../task_fields.ts';

/** The rate limit cost of a statement; a GET costs 1. */
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
  {
    title: 'StatementParameters',
    description: 'Values of `$1`, `?` (an array) or `$name` (an object): bound, never spliced into the text.',
  },
);

export const WaitSeconds = Type.Number({
  minimum: 0,
  maximum: waitSecondsMax,
  default: waitSecondsDefault,
  description: 'How long to wait before the statement becomes a task; 0: not at all.',
});

export const ColumnOfResult = Type.Object({ name: Type.String(), type: Type.String() }, { title: 'ResultColumn' });

/** Files with the rows of a query. */
export const ResultFiles = Type.Array(
  Type.Object(
    {
      uri: Type.Optional(
        Type.String({
          description: 'A signed link, valid for an hour; not in lists. Each GET of the task returns new links.',
        }),
      ),
      fileId: Type.String(),
      format: oneOf(exportFormats),
      bytes: Type.Integer(),
      rowCount: Type.Integer(),
    },
    { title: 'ResultFile' },
  ),
  { description: 'With a `format` other than `json`: the files with the rows.' },
);

export const Statistics = Type.Object(
  {
    elapsedMs: Type.Number({ description: 'The time in the engine, in milliseconds.' }),
    queuedMs: Type.Number({ description: 'The time in the queue of the warehouse, in milliseconds.' }),
    resultBytes: Type.Integer({ description: 'The size of the rows as JSON, in bytes.' }),
  },
  { title: 'StatementStatistics' },
);

export const Plan = Type.Object(
  { plan: Type.String({ description: "The engine's plan as text." }) },
  { title: 'QueryPlan' },
);

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
  'REMOTE_UNAVAILABLE',
] as const;

export const explainCodes = codes.filter(
  (code) => code !== 'CONSTRAINT_VIOLATED' && code !== 'RESULT_QUOTA_EXCEEDED' && code !== 'REMOTE_UNAVAILABLE',
);
