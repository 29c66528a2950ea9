// The only file that knows everything: settings → store → access → engines → catalog → tasks → http, up in that order and down
// in the other.
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
import { openApi } from './standard/openapi.ts';
import { DataDirectoryError, prepareDataDirectory } from './store/data_directory.ts';
import { DiskSpace } from './store/disk_space.ts';
import { StoreChecks } from './store/integrity/scheduled_checks.ts';
import { StoreTooNew } from './store/migrations/migrate.ts';
import { StoreInUse, StoreUnusable } from './store/sqlite.ts';
import { openStore, type Store, storeFileName } from './store/store.ts';
import { Tasks } from './tasks/tasks.ts';
import { Webhooks } from './tasks/webhooks.ts';

export type { RunningServer } from './cli/serve.ts';

/** How long credentials that became void may go on in a request that runs. */
const revalidateEveryMs = 2_000;

export interface ServerHooks {
  /** Fault tests: called before every statement of the store. */
  readonly injectStore?: Parameters<typeof openStore>[0]['inject'];
  /** Fault tests: puts something between the server and its engine. */
  readonly wrapEngine?: (engine: Engine) => Engine;
  /** Benchmarks: puts something else in the place of who asks whether a call is allowed, to see what asking costs. */
  readonly wrapGate?: (gate: RequestAuthorizer) => RequestAuthorizer;
  /** Fault tests: told the parts, so that recovery need not be waited for. */
  readonly assembled?: (services: Services) => void;
  /** Fault tests: told what is done every minute, so that it need not be waited for. */
  readonly maintained?: (all: () => Promise<void>) => void;
  /** Fault tests: the pause before a task's second attempt. */
  readonly taskRetryPauseMs?: number;
  /** Tests: the clock that schedules go by. */
  readonly scheduleClock?: () => number;
}

export async function startServer(settings: Settings, hooks: ServerHooks = {}): Promise<RunningServer> {
  const started = performance.now();
  const transport = await transportOf(settings);
  const ground = await openGround(settings, hooks);
  const { store, metrics, observe, dataDirectory } = ground;
  const opened = await assembleAccess({
    store,
    observe,
    secrets: ground.secrets,
    rootToken: ground.token,
    failedLogins: new FailedLogins({ settings, networkOf }),
    auditRetentionDays: settings.auditRetentionDays,
    journal: ground.journal,
    identityProviderHosts: hostAllowlist('identityProviderHosts', settings.identityProviderHosts),
    resolvePath: (path) => parts.services.catalog.findPrefix(path),
    ownsDescendant: (userId, objectId) => parts.services.catalog.ownsDescendant(userId, objectId),
    ownersOf: (ids) => parts.services.catalog.findByIdsWithDropped(ids),
    makeUser: (visitor) => userOfVisitor(visitor, parts.services),
  });
  const parts = assemble(ground, opened);
  const { services } = parts;
  hooks.assembled?.(services);
  await bootstrap(services, duckdbEngine.name);
  const { api, http, bodyThreads } = front(ground, services, transport);
  measureLoad(metrics, services.warehouses);
  measureOpenIntents(metrics, services.catalog);
  const stopBackground = await startBackground(parts, api, ground);
  const url = urlOf(transport, settings.host, await http.listen(settings.host, settings.port));
  observe({ kind: 'serverStarted', url, dataDirectory, ms: performance.now() - started });

  const closing = async () => {
    const since = performance.now();
    const share = (part: number) => settings.shutdownTimeoutMs * part;
    const cancelLate = setTimeout(() => services.history.cancelAll(), share(0.4));
    // A statement that is cancelled still has its answer to send.
    await http.close(share(0.75));
    await bodyThreads.stop();
    clearTimeout(cancelLate);
    services.history.cancelAll();
    await stopBackground(share(0.2));
    await store.close();
    ground.journal.close();
    observe({ kind: 'serverStopped', ms: performance.now() - since });
  };
  let closed: Promise<void> | undefined;
  return {
    url,
    token: ground.token,
    dataDirectory,
    close: () => {
      closed ??= closing();
      return closed;
    },
  };
}

