// Restores a server from a backup, without a running server: every piece is fetched and compared with its digest. The metadata store is
// put in place last, so that a directory of an interrupted restore is not mistaken for a server.

import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { rootTokenFileName } from '../../access/authentication/root_token.ts';
import { secretKeyFileName } from '../../access/secrets/secrets.ts';
import { createDataDirectory } from '../../store/data_directory.ts';
import { schemaVersion } from '../../store/migrations/migrate.ts';
import { deleteFilesInCopy, integrityFaultsOfCopy } from '../../store/sqlite/store_copy.ts';
import { syncPath } from '../../store/sync_path.ts';
import { type Manifest, unusableBackup } from '../manifest.ts';
import { describeBackup, otherBackups } from '../other_backups.ts';
import { type BackupTarget, backupNotFound, listBackupIds, listFiles, loadManifest } from '../targets/backup_target.ts';
import { downloadPart } from '../targets/download_part.ts';
import { readKeys } from './server_keys.ts';
import {
  type CopiedFile,
  keysPath,
  listServerBackups,
  loadServerManifest,
  piecePath,
  type ServerManifest,
  storePath,
} from './server_manifest.ts';

/** Timeout for one piece. */
const fetchMsMax = 3_600_000;
const unfinished = '.restoring';

export interface ServerRestore {
  /** Absent: the newest backup. */
  readonly backupId: string | undefined;
  /** Empty or nonexistent. */
  readonly dataDirectory: string;
  readonly passphrase: string;
  readonly signal: AbortSignal;
}

/** Throws OBJECT_NOT_FOUND, DATA_INVALID or PassphraseError before anything is written, and DATA_INVALID if a piece is damaged. */
export async function restoreServer(target: BackupTarget, restore: ServerRestore): Promise<ServerManifest> {
  const { dataDirectory, passphrase, signal } = restore;
  const manifest = await chooseManifest(target, restore);
  if (manifest.storeVersion > schemaVersion)
    throw unusableBackup(
      `it was made by release ${manifest.release}, whose metadata store (version ${manifest.storeVersion}) is newer than that of this release (version ${schemaVersion}); restore it with that release or a later one`,
    );
  await createDataDirectory(dataDirectory);
  const keysFile = join(dataDirectory, keysPath);
  try {
    await fetchFile(target, manifest, findFile(manifest, keysPath), keysFile, signal);
    const keys = await readKeys(await readFile(keysFile, 'utf8'), passphrase);
    await writeKey(join(dataDirectory, rootTokenFileName), keys.rootToken);
    if (keys.secretKey !== undefined) await writeKey(join(dataDirectory, secretKeyFileName), keys.secretKey);
  } finally {
    await rm(keysFile, { force: true });
  }
  for (const file of manifest.files) {
    if (file.path === keysPath || file.path === storePath) continue;
    const path = join(dataDirectory, file.path);
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    await fetchFile(target, manifest, file, path, signal);
    await syncPath(dirname(path));
  }
  const store = join(dataDirectory, storePath);
  await fetchFile(target, manifest, findFile(manifest, storePath), store + unfinished, signal);
  const [fault] = integrityFaultsOfCopy(store + unfinished);
  if (fault !== undefined) throw unusableBackup(`its metadata store is damaged: ${fault}`);
  deleteFilesInCopy(store + unfinished);
  await syncPath(store + unfinished);
  await rename(store + unfinished, store);
  await syncPath(dataDirectory);
  return manifest;
}

/** Whether a directory is empty; a nonexistent one is. */
export async function isEmptyDirectory(directory: string): Promise<boolean> {
  try {
    return (await readdir(directory)).length === 0;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return true;
    throw error;
  }
}

async function chooseManifest(target: BackupTarget, { backupId, signal }: ServerRestore): Promise<ServerManifest> {
  const { whole: complete } = await listServerBackups(target, signal);
  const id = backupId ?? complete[0];
  if (id === undefined || !complete.includes(id))
    throw backupNotFound(backupId, await reasonOf(target, complete, signal));
  return loadServerManifest(target, id, signal);
}

/** How many backups of other kinds are read for a message. */
const othersMax = 5;

/** Of a target without the backup of a server that is to be restored. */
async function reasonOf(target: BackupTarget, complete: readonly string[], signal: AbortSignal): Promise<string> {
  const absent = 'the backup does not exist in this target';
  if (complete.length > 0) return `${absent}: its newest backup of a server is ${complete[0]}`;
  const others: Manifest[] = [];
  for (const id of listBackupIds(await listFiles(target, signal)).slice(0, othersMax))
    others.push(
      ...(await loadManifest(target, id, signal).then(
        ({ manifest }) => [manifest],
        () => [],
      )),
    );
  if (others.length === 0) return absent;
  return `there is no backup of a server in this target: ${otherBackups(new Set(others.map(describeBackup)))}; a running server restores them (docs/backup.md)`;
}

export const findFile = ({ files }: ServerManifest, path: string) =>
  files.find((file) => file.path === path) as CopiedFile;

/** The file is synced to disk when this resolves. */
export async function fetchFile(
  target: BackupTarget,
  { backupId }: ServerManifest,
  { pieces }: CopiedFile,
  to: string,
  signal: AbortSignal,
): Promise<void> {
  await writeFile(to, '', { mode: 0o600 });
  for (const { sha256, bytes } of pieces) {
    const piece = { path: piecePath(backupId, sha256), sha256, bytes };
    await downloadPart(target, piece, to, { signal, ms: fetchMsMax, appends: true });
  }
  await syncPath(to);
}

async function writeKey(path: string, text: string): Promise<void> {
  await writeFile(path, `${text}\n`, { mode: 0o600, flag: 'wx', flush: true });
}
