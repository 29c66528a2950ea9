// The command `restore server`: makes the data directory of a server from a backup of the whole server. How it is done is
// backups/server/server_restore.ts.
import { join } from 'node:path';
import { type ServerManifest, storePath } from '../backups/server/server_manifest.ts';
import { isEmptyDirectory, restoreServer } from '../backups/server/server_restore.ts';
import { type Settings, SettingsError } from '../settings/read_settings.ts';
import { Failure } from '../standard/failure.ts';
import { catalogsInCopy } from '../store/store_copy.ts';
import { placeOf } from './backup_place.ts';
import { catalogCount, notInBackup } from './backup_server.ts';
import type { CatalogChecks } from './check/catalog_checks.ts';
import type { Command } from './command.ts';

export function restoreServerCommand({ checkCatalog }: Pick<CatalogChecks, 'checkCatalog'>): Command {
  return {
    name: 'restore server',
    argument: 'place',
    doc: 'Makes a server of a backup of one, in a directory or in `s3://bucket/prefix` with the credentials of AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN: fills the data directory, which must be new or empty, checks the digest of every file, and reads every catalog. TABULARIUM_BACKUP_PASSPHRASE decrypts the keys.',
    run: async (settings, say, where) => {
      const { dataDir } = settings;
      if (!(await isEmptyDirectory(dataDir)))
        throw new SettingsError(`${dataDir} is not empty: name a new or an empty directory with --data-dir`);
      try {
        const manifest = await restored(where ?? '', settings);
        const faults = await catalogFaults(manifest, dataDir, checkCatalog);
        for (const line of [...faults, ...outcome(manifest, dataDir)]) say(line);
        if (faults.length > 0) process.exitCode = 1;
      } catch (error) {
        if (!(error instanceof Failure)) throw error;
        say(`FAULT: ${error.message}`);
        if (!(await isEmptyDirectory(dataDir))) say(`Nothing can be used of what is in ${dataDir}: empty it.`);
        process.exitCode = 1;
      }
    },
  };
}

async function restored(where: string, settings: Settings): Promise<ServerManifest> {
  const { dataDir: dataDirectory, backupId, backupPassphrase: passphrase } = settings;
  const place = await placeOf(where, settings);
  try {
    const { signal } = new AbortController();
    return await restoreServer(place, { backupId: backupId || undefined, dataDirectory, passphrase, signal });
  } finally {
    place.close();
  }
}

/** The copies are as they were made; whether an engine can read them, only reading them tells. */
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
    `restored ${backupId} of ${takenAt} to ${dataDir}: ${catalogCount(catalogs.length)}, every file as it was written`,
    ...notInBackup(manifest),
    `Start the server with --data-dir=${dataDir}. Stop the one that it replaces first: both would run its schedules and tasks.`,
  ];
}
