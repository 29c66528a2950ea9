// The `request` in the record of a task: the body that the caller sent, with defaults. Internal data of the task, such as ids of
// objects or a statement that was assembled from the body, is not shown.
import type { TaskType } from '../../api/tasks/task_types.ts';
import type { RestoreRequest } from '../../backups/restores.ts';
import type { TargetRequest } from '../../backups/targets/backup_targets.ts';
import type { ExportFormat } from '../../engines/port/export.ts';
import type { FillRequest } from '../../jobs/create_filled_table.ts';
import type { ExportTarget } from '../../query/exports/export_targets.ts';
import type { ExportRequest } from '../../query/exports/exports.ts';
import type { LoadSource } from '../../query/loads/load_sources.ts';
import type { NewTableRequest } from '../../query/loads/new_table_loads.ts';
import type { QueryRequest } from '../../query/statements/query_request.ts';
import type { StoredRequests, TaskRecord } from '../../tasks/task.ts';

const whole = (request: unknown) => request;

const shownOf: { readonly [T in TaskType]: (request: StoredRequests[T]) => unknown } = {
  run_query: queryShown,
  profile_query: queryShown,
  export: exportShown,
  load_table: ({ path: _path, tableId: _tableId, source, ...asked }) => ({ ...asked, source: sourceShown(source) }),
  load_database: newTableShown,
  create_filled_table: filledShown,
  optimize_table: () => ({}),
  checksum_table: () => ({}),
  check_catalog: () => ({}),
  move_catalog: ({ objectId: _, ...request }) => request,
  decommission_backend: ({ objectId: _, ...request }) => request,
  backup: ({ to }) => ({ to: redactedTarget(to) }),
  restore: restoreShown,
  server_backup: ({ name, to }) => ({ name, to: redactedTarget(to) }),
  alter_table: whole,
  rename_database: whole,
  undrop_table: whole,
  undrop_database: whole,
  scheduled_request: whole,
};

/** The request as a task may show it. Types of earlier releases that are unknown now are shown unchanged. */
export function redactedRequest<T extends TaskType>({ type, request }: Pick<TaskRecord<T>, 'type' | 'request'>) {
  return Object.hasOwn(shownOf, type) ? shownOf[type](request) : request;
}

function queryShown(request: QueryRequest): object {
  const {
    into,
    profile: _profile,
    only: _only,
    step: _step,
    streamed: _streamed,
    asked,
    parameters,
    ...query
  } = request;
  return asked ? { ...asked, parameters } : { ...query, parameters, ...(into ? formatShown(into.format) : {}) };
}

function exportShown(request: ExportRequest): object {
  const { asked, sql, parameters, catalog, database, warehouse, format, numbers, fileBytesMax, to } = request;
  return {
    ...(asked ?? { sql, parameters, catalog, database, warehouse }),
    ...formatShown(format),
    ...(format.kind === 'ndjson' ? { numbers } : {}),
    fileBytesMax,
    to: redactedTarget(to),
  };
}

function formatShown(format: ExportFormat): object {
  switch (format.kind) {
    case 'csv': {
      const { kind, compression, ...csv } = format;
      return { format: kind, compression, csv };
    }
    case 'arrow':
      return { format: format.kind, arrowLayout: format.layout, compression: format.compression };
    default:
      return { format: format.kind, compression: format.compression };
  }
}

export function redactedTarget(target: ExportTarget | TargetRequest): object {
  switch (target.kind) {
    case 'download':
      return { download: true };
    case 'directory':
      return { path: target.path };
    case 's3': {
      const { kind: _, ...s3 } = target;
      return { s3 };
    }
  }
}

/** The query of a URL often contains credentials: a signature or a token. */
function sourceShown({ url, ...source }: LoadSource): LoadSource {
  return url === undefined ? source : { ...source, url: url.replace(/[?#].*$/s, '?…') };
}

function newTableShown({
  path: _p,
  databaseId: _d,
  repeatOf: _r,
  definition,
  table,
  source,
  ...asked
}: NewTableRequest) {
  // If the table is only inferred, it need not have a name.
  return { ...asked, source: sourceShown(source), ...(table === '' ? {} : { table }), ...definition };
}

function filledShown({ fill }: FillRequest): object {
  const { parameters } = fill;
  const { asSelect, ...asked }: { readonly asSelect?: object } = fill.asked ?? {};
  return { ...asked, ...(asSelect ? { asSelect: { ...asSelect, parameters } } : {}) };
}

function restoreShown({ category, name, from, backupId, database, warehouse }: RestoreRequest): object {
  return { name, from: redactedTarget(from), backupId, database, ...(category === 'catalogs' ? { warehouse } : {}) };
}
