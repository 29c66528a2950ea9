// Restores a backup of a single catalog, which consists of Parquet files: a server on a scratch directory restores it with an
// ordinary request, and its objects get the ids that they had, so that grants, owners and the audit trail still refer to them.
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Manifest } from '../../backups/manifest.ts';
import { loadManifest } from '../../backups/targets/backup_target.ts';
import { createClient, TabulariumError, type TaskResultOf } from '../../client/index.ts';
import type { Settings } from '../../settings/read_settings.ts';
import { adoptObjects, type RebuiltObject } from '../../store/sqlite/rebuilt_catalog.ts';
import { openSqliteStore, storeFileName } from '../../store/sqlite/sqlite_store.ts';
import type { Store } from '../../store/store.ts';
import type { BackupLocation } from '../backup_location.ts';
import type { CatalogName, CatalogsToCheck } from '../check/catalog_checks.ts';
import { type Candidate, type FoundBackup, unusable } from './backup_candidates.ts';
import { checkedBackup } from './checked_backup.ts';

/** Undefined if the backup is of something else. Throws a Failure if it cannot be used. */
export async function fromParquetBackup(
  work: CatalogsToCheck,
  catalog: CatalogName,
  { target, named, kind, backupId }: Candidate,
  directory: string,
): Promise<FoundBackup | undefined> {
  const { manifest } = await loadManifest(target, backupId);
  if (manifest.of.id !== catalog.id || manifest.of.category !== 'catalogs') return undefined;
  const { takenAt } = manifest;
  try {
    await mkdir(join(directory, 'catalogs'), { recursive: true, mode: 0o700 });
    const scratch = join(directory, 'scratch');
    const { viewsLeft = [] } = await restoredIn(scratch, work, manifest, named);
    const older = await openSqliteStore({ file: join(scratch, storeFileName) });
    await adopt(older, work, catalog, manifest, { scratch, directory });
    const omissions = viewsLeft.map((view) => `view ${JSON.stringify(view)}: it is not valid in the catalog alone`);
    return await checkedBackup(work, catalog, { kind, backupId, takenAt, directory, older, omitted: omissions });
  } catch (error) {
    await rm(directory, { recursive: true, force: true });
    throw error;
  }
}

/** Afterwards the scratch directory contains the data of a stopped server. */
async function restoredIn(
  scratch: string,
  { settings, checks }: CatalogsToCheck,
  { backupId, of }: Manifest,
  from: BackupLocation,
): Promise<TaskResultOf<'restore'>> {
  const server = await checks.startScratchServer(scratchSettings(settings, scratch, from));
  try {
    return await createClient(server).catalogs.restore({ name: of.name, from, backupId }).done();
  } catch (error) {
    if (error instanceof TabulariumError) throw unusable(error.message);
    throw error;
  } finally {
    await server.close();
  }
}

/** Only this process calls the server, whose data directory is deleted after use. The other settings are those of the repaired server. */
function scratchSettings(settings: Settings, dataDir: string, from: BackupLocation): Settings {
  return {
    ...settings,
    dataDir,
    host: '127.0.0.1',
    port: 0,
    tlsCertFile: '',
    tlsKeyFile: '',
    secretKey: '',
    secretKeyFile: '',
    secretKeyNew: '',
    logLevel: 'error',
    loadDirectories: '',
    ...('path' in from ? { backupDirectories: from.path } : { loadHosts: new URL(from.s3.endpoint).host }),
  };
}

/** Moves the file to its expected path; closes the store if that fails. */
async function adopt(
  older: Store,
  { store, checks }: CatalogsToCheck,
  { id }: CatalogName,
  { of, takenAt, databases }: Manifest,
  { scratch, directory }: { readonly scratch: string; readonly directory: string },
): Promise<void> {
  try {
    const objects: RebuiltObject[] = [{ id, path: [of.name] }];
    for (const { id: databaseId, name: database, tables, views } of databases) {
      objects.push({ id: databaseId, path: [of.name, database] });
      for (const { id: objectId, name } of [...tables, ...views])
        objects.push({ id: objectId, path: [of.name, database, name] });
    }
    const rebuiltId = await adoptObjects(older, store, objects, Date.parse(takenAt));
    await checks.moveFiles({ dataDirectory: scratch, id: rebuiltId }, { dataDirectory: directory, id });
  } catch (error) {
    await older.close();
    throw error;
  }
}
