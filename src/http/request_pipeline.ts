// One call of the REST API, from the head of a request to its answer: route → authenticate → limits → media types →
// permission → parameters → handler → envelope → audit. Pure of sockets but for reading the body; knows no category.
import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AuditTrail } from '../access/audit/audit_log.ts';
import type { Session } from '../access/authentication/authenticator.ts';
import type { Authorizer } from '../access/authorization/authorizer.ts';
import type { Privilege } from '../model/privileges.ts';
import type { Observe } from '../observe/observations.ts';
import type { Code } from '../standard/codes.ts';
import {
  type Category,
  changes,
  costOf,
  type Endpoint,
  type Input,
  isPaged,
  nameFieldOf,
  type Outcome,
  takesExpectedVersion,
  takesSpace,
} from '../standard/endpoint.ts';
import { type Answer, answerOf, answerOfFailure } from '../standard/envelope.ts';
import { Failure } from '../standard/failure.ts';
import { acceptsJson } from '../standard/media.ts';
import { pageScope, readPageToken, signPageToken } from '../standard/page_token.ts';
import { listKeyOf, type Parameters, pageSizeDefault, parametersOf, readQuery } from '../standard/parameters.ts';
import { type Route, Routes, type Segment, segmentsOfUri } from '../standard/paths.ts';
import type { Bodies } from './bodies/bodies.ts';
import { discardSmallBody, hasBody } from './bodies/body.ts';
import { CallFailures } from './call_failures.ts';
import { KeyedCalls, type KeyedCallsOptions, type PreparedCall } from './idempotency/keyed_calls.ts';
import { keyOf } from './idempotency/replay.ts';
import { basisFor, preconditionOf } from './preconditions.ts';
import { type Call, CallActor, RequestContext, RequestContexts } from './request_context.ts';
import { authorizationOf, misspelledHeader, requestIdHeader } from './request_headers.ts';
import { authorizationTarget, operationName, optionsAnswer } from './route_metadata.ts';

export type { PreferredReply as Wanted, StoredReply as Shown } from './idempotency/keyed_calls.ts';
export type { Call } from './request_context.ts';

/** What a call asks of access/. */
export interface RequestAuthorizer {
  authenticate(authorization: string | undefined, address: string): Session | Promise<Session>;
  isValid(session: Session): boolean;
  readonly authorizer: Pick<Authorizer, 'authorize' | 'identityOf' | 'require' | 'record' | 'requireStillAllowed'>;
}

/** Throws RATE_LIMITED. */
export interface Limits {
  charge(principalId: string, address: string, cost: number): void;
  chargeAddress(address: string, cost: number): void;
}

export interface RequestPipelineOptions<Context> extends KeyedCallsOptions<Context> {
  readonly categories: readonly Category<Context>[];
  readonly access: RequestAuthorizer;
  readonly limits: Limits;
  readonly audit: Pick<AuditTrail, 'enqueue'>;
  readonly addressOf: (incoming: IncomingMessage) => string;
  readonly pageTokenKey: Uint8Array;
  readonly bodies: Bodies;
  /** Throws STORAGE_FULL on a disk that is almost full. */
  readonly requireRoom: () => void;
  /** Throws WAREHOUSE_BUSY where the queue that a request to this object would wait in is full. */
  readonly requirePlace: (path: readonly Segment[], call: Call) => Promise<void>;
  readonly observe: Observe;
}

/** What is known of a call when it has ended, for the log. */
export interface RequestSummary {
  readonly answer: Answer;
  readonly requestId: string;
  readonly endpoint: string;
  readonly code: string;
  readonly principal: string | undefined;
  readonly session: Session | undefined;
}

export class RequestPipeline<Context> {
  readonly #options: RequestPipelineOptions<Context>;
  readonly #routes: Routes<Context>;
  readonly #parameters = new Map<Endpoint<Context>, Parameters>();
  readonly #running = new RequestContexts();
  readonly #failures: CallFailures;
  readonly #keyed: KeyedCalls<Context>;
  readonly #sending = new Map<ServerResponse, Session>();

  constructor(options: RequestPipelineOptions<Context>) {
    this.#options = options;
    this.#routes = new Routes(options.categories);
    this.#failures = new CallFailures(options.observe);
    this.#keyed = new KeyedCalls(options, this.#failures);
    // Compiling a check takes 0.2 ms: at first use, so that a start does not wait for a hundred of them.
  }

