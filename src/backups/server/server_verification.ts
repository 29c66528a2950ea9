// Verifies the backups of whole servers in a target: the manifest by its digest, each piece by its size and digest. Also removes the
// folders of interrupted backups.
import { createHash } from 'node:crypto';
import { Failure } from '../../standard/failure.ts';
import { type BackupTarget, backupNotFound } from '../targets/backup_target.ts';
import { type Fault, sweepAgeMs } from '../verification.ts';
import {
  listServerBackups,
  loadServerManifest,
  piecePath,
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

async function faultsOf(target: BackupTarget, { backupId, files }: ServerManifest): Promise<Fault[]> {
  const sizes = new Map<string, number>();
  for await (const { path, bytes } of target.list(serverFolder(backupId))) sizes.set(path, bytes);
  const pieces = new Map(files.flatMap((file) => file.pieces.map((piece) => [piece.sha256, piece.bytes] as const)));
  const faults: Fault[] = [];
  for (const [sha256, bytes] of pieces) {
    const file = piecePath(backupId, sha256);
    const size = sizes.get(file);
    const fault =
      size === undefined
        ? 'it is missing'
        : size !== bytes
          ? `it has ${size} bytes instead of ${bytes}`
          : await digestFault(target, file, sha256);
    if (fault !== undefined) faults.push({ backupId, file, fault });
  }
  return faults;
}

async function digestFault(target: BackupTarget, file: string, sha256: string): Promise<string | undefined> {
  const hash = createHash('sha256');
  for await (const chunk of await target.read(file)) hash.update(chunk as Buffer);
  return hash.digest('hex') === sha256 ? undefined : 'it was changed after it was written';
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
