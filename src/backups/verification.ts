// Whether the backups of a place are whole: the manifest by its digest, each file by its size, its digest and the rows that it says
// that it has. And what no backup names, taken away where it is wanted.
import { createHash } from 'node:crypto';
import { basename } from 'node:path';
import { Failure } from '../standard/failure.ts';
import {
  type BackedUpPart,
  folderIdOf,
  folderOf,
  type Manifest,
  manifestName,
  manifestPath,
  partsOf,
} from './manifest.ts';
import { footerBytes, rowsOfFooter } from './parquet_footer.ts';
import {
  type BackupTarget,
  backupsAmong,
  filesAt,
  manifestAt,
  noBackup,
  type TargetFile,
} from './targets/backup_target.ts';

const tailBytes = 8;
/** What is younger may be of a backup that is being made. */
export const sweptAfterMs = 86_400_000;

export interface Fault {
  readonly backupId: string;
  /** Absent: it is about the manifest. */
  readonly file?: string;
  readonly fault: string;
}

export interface Verdict {
  /** Those that were looked at, with a manifest that is as it was written. */
  readonly backups: readonly { readonly manifest: Manifest; readonly isWhole: boolean }[];
  readonly faults: readonly Fault[];
  /** What no backup names, in bytes; undefined: not all manifests could be read, so nobody knows. */
  readonly unnamed: { readonly files: number; readonly bytes: number } | undefined;
}

/** `backupId`: that one alone. */
export async function verifyBackups(place: BackupTarget, backupId?: string): Promise<Verdict> {
  const files = await filesAt(place);
  const ids = backupId === undefined ? backupsAmong(files) : [backupId];
  const faults: Fault[] = [];
  const backups: { manifest: Manifest; isWhole: boolean }[] = [];
  const known = new Map<string, string | undefined>();
  for (const id of ids) {
    if (!files.has(manifestPath(id))) throw noBackup(id);
    try {
      const { manifest } = await manifestAt(place, id);
      const found = await faultsOf(place, manifest, files, known);
      faults.push(...found);
      backups.push({ manifest, isWhole: found.length === 0 });
    } catch (error) {
      if (!(error instanceof Failure && error.code === 'DATA_INVALID')) throw error;
      faults.push({ backupId: id, fault: error.message });
    }
  }
  const left = await unnamedAmong(place, files);
  const unnamed = left && { files: left.length, bytes: left.reduce((sum, { bytes }) => sum + bytes, 0) };
  return { backups, faults, unnamed };
}

/** `known`: what is wrong with files that were looked at; those that backups share are read once. */
async function faultsOf(
  place: BackupTarget,
  manifest: Manifest,
  files: ReadonlyMap<string, TargetFile>,
  known: Map<string, string | undefined>,
): Promise<Fault[]> {
  const { backupId } = manifest;
  const found = new Map<string, Fault>();
  for (const { part } of partsOf(manifest)) {
    const key = JSON.stringify([part.path, part.sha256, part.bytes, part.rows]);
    if (!known.has(key)) known.set(key, await faultOf(place, part, files.get(part.path)));
    const fault = known.get(key);
    if (fault !== undefined) found.set(part.path, { backupId, file: part.path, fault });
  }
  return [...found.values()];
}

async function faultOf(
  place: BackupTarget,
  part: BackedUpPart,
  file: TargetFile | undefined,
): Promise<string | undefined> {
  const { path, bytes, sha256, rows } = part;
  if (basename(path) !== `${sha256}.parquet`) return 'it has the name of another';
  if (!file) return 'it is not there';
  if (file.bytes !== bytes) return `it has ${file.bytes} bytes, and had ${bytes}`;
  const hash = createHash('sha256');
  for await (const chunk of await place.read(path)) hash.update(chunk as Buffer);
  if (hash.digest('hex') !== sha256) return 'it is not as it was written';
  const size = footerBytes(await place.readEnd(path, bytes, tailBytes));
  const found = size === undefined ? undefined : rowsOfFooter(await place.readEnd(path, bytes, size));
  if (found === undefined) return 'it is no Parquet file';
  return found === rows ? undefined : `it has ${found} rows, and should have ${rows}`;
}

/** Undefined where a manifest cannot be read: what it names cannot be known. */
async function unnamedAmong(
  place: BackupTarget,
  files: ReadonlyMap<string, TargetFile>,
): Promise<TargetFile[] | undefined> {
  const named = new Set<string>();
  for (const id of backupsAmong(files)) {
    try {
      for (const { part } of partsOf((await manifestAt(place, id)).manifest)) named.add(part.path);
    } catch (error) {
      if (!(error instanceof Failure && error.code === 'DATA_INVALID')) throw error;
      return undefined;
    }
  }
  return [...files.values()].filter(({ path }) => !named.has(path) && basename(path) !== manifestName);
}

/**
 * Takes away what no backup names: what a backup left that was broken off, and what only backups named whose manifests were removed.
 * A folder in which something is young may be that of a backup which is being made: it stays. Undefined: nothing was, because a
 * manifest cannot be read.
 */
export async function sweepUnnamed(
  place: BackupTarget,
  now: number,
): Promise<{ files: number; bytes: number } | undefined> {
  const files = await filesAt(place);
  const unnamed = await unnamedAmong(place, files);
  if (!unnamed) return undefined;
  const young = new Set(
    [...files.values()]
      .filter(({ modifiedAtMs }) => now - modifiedAtMs < sweptAfterMs)
      .map(({ path }) => folderIdOf(path)),
  );
  let [count, sum] = [0, 0];
  for (const { path, bytes } of unnamed) {
    if (young.has(folderIdOf(path))) continue;
    await place.remove(path);
    count++;
    sum += bytes;
  }
  const left = await filesAt(place);
  for (const id of new Set([...files.keys()].map(folderIdOf)))
    if (id !== undefined && ![...left.keys()].some((path) => folderIdOf(path) === id)) await place.clear(folderOf(id));
  return { files: count, bytes: sum };
}
