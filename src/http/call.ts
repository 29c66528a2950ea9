// One call of the REST API, from the head of a request to its answer: route → authenticate → media types → parameters →
// permission → handler → envelope. Pure of sockets but for reading the body; knows no category.
import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Access } from '../access/root.ts';
import type { Principal } from '../model/principal.ts';
import type { Observe } from '../observe/observations.ts';
import type { ApiVersion, Category, Endpoint, Input } from '../standard/endpoint.ts';
import { type Answer, answerOf, answerOfFailure } from '../standard/envelope.ts';
import { Failure } from '../standard/failure.ts';
import { acceptsJson } from '../standard/media.ts';
import { readPageToken, signPageToken } from '../standard/page_token.ts';
import { listKeyOf, type Parameters, pageSizeDefault, parametersOf, readQuery } from '../standard/parameters.ts';
import { type Route, Routes } from '../standard/paths.ts';
import { decodeBody, hasBody, readBytes } from './body.ts';

export interface ApiOptions<Context> {
  readonly categories: readonly Category<Context>[];
  readonly access: Access;
  readonly contextOf: (call: Call) => Context;
  readonly pageTokenKey: Uint8Array;
  readonly requestBodyBytesMax: number;
  readonly observe: Observe;
}

/** What a handler's context is made from. */
export interface Call {
  readonly principal: Principal;
  readonly requestId: string;
  readonly version: ApiVersion;
  /** Aborted when the client goes away before it has its answer. */
  readonly signal: AbortSignal;
  /** Reads and makes tokens of a `search`, bound to its URI and body. */
  readonly pageTokens: { read(token: string | undefined): string | undefined; scope: string };
}

/** A class, because an object literal with a getter makes V8 a new hidden class each time, which outlives the request. */
class RunningCall implements Call {
  readonly principal: Principal;
  readonly requestId: string;
  readonly version: ApiVersion;
  readonly #outgoing: ServerResponse;
  readonly #pageTokenKey: Uint8Array;
  readonly #scope: string;

  constructor(
    principal: Principal,
    requestId: string,
    version: ApiVersion,
    outgoing: ServerResponse,
    pageTokenKey: Uint8Array,
    scope: string,
  ) {
    this.principal = principal;
    this.requestId = requestId;
    this.version = version;
    this.#outgoing = outgoing;
    this.#pageTokenKey = pageTokenKey;
    this.#scope = scope;
  }

