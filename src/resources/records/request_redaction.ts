// The `request` in the record of a task: the body that the caller sent, with defaults. Internal data of the task, such as ids of
// objects or a statement that was assembled from the body, is not shown.
import { type BackupRequest, backupTask } from '../../backups/backups.ts';
import { type RestoreRequest, restoreTask } from '../../backups/restores.ts';
import { type ServerBackupRequest, serverBackupTask } from '../../backups/server/server_backups.ts';
import type { TargetRequest } from '../../backups/targets/backup_targets.ts';
import type { ExportFormat } from '../../engines/export.ts';
import { checkCatalogTask } from '../../jobs/check_catalog.ts';
import { createFilledTableTask, type FillRequest } from '../../jobs/create_filled_table.ts';
import { loadDatabaseTask } from '../../jobs/load_database.ts';
import { optimizeTableTask } from '../../jobs/optimize_table.ts';
import type { ExportTarget } from '../../query/exports/export_targets.ts';
import { type ExportRequest, exportTask } from '../../query/exports/exports.ts';
import type { LoadSource } from '../../query/loads/load_sources.ts';
import { type LoadRequest, loadTableTask } from '../../query/loads/loads.ts';
import type { NewTableRequest } from '../../query/loads/new_table_loads.ts';
import type { QueryRequest } from '../../query/statements/query_request.ts';
import { profileQueryTask, runQueryTask } from '../../query/statements/query_submission.ts';
import type { TaskRecord } from '../../tasks/task.ts';

/** By task type; for others, the request is shown as it was sent. */
const shownOf: Readonly<Record<string, (request: never) => object>> = {
  [runQueryTask]: queryShown,
  [profileQueryTask]: queryShown,
  [exportTask]: exportShown,
  [loadTableTask]: ({ path: _path, tableId: _tableId, source, ...asked }: LoadRequest) => ({
    ...asked,
    source: sourceShown(source),
  }),
  [loadDatabaseTask]: newTableShown,
  [createFilledTableTask]: filledShown,
  [optimizeTableTask]: () => ({}),
  [checkCatalogTask]: () => ({}),
  [backupTask]: ({ to }: BackupRequest) => ({ to: redactedTarget(to) }),
  [restoreTask]: restoreShown,
  [serverBackupTask]: ({ name, to }: ServerBackupRequest) => ({ name, to: redactedTarget(to) }),
};

export function redactedRequest({ type, request }: Pick<TaskRecord, 'type' | 'request'>): unknown {
  const shown = Object.hasOwn(shownOf, type) ? shownOf[type] : undefined;
  return shown ? shown(request as never) : request;
}

function queryShown(request: QueryRequest): object {
  const { into: _into, profile: _profile, only: _only, step: _step, asked, parameters, ...query } = request;
  return asked ? { ...asked, parameters } : { ...query, parameters };
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
      return { format: format.kind, arrowLayout: format.layout };
    default:
      return { format: format.kind, compression: format.compression };
  }
}

export function redactedTarget(place: ExportTarget | TargetRequest): object {
  switch (place.kind) {
    case 'download':
      return { download: true };
    case 'directory':
      return { path: place.path };
    case 's3': {
      const { kind: _, ...s3 } = place;
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
