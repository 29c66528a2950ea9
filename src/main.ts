// The composition root: settings → store → warehouses → tasks → catalog → access → queries, files, loads, backups (assembly/) → http. Starts
// them in this order, stops them in reverse, and runs the commands. It alone names engines.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { rootTokenFileName } from './access/authentication/root_token.ts';
import { assembleCore } from './assembly/core.ts';
import { type Foundation, openFoundation, type ServerHooks } from './assembly/foundation.ts';
import { assembleServices } from './assembly/operations.ts';
import { measureOpenIntents } from './catalog/open_intents.ts';
import type { CatalogChecks } from './cli/check/catalog_checks.ts';
import { asksForHelp, commandOf, helpWords, isRemote } from './cli/command.ts';
import { localCommands } from './cli/commands.ts';
import type { RunningServer } from './cli/serve.ts';
import { onOutputLost } from './cli/standard_streams.ts';
import { clickhouseWith } from './engines/clickhouse/clickhouse.ts';
import { duckdbWith } from './engines/duckdb/duckdb.ts';
import { Confinement } from './engines/duckdb/sandbox/sandbox.ts';
import type { Engine } from './engines/engine.ts';
import { measureLoad } from './engines/warehouses/warehouse_condition.ts';
import { assembleHttp } from './http/assemble_http.ts';
import { loopbackOf, openTransport, requireInternalUrl, urlOf } from './http/connection/transport.ts';
import type { OpenFileSource } from './model/import_source.ts';
import { rootPrincipal } from './model/principal.ts';
import { release } from './model/release.ts';
import { OperatorError } from './operator/operator_error.ts';
import { startBackground } from './resources/background.ts';
import { recordOf, rowsOfStep } from './resources/idempotent_replay.ts';
import { apiInfo } from './resources/index.ts';
import { bootstrap } from './resources/namespaces/bootstrap.ts';
import type { Context } from './resources/records/handler_context.ts';
import { readSettings, readValidSettings, type Settings } from './settings/read_settings.ts';
import { isShared } from './store/open_store.ts';
import { StoreUnavailable, StoreUnusable } from './store/store_errors.ts';

export type { ServerHooks } from './assembly/foundation.ts';
export type { RunningServer } from './cli/serve.ts';

/** Throws OperatorError: a store that cannot be used, a setting that is wrong, and others. */
export async function startServer(settings: Settings, hooks: ServerHooks = {}): Promise<RunningServer> {
  try {
    return await startParts(settings, hooks);
  } catch (error) {
    if (!(error instanceof StoreUnavailable)) throw error;
    const message = `${error.message}, so that the server cannot start: when it responds, start the server again`;
    throw new StoreUnusable(message, { cause: error });
  }
}

async function startParts(settings: Settings, hooks: ServerHooks): Promise<RunningServer> {
  const started = performance.now();
  const transport = await openTransport(settings);
  if (isShared(settings.store)) requireInternalUrl(settings);
  const foundation = await openFoundation(settings, hooks);
  const { store, metrics, observe, dataDirectory } = foundation;
  const parts = assembleServices(foundation, await assembleCore(foundation, enginesOf(foundation)));
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
  const commands = localCommands({
    start: startServer,
    rootTokenFileName,
    checkCatalog,
    requireTransport: async (settings) => void (await openTransport(settings)),
    confinementOf,
    isLocalEngine: (name) => enginesWithLocalData.has(name),
    loadChecks: async () => {
      const repairs = await import('./engines/duckdb/storage/repair_file.ts');
      const startScratchServer = (settings: Settings) => startServer(settings, { withoutDefaultCatalog: true });
      return { checkCatalog, startScratchServer, ...repairs };
    },
  });
  const argv = process.argv.slice(2);
  if (isRemote(argv, commands) || asksForHelp(argv)) {
    const { runRemote } = await import('./cli/remote/program.ts');
    process.exitCode = await runRemote(isRemote(argv, commands) ? argv : helpWords(argv), process.env, fileSources);
    return;
  }
  const { command, argument, flags } = commandOf(argv, commands);
  const { settings, invalid } = command.acceptsInvalidSettings
    ? readValidSettings(flags, process.env, command.name)
    : { settings: readSettings(flags, process.env, command.name), invalid: [] };
  const write = (line: string) => void process.stdout.write(`${line}\n`);
  if (!command.outlivesReader || settings.version) onOutputLost((exitCode) => process.exit(exitCode));
  if (settings.version) return write(release);
  const answer = await command.run(settings, settings.json ? () => undefined : write, argument, invalid);
  if (settings.json && answer) write(JSON.stringify(answer));
}

/** As JSON with `--json`: `{code, message, result}`, like the failures of the API. */
const failureText = (error: OperatorError): string =>
  process.argv.includes('--json')
    ? JSON.stringify({ code: 'COMMAND_FAILED', message: error.message, result: {} })
    : error.message;

if (import.meta.main) {
  main().catch((error: unknown) => {
    const isOperatorError = error instanceof OperatorError;
    process.stderr.write(`${isOperatorError ? failureText(error) : ((error as Error).stack ?? String(error))}\n`);
    process.exit(isOperatorError ? error.exitCode : 1);
  });
}
