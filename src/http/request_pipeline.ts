// The request pipeline of the REST API: route → authenticate → rate limits → media types → permission → parameters → handler →
// envelope → audit. It handles no sockets except to read the body, and depends on no category.
import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AuditTrail } from '../access/audit/audit_log.ts';
import type { Authenticator, Session } from '../access/authentication/authenticator.ts';
import type { Authorizer } from '../access/authorization/authorizer.ts';
import type { RateLimits } from '../access/limits/rate_limits.ts';
import type { Privilege } from '../model/privileges.ts';
import type { Observe } from '../observe/observations.ts';
import type { Code } from '../standard/codes.ts';
import {
  acceptsExpectedVersion,
  type Category,
  costOf,
  type Endpoint,
  type Input,
  isMutation,
  isPaged,
  nameFieldOf,
  needsDiskSpace,
  type Outcome,
  type Permission,
} from '../standard/endpoint.ts';
import { type ApiResponse, failureResponse, successResponse, withDeprecation } from '../standard/envelope.ts';
import { Failure } from '../standard/failure.ts';
import { acceptsJson } from '../standard/media.ts';
import { pageSizeDefault } from '../standard/page_limits.ts';
import { pageScope, readPageToken, signPageToken } from '../standard/page_token.ts';
import { listKeyOf, parametersOf, readQuery } from '../standard/parameters.ts';
import { type Route, Routes, type Segment, segmentsOfUri } from '../standard/paths.ts';
import type { Bodies } from './bodies/bodies.ts';
import { discardSmallBody, hasBody, untilParsed } from './bodies/body.ts';
import { CallFailures } from './call_failures.ts';
import { AlreadyForwarded, type RequestForwarding } from './forwarding/request_forwarding.ts';
import { KeyedCalls, type KeyedCallsOptions, type PreparedCall } from './idempotency/keyed_calls.ts';
import { keyOf } from './idempotency/replay.ts';
import { expectedVersionFor, preconditionOf } from './preconditions.ts';
import { type Authenticated, RequestAuthentication, refuseOtherSites, revoked } from './request_authentication.ts';
import { type Call, CallActor, RequestContext, RequestContexts } from './request_context.ts';
import { invalidRequestId, misspelledHeader, readAfterHeader, readAfterOf, requestIdOf } from './request_headers.ts';
import { authorizationTarget, authorizedSegments, operationName, optionsResponse } from './route_metadata.ts';

/** The part of access control that the pipeline uses. */
export interface RequestAuthorizer extends Pick<Authenticator, 'authenticate' | 'isValid'> {
  readonly authorizer: Pick<
    Authorizer,
    'authorize' | 'generation' | 'identityOf' | 'require' | 'record' | 'requireStillAllowed'
  >;
}

/** What this server knows of the changes of others on the same store. */
export interface FollowedChanges {
  /** Undefined if it is recent, and includes a position. Otherwise waits; throws STORE_UNAVAILABLE. */
  upToDate(position?: number): Promise<void> | undefined;
  /** The position that includes all that responses may show; undefined if there are no other servers. */
  readonly position: number | undefined;
}

export interface RequestPipelineOptions<Context> extends KeyedCallsOptions<Context> {
  readonly categories: readonly Category<Context>[];
  readonly access: RequestAuthorizer;
  readonly limits: RateLimits;
  readonly audit: Pick<AuditTrail, 'enqueue'>;
  readonly addressOf: (incoming: IncomingMessage) => string;
  readonly pageTokenKey: Uint8Array;
  readonly bodies: Bodies;
  /** Throws STORAGE_FULL when the disk is almost full. */
  readonly requireRoom: () => void;
  readonly changes: FollowedChanges;
  /** Throws WAREHOUSE_BUSY when the warehouse queue for this object is full. */
  readonly requireQueueCapacity: (path: readonly Segment[], call: Call) => Promise<void>;
  /** Absent if this server alone uses the store. */
  readonly forwarding?: RequestForwarding<Context> | undefined;
  readonly observe: Observe;
}

/** Summary of an ended request, for the log. */
export interface RequestSummary {
  readonly response: ApiResponse;
  readonly requestId: string;
  readonly endpoint: string;
  readonly code: string;
  readonly principal: string | undefined;
  readonly session: Session | undefined;
}

