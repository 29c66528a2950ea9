// Attaches the catalogs of a warehouse one by one, and reports each to the server: one that cannot be attached takes no other with it.
import type { DuckDBConnection } from '@duckdb/node-api';
import { type AttachReport, type AttachRequest, DamagedFile } from '../../catalog_storage.ts';
import type { CatalogRef } from '../../engine.ts';
import { FatalEngineError, failureOf } from '../instance/sql_errors.ts';
import { attachWithRetry, createCatalog } from './catalog_files.ts';

/** `attaching` is sent before the file is opened: where the process dies of it, the server knows which file it was. */
export type AttachMessage = { readonly kind: 'attaching'; readonly catalog: CatalogRef | undefined } | AttachReport;

/**
 * @returns those that are attached. Throws what says nothing of a file: a lock, a full disk,
 * FatalEngineError where one made the whole instance unusable.
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
        // Nothing that the file is to blame for.
        if (!(failure instanceof FatalEngineError)) report({ kind: 'attaching', catalog: undefined });
        throw failure;
      }
      report({ kind: 'refused', catalog, reason: error.message });
    }
  }
  return attached;
}
