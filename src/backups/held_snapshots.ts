// Snapshots on engines that cannot read all tables as of one instant while they are written: the writes of all servers wait until the snapshot is
// taken. A statement that runs for longer than writers can wait is not waited for; the snapshot is tried again later.
import { setTimeout as pause } from 'node:timers/promises';
import type { Catalog } from '../catalog/catalog.ts';
import type { EngineWarehouse } from '../engines/port/engine.ts';
import type { CatalogRef } from '../engines/port/refs.ts';
import type { Snapshot } from '../engines/port/snapshot.ts';
import type { Warehouses } from '../engines/warehouses/warehouses.ts';
import { AskedServers, ServerNotAnswering } from '../holds/asked_servers.ts';
import { PausedWrites } from '../holds/paused_writes.ts';
import { WritesOfServers } from '../holds/writes_of_servers.ts';
import { Failure } from '../standard/failure.ts';
import type { LeaseHolder } from '../store/leases.ts';
import type { Store } from '../store/store.ts';
import { RetryableError } from '../tasks/task.ts';
import { catalogRef, type SourceDefinitions } from './definitions.ts';

export interface HeldSnapshotParts {
  readonly catalog: Catalog;
  readonly warehouses: Warehouses;
  readonly store: Store;
  readonly holder: LeaseHolder;
}

export interface SnapshotToTake {
  readonly engine: EngineWarehouse;
  readonly definitions: SourceDefinitions;
  readonly taskId: string;
  readonly signal: AbortSignal;
}

/** How long running writes are waited for. */
const drainMsMax = 3_000;
/** How long writes are held in all; they wait longer (engines/warehouses/guarded_engine.ts). */
const holdMsMax = 20_000;
/** How long the store is asked to end a hold. */
const releaseMsMax = 60_000;
const releasePauseMs = 200;
const firstPauseMs = 200;
const longestPauseMs = 30_000;
/** How long one attempt of the task waits for a moment without long writes. */
const attemptMsMax = 600_000;

/** The caller closes the snapshot. Throws RetryableError. */
export async function takeSnapshot(parts: HeldSnapshotParts, work: SnapshotToTake): Promise<Snapshot> {
  const { engine, definitions, signal } = work;
  const { root } = definitions;
  const { warehouse } = root.spec;
  const { capabilities, isReachedByAllServers } = await parts.warehouses.engineOf(warehouse);
  const ref = catalogRef(root);
  if (capabilities.catalogSnapshots) return engine.snapshot(ref, { signal });
  if (parts.store.isShared && isReachedByAllServers) return heldByAll(parts, work, ref);
  return retried(work, () => tryOnce(parts, work, ref, undefined));
}

async function heldByAll(parts: HeldSnapshotParts, work: SnapshotToTake, ref: CatalogRef): Promise<Snapshot> {
  const { catalog } = parts;
  const { definitions, taskId, signal } = work;
  const others = new AskedServers(parts, taskId);
  await catalog.beginSnapshotHold({ taskId, catalogId: ref.id, warehouse: definitions.root.spec.warehouse });
  try {
    return await retried(work, async () => {
      // Every server knows what it will be asked before any write waits.
      await others.ask(signal, false);
      return tryOnce(parts, work, ref, others);
    });
  } catch (error) {
    const isLost = error instanceof Failure && error.code === 'TASK_INTERRUPTED';
    throw isLost || error instanceof ServerNotAnswering ? new RetryableError(error.message) : error;
  } finally {
    // Without a hold the row keeps nobody from anything; it is removed with the task, too.
    await catalog.endSnapshotHold(taskId, true).catch(() => undefined);
  }
}

async function retried({ signal }: SnapshotToTake, attempt: () => Promise<Snapshot | undefined>): Promise<Snapshot> {
  const deadline = performance.now() + attemptMsMax;
  for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(2 * pauseMs, longestPauseMs)) {
    const snapshot = await attempt();
    if (snapshot) return snapshot;
    if (performance.now() > deadline)
      throw new RetryableError('the catalog had writes that ran for longer than others can wait; retry later');
    await pause(pauseMs, undefined, { signal });
  }
}

/** @returns undefined if the writes could not be held for long enough. */
async function tryOnce(
  parts: HeldSnapshotParts,
  work: SnapshotToTake,
  ref: CatalogRef,
  others: AskedServers | undefined,
): Promise<Snapshot | undefined> {
  const { definitions, taskId, signal } = work;
  const own = await parts.warehouses.writesOf(definitions.root.spec.warehouse);
  const writes = new WritesOfServers(own, { taskId, catalogId: ref.id, kind: 'snapshot' }, others);
  const paused = new PausedWrites(writes, holdMsMax, signal);
  let snapshot: Snapshot | undefined;
  try {
    snapshot = await takeWhile(paused, parts, work, { ref, writes });
  } finally {
    await paused.end().catch(() => undefined);
    await released(writes).catch(async (error: unknown) => {
      await snapshot?.close();
      throw error;
    });
  }
  return snapshot;
}

async function takeWhile(
  paused: PausedWrites,
  { catalog }: HeldSnapshotParts,
  { engine, definitions, taskId }: SnapshotToTake,
  { ref, writes }: { readonly ref: CatalogRef; readonly writes: WritesOfServers },
): Promise<Snapshot | undefined> {
  let snapshot: Snapshot | undefined;
  try {
    await paused.drained(drainMsMax);
    await engine.settleWrites?.(ref, { signal: paused.signal });
    const databases = definitions.databases.map(({ object }) => object.name);
    snapshot = await engine.snapshot(ref, { signal: paused.signal, databases, purpose: taskId });
    // Another server may have taken this one for dead meanwhile.
    if (writes.heldBy !== undefined) await catalog.requireSnapshotHold(taskId, writes.heldBy);
    return snapshot;
  } catch (error) {
    // Not waited for, because writes are held.
    void snapshot?.close().catch(() => undefined);
    if (paused.isOver || (error instanceof Failure && error.code === 'CHANGE_IN_PROGRESS')) return undefined;
    throw error;
  }
}

/** Until the store has it, the other servers hold their writes. If it cannot be reached, they end the hold when the attempt of the task has ended. */
async function released(writes: WritesOfServers): Promise<void> {
  const deadline = performance.now() + releaseMsMax;
  for (;;) {
    try {
      return await writes.release();
    } catch (error) {
      if (performance.now() > deadline) throw error;
      await pause(releasePauseMs);
    }
  }
}
