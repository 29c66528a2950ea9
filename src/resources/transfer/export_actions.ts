// The action `export`: the rows of a query, or of a table, as files to fetch from here, or in an object store. Always a task; what it
// answers is the manifest.

import { storeFolder } from '../../api/object_store_fields.ts';
import { codes, Parameters, Query, queryCost } from '../../api/queries/statement_fields.ts';
import { taskCodes, taskFields } from '../../api/task_fields.ts';
import type { StatementParameters } from '../../engines/engine.ts';
import { type ExportFormat, parquetCompressions, textCompressions } from '../../engines/export.ts';
import type { ObjectStoreCredentials } from '../../outbound/object_store.ts';
import type { ExportTarget } from '../../query/exports/export_targets.ts';
import type { ExportRequest } from '../../query/exports/exports.ts';
import type { PathParameters } from '../../standard/endpoint.ts';
import { type Segment, uriOf } from '../../standard/paths.ts';
import { type Static, Type } from '../../standard/type.ts';
import { invalid } from '../records/fields.ts';
import { accepted, action, type Context, requirePrivilege, segment } from '../records/handler_context.ts';
import { taskOptions } from '../records/task_fields.ts';
import { type TableChain, tableRef } from '../table_definitions/create_and_alter.ts';
import { columnsMax } from '../table_definitions/table_definition.ts';
import { storeFolderOf } from './object_store_fields.ts';

const fileBytesMin = 1024 * 1024;
const fileBytesMost = 1024 ** 4;