  async call(incoming: IncomingMessage, outgoing: ServerResponse): Promise<RequestSummary> {
    const { requestId, isValid } = requestIdOf(incoming);
    const seen: Seen<Context> = {};
    let answer: Answer;
    let code: Code | '0' = '0';
    try {
      if (!isValid) throw invalidRequestId();
      answer = await this.#answer(incoming, outgoing, requestId, seen);
    } catch (error) {
      // What a handler threw has its outcome (#run). Of all else: nothing was begun.
      const failure = this.#failures.withOutcome(error, requestId, 'notApplied');
      code = failure.code;
      answer = answerOfFailure(failure);
      // The request will come again: its connection stays usable.
      if (code === 'WAREHOUSE_BUSY') await discardSmallBody(incoming);
    }
    const { endpoint, actor } = seen;
    if (endpoint && actor) this.#tell(endpoint, actor, code);
    return {
      answer,
      requestId,
      endpoint: actor?.action ?? '-',
      code,
      principal: actor?.name || undefined,
      session: seen.session,
    };
  }

  /** For a method that no path has: METHOD_NOT_ALLOWED with those that this one has, or API_NOT_FOUND. */
  refusalOfMethod(method: string, path: string): Failure {
    try {
      this.#routes.resolve(method, path);
    } catch (error) {
      if (error instanceof Failure) return error;
      throw error;
    }
    throw new Error(`${method} is a method of ${path}`);
  }

  /** Looks at the calls that run: those whose credentials became void are ended. To be called every few seconds. */
  revalidate(): void {
    const { access } = this.#options;
    for (const call of this.#running.all) if (!access.isValid(call.session)) call.revoke();
    for (const [outgoing, session] of this.#sending) if (!access.isValid(session)) outgoing.destroy();
  }

  /** An answer that takes long to send is looked at too. */
  watch(outgoing: ServerResponse, session: Session): void {
    this.#sending.set(outgoing, session);
    outgoing.once('close', () => this.#sending.delete(outgoing));
  }

  /** For what is served beside the API. Throws as a call would. */
  async admit(
    incoming: IncomingMessage,
    path: string,
    needs: 'anyone' | 'credentials' | { readonly privilege: Privilege; readonly category: string },
  ): Promise<void> {
    const { access, audit, limits, addressOf } = this.#options;
    const actor = new CallActor(path.slice(1), randomUUID(), addressOf(incoming), path);
    try {
      if (needs === 'anyone') return limits.chargeAddress(actor.address, systemEndpointCost);
      const { principal } = await this.#authenticate(incoming, actor);
      actor.id = principal.id;
      actor.name = principal.name;
      limits.charge(principal.id, actor.address, systemEndpointCost);
      if (needs !== 'credentials') {
        const { privilege, category } = needs;
        await access.authorizer.require(principal, privilege, { category, path: [] });
      }
    } catch (error) {
      if (error instanceof Failure) audit.enqueue(actor.id === '' ? strangerOf(actor) : actor, { outcome: error.code });
      throw error;
    }
  }

  async #answer(
    incoming: IncomingMessage,
    outgoing: ServerResponse,
    requestId: string,
    seen: Seen<Context>,
  ): Promise<Answer> {
    const { limits, addressOf } = this.#options;
    const url = incoming.url as string;
    const mark = url.indexOf('?');
    const path = mark < 0 ? url : url.slice(0, mark);
    const method = incoming.method as string;
    if (method === 'OPTIONS') return optionsAnswer(this.#routes, path);
    const route = this.#routes.resolve(method, path);
    const { endpoint } = route;
    const actor = new CallActor(operationName(route), requestId, addressOf(incoming), path);
    seen.endpoint = endpoint;
    seen.actor = actor;
    refuseOtherSites(incoming);
    const known = this.#authenticate(incoming, actor);
    const session = known instanceof Promise ? await known : known;
    seen.session = session;
    const { principal } = session;
    actor.id = principal.id;
    actor.name = principal.name;
    limits.charge(principal.id, actor.address, costOf(endpoint));
    if (!acceptsJson(incoming.headers.accept)) {
      throw new Failure('NOT_ACCEPTABLE', 'answers are application/json; the Accept header does not admit it');
    }
    const parameters = this.#parametersOf(endpoint);
    const query = readQuery(mark < 0 ? '' : url.slice(mark + 1), parameters);
    const misspelt = changes(endpoint) ? misspelledHeader(incoming) : undefined;
    if (misspelt) throw misspelt;
    const key = keyOf(incoming, endpoint);
    const call = new RequestContext(session, actor, route.version, outgoing, key !== undefined);
    if (key !== undefined) {
      const steps = {
        authorise: () => this.#authorise(route, call),
        requirePlace: () => this.#requirePlace(route, call),
        body: () => this.#body(incoming, outgoing, route, call, true),
        prepare: (body: Record<string, unknown> | undefined) => this.#prepared(route, call, incoming, body, query),
      };
      return await this.#keyed.answer({ incoming, route, call, key, query, steps });
    }
    // Before the body is read: who may not do it need not be listened to.
    const asked = this.#authorise(route, call);
    if (asked) await asked;
    if (endpoint.queued) await this.#requirePlace(route, call);
    const body = endpoint.body
      ? await this.#body(incoming, outgoing, route, call, false)
      : noBody(incoming, endpoint.verb);
    const { run, answerOf } = await this.#prepared(route, call, incoming, body, query);
    return answerOf(await run());
  }

  /** The call with its body read, ready to run. */
  async #prepared(
    route: Route<Context>,
    call: RequestContext,
    incoming: IncomingMessage,
    body: Record<string, unknown> | undefined,
    query: Readonly<Record<string, unknown>>,
  ): Promise<PreparedCall> {
    this.#condition(route, call, incoming, body);
    const scope = isPaged(route.endpoint) ? await this.#pageScope(route, body ?? {}) : '';
    return {
      run: () => this.#run(route, call, this.#inputOf(route, body, query, scope)),
      answerOf: (outcome) => this.#answerOf(outcome, route.category, scope),
    };
  }

  /** What the request expects of the object is checked in each attempt of its handler. The expected version leaves the body. */
  #condition(
    route: Route<Context>,
    call: RequestContext,
    incoming: IncomingMessage,
    body: Record<string, unknown> | undefined,
  ): void {
    const { endpoint } = route;
    const precondition = preconditionOf(endpoint, incoming.headers, takeExpectedVersion(endpoint, body));
    if (!precondition) return;
    call.checkPrecondition = async () => {
      call.actor.basis = undefined;
      call.actor.basis = await basisFor(precondition, route, this.#options.contextOf(call));
    };
  }

  async #pageScope(route: Route<Context>, body: object): Promise<string> {
    const holder = await this.#options.access.authorizer.identityOf(route.segments);
    return pageScope(operationName(route), holder, body);
  }

  /** Throws INVALID_PAGE_TOKEN. */
  #inputOf(
    { endpoint, path, ifExists }: Route<Context>,
    body: Record<string, unknown> | undefined,
    query: Readonly<Record<string, unknown>>,
    scope: string,
  ): Input<unknown, unknown> {
    const { pageToken, pageSize } = (endpoint.verb === 'list' ? query : (body ?? {})) as {
      pageToken?: string;
      pageSize?: number;
    };
    const limit = pageSize ?? pageSizeDefault;
    if (scope === '' || pageToken === undefined) return { path, body, query, page: { limit }, ifExists };
    const after = readPageToken(this.#options.pageTokenKey, scope, pageToken);
    return { path, body, query, page: { limit, after }, ifExists };
  }

  /** A promise only where the store has to be asked. */
  #authorise(route: Route<Context>, call: RequestContext): Promise<void> | undefined {
    const { permission } = route.endpoint;
    if (permission.on === 'target') return undefined;
    const reach = this.#options.access.authorizer.authorize(call.principal, permission, authorizationTarget(route));
    if (reach instanceof Promise) return reach.then((to) => call.permit(to));
    call.permit(reach);
    return undefined;
  }

