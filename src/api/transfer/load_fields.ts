// The common fields of `load` of a table and of a database: where a file is and how to read it.
import { httpUrl, requiring } from '../../standard/documented_limits.ts';
import { Type } from '../../standard/type.ts';
import { engineCodes, noNul, oneOf } from '../fields.ts';
import { storeFields, storeKeys } from '../object_store_fields.ts';
import { taskCodes, taskFields } from '../task_fields.ts';

const errorsMax = 100_000;

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
    title: 'ObjectStoreFile',
    additionalProperties: false,
    ...requiring({
      accessKeyId: ['secretAccessKey'],
      secretAccessKey: ['accessKeyId'],
      sessionToken: ['accessKeyId', 'secretAccessKey'],
    }),
    description: 'An object of a store that speaks S3; without keys it is asked unsigned.',
  },
);

export const Source = Type.Object(
  {
    url: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 4096,
        pattern: noNul,
        description: 'An http or https URL of a host of `loadHosts`.',
        ...httpUrl,
      }),
    ),
    s3: Type.Optional(S3),
    upload: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 64,
        description: 'Id of an upload of the caller, which is deleted after the load.',
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
  {
    title: 'LoadSource',
    additionalProperties: false,
    minProperties: 1,
    maxProperties: 1,
    description: 'Where the data is: one of these.',
  },
);

export const Csv = Type.Object(
  {
    delimiter: Type.Optional(Type.String({ minLength: 1, maxLength: 4, pattern: '^[^\\u0000\\n\\r]*$' })),
    quote: sign('By default `"`.'),
    escape: sign('The escape character before a quote in quoted text; by default the quote.'),
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
    encoding: Type.Optional(oneOf(['utf-8', 'utf-16', 'latin-1'])),
    decimalSeparator: Type.Optional(oneOf(['.', ','])),
    comment: sign('Lines that begin with it are passed over.'),
  },
  {
    title: 'CsvFormat',
    additionalProperties: false,
    description: 'The dialect of a CSV file. Delimiter and header are detected by default.',
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
  format: Type.Optional(oneOf(['csv', 'json', 'ndjson', 'parquet'])),
  compression: Type.Optional(oneOf(['none', 'gzip', 'zstd'])),
  csv: Type.Optional(Csv),
  errorsMax: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: errorsMax,
      default: 0,
      description: 'The maximum number of rejected rows; beyond it nothing is loaded.',
    }),
  ),
  dryRun: Type.Optional(
    Type.Boolean({ default: false, description: 'Everything is executed, counted, and rolled back.' }),
  ),
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
