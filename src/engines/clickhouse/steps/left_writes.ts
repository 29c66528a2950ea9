// The writes that servers of the API have left: statements that the servers of the cluster still run, and steps that were recorded before they
// were done on each server.
import { setTimeout as pause } from 'node:timers/promises';
import { Failure } from '../../../standard/failure.ts';
import type { CatalogRef } from '../../port/refs.ts';
import { ClickHouseError } from '../connection/clickhouse_error.ts';
import type { ClickHouseServer } from '../connection/server.ts';
import type { CompletionAttempt, WarehouseContext } from '../context.ts';
import { stagingPrefix } from '../load/staging.ts';
import { databasesOf, readDatabases } from '../owned_databases.ts';
import { completeBegun, refusals, refuse } from '../rows/pending_steps.ts';
import { quoteIdentifier, quoteLiteral } from '../sql/identifiers.ts';
import type { PendingSearch } from './applied_steps.ts';
import { WriteEnded } from './ended_write.ts';

const callTimeoutMs = 10_000;
const pollMs = 100;
/** Longer than the name of a database. */
const beginLength = 1000;
/** For other servers to complete what this one is to complete. */
const othersMsMax = 10_000;

/** While no server of the API writes to the catalog. @returns the number of statements that ended, and of steps that were completed. */
export async function settleWrites(
  context: WarehouseContext,
  catalog: CatalogRef,
  signal: AbortSignal,
): Promise<number> {
  let settled = 0;
  for (
    let running = await runningWrites(context, catalog);
    running > 0;
    running = await runningWrites(context, catalog)
  ) {
    settled = Math.max(settled, running);
    await pause(pollMs, undefined, { signal });
  }
  const deadline = performance.now() + othersMsMax;
  for (const batch of await context.steps.pendingBatches(catalog, { minutes: 0 }))
    while (!(await isSettled(batch))) await pause(pollMs, undefined, { signal });
  return settled;

  /** Another server may be at it. */
  async function isSettled(batch: string): Promise<boolean> {
    signal.throwIfAborted();
    try {
      if (await completeLeftBatch(context, catalog, batch)) settled++;
      return true;
    } catch (error) {
      if (error instanceof Failure && error.code === 'CHANGE_IN_PROGRESS' && performance.now() < deadline) return false;
      throw error;
    }
  }
}

/** Whoever recorded a step may still be at it. */
const abandonedMinutes = 1;
/** Between two attempts to complete the same write; twice as long after each. */
const attemptMsMin = 10_000;
const attemptMsMax = 600_000;

/** More at once would occupy servers that have other work. */
const runningMax = 8;

/**
 * Begins to complete writes that were interrupted a while ago, and that nobody may repeat. A change of rows can take hours, and keeps no other write
 * waiting. What fails is tried again, ever more rarely, because a server may be away for days.
 */
export async function completeAbandoned(
  context: WarehouseContext,
  signal: AbortSignal,
  attempts: Map<string, CompletionAttempt>,
): Promise<void> {
  const pending = new Set<string>();
  let running = attempts.values().reduce((count, { isRunning }) => count + Number(isRunning), 0);
  for (const catalog of await context.options.catalogs())
    for (const batch of await context.steps.pendingBatches(catalog, { minutes: abandonedMinutes })) {
      pending.add(batch);
      const attempt = attempts.get(batch) ?? { isRunning: false, pauseMs: attemptMsMin, nextAt: 0 };
      if (signal.aborted || attempt.isRunning || running >= runningMax || performance.now() < attempt.nextAt) continue;
      attempt.isRunning = true;
      running++;
      attempts.set(batch, attempt);
      void completeLeftBatch(context, catalog, batch)
        .catch(() => undefined)
        .finally(() => {
          attempt.isRunning = false;
          attempt.nextAt = performance.now() + attempt.pauseMs;
          attempt.pauseMs = Math.min(attemptMsMax, 2 * attempt.pauseMs);
        });
    }
  for (const [batch, { isRunning }] of attempts) if (!isRunning && !pending.has(batch)) attempts.delete(batch);
}

