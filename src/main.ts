// The composition root: creates settings → store → warehouses → tasks → catalog → access → queries, files, loads, backups → http in this
// order, starts them, and stops them in reverse.
import { randomUUID } from 'node:crypto';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { assembleAccess, assembleAudit } from './access/assemble_access.ts';
import { AuditJournal, journalFileName } from './access/audit/audit_journal.ts';
import { serverIdSetting } from './access/audit/audit_log.ts';
import { rootToken, rootTokenFileName } from './access/authentication/root_token.ts';
import { assembleLimits } from './access/limits/assemble_limits.ts';
import { Quotas } from './access/limits/quotas.ts';
import { openSecrets } from './access/secrets/secrets.ts';
import { warehousePassword } from './access/secrets/warehouse_password.ts';
import { assembleWarehouses } from './catalog/assemble_warehouses.ts';
import { Catalog } from './catalog/catalog.ts';
import { CatalogReader, objectSource } from './catalog/catalog_reader.ts';
import { ObjectVersions } from './catalog/object_versions.ts';
import { measureOpenIntents } from './catalog/open_intents.ts';
import { RecordCache } from './catalog/record_cache.ts';
import { StatisticsRefresher } from './catalog/table_statistics.ts';
import type { CatalogChecks } from './cli/check/catalog_checks.ts';
import { checkCommand } from './cli/check/check.ts';
import { commandOf, isRemote } from './cli/command.ts';
import { offlineCommands } from './cli/commands.ts';
import { doctorCommand } from './cli/doctor/doctor.ts';
import { restoreServerCommand } from './cli/restore_server.ts';
import { type RunningServer, serveCommand } from './cli/serve.ts';
import { storeMigrateCommand } from './cli/store_migrate/command.ts';
import { clickhouseWith } from './engines/clickhouse/clickhouse.ts';
import { duckdbWith } from './engines/duckdb/duckdb.ts';
import { Confinement } from './engines/duckdb/sandbox/sandbox.ts';
import type { Engine } from './engines/engine.ts';
import type { WarehouseReports } from './engines/other_servers.ts';
import { measureLoad } from './engines/warehouse_condition.ts';
import type { Warehouses } from './engines/warehouses.ts';
import { assembleFiles } from './files/assemble_files.ts';
import { blobDirectories, openBlobPlaces, openBucket } from './files/blobs/open_blob_places.ts';
import { assembleHttp } from './http/assemble_http.ts';
import { networkOf } from './http/connection/client_address.ts';
import { loopbackOf, openTransport, requireInternalUrl, urlOf } from './http/connection/transport.ts';
import type { RequestAuthorizer } from './http/request_pipeline.ts';
import { submitNewTable } from './jobs/load_database.ts';
import { submitLoad } from './jobs/load_table.ts';
import { taskKinds } from './jobs/task_kinds.ts';
import type { OpenFileSource } from './model/import_source.ts';
import { rootPrincipal } from './model/principal.ts';
import { release } from './model/release.ts';
import { WriteReporter } from './moves/write_reporter.ts';
import { logReader } from './observe/log.ts';
import { standardError } from './observe/log_output.ts';
import { createMetrics } from './observe/metrics.ts';
import { observers } from './observe/observations.ts';
import { OperatorError } from './operator/operator_error.ts';
import { hostAllowlist } from './outbound/host_allowlist.ts';
import { assembleQueries } from './query/assemble_queries.ts';
import { Exports } from './query/exports/exports.ts';
import { assembleLoads } from './query/loads/assemble_loads.ts';
import { readBackupDirectories, readLoadSettings } from './query/loads/load_settings.ts';
import type { ResultAccess } from './query/results/result_access.ts';
import { ResultStore } from './query/results/result_store.ts';
import { resultUsage } from './query/results/result_usage.ts';
import { startBackground } from './resources/background.ts';
import { LostServers } from './resources/compute/lost_servers.ts';
import { recordOf, rowsOfStep } from './resources/idempotent_replay.ts';
import { apiInfo, categoriesWith } from './resources/index.ts';
import { bootstrap, userOfVisitor } from './resources/namespaces/bootstrap.ts';
import type { Context, Services } from './resources/records/handler_context.ts';
import { RequestServers } from './resources/request_servers.ts';
import { newTableDefinitions } from './resources/table_definitions/inferred_definition.ts';
import { ScheduledCalls } from './resources/tasks/scheduled_calls.ts';
import { assembleBackups } from './resources/transfer/assemble_backups.ts';
import {
  helpText,
  readSettings,
  readValidSettings,
  type Settings,
  warehouseDefaults,
} from './settings/read_settings.ts';
import { ChangeFeed } from './store/changes/change_feed.ts';
import { prepareDataDirectory } from './store/data_directory.ts';
import { DiskSpace, reserveFileName } from './store/disk_space.ts';
import { endEarlierLeases, LeaseHolder } from './store/leases.ts';
import { isShared, openStore } from './store/open_store.ts';
import { type ServerState, Servers } from './store/servers.ts';
import { StoreChecks } from './store/sqlite/integrity/scheduled_checks.ts';
import { type FaultInjector, getOrCreateSetting, type Store } from './store/store.ts';
import { Schedules } from './tasks/schedules.ts';
import { Tasks } from './tasks/tasks.ts';
import { Webhooks } from './tasks/webhooks.ts';

