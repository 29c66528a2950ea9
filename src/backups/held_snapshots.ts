// Snapshots on engines that cannot read all tables as of one instant while they are written: the writes of all servers wait until the snapshot is
// taken. A statement that runs for longer than writers can wait is not waited for; the snapshot is tried again later.
import { setTimeout as pause } from 'node:timers/promises';
import type { Catalog } from '../catalog/catalog.ts';
import type { EngineWarehouse } from '../engines/port/engine.ts';
import type { Snapshot } from '../engines/port/snapshot.ts';
import { ServerNotAnswering } from '../holds/asked_servers.ts';
import { PausedWrites } from '../holds/paused_writes.ts';
import { type WritesOfServers, type WritesParts, writesTo } from '../holds/writes_of_servers.ts';
import { Failure } from '../standard/failure.ts';
import { RetryableError } from '../tasks/task.ts';
import { catalogRef, type SourceDefinitions } from './definitions.ts';

export interface HeldSnapshotParts extends WritesParts {
  readonly catalog: Catalog;
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
  const { engine, definitions, taskId, signal } = work;
  const { root } = definitions;
  const { warehouse } = root.spec;
  const { capabilities } = await parts.warehouses.engineOf(warehouse);
  if (capabilities.catalogSnapshots) return engine.snapshot(catalogRef(root), { signal });
  const writes = await writesTo(parts, warehouse, { taskId, catalogId: root.id, kind: 'snapshot' });
  return writes.areOfSeveral ? heldByAll(parts, work, writes) : retried(work, () => tryOnce(parts, work, writes));
}

async function heldByAll(parts: HeldSnapshotParts, work: SnapshotToTake, writes: WritesOfServers): Promise<Snapshot> {
  const { catalog } = parts;
  const { definitions, taskId, signal } = work;
  const { id: catalogId, spec } = definitions.root;
  await catalog.beginSnapshotHold({ taskId, catalogId, warehouse: spec.warehouse });
  try {
    return await retried(work, async () => {
      // Every server knows what it will be asked before any write waits.
      await writes.refresh(signal);
      return tryOnce(parts, work, writes);
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
  writes: WritesOfServers,
): Promise<Snapshot | undefined> {
  const paused = new PausedWrites(writes, holdMsMax, work.signal);
  let snapshot: Snapshot | undefined;
  try {
    snapshot = await takeWhile(paused, parts, work, writes);
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
  writes: WritesOfServers,
): Promise<Snapshot | undefined> {
  const ref = catalogRef(definitions.root);
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
