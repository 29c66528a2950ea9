// Forwards requests to the server of a shared store that has the data, over connections that are kept open. Body and response are streamed;
// the credentials are those of the caller, which that server checks itself. A disconnect of the client ends the forwarded request.
import type { Agent, ClientRequest, IncomingMessage, ServerResponse } from 'node:http';
import type { RequestOptions as SecureRequestOptions } from 'node:https';
import { isIP } from 'node:net';
import type { Duplex } from 'node:stream';
import { withTimeout } from '../../model/concurrency/bounded_waits.ts';
import { Failure } from '../../standard/failure.ts';
import { hasBody } from '../bodies/body.ts';
import { readAfterHeader, requestIdHeader } from '../request_headers.ts';
import { type Forwarded, ForwardedHeaders, forwardedHeader } from './forwarded_header.ts';

export interface ForwarderOptions {
  /** This server. */
  readonly serverId: string;
  /** The same on all servers of the store. */
  readonly key: Uint8Array;
  /** Where a server is reached; undefined if it is down. */
  readonly find: (serverId: string) => { readonly url: string } | undefined;
  readonly addressOf: (incoming: IncomingMessage) => string;
  readonly changes: { readonly position: number | undefined };
  /** Connections to each server. By default, fewer than `connectionsPerAddressMax` by default, so that the other server accepts them. */
  readonly socketsMax?: number | undefined;
}

export interface ForwardedRequest {
  readonly incoming: IncomingMessage;
  readonly outgoing: ServerResponse;
  readonly requestId: string;
  /** The caller, or the owner of the file. */
  readonly principalId: string;
  /** The server to forward it to. */
  readonly serverId: string;
  /** Whether it may have been applied if its response is lost. */
  readonly isChange: boolean;
  /** Whether it ends what other requests may be waiting for. */
  readonly endsWork?: boolean | undefined;
  /** The body, if it was read already. */
  readonly body?: Uint8Array | undefined;
  readonly isCharged: boolean;
  readonly isRoot: boolean;
}

/** A response that arrived before the whole body of the request was received. */
export interface EarlyResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
}

export type ForwardResult =
  /** The response is being sent to the client. */
  | { readonly kind: 'sent'; readonly status: number }
  | { readonly kind: 'early'; readonly response: EarlyResponse }
  /** The server received nothing of the request, and nothing of its body was read. */
  | { readonly kind: 'notSent'; readonly failure: Failure };

/** Until a connection is available. */
const connectMsMax = 3_000;
/** Until the response begins, and between two parts of it. Requests that wait for statements or tasks take at most a few minutes. */
const responseMsMax = 15 * 60_000;
/** How often the state of the other server is checked while its response is awaited, and received. */
const checkEveryMs = 1_000;
const socketsMaxDefault = 500;
/** A server that sends nothing for longer, and is said to be down, is. */
const downMsMin = 5_000;
const earlyResponseBytesMax = 1024 * 1024;

/** Headers of a connection, not of the request or the response (RFC 9110, 7.6.1), and those that this server writes itself. */
const connectionHeaders = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'expect',
]);
/** The headers of an early response, which is always a refusal, that are sent to the client. */
const earlyHeaders = ['retry-after', 'allow', 'deprecation', 'sunset', 'link'] as const;

type Headers = Record<string, string | string[]>;

/** Forwarded requests that have not ended, in total and by principal. */
interface Shares {
  total: number;
  readonly own: Map<string, number>;
}

export class Forwarder {
  readonly #options: ForwarderOptions;
  readonly #headers: ForwardedHeaders;
  readonly #agents = new Map<string, Agent>();
  readonly #socketsMax: number;
  /** The principals of the requests that each server is processing. */
  readonly #principals = new Map<string, Shares>();

  constructor(options: ForwarderOptions) {
    this.#options = options;
    this.#socketsMax = options.socketsMax ?? socketsMaxDefault;
    this.#headers = new ForwardedHeaders(options.serverId, options.key);
  }

  /** What the server that forwarded a request to this one says of it; undefined if none did. */
  received(incoming: IncomingMessage): Forwarded | undefined {
    return this.#headers.read(incoming);
  }

