// One catalog in backups of the whole server: the places where such backups were made, and the files of the catalog fetched from one of
// them. What is done with the files is up to the caller.
import { mkdir, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { HostAllowlist } from '../outbound/host_allowlist.ts';
import { openObjectStore } from '../outbound/object_store.ts';
import { Failure } from '../standard/failure.ts';
import { schemaVersion } from '../store/migrations/migrate.ts';
import type { Store } from '../store/store.ts';
import { integrityFaultsOfCopy } from '../store/store_copy.ts';
import { broken } from './manifest.ts';
import { type ServerBackupSpec, serverBackupsCategory } from './server/server_backups.ts';
import { type ServerManifest, storePath } from './server/server_manifest.ts';
import { fetchFile, fileOf } from './server/server_restore.ts';
import type { BackupTarget } from './targets/backup_target.ts';
import type { TargetRequest } from './targets/backup_targets.ts';
import { DirectoryTarget } from './targets/directory_target.ts';
import { ObjectStoreTarget } from './targets/object_store_target.ts';
import type { TargetSecrets } from './targets/target_secrets.ts';

/** A place that a backup of the server was made to. */
export interface RecordedPlace {
  readonly to: TargetRequest;
  /** Of one of the backups in it. */
  readonly backupId: string;
}

/** Each place once, with its newest backup. */
export async function recordedPlaces({ db }: Store): Promise<RecordedPlace[]> {
  const rows = await db.selectFrom('objects').select('spec').where('category', '=', serverBackupsCategory).execute();
  const ready = rows.map(({ spec }) => JSON.parse(spec) as ServerBackupSpec).filter(({ status }) => status === 'ready');
  const newest = new Map<string, RecordedPlace>();
  for (const { to, backupId } of ready.sort((a, b) => (a.backupId < b.backupId ? -1 : 1)))
    newest.set(JSON.stringify(to), { to, backupId });
  return [...newest.values()];
}

/** Opens a recorded place for an operator, whose machine it is: in any directory, on any host. To be closed. Throws a Failure. */
export async function openRecorded({ to, backupId }: RecordedPlace, notes: TargetSecrets): Promise<BackupTarget> {
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

/** Why a backup cannot have the catalog restored from it; undefined: as far as its manifest shows, it can. */
export function manifestFault(manifest: ServerManifest): string | undefined {
  const { storeVersion, release } = manifest;
  return storeVersion > schemaVersion
    ? `release ${release} made it, with a newer metadata store (version ${storeVersion}) than this release knows (${schemaVersion})`
    : undefined;
}

export const hasCatalog = (manifest: ServerManifest, catalogId: string): boolean =>
  filesOf(manifest, catalogId).length > 0;

/**
 * Fetches the files of the catalog, and the metadata store, into a directory laid out as a data directory, each with its digest
 * compared. @returns the path of the store. Throws DATA_INVALID where one is damaged or missing.
 */
export async function fetchCatalog(
  place: BackupTarget,
  manifest: ServerManifest,
  catalogId: string,
  directory: string,
  signal: AbortSignal,
): Promise<string> {
  for (const file of [...filesOf(manifest, catalogId), fileOf(manifest, storePath)]) {
    const path = join(directory, file.path);
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    await fetchFile(place, manifest, file, path, signal);
  }
  const store = join(directory, storePath);
  const [fault] = integrityFaultsOfCopy(store);
  if (fault !== undefined) throw broken(`its metadata store is damaged: ${fault}`);
  return store;
}
