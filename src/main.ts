// The composition root: starts settings → store → access → engines → catalog → tasks → http in this order, and stops them in reverse.
import { mkdir, rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { type AssembledAccess, assembleAccess } from './access/assemble_access.ts';
import { AuditJournal, StoreBehind } from './access/audit/audit_journal.ts';
import { FailedLogins } from './access/authentication/failed_logins.ts';
import { rootToken, rootTokenFileName } from './access/authentication/root_token.ts';
import { Quotas } from './access/limits/quotas.ts';
import { RateLimits } from './access/limits/rate_limits.ts';
import { openSecrets, SecretKeyError } from './access/secrets/secrets.ts';
import { PassphraseError } from './backups/server/server_keys.ts';
import { Catalog } from './catalog/catalog.ts';
import { filePositions } from './catalog/file_positions.ts';
import { measureOpenIntents } from './catalog/open_intents.ts';
import { RecordCache } from './catalog/record_cache.ts';
import { StatisticsRefresher } from './catalog/table_statistics.ts';
import { catalogsOf, describeWarehouse, warehouseNames } from './catalog/warehouse_objects.ts';
import { NoServerError } from './cli/backup_server.ts';
import type { CatalogChecks } from './cli/check/catalog_checks.ts';
import { checkCommand } from './cli/check/check.ts';
import { commandOf } from './cli/command.ts';
import { offlineCommands } from './cli/commands.ts';
import { restoreServerCommand } from './cli/restore_server.ts';
import { type RunningServer, serveCommand } from './cli/serve.ts';
import { duckdbEngine, duckdbWith } from './engines/duckdb/duckdb.ts';
import { Confinement } from './engines/duckdb/sandbox/sandbox.ts';
import type { Engine } from './engines/engine.ts';
import { measureLoad } from './engines/warehouse_load.ts';
import { Warehouses } from './engines/warehouses.ts';
import { assembleFiles, startFiles } from './files/assemble_files.ts';
import { Bodies } from './http/bodies/bodies.ts';
import { BodyBudget } from './http/bodies/body_budget.ts';
import { BodyThreads } from './http/bodies/body_threads.ts';
import { networkOf } from './http/connection/client_address.ts';
import { openTransport, type Transport, TransportError, urlOf } from './http/connection/transport.ts';
import { Document } from './http/document.ts';
import { FileRequests } from './http/files.ts';
import { type RequestAuthorizer, RequestPipeline } from './http/request_pipeline.ts';
import { HttpServer } from './http/server.ts';
import { systemEndpoints } from './http/system_endpoints.ts';
import { changeKinds } from './jobs/change_object.ts';
import { checkCatalogKind } from './jobs/check_catalog.ts';
import { createFilledTableKind } from './jobs/create_filled_table.ts';
import { exportRowsKind } from './jobs/export_rows.ts';
import { loadDatabaseKind, submitNewTable } from './jobs/load_database.ts';
import { loadTableKind, submitLoad } from './jobs/load_table.ts';
import { optimizeTableKind } from './jobs/optimize_table.ts';
import { runQueryKinds } from './jobs/run_query.ts';
import { release } from './model/release.ts';
import { logReader } from './observe/log.ts';
import { standardError } from './observe/log_output.ts';
import { createMetrics } from './observe/metrics.ts';
import { observers } from './observe/observations.ts';
import { HostPatternError, hostAllowlist } from './outbound/host_allowlist.ts';
import { Exports } from './query/exports/exports.ts';
import { assembleLoads } from './query/loads/assemble_loads.ts';
import { LoadSettingsError, readBackupDirectories, readLoadSettings } from './query/loads/load_settings.ts';
import { ResultAccess } from './query/results/result_access.ts';
import { ResultStore } from './query/results/result_store.ts';
import { resultUsage } from './query/results/result_usage.ts';
import { TableRows } from './query/rows/table_rows.ts';
import { QueryHistory } from './query/statements/history.ts';
import { NameVisibility } from './query/statements/name_visibility.ts';
import { Queries } from './query/statements/queries.ts';
import { QuerySubmitter } from './query/statements/query_submission.ts';
import { recordOf, rowsOfStep } from './resources/idempotent_replay.ts';
import { apiInfo, categoriesWith } from './resources/index.ts';
import { maintenanceOf } from './resources/maintenance.ts';
import { bootstrap, userOfVisitor } from './resources/namespaces/bootstrap.ts';
import type { Context, Services } from './resources/records/handler_context.ts';
import { newTableDefinitions } from './resources/table_definitions/inferred_definition.ts';
import { assembleSchedules } from './resources/tasks/scheduled_calls.ts';
import { type AssembledBackups, assembleBackups, backupKinds } from './resources/transfer/assemble_backups.ts';
import { helpText, readSettings, type Settings, SettingsError, warehouseDefaults } from './settings/read_settings.ts';
import type { Category } from './standard/endpoint.ts';
import { openApi } from './standard/openapi/document.ts';
import { DataDirectoryError, prepareDataDirectory } from './store/data_directory.ts';
import { DiskSpace } from './store/disk_space.ts';
import { StoreChecks } from './store/integrity/scheduled_checks.ts';
import { StoreTooNew } from './store/migrations/migrate.ts';
import { StoreInUse, StoreUnusable } from './store/sqlite.ts';
import { openStore, type Store, storeFileName } from './store/store.ts';
import { Tasks } from './tasks/tasks.ts';
import { Webhooks } from './tasks/webhooks.ts';

export type { RunningServer } from './cli/serve.ts';

/** The maximum time that a running request continues after its credentials are revoked. */
const revalidateEveryMs = 2_000;

export interface ServerHooks {
  /** Fault tests: called before every statement of the store. */
  readonly injectStore?: Parameters<typeof openStore>[0]['inject'];
  /** Fault tests: wraps the engine. */
  readonly wrapEngine?: (engine: Engine) => Engine;
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
  const transport = await transportOf(settings);
  const foundation = await openFoundation(settings, hooks);
  const { store, metrics, observe, dataDirectory } = foundation;
  const opened = await assembleAccess({
    store,
    observe,
    secrets: foundation.secrets,
    rootToken: foundation.token,
    failedLogins: new FailedLogins({ settings, networkOf }),
    auditRetentionDays: settings.auditRetentionDays,
    journal: foundation.journal,
    identityProviderHosts: hostAllowlist('identityProviderHosts', settings.identityProviderHosts),
    resolvePath: (path) => parts.services.catalog.findPrefix(path),
    ownsDescendant: (userId, objectId) => parts.services.catalog.ownsDescendant(userId, objectId),
    ownersOf: (ids) => parts.services.catalog.findByIdsWithDropped(ids),
    makeUser: (visitor) => userOfVisitor(visitor, parts.services),
  });
  const parts = assemble(foundation, opened);
  const { services } = parts;
  hooks.assembled?.(services);
  await bootstrap(services, duckdbEngine.name, { withCatalog: !hooks.withoutDefaultCatalog });
  const { api, http, bodyThreads } = assembleHttp(foundation, services, transport);
  measureLoad(metrics, services.warehouses);
  measureOpenIntents(metrics, services.catalog);
  const stopBackground = await startBackground(parts, api, foundation);
  const url = urlOf(transport, settings.host, await http.listen(settings.host, settings.port));
  observe({ kind: 'serverStarted', url, dataDirectory, ms: performance.now() - started });

  const shutDown = async () => {
    const since = performance.now();
    const share = (part: number) => settings.shutdownTimeoutMs * part;
    const cancelLate = setTimeout(() => services.history.cancelAll(), share(0.4));
    // Cancelled statements still have a response to send.
    await http.close(share(0.75));
    await bodyThreads.stop();
    clearTimeout(cancelLate);
    services.history.cancelAll();
    await stopBackground(share(0.2));
    await store.close();
    foundation.journal.close();
    observe({ kind: 'serverStopped', ms: performance.now() - since });
  };
  let closed: Promise<void> | undefined;
  return {
    url,
    token: foundation.token,
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
  const dataDirectory = resolve(settings.dataDir);
  const spoolDirectory = join(dataDirectory, 'spool');
  const resultsDirectory = join(dataDirectory, 'results');
  const stagingDirectory = join(dataDirectory, 'staging');
  await prepareDataDirectory(dataDirectory);
  const loading = await readLoadSettings(settings, dataDirectory);
  const backupDirectories = await readBackupDirectories(settings.backupDirectories, dataDirectory, loading.directories);
  const store = await openStore({
    file: join(dataDirectory, storeFileName),
    inject: hooks.injectStore,
    checkMs: settings.storeCheckStartMs,
  });
  const journal = await openJournal(dataDirectory, store);
  // The lock on the store must be held before these directories are changed.
  for (const directory of [spoolDirectory, stagingDirectory]) await rm(directory, { recursive: true, force: true });
  for (const directory of [spoolDirectory, stagingDirectory, resultsDirectory])
    await mkdir(directory, { recursive: true, mode: 0o700 });
  const token = await rootToken(dataDirectory);
  const metrics = createMetrics();
  const log = logReader({ level: settings.logLevel, destination: standardError });
  const observe = observers(log, metrics.read);
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
  const webhooks = new Webhooks({ store, secrets, observe, rules: webhookRules, retryPauseMs: hooks.taskRetryPauseMs });
  return {
    settings,
    hooks,
    disk,
    journal,
    webhooks,
    store,
    storeChecks: new StoreChecks({ store, everyMs: settings.storeCheckMinutes * 60_000, observe }),
    secrets,
    token,
    metrics,
    observe,
    dataDirectory,
    spoolDirectory,
    stagingDirectory,
    resultsDirectory,
    loading,
    exportHosts,
    backupDirectories,
  };
}

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

/** Assembles the HTTP interface. */
function assembleHttp(foundation: Foundation, services: Services, transport: Transport) {
  const { settings, store, secrets, metrics, observe, hooks } = foundation;
  const categories = categoriesWith(settings);
  const limits = new RateLimits({ settings, networkOf });
  const bodyThreads = new BodyThreads({
    spoolDirectory: foundation.spoolDirectory,
    threadsMax: settings.bodyThreadsMax,
    memoryBytesMax: settings.bodyThreadMemoryBytesMax,
    timeoutMs: settings.bodyThreadTimeoutMs,
  });
  const api = new RequestPipeline({
    requireRoom: () => foundation.disk.requireRoom(),
    requireQueueCapacity: ([root], call) => services.queries.queueCapacity.require(root?.name ?? '', call),
    categories,
    access: hooks.wrapAuthorizer?.(services.access) ?? services.access,
    limits,
    audit: services.audit,
    addressOf: transport.clientAddressOf,
    idempotencyKeys: services.idempotencyKeys,
    recordOf: (wanted, context) => recordOf(wanted, categories, context),
    earlier: {
      recover: (keyId) => services.catalog.recoverKeyed(keyId),
      rowsOf: (step) => rowsOfStep(step, services),
    },
    contextOf: (call) => ({ ...services, call }),
    pageTokenKey: secrets.derive('page tokens'),
    bodies: new Bodies({
      limits: settings,
      threads: bodyThreads,
      budget: new BodyBudget(settings.largeBodiesBytesMax),
    }),
    observe,
  });
  const operations = systemEndpoints({
    warning: () => [foundation.disk.message, foundation.storeChecks.message].filter(Boolean).join('; ') || undefined,
    ready: () => store.db.selectFrom('settings').select('key').limit(1).execute(),
    metrics,
    document: new Document(() => openApi(categories as readonly Category[], apiInfo(release))),
    documentNeedsCredentials: settings.openApiNeedsCredentials,
  });
  const files = new FileRequests({
    files: services.files,
    addressOf: transport.clientAddressOf,
    limits,
    audit: services.audit,
  });
  return { api, bodyThreads, http: new HttpServer({ api, operations, files, limits: settings, observe, transport }) };
}

/** Called before anything else: errors of the transport are errors of settings. */
async function transportOf(settings: Settings): Promise<Transport> {
  try {
    return await openTransport(settings);
  } catch (error) {
    throw error instanceof TransportError ? new SettingsError(error.message) : error;
  }
}

/** Creates and connects all parts; starts nothing. */
function assemble(foundation: Foundation, opened: AssembledAccess) {
  const { settings, store, observe, hooks } = foundation;
  const { directory, audit: trail } = opened;
  const warehouses = warehousesOf(foundation, { catalog: () => catalog, records: () => services.records });
  const catalog: Catalog = new Catalog({
    store,
    observe,
    engineOf: (name) => warehouses.use(name),
    onTask: () => tasks.notify(),
    requireTaskQuota: (tx, principalId) => caps.requireTaskQuota(tx, principalId),
    addWebhook: (tx, taskId, notify) => foundation.webhooks.add(tx, taskId, notify),
    trail,
  });
  subscribeAccess(catalog, opened);
  const results = new ResultStore(foundation.resultsDirectory);
  const caps = usageCaps(foundation, results, warehouses);
  const creation = { catalog: () => catalog, warehouses, directory, observe };
  const tasks: Tasks = new Tasks({
    ...foundation,
    kinds: [
      ...runQueryKinds({ queries: () => queries, submitter: () => submitter, directory }),
      loadTableKind({ loads: () => loading.loads, directory, secrets: foundation.secrets }),
      loadDatabaseKind({ ...creation, loads: () => loading.newTableLoads, secrets: foundation.secrets }),
      createFilledTableKind({ ...creation, queries: () => queries }),
      optimizeTableKind({ catalog: () => catalog, warehouses }),
      checkCatalogKind({ catalog: () => catalog, warehouses }),
      ...changeKinds(() => catalog),
      exportRowsKind(() => exports),
      ...backupKinds({ opened: () => backups, catalog: () => catalog }),
    ],
    runnersMax: settings.taskRunnersMax,
    retentionDays: settings.taskRetentionDays,
    retryPauseMs: hooks.taskRetryPauseMs,
    requireRoom: (on, principalId) => caps.requireTaskQuota(on, principalId),
    trail,
  });
  const history = new QueryHistory({ db: store.db, entriesMax: settings.queryHistoryMax, observe });
  const { authorizer } = opened.access;
  const shared = { catalog, warehouses, authorizer, trail, observe, keys: opened.idempotencyKeys };
  const resultAccess = new ResultAccess({ store, catalog, authorizer });
  const names = new NameVisibility(shared);
  const queries: Queries = new Queries({ ...shared, directory, names, caps, history, ...paging(foundation) });
  const submitter: QuerySubmitter = new QuerySubmitter({ queries, tasks, results, caps, access: resultAccess });
  const files = assembleFiles(foundation, opened, readableResults(tasks, resultAccess));
  const exports = new Exports({
    queries,
    tasks,
    directory,
    files,
    access: resultAccess,
    ...foundation,
    hosts: foundation.exportHosts,
  });
  const loading = assembleLoads({ ...foundation, ...shared, files, definitions: newTableDefinitions });
  const backups: AssembledBackups = assembleBackups({ ...foundation, ...shared, directory, tasks, release });
  const services: Services = {
    exports,
    ...backups,
    ...opened,
    catalog,
    records: new RecordCache(catalog, settings.recordCacheBytesMax),
    tasks,
    webhooks: foundation.webhooks,
    ...assembleSchedules({ ...foundation, tasks, directory, trail }, categoriesWith(settings), () => services),
    warehouses,
    queries,
    submitter,
    resultAccess,
    history,
    ...loading,
    submitNewTable: submitNewTable({ catalog, secrets: foundation.secrets }),
    submitLoad: submitLoad({ tasks, store, trail, secrets: foundation.secrets }),
    rows: new TableRows({ ...shared, queries }),
    files,
    warehouseDefaults: warehouseDefaults(settings),
    undropSeconds: settings.undropSeconds,
  };
  return { services, statistics: new StatisticsRefresher({ catalog, warehouses, observe }) };
}

function warehousesOf(
  foundation: Foundation,
  { catalog, records }: { readonly catalog: () => Catalog; readonly records: () => RecordCache },
): Warehouses {
  const { settings, hooks, dataDirectory, spoolDirectory, observe } = foundation;
  const engine = duckdbWith({
    confinement: new Confinement(settings.engineConfinement),
    spareEngine: settings.spareEngine,
  });
  return new Warehouses({
    engines: [hooks.wrapEngine?.(engine) ?? engine],
    load: (name) => describeWarehouse(catalog(), name),
    recovered: (warehouse) => catalog().waitForRecovery(warehouse),
    catalogsOf: (warehouse) => catalogsOf(catalog(), warehouse),
    disk: foundation.disk,
    damageChanged: (catalogId) => records().forget(catalogId, null),
    positions: filePositions(foundation.store),
    dataDirectory,
    spoolDirectory,
    readableDirectories: foundation.loading.directories,
    queueWaitMs: settings.queueWaitMs,
    observe,
  });
}

const paging = ({ settings: { pageBytesMax }, spoolDirectory }: Foundation) => ({ spoolDirectory, pageBytesMax });

function subscribeAccess(catalog: Catalog, { access, directory }: AssembledAccess): void {
  catalog.onChange((event) => {
    directory.objectChanged(event);
    if (event.deep) access.authorizer.pathsChanged();
  });
}

const readableResults = (tasks: Tasks, access: ResultAccess) => async (taskId: string) => {
  const task = await tasks.get(taskId);
  return task !== undefined && access.isAllowed(task);
};

function usageCaps({ settings, store }: Foundation, results: ResultStore, warehouses: Warehouses): Quotas {
  return new Quotas({
    settings,
    storedResults: (principalId) => resultUsage(store, results, principalId),
    spilledBytes: async (warehouse) => (await warehouses.condition(warehouse)).backend.spilledBytes,
  });
}

/** Starts background work; returns a function that stops it. */
async function startBackground(
  { services, statistics }: ReturnType<typeof assemble>,
  api: Pick<RequestPipeline<Context>, 'revalidate'>,
  foundation: Foundation,
) {
  const { observe, hooks } = foundation;
  const { tasks, webhooks, schedules, warehouses, history, audit, tokens, oidc, directory } = services;
  const maintenance = maintenanceOf(services, foundation);
  hooks.maintained?.(maintenance.all);
  const guarded = (what: string, work: () => Promise<unknown>) => () => {
    work().catch((error: unknown) => observe({ kind: 'backgroundError', what, error }));
  };
  const stopDisabled = guarded('tasks of disabled users', () =>
    tasks.revalidate((principal) => directory.isActive(principal)),
  );
  foundation.disk.start();
  foundation.storeChecks.start();
  warehouses.start();
  guarded('check of catalog files', async () => {
    for (const name of await warehouseNames(services.catalog)) await warehouses.inspect(name);
  })();
  services.catalog.start();
  history.start();
  audit.start();
  tokens.start();
  statistics.start();
  const stopFiles = await startFiles(services.files, observe);
  await tasks.start();
  schedules.start();
  webhooks.start();
  maintenance.start();
  const revalidation = setInterval(() => {
    api.revalidate();
    stopDisabled();
  }, revalidateEveryMs);
  revalidation.unref();
  return async (deadlineMs: number) => {
    foundation.disk.stop();
    await foundation.storeChecks.stop();
    maintenance.stop();
    await services.catalog.stop();
    await stopFiles();
    clearInterval(revalidation);
    await schedules.stop();
    await tasks.stop(deadlineMs);
    await webhooks.stop();
    await statistics.stop();
    await history.stop();
    await warehouses.stop();
    await tokens.stop();
    await audit.stop();
    oidc.close();
  };
}

/** Loads the library of the engine into this process; only commands need it. */
const checkCatalog: CatalogChecks['checkCatalog'] = async (...file) =>
  (await import('./engines/duckdb/storage/check_file.ts')).checkCatalogFile(...file);

async function main(): Promise<void> {
  // Files of this process and its engines are accessible to its user only: SQLite and DuckDB accept no file mode.
  process.umask(0o077);
  const commands = [
    serveCommand({ start: startServer, rootTokenFileName }),
    ...offlineCommands,
    checkCommand(async () => {
      const repairs = await import('./engines/duckdb/storage/repair_file.ts');
      const startScratchServer = (settings: Settings) => startServer(settings, { withoutDefaultCatalog: true });
      return { checkCatalog, startScratchServer, ...repairs };
    }),
    restoreServerCommand({ checkCatalog }),
  ];
  const { command, argument, flags } = commandOf(process.argv.slice(2), commands);
  const settings = readSettings(flags, process.env, command.name);
  const print = (line: string) => void process.stdout.write(`${line}\n`);
  if (settings.help) return print(helpText(commands));
  if (settings.version) return print(release);
  await command.run(settings, print, argument);
}

/** Errors that the operator can correct, printed without a stack. */
const operatorErrors = [
  SettingsError,
  LoadSettingsError,
  HostPatternError,
  PassphraseError,
  SecretKeyError,
  StoreInUse,
  NoServerError,
  StoreTooNew,
  StoreUnusable,
  StoreBehind,
  DataDirectoryError,
];

if (import.meta.main) {
  main().catch((error: unknown) => {
    const isOperatorError = operatorErrors.some((kind) => error instanceof kind);
    process.stderr.write(`${isOperatorError ? (error as Error).message : ((error as Error).stack ?? String(error))}\n`);
    process.exit(error instanceof SettingsError || error instanceof HostPatternError ? 2 : 1);
  });
}