/** What all parts stand on: the directories, the store, the secrets, who is told of what happens. */
async function openGround(settings: Settings, hooks: ServerHooks) {
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
  // Only who holds the store may touch what is beside it.
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
  const notices = new Webhooks({ store, secrets, observe, rules: webhookRules, retryPauseMs: hooks.taskRetryPauseMs });
  return {
    settings,
    hooks,
    disk,
    journal,
    notices,
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

/** A store that lacks acknowledged changes is let go: another may be put in its place. */
async function openJournal(dataDirectory: string, store: Store): Promise<AuditJournal> {
  try {
    return await AuditJournal.open(dataDirectory, store);
  } catch (error) {
    await store.close();
    throw error;
  }
}

type Ground = Awaited<ReturnType<typeof openGround>>;

/** What callers meet. */
function front(ground: Ground, services: Services, transport: Transport) {
  const { settings, store, secrets, metrics, observe, hooks } = ground;
  const categories = categoriesWith(settings);
  const limits = new RateLimits({ settings, networkOf });
  const bodyThreads = new BodyThreads({
    spoolDirectory: ground.spoolDirectory,
    threadsMax: settings.bodyThreadsMax,
    memoryBytesMax: settings.bodyThreadMemoryBytesMax,
    timeoutMs: settings.bodyThreadTimeoutMs,
  });
  const api = new RequestPipeline({
    requireRoom: () => ground.disk.requireRoom(),
    requirePlace: ([root], call) => services.queries.queuePlaces.require(root?.name ?? '', call),
    categories,
    access: hooks.wrapGate?.(services.access) ?? services.access,
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
    warning: () => [ground.disk.message, ground.storeChecks.message].filter(Boolean).join('; ') || undefined,
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

/** Before anything else is touched: what is wrong with it is for who wrote the settings to mend. */
async function transportOf(settings: Settings): Promise<Transport> {
  try {
    return await openTransport(settings);
  } catch (error) {
    throw error instanceof TransportError ? new SettingsError(error.message) : error;
  }
}

/** Every part, made and told of the others; nothing runs yet. */
function assemble(ground: Ground, opened: AssembledAccess) {
  const { settings, store, observe, hooks } = ground;
  const { directory, audit: trail } = opened;
  const warehouses = warehousesOf(ground, { catalog: () => catalog, records: () => services.records });
  const catalog: Catalog = new Catalog({
    store,
    observe,
    engineOf: (name) => warehouses.use(name),
    onTask: () => tasks.notify(),
    requireTaskQuota: (tx, principalId) => caps.requireTaskQuota(tx, principalId),
    addWebhook: (tx, taskId, notify) => ground.notices.keep(tx, taskId, notify),
    trail,
  });
  tellAccess(catalog, opened);
  const results = new ResultStore(ground.resultsDirectory);
  const caps = usageCaps(ground, results, warehouses);
  const filling = { catalog: () => catalog, warehouses, directory, observe };
  const tasks: Tasks = new Tasks({
    ...ground,
    kinds: [
      ...runQueryKinds({ queries: () => queries, submitter: () => submitter, directory }),
      loadTableKind({ loads: () => loading.loads, directory, secrets: ground.secrets }),
      loadDatabaseKind({ ...filling, loads: () => loading.newTableLoads, secrets: ground.secrets }),
      createFilledTableKind({ ...filling, queries: () => queries }),
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
  const queries: Queries = new Queries({ ...shared, directory, names, caps, history, ...paging(ground) });
  const submitter: QuerySubmitter = new QuerySubmitter({ queries, tasks, results, caps, access: resultAccess });
  const files = assembleFiles(ground, opened, readableResults(tasks, resultAccess));
  const exports = new Exports({
    queries,
    tasks,
    directory,
    files,
    access: resultAccess,
    ...ground,
    hosts: ground.exportHosts,
  });
  const loading = assembleLoads({ ...ground, ...shared, files, definitions: newTableDefinitions });
  const backups: AssembledBackups = assembleBackups({ ...ground, ...shared, directory, tasks, release });
  const services: Services = {
    exports,
    ...backups,
    ...opened,
    catalog,
    records: new RecordCache(catalog, settings.recordCacheBytesMax),
    tasks,
    notices: ground.notices,
    ...assembleSchedules({ ...ground, tasks, directory, trail }, categoriesWith(settings), () => services),
    warehouses,
    queries,
    submitter,
    resultAccess,
    history,
    ...loading,
    submitNewTable: submitNewTable({ catalog, secrets: ground.secrets }),
    submitLoad: submitLoad({ tasks, store, trail, secrets: ground.secrets }),
    rows: new TableRows({ ...shared, queries }),
    files,
    warehouseDefaults: warehouseDefaults(settings),
    undropSeconds: settings.undropSeconds,
  };
  return { services, statistics: new StatisticsRefresher({ catalog, warehouses, observe }) };
}

function warehousesOf(
  ground: Ground,
  { catalog, records }: { readonly catalog: () => Catalog; readonly records: () => RecordCache },
): Warehouses {
  const { settings, hooks, dataDirectory, spoolDirectory, observe } = ground;
  const engine = duckdbWith({
    confinement: new Confinement(settings.engineConfinement),
    spareEngine: settings.spareEngine,
  });
  return new Warehouses({
    engines: [hooks.wrapEngine?.(engine) ?? engine],
    load: (name) => describeWarehouse(catalog(), name),
    recovered: (warehouse) => catalog().waitForRecovery(warehouse),
    catalogsOf: (warehouse) => catalogsOf(catalog(), warehouse),
    disk: ground.disk,
    damageChanged: (catalogId) => records().forget(catalogId, null),
    positions: filePositions(ground.store),
    dataDirectory,
    spoolDirectory,
    readableDirectories: ground.loading.directories,
    queueWaitMs: settings.queueWaitMs,
    observe,
  });
}

const paging = ({ settings: { pageBytesMax }, spoolDirectory }: Ground) => ({ spoolDirectory, pageBytesMax });

function tellAccess(catalog: Catalog, { access, directory }: AssembledAccess): void {
  catalog.onChange((event) => {
    directory.objectChanged(event);
    if (event.deep) access.authorizer.pathsChanged();
  });
}

const readableResults = (tasks: Tasks, access: ResultAccess) => async (taskId: string) => {
  const task = await tasks.get(taskId);
  return task !== undefined && access.isAllowed(task);
};

function usageCaps({ settings, store }: Ground, results: ResultStore, warehouses: Warehouses): Quotas {
  return new Quotas({
    settings,
    storedResults: (principalId) => resultUsage(store, results, principalId),
    spilledBytes: async (warehouse) => (await warehouses.condition(warehouse)).backend.spilledBytes,
  });
}

/** Starts what runs by itself; the answer stops it. */
async function startBackground(
  { services, statistics }: ReturnType<typeof assemble>,
  api: Pick<RequestPipeline<Context>, 'revalidate'>,
  ground: Ground,
) {
  const { observe, hooks } = ground;
  const { tasks, notices, schedules, warehouses, history, audit, tokens, oidc, directory } = services;
  const maintenance = maintenanceOf(services, ground);
  hooks.maintained?.(maintenance.all);
  const guarded = (what: string, work: () => Promise<unknown>) => () => {
    work().catch((error: unknown) => observe({ kind: 'backgroundError', what, error }));
  };
  const stopDisabled = guarded('tasks of disabled users', () =>
    tasks.revalidate((principal) => directory.isActive(principal)),
  );
  ground.disk.start();
  ground.storeChecks.start();
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
  notices.start();
  maintenance.start();
  const revalidation = setInterval(() => {
    api.revalidate();
    stopDisabled();
  }, revalidateEveryMs);
  revalidation.unref();
  return async (deadlineMs: number) => {
    ground.disk.stop();
    await ground.storeChecks.stop();
    maintenance.stop();
    await services.catalog.stop();
    await stopFiles();
    clearInterval(revalidation);
    await schedules.stop();
    await tasks.stop(deadlineMs);
    await notices.stop();
    await statistics.stop();
    await history.stop();
    await warehouses.stop();
    await tokens.stop();
    await audit.stop();
    oidc.close();
  };
}

/** Brings the engine's library into this process, which a server does not need. */
const checkCatalog: CatalogChecks['checkCatalog'] = async (...file) =>
  (await import('./engines/duckdb/storage/check_file.ts')).checkCatalogFile(...file);

async function main(): Promise<void> {
  // Whatever this process and its engines write is the user's alone, however the file is opened: SQLite and DuckDB take no mode.
  process.umask(0o077);
  const commands = [
    serveCommand({ start: startServer, rootTokenFileName }),
    ...offlineCommands,
    checkCommand(async () => ({ checkCatalog, ...(await import('./engines/duckdb/storage/repair_file.ts')) })),
    restoreServerCommand({ checkCatalog }),
  ];
  const { command, argument, flags } = commandOf(process.argv.slice(2), commands);
  const settings = readSettings(flags, process.env, command.name);
  const say = (line: string) => void process.stdout.write(`${line}\n`);
  if (settings.help) return say(helpText(commands));
  if (settings.version) return say(release);
  await command.run(settings, say, argument);
}

/** Told without a stack: who starts the command can mend it. */
const forPeople = [
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
    const plain = forPeople.some((kind) => error instanceof kind);
    process.stderr.write(`${plain ? (error as Error).message : ((error as Error).stack ?? String(error))}\n`);
    process.exit(error instanceof SettingsError || error instanceof HostPatternError ? 2 : 1);
  });
}
