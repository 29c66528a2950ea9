// Restores one catalog from a backup of the whole server: fetches its files, verifies their digests and reads them.
import { rm } from 'node:fs/promises';
import { fetchCatalog, hasCatalog, incompatibility } from '../../backups/server/server_catalog.ts';
import { loadServerManifest } from '../../backups/server/server_manifest.ts';
import { openSqliteStore } from '../../store/sqlite/sqlite_store.ts';
import type { CatalogName, CatalogsToCheck } from '../check/catalog_checks.ts';
import { type Candidate, type FoundBackup, unusable } from './backup_candidates.ts';
import { checkedBackup } from './checked_backup.ts';

/** Undefined if the backup does not contain the catalog. Throws a Failure if it cannot be used. */
export async function fromServerBackup(
  work: CatalogsToCheck,
  catalog: CatalogName,
  { target, kind, backupId }: Candidate,
  directory: string,
): Promise<FoundBackup | undefined> {
  const manifest = await loadServerManifest(target, backupId);
  const omission = manifest.catalogsLeftOut.find(({ name }) => name === catalog.name);
  if (omission) throw unusable(`the catalog was damaged already when it was made (${omission.reason})`);
  if (!hasCatalog(manifest, catalog.id)) return undefined;
  const fault = incompatibility(manifest);
  if (fault !== undefined) throw unusable(fault);
  try {
    const { signal } = new AbortController();
    const older = await openSqliteStore({ file: await fetchCatalog(target, manifest, catalog.id, directory, signal) });
    const { takenAt } = manifest;
    return await checkedBackup(work, catalog, { kind, backupId, takenAt, directory, older, omitted: [] });
  } catch (error) {
    await rm(directory, { recursive: true, force: true });
    throw error;
  }
}
