// The command `restore server`: creates the data directory of a server from a backup of the whole server. See
// backups/server/server_restore.ts for the restore.
import { join } from 'node:path';
import { type ServerManifest, storePath } from '../backups/server/server_manifest.ts';
import { isEmptyDirectory, restoreServer } from '../backups/server/server_restore.ts';
import { OperatorError } from '../operator/operator_error.ts';
import { type Settings, SettingsError } from '../settings/read_settings.ts';
import { Failure } from '../standard/failure.ts';
import { catalogsInCopy } from '../store/sqlite/store_copy.ts';
import { openBackupTarget } from './backup_location.ts';
import { catalogCount, notInBackup } from './backup_server.ts';
import type { CatalogChecks } from './check/catalog_checks.ts';
import type { Command } from './command.ts';
import { requireSqlite } from './data_directory.ts';

export const restoreServerWith =
  ({ checkCatalog }: Pick<CatalogChecks, 'checkCatalog'>): Command['run'] =>
  async (settings, print, where) => {
    const { dataDir } = settings;
    requireSqlite(settings, 'restore server');
    if (!(await isEmptyDirectory(dataDir)))
      throw new SettingsError(`${dataDir} is not empty: choose a new or empty directory with --data-dir`);
    try {
      const manifest = await restore(where ?? '', settings);
      const faults = await catalogFaults(manifest, dataDir, checkCatalog);
      for (const line of [...faults, ...outcome(manifest, dataDir)]) print(line);
      if (faults.length > 0) process.exitCode = 1;
      const { backupId, takenAt, catalogs, catalogsLeftOut } = manifest;
      return { backupId, takenAt, dataDirectory: dataDir, catalogs: catalogs.length, catalogsLeftOut, faults };
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      if (settings.json) throw new OperatorError(error.message, { cause: error });
      print(`FAULT: ${error.message}`);
      if (!(await isEmptyDirectory(dataDir))) print(`The contents of ${dataDir} are unusable: delete them.`);
      process.exitCode = 1;
      return undefined;
    }
  };

async function restore(where: string, settings: Settings): Promise<ServerManifest> {
  const { dataDir: dataDirectory, backupId, backupPassphrase: passphrase } = settings;
  const target = await openBackupTarget(where, settings);
  try {
    const { signal } = new AbortController();
    return await restoreServer(target, { backupId: backupId || undefined, dataDirectory, passphrase, signal });
  } finally {
    target.close();
  }
}

/** The copies are verified by digest; only reading them shows whether an engine can read them. */
async function catalogFaults(
  { catalogsLeftOut }: ServerManifest,
  dataDirectory: string,
  checkCatalog: CatalogChecks['checkCatalog'],
): Promise<string[]> {
  const absent = new Set(catalogsLeftOut.map(({ name }) => name));
  const lines: string[] = [];
  for (const catalog of catalogsInCopy(join(dataDirectory, storePath))) {
    if (!catalog.isVisible || !catalog.hasFile || absent.has(catalog.name)) continue;
    const { faults } = await checkCatalog(dataDirectory, catalog, undefined, []);
    if (faults.length > 0) lines.push(`FAULT: catalog ${JSON.stringify(catalog.name)}: ${faults.join('; ')}`);
  }
  return lines;
}

function outcome(manifest: ServerManifest, dataDir: string) {
  const { backupId, takenAt, catalogs } = manifest;
  return [
    `restored ${backupId} of ${takenAt} to ${dataDir}: ${catalogCount(catalogs.length)}, all files verified`,
    ...notInBackup(manifest),
    `Start the server with --data-dir=${dataDir}. Stop the server that it replaces first: otherwise both run the same schedules and tasks.`,
  ];
}
