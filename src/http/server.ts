// The HTTP server: sockets, their limits, and errors that occur before a request exists. Paths under /api/ go to request_pipeline.ts;
// the system endpoints (rest-standard B9) and the console are passed in as `operation`. The only user of node:http and node:https as a server.

import type { IncomingHttpHeaders, IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Server as SecureServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { withTimeout } from '../model/concurrency/bounded_waits.ts';
import type { Privilege } from '../model/privileges.ts';
import type { Observation, Observe } from '../observe/observations.ts';
import type { Code } from '../standard/codes.ts';
import { type ApiResponse, failureResponse } from '../standard/envelope.ts';
import { Failure } from '../standard/failure.ts';
import { CallFailures } from './call_failures.ts';
import { networkOf } from './connection/client_address.ts';
import { Connections } from './connection/connections.ts';
import { listenError } from './connection/listen_error.ts';
import type { Transport } from './connection/transport.ts';
import { SignInRequests } from './console/sign_in_requests.ts';
import { FileCall, FileRequests } from './files.ts';
import { requestIdOf } from './request_headers.ts';
import type { RequestPipeline } from './request_pipeline.ts';
import { ResponseWriter } from './response_writer.ts';
import { commonHeaders, pageHeaders } from './security_headers.ts';

export interface HttpLimits {
  readonly connectionsMax: number;
  readonly headersBytesMax: number;
  readonly headersTimeoutMs: number;
  readonly requestTimeoutMs: number;
  readonly keepAliveTimeoutMs: number;
  /** 0 means no limit. */
  readonly connectionsPerAddressMax: number;
  readonly requestsPerConnectionMax: number;
  readonly headersCountMax: number;
  readonly tlsHandshakeTimeoutMs: number;
  /** 0 sends no Strict-Transport-Security header. */
  readonly hstsMaxAgeSeconds: number;
}

/** An endpoint outside /api/. `run` returns the response or throws a Failure. */
export interface SystemEndpoint {
  /** `anyone`: no credentials, but the rate limit of the address counts it; `nothing`: not even that. */
  readonly needs: 'nothing' | 'anyone' | 'credentials' | { readonly privilege: Privilege; readonly category: string };
  run(headers: IncomingHttpHeaders): Promise<{
    readonly status: number;
    readonly contentType: string;
    readonly headers?: Readonly<Record<string, string>>;
    readonly body: string | Uint8Array;
  }>;
}

export interface HttpOptions<Context> {
  readonly api: RequestPipeline<Context>;
  /** The system endpoint at a path. */
  readonly operation: (path: string) => SystemEndpoint | undefined;
  /** Without it, file transfers are not served. */
  readonly files?: FileRequests;
  /** Without it, nobody signs in to the console by link or identity provider. */
  readonly signIn?: SignInRequests;
  readonly limits: HttpLimits;
  readonly observe: Observe;
  /** Without it: plain HTTP, and no proxy is trusted. */
  readonly transport?: Transport;
}

type EndedRequest = Omit<Extract<Observation, { kind: 'requestEnded' }>, 'kind' | 'method' | 'path' | 'ms'> & {
  readonly started: number;
};

/** A response with more unsent bytes than this is cut off when the credentials of its request are revoked. */
const slowAnswerBytesMin = 256 * 1024;

export class HttpServer<Context> {
  readonly #server: Server;
  readonly #options: HttpOptions<Context>;
  readonly #writer: ResponseWriter;
  readonly #connections: Connections;
  readonly #failures: CallFailures;
  /** Sockets whose protocol error has been answered, or will be: further input is not read. */
  readonly #broken = new WeakSet<Socket>();
  /** What had been read of a connection with TLS when its handshake was complete. */
  readonly #handshakeBytes = new WeakMap<Socket, number>();
  /** Requests received on each connection; empty when their number is not limited. */
  readonly #requests = new WeakMap<Socket, number>();
  /** Sockets with a file transfer, which has its own deadlines. */
  readonly #transfers = new WeakSet<Socket>();
  #stopping = false;
  #active = 0;
  #idle: (() => void) | undefined;
  /** One function for all requests: each response emits `close` once. */
  readonly #ended = (): void => {
    this.#active--;
    if (this.#active === 0) this.#idle?.();
  };

  constructor(options: HttpOptions<Context>) {
    this.#options = options;
    const { limits, transport, observe } = options;
    const tls = transport?.tls;
    this.#failures = new CallFailures(observe);
    this.#writer = new ResponseWriter(commonHeaders(tls ? limits.hstsMaxAgeSeconds : 0));
    const serve = (incoming: IncomingMessage, outgoing: ServerResponse) => void this.#serve(incoming, outgoing);
    const http = {
      maxHeaderSize: limits.headersBytesMax,
      headersTimeout: limits.headersTimeoutMs,
      requestTimeout: limits.requestTimeoutMs,
      keepAliveTimeout: limits.keepAliveTimeoutMs,
      connectionsCheckingInterval: 1000,
      noDelay: true,
      requireHostHeader: false, // checked by invalidHead, so that the response has the envelope
    };
    this.#server = tls
      ? process
          .getBuiltinModule('node:https')
          .createServer({ ...http, ...tls.pair, handshakeTimeout: limits.tlsHandshakeTimeoutMs }, serve)
      : process.getBuiltinModule('node:http').createServer(http, serve);
    this.#server.maxHeadersCount = 0; // checked by invalidHead: node drops headers over its limit without an error
    this.#server.maxConnections = limits.connectionsMax;
    this.#server.on('drop', () => observe({ kind: 'connectionRefused', limit: 'connectionsMax' }));
    this.#connections = new Connections({
      perAddressMax: limits.connectionsPerAddressMax,
      trusts: transport?.trusts ?? (() => false),
    });
    this.#server.on('connection', (socket: Socket) => {
      if (!this.#connections.admit(socket)) observe({ kind: 'connectionRefused', limit: 'connectionsPerAddressMax' });
    });
    this.#listenToFaults();
  }

  #listenToFaults(): void {
    // By default, node forwards these as 'clientError', where they would be answered; before the handshake no client could read that.
    this.#server.removeAllListeners('tlsClientError');
    this.#server.on('tlsClientError', (error: NodeJS.ErrnoException, socket: Socket) => {
      socket.destroy();
      if (error.code === 'ECONNRESET') return; // a disconnect during the handshake is not an error
      const reason = error.code ?? error.message;
      this.#options.observe({ kind: 'requestBroken', code: 'TLS_HANDSHAKE_FAILED', reason });
    });
    this.#server.on('secureConnection', (socket: Socket) => void this.#handshakeBytes.set(socket, socket.bytesRead));
    this.#server.on('clientError', (error: NodeJS.ErrnoException, socket) =>
      this.#clientError(error, socket as Socket),
    );
    this.#server.on('checkExpectation', (_incoming, outgoing: ServerResponse) => {
      this.#writer.send(outgoing, refusal('EXPECTATION_FAILED', 'only "Expect: 100-continue" is supported'), undefined);
    });
    this.#server.on('connect', (_incoming, socket) => {
      const failure = new Failure('METHOD_NOT_ALLOWED', 'CONNECT is not supported', {
        allow: ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'],
      });
      this.#writer.raw(socket as Socket, failureResponse(failure));
    });
    // Without a listener for 'upgrade', a request that offers one (Java's client, curl --http2) is answered as plain HTTP.
  }

  /** Resolves with the port once connections are accepted. Throws OperatorError if the address cannot be used. */
  listen(host: string, port: number): Promise<number> {
    return new Promise((resolve, reject) => {
      const fail = (error: Error) => reject(listenError(error, host, port));
      this.#server.once('error', fail);
      this.#server.listen({ host, port, backlog: 1024 }, () => {
        this.#server.off('error', fail);
        const { transport, observe } = this.#options;
        transport?.tls?.watch((pair) => (this.#server as SecureServer).setSecureContext(pair), observe);
        resolve((this.#server.address() as AddressInfo).port);
      });
    });
  }

  /** Accepts no more connections, lets running requests end for at most `deadlineMs`, then closes the remaining connections. */
  async close(deadlineMs: number): Promise<void> {
    this.#stopping = true;
    this.#options.transport?.tls?.stop();
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    this.#server.closeIdleConnections();
    if (this.#active > 0) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#idle = resolve;
      await withTimeout(promise, deadlineMs);
    }
    this.#server.closeAllConnections();
    this.#connections.cut();
    await closed;
  }

  /** Never rejects, which would end the process: what fails while a response is built or written is answered if that is still possible. */
  async #serve(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const started = performance.now();
    try {
      await this.#respond(incoming, outgoing, started);
    } catch (error) {
      const { requestId } = requestIdOf(incoming);
      const failure = this.#failureOf(error, incoming, requestId);
      const response = failureResponse(failure);
      if (outgoing.headersSent) outgoing.destroy();
      else this.#writer.send(outgoing, response, requestId, this.#stopping);
      const { status } = response;
      const unknown = { endpoint: '-', principal: undefined, network: this.#networkOf(incoming, status) };
      this.#observeEnd(incoming, { requestId, status, code: failure.code, started, ...unknown });
    }
  }

  async #respond(incoming: IncomingMessage, outgoing: ServerResponse, started: number): Promise<void> {
    const { limits } = this.#options;
    if (limits.requestsPerConnectionMax > 0) {
      const requestsLeft = limits.requestsPerConnectionMax - this.#countRequest(incoming.socket);
      if (requestsLeft < 0) return; // the previous response says that the connection ends
      outgoing.shouldKeepAlive &&= requestsLeft > 0;
    }
    this.#active++;
    outgoing.on('close', this.#ended);
    const url = pathOfTarget(incoming.url as string);
    incoming.url = url;
    if (!url.startsWith('/api/') || this.#stopping || invalidHead(incoming, limits.headersCountMax)) {
      await this.#serveOutsideApi(incoming, outgoing);
      return;
    }
    const { response, requestId, endpoint, code, principal, session } = await this.#options.api.call(
      incoming,
      outgoing,
    );
    this.#writer.send(outgoing, response, requestId, this.#stopping);
    const isSlow = outgoing.writableLength > slowAnswerBytesMin || !outgoing.headersSent;
    if (session && isSlow && !outgoing.writableEnded) this.#options.api.watch(outgoing, session);
    const { status } = response;
    const network = this.#networkOf(incoming, status);
    this.#observeEnd(incoming, { requestId, endpoint, status, code, principal, network, started });
  }

  #observeEnd(incoming: IncomingMessage, { started, ...ended }: EndedRequest): void {
    const ms = performance.now() - started;
    const { method = '', url = '' } = incoming;
    this.#options.observe({ kind: 'requestEnded', method, path: pathOf(url), ...ended, ms });
  }

  /** Of refusals only: the log counts them per caller. */
  #networkOf(incoming: IncomingMessage, status: number | undefined): string | undefined {
    const { transport } = this.#options;
    return (status === 503 || status === 401) && transport ? networkOf(transport.clientAddressOf(incoming)) : undefined;
  }

  #countRequest(socket: Socket): number {
    const count = (this.#requests.get(socket) ?? 0) + 1;
    this.#requests.set(socket, count);
    return count;
  }

  async #serveOutsideApi(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const path = pathOf(incoming.url as string);
    try {
      const fault = invalidHead(incoming, this.#options.limits.headersCountMax);
      if (fault) throw new Failure(...fault);
      const operation = this.#options.operation(path);
      if (this.#stopping && !operation) throw new Failure('SHUTTING_DOWN', 'the server is shutting down');
      if (this.#options.files && FileRequests.has(path)) {
        await this.#transfer(this.#options.files, incoming, outgoing);
        return;
      }
      if (this.#options.signIn && SignInRequests.has(path)) {
        const { requestId } = requestIdOf(incoming);
        const response = await this.#options.signIn.serve(incoming, path, requestId);
        this.#writer.send(outgoing, response, requestId, this.#stopping);
        return;
      }
      if (!operation)
        throw new Failure('API_NOT_FOUND', 'the URI is not a registered REST API; all APIs are under /api/v2/');
      if (incoming.method !== 'GET' && incoming.method !== 'HEAD') {
        throw new Failure('METHOD_NOT_ALLOWED', 'this URI supports only GET and HEAD', { allow: ['GET', 'HEAD'] });
      }
      if (operation.needs !== 'nothing') await this.#options.api.admit(incoming, path, operation.needs);
      const { status, contentType, headers, body } = await operation.run(incoming.headers);
      const allHeaders = { ...pageHeaders, 'Content-Type': contentType, 'Cache-Control': 'no-store', ...headers };
      this.#writer.write(outgoing, status, allHeaders, [body]);
    } catch (error) {
      const { requestId } = requestIdOf(incoming);
      const failure = this.#failureOf(error, incoming, requestId);
      this.#writer.send(outgoing, failureResponse(failure), requestId, this.#stopping);
    }
  }

  async #transfer(files: FileRequests, incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const started = performance.now();
    const call = new FileCall(incoming);
    let code: Code | '0' = '0';
    let response: ApiResponse | undefined;
    this.#transfers.add(incoming.socket);
    try {
      response = await files.serve(incoming, outgoing, this.#writer.commonHeaders, call);
    } catch (error) {
      if (outgoing.headersSent) {
        // The response has started and cannot become an error response. Closing the connection shows the client that it is incomplete.
        outgoing.destroy();
        code = 'MALFORMED_HTTP';
      } else {
        const failure = this.#failureOf(error, incoming, call.requestId);
        code = failure.code;
        response = failureResponse(failure);
      }
    } finally {
      this.#transfers.delete(incoming.socket);
    }
    if (response) this.#writer.send(outgoing, response, call.requestId, this.#stopping);
    const { requestId, endpoint, principal } = call;
    const status = response?.status ?? outgoing.statusCode;
    const network = this.#networkOf(incoming, response?.status);
    this.#observeEnd(incoming, { requestId, endpoint, status, code, principal, network, started });
  }

  #failureOf(error: unknown, { method }: IncomingMessage, requestId: string): Failure {
    if (error instanceof Failure) return error;
    const outcome = method === 'GET' || method === 'HEAD' ? 'notApplied' : 'unknown';
    return this.#failures.withOutcome(error, requestId, outcome);
  }

  #refusalOfMethod({ method, target }: RequestLine): Failure {
    const path = pathOf(pathOfTarget(target));
    if (path.startsWith('/api/')) return this.#options.api.refusalOfMethod(method, path);
    if (!this.#options.operation(path))
      return new Failure('API_NOT_FOUND', 'the URI is not a registered REST API; all APIs are under /api/v2/');
    return new Failure('METHOD_NOT_ALLOWED', 'this URI supports only GET and HEAD', { allow: ['GET', 'HEAD'] });
  }

  /** Answers parse errors and timeouts, which occur before a request exists, in the envelope. */
  #clientError(error: NodeJS.ErrnoException, socket: Socket): void {
    const broken: Record<string, readonly [Code, string]> = {
      HPE_HEADER_OVERFLOW: ['HEADERS_TOO_LARGE', 'the request line and headers are too large'],
      ERR_HTTP_REQUEST_TIMEOUT: ['REQUEST_TIMEOUT', 'the request was not received completely within the time limit'],
    };
    const [code, message] = broken[error.code ?? ''] ?? ['MALFORMED_HTTP', 'this is not a valid HTTP request'];
    if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT') {
      if (this.#transfers.has(socket)) return;
      // Browsers open connections ahead of requests. One that sends its first request now would take this response for its own.
      if (socket.bytesRead === (this.#handshakeBytes.get(socket) ?? 0)) return void socket.destroy();
    }
    if (error.code === 'ECONNRESET') socket.destroy();
    if (this.#broken.has(socket)) return;
    this.#broken.add(socket);
    this.#options.observe({ kind: 'requestBroken', code, reason: error.code ?? error.message });
    const line = error.code === 'HPE_INVALID_METHOD' ? requestLineOf(error as ParserError) : undefined;
    this.#writer.last(socket, line ? failureResponse(this.#refusalOfMethod(line)) : refusal(code, message));
  }
}

/** The parser of node:http rejects an unregistered method before it reads further: only the raw packet is available. */
type ParserError = NodeJS.ErrnoException & { readonly rawPacket?: Buffer; readonly bytesParsed?: number };

interface RequestLine {
  readonly method: string;
  readonly target: string;
}

/** Undefined when the line is incomplete or malformed. */
function requestLineOf({ rawPacket, bytesParsed = 0 }: ParserError): RequestLine | undefined {
  if (!rawPacket) return undefined;
  const from = rawPacket.lastIndexOf('\n', Math.max(0, bytesParsed - 1)) + 1;
  const end = rawPacket.indexOf('\n', from);
  if (end < 0) return undefined;
  const line = /^([!#$%&'*+.^_`|~\w-]+) ([\x21-\x7e]+) HTTP\/1\.[01]\r?$/.exec(rawPacket.toString('latin1', from, end));
  return line ? { method: line[1] as string, target: line[2] as string } : undefined;
}

/** Reduces a target in absolute form (RFC 9112, 3.2.2) to its path and query; returns any other unchanged. */
function pathOfTarget(target: string): string {
  if (target.startsWith('/')) return target;
  const rest = /^https?:\/\/[^/?#]+(.*)$/i.exec(target)?.[1];
  return rest === undefined ? target : rest.startsWith('/') ? rest : `/${rest}`;
}

function pathOf(url: string): string {
  const mark = url.indexOf('?');
  return mark < 0 ? url : url.slice(0, mark);
}

/** HTTP/1.1 requires exactly one Host header. Counted in rawHeaders, because `headersDistinct` would process all headers each time. */
function invalidHead(incoming: IncomingMessage, headersCountMax: number): readonly [Code, string] | undefined {
  const { httpVersionMinor, rawHeaders } = incoming;
  if (rawHeaders.length > 2 * headersCountMax)
    return ['HEADERS_TOO_LARGE', `the request has more than ${headersCountMax} headers`];
  let hosts = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] as string;
    if (name.length === 4 && name.toLowerCase() === 'host') hosts++;
  }
  return httpVersionMinor === 0 || hosts === 1
    ? undefined
    : ['MALFORMED_HTTP', 'the request must have exactly one Host header'];
}

function refusal(code: Code, message: string): ApiResponse {
  return failureResponse(new Failure(code, message));
}
