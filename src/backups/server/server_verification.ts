// Whether the backups of whole servers in a place are whole: the manifest by its digest, each piece by its size and digest. And the
// folders of backups that were broken off, taken away where it is wanted.
import { createHash } from 'node:crypto';
import { Failure } from '../../standard/failure.ts';
import { type BackupTarget, noBackup } from '../targets/backup_target.ts';
import { type Fault, sweptAfterMs } from '../verification.ts';
import { piecePath, type ServerManifest, serverBackupsAt, serverFolder, serverManifestAt } from './server_manifest.ts';

export interface ServerVerdict {
  /** Those with a manifest that is as it was written. */
  readonly backups: readonly { readonly manifest: ServerManifest; readonly isWhole: boolean }[];
  readonly faults: readonly Fault[];
}

/** `backupId`: that one alone. */
export async function verifyServerBackups(place: BackupTarget, backupId?: string): Promise<ServerVerdict> {
  const { whole } = await serverBackupsAt(place);
  if (backupId !== undefined && !whole.includes(backupId)) throw noBackup(backupId);
  const faults: Fault[] = [];
  const backups: { manifest: ServerManifest; isWhole: boolean }[] = [];
  for (const id of backupId === undefined ? whole : [backupId]) {
    try {
      const manifest = await serverManifestAt(place, id);
      const found = await faultsOf(place, manifest);
      faults.push(...found);
      backups.push({ manifest, isWhole: found.length === 0 });
    } catch (error) {
      if (!(error instanceof Failure && error.code === 'DATA_INVALID')) throw error;
      faults.push({ backupId: id, fault: error.message });
    }
  }
  return { backups, faults };
}

async function faultsOf(place: BackupTarget, { backupId, files }: ServerManifest): Promise<Fault[]> {
  const sizes = new Map<string, number>();
  for await (const { path, bytes } of place.list(serverFolder(backupId))) sizes.set(path, bytes);
  const pieces = new Map(files.flatMap((file) => file.pieces.map((piece) => [piece.sha256, piece.bytes] as const)));
  const faults: Fault[] = [];
  for (const [sha256, bytes] of pieces) {
    const file = piecePath(backupId, sha256);
    const size = sizes.get(file);
    const fault =
      size === undefined
        ? 'it is not there'
        : size !== bytes
          ? `it has ${size} bytes, and had ${bytes}`
          : await changed(place, file, sha256);
    if (fault !== undefined) faults.push({ backupId, file, fault });
  }
  return faults;
}

async function changed(place: BackupTarget, file: string, sha256: string): Promise<string | undefined> {
  const hash = createHash('sha256');
  for await (const chunk of await place.read(file)) hash.update(chunk as Buffer);
  return hash.digest('hex') === sha256 ? undefined : 'it is not as it was written';
}

/** Takes away the folders without a manifest in which nothing is young. @returns how many files, and their bytes. */
export async function sweepServerBackups(place: BackupTarget, now: number): Promise<{ files: number; bytes: number }> {
  const { unfinished } = await serverBackupsAt(place);
  let [files, bytes] = [0, 0];
  for (const id of unfinished) {
    const found = await Array.fromAsync(place.list(serverFolder(id)));
    if (found.some(({ modifiedAtMs }) => now - modifiedAtMs < sweptAfterMs)) continue;
    await place.clear(serverFolder(id));
    files += found.length;
    bytes += found.reduce((sum, file) => sum + file.bytes, 0);
  }
  return { files, bytes };
}