  /** Throws WAREHOUSE_ON_ANOTHER_SERVER if the response is lost. */
  async forward(request: ForwardedRequest): Promise<ForwardResult> {
    const { serverId, outgoing } = request;
    const server = this.#options.find(serverId);
    if (!server) return { kind: 'notSent', failure: unreachable(serverId) };
    // Its `close`, which ends a forwarded request, has been emitted already.
    if (outgoing.destroyed) return { kind: 'notSent', failure: disconnected() };
    const release = this.#take(request);
    if (!release) return { kind: 'notSent', failure: busy(serverId) };
    const upstream = this.#open(new URL(server.url), request);
    upstream.once('close', release);
    const onClose = () => {
      if (!outgoing.writableFinished) upstream.destroy();
    };
    outgoing.once('close', onClose);
    // The failures of a response that has begun are those of its stream.
    upstream.on('error', () => undefined);
    if (!(await connected(upstream))) {
      outgoing.off('close', onClose);
      upstream.destroy();
      return { kind: 'notSent', failure: unreachable(serverId) };
    }
    this.#sendBody(upstream, request);
    const response = await this.#responseTo(upstream, request);
    this.#endIfLost(response, serverId);
    return answer(response, request);
  }

  /** Closes the connections. Call it after the last request has ended. */
  close(): void {
    for (const agent of this.#agents.values()) agent.destroy();
  }

  /**
   * Counts a request until the returned function is called. A principal that has as many connections to a server as are free gets no more:
   * whatever some do there, and for how long, others get one. It gets twice as many to end that work.
   */
  #take({ serverId, principalId, endsWork }: ForwardedRequest): (() => void) | undefined {
    const shares = this.#principals.get(serverId) ?? { total: 0, own: new Map<string, number>() };
    const own = shares.own.get(principalId) ?? 0;
    if (own >= (this.#socketsMax - shares.total) * (endsWork ? 2 : 1)) return undefined;
    this.#principals.set(serverId, shares);
    shares.own.set(principalId, own + 1);
    shares.total++;
    return () => {
      shares.total--;
      const remaining = (shares.own.get(principalId) as number) - 1;
      if (remaining > 0) shares.own.set(principalId, remaining);
      else shares.own.delete(principalId);
      if (shares.total === 0) this.#principals.delete(serverId);
    };
  }

  #open(url: URL, { incoming, requestId, serverId, isCharged, isRoot, body }: ForwardedRequest): ClientRequest {
    const address = this.#options.addressOf(incoming);
    const headers: Headers = { ...headersOf(incoming) };
    if (isRoot) delete headers.authorization;
    headers[requestIdHeader] = requestId;
    // The other server has to know the credentials and the rights by which this one accepted the request.
    headers[readAfterHeader] = String(this.#options.changes.position ?? 0);
    headers[forwardedHeader] = this.#headers.sign(incoming, serverId, { address, isCharged, isRoot });
    if (body) headers['content-length'] = String(body.length);
    else if (incoming.headers['transfer-encoding'] !== undefined) headers['transfer-encoding'] = 'chunked';
    else if (!hasBody(incoming)) headers['content-length'] = '0';
    const options: SecureRequestOptions = {
      method: incoming.method,
      path: incoming.url,
      headers,
      agent: this.#agentOf(url),
      // By default it would be the host of the client's request.
      ...(isIP(url.hostname) === 0 ? { servername: url.hostname } : {}),
    };
    const module = url.protocol === 'https:' ? ('node:https' as const) : ('node:http' as const);
    return process.getBuiltinModule(module).request(url, options);
  }

  #agentOf({ protocol }: URL): Agent {
    const known = this.#agents.get(protocol);
    if (known) return known;
    const options = { keepAlive: true, maxSockets: this.#socketsMax, noDelay: true };
    const { Agent } = process.getBuiltinModule(protocol === 'https:' ? 'node:https' : 'node:http');
    const agent = new Agent(options);
    this.#agents.set(protocol, agent);
    return agent;
  }

  #sendBody(upstream: ClientRequest, { incoming, body }: ForwardedRequest): void {
    if (body) upstream.end(body);
    else if (!hasBody(incoming)) upstream.end();
    else {
      incoming.pipe(upstream);
      // The client has disconnected.
      incoming.once('error', () => upstream.destroy());
    }
  }

  /** Throws WAREHOUSE_ON_ANOTHER_SERVER when the connection is lost, when the server is down, and after the maximum time. */
  async #responseTo(upstream: ClientRequest, request: ForwardedRequest): Promise<IncomingMessage> {
    const { serverId, incoming } = request;
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    const lost = () => reject(new Error('the connection was lost'));
    upstream.once('response', resolve).once('error', lost).once('close', lost);
    const deadline = setTimeout(lost, responseMsMax);
    const check = setInterval(() => {
      if (!this.#options.find(serverId)) lost();
    }, checkEveryMs);
    try {
      return await promise;
    } catch {
      upstream.destroy();
      incoming.unpipe(upstream);
      throw responseLost(request);
    } finally {
      clearTimeout(deadline);
      clearInterval(check);
    }
  }

  /** Destroys a response when its server is down, or sends nothing for too long while the client takes what comes. */
  #endIfLost(response: IncomingMessage, serverId: string): void {
    const { socket } = response;
    let bytesRead = -1;
    let receivedAt = 0;
    const check = setInterval(() => {
      if (socket.bytesRead !== bytesRead || response.isPaused()) receivedAt = performance.now();
      bytesRead = socket.bytesRead;
      const silentMs = performance.now() - receivedAt;
      // Without the store, this server takes others for down that are not: they send more.
      const isDown = silentMs > downMsMin && !this.#options.find(serverId);
      if (isDown || silentMs > responseMsMax) response.destroy(new Error('the server was lost'));
    }, checkEveryMs);
    response.once('close', () => clearInterval(check));
  }
}

