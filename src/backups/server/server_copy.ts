// One copy of a whole server to a place: all files of a snapshot, the keys, and the manifest last. Whose work it is, when it is tried
// again and what is recorded of it is server_backups.ts.
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { newId } from '../../model/ids.ts';
import { schemaVersion } from '../../store/migrations/migrate.ts';
import type { PinnedFile } from '../../store/store.ts';
import { type CopiedCatalog, catalogsInCopy } from '../../store/store_copy.ts';
import type { Amount } from '../../tasks/task.ts';
import { type CopierOptions, FileCopier, type FileToCopy } from '../file_copier.ts';
import { Pieces } from '../pieces.ts';
import type { BackupTarget } from '../targets/backup_target.ts';
import { type KeySealer, keysOf } from './server_keys.ts';
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
const copiesAtOnce = 4;

/** Of the server that is copied. */
export interface CopiedServer {
  readonly dataDirectory: string;
  /** Engines cannot access it: the copy of the store and the keys are in it while they are sent. */
  readonly stagingDirectory: string;
  readonly release: string;
  /** The key of the secrets is kept outside of the data directory. */
  readonly isKeyOutside: boolean;
  readonly sealer: KeySealer;
  readonly pieceBytesMax: number;
}

export interface CopyRun {
  readonly place: BackupTarget;
  readonly backupId: string;
  readonly signal: AbortSignal;
  readonly progress: (at: Amount) => void;
}

/** Throws RetryableError where files changed under it; what was sent is not sent again then. */
export async function copyServer(
  server: CopiedServer,
  take: () => Promise<ServerSnapshot>,
  run: CopyRun,
): Promise<ServerManifest & { readonly heldMs: number }> {
  const staging = join(server.stagingDirectory, newId());
  await mkdir(staging, { recursive: true, mode: 0o700 });
  const cutter = new Pieces(run.signal);
  try {
    const snapshot = await take();
    try {
      const manifest = await sent(server, snapshot, { ...run, staging, cutter });
      return { ...manifest, heldMs: Math.round(snapshot.heldMs) };
    } finally {
      await snapshot.release();
    }
  } finally {
    await cutter.stop();
    await rm(staging, { recursive: true, force: true });
  }
}

async function sent(
  server: CopiedServer,
  snapshot: ServerSnapshot,
  run: CopyRun & { readonly staging: string; readonly cutter: Pieces },
): Promise<ServerManifest> {
  const { place, backupId, signal, progress, staging, cutter } = run;
  const { dataDirectory, release, isKeyOutside, sealer, pieceBytesMax } = server;
  const store = join(staging, storePath);
  await copyStore(snapshot.store, store, cutter);
  const { included, catalogsLeftOut } = sorted(catalogsInCopy(store), snapshot);
  const names = new Set(included.map(({ id }) => id));
  const toCopy: FileToCopy[] = [{ path: storePath, from: store, bytes: snapshot.store.bytes }];
  for (const { id, files } of snapshot.catalogs)
    if (names.has(id))
      toCopy.push(...files.map(({ path, bytes }) => ({ path, from: join(dataDirectory, path), bytes })));
  const total = toCopy.reduce((sum, { bytes }) => sum + bytes, 0);
  let done = 0;
  const copied = (bytes: number) => {
    done += bytes;
    progress({ done: Math.min(done, total), total, unit: 'bytes' });
  };
  const there = new Map<string, number>();
  for await (const { path, bytes } of place.list(serverFolder(backupId), signal)) there.set(path, bytes);
  const options = { ...run, pieceBytesMax, copied, there };
  const files = await copyAll(options, toCopy);
  await snapshot.requireUnchanged();
  const keys = await sealer.textOf(await keysOf(dataDirectory, isKeyOutside));
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
  await clearLeft(place, manifest, there);
  await place.writeSmall(serverManifestPath(backupId), serverManifestText(manifest), signal);
  return manifest;
}

/** A few at a time: small ones mostly wait for the place. The first failure stops the others. */
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
  await Promise.all(Array.from({ length: copiesAtOnce }, worker));
  failed.signal.throwIfAborted();
  return files;
}

/** To the staging directory first: until it is copied the log of the store grows. */
async function copyStore(pinned: PinnedFile, to: string, cutter: Pieces): Promise<void> {
  try {
    await cutter.cut({ from: pinned.descriptor, start: 0, bytes: pinned.bytes, to });
  } finally {
    pinned.release();
  }
}

function sorted(catalogs: readonly CopiedCatalog[], snapshot: ServerSnapshot) {
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

/** Pieces that an attempt before this one sent, and that are of no file as it was at the last instant. */
async function clearLeft(place: BackupTarget, { backupId, files }: ServerManifest, there: ReadonlyMap<string, number>) {
  const named = new Set(files.flatMap(({ pieces }) => pieces.map(({ sha256 }) => serverFolder(backupId) + sha256)));
  for (const path of there.keys()) if (!named.has(path)) await place.remove(path);
}