export class RequestPipeline<Context> {
  readonly #options: RequestPipelineOptions<Context>;
  readonly #routes: Routes<Context>;
  readonly #authentication: RequestAuthentication;
  readonly #running = new RequestContexts();
  readonly #failures: CallFailures;
  readonly #keyed: KeyedCalls<Context>;
  readonly #slowResponses = new Map<ServerResponse, Authenticated>();

  constructor(options: RequestPipelineOptions<Context>) {
    this.#options = options;
    this.#routes = new Routes(options.categories);
    this.#authentication = new RequestAuthentication(options);
    this.#failures = new CallFailures(options.observe);
    this.#keyed = new KeyedCalls(options, this.#failures);
  }

  async call(incoming: IncomingMessage, outgoing: ServerResponse): Promise<RequestSummary> {
    const { requestId, isValid } = requestIdOf(incoming);
    const progress: RequestProgress<Context> = {};
    let response: ApiResponse;
    let code: Code | '0' = '0';
    try {
      if (!isValid) throw invalidRequestId();
      response = await this.#handle(incoming, outgoing, requestId, progress);
    } catch (error) {
      if (error instanceof AlreadyForwarded) return this.#summaryOf(progress, error.response, requestId);
      // A failure of a handler already has its outcome (see #run). Any other failure happened before the handler started.
      const failure = this.#failures.withOutcome(error, requestId, 'notApplied');
      code = failure.code;
      response = failureResponse(failure);
      await untilParsed(incoming);
      // The client is expected to retry, so the connection is kept usable.
      if (refusedBeforeBody.has(code)) await discardSmallBody(incoming);
    }
    const { endpoint, actor } = progress;
    if (progress.isForwarded) return this.#summaryOf(progress, response, requestId);
    if (endpoint && actor) this.#audit(endpoint, actor, code);
    if (endpoint?.deprecated) response = withDeprecation(response, endpoint.deprecated);
    const { position } = this.#options.changes;
    if (position !== undefined && progress.session)
      response = { ...response, headers: { ...response.headers, [readAfterHeader]: String(position) } };
    return { ...this.#summaryOf(progress, response, requestId), code };
  }

  /** Of a forwarded request; the server that processed it records it in its audit trail, and knows the code of a failure. */
  #summaryOf({ actor, session }: RequestProgress<Context>, response: ApiResponse, requestId: string): RequestSummary {
    const code = response.status < 300 ? '0' : '-';
    const principal = actor?.name || undefined;
    return { response, requestId, endpoint: actor?.action ?? '-', code, principal, session };
  }

  /** The failure for an unsupported method: METHOD_NOT_ALLOWED with the methods of the path, or API_NOT_FOUND. */
  refusalOfMethod(method: string, path: string): Failure {
    try {
      this.#routes.resolve(method, path);
    } catch (error) {
      if (error instanceof Failure) return error;
      throw error;
    }
    throw new Error(`${path} supports ${method}`);
  }

