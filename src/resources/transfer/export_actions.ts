// The handlers of `export`. The files are always written by a task, whose result is the manifest.

import type { BodyOf, SharedHandlers } from '../../api/handlers.ts';
import type { exportQueryApi, exportTableApi } from '../../api/transfer/export_actions.ts';
import { sqlIdentifier } from '../../model/names.ts';
import type { ObjectStoreCredentials } from '../../outbound/object_store.ts';
import type { ExportTarget } from '../../query/exports/export_targets.ts';
import type { ExportRequest } from '../../query/exports/exports.ts';
import { invalidParameter } from '../../standard/failure.ts';
import { type Segment, uriOf } from '../../standard/paths.ts';
import { fileFormatOf, requireFormat } from '../records/file_format.ts';
import type { Context } from '../records/handler_context.ts';
import { requireUse } from '../records/permissions.ts';
import { taskOptions } from '../records/task_fields.ts';
import { accepted } from '../records/task_record.ts';
import { storeFolderOf } from './object_store_fields.ts';

type QueryBody = BodyOf<ReturnType<typeof exportQueryApi>['export']>;
type Body = Omit<QueryBody, 'sql' | 'parameters'>;
type InCatalog = readonly [Segment<'catalogs'>, ...Segment[]];
type TablePath = readonly [Segment<'catalogs'>, Segment<'databases'>, Segment<'tables'>];

export const exportQuery: SharedHandlers<ReturnType<typeof exportQueryApi>, Context, InCatalog> = {
  export: async ({ segments, body }, context) => {
    await context.catalog.require(segments);
    const { sql, parameters } = body;
    return submitted(segments, segments, { sql, parameters }, body, context);
  },
};

export const exportTable: SharedHandlers<typeof exportTableApi, Context, TablePath> = {
  export: async ({ segments, body }, context) => {
    const chain = await context.catalog.require(segments);
    const known = new Set(chain[2].spec.columns.map(({ name }) => name));
    body.columns?.forEach((column, i) => {
      if (!known.has(column))
        throw invalidParameter(`/columns/${i}`, 'exists', `is not a column: ${JSON.stringify(column)}`);
    });
    const columns = body.columns?.map(sqlIdentifier).join(', ') ?? '*';
    const sql = `SELECT ${columns} FROM ${chain.map(({ name }) => sqlIdentifier(name)).join('.')}`;
    const request = { columns: body.columns };
    const [root, database] = segments;
    return submitted(segments, [root, database], { sql, asked: request }, body, context);
  },
};

async function submitted(
  about: readonly Segment[],
  [root, database]: InCatalog,
  query: Pick<ExportRequest, 'sql' | 'parameters' | 'asked'>,
  body: Body,
  context: Context,
) {
  const { numbers = 'number', fileBytesMax } = body;
  requireFormat(body.numbers === undefined || body.format === 'ndjson', '/numbers', body.format);
  const [{ spec }] = await context.catalog.require([root]);
  await requireUse(spec.warehouse, context);
  const { to, credentials } = targetOf(body.to);
  const request = {
    ...query,
    numbers,
    catalog: root.name,
    database: database?.name,
    format: fileFormatOf(body),
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

/** Separates the part of the destination that a task may show from its secrets. */
function targetOf({ s3 }: NonNullable<Body['to']> = {}): {
  readonly to: ExportTarget;
  readonly credentials?: ObjectStoreCredentials;
} {
  if (!s3) return { to: { kind: 'download' } };
  const { location, credentials } = storeFolderOf(s3);
  return { to: { kind: 's3', ...location }, credentials };
}
