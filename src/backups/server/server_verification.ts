// Verifies the backups of whole servers in a target: the manifest by its digest, each piece by its size and digest. Also removes the
// folders of interrupted backups.
import { Failure } from '../../standard/failure.ts';
import { type BackupTarget, backupNotFound } from '../targets/backup_target.ts';
import { contentFault, type Fault, sweepAgeMs } from '../verification.ts';
import {
  listServerBackups,
  loadServerManifest,
  piecePath,
  piecesOf,
  type ServerManifest,
  serverFolder,
} from './server_manifest.ts';

export interface ServerVerdict {
  /** The backups whose manifest is unaltered. */
  readonly backups: readonly { readonly manifest: ServerManifest; readonly isWhole: boolean }[];
  readonly faults: readonly Fault[];
}

/** `backupId`: verify this backup only. */
export async function verifyServerBackups(target: BackupTarget, backupId?: string): Promise<ServerVerdict> {
  const { whole } = await listServerBackups(target);
  if (backupId !== undefined && !whole.includes(backupId)) throw backupNotFound(backupId);
  const faults: Fault[] = [];
  const backups: { manifest: ServerManifest; isWhole: boolean }[] = [];
  for (const id of backupId === undefined ? whole : [backupId]) {
    try {
      const manifest = await loadServerManifest(target, id);
      const found = await faultsOf(target, manifest);
      faults.push(...found);
      backups.push({ manifest, isWhole: found.length === 0 });
    } catch (error) {
      if (!(error instanceof Failure && error.code === 'DATA_INVALID')) throw error;
      faults.push({ backupId: id, fault: error.message });
    }
  }
  return { backups, faults };
}

async function faultsOf(target: BackupTarget, manifest: ServerManifest): Promise<Fault[]> {
  const { backupId } = manifest;
  const sizes = new Map<string, number>();
  for await (const { path, bytes } of target.list(serverFolder(backupId))) sizes.set(path, bytes);
  const faults: Fault[] = [];
  for (const [sha256, bytes] of piecesOf(manifest)) {
    const path = piecePath(backupId, sha256);
    const fault = await contentFault(target, { path, bytes, sha256 }, sizes.get(path));
    if (fault !== undefined) faults.push({ backupId, file: path, fault });
  }
  return faults;
}

/** Removes folders that have no manifest and no recent file. @returns the number of files, and their bytes. */
export async function sweepServerBackups(target: BackupTarget, now: number): Promise<{ files: number; bytes: number }> {
  const { unfinished } = await listServerBackups(target);
  let [files, bytes] = [0, 0];
  for (const id of unfinished) {
    const found = await Array.fromAsync(target.list(serverFolder(id)));
    if (found.some(({ modifiedAtMs }) => now - modifiedAtMs < sweepAgeMs)) continue;
    await target.clear(serverFolder(id));
    files += found.length;
    bytes += found.reduce((sum, file) => sum + file.bytes, 0);
  }
  return { files, bytes };
}