export type { RunningServer } from './cli/serve.ts';

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

export async function startServer(settings: Settings, hooks: ServerHooks = {}): Promise<RunningServer> {
  const started = performance.now();
  const transport = await openTransport(settings);
  if (isShared(settings.store)) requireInternalUrl(settings);
  const foundation = await openFoundation(settings, hooks);
  const { store, metrics, observe, dataDirectory } = foundation;
  const parts = assembleServices(foundation, await assembleCore(foundation));
  const { services, categories, servers, requestServers } = parts;
  hooks.assembled?.(services);
  await servers?.read();
  await bootstrap(services, { withCatalog: !hooks.withoutDefaultCatalog });
  const { api, http, bodyThreads, forwarder } = assembleHttp<Context>({
    ...foundation,
    servers,
    requestServers,
    transport,
    categories,
    apiInfo: apiInfo(release),
    access: hooks.wrapAuthorizer?.(services.access) ?? services.access,
    rateLimits: parts.callerLimits.rates,
    audit: services.audit,
    changes: services.changes,
    files: services.files,
    signIn: services,
    idempotencyKeys: services.idempotencyKeys,
    requireQueueCapacity: ([root], call) => services.queries.queueCapacity.require(root?.name ?? '', call),
    recordOf: (wanted, context) => recordOf(wanted, categories, context),
    earlier: {
      recover: (keyId) => services.catalog.recoverKeyed(keyId),
      rowsOf: (step) => rowsOfStep(step, services),
    },
    contextOf: (call) => ({ ...services, call }),
  });
  measureLoad(metrics, services.warehouses);
  measureOpenIntents(metrics, services.catalog);
  const stopBackground = await startBackground({ ...foundation, ...parts, api, maintained: hooks.maintained });
  const port = await http.listen(settings.host, settings.port);
  const url = urlOf(transport, settings.host, port);
  await servers?.start(settings.internalUrl || url);
  const loopback = loopbackOf(settings.host);
  observe({ kind: 'serverStarted', url, dataDirectory, ms: performance.now() - started });

  const shutDown = async () => {
    const since = performance.now();
    const share = (part: number) => settings.shutdownTimeoutMs * part;
    const cancelLate = setTimeout(() => services.history.cancelAll(), share(0.4));
    // Cancelled statements still have a response to send.
    await http.close(share(0.75));
    await servers?.stop();
    parts.reporter?.stop();
    forwarder?.close();
    await bodyThreads.stop();
    clearTimeout(cancelLate);
    services.history.cancelAll();
    await stopBackground(share(0.2));
    foundation.closeBlobs();
    await store.close();
    foundation.journal.close();
    observe({ kind: 'serverStopped', ms: performance.now() - since });
  };
  let closed: Promise<void> | undefined;
  return {
    url,
    token: foundation.rootToken,
    signInUrl: () =>
      loopback &&
      `${urlOf(transport, loopback, port)}/console/#sign_in=${services.signInLinks.create(rootPrincipal.id)}`,
    dataDirectory,
    close: () => {
      closed ??= shutDown();
      return closed;
    },
  };
}