/** Whether the request has a connection in time. */
async function connected(upstream: ClientRequest): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  upstream.once('socket', (socket: Duplex & { readonly connecting?: boolean; readonly encrypted?: boolean }) => {
    if (!socket.connecting) resolve(true);
    else socket.once(socket.encrypted ? 'secureConnect' : 'connect', () => resolve(true));
  });
  upstream.once('error', () => resolve(false)).once('close', () => resolve(false));
  return (await withTimeout(promise, connectMsMax)) ?? false;
}

function headersOf({ headersDistinct, headers }: IncomingMessage): Headers {
  const listed = String(headers.connection ?? '')
    .toLowerCase()
    .split(',')
    .map((name) => name.trim());
  const kept: Headers = {};
  for (const [name, values = []] of Object.entries(headersDistinct))
    if (!connectionHeaders.has(name) && !listed.includes(name))
      kept[name] = values.length === 1 ? String(values[0]) : values;
  return kept;
}

async function answer(response: IncomingMessage, request: ForwardedRequest): Promise<ForwardResult> {
  const { incoming, outgoing, body } = request;
  const { statusCode: status = 502 } = response;
  const isIncomplete = body === undefined && hasBody(incoming) && !incoming.complete;
  if (isIncomplete && Number(response.headers['content-length'] ?? Number.POSITIVE_INFINITY) <= earlyResponseBytesMax) {
    incoming.unpipe();
    const headers: Record<string, string> = {};
    for (const name of earlyHeaders)
      if (response.headers[name] !== undefined) headers[name] = `${response.headers[name]}`;
    const content = await wholeBody(response).catch(() => Promise.reject(responseLost(request)));
    return { kind: 'early', response: { status, headers, body: content } };
  }
  if (outgoing.destroyed) {
    response.destroy();
    return { kind: 'sent', status };
  }
  outgoing.writeHead(status, headersOf(response));
  response.once('error', () => outgoing.destroy());
  response.once('aborted', () => outgoing.destroy());
  response.pipe(outgoing);
  return { kind: 'sent', status };
}

async function wholeBody(response: IncomingMessage): Promise<Uint8Array> {
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

function unreachable(serverId: string): Failure {
  const message = `the data is on the server ${serverId}, which does not respond`;
  return new Failure('WAREHOUSE_ON_ANOTHER_SERVER', message, { serverId }, { outcome: 'notApplied' });
}

const disconnected = () => new Failure('STATEMENT_CANCELLED', 'the caller has disconnected');

function busy(serverId: string): Failure {
  const message = `too many requests of this principal wait for the server ${serverId}, which has the data; retry when some have ended`;
  return new Failure('SERVER_BUSY', message, { serverId });
}

function responseLost({ serverId, isChange }: ForwardedRequest): Failure {
  const message = `the connection to the server ${serverId}, which has the data, was lost`;
  const outcome = isChange ? 'unknown' : 'notApplied';
  return new Failure('WAREHOUSE_ON_ANOTHER_SERVER', message, { serverId }, { outcome });
}
