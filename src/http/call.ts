// One call of the REST API, from the head of a request to its answer: route → authenticate → limits → media types →
// permission → parameters → handler → envelope → audit. Pure of sockets but for reading the body; knows no category.
import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Session } from '../access/access.ts';
import type { AuditTrail } from '../access/audit.ts';
import type { Decisions } from '../access/decisions.ts';
import type { IdempotencyKeys } from '../access/idempotency_keys.ts';
import type { Actor, Granted, Guard } from '../model/principal.ts';
import type { Privilege } from '../model/privileges.ts';
import type { Observe } from '../observe/observations.ts';
import type { Code, RequestOutcome } from '../standard/codes.ts';
import {
  type Accepted,
  type Category,
  changes,
  costOf,
  type Endpoint,
  type Input,
  isPaged,
  nameFieldOf,
  type Outcome,
  readsOnly,
  takesExpectedVersion,
  takesSpace,
} from '../standard/endpoint.ts';
import { type Answer, answerOf, answerOfFailure } from '../standard/envelope.ts';
import { Failure, outcomeOf, withOutcome } from '../standard/failure.ts';
import { acceptsJson } from '../standard/media.ts';
import { pageScope, readPageToken, signPageToken } from '../standard/page_token.ts';
import { listKeyOf, type Parameters, pageSizeDefault, parametersOf, readQuery } from '../standard/parameters.ts';
import { type Route, Routes, segmentsOfUri } from '../standard/paths.ts';
import type { Bodies } from './bodies.ts';
import { hasBody } from './body.ts';
import { fingerprintOf } from './fingerprint.ts';
import { basisFor, preconditionOf } from './preconditions.ts';
import { type EarlierAttempts, keyOf, type Performed, Replays } from './replay.ts';
import { authorizationOf, misspeltHeader, requestIdHeader } from './request_headers.ts';
import { nameOfEndpoint, optionsAnswer, placeOf } from './route_facts.ts';
import { type Call, CallActor, RunningCall, RunningCalls } from './running_call.ts';

export type { Call } from './running_call.ts';

/** What a call asks of access/. */
export interface Gate {
  authenticate(authorization: string | undefined, address: string): Session | Promise<Session>;
  isGood(session: Session): boolean;
  readonly decisions: Pick<Decisions, 'authorise' | 'identityOf' | 'require' | 'record' | 'requireStill'>;
}

/** Throws RATE_LIMITED. */
export interface Limits {
  charge(principalId: string, address: string, cost: number): void;
  chargeAddress(address: string, cost: number): void;
}

export interface Wanted {
  readonly id: string;
  readonly category: string;
  /** Of the member, where the id is that of the object that has it. */
  readonly name: string | undefined;
}

export type Shown = Accepted | { readonly outcome: 'found'; readonly record: object; readonly uri: string };

export interface ApiOptions<Context> {
  readonly categories: readonly Category<Context>[];
  readonly access: Gate;
  readonly limits: Limits;
  readonly audit: Pick<AuditTrail, 'note'>;
  readonly addressOf: (incoming: IncomingMessage) => string;
  readonly idempotencyKeys: IdempotencyKeys;
  readonly earlier: EarlierAttempts;
  /** What is to be shown of an object, of a member of it, or of a task. */
  readonly recordOf: (wanted: Wanted, context: Context) => Promise<Shown | undefined>;
  readonly contextOf: (call: Call) => Context;
  readonly pageTokenKey: Uint8Array;
  readonly bodies: Bodies;
  /** Throws STORAGE_FULL on a disk that is almost full. */
  readonly requireRoom: () => void;
  readonly observe: Observe;
}

/** What is known of a call when it has ended, for the log. */
export interface CallEnd {
  readonly answer: Answer;
  readonly requestId: string;
  readonly endpoint: string;
  readonly code: string;
  readonly principal: string | undefined;
  readonly session: Session | undefined;
}

export class Api<Context> {
  readonly #options: ApiOptions<Context>;
  readonly #routes: Routes<Context>;
  readonly #parameters = new Map<Endpoint<Context>, Parameters>();
  readonly #running = new RunningCalls();
  readonly #replays: Replays;
  readonly #sending = new Map<ServerResponse, Session>();

  constructor(options: ApiOptions<Context>) {
    this.#options = options;
    this.#routes = new Routes(options.categories);
    this.#replays = new Replays(options.idempotencyKeys, options.earlier);
    // Compiling a check takes 0.2 ms: at first use, so that a start does not wait for a hundred of them.
  }