/** Opens the foundation of all parts: the directories, the store, the secrets and the observers. */
async function openFoundation(settings: Settings, hooks: ServerHooks) {
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
  const secrets = await openSecrets({
    store,
    observe,
    dataDirectory,
    key: settings.secretKey || undefined,
    keyFile: settings.secretKeyFile || undefined,
    nextKey: settings.secretKeyNew || undefined,
  });
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

type Foundation = Awaited<ReturnType<typeof openFoundation>>;

/** Creates the parts that know what exists and who may do what, each after those that it needs. */
async function assembleCore(foundation: Foundation) {
  const { settings, hooks, store, observe, webhooks } = foundation;
  const serverId = foundation.sharingId ?? (await getOrCreateSetting(store, serverIdSetting, randomUUID));
  const changes = await ChangeFeed.open({ store, serverId, observe });
  const { audit, auditReader } = assembleAudit({ ...foundation, serverId });
  const engines = enginesOf(foundation);
  const servers = otherServersOf(foundation, () => warehouses.reports());
  const otherServers = servers && {
    serverId: servers.serverId,
    reportOf: (id: string) => servers.find(id)?.report,
  };
  const warehouses = assembleWarehouses(
    { ...foundation, otherServers },
    new CatalogReader(objectSource(store)),
    engines,
  );
  servers?.onReport((_, report, previous) => warehouses.reported(report, previous));
  const results = new ResultStore(foundation.resultBlobs);
  const callerLimits = assembleLimits({ ...foundation, serverId, networkOf });
  const caps = new Quotas({
    settings,
    elsewhere: callerLimits.queriesElsewhere,
    storedResults: (principalId) => resultUsage(store, principalId),
    spilledBytes: async (warehouse) =>
      (await warehouses.condition(warehouse)).backends.reduce((sum, { spilledBytes }) => sum + spilledBytes, 0),
  });
  const tasks = new Tasks({
    ...foundation,
    changes,
    runnersMax: settings.taskRunnersMax,
    retentionDays: settings.taskRetentionDays,
    retryPauseMs: hooks.taskRetryPauseMs,
    requireRoom: (db, principalId) => caps.requireTaskQuota(db, principalId),
    trail: audit,
  });
  const catalog = new Catalog({
    store,
    changes,
    observe,
    engineOf: (name) => warehouses.use(name),
    onTask: () => tasks.notify(),
    requireTaskQuota: (tx, principalId) => caps.requireTaskQuota(tx, principalId),
    addWebhook: (tx, taskId, notify) => webhooks.add(tx, taskId, notify),
    trail: audit,
    holder: foundation.holder,
  });
  warehouses.waitForRecoveryWith((warehouse) => catalog.waitForRecovery(warehouse));
  const records = new RecordCache(changes, settings.recordCacheBytesMax);
  warehouses.onDamageChanged((catalogId) => records.forget(catalogId, null));
  changes.follow(warehouses);
  const reporter = servers && reporterOf(foundation, { catalog, warehouses, changes });
  const access = await assembleAccess({
    ...foundation,
    changes,
    audit,
    catalog,
    failedLogins: callerLimits.failedLogins,
    createUser: (visitor, known) => userOfVisitor(visitor, { ...known, catalog }),
  });
  return {
    serverId,
    changes,
    audit,
    auditReader,
    servers,
    reporter,
    warehouses,
    results,
    callerLimits,
    caps,
    tasks,
    catalog,
    records,
    access,
  };
}

/** When this process started, in milliseconds since 1970. */
const startedAt = Date.now() - Math.round(performance.now());

/** The only server of its store. */
const thisServer = (id: string): ServerState => ({
  id,
  isAvailable: true,
  isCurrent: true,
  isAlone: true,
  release,
  startedAt,
});

/** Undefined if this server alone uses the store. */
function otherServersOf(
  { store, holder, observe }: Foundation,
  reports: () => Promise<WarehouseReports>,
): Servers | undefined {
  const { serverId } = holder;
  if (serverId === undefined) return undefined;
  return new Servers({
    store,
    serverId,
    holder,
    release,
    observe,
    report: async () => JSON.stringify(await reports()),
  });
}

/** What the servers that move catalogs need of this one. */
function reporterOf(
  { store, holder, observe }: Foundation,
  {
    catalog,
    warehouses,
    changes,
  }: { readonly catalog: Catalog; readonly warehouses: Warehouses; readonly changes: ChangeFeed },
): WriteReporter {
  const endHold = (taskId: string, asks: number) => catalog.endHold(taskId, asks);
  const reporter = new WriteReporter({ store, holder, observe, writesOf: warehouses.writesOf, endHold });
  warehouses.fence = reporter;
  changes.follow(reporter);
  return reporter;
}

/** Creates the other parts from these; starts nothing. */
function assembleServices(foundation: Foundation, core: Awaited<ReturnType<typeof assembleCore>>) {
  const { settings, hooks, store, observe, secrets, webhooks } = foundation;
  const { changes, audit, auditReader, warehouses, callerLimits, tasks, catalog, records, access } = core;
  const parts = {
    ...foundation,
    ...core,
    trail: audit,
    directory: access.directory,
    authorizer: access.access.authorizer,
    keys: access.idempotencyKeys,
  };
  const files = assembleFiles({
    ...parts,
    mayReadResult: (taskId) => mayReadResult(tasks, queries.resultAccess, taskId),
  });
  const queries = assembleQueries({ ...parts, files });
  const exports = new Exports({ ...parts, ...queries, hosts: foundation.exportHosts });
  const loads = assembleLoads({
    ...parts,
    files,
    definitions: newTableDefinitions,
    serverOfFile: ({ serverId }) => core.servers?.urlOf(serverId),
  });
  const backups = assembleBackups({ ...parts, release });
  tasks.register(taskKinds({ ...parts, ...queries, ...loads, ...backups, exports }));
  const categories = categoriesWith(settings);
  const scheduledCalls = new ScheduledCalls(categories);
  const requestServers =
    core.servers && new RequestServers({ ...parts, ...queries, files, serverId: core.servers.serverId });
  const schedules = new Schedules({
    ...parts,
    clock: hooks.scheduleClock,
    isElsewhere: requestServers && (async (spec) => (await requestServers.ofScheduled(spec)) !== undefined),
  });
  const services: Services = {
    ...access,
    ...queries,
    ...loads,
    ...backups,
    changes,
    audit,
    auditReader,
    catalog,
    objectVersions: new ObjectVersions(store),
    records,
    tasks,
    webhooks,
    schedules,
    checkCall: scheduledCalls.check,
    warehouses,
    warehousePassword: warehousePassword(secrets),
    submitNewTable: submitNewTable({ catalog, secrets }),
    submitLoad: submitLoad({ tasks, store, trail: audit, secrets }),
    exports,
    files,
    warehouseDefaults: warehouseDefaults(settings),
    draftLimits: settings,
    lostServers: core.servers && new LostServers({ ...parts, servers: core.servers }),
    serverStates: () => core.servers?.states() ?? [thisServer(core.serverId)],
    undropSeconds: settings.undropSeconds,
  };
  const statistics = new StatisticsRefresher({ catalog, warehouses, observe });
  const { servers, reporter } = core;
  return { services, categories, scheduledCalls, statistics, callerLimits, servers, reporter, requestServers };
}

/** The first one is the engine of warehouses for which none is requested. */
function enginesOf({ settings, hooks, clusterHosts }: Foundation): readonly Engine[] {
  const engine = duckdbWith({
    confinement: new Confinement(settings.engineConfinement),
    spareEngine: settings.spareEngine,
    analysisTimeoutMs: settings.analysisTimeoutMs,
  });
  const { wrapEngine = (each) => each, otherEngines = [] } = hooks;
  return [wrapEngine(engine), wrapEngine(clickhouseWith({ hosts: clusterHosts })), ...otherEngines];
}

/** Those whose data is in the data directory of the server that created the warehouse. */
const enginesWithLocalData: ReadonlySet<string> = new Set(['duckdb']);

async function mayReadResult(tasks: Tasks, access: ResultAccess, taskId: string): Promise<boolean> {
  const task = await tasks.get(taskId);
  return task !== undefined && access.isAllowed(task);
}

/** Loads the library of the engine into this process; only commands need it. */
const checkCatalog: CatalogChecks['checkCatalog'] = async (...file) =>
  (await import('./engines/duckdb/storage/check_file.ts')).checkCatalogFile(...file);

/** How engines of this server would be confined. */
async function confinementOf({ engineConfinement }: Settings) {
  const directory = await mkdtemp(join(tmpdir(), 'tabularium-doctor-'));
  try {
    const mode = engineConfinement === 'required' ? 'auto' : engineConfinement;
    return (await new Confinement(mode).launch({ data: directory, writable: [directory] })).confinement;
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/** Files that `import` reads with the library of the engine. */
const fileSources = [
  {
    magic: 'DUCK',
    offset: 8,
    open: async (...file: Parameters<OpenFileSource>) =>
      (await import('./engines/duckdb/import_source/duckdb_source.ts')).openDuckdbSource(...file),
  },
];

async function main(): Promise<void> {
  // Files of this process and its engines are accessible to its user only: SQLite and DuckDB accept no file mode.
  process.umask(0o077);
  const check = checkCommand(async () => {
    const repairs = await import('./engines/duckdb/storage/repair_file.ts');
    const startScratchServer = (settings: Settings) => startServer(settings, { withoutDefaultCatalog: true });
    return { checkCatalog, startScratchServer, ...repairs };
  });
  const commands = [
    serveCommand({ start: startServer, rootTokenFileName }),
    ...offlineCommands,
    check,
    doctorCommand({
      check,
      requireTransport: async (settings) => void (await openTransport(settings)),
      confinementOf,
    }),
    restoreServerCommand({ checkCatalog }),
    storeMigrateCommand({ isLocalEngine: (name) => enginesWithLocalData.has(name) }),
  ];
  const argv = process.argv.slice(2);
  if (isRemote(argv, commands)) {
    const { runRemote } = await import('./cli/remote/program.ts');
    process.exitCode = await runRemote(argv, process.env, fileSources);
    return;
  }
  const { command, argument, flags } = commandOf(argv, commands);
  const { settings, invalid } = command.acceptsInvalidSettings
    ? readValidSettings(flags, process.env, command.name)
    : { settings: readSettings(flags, process.env, command.name), invalid: [] };
  const print = (line: string) => void process.stdout.write(`${line}\n`);
  if (settings.help) {
    const { remoteCommandsHelp } = await import('./cli/remote/program.ts');
    return print(helpText(commands, remoteCommandsHelp()));
  }
  if (settings.version) return print(release);
  await command.run(settings, print, argument, invalid);
}

if (import.meta.main) {
  main().catch((error: unknown) => {
    const isOperatorError = error instanceof OperatorError;
    process.stderr.write(`${isOperatorError ? error.message : ((error as Error).stack ?? String(error))}\n`);
    process.exit(isOperatorError ? error.exitCode : 1);
  });
}
