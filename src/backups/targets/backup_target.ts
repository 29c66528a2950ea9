// Where backups are stored: files under one root, all or nothing each. The two kinds are directory_target.ts and
// object_store_target.ts; which may be used is backup_targets.ts.
import type { Readable } from 'node:stream';
import { Failure } from '../../standard/failure.ts';
import {
  folderIdOf,
  manifestBytesMax,
  manifestName,
  manifestPath,
  type ReadManifest,
  readManifest,
} from '../manifest.ts';

export interface TargetFile {
  /** `backups/<id>/<name>` */
  readonly path: string;
  readonly bytes: number;
  readonly modifiedAtMs: number;
}

/** Every method throws a Failure, or what may pass by itself. What is there is somebody else's to write too. */
export interface BackupTarget {
  /** All files below a prefix. */
  list(prefix: string, signal?: AbortSignal): AsyncIterable<TargetFile>;
  read(path: string, signal?: AbortSignal): Promise<Readable>;
  readSmall(path: string, bytesMax: number, signal?: AbortSignal): Promise<Buffer>;
  /** The last bytes of a file of that size. */
  readEnd(path: string, size: number, bytes: number, signal?: AbortSignal): Promise<Buffer>;
  /** In the place of what has the name. `from`: a file of this machine. */
  write(path: string, from: string, signal?: AbortSignal): Promise<void>;
  writeSmall(path: string, text: string, signal?: AbortSignal): Promise<void>;
  remove(path: string): Promise<void>;
  /** Takes away all below a prefix, and what was on its way there. */
  clear(prefix: string): Promise<void>;
  close(): void;
}

/** What a place holds, by path. */
export async function filesAt(place: BackupTarget, signal?: AbortSignal): Promise<Map<string, TargetFile>> {
  const files = new Map<string, TargetFile>();
  for await (const file of place.list('backups/', signal))
    if (folderIdOf(file.path) !== undefined) files.set(file.path, file);
  return files;
}

/** Those that have a manifest, the newest first: ids are by time. */
export function backupsAmong(files: ReadonlyMap<string, TargetFile>): string[] {
  const ids = [...files.keys()].filter((path) => path.endsWith(`/${manifestName}`)).map(folderIdOf);
  return [...new Set(ids.filter((id) => id !== undefined))].sort().reverse();
}

/** Throws DATA_INVALID. */
export async function manifestAt(place: BackupTarget, backupId: string, signal?: AbortSignal): Promise<ReadManifest> {
  const bytes = await place.readSmall(manifestPath(backupId), manifestBytesMax, signal);
  return readManifest(bytes.toString(), backupId);
}

export const noBackup = (backupId?: string): Failure =>
  new Failure('OBJECT_NOT_FOUND', 'there is no such backup in that place', {
    category: 'backups',
    name: backupId ?? 'newest',
  });
