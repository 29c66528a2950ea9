// The action `load`: data from outside into a table, by a task. What is read and how is query/loads.ts'.
import { type Static, Type } from 'typebox';
import type { ObjectStoreCredentials } from '../outbound/object_store.ts';
import type { LoadSource } from '../query/load_files.ts';
import type { LoadAsked } from '../query/loads.ts';
import type { PathParameters } from '../standard/endpoint.ts';
import { type Segment, uriOf } from '../standard/paths.ts';
import { accepted, action } from './context.ts';
import { engineCodes, invalid, noNul } from './fields.ts';
import { apart, taskCodes, taskFields } from './task_fields.ts';

const errorsMax = 100_000;
const columnsMax = 10_000;

const one = (values: readonly string[]) => Type.Union(values.map((value) => Type.Literal(value)));
const sign = (description: string) =>
  Type.Optional(Type.String({ minLength: 1, maxLength: 1, pattern: '^[^\\u0000\\n\\r]*$', description }));
const text = (description: string) => Type.Optional(Type.String({ maxLength: 256, pattern: noNul, description }));

const credential = (description: string) => Type.Optional(Type.String({ minLength: 1, maxLength: 4096, description }));

const S3 = Type.Object(
  {
    endpoint: Type.String({ minLength: 1, maxLength: 2048, description: '`https://s3.eu-central-1.amazonaws.com`.' }),
    region: Type.Optional(Type.String({ minLength: 1, maxLength: 64, default: 'us-east-1' })),
    bucket: Type.String({ minLength: 1, maxLength: 255, pattern: '^[A-Za-z0-9][A-Za-z0-9._-]*$' }),
    key: Type.String({ minLength: 1, maxLength: 1024, pattern: noNul }),
    pathStyle: Type.Optional(
      Type.Boolean({ default: false, description: 'The bucket is in the path: what servers other than AWS want.' }),
    ),
    accessKeyId: credential('Without it the store is asked unsigned.'),
    secretAccessKey: credential('Kept encrypted until the task has ended, and shown nowhere.'),
    sessionToken: credential('As the secret key.'),
  },
  { additionalProperties: false, description: 'An object of a store that speaks S3, on a host of `loadHosts`.' },
);

const Source = Type.Object(
  {
    url: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 4096,
        pattern: noNul,
        description: 'An http or https URL of a host of `loadHosts`.',
      }),
    ),
    s3: Type.Optional(S3),
    upload: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 64,
        description: 'Id of an upload of the caller; it is gone when it was loaded.',
      }),
    ),
    path: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 4096,
        pattern: noNul,
        description: 'An absolute path on the server, in one of its `loadDirectories`.',
      }),
    ),
  },
  { additionalProperties: false, minProperties: 1, maxProperties: 1, description: 'Where the data is: one of these.' },
);

const Csv = Type.Object(
  {
    delimiter: Type.Optional(Type.String({ minLength: 1, maxLength: 4, pattern: '^[^\\u0000\\n\\r]*$' })),
    quote: sign('By default `"`.'),
    escape: sign('What stands before a quote in a quoted text; by default the quote.'),
    header: Type.Optional(Type.Boolean({ description: 'Whether the first line names the columns.' })),
    nullText: text('The text that is null; by default nothing at all.'),
    skipRows: Type.Optional(Type.Integer({ minimum: 0, maximum: 1_000_000, description: 'Lines before the data.' })),
    dateFormat: text('As of strptime: `%d.%m.%Y`.'),
    timestampFormat: text('As of strptime: `%d.%m.%Y %H:%M:%S`.'),
    encoding: Type.Optional(one(['utf-8', 'utf-16', 'latin-1'])),
    decimalSeparator: Type.Optional(one(['.', ','])),
    comment: sign('Lines that begin with it are passed over.'),
  },
  {
    additionalProperties: false,
    description: 'How a CSV file is written. Delimiter and header are found where they are not said.',
  },
);

