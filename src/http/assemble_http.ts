// Creates the HTTP interface: the pipeline of API requests, downloads and uploads by link, and the endpoints of the system.
import type { IncomingMessage } from 'node:http';
import type { AuditTrail } from '../access/audit/audit_log.ts';
import type { RateLimits } from '../access/limits/rate_limits.ts';
import type { Secrets } from '../access/secrets/secrets.ts';
import type { FileStore } from '../files/file_store.ts';
import type { Metrics } from '../observe/metrics.ts';
import type { Category } from '../standard/endpoint.ts';
import { type OpenApiInfo, openApi } from '../standard/openapi/document.ts';
import type { DiskSpace } from '../store/disk_space.ts';
import type { Servers } from '../store/servers.ts';
import type { StoreChecks } from '../store/sqlite/integrity/scheduled_checks.ts';
import type { Store } from '../store/store.ts';
import { Bodies, type BodyLimits } from './bodies/bodies.ts';
import { BodyBudget } from './bodies/body_budget.ts';
import { BodyThreads } from './bodies/body_threads.ts';
import type { Transport } from './connection/transport.ts';
import { ConsolePages } from './console/console_pages.ts';
import { SignInRequests, type SignInRequestsOptions } from './console/sign_in_requests.ts';
import { Document } from './document.ts';
import { FileRequests } from './files.ts';
import { Forwarder } from './forwarding/forwarder.ts';
import { RequestForwarding, type RequestServers } from './forwarding/request_forwarding.ts';
import { RequestPipeline, type RequestPipelineOptions } from './request_pipeline.ts';
import { type HttpLimits, HttpServer } from './server.ts';
import { systemEndpoints } from './system_endpoints.ts';

type FromPipeline =
  | 'categories'
  | 'access'
  | 'requireQueueCapacity'
  | 'idempotencyKeys'
  | 'recordOf'
  | 'earlier'
  | 'contextOf'
  | 'changes'
  | 'observe';

export interface AssembleHttpOptions<Context> extends Pick<RequestPipelineOptions<Context>, FromPipeline> {
  readonly settings: BodyLimits &
    HttpLimits & {
      readonly bodyThreadsMax: number;
      readonly bodyThreadMemoryBytesMax: number;
      readonly bodyThreadTimeoutMs: number;
      readonly largeBodiesBytesMax: number;
      readonly openApiNeedsCredentials: boolean;
    };
  readonly rateLimits: RateLimits;
  readonly transport: Transport;
  readonly store: Store;
  readonly storeChecks: StoreChecks | undefined;
  readonly disk: DiskSpace;
  readonly secrets: Secrets;
  readonly metrics: Metrics;
  readonly audit: AuditTrail;
  readonly files: FileStore;
  readonly signIn: Pick<SignInRequestsOptions, 'consoleTokens' | 'oidcSignIn' | 'failedLogins'>;
  readonly spoolDirectory: string;
  readonly apiInfo: OpenApiInfo;
  /** Absent if this server alone uses the store. */
  readonly servers?: Pick<Servers, 'serverId' | 'find'> | undefined;
  readonly requestServers?: RequestServers<Context> | undefined;
  readonly rootToken: string;
}

export function assembleHttp<Context>(parts: AssembleHttpOptions<Context>) {
  const {
    settings,
    rateLimits: limits,
    store,
    changes,
    disk,
    storeChecks,
    metrics,
    audit,
    observe,
    categories,
  } = parts;
  const bodyThreads = new BodyThreads({
    spoolDirectory: parts.spoolDirectory,
    threadsMax: settings.bodyThreadsMax,
    memoryBytesMax: settings.bodyThreadMemoryBytesMax,
    timeoutMs: settings.bodyThreadTimeoutMs,
    heldMsMax: settings.bodyThreadTimeoutMs,
  });
  const { forwarder, forwarding } = forwardingOf(parts);
  const { clientAddressOf } = parts.transport;
  const addressOf = forwarder
    ? (incoming: IncomingMessage) => forwarder.received(incoming)?.address ?? clientAddressOf(incoming)
    : clientAddressOf;
  const transport = { ...parts.transport, clientAddressOf: addressOf };
  const api = new RequestPipeline({
    ...parts,
    limits,
    forwarding,
    addressOf,
    requireRoom: () => disk.requireRoom(),
    pageTokenKey: parts.secrets.derive('page tokens'),
    bodies: new Bodies({
      limits: settings,
      threads: bodyThreads,
      budget: new BodyBudget(settings.largeBodiesBytesMax),
    }),
  });
  const operations = systemEndpoints({
    warning: () => [disk.message, storeChecks?.message].filter(Boolean).join('; ') || undefined,
    ready: async () => {
      await changes.upToDate();
      await store.db.selectFrom('settings').select('key').limit(1).execute();
    },
    metrics,
    document: new Document(() => openApi(categories as readonly Category[], parts.apiInfo)),
    documentNeedsCredentials: settings.openApiNeedsCredentials,
  });
  const files = new FileRequests({ files: parts.files, addressOf, limits, audit, forwarding });
  const signIn = new SignInRequests({ ...parts.signIn, audit, limits, addressOf });
  const console = new ConsolePages();
  const operation = (path: string) => (Object.hasOwn(operations, path) ? operations[path] : console.find(path));
  const http = new HttpServer({ api, operation, files, signIn, limits: settings, observe, transport });
  return { api, http, bodyThreads, forwarder };
}

function forwardingOf<Context>({
  servers,
  requestServers,
  secrets,
  transport,
  rootToken,
  changes,
}: AssembleHttpOptions<Context>) {
  if (!servers || !requestServers) return {};
  const forwarder = new Forwarder({
    serverId: servers.serverId,
    key: secrets.derive('forwarded requests'),
    find: (serverId) => servers.find(serverId),
    addressOf: transport.clientAddressOf,
    changes,
  });
  return { forwarder, forwarding: new RequestForwarding(forwarder, requestServers, rootToken) };
}