  get signal(): AbortSignal {
    return disconnectSignal(this.#outgoing);
  }

  get pageTokens(): Call['pageTokens'] {
    const scope = this.#scope;
    return { scope, read: (token) => tokenOf(token, this.#pageTokenKey, scope) };
  }
}

/** What is known of a call when it has ended, for the log. */
export interface CallEnd {
  readonly answer: Answer;
  readonly requestId: string;
  readonly endpoint: string;
  readonly code: string;
  readonly principal: string | undefined;
}

const requestIdHeader = 'x-service-request-id';

export class Api<Context> {
  readonly #options: ApiOptions<Context>;
  readonly #routes: Routes<Context>;
  readonly #parameters = new Map<Endpoint<Context>, Parameters>();

  constructor(options: ApiOptions<Context>) {
    this.#options = options;
    this.#routes = new Routes(options.categories);
    // Compiling a check takes 0.2 ms: at first use, so that a start does not wait for a hundred of them.
  }

  async call(incoming: IncomingMessage, outgoing: ServerResponse): Promise<CallEnd> {
    const given = incoming.headers[requestIdHeader] as string | undefined;
    const validId = given === undefined || /^[\x21-\x7e]{1,128}$/.test(given);
    const requestId = given !== undefined && validId ? given : randomUUID();
    const seen: { endpoint: string; principal?: Principal } = { endpoint: '-' };
    let answer: Answer;
    let code = '0';
    try {
      if (!validId) throw new Failure('INVALID_REQUEST_ID', `${requestIdHeader} is 1 to 128 visible ASCII characters`);
      answer = await this.#answer(incoming, outgoing, requestId, seen);
    } catch (error) {
      const failure = this.#failureOf(error, requestId);
      code = failure.code;
      answer = answerOfFailure(failure);
    }
    return { answer, requestId, endpoint: seen.endpoint, code, principal: seen.principal?.name };
  }

  async #answer(
    incoming: IncomingMessage,
    outgoing: ServerResponse,
    requestId: string,
    seen: { endpoint: string; principal?: Principal },
  ): Promise<Answer> {
    const { access, contextOf, pageTokenKey } = this.#options;
    const url = incoming.url as string;
    const mark = url.indexOf('?');
    const path = mark < 0 ? url : url.slice(0, mark);
    const method = incoming.method as string;
    if (method === 'OPTIONS') return optionsAnswer(this.#routes, path);
    const route = this.#routes.resolve(method, path);
    const { endpoint, category } = route;
    seen.endpoint = `${category.name}.${endpoint.action ?? endpoint.verb}`;
    const principal = access.authenticate(incoming.headers.authorization);
    seen.principal = principal;
    if (!acceptsJson(incoming.headers.accept)) {
      throw new Failure('NOT_ACCEPTABLE', 'answers are application/json; the Accept header does not admit it');
    }
    const parameters = this.#parametersOf(endpoint);
    const query = readQuery(mark < 0 ? '' : url.slice(mark + 1), parameters);
    const body = endpoint.body ? await this.#body(incoming, route, parameters) : noBody(incoming, endpoint.verb);
    access.authorise(principal, endpoint.permission, permissionSegments(route));

    const scope = `${category.name} ${path}`;
    const after = endpoint.verb === 'list' ? tokenOf(query.pageToken, pageTokenKey, scope) : undefined;
    const input: Input<unknown, unknown> = {
      path: route.path,
      body,
      query,
      page: {
        limit: (query.pageSize as number | undefined) ?? pageSizeDefault,
        ...(after === undefined ? {} : { after }),
      },
      ifExists: route.ifExists,
    };
    const context = contextOf(new RunningCall(principal, requestId, route.version, outgoing, pageTokenKey, scope));
    const outcome = await endpoint.handle(input as Input<never, never>, context);
    return answerOf(
      outcome,
      () => listKeyOf(category),
      (key) => signPageToken(pageTokenKey, scope, key),
    );
  }

  async #body(
    incoming: IncomingMessage,
    route: Route<Context>,
    parameters: Parameters,
  ): Promise<Record<string, unknown>> {
    const { endpoint, nameInPath } = route;
    let body: Record<string, unknown> = {};
    if (hasBody(incoming)) {
      const bytes = await readBytes(incoming, endpoint.bodyBytesMax ?? this.#options.requestBodyBytesMax);
      if (bytes.length > 0) body = decodeBody(bytes, incoming.headers, parameters, endpoint.textBodies);
    }
    if (endpoint.bodyRequired && Object.keys(body).length === 0) {
      throw new Failure('EMPTY_BODY', 'the body must be a JSON object with at least one field');
    }
    const check = nameInPath === undefined ? parameters.checkBody : parameters.checkBodyWithoutName;
    check?.(body);
    // The path goes before the body (rest-standard A5).
    return nameInPath === undefined ? body : { ...body, name: nameInPath };
  }

  #parametersOf(endpoint: Endpoint<Context>): Parameters {
    let parameters = this.#parameters.get(endpoint);
    if (!parameters) {
      parameters = parametersOf(endpoint as Endpoint);
      this.#parameters.set(endpoint, parameters);
    }
    return parameters;
  }

  #failureOf(error: unknown, requestId: string): Failure {
    if (error instanceof Failure) return error;
    const errorId = randomUUID();
    this.#options.observe({ kind: 'internalError', requestId, errorId, error });
    return new Failure('INTERNAL_ERROR', 'an unexpected error of the service; report the errorId', { errorId });
  }
}

function noBody(incoming: IncomingMessage, verb: string): undefined {
  if (!hasBody(incoming)) return undefined;
  throw new Failure('BODY_NOT_ALLOWED', `a ${verb === 'delete' ? 'DELETE' : 'GET'} takes no body`);
}

function tokenOf(token: unknown, key: Uint8Array, scope: string): string | undefined {
  return token === undefined ? undefined : readPageToken(key, scope, token as string);
}

/** What the permission is needed on: the object itself, or the one that holds the collection. */
function permissionSegments<Context>(route: Route<Context>) {
  const { endpoint, segments, category } = route;
  const last = segments.at(-1);
  return endpoint.permission.on === 'parent' && last?.category === category.name ? segments.slice(0, -1) : segments;
}

/** HEAD and OPTIONS have no body by definition (rest-standard B1). */
function optionsAnswer<Context>(routes: Routes<Context>, path: string): Answer {
  try {
    routes.resolve('OPTIONS', path);
  } catch (error) {
    if (error instanceof Failure && error.code === 'METHOD_NOT_ALLOWED') {
      return { status: 200, headers: { Allow: (error.result.allow as string[]).join(', ') }, body: [] };
    }
    throw error;
  }
  throw new Error('OPTIONS is no endpoint');
}

function disconnectSignal(outgoing: ServerResponse): AbortSignal {
  const controller = new AbortController();
  if (outgoing.destroyed) controller.abort();
  outgoing.once('close', () => {
    if (!outgoing.writableFinished) controller.abort();
  });
  return controller.signal;
}
