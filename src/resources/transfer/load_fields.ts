// The fields of a load's body that say what is read and how, whichever table it goes into.

import { engineCodes, noNul } from '../../api/fields.ts';
import { storeFields, storeKeys } from '../../api/object_store_fields.ts';
import { taskCodes, taskFields } from '../../api/task_fields.ts';
import type { ObjectStoreCredentials } from '../../outbound/object_store.ts';
import type { LoadSource } from '../../query/loads/load_sources.ts';
import { type Static, Type } from '../../standard/type.ts';
import { invalid } from '../records/fields.ts';
import { storePlace } from './object_store_fields.ts';

const errorsMax = 100_000;

const one = (values: readonly string[]) => Type.Union(values.map((value) => Type.Literal(value)));
const sign = (description: string) =>
  Type.Optional(Type.String({ minLength: 1, maxLength: 1, pattern: '^[^\\u0000\\n\\r]*$', description }));
const text = (description: string) => Type.Optional(Type.String({ maxLength: 256, pattern: noNul, description }));

const S3 = Type.Object(
  {
    ...storeFields('loadHosts'),
    key: Type.String({ minLength: 1, maxLength: 1024, pattern: noNul }),
    ...storeKeys,
    accessKeyId: Type.Optional(storeKeys.accessKeyId),
    secretAccessKey: Type.Optional(storeKeys.secretAccessKey),
  },
  {
    additionalProperties: false,
    description: 'An object of a store that speaks S3; without keys it is asked unsigned.',
  },
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

export const Csv = Type.Object(
  {
    delimiter: Type.Optional(Type.String({ minLength: 1, maxLength: 4, pattern: '^[^\\u0000\\n\\r]*$' })),
    quote: sign('By default `"`.'),
    escape: sign('What stands before a quote in a quoted text; by default the quote.'),
    header: Type.Optional(Type.Boolean({ description: 'Whether the first line names the columns.' })),
    nullText: text('The text that is null; by default nothing at all.'),
    quotedNulls: Type.Optional(
      Type.Boolean({
        default: true,
        description: 'Whether that text is null in quotes too; `false`: `""` is an empty text, as exports write it.',
      }),
    ),
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

export const columnOrigin = {
  source: Type.Optional(Type.String({ maxLength: 255, description: 'Of the file; by default the same name.' })),
  expression: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 16_384,
      pattern: noNul,
      description: 'SQL over the columns of the file, of one row alone: `upper(name)`.',
    }),
  ),
};

export const fileFields = {
  source: Source,
  format: Type.Optional(one(['csv', 'json', 'ndjson', 'parquet'])),
  compression: Type.Optional(one(['none', 'gzip', 'zstd'])),
  csv: Type.Optional(Csv),
  errorsMax: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: errorsMax,
      default: 0,
      description: 'Rows that do not fit are left out, up to so many; one more, and nothing is loaded.',
    }),
  ),
  dryRun: Type.Optional(Type.Boolean({ default: false, description: 'Everything is done, counted, and undone.' })),
  ...taskFields,
};

export const label = (description: string) =>
  Type.Optional(Type.String({ minLength: 1, maxLength: 255, pattern: noNul, description }));

export const loadCodes = [
  'OBJECT_NOT_FOUND',
  'CHANGE_IN_PROGRESS',
  'REPLICAS_UNAVAILABLE',
  ...taskCodes,
  ...engineCodes,
] as const;

/** What the request of a task may show, and what not. */
export function split(source: Static<typeof Source>): {
  source: LoadSource;
  credentials: ObjectStoreCredentials | undefined;
} {
  if (!source.s3) return { source: source as LoadSource, credentials: undefined };
  const { accessKeyId, secretAccessKey, sessionToken, ...place } = source.s3;
  if ((accessKeyId === undefined) !== (secretAccessKey === undefined))
    throw invalid('/source/s3', 'credentials', 'has `accessKeyId` and `secretAccessKey`, or neither');
  const s3 = storePlace(place);
  if (accessKeyId === undefined || secretAccessKey === undefined) return { source: { s3 }, credentials: undefined };
  return { source: { s3 }, credentials: { accessKeyId, secretAccessKey, sessionToken } };
}
