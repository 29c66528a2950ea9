// The background work of a running server: what starts after everything was created, and stops in reverse before the store is closed.

import type { CallerLimits } from '../access/limits/assemble_limits.ts';
import type { StatisticsRefresher } from '../catalog/table_statistics.ts';
import { catalogsByWarehouse } from '../catalog/warehouse_objects.ts';
import { startFiles } from '../files/assemble_files.ts';
import type { Observe } from '../observe/observations.ts';
import type { DiskSpace } from '../store/disk_space.ts';
import type { StoreChecks } from '../store/sqlite/integrity/scheduled_checks.ts';
import type { Store } from '../store/store.ts';
import { maintenanceOf } from './maintenance.ts';
import type { Services } from './records/handler_context.ts';
import type { ScheduledCalls } from './tasks/scheduled_calls.ts';

/** The maximum time that a running request continues after its credentials are revoked. */
const revalidateEveryMs = 2_000;

interface BackgroundParts {
  readonly services: Services;
  readonly statistics: StatisticsRefresher;
  readonly callerLimits: CallerLimits;
  readonly scheduledCalls: ScheduledCalls;
  /** Ends requests whose credentials were revoked. */
  readonly api: { revalidate(): void };
  readonly store: Store;
  readonly disk: DiskSpace;
  readonly storeChecks: StoreChecks | undefined;
  readonly observe: Observe;
  /** Receives the periodic maintenance. */
  readonly maintained?: ((all: () => Promise<void>) => void) | undefined;
}

/** Returns a function that stops the work. */
export async function startBackground(parts: BackgroundParts): Promise<(deadlineMs: number) => Promise<void>> {
  const { services, statistics, callerLimits, scheduledCalls, api, disk, storeChecks, observe } = parts;
  const { changes, catalog, tasks, webhooks, schedules, warehouses, history, audit, tokens, oidc, directory } =
    services;
  const maintenance = maintenanceOf(services, parts);
  parts.maintained?.(maintenance.all);
  const guarded = (what: string, work: () => Promise<unknown>) => () => {
    work().catch((error: unknown) => observe({ kind: 'backgroundError', what, error }));
  };
  const stopDisabled = guarded('tasks of disabled users', () =>
    tasks.revalidate((principal) => directory.isActive(principal)),
  );
  disk.start();
  storeChecks?.start();
  warehouses.start();
  let isStopping = false;
  const checked = (async () => {
    for (const [name, catalogs] of await catalogsByWarehouse(catalog))
      if (!isStopping) await warehouses.inspect(name, catalogs);
  })().catch((error: unknown) => observe({ kind: 'backgroundError', what: 'check of catalog files', error }));
  changes.start();
  catalog.start();
  await history.start();
  audit.start();
  tokens.start();
  statistics.start();
  const stopFiles = await startFiles(services.files, observe);
  await tasks.start();
  schedules.start((call, run) => scheduledCalls.submit(services, call, run));
  webhooks.start();
  maintenance.start();
  const revalidation = setInterval(() => {
    api.revalidate();
    stopDisabled();
  }, revalidateEveryMs);
  revalidation.unref();
  return async (deadlineMs: number) => {
    isStopping = true;
    disk.stop();
    await storeChecks?.stop();
    const maintained = maintenance.stop(deadlineMs);
    await catalog.stop();
    await stopFiles();
    clearInterval(revalidation);
    await schedules.stop();
    await tasks.stop(deadlineMs);
    await webhooks.stop();
    await statistics.stop();
    await history.stop();
    await warehouses.stop();
    await checked;
    // Without engines, what still runs of it ends soon.
    await maintained;
    await tokens.stop();
    await changes.stop();
    await callerLimits.stop();
    await audit.stop();
    oidc.close();
  };
}