  /** Before the body is read: a request that is refused because the server is busy costs it little. */
  async #requirePlace({ endpoint, segments }: Route<Context>, call: RequestContext): Promise<void> {
    if (endpoint.queued) await this.#options.requirePlace(segments, call);
  }

  async #run(route: Route<Context>, call: RequestContext, input: Input<unknown, unknown>): Promise<Outcome> {
    const { endpoint, category } = route;
    const { contextOf, access } = this.#options;
    let outcome: Outcome;
    this.#running.add(call);
    try {
      if (takesSpace(endpoint)) this.#options.requireRoom();
      outcome = await endpoint.handle(input as Input<never, never>, contextOf(call));
      if (!call.permitted) throw new Error(`${call.actor.action} asked for no leave`);
      if (call.revoked) throw revoked();
    } catch (error) {
      throw call.revoked ? revoked() : this.#failures.ofHandler(error, endpoint, call.actor);
    } finally {
      this.#running.remove(call);
    }
    // What was there before is shown to those who may read it; what a handler gave leave for is what its caller said.
    if (outcome.outcome === 'created' && !outcome.created && endpoint.permission.on !== 'target') {
      const made = segmentsOfUri(outcome.uri);
      const place = { category: made[0]?.category ?? category.name, path: made };
      await access.authorizer.authorize(call.principal, toSee, place);
    }
    return outcome;
  }

  #answerOf(outcome: Outcome, category: Category<Context>, scope: string): Answer {
    const { pageTokenKey } = this.#options;
    return answerOf(
      outcome,
      () => listKeyOf(category),
      (key) => signPageToken(pageTokenKey, scope, key),
    );
  }

  /** A promise only where a password or a signature has to be worked out. */
  #authenticate(incoming: IncomingMessage, actor: CallActor): Session | Promise<Session> {
    try {
      const authorization = authorizationOf(incoming);
      if (authorization === null)
        throw new Failure('UNAUTHENTICATED', 'the request has more than one Authorization header');
      const session = this.#options.access.authenticate(authorization, actor.address);
      return session instanceof Promise ? session.catch((error: unknown) => this.#refused(actor, error)) : session;
    } catch (error) {
      return this.#refused(actor, error);
    }
  }

  /** Where strangers knock too often, that is the answer. */
  #refused(actor: CallActor, error: unknown): never {
    this.#options.limits.chargeAddress(actor.address, failedAuthenticationCost);
    throw error;
  }

  /** Changes that were made told of themselves; what is left is told here: refusals, and what came to nothing. */
  #tell(endpoint: Endpoint<Context>, actor: CallActor, code: Code | '0'): void {
    const refusal = code !== '0' && refusals.has(code);
    if (refusal || (changes(endpoint) && !actor.audited))
      this.#options.audit.enqueue(actor.id === '' ? strangerOf(actor) : actor, { outcome: code });
  }

  /** Undefined where the endpoint takes none. */
  async #body(
    incoming: IncomingMessage,
    outgoing: ServerResponse,
    route: Route<Context>,
    { principal, actor }: RequestContext,
    digested: boolean,
  ): Promise<Record<string, unknown> | undefined> {
    const { endpoint, nameInPath } = route;
    if (!endpoint.body) return noBody(incoming, endpoint.verb);
    const body = await this.#options.bodies.read({
      incoming,
      outgoing,
      endpoint: endpoint as Endpoint,
      parameters: this.#parametersOf(endpoint),
      hasNameInPath: nameInPath !== undefined,
      principalId: principal.id,
      digested,
      charge: (cost) => this.#options.limits.charge(principal.id, actor.address, cost),
    });
    // The path goes before the body (rest-standard A5).
    return nameInPath === undefined ? body : { ...body, [nameFieldOf(endpoint)]: nameInPath };
  }

  #parametersOf(endpoint: Endpoint<Context>): Parameters {
    let parameters = this.#parameters.get(endpoint);
    if (!parameters) {
      parameters = parametersOf(endpoint as Endpoint);
      this.#parameters.set(endpoint, parameters);
    }
    return parameters;
  }
}