  /** Aborts running requests whose credentials are no longer valid. Call it every few seconds: some cannot be checked each time. */
  revalidate(): void {
    const check = (call: Authenticated, end: () => void) =>
      this.#authentication.authenticateAgain(call)?.catch((error: unknown) => {
        if (error instanceof Failure && error.code === 'UNAUTHENTICATED') end();
      });
    for (const call of this.#running.all) if (!call.revoked) check(call, () => call.revoke());
    for (const [outgoing, call] of this.#slowResponses) if (!outgoing.destroyed) check(call, () => outgoing.destroy());
  }

  /** Includes a response that takes long to send in `revalidate`. */
  watch(outgoing: ServerResponse, session: Session): void {
    const address = this.#options.addressOf(outgoing.req);
    this.#slowResponses.set(outgoing, { session, incoming: outgoing.req, actor: { address } });
    outgoing.once('close', () => this.#slowResponses.delete(outgoing));
  }

  /** Admits a request to a system endpoint outside the API. Throws the same failures as an API request. */
  async admit(
    incoming: IncomingMessage,
    path: string,
    needs: 'anyone' | 'credentials' | { readonly privilege: Privilege; readonly category: string },
  ): Promise<void> {
    const { access, audit, limits, addressOf } = this.#options;
    const actor = new CallActor(path.slice(1), randomUUID(), addressOf(incoming), path);
    try {
      if (needs === 'anyone') return limits.chargeAddress(actor.address, systemEndpointCost);
      const { principal } = await this.#authentication.authenticate(incoming, actor.address);
      actor.id = principal.id;
      actor.name = principal.name;
      limits.charge(principal.id, actor.address, systemEndpointCost);
      if (needs !== 'credentials') {
        const { privilege, category } = needs;
        await access.authorizer.require(principal, privilege, { category, path: [] });
      }
    } catch (error) {
      if (error instanceof Failure)
        audit.enqueue(actor.id === '' ? anonymousActor(actor) : actor, { outcome: error.code });
      throw error;
    }
  }

  async #handle(
    incoming: IncomingMessage,
    outgoing: ServerResponse,
    requestId: string,
    progress: RequestProgress<Context>,
  ): Promise<ApiResponse> {
    const { limits, addressOf } = this.#options;
    const url = incoming.url as string;
    const mark = url.indexOf('?');
    const path = mark < 0 ? url : url.slice(0, mark);
    const method = incoming.method as string;
    if (method === 'OPTIONS') return optionsResponse(this.#routes, path);
    const route = this.#routes.resolve(method, path);
    const { endpoint } = route;
    const actor = new CallActor(operationName(route), requestId, addressOf(incoming), path);
    progress.endpoint = endpoint;
    progress.actor = actor;
    refuseOtherSites(incoming);
    // Credentials and rights may have been revoked on another server.
    const following = this.#options.changes.upToDate(readAfterOf(incoming));
    if (following) await following;
    const authentication = this.#authentication.authenticate(incoming, actor.address);
    const session = authentication instanceof Promise ? await authentication : authentication;
    progress.session = session;
    const { principal } = session;
    actor.id = principal.id;
    actor.name = principal.name;
    const { forwarding } = this.#options;
    const message = { incoming, outgoing, requestId, principalId: principal.id, isRoot: isRoot(session) };
    const answer = forwarding && (await forwarding.byPath(route, message));
    if (answer && !(answer instanceof Failure)) {
      progress.isForwarded = true;
      return answer;
    }
    const received = forwarding?.received(incoming);
    if (!received?.isCharged) limits.charge(principal.id, actor.address, costOf(endpoint));
    if (!acceptsJson(incoming.headers.accept)) {
      throw new Failure('NOT_ACCEPTABLE', 'responses are application/json; the Accept header does not allow it');
    }
    const parameters = parametersOf(endpoint);
    const query = readQuery(mark < 0 ? '' : url.slice(mark + 1), parameters);
    const misspelled = isMutation(endpoint) ? misspelledHeader(incoming) : undefined;
    if (misspelled) throw misspelled;
    const key = keyOf(incoming, endpoint);
    const call = new RequestContext(session, actor, route.version, outgoing, {
      isKeyed: key !== undefined,
      isForwarded: received !== undefined,
    });
    call.authorizeAgain = () => this.#authorizeAgain(route, call);
    if (key !== undefined) {
      const steps = {
        authorize: () => this.#authorizeHere(route, call, answer),
        authenticateAgain: () => this.#authentication.authenticateAgain(call),
        requireQueueCapacity: () => this.#requireQueueCapacity(route, call),
        receive: () => this.#receive(incoming, outgoing, route, call, true),
        prepare: (body: Record<string, unknown> | undefined) => this.#prepare(route, call, incoming, body, query),
      };
      return await this.#keyed.respond({ incoming, route, call, key, query, steps });
    }
    // Authorization happens before the body is read.
    const authorization = this.#authorizeHere(route, call, answer);
    if (authorization) await authorization;
    if (endpoint.queued) await this.#requireQueueCapacity(route, call);
    const body = endpoint.body
      ? await (await this.#receive(incoming, outgoing, route, call, false))()
      : noBody(incoming, endpoint.verb);
    const { run, successResponse } = await this.#prepare(route, call, incoming, body, query);
    return successResponse(await run());
  }

  /** Prepares a call whose body has been read. */
  async #prepare(
    route: Route<Context>,
    call: RequestContext,
    incoming: IncomingMessage,
    body: Record<string, unknown> | undefined,
    query: Readonly<Record<string, unknown>>,
  ): Promise<PreparedCall> {
    this.#setPrecondition(route, call, incoming, body);
    const scope = isPaged(route.endpoint) ? await this.#pageScope(route, body ?? {}) : '';
    return {
      run: async () => {
        // The body may have taken minutes to arrive, and another request with the same key to end.
        const again = this.#authorizeAgain(route, call);
        if (again) await again;
        return this.#run(route, call, this.#inputOf(route, call, body, query, scope));
      },
      successResponse: (outcome) => this.#toResponse(outcome, route.category, scope),
    };
  }

  /** Preconditions are checked in each attempt of the handler. `expectedVersion` is removed from the body. */
  #setPrecondition(
    route: Route<Context>,
    call: RequestContext,
    incoming: IncomingMessage,
    body: Record<string, unknown> | undefined,
  ): void {
    const { endpoint } = route;
    const precondition = preconditionOf(endpoint, incoming.headers, takeExpectedVersion(endpoint, body));
    if (!precondition) return;
    call.checkPrecondition = async () => {
      call.actor.expectedVersion = undefined;
      call.actor.expectedVersion = await expectedVersionFor(precondition, route, this.#options.contextOf(call));
    };
  }

  async #pageScope(route: Route<Context>, body: object): Promise<string> {
    const holder = await this.#options.access.authorizer.identityOf(route.segments);
    return pageScope(operationName(route), holder, body);
  }

  /** Throws INVALID_PAGE_TOKEN. */
  #inputOf(
    { endpoint, path, ifExists, ...route }: Route<Context>,
    { objects }: RequestContext,
    body: Record<string, unknown> | undefined,
    query: Readonly<Record<string, unknown>>,
    scope: string,
  ): Input<unknown, unknown> {
    const { pageToken, pageSize } = (endpoint.verb === 'list' ? query : (body ?? {})) as {
      pageToken?: string;
      pageSize?: number;
    };
    const limit = pageSize ?? pageSizeDefault;
    const segments = mayChange(endpoint) ? authorizedSegments(route.segments, objects) : route.segments;
    if (scope === '' || pageToken === undefined) return { path, segments, body, query, page: { limit }, ifExists };
    const after = readPageToken(this.#options.pageTokenKey, scope, pageToken);
    return { path, segments, body, query, page: { limit, after }, ifExists };
  }

  /** `unreachable`: why another server cannot process the request, which only an authorized caller learns. */
  #authorizeHere(
    route: Route<Context>,
    call: RequestContext,
    unreachable: Failure | undefined,
  ): Promise<void> | undefined {
    const authorization = this.#authorize(route, call);
    if (!unreachable) return authorization;
    return Promise.resolve(authorization).then(() => Promise.reject(unreachable));
  }

  /** Returns a promise only when the store must be queried. */
  #authorize(route: Route<Context>, call: RequestContext): Promise<void> | undefined {
    const { permission } = route.endpoint;
    if (permission.on === 'target') return undefined;
    const { authorizer } = this.#options.access;
    const { generation } = authorizer;
    const decision = authorizer.authorize(call.principal, permission, authorizationTarget(route));
    if (decision instanceof Promise) return decision.then((made) => call.permit(made, generation));
    call.permit(decision, generation);
    return undefined;
  }

  /** Repeats what may have changed since of the authentication and authorization of a request. Undefined: nothing has. */
  #authorizeAgain(route: Route<Context>, call: RequestContext): Promise<void> | undefined {
    const { changes, access } = this.#options;
    const following = changes.upToDate();
    if (following) return following.then(() => this.#authorizeAgain(route, call));
    const authentication = this.#authentication.authenticateAgain(call);
    if (authentication) return authentication.then(() => this.#authorize(route, call));
    return call.generation === access.authorizer.generation ? undefined : this.#authorize(route, call);
  }

  /** Runs before the body is read, so that refusing a request on a busy server is cheap. */
  async #requireQueueCapacity({ endpoint, segments }: Route<Context>, call: RequestContext): Promise<void> {
    if (endpoint.queued) await this.#options.requireQueueCapacity(segments, call);
  }

  async #run(route: Route<Context>, call: RequestContext, input: Input<unknown, unknown>): Promise<Outcome> {
    const { endpoint, category } = route;
    const { contextOf, access } = this.#options;
    let outcome: Outcome;
    this.#running.add(call);
    try {
      if (needsDiskSpace(endpoint)) this.#options.requireRoom();
      outcome = await endpoint.handle(input, contextOf(call));
      if (!call.permitted) throw new Error(`${call.actor.action} did not authorize its target`);
      if (call.revoked) throw revoked();
    } catch (error) {
      throw call.revoked ? revoked() : this.#failures.ofHandler(error, endpoint, call.actor);
    } finally {
      this.#running.remove(call);
    }
    // An existing object is returned only to callers who may read it. Those of permissions on a `target` or the
    // `caller` need no further check.
    if (outcome.outcome === 'created' && !outcome.created && isOnPath(endpoint.permission)) {
      const path = segmentsOfUri(outcome.uri);
      const target = { category: path[0]?.category ?? category.name, path };
      await access.authorizer.authorize(call.principal, readPermission, target);
    }
    return outcome;
  }

  #toResponse(outcome: Outcome, category: Category<Context>, scope: string): ApiResponse {
    const { pageTokenKey } = this.#options;
    return successResponse(
      outcome,
      () => listKeyOf(category),
      (key) => signPageToken(pageTokenKey, scope, key),
    );
  }

  /** Applied changes write their own audit records. This adds records for refusals and for changes that had no effect. */
  #audit(endpoint: Endpoint<Context>, actor: CallActor, code: Code | '0'): void {
    const refusal = code !== '0' && refusals.has(code);
    if (refusal || (isMutation(endpoint) && !actor.audited))
      this.#options.audit.enqueue(actor.id === '' ? anonymousActor(actor) : actor, { outcome: code });
  }

  /** Receives the body. Returns a function that parses and checks it; undefined when the endpoint takes no body. */
  async #receive(
    incoming: IncomingMessage,
    outgoing: ServerResponse,
    route: Route<Context>,
    { principal, session, actor }: RequestContext,
    digested: boolean,
  ): Promise<() => Promise<Record<string, unknown> | undefined>> {
    const { endpoint, nameInPath } = route;
    if (!endpoint.body) {
      const none = noBody(incoming, endpoint.verb);
      return async () => none;
    }
    const { bodies, forwarding } = this.#options;
    const kept: { bytes?: Uint8Array } = {};
    const mayForward = forwarding?.dependsOnBody(route);
    const parse = await bodies.receive({
      incoming,
      outgoing,
      endpoint: endpoint as Endpoint,
      parameters: parametersOf(endpoint),
      hasNameInPath: nameInPath !== undefined,
      principalId: principal.id,
      digested,
      keep: mayForward
        ? (bytes) => {
            kept.bytes = bytes;
          }
        : undefined,
      charge: (cost) => this.#options.limits.charge(principal.id, actor.address, cost),
    });
    return async () => {
      const fields = await parse();
      // The name in the path takes precedence over the body (rest-standard A5).
      const body = nameInPath === undefined ? fields : { ...fields, [nameFieldOf(endpoint)]: nameInPath };
      const sender = { requestId: actor.requestId, principalId: principal.id, isRoot: isRoot(session) };
      if (mayForward) await forwarding?.byBody(route, body, { incoming, outgoing, ...sender, body: kept.bytes });
      return body;
    };
  }
}