const one = <const T extends readonly string[]>(names: T, description: string) =>
  Type.Optional(
    Type.Union(
      names.map((name) => Type.Literal(name as T[number])),
      { description },
    ),
  );
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
        description: 'What stands for null; a value that is the same is quoted.',
      }),
    ),
  },
  { additionalProperties: false, description: 'For `csv`.' },
);
const To = Type.Object(
  {
    download: Type.Optional(
      Type.Literal(true, {
        description:
          'The default: they are kept by the server as long as the task, count for `principalFileBytesMax`, and are fetched by the links of the task.',
      }),
    ),
    s3: Type.Optional(storeFolder('exportHosts')),
  },
  {
    additionalProperties: false,
    minProperties: 1,
    maxProperties: 1,
    description: 'Where the files go: one of these. In a store they are in a folder that is called as the task.',
  },
);
const common = {
  format: Type.Union(
    ['parquet', 'csv', 'ndjson', 'arrow'].map((name) => Type.Literal(name as ExportFormat['kind'])),
    { description: '`arrow`: Arrow IPC. Integers of 128 bits are DECIMAL(38,0) in Parquet and Arrow.' },
  ),
  compression: one(
    [...new Set([...parquetCompressions, ...textCompressions])],
    'By default `snappy` for `parquet`, which also takes `zstd`, `gzip`, `lz4` and `none`; `none` for `csv` and `ndjson`, which also take `gzip` and `zstd`.',
  ),
  csv: Type.Optional(Csv),
  arrowLayout: one(['file', 'stream'], 'For `arrow`; by default `file`.'),
  fileBytesMax: Type.Optional(
    Type.Integer({
      minimum: fileBytesMin,
      maximum: fileBytesMost,
      description:
        'A file that has become about this large is ended and the next begun. Without it, all is in one file.',
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
  { additionalProperties: false },
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
type Common = Omit<Static<typeof TableBody>, 'columns'>;

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
  on: 'object' as const,
  codes: [...codes.filter((code) => code !== 'CONSTRAINT_VIOLATED'), ...taskCodes, 'FILE_QUOTA_EXCEEDED'] as const,
  bodyRequired: true,
  result: Type.Object({}),
  mayAccept: true,
  cost: queryCost,
};
const description =
  'Always a task (202). The files are `part-00000.parquet` and so on, with `manifest.json` made last, which tells what the result of the task tells: `files` (name, bytes, rows, sha256, link), `fileCount`, `bytes`, `rowCount`, `columns`. In an object store they are in a folder of the task’s own. Files to download go with the task, or at `expiresAt`; each GET of the task has fresh links to them, and `manifestLink`. A task that fails or is cancelled leaves nothing.';

export const exportQuery = (what: string, pathOf: (path: PathParameters) => readonly Segment[]) =>
  action('export', {
    ...shared,
    summary: `Writes the rows of a query, with the ${what} as its default namespace, to files to download, or in an object store.`,
    description,
    permission: { privilege: 'read', on: 'object', orWithin: true },
    body: QueryBody,
    example: {
      body: { sql: 'SELECT * FROM lineorder WHERE lo_quantity > $1', parameters: [10], format: 'parquet', to },
    },
    handle: async ({ path, body }, context) => {
      const segments = pathOf(path);
      await context.catalog.require(segments);
      const { sql, parameters } = body;
      return submitted(segments, segments, { sql, parameters: parameters as StatementParameters }, body, context);
    },
  });

export const exportTable = (pathOf: (path: PathParameters) => readonly Segment[]) =>
  action('export', {
    ...shared,
    auditName: 'export_table',
    summary: 'Writes the rows of a table to files to download, or in an object store.',
    description,
    permission: { privilege: 'read', on: 'object' },
    body: TableBody,
    example: { body: { columns: ['lo_orderkey', 'lo_revenue'], format: 'csv', compression: 'gzip', to } },
    handle: async ({ path, body }, context) => {
      const segments = pathOf(path);
      const chain = (await context.catalog.require(segments)) as TableChain;
      const { catalog, database, table } = tableRef(chain);
      const known = new Set(chain[2].spec.columns.map(({ name }) => name));
      body.columns?.forEach((column, i) => {
        if (!known.has(column)) throw invalid(`/columns/${i}`, 'exists', `names no column: ${JSON.stringify(column)}`);
      });
      const columns = body.columns?.map(quoted).join(', ') ?? '*';
      const sql = `SELECT ${columns} FROM ${[catalog.name, database, table].map(quoted).join('.')}`;
      const asked = { columns: body.columns };
      return submitted(segments, segments.slice(0, 2), { sql, asked }, body, context);
    },
  });

const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`;

async function submitted(
  about: readonly Segment[],
  [root, database]: readonly Segment[],
  query: Pick<ExportRequest, 'sql' | 'parameters' | 'asked'>,
  body: Common,
  context: Context,
) {
  const { format, numbers = 'number', fileBytesMax } = body;
  const catalog = (root as Segment).name;
  const [{ spec }] = (await context.catalog.require([root as Segment])) as [TableChain[0]];
  await requirePrivilege('use', [segment('warehouses', spec.warehouse)], context);
  const { to, credentials } = targetOf(body.to);
  const request = {
    ...query,
    numbers,
    catalog,
    database: database?.name,
    format: formatOf(body, format),
    fileBytesMax,
    to,
  };
  const { principal, actor, version } = context.call;
  const options = await taskOptions(body, context);
  actor.writing = true;
  const target = uriOf(version, about);
  const task = await context.exports.submit(
    { principal, guard: actor.guard, target, request, ...options },
    credentials,
  );
  return accepted(task, context);
}

/** What a task may show of where its files go, and what not. */
function targetOf({ s3 }: NonNullable<Common['to']> = {}): {
  readonly to: ExportTarget;
  readonly credentials?: ObjectStoreCredentials;
} {
  if (!s3) return { to: { kind: 'download' } };
  const { place, credentials } = storeFolderOf(s3);
  return { to: { kind: 's3', ...place }, credentials };
}

/** Options of another format than the one asked for are a mistake of who sent them. */
function formatOf(body: Common, kind: ExportFormat['kind']): ExportFormat {
  const { compression, csv, arrowLayout } = body;
  const only = (pointer: string, isGiven: boolean, isFitting: boolean) => {
    if (isGiven && !isFitting) throw invalid(pointer, 'format', `is not for the format ${kind}`);
  };
  const offered: readonly string[] =
    kind === 'parquet' ? parquetCompressions : kind === 'arrow' ? [] : textCompressions;
  only('/csv', csv !== undefined, kind === 'csv');
  only('/arrowLayout', arrowLayout !== undefined, kind === 'arrow');
  only('/compression', compression !== undefined, offered.includes(compression ?? ''));
  only('/numbers', body.numbers !== undefined, kind === 'ndjson');
  const text = (compression ?? 'none') as (typeof textCompressions)[number];
  switch (kind) {
    case 'parquet':
      return { kind, compression: (compression ?? 'snappy') as (typeof parquetCompressions)[number] };
    case 'csv':
      return {
        kind,
        compression: text,
        delimiter: csv?.delimiter ?? ',',
        header: csv?.header ?? true,
        nullText: csv?.nullText ?? '',
      };
    case 'ndjson':
      return { kind, compression: text };
    case 'arrow':
      return { kind, layout: arrowLayout ?? 'file' };
  }
}
