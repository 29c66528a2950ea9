// Restores one catalog's files from backups of the whole server: lists the targets of such backups, and fetches the files of the catalog
// from one of them. The caller decides what to do with the files.
import { mkdir, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { HostAllowlist } from '../outbound/host_allowlist.ts';
import { openObjectStore } from '../outbound/object_store.ts';
import { Failure } from '../standard/failure.ts';
import { schemaVersion } from '../store/migrations/migrate.ts';
import type { Store } from '../store/store.ts';
import { integrityFaultsOfCopy } from '../store/store_copy.ts';
import { unusableBackup } from './manifest.ts';
import { type ServerBackupSpec, serverBackupsCategory } from './server/server_backups.ts';
import { type ServerManifest, storePath } from './server/server_manifest.ts';
import { fetchFile, findFile } from './server/server_restore.ts';
import type { BackupTarget } from './targets/backup_target.ts';
import type { TargetRequest } from './targets/backup_targets.ts';
import { DirectoryTarget } from './targets/directory_target.ts';
import { ObjectStoreTarget } from './targets/object_store_target.ts';
import type { TargetSecrets } from './targets/target_secrets.ts';

/** A target that has a backup of the server. */
export interface RecordedTarget {
  readonly to: TargetRequest;
  /** Id of a backup in the target. */
  readonly backupId: string;
}

/** Each target once, with its newest backup. */
export async function listRecordedTargets({ db }: Store): Promise<RecordedTarget[]> {
  const rows = await db.selectFrom('objects').select('spec').where('category', '=', serverBackupsCategory).execute();
  const ready = rows.map(({ spec }) => JSON.parse(spec) as ServerBackupSpec).filter(({ status }) => status === 'ready');
  const newest = new Map<string, RecordedTarget>();
  for (const { to, backupId } of ready.sort((a, b) => (a.backupId < b.backupId ? -1 : 1)))
    newest.set(JSON.stringify(to), { to, backupId });
  return [...newest.values()];
}

/**
 * Opens a recorded target for the operator of this machine: any directory and any host are allowed. The caller closes it. Throws a
 * Failure.
 */
export async function openRecordedTarget(
  { to, backupId }: RecordedTarget,
  notes: TargetSecrets,
): Promise<BackupTarget> {
  if (to.kind === 'directory') {
    const found = await stat(to.path).catch(() => undefined);
    if (!found?.isDirectory()) throw new Failure('REMOTE_REFUSED', 'there is no such directory');
    return new DirectoryTarget(to.path);
  }
  const note = await notes.get(backupId);
  return new ObjectStoreTarget(
    await openObjectStore(to, note?.credentials, new HostAllowlist([new URL(to.endpoint).host])),
    to.prefix,
  );
}

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