/** Removes `expectedVersion` from the body: the pipeline checks it, not the handler. */
function takeExpectedVersion<Context>(
  endpoint: Endpoint<Context>,
  body: Record<string, unknown> | undefined,
): number | undefined {
  if (!body || !acceptsExpectedVersion(endpoint)) return undefined;
  const { expectedVersion } = body;
  delete body.expectedVersion;
  return expectedVersion as number | undefined;
}

function noBody(incoming: IncomingMessage, verb: string): undefined {
  if (!hasBody(incoming)) return undefined;
  throw new Failure('BODY_NOT_ALLOWED', `a ${verb === 'delete' ? 'DELETE' : 'GET'} does not accept a body`);
}

interface RequestProgress<Context> {
  endpoint?: Endpoint<Context>;
  actor?: CallActor;
  session?: Session;
  isForwarded?: boolean;
}

/** Whether the credentials are those that only this server accepts. */
const isRoot = ({ credential }: Session): boolean => credential === 'root token';
/** Only the rights to what is read at once are sufficient for the others. */
const mayChange = ({ verb }: Pick<Endpoint, 'verb'>): boolean => verb !== 'get' && verb !== 'list';
const isOnPath = ({ on }: Permission): boolean => on === 'object' || on === 'parent';
const readPermission = { privilege: 'read', on: 'object', orSelf: true } as const;
/** Rate limit cost of a request to a system endpoint. */
export const systemEndpointCost = 5;
const refusals: ReadonlySet<Code> = new Set<Code>(['UNAUTHENTICATED', 'FORBIDDEN', 'RATE_LIMITED']);

/** Whose senders are expected to retry soon. */
const refusedBeforeBody: ReadonlySet<Code | '0'> = new Set<Code>([
  'WAREHOUSE_BUSY',
  'WAREHOUSE_ON_ANOTHER_SERVER',
  'SERVER_BUSY',
]);

const anonymousActor = ({ action, requestId, address, target }: CallActor) => ({ action, requestId, address, target });
