// A consistent snapshot of a whole server: the metadata store and the files of all catalogs, fixed at one instant while the server runs
// and copied afterwards. The snapshot equals the state after a power failure at that instant, so a restored server uses the normal
// recovery.
import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import {
  type CatalogFile,
  type CatalogStorage,
  CheckpointRunning,
  DamagedFile,
  type FilePosition,
} from '../../engines/port/catalog_storage.ts';
import type { PinnedFiles } from '../../engines/warehouses/open_warehouses.ts';
import type { Warehouses } from '../../engines/warehouses/warehouses.ts';
import type { PinnedFile } from '../../store/sqlite/sqlite_dialect.ts';
import type { SqliteStore } from '../../store/sqlite/sqlite_store.ts';
import { RetryableError } from '../../tasks/task.ts';

/** How long one attempt may hold back writes. */
const holdMsMax = 2_000;
const attemptsMax = 5;
const pauseMs = 500;
/** Maximum number of catalogs that are inspected concurrently. */
const concurrentInspections = 16;

export interface CatalogSnapshot {
  readonly id: string;
  readonly position: FilePosition;
  readonly files: readonly CatalogFile[];
}

export interface ServerSnapshot {
  readonly takenAt: string;
  /** How long writes were held back. */
  readonly heldMs: number;
  readonly store: PinnedFile;
  readonly catalogs: readonly CatalogSnapshot[];
  /** The damage of unusable catalogs, by id. */
  readonly damaged: ReadonlyMap<string, string>;
  /** Throws RetryableError if a file was rewritten since, because a copy of it may be torn. */
  requireUnchanged(): Promise<void>;
  release(): Promise<void>;
}

export interface SnapshotParts {
  /** Undefined if the metadata store is not a file of this server. */
  readonly sqlite: Pick<SqliteStore, 'pin'> | undefined;
  readonly warehouses: Pick<Warehouses, 'pinFiles' | 'writeGate' | 'storages'>;
  readonly warehouseNames: () => Promise<readonly string[]>;
  readonly dataDirectory: string;
}

interface Located {
  readonly storage: CatalogStorage;
  readonly position: FilePosition;
}
type Positions = ReadonlyMap<string, Located>;

/** Throws RetryableError if no consistent instant is found. */
export async function serverSnapshot(parts: SnapshotParts, signal: AbortSignal): Promise<ServerSnapshot> {
  const pins: PinnedFiles[] = [];
  const release = async () => {
    for (const pin of pins.splice(0)) await pin.release();
  };
  try {
    for (const name of await parts.warehouseNames()) pins.push(await parts.warehouses.pinFiles(name, signal));
    const unusable = pins.flatMap(({ damaged }) => damaged.filter(({ isAttached }) => !isAttached));
    const damaged = new Map(unusable.map(({ id, reason }) => [id, reason]));
    for (let attempt = 1; attempt <= attemptsMax; attempt++) {
      const instant = await tryFixInstant(parts, damaged);
      if (instant) return snapshotOf(parts, instant, damaged, release);
      await pause(pauseMs, undefined, { signal });
    }
    throw new RetryableError(
      'no consistent instant was found, because statements kept committing; retry when fewer write',
    );
  } catch (error) {
    await release();
    throw error;
  }
}

interface FixedInstant {
  readonly takenAt: string;
  readonly heldMs: number;
  readonly store: PinnedFile;
  readonly located: Positions;
}

/**
 * The store commits nothing and no new write begins, but running writes may still commit. If two inspections of all files agree, both
 * describe one instant between them.
 */
async function tryFixInstant(parts: SnapshotParts, damaged: Map<string, string>): Promise<FixedInstant | undefined> {
  const { sqlite, warehouses } = parts;
  assert(sqlite, 'the metadata store is a file of this server');
  // Long logs are read before writes are held back.
  const known = await locate(parts, damaged, new Map());
  return warehouses.writeGate.closedWhile(async () => {
    const began = performance.now();
    const { done, file } = await sqlite.pin(async () => {
      let before = await locate(parts, damaged, known);
      while (performance.now() - began < holdMsMax) {
        const takenAt = new Date().toISOString();
        const after = await locate(parts, damaged, before);
        if (textOf(after) === textOf(before)) return { takenAt, located: after };
        before = after;
      }
      return undefined;
    });
    if (done) return { ...done, store: file, heldMs: performance.now() - began };
    file.release();
    return undefined;
  });
}

const textOf = (positions: Positions) =>
  JSON.stringify([...positions].map(([id, { position }]) => [id, position.checkpoint, position.logBytes]));

/** Finds the positions of all undamaged catalogs and adds newly found damage to `damaged`. */
async function locate(
  { warehouses, dataDirectory }: SnapshotParts,
  damaged: Map<string, string>,
  since: Positions,
): Promise<Positions> {
  const found = new Map<string, Located>();
  for (const storage of warehouses.storages()) {
    const ids = (await storage.catalogIds(dataDirectory)).filter((id) => !damaged.has(id)).sort();
    for (let start = 0; start < ids.length; start += concurrentInspections) {
      const some = ids.slice(start, start + concurrentInspections);
      const positions = await Promise.all(
        some.map((id) => positionOf(storage, dataDirectory, id, since.get(id)?.position)),
      );
      for (const [i, id] of some.entries()) {
        const position = positions[i];
        if (typeof position === 'string') damaged.set(id, position);
        else if (position) found.set(id, { storage, position });
      }
    }
  }
  return found;
}

/** Returns a string with the reason if the catalog is damaged. */
async function positionOf(storage: CatalogStorage, dataDirectory: string, id: string, since?: FilePosition) {
  try {
    return await storage.position(dataDirectory, id, since);
  } catch (error) {
    if (!(error instanceof DamagedFile)) throw error;
    // A catalog that is being dropped is not damaged.
    return storage.exists(dataDirectory, id) ? error.message : undefined;
  }
}

async function snapshotOf(
  { dataDirectory }: SnapshotParts,
  { takenAt, heldMs, store, located }: FixedInstant,
  damaged: ReadonlyMap<string, string>,
  unpin: () => Promise<void>,
): Promise<ServerSnapshot> {
  const release = async () => {
    store.release();
    await unpin();
  };
  const catalogs: CatalogSnapshot[] = [];
  try {
    for (const [id, { storage, position }] of located)
      catalogs.push({ id, position, files: await storage.filesAt(dataDirectory, id, position) });
  } catch (cause) {
    await release();
    const isBusy = cause instanceof CheckpointRunning;
    const why = isBusy ? 'its log was being written into its file' : 'it was deleted';
    throw new RetryableError(`a catalog could not be copied: ${why}`, { cause });
  }
  return {
    takenAt,
    heldMs,
    store,
    catalogs,
    damaged,
    async requireUnchanged() {
      for (const [id, { storage, position }] of located) {
        const now = await positionOf(storage, dataDirectory, id, position);
        if (typeof now !== 'object' || now.checkpoint !== position.checkpoint)
          throw new RetryableError('the file of a catalog was rewritten or deleted during the copy');
      }
    },
    release,
  };
}