const Column = Type.Object(
  {
    name: Type.String({ minLength: 1, maxLength: 255, description: 'Of the table.' }),
    source: Type.Optional(Type.String({ maxLength: 255, description: 'Of the file; by default the same name.' })),
    expression: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 16_384,
        pattern: noNul,
        description: 'SQL over the columns of the file, of one row alone: `upper(name)`.',
      }),
    ),
  },
  { additionalProperties: false },
);

const sourceFields = {
  source: Source,
  format: Type.Optional(one(['csv', 'json', 'ndjson', 'parquet'])),
  compression: Type.Optional(one(['none', 'gzip', 'zstd'])),
  csv: Type.Optional(Csv),
};

const LoadBody = Type.Object(
  {
    ...sourceFields,
    columns: Type.Optional(
      Type.Array(Column, {
        minItems: 1,
        maxItems: columnsMax,
        description:
          'What the columns of the table get; one that is not named gets its default. By default those of the same name.',
      }),
    ),
    mode: Type.Optional(
      Type.Union([Type.Literal('append'), Type.Literal('replace'), Type.Literal('upsert')], {
        default: 'append',
        description:
          '`replace`: the table holds the file and nothing else. `upsert`: rows of the same primary key are replaced.',
      }),
    ),
    errorsMax: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: errorsMax,
        default: 0,
        description: 'Rows that do not fit are left out, up to so many; one more, and nothing is loaded.',
      }),
    ),
    dryRun: Type.Optional(Type.Boolean({ default: false, description: 'Everything is done, counted, and undone.' })),
    label: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 255,
        pattern: noNul,
        description: 'A load of this label that succeeded on this table is not done again: its result is answered.',
      }),
    ),
    ...taskFields,
  },
  { additionalProperties: false },
);

const codes = ['OBJECT_NOT_FOUND', 'CHANGE_IN_PROGRESS', 'REPLICAS_UNAVAILABLE', ...taskCodes, ...engineCodes] as const;

type Body = Static<typeof LoadBody>;

/** What the request of a task may show, and what not. */
function split(source: Body['source']): { source: LoadSource; credentials: ObjectStoreCredentials | undefined } {
  if (!source.s3) return { source: source as LoadSource, credentials: undefined };
  const { accessKeyId, secretAccessKey, sessionToken, ...place } = source.s3;
  if ((accessKeyId === undefined) !== (secretAccessKey === undefined))
    throw invalid('/source/s3', 'credentials', 'has `accessKeyId` and `secretAccessKey`, or neither');
  const s3 = { region: 'us-east-1', pathStyle: false, ...place };
  if (accessKeyId === undefined || secretAccessKey === undefined) return { source: { s3 }, credentials: undefined };
  return { source: { s3 }, credentials: { accessKeyId, secretAccessKey, sessionToken } };
}

export const loadTable = (pathOf: (path: PathParameters) => Segment[]) =>
  action('load', {
    on: 'object',
    summary: 'Loads a file into a table, all or nothing: CSV, JSON, NDJSON or Parquet.',
    description:
      'Always a task. Its result has `rowsLoaded`, `rowsRejected`, the first `rejectedRows` (row, column, reason, text) and `bytes`; what a crash kept from being told is null. ' +
      'A file that cannot be read or does not fit ends it with `DATA_INVALID`, row and column, and the table is as it was.',
    permission: { privilege: 'write', on: 'object' },
    codes,
    body: LoadBody,
    bodyRequired: true,
    result: Type.Object({}),
    mayAccept: true,
    cost: 10,
    example: { body: { source: { path: '/data/incoming/orders.csv' }, mode: 'append', errorsMax: 10 } },
    handle: async ({ path, body }, context) => {
      const { asked, options } = await apart(body as Body, context);
      const segments = pathOf(path);
      const { source, credentials } = split(asked.source);
      const request = await context.loads.request(segments, { ...asked, source } as LoadAsked, context.call.principal);
      const { principal, actor, version } = context.call;
      const target = uriOf(version, segments);
      const task = { principal, guard: actor.guard, target, request, ...options };
      return accepted(await context.submitLoad(task, actor, credentials), context);
    },
  });
