// The action `export`: writes the rows of a query or a table to files, for download or in an object store.
import { exportFormats } from '../../model/export_formats.ts';
import { strictObject, Type } from '../../standard/type.ts';
import { action } from '../declare.ts';
import { oneOf } from '../fields.ts';
import { storeFolder } from '../object_store_fields.ts';
import { codes, Parameters, Query, queryCost } from '../queries/statement_fields.ts';
import { columnsMax } from '../tables/table_fields.ts';
import { taskFields } from '../task_fields.ts';
import { CompressionOfFiles } from './file_formats.ts';

const fileBytesMin = 1024 * 1024;
const fileBytesMost = 1024 ** 4;

const literalsOf = <const N extends string>(names: readonly N[], description: string) =>
  Type.Optional(oneOf(names, { description }));
const Csv = strictObject(
  {
    delimiter: Type.Optional(
      Type.String({
        pattern: '^[^"\\r\\n\\u0000]$',
        default: ',',
        description: 'The delimiter between fields: one ASCII character.',
      }),
    ),
    header: Type.Optional(Type.Boolean({ default: true, description: 'Whether the first line has the column names.' })),
    nullText: Type.Optional(
      Type.String({
        maxLength: 64,
        pattern: '^[^"\\r\\n\\u0000]*$',
        default: '',
        description: 'The text that represents null; an equal value is quoted.',
      }),
    ),
  },
  { title: 'CsvExportFormat', description: 'For `csv`.' },
);
const To = strictObject(
  {
    download: Type.Optional(
      Type.Literal(true, {
        description:
          'The default: the server stores the files as long as the task; they count towards `principalFileBytesMax` and are downloaded by the links of the task.',
      }),
    ),
    s3: Type.Optional(storeFolder('exportHosts')),
  },
  {
    title: 'ExportTarget',
    minProperties: 1,
    maxProperties: 1,
    description:
      'The target of the files; exactly one of these. In an object store they are in a folder named after the task.',
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
      description: 'The approximate size after which the next file begins. By default all rows are in one file.',
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

const QueryBody = strictObject(
  { sql: Query, parameters: Type.Optional(Parameters), ...common },
  { title: 'ExportQueryRequest' },
);
const TableBody = strictObject({
  columns: Type.Optional(
    Type.Array(Type.String(), {
      minItems: 1,
      maxItems: columnsMax,
      description: 'The exported columns, in order; by default all.',
    }),
  ),
  ...common,
});

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
  codes: [...codes.filter((code) => code !== 'CONSTRAINT_VIOLATED'), 'FILE_QUOTA_EXCEEDED'],
  needs: [{ capability: 'exports' }],
  bodyRequired: true,
  task: 'export',
  schedulable: true,
  cost: queryCost,
} as const;
const description =
  'Always a task (202). The files are `part-00000.parquet` and so on, and at last `manifest.json` with the result of the task: `files` (name, bytes, rows, sha256, link), `fileCount`, `bytes`, `rowCount`, `columns`. In an object store they are in a folder for this task. Files to download are deleted with the task or at `expiresAt`; each GET of the task returns new links. A task that fails or is cancelled leaves no files.';

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
