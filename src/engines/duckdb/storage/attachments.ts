// Attaches the catalogs of a warehouse one by one, and reports each to the server: a failure does not keep the others from being
// attached.
import type { DuckDBConnection } from '@duckdb/node-api';
import { type AttachReport, type AttachRequest, DamagedFile } from '../../port/catalog_storage.ts';
import type { CatalogRef } from '../../port/refs.ts';
import { FatalEngineError, failureOf } from '../instance/sql_errors.ts';
import { attachWithRetry, createCatalog } from './catalog_files.ts';

/** `attaching` is sent before the file is opened: if the process crashes on it, the server knows which file it was. */
export type AttachMessage = { readonly kind: 'attaching'; readonly catalog: CatalogRef | undefined } | AttachReport;

/**
 * @returns the attached catalogs. Throws errors that do not concern a file: a lock, a full disk, FatalEngineError if a file made
 * the whole instance unusable.
 */
export async function attachEach(
  connection: DuckDBConnection,
  dataDirectory: string,
  catalogs: readonly AttachRequest[],
  report: (message: AttachMessage) => void,
): Promise<CatalogRef[]> {
  const attached: CatalogRef[] = [];
  for (const request of catalogs) {
    const catalog = { id: request.id, name: request.name };
    report({ kind: 'attaching', catalog });
    try {
      const open = request.isNew ? createCatalog : attachWithRetry;
      const identity = await open(connection, dataDirectory, request);
      report({ kind: 'attached', catalog, identity });
      attached.push(catalog);
    } catch (error) {
      const failure = failureOf(error, { sql: '', linesAbove: 0 });
      if (!(error instanceof DamagedFile)) {
        // The file did not cause this error.
        if (!(failure instanceof FatalEngineError)) report({ kind: 'attaching', catalog: undefined });
        throw failure;
      }
      report({ kind: 'refused', catalog, reason: error.message });
    }
  }
  return attached;
}
