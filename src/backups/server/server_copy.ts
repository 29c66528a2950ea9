// Copies a whole server to a target: all files of a snapshot, the keys, and the manifest last. Tasks, retries and records are in
// server_backups.ts.
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { newId } from '../../model/ids.ts';
import { schemaVersion } from '../../store/migrations/migrate.ts';
import type { PinnedFile } from '../../store/sqlite/sqlite_dialect.ts';
import { type CopiedCatalog, catalogsInCopy } from '../../store/sqlite/store_copy.ts';
import type { Amount } from '../../tasks/task.ts';
import { type CopierOptions, FileCopier, type FileToCopy } from '../file_copier.ts';
import { Pieces } from '../pieces.ts';
import type { BackupTarget } from '../targets/backup_target.ts';
import { type KeySealer, loadServerKeys } from './server_keys.ts';
import {
  type CatalogLeftOut,
  type CopiedFile,
  keysPath,
  type ServerManifest,
  serverFolder,
  serverFormatVersion,
  serverManifestPath,
  serverManifestText,
  storePath,
} from './server_manifest.ts';
import type { ServerSnapshot } from './server_snapshot.ts';

export const defaultPieceBytesMax = 64 * 1024 * 1024;
const concurrentCopies = 4;

/** The server to copy. */
export interface CopiedServer {
  readonly dataDirectory: string;
  /** Not accessible to engines: holds the copy of the store and the keys until they are sent. */
  readonly stagingDirectory: string;
  readonly release: string;
  /** The key of the secrets is stored outside the data directory. */
  readonly isKeyOutside: boolean;
  readonly sealer: KeySealer;
  readonly pieceBytesMax: number;
}

export interface CopyRun {
  readonly target: BackupTarget;
  readonly backupId: string;
  readonly signal: AbortSignal;
  readonly progress: (amount: Amount) => void;
}

/** Throws RetryableError if files changed during the copy; pieces that were sent are not sent again. */
export async function copyServer(
  server: CopiedServer,
  take: () => Promise<ServerSnapshot>,
  run: CopyRun,
): Promise<ServerManifest & { readonly heldMs: number }> {
  const staging = join(server.stagingDirectory, newId());
  await mkdir(staging, { recursive: true, mode: 0o700 });
  const pieces = new Pieces(run.signal);
  try {
    const snapshot = await take();
    try {
      const manifest = await copySnapshot(server, snapshot, { ...run, staging, cutter: pieces });
      return { ...manifest, heldMs: Math.round(snapshot.heldMs) };
    } finally {
      await snapshot.release();
    }
  } finally {
    await pieces.stop();
    await rm(staging, { recursive: true, force: true });
  }
}

async function copySnapshot(
  server: CopiedServer,
  snapshot: ServerSnapshot,
  run: CopyRun & { readonly staging: string; readonly cutter: Pieces },
): Promise<ServerManifest> {
  const { target, backupId, signal, progress, staging, cutter } = run;
  const { dataDirectory, release, isKeyOutside, sealer, pieceBytesMax } = server;
  const store = join(staging, storePath);
  await copyStore(snapshot.store, store, cutter);
  const { included, catalogsLeftOut } = selectCatalogs(catalogsInCopy(store), snapshot);
  const names = new Set(included.map(({ id }) => id));
  const toCopy: FileToCopy[] = [{ path: storePath, from: store, bytes: snapshot.store.bytes }];
  for (const { id, files } of snapshot.catalogs)
    if (names.has(id))
      toCopy.push(...files.map(({ path, bytes }) => ({ path, from: join(dataDirectory, path), bytes })));
  const total = toCopy.reduce((sum, { bytes }) => sum + bytes, 0);
  let done = 0;
  const onCopied = (bytes: number) => {
    done += bytes;
    progress({ done: Math.min(done, total), total, unit: 'bytes' });
  };
  const existingPieces = new Map<string, number>();
  for await (const { path, bytes } of target.list(serverFolder(backupId), signal)) existingPieces.set(path, bytes);
  const options = { ...run, pieceBytesMax, onCopied, existingPieces };
  const files = await copyAll(options, toCopy);
  await snapshot.requireUnchanged();
  const keys = await sealer.serializeKeys(loadServerKeys(dataDirectory, isKeyOutside));
  files.push(await new FileCopier(options).copyText(keysPath, keys));
  const manifest: ServerManifest = {
    formatVersion: serverFormatVersion,
    backupId,
    takenAt: snapshot.takenAt,
    release,
    storeVersion: schemaVersion,
    secretKey: isKeyOutside ? 'outside' : sealer.isPlain ? 'plain' : 'wrapped',
    catalogs: included.filter(({ isVisible }) => isVisible).map(({ name }) => name),
    catalogsLeftOut,
    files,
  };
  await removeUnusedPieces(target, manifest, existingPieces);
  await target.writeSmall(serverManifestPath(backupId), serverManifestText(manifest), signal);
  return manifest;
}

/** Copies a few files at a time, because small ones mostly wait for the target. The first failure stops the others. */
async function copyAll(options: CopierOptions, toCopy: readonly FileToCopy[]): Promise<CopiedFile[]> {
  const failed = new AbortController();
  const signal = AbortSignal.any([options.signal, failed.signal]);
  const copier = new FileCopier({ ...options, signal });
  const files: CopiedFile[] = [];
  let next = 0;
  const worker = async () => {
    try {
      for (let i = next++; i < toCopy.length; i = next++) files[i] = await copier.copy(toCopy[i] as FileToCopy);
    } catch (error) {
      failed.abort(error);
    }
  };
  await Promise.all(Array.from({ length: concurrentCopies }, worker));
  failed.signal.throwIfAborted();
  return files;
}

/** Copied to the staging directory first, because the log of the store grows while the store is pinned. */
async function copyStore(pinned: PinnedFile, to: string, cutter: Pieces): Promise<void> {
  try {
    await cutter.cut({ from: pinned.descriptor, start: 0, bytes: pinned.bytes, to });
  } finally {
    pinned.release();
  }
}

function selectCatalogs(catalogs: readonly CopiedCatalog[], snapshot: ServerSnapshot) {
  const located = new Set(snapshot.catalogs.map(({ id }) => id));
  const catalogsLeftOut: CatalogLeftOut[] = [];
  const isWhole = ({ id, hasFile }: CopiedCatalog) => located.has(id) || (!hasFile && !snapshot.damaged.has(id));
  for (const catalog of catalogs)
    if (catalog.isVisible && !isWhole(catalog))
      catalogsLeftOut.push({
        name: catalog.name,
        reason: snapshot.damaged.get(catalog.id) ?? 'its file is missing',
      });
  return { included: catalogs.filter(isWhole), catalogsLeftOut };
}

/** Removes pieces of earlier attempts that belong to no file of this snapshot. */
async function removeUnusedPieces(
  target: BackupTarget,
  { backupId, files }: ServerManifest,
  existingPieces: ReadonlyMap<string, number>,
) {
  const named = new Set(files.flatMap(({ pieces }) => pieces.map(({ sha256 }) => serverFolder(backupId) + sha256)));
  for (const path of existingPieces.keys()) if (!named.has(path)) await target.remove(path);
}
