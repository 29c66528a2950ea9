// Starts the parts of a server in their order, and stops them in reverse: settings → store → warehouses → tasks → catalog → access → queries,
// files, loads, backups → http. main.ts provides the engines.
import { measureOpenIntents } from '../catalog/open_intents.ts';
import type { RunningServer } from '../cli/serve.ts';
import type { Engine } from '../engines/port/engine.ts';
import { measureLoad } from '../engines/warehouses/warehouse_condition.ts';
import { assembleHttp } from '../http/assemble_http.ts';
import { loopbackOf, openTransport, requireInternalUrl, urlOf } from '../http/connection/transport.ts';
import { rootPrincipal } from '../model/principal.ts';
import { release } from '../model/release.ts';
import { startBackground } from '../resources/background.ts';
import { recordOf, rowsOfStep } from '../resources/idempotent_replay.ts';
import { apiInfo } from '../resources/index.ts';
import { bootstrap } from '../resources/namespaces/bootstrap.ts';
import type { Context } from '../resources/records/handler_context.ts';
import type { Settings } from '../settings/read_settings.ts';
import { isShared } from '../store/open_store.ts';
import { StoreUnavailable, StoreUnusable } from '../store/store_errors.ts';
import { assembleCore } from './core.ts';
import { type Foundation, openFoundation, type ServerHooks } from './foundation.ts';
import { assembleServices } from './operations.ts';

/** The first engine is that of warehouses for which none is requested. */
export type EnginesOf = (foundation: Foundation) => Promise<readonly Engine[]>;

/** Throws OperatorError: a store that cannot be used, a setting that is wrong, and others. */
export async function startServer(
  settings: Settings,
  hooks: ServerHooks,
  enginesOf: EnginesOf,
): Promise<RunningServer> {
  try {
    return await startParts(settings, hooks, enginesOf);
  } catch (error) {
    if (!(error instanceof StoreUnavailable)) throw error;
    const message = `${error.message}, so that the server cannot start: when it responds, start the server again`;
    throw new StoreUnusable(message, { cause: error });
  }
}

async function startParts(settings: Settings, hooks: ServerHooks, enginesOf: EnginesOf): Promise<RunningServer> {
  const started = performance.now();
  const transport = await openTransport(settings);
  if (isShared(settings.store)) requireInternalUrl(settings);
  const foundation = await openFoundation(settings, hooks);
  const { store, metrics, observe, dataDirectory } = foundation;
  const parts = assembleServices(foundation, await assembleCore(foundation, await enginesOf(foundation)));
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
    await parts.reporter?.stop();
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
