// The action `export`: writes the rows of a query or a table to files, for download or in an object store.
import { exportFormats } from '../../model/export_formats.ts';
import { Type } from '../../standard/type.ts';
import { action } from '../declare.ts';
import { oneOf } from '../fields.ts';
import { storeFolder } from '../object_store_fields.ts';
import { codes, Parameters, Query, queryCost } from '../queries/statement_fields.ts';
import { columnsMax } from '../tables/table_fields.ts';
import { taskCodes, taskFields } from '../task_fields.ts';
import { CompressionOfFiles } from './file_formats.ts';

const fileBytesMin = 1024 * 1024;
const fileBytesMost = 1024 ** 4;

const literalsOf = <const N extends string>(names: readonly N[], description: string) =>
  Type.Optional(oneOf(names, { description }));
const Csv = Type.Object(
  {
    delimiter: Type.Optional(
      Type.String({
        pattern: '^[^"\\r\\n\\u0000]$',
        default: ',',
        description: 'Between fields: one ASCII character.',
      }),
    ),
    header: Type.Optional(Type.Boolean({ default: true, description: 'Whether the first line names the columns.' })),
    nullText: Type.Optional(
      Type.String({
        maxLength: 64,
        pattern: '^[^"\\r\\n\\u0000]*$',
        default: '',
        description: 'The text that represents null; an equal value is quoted.',
      }),
    ),
  },
  { title: 'CsvExportFormat', additionalProperties: false, description: 'For `csv`.' },
);
const To = Type.Object(
  {
    download: Type.Optional(
      Type.Literal(true, {
        description:
          'The default: the server stores them as long as the task, they count towards `principalFileBytesMax`, and they are downloaded by the links of the task.',
      }),
    ),
    s3: Type.Optional(storeFolder('exportHosts')),
  },
  {
    title: 'ExportTarget',
    additionalProperties: false,
    minProperties: 1,
    maxProperties: 1,
    description: 'Where the files go: one of these. In an object store they are in a folder named after the task.',
  },
);
const common = {
  format: oneOf(exportFormats, {
    description: '`arrow`: Arrow IPC. Integers of 128 bits are DECIMAL(38,0) in Parquet and Arrow.',
  }),
  compression: Type.Optional(CompressionOfFiles),
  csv: Type.Optional(Csv),
  arrowLayout: literalsOf(['file', 'stream'], 'For `arrow`; by default `file`.'),
  fileBytesMax: Type.Optional(
    Type.Integer({
      minimum: fileBytesMin,
      maximum: fileBytesMost,
      description: 'When a file reaches about this size, the next one is begun. By default all rows are in one file.',
    }),
  ),
  numbers: Type.Optional(
    Type.Union([Type.Literal('number'), Type.Literal('string')], {
      default: 'number',
      description: 'For `ndjson`; `string`: 64-bit and wider integers and decimals as JSON strings.',
    }),
  ),
  to: Type.Optional(To),
  ...taskFields,
};

const QueryBody = Type.Object(
  { sql: Query, parameters: Type.Optional(Parameters), ...common },
  { title: 'ExportQueryRequest', additionalProperties: false },
);
const TableBody = Type.Object(
  {
    columns: Type.Optional(
      Type.Array(Type.String(), {
        minItems: 1,
        maxItems: columnsMax,
        description: 'Which, in which order; by default all.',
      }),
    ),
    ...common,
  },
  { additionalProperties: false },
);

const to = {
  s3: {
    endpoint: 'https://s3.eu-central-1.amazonaws.com',
    region: 'eu-central-1',
    bucket: 'exports',
    prefix: 'daily/',
    accessKeyId: 'AKIDEXAMPLE',
    secretAccessKey: 'the-secret-of-that-key',
  },
};
const shared = {
  codes: [...codes.filter((code) => code !== 'CONSTRAINT_VIOLATED'), ...taskCodes, 'FILE_QUOTA_EXCEEDED'],
  bodyRequired: true,
  task: 'export',
  schedulable: true,
  cost: queryCost,
} as const;
const description =
  'Always a task (202). The files are `part-00000.parquet` and so on, with `manifest.json` written last, which has the same content as the result of the task: `files` (name, bytes, rows, sha256, link), `fileCount`, `bytes`, `rowCount`, `columns`. In an object store they are in a folder for this task. Files to download go with the task, or at `expiresAt`; each GET of the task has fresh links to them, and `manifestLink`. A task that fails or is cancelled leaves nothing.';

/** `what`: the title of the object. */
export const exportQueryApi = (what: string) => ({
  export: action('object', {
    ...shared,
    summary: `Writes the rows of a query, with the ${what} as its default namespace, to files to download, or in an object store.`,
    description,
    permission: { privilege: 'read', on: 'object', orWithin: true },
    body: QueryBody,
    example: {
      body: { sql: 'SELECT * FROM lineorder WHERE lo_quantity > $1', parameters: [10], format: 'parquet', to },
    },
  }),
});

export const exportTableApi = {
  export: action('object', {
    ...shared,
    auditName: 'export_table',
    summary: 'Writes the rows of a table to files to download, or in an object store.',
    description,
    permission: { privilege: 'read', on: 'object' },
    body: TableBody,
    example: { body: { columns: ['lo_orderkey', 'lo_revenue'], format: 'csv', compression: 'gzip', to } },
  }),
};
