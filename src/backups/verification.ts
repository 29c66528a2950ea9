// Verifies the backups in a target: the manifest by its digest, each file by its size, its digest and its number of rows. Also removes
// files that no backup refers to.

import { createHash } from 'node:crypto';
import { basename } from 'node:path';
import { footerBytes, rowsOfFooter } from '../engines/data_files/parquet_footer.ts';
import { dayMs } from '../model/durations.ts';
import { Failure } from '../standard/failure.ts';
import {
  type BackedUpPart,
  backupFolder,
  backupIdOfFile,
  listParts,
  type Manifest,
  manifestName,
  manifestPath,
} from './manifest.ts';
import {
  type BackupTarget,
  backupNotFound,
  listBackupIds,
  listFiles,
  loadManifest,
  type TargetFile,
} from './targets/backup_target.ts';

const tailBytes = 8;
/** Younger files may belong to a backup in progress. */
export const sweepAgeMs = dayMs;

export interface Fault {
  readonly backupId: string;
  /** Absent if the fault is in the manifest. */
  readonly file?: string;
  readonly fault: string;
}

export interface Verdict {
  /** The verified backups whose manifest is unaltered. */
  readonly backups: readonly { readonly manifest: Manifest; readonly isWhole: boolean }[];
  readonly faults: readonly Fault[];
  /** Files that no backup refers to; undefined if some manifest could not be read. */
  readonly unnamed: { readonly files: number; readonly bytes: number } | undefined;
}

/** `backupId`: verify this backup only. */
export async function verifyBackups(target: BackupTarget, backupId?: string): Promise<Verdict> {
  const files = await listFiles(target);
  const ids = backupId === undefined ? listBackupIds(files) : [backupId];
  const faults: Fault[] = [];
  const backups: { manifest: Manifest; isWhole: boolean }[] = [];
  const known = new Map<string, string | undefined>();
  for (const id of ids) {
    if (!files.has(manifestPath(id))) throw backupNotFound(id);
    try {
      const { manifest } = await loadManifest(target, id);
      const found = await faultsOf(target, manifest, files, known);
      faults.push(...found);
      backups.push({ manifest, isWhole: found.length === 0 });
    } catch (error) {
      if (!(error instanceof Failure && error.code === 'DATA_INVALID')) throw error;
      faults.push({ backupId: id, fault: error.message });
    }
  }
  const leftovers = await unnamedAmong(target, files);
  const unnamed = leftovers && { files: leftovers.length, bytes: leftovers.reduce((sum, { bytes }) => sum + bytes, 0) };
  return { backups, faults, unnamed };
}

/** `known`: faults of files verified so far; files that backups share are read once. */
async function faultsOf(
  target: BackupTarget,
  manifest: Manifest,
  files: ReadonlyMap<string, TargetFile>,
  known: Map<string, string | undefined>,
): Promise<Fault[]> {
  const { backupId } = manifest;
  const found = new Map<string, Fault>();
  for (const { part } of listParts(manifest)) {
    const key = JSON.stringify([part.path, part.sha256, part.bytes, part.rows]);
    if (!known.has(key)) known.set(key, await faultOf(target, part, files.get(part.path)));
    const fault = known.get(key);
    if (fault !== undefined) found.set(part.path, { backupId, file: part.path, fault });
  }
  return [...found.values()];
}

async function faultOf(
  target: BackupTarget,
  part: BackedUpPart,
  file: TargetFile | undefined,
): Promise<string | undefined> {
  const { path, bytes, sha256, rows } = part;
  if (basename(path) !== `${sha256}.parquet`) return 'it has the name of another';
  const fault = await contentFault(target, part, file?.bytes);
  if (fault !== undefined) return fault;
  const size = footerBytes(await target.readEnd(path, bytes, tailBytes));
  const found = size === undefined ? undefined : rowsOfFooter(await target.readEnd(path, bytes, size));
  if (found === undefined) return 'it is no Parquet file';
  return found === rows ? undefined : `it has ${found} rows instead of ${rows}`;
}

/** Why a file is not as it was written. `found`: its size now; undefined if there is no such file. */
export async function contentFault(
  target: BackupTarget,
  { path, bytes, sha256 }: Pick<BackedUpPart, 'path' | 'bytes' | 'sha256'>,
  found: number | undefined,
): Promise<string | undefined> {
  if (found === undefined) return 'it is missing';
  if (found !== bytes) return `it has ${found} bytes instead of ${bytes}`;
  const hash = createHash('sha256');
  for await (const chunk of await target.read(path)) hash.update(chunk as Buffer);
  return hash.digest('hex') === sha256 ? undefined : 'it was changed after it was written';
}

/** Returns undefined if a manifest cannot be read, because the files that it refers to are unknown. */
async function unnamedAmong(
  target: BackupTarget,
  files: ReadonlyMap<string, TargetFile>,
): Promise<TargetFile[] | undefined> {
  const named = new Set<string>();
  for (const id of listBackupIds(files)) {
    try {
      for (const { part } of listParts((await loadManifest(target, id)).manifest)) named.add(part.path);
    } catch (error) {
      if (!(error instanceof Failure && error.code === 'DATA_INVALID')) throw error;
      return undefined;
    }
  }
  return [...files.values()].filter(({ path }) => !named.has(path) && basename(path) !== manifestName);
}

/**
 * Removes files that no backup refers to: leftovers of interrupted backups, and files of backups whose manifests were removed. A folder
 * with a recent file may belong to a backup in progress and stays. Returns undefined, without removing anything, if a manifest cannot be
 * read.
 */
export async function sweepUnnamed(
  target: BackupTarget,
  now: number,
): Promise<{ files: number; bytes: number } | undefined> {
  const files = await listFiles(target);
  const unnamed = await unnamedAmong(target, files);
  if (!unnamed) return undefined;
  const young = new Set(
    [...files.values()]
      .filter(({ modifiedAtMs }) => now - modifiedAtMs < sweepAgeMs)
      .map(({ path }) => backupIdOfFile(path)),
  );
  let [count, sum] = [0, 0];
  for (const { path, bytes } of unnamed) {
    if (young.has(backupIdOfFile(path))) continue;
    await target.remove(path);
    count++;
    sum += bytes;
  }
  const remaining = await listFiles(target);
  for (const id of new Set([...files.keys()].map(backupIdOfFile)))
    if (id !== undefined && ![...remaining.keys()].some((path) => backupIdOfFile(path) === id))
      await target.clear(backupFolder(id), manifestPath(id));
  return { files: count, bytes: sum };
}
