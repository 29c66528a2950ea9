// What all parts of a server rest on: its directories, store, secrets and observers, opened in this order.
import { mkdir, rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { AuditJournal, journalFileName } from '../access/audit/audit_journal.ts';
import { rootToken } from '../access/authentication/root_token.ts';
import { keyOfSettings, openSecrets } from '../access/secrets/secrets.ts';
import type { Engine } from '../engines/port/engine.ts';
import { blobDirectories, openBlobPlaces, openBucket } from '../files/blobs/open_blob_places.ts';
import type { RequestAuthorizer } from '../http/request_pipeline.ts';
import { logReader } from '../observe/log.ts';
import { standardError } from '../observe/log_output.ts';
import { createMetrics } from '../observe/metrics.ts';
import { observers } from '../observe/observations.ts';
import { hostAllowlist } from '../outbound/host_allowlist.ts';
import { readBackupDirectories, readLoadSettings } from '../query/loads/load_settings.ts';
import type { Services } from '../resources/records/handler_context.ts';
import type { Settings } from '../settings/read_settings.ts';
import { prepareDataDirectory } from '../store/data_directory.ts';
import { DiskSpace, reserveFileName } from '../store/disk_space.ts';
import { endEarlierLeases, LeaseHolder } from '../store/leases.ts';
import { isShared, openStore } from '../store/open_store.ts';
import { StoreChecks } from '../store/sqlite/integrity/scheduled_checks.ts';
import type { FaultInjector, Store } from '../store/store.ts';
import { Webhooks } from '../tasks/webhooks.ts';

export interface ServerHooks {
  /** Fault tests: called before every statement of the store. */
  readonly injectStore?: FaultInjector;
  /** Fault tests: wraps each engine of the product. */
  readonly wrapEngine?: (engine: Engine) => Engine;
  /** Tests: engines besides DuckDB, with which warehouses can be created. */
  readonly otherEngines?: readonly Engine[];
  /** Benchmarks: replaces the authorizer, to measure the cost of authorization. */
  readonly wrapAuthorizer?: (authorizer: RequestAuthorizer) => RequestAuthorizer;
  /** Fault tests: receives the services, so that tests can trigger recovery. */
  readonly assembled?: (services: Services) => void;
  /** Fault tests: receives the periodic maintenance, so that tests can trigger it. */
  readonly maintained?: (all: () => Promise<void>) => void;
  /** Fault tests: the delay before the second attempt of a task. */
  readonly taskRetryPauseMs?: number;
  /** Repairs: the server has no catalog, so that one of any name can be restored. */
  readonly withoutDefaultCatalog?: boolean;
  /** Tests: the clock of schedules. */
  readonly scheduleClock?: () => number;
}

/** Opens the foundation of all parts: the directories, the store, the secrets and the observers. */
export async function openFoundation(settings: Settings, hooks: ServerHooks) {
  const webhookRules = hostAllowlist('webhookHosts', settings.webhookHosts);
  const exportHosts = hostAllowlist('exportHosts', settings.exportHosts);
  const clusterHosts = hostAllowlist('clusterHosts', settings.clusterHosts);
  const identityProviderHosts = hostAllowlist('identityProviderHosts', settings.identityProviderHosts);
  const dataDirectory = resolve(settings.dataDir);
  const spoolDirectory = join(dataDirectory, 'spool');
  const stagingDirectory = join(dataDirectory, 'staging');
  const entries = {
    files: [journalFileName, reserveFileName],
    directories: [spoolDirectory, stagingDirectory, ...Object.values(blobDirectories)],
  };
  await prepareDataDirectory(dataDirectory, entries, { hasStore: !isShared(settings.store) });
  const bucket = await openBucket(settings);
  const loading = await readLoadSettings(settings, dataDirectory);
  const backupDirectories = await readBackupDirectories(settings.backupDirectories, dataDirectory, loading.directories);
  const { store, sqlite, sharingId } = await openStore(
    { store: settings.store, dataDirectory },
    {
      inject: hooks.injectStore,
      checkMs: settings.storeCheckStartMs,
      limits: storeLimits(settings),
    },
  );
  const journal = await openJournal(dataDirectory, store);
  // The lock on the data directory must be held before these directories are changed.
  for (const directory of [spoolDirectory, stagingDirectory]) await rm(directory, { recursive: true, force: true });
  for (const directory of [spoolDirectory, stagingDirectory]) await mkdir(directory, { recursive: true, mode: 0o700 });
  const token = await rootToken(dataDirectory);
  const metrics = createMetrics();
  const log = logReader({ level: settings.logLevel, destination: standardError });
  const observe = observers(log, metrics.read);
  const blobs = await openBlobPlaces({ bucket, store, dataDirectory, observe });
  const secrets = await openSecrets({ store, observe, dataDirectory, ...keyOfSettings(settings) });
  const disk = new DiskSpace({
    directory: dataDirectory,
    lowBytesMax: settings.diskLowBytes,
    onChange: ({ isLow, freeBytes }) => observe({ kind: isLow ? 'diskLow' : 'diskRecovered', freeBytes }),
  });
  const holder = new LeaseHolder(sharingId);
  await endEarlierLeases(store, holder);
  const retryPauseMs = hooks.taskRetryPauseMs;
  const webhooks = new Webhooks({ store, secrets, observe, rules: webhookRules, retryPauseMs, holder });
  return {
    settings,
    hooks,
    disk,
    journal,
    holder,
    webhooks,
    store,
    sqlite,
    sharingId,
    storeChecks: sqlite && new StoreChecks({ store: sqlite, everyMs: settings.storeCheckMinutes * 60_000, observe }),
    secrets,
    rootToken: token,
    metrics,
    observe,
    dataDirectory,
    spoolDirectory,
    stagingDirectory,
    ...blobs,
    loading,
    exportHosts,
    clusterHosts,
    identityProviderHosts,
    backupDirectories,
  };
}

const storeLimits = (settings: Settings) => ({
  connectionsMax: settings.storeConnections,
  connectMs: settings.storeConnectTimeoutMs,
  statementMs: settings.storeStatementTimeoutMs,
  lockMs: settings.storeLockTimeoutMs,
});

/** Closes a store that lacks acknowledged changes, so that it can be replaced. */
async function openJournal(dataDirectory: string, store: Store): Promise<AuditJournal> {
  try {
    return await AuditJournal.open(dataDirectory, store);
  } catch (error) {
    await store.close();
    throw error;
  }
}

export type Foundation = Awaited<ReturnType<typeof openFoundation>>;
