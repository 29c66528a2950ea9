// Fetches the files of one catalog from a backup of the whole server.
import { mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { schemaVersion } from '../../store/migrations/migrate.ts';
import { integrityFaultsOfCopy } from '../../store/sqlite/store_copy.ts';
import { unusableBackup } from '../manifest.ts';
import type { BackupTarget } from '../targets/backup_target.ts';
import { type ServerManifest, storePath } from './server_manifest.ts';
import { fetchFile, findFile } from './server_restore.ts';

const filesOf = ({ files }: ServerManifest, catalogId: string) =>
  files.filter(({ path }) => path.startsWith(`catalogs/${catalogId}.`));

/** Why the catalog cannot be restored from a backup; undefined if its manifest shows no reason. */
export function incompatibility(manifest: ServerManifest): string | undefined {
  const { storeVersion, release } = manifest;
  return storeVersion > schemaVersion
    ? `release ${release} made it, with a newer metadata store (version ${storeVersion}) than this release knows (${schemaVersion})`
    : undefined;
}

export const hasCatalog = (manifest: ServerManifest, catalogId: string): boolean =>
  filesOf(manifest, catalogId).length > 0;

/**
 * Fetches the files of the catalog and the metadata store into a directory with the layout of a data directory, and compares their
 * digests. @returns the path of the store. Throws DATA_INVALID if a file is damaged or missing.
 */
export async function fetchCatalog(
  target: BackupTarget,
  manifest: ServerManifest,
  catalogId: string,
  directory: string,
  signal: AbortSignal,
): Promise<string> {
  for (const file of [...filesOf(manifest, catalogId), findFile(manifest, storePath)]) {
    const path = join(directory, file.path);
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    await fetchFile(target, manifest, file, path, signal);
  }
  const store = join(directory, storePath);
  const [fault] = integrityFaultsOfCopy(store);
  if (fault !== undefined) throw unusableBackup(`its metadata store is damaged: ${fault}`);
  return store;
}