  async call(incoming: IncomingMessage, outgoing: ServerResponse): Promise<CallEnd> {
    const { requestId, isValid } = requestIdOf(incoming);
    const seen: Seen<Context> = {};
    let answer: Answer;
    let code: Code | '0' = '0';
    try {
      if (!isValid) throw invalidRequestId();
      answer = await this.#answer(incoming, outgoing, requestId, seen);
    } catch (error) {
      // What a handler threw has its outcome (#run). Of all else: nothing was begun.
      const failure = this.#withOutcome(error, requestId, 'notApplied');
      code = failure.code;
      answer = answerOfFailure(failure);
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
    for (const call of this.#running.all) if (!access.isGood(call.session)) call.revoke();
    for (const [outgoing, session] of this.#sending) if (!access.isGood(session)) outgoing.destroy();
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
      if (needs === 'anyone') return limits.chargeAddress(actor.address, costBeside);
      const { principal } = await this.#authenticate(incoming, actor);
      actor.id = principal.id;
      actor.name = principal.name;
      limits.charge(principal.id, actor.address, costBeside);
      if (needs !== 'credentials') {
        const { privilege, category } = needs;
        await access.decisions.require(principal, privilege, { category, path: [] });
      }
    } catch (error) {
      if (error instanceof Failure) audit.note(actor.id === '' ? strangerOf(actor) : actor, { outcome: error.code });
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
    const actor = new CallActor(nameOfEndpoint(route), requestId, addressOf(incoming), path);
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
    const misspelt = changes(endpoint) ? misspeltHeader(incoming) : undefined;
    if (misspelt) throw misspelt;
    const key = keyOf(incoming, endpoint);
    const call = new RunningCall(session, actor, route.version, outgoing, key !== undefined);
    if (key !== undefined) return await this.#keyed({ incoming, outgoing, route, call, key, query });
    // Before the body is read: who may not do it need not be listened to.
    const asked = this.#authorise(route, call);
    if (asked) await asked;
    const body = endpoint.body
      ? await this.#body(incoming, outgoing, route, call, false)
      : noBody(incoming, endpoint.verb);
    this.#condition(route, call, incoming, body);
    const scope = isPaged(endpoint) ? await this.#pageScope(route, body ?? {}) : '';
    const input = this.#inputOf(route, body, query, scope);
    // To wait for it here is sooner than to hand on the promise.
    return this.#answerOf(await this.#run(route, call, input), route.category, scope);
  }

  /** What the request expects of the object is checked in each attempt of its handler. The expected version leaves the body. */
  #condition(
    route: Route<Context>,
    call: RunningCall,
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

  /** A request that is done once however often it is sent. */
  async #keyed({ incoming, outgoing, route, call, key, query }: KeyedRequest<Context>): Promise<Answer> {
    const { decisions } = this.#options.access;
    const { principal } = call;
    const granted = decisions.record(principal);
    const refusal = await this.#refusalOf(route, call, key);
    const body = await this.#body(incoming, outgoing, route, call, true).catch((error) =>
      Promise.reject(refusal ?? error),
    );
    const scope = isPaged(route.endpoint) ? await this.#pageScope(route, body ?? {}) : '';
    const [path = ''] = (incoming.url as string).split('?', 1);
    const asked = { method: incoming.method as string, path, route, query, body };
    const fingerprint = await fingerprintOf(asked);
    this.#condition(route, call, incoming, body);
    const keyed = {
      owner: principal.id,
      key,
      fingerprint,
      secretFields: route.endpoint.secretFields ?? [],
      granted,
      authorise: async (before: readonly Granted[]) => {
        if (refusal !== undefined && before.length === 0) throw refusal;
        await decisions.requireStill(principal, before);
      },
      run: async (guard: Guard) => {
        if (refusal !== undefined) throw refusal;
        call.actor.guard = guard;
        const outcome = await this.#run(route, call, this.#inputOf(route, body, query, scope));
        return this.#performed(outcome, route, scope);
      },
      again: (guard: Guard, objectId: string | undefined) => {
        call.actor.guard = guard;
        return this.#again(route, call, scope, {
          id: objectId,
          category: route.category.name,
          name: nameIn(route, body),
        });
      },
    };
    try {
      return await this.#replays.answer(keyed);
    } catch (error) {
      if (error instanceof Failure && error.code === 'IDEMPOTENCY_KEY_REUSED') throw refusal ?? error;
      // An earlier attempt with the key may have been applied.
      throw this.#withOutcome(error, call.requestId, 'unknown');
    }
  }

  /**
   * Why the request may not be made, found before the body is read. Thrown unless the key was sent before: the object may have another
   * name since, and its first answer then is for who may still do with it what was done.
   */
  async #refusalOf(route: Route<Context>, call: RunningCall, key: string): Promise<unknown> {
    try {
      await this.#authorise(route, call);
      return undefined;
    } catch (error) {
      if (await this.#replays.isKnown(call.principal.id, key)) return error;
      throw error;
    }
  }

  async #pageScope(route: Route<Context>, body: object): Promise<string> {
    const holder = await this.#options.access.decisions.identityOf(route.segments);
    return pageScope(nameOfEndpoint(route), holder, body);
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
  #authorise(route: Route<Context>, call: RunningCall): Promise<void> | undefined {
    const { permission } = route.endpoint;
    if (permission.on === 'target') return undefined;
    const reach = this.#options.access.decisions.authorise(call.principal, permission, placeOf(route));
    if (reach instanceof Promise) return reach.then((to) => call.permit(to));
    call.permit(reach);
    return undefined;
  }

  async #run(route: Route<Context>, call: RunningCall, input: Input<unknown, unknown>): Promise<Outcome> {
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
      throw call.revoked ? revoked() : this.#failureOfHandler(error, endpoint, call.actor);
    } finally {
      this.#running.remove(call);
    }
    // What was there before is shown to those who may read it; what a handler gave leave for is what its caller said.
    if (outcome.outcome === 'created' && !outcome.created && endpoint.permission.on !== 'target') {
      const made = segmentsOfUri(outcome.uri);
      const place = { category: made[0]?.category ?? category.name, path: made };
      await access.decisions.authorise(call.principal, toSee, place);
    }
    return outcome;
  }

  #performed(outcome: Outcome, { endpoint, category }: Route<Context>, scope: string): Performed {
    const answer = this.#answerOf(outcome, category, scope);
    if (outcome.outcome === 'listed') return { answer, stored: undefined };
    if (outcome.outcome !== 'done') return { answer, stored: answer };
    const { stored = changes(endpoint) ? outcome.result : null } = outcome;
    if (stored === null) return { answer, stored: undefined };
    return { answer, stored: this.#answerOf({ outcome: 'done', result: stored }, category, scope) };
  }

  /** The change was made before, and its answer is lost: as far as it can be told from what is there now. */
  async #again(
    route: Route<Context>,
    call: RunningCall,
    scope: string,
    { id, ...wanted }: Omit<Wanted, 'id'> & { readonly id: string | undefined },
  ): Promise<Answer> {
    const { endpoint, category } = route;
    const { contextOf, recordOf } = this.#options;
    if (endpoint.verb === 'delete') return this.#answerOf({ outcome: 'deleted', deleted: true }, category, scope);
    const shown = id === undefined ? undefined : await recordOf({ id, ...wanted }, contextOf(call));
    if (!shown)
      throw new Failure('OBJECT_NOT_FOUND', 'the change was made before; what it made or changed is gone since', {
        category: category.name,
      });
    const { outcome } = shown;
    const isNew = outcome === 'found' && (endpoint.verb === 'create' || endpoint.creates);
    const again: Outcome = isNew ? { outcome: 'created', record: shown.record, created: true, uri: shown.uri } : shown;
    return this.#answerOf(again, category, scope);
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
    this.#options.limits.chargeAddress(actor.address, strangerCost);
    throw error;
  }

  /** Changes that were made told of themselves; what is left is told here: refusals, and what came to nothing. */
  #tell(endpoint: Endpoint<Context>, actor: CallActor, code: Code | '0'): void {
    const refusal = code !== '0' && refusals.has(code);
    if (refusal || (changes(endpoint) && !actor.told))
      this.#options.audit.note(actor.id === '' ? strangerOf(actor) : actor, { outcome: code });
  }

  /** Undefined where the endpoint takes none. */
  async #body(
    incoming: IncomingMessage,
    outgoing: ServerResponse,
    route: Route<Context>,
    { principal, actor }: RunningCall,
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

  /** A 5xx gets the outcome of the whole request, which the failed step alone does not tell. */
  #failureOfHandler(error: unknown, endpoint: Endpoint<Context>, { requestId, changed }: Actor): Failure {
    const failure = this.#failureOf(error, requestId as string);
    if (readsOnly(endpoint)) return withOutcome(failure, 'notApplied');
    return withOutcome(failure, changed ? 'unknown' : (outcomeOf(failure) ?? 'notApplied'));
  }

  /** `outcome`: of a failure that has none of its own. */
  #withOutcome(error: unknown, requestId: string, outcome: RequestOutcome): Failure {
    const failure = this.#failureOf(error, requestId);
    return failure.outcome === undefined ? withOutcome(failure, outcome) : failure;
  }

  #failureOf(error: unknown, requestId: string): Failure {
    if (error instanceof Failure) return error;
    const errorId = randomUUID();
    this.#options.observe({ kind: 'internalError', requestId, errorId, error });
    return new Failure('INTERNAL_ERROR', 'an unexpected error of the service; report the errorId', { errorId });
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

/** What the object of a request is called when it is done, as far as the request says. */
function nameIn<Context>({ path, category }: Route<Context>, body: unknown): string | undefined {
  const { newName, name } = (body ?? {}) as { readonly newName?: string; readonly name?: string };
  return newName ?? name ?? path[category.parameter];
}

interface KeyedRequest<Context> {
  readonly incoming: IncomingMessage;
  readonly outgoing: ServerResponse;
  readonly route: Route<Context>;
  readonly call: RunningCall;
  readonly key: string;
  readonly query: Readonly<Record<string, unknown>>;
}

interface Seen<Context> {
  endpoint?: Endpoint<Context>;
  actor?: CallActor;
  session?: Session;
}

const toSee = { privilege: 'read', on: 'object', orSelf: true } as const;
/** What a call beside the API costs. */
export const costBeside = 5;
/** What an attempt without good credentials costs its address. */
export const strangerCost = 10;
const refusals: ReadonlySet<Code> = new Set<Code>(['UNAUTHENTICATED', 'FORBIDDEN', 'RATE_LIMITED']);

const revoked = () => new Failure('UNAUTHENTICATED', 'the credentials are no longer valid');
const strangerOf = ({ action, requestId, address, target }: CallActor) => ({ action, requestId, address, target });
