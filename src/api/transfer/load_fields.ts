// The common fields of `load` of a table and of a database: where a file is and how to read it.
import { httpUrl, requiring } from '../../standard/documented_limits.ts';
import { strictObject, Type } from '../../standard/type.ts';
import { engineCodes, noNul, oneOf } from '../fields.ts';
import { storeFields, storeKeys } from '../object_store_fields.ts';
import { taskFields } from '../task_fields.ts';

const errorsMax = 100_000;

const character = (description: string) =>
  Type.Optional(Type.String({ minLength: 1, maxLength: 1, pattern: '^[^\\u0000\\n\\r]*$', description }));

const text = (description: string) => Type.Optional(Type.String({ maxLength: 256, pattern: noNul, description }));

const S3 = strictObject(
  {
    ...storeFields('loadHosts'),
    key: Type.String({ minLength: 1, maxLength: 1024, pattern: noNul }),
    ...storeKeys,
    accessKeyId: Type.Optional(storeKeys.accessKeyId),
    secretAccessKey: Type.Optional(storeKeys.secretAccessKey),
  },
  {
    title: 'ObjectStoreFile',
    ...requiring({
      accessKeyId: ['secretAccessKey'],
      secretAccessKey: ['accessKeyId'],
      sessionToken: ['accessKeyId', 'secretAccessKey'],
    }),
    description: 'An object of an object store with the S3 protocol; without keys the requests are not signed.',
  },
);

export const Source = strictObject(
  {
    url: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 4096,
        pattern: noNul,
        description: 'An http or https URL of a host that `loadHosts` allows.',
        ...httpUrl,
      }),
    ),
    s3: Type.Optional(S3),
    upload: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 64,
        description: 'The id of an upload of the caller, which is deleted after the load.',
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
    minProperties: 1,
    maxProperties: 1,
    description: 'The source of the data; exactly one of these.',
  },
);

export const Csv = strictObject(
  {
    delimiter: Type.Optional(Type.String({ minLength: 1, maxLength: 4, pattern: '^[^\\u0000\\n\\r]*$' })),
    quote: character('By default `"`.'),
    escape: character('The escape character before a quote in quoted text; by default the quote.'),
    header: Type.Optional(Type.Boolean({ description: 'Whether the first line has the column names.' })),
    nullText: text('The text that represents null; by default an empty field.'),
    quotedNulls: Type.Optional(
      Type.Boolean({
        default: true,
        description:
          'Whether `nullText` in quotes also represents null; `false`: `""` is an empty text, as written by exports.',
      }),
    ),
    skipRows: Type.Optional(
      Type.Integer({ minimum: 0, maximum: 1_000_000, description: 'The number of lines before the data.' }),
    ),
    dateFormat: text('The format in strptime syntax, such as `%d.%m.%Y`.'),
    timestampFormat: text('The format in strptime syntax, such as `%d.%m.%Y %H:%M:%S`.'),
    encoding: Type.Optional(oneOf(['utf-8', 'utf-16', 'latin-1'])),
    decimalSeparator: Type.Optional(oneOf(['.', ','])),
    comment: character('The prefix of comment lines, which are ignored.'),
  },
  {
    title: 'CsvFormat',
    description: 'The dialect of a CSV file. Delimiter and header are detected by default.',
  },
);

export const columnOrigin = {
  source: Type.Optional(
    Type.String({ maxLength: 255, description: 'The column of the file; by default that of the same name.' }),
  ),
  expression: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 16_384,
      pattern: noNul,
      description: 'A SQL expression over the columns of one row of the file, such as `upper(name)`.',
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
    Type.Boolean({
      default: false,
      description: 'The load is executed and its rows are counted, then it is rolled back.',
    }),
  ),
  ...taskFields,
};

export const parquetNeeded = { capability: 'parquetFiles', when: 'with a Parquet file' } as const;

export const label = (description: string) =>
  Type.Optional(Type.String({ minLength: 1, maxLength: 255, pattern: noNul, description }));

export const loadCodes = ['OBJECT_NOT_FOUND', 'CHANGE_IN_PROGRESS', ...engineCodes] as const;