/** That of the caller, or a new one where there is none or it is none. */
export function requestIdOf(incoming: IncomingMessage): { readonly requestId: string; readonly isValid: boolean } {
  const given = incoming.headers[requestIdHeader] as string | undefined;
  const isValid = given === undefined || /^[\x21-\x7e]{1,128}$/.test(given);
  return { requestId: given !== undefined && isValid ? given : randomUUID(), isValid };
}

export const invalidRequestId = () =>
  new Failure('INVALID_REQUEST_ID', `${requestIdHeader} is 1 to 128 visible ASCII characters`);

/** It is checked here, and not by handlers. */
function takeExpectedVersion<Context>(
  endpoint: Endpoint<Context>,
  body: Record<string, unknown> | undefined,
): number | undefined {
  if (!body || !takesExpectedVersion(endpoint)) return undefined;
  const { expectedVersion } = body;
  delete body.expectedVersion;
  return expectedVersion as number | undefined;
}

function noBody(incoming: IncomingMessage, verb: string): undefined {
  if (!hasBody(incoming)) return undefined;
  throw new Failure('BODY_NOT_ALLOWED', `a ${verb === 'delete' ? 'DELETE' : 'GET'} takes no body`);
}

/**
 * Browsers say which page a request comes from, and send along credentials that they remember: another site's page must not use
 * them. Other clients send no such header.
 */
function refuseOtherSites({ headers }: IncomingMessage): void {
  const site = headers['sec-fetch-site'];
  if (site === undefined || site === 'same-origin' || site === 'none') return;
  throw new Failure('FORBIDDEN', 'requests from pages of other sites are refused');
}

interface Seen<Context> {
  endpoint?: Endpoint<Context>;
  actor?: CallActor;
  session?: Session;
}

const toSee = { privilege: 'read', on: 'object', orSelf: true } as const;
/** What a call beside the API costs. */
export const systemEndpointCost = 5;
/** What an attempt without good credentials costs its address. */
export const failedAuthenticationCost = 10;
const refusals: ReadonlySet<Code> = new Set<Code>(['UNAUTHENTICATED', 'FORBIDDEN', 'RATE_LIMITED']);

const revoked = () => new Failure('UNAUTHENTICATED', 'the credentials are no longer valid');
const strangerOf = ({ action, requestId, address, target }: CallActor) => ({ action, requestId, address, target });
