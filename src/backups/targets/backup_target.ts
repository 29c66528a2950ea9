// The port of backup targets: files under one root, each written completely or not at all. Implemented by directory_target.ts and
// object_store_target.ts. See backup_targets.ts for which targets are allowed.
import type { Readable } from 'node:stream';
import { Failure, objectNotFound } from '../../standard/failure.ts';
import {
  backupIdOfFile,
  manifestBytesMax,
  manifestName,
  manifestPath,
  type ReadManifest,
  readManifest,
  unusableBackup,
} from '../manifest.ts';
import { readLargeManifest } from '../manifest_reader.ts';

export interface TargetFile {
  /** `backups/<id>/<name>` */
  readonly path: string;
  readonly bytes: number;
  readonly modifiedAtMs: number;
}

/** How many of the latest backups in a target are searched for one of an object. */
export const manifestsReadMax = 100;

/** Every method throws a Failure, or a transient error. Others may write to the target too. */
export interface BackupTarget {
  /** All files below a prefix. */
  list(prefix: string, signal?: AbortSignal): AsyncIterable<TargetFile>;
  read(path: string, signal?: AbortSignal): Promise<Readable>;
  readSmall(path: string, bytesMax: number, signal?: AbortSignal): Promise<Buffer>;
  /** The last `bytes` bytes of a file of that size. */
  readEnd(path: string, size: number, bytes: number, signal?: AbortSignal): Promise<Buffer>;
  /** Writes or replaces a file. `from`: a local file. */
  write(path: string, from: string, signal?: AbortSignal): Promise<void>;
  writeSmall(path: string, text: string, signal?: AbortSignal): Promise<void>;
  remove(path: string): Promise<void>;
  /** Removes everything below a prefix, including unfinished files. `except`: a file that is not removed, even if it appears meanwhile. */
  clear(prefix: string, except?: string): Promise<void>;
  close(): void;
}

/** The files of a target, by path. */
export async function listFiles(target: BackupTarget, signal?: AbortSignal): Promise<Map<string, TargetFile>> {
  const files = new Map<string, TargetFile>();
  for await (const file of target.list('backups/', signal))
    if (backupIdOfFile(file.path) !== undefined) files.set(file.path, file);
  return files;
}

/** Ids of the backups that have a manifest, newest first: ids are ordered by time. */
export function listBackupIds(files: ReadonlyMap<string, TargetFile>): string[] {
  const ids = [...files.keys()].filter((path) => path.endsWith(`/${manifestName}`)).map(backupIdOfFile);
  return [...new Set(ids.filter((id) => id !== undefined))].sort().reverse();
}

/** Throws DATA_INVALID. */
export async function loadManifest(
  target: BackupTarget,
  backupId: string,
  signal?: AbortSignal,
): Promise<ReadManifest> {
  const bytes = await readManifestFile(target, manifestPath(backupId), signal);
  return readLargeManifest(readManifest, { of: 'catalog', bytes, backupId }, signal);
}

/** Throws DATA_INVALID if it is too large: only its own backup cannot be used. */
export async function readManifestFile(target: BackupTarget, path: string, signal?: AbortSignal): Promise<Buffer> {
  try {
    return await target.readSmall(path, manifestBytesMax, signal);
  } catch (error) {
    if (!(error instanceof Failure && error.result.bytesMax === manifestBytesMax)) throw error;
    throw unusableBackup(`its manifest is larger than ${manifestBytesMax / 1024 ** 2} MiB`);
  }
}

export const backupNotFound = (backupId?: string, message = 'the backup does not exist in this target'): Failure =>
  objectNotFound('backups', backupId ?? 'newest', message);