/**
 * Removes what loads left that ended without it. What was to be published is first: where it cannot be, its rows stay. Best effort: nothing depends on
 * it.
 */
export async function removeAbandoned(context: WarehouseContext): Promise<void> {
  const left = new Set<string>();
  for (const catalog of await context.options.catalogs())
    for (const batch of await context.steps.pendingBatches(catalog, { prefix: stagingPrefix }))
      if (!(await completeLeftBatch(context, catalog, batch).catch(() => false))) left.add(batch);
  // The loads of other warehouses on the same servers, of catalogs that are hidden, and those that are being published.
  const pending = await context.steps.pendingOfAll(stagingPrefix);
  await context.endedStaging.dropAbandoned(left.union(pending));
}

/** Also on servers that are not complete: without what they missed they would never be. @returns the number of steps. */
export async function completeLeft(context: WarehouseContext, signal: AbortSignal): Promise<number> {
  let completed = 0;
  for (const catalog of await context.options.catalogs())
    for (const batch of await context.steps.pendingBatches(catalog, { minutes: 0 })) {
      signal.throwIfAborted();
      if (
        await completeLeftBatch(context, catalog, batch).catch((error: unknown) => {
          if (error instanceof Failure) return false;
          throw error;
        })
      )
        completed++;
    }
  return completed;
}

/** The statements that change rows of the catalog, on all servers. */
async function runningWrites({ cluster }: WarehouseContext, { id }: CatalogRef): Promise<number> {
  const verbs = ['INSERT INTO', 'ALTER TABLE'];
  const begins = verbs.map((verb) => `startsWith(query, ${quoteLiteral(`${verb} \``)})`);
  const sql = `SELECT left(query, ${beginLength}) AS begin FROM system.processes WHERE is_initial_query AND (${begins.join(' OR ')})`;
  const call = { timeoutMs: callTimeoutMs };
  const ask = async (server: ClickHouseServer) => {
    const running = await server.rows<{ begin: string }>({ ...call, sql });
    if (running.length === 0) return 0;
    const ofCatalog = (await readDatabases(server, call)).filter(databasesOf([id]));
    const tables = ofCatalog.flatMap(({ name }) => verbs.map((verb) => `${verb} ${quoteIdentifier(name)}.`));
    return running.filter(({ begin }) => tables.some((table) => begin.startsWith(table))).length;
  };
  const counts = await cluster.onEach(ask, { withoutDisabled: true });
  return counts.reduce((sum, count) => sum + count, 0);
}

/**
 * Before rows or their place are changed: what an interrupted write has begun is not to be completed afterwards, when it would bring back rows
 * that were deleted, or find no table. Best effort: a write that cannot be completed now does not keep anybody from anything.
 */
export async function completeBefore(
  context: WarehouseContext,
  catalog: CatalogRef,
  search: Pick<PendingSearch, 'prefix' | 'place'>,
): Promise<void> {
  try {
    for (const batch of await context.steps.pendingBatches(catalog, { ...search, minutes: 0 }))
      await completeLeftBatch(context, catalog, batch);
  } catch {
    // A server is not available now, or another process is at it.
  }
}

/** Nobody completes the writes that were begun at a place. */
export async function refuseLeft(
  context: WarehouseContext,
  catalog: CatalogRef,
  search: Pick<PendingSearch, 'place'>,
): Promise<void> {
  for (const batch of await context.steps.pendingBatches(catalog, { ...search, minutes: 0 }))
    await refuse(context, catalog, batch);
}

/** @returns false if the servers refuse the work. */
async function completeLeftBatch(context: WarehouseContext, catalog: CatalogRef, batch: string): Promise<boolean> {
  try {
    const completion = await completeBegun(context, catalog, batch);
    if (completion === 'void') await refuse(context, catalog, batch);
    return completion === 'done';
  } catch (error) {
    // It has ended, and is recorded so.
    if (error instanceof WriteEnded) return false;
    // Servers refuse it: they would again.
    if (error instanceof Failure && !refusals.has(error.code)) throw error;
    if (!(error instanceof Failure || error instanceof ClickHouseError)) return false;
    await refuse(context, catalog, batch);
    return false;
  }
}
