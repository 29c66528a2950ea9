// The work of every minute, also done at start: recovers interrupted changes, and removes what has expired and what a crash left
// behind. Each part implements its own work.
import type { CallerLimits } from '../access/limits/assemble_limits.ts';
import { followClusterShapes } from '../jobs/cluster_shape.ts';
import { settleDecommissions } from '../jobs/decommission_backend.ts';
import { sweepLoadSecrets } from '../jobs/load_run.ts';
import { withTimeout } from '../model/concurrency/bounded_waits.ts';
import type { Observe } from '../observe/observations.ts';
import { renewEveryMs } from '../store/leases.ts';
import type { Store } from '../store/store.ts';
import type { Services } from './records/handler_context.ts';

const everyMs = 60_000;
/** As often as the definitions of clusters are read again, about. */
const clustersEveryMs = 5_000;
const bucketSweepEveryMs = 3_600_000;

export interface Maintenance {
  /** Runs all of it now. A failure is reported and does not stop the others. */
  all(): Promise<void>;
  /** Recovers interrupted changes now and does the rest within a minute. */
  start(): void;
  /** Begins no more work, and waits for what is running: at most `deadlineMs`. */
  stop(deadlineMs: number): Promise<void>;
}

interface MaintenanceParts {
  readonly store: Store;
  readonly observe: Observe;
  readonly callerLimits: CallerLimits;
}

export function maintenanceOf(services: Services, { store, observe, callerLimits }: MaintenanceParts): Maintenance {
  const { catalog, files, history, submitter } = services;
  const running = new Set<Promise<void>>();
  const guarded = (what: string, work: () => Promise<unknown>): Promise<void> => {
    const run = work()
      .then(() => {})
      .catch((error: unknown) => observe({ kind: 'backgroundError', what, error }))
      .finally(() => running.delete(run));
    running.add(run);
    return run;
  };
  const recover = () =>
    guarded('recovery', async () => {
      await catalog.recover();
      await catalog.purge();
    });
  const sweep = () => guarded('sweep', () => sweepAll(services, { store, callerLimits }));
  const sweepResults = () => guarded('sweep of results', () => submitter.sweep());
  const sweepFiles = () => guarded('sweep of files', () => files.sweep());
  const sweepBucket = () =>
    guarded('sweep of the bucket', async () => {
      await submitter.sweepBucket();
      await files.sweepBucket();
    });
  const takeOver = () =>
    guarded('take-over', async () => {
      await history.takeOver();
      await catalog.takeOver();
    });
  const followClusters = () => guarded('the shape of clusters', () => followClusterShapes(services));
  const all = async () => void (await Promise.all([recover(), sweep(), sweepResults(), sweepFiles(), sweepBucket()]));
  let timer: NodeJS.Timeout | undefined;
  let bucketTimer: NodeJS.Timeout | undefined;
  let stopTakingOver = () => {};
  let stopFollowing = () => {};
  return {
    all,
    start() {
      void recover();
      void sweepResults();
      timer = setInterval(() => void Promise.all([recover(), sweep()]), everyMs).unref();
      if (store.isShared) stopTakingOver = repeatedly(takeOver, renewEveryMs);
      stopFollowing = repeatedly(followClusters, clustersEveryMs);
      bucketTimer = setInterval(() => void sweepBucket(), bucketSweepEveryMs).unref();
    },
    async stop(deadlineMs) {
      clearInterval(timer);
      clearInterval(bucketTimer);
      stopTakingOver();
      stopFollowing();
      await withTimeout(Promise.all(running), deadlineMs);
    },
  };
}

/** Removes what has expired, in whatever part. */
function sweepAll(services: Services, { store, callerLimits }: Pick<MaintenanceParts, 'store' | 'callerLimits'>) {
  const { changes, tasks, tokens, exports, backups, restores, serverBackups } = services;
  const { submitter, idempotencyKeys, audit } = services;
  return Promise.all([
    changes.sweep(),
    tasks.sweep(),
    settleDecommissions(services),
    tokens.sweep(),
    exports.sweep(),
    backups.sweep(),
    restores.sweep(),
    serverBackups.sweep(),
    sweepLoadSecrets(store),
    submitter.sweep(),
    idempotencyKeys.sweep(),
    audit.sweep(),
    callerLimits.sweep(),
  ]);
}

/** But not while it still runs. @returns a function that begins it no more. */
function repeatedly(work: () => Promise<void>, periodMs: number): () => void {
  let isRunning = false;
  const timer = setInterval(async () => {
    if (isRunning) return;
    isRunning = true;
    await work();
    isRunning = false;
  }, periodMs).unref();
  return () => clearInterval(timer);
}
