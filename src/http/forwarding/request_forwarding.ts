// Decides for each request whether another server of the store has the data that it needs, and forwards it there: before its body is read
// if its path determines the server, otherwise afterwards. A request that was forwarded once is never forwarded again.
import type { IncomingMessage } from 'node:http';
import type { Endpoint } from '../../standard/endpoint.ts';
import { isReadOnly } from '../../standard/endpoint.ts';
import type { ApiResponse } from '../../standard/envelope.ts';
import { Failure } from '../../standard/failure.ts';
import type { Route } from '../../standard/paths.ts';
import type { Forwarded } from './forwarded_header.ts';
import type { ForwardedRequest, Forwarder, ForwardResult } from './forwarder.ts';

/** The server that must process a request; undefined: this one. */
export interface RequestServers<Context> {
  /** By the path alone. */
  ofPath(route: Route<Context>): Promise<string | undefined>;
  /** Whether the body determines the server. */
  dependsOnBody(route: Route<Context>): boolean;
  ofBody(route: Route<Context>, body: Readonly<Record<string, unknown>>): Promise<string | undefined>;
  ofFile(fileServerId: string | null): string | undefined;
  /** Whether this server can process it, too, while the other one is down. */
  isAnsweredByAny(route: Route<Context>): boolean;
  /** Whether it ends what other requests may be waiting for. */
  endsWork(route: Route<Context>): boolean;
}

type Message = Pick<ForwardedRequest, 'incoming' | 'outgoing' | 'requestId' | 'principalId' | 'isRoot'>;

/** Thrown when a request was forwarded after its body was read: the response to send, or that is being sent. */
export class AlreadyForwarded extends Error {
  override name = 'AlreadyForwarded';
  readonly response: ApiResponse;
  constructor(response: ApiResponse) {
    super('the request was forwarded');
    this.response = response;
  }
}

export class RequestForwarding<Context> {
  readonly #forwarder: Forwarder;
  readonly #servers: RequestServers<Context>;
  /** With the root token of this server. */
  readonly #rootAuthorization: string;

  constructor(forwarder: Forwarder, servers: RequestServers<Context>, rootToken: string) {
    this.#forwarder = forwarder;
    this.#servers = servers;
    this.#rootAuthorization = `Bearer ${rootToken}`;
  }

  /** The credentials to check instead of those in the request; undefined: those in the request. */
  authorizationOf(incoming: IncomingMessage): string | undefined {
    return this.received(incoming)?.isRoot ? this.#rootAuthorization : undefined;
  }

  received(incoming: IncomingMessage): Forwarded | undefined {
    return this.#forwarder.received(incoming);
  }

  dependsOnBody(route: Route<Context>): boolean {
    return this.#servers.dependsOnBody(route);
  }

  /**
   * A failure is to be thrown when the caller has proved to be authorized: it reveals that the object exists. Undefined: this server
   * processes the request.
   */
  async byPath(route: Route<Context>, message: Message): Promise<ApiResponse | Failure | undefined> {
    const serverId = await this.#servers.ofPath(route);
    if (serverId === undefined) return undefined;
    const endsWork = this.#servers.endsWork(route);
    const request = { ...message, serverId, isChange: isChange(route.endpoint), isCharged: false, endsWork };
    if (!this.#servers.isAnsweredByAny(route)) return this.#forward(request);
    const response = await this.#forward(request).catch(failureOf);
    return response instanceof Failure ? undefined : response;
  }

  /** Throws AlreadyForwarded, WAREHOUSE_ON_ANOTHER_SERVER or SERVER_BUSY. */
  async byBody(
    route: Route<Context>,
    fields: Readonly<Record<string, unknown>>,
    message: Message & Pick<ForwardedRequest, 'body'>,
  ): Promise<void> {
    const serverId = await this.#servers.ofBody(route, fields);
    if (serverId === undefined) return;
    const request = { ...message, serverId, isChange: isChange(route.endpoint), isCharged: true };
    const response = await this.#forward(request);
    throw response instanceof Failure ? response : new AlreadyForwarded(response);
  }

  /** Undefined: the file is here. Throws WAREHOUSE_ON_ANOTHER_SERVER, SERVER_BUSY. */
  async byFile(fileServerId: string | null, message: Omit<Message, 'isRoot'>): Promise<ApiResponse | undefined> {
    const serverId = this.#servers.ofFile(fileServerId);
    if (serverId === undefined) return undefined;
    const response = await this.#forward({ ...message, serverId, isChange: false, isCharged: true, isRoot: false });
    if (response instanceof Failure) throw response;
    return response;
  }

  async #forward(request: ForwardedRequest): Promise<ApiResponse | Failure> {
    const { incoming, serverId } = request;
    if (this.received(incoming)) return notHere(serverId);
    const result = await this.#forwarder.forward(request);
    return result.kind === 'notSent' ? result.failure : responseOf(result);
  }
}

/** Of a lost response, of which nothing was sent yet. */
function failureOf(error: unknown): Failure {
  if (error instanceof Failure) return error;
  throw error;
}

const isChange = <Context>(endpoint: Endpoint<Context>): boolean => !isReadOnly(endpoint);

/** Two servers disagree, because one of them has not read a change yet. */
function notHere(serverId: string): Failure {
  const message = `the data is on the server ${serverId}; this request was forwarded to another one`;
  return new Failure('WAREHOUSE_ON_ANOTHER_SERVER', message, { serverId }, { outcome: 'notApplied' });
}

/** Nothing is written again if the response is being sent. */
function responseOf(result: Exclude<ForwardResult, { kind: 'notSent' }>): ApiResponse {
  const [status, headers, body] =
    result.kind === 'early'
      ? [result.response.status, result.response.headers, [result.response.body]]
      : [result.status, {}, []];
  return { status: status as ApiResponse['status'], headers, body };
}
