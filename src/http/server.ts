// The HTTP server: sockets, their limits, and the raw edges where no request exists yet. Everything under /api/ goes to
// call.ts; the few paths beside it (rest-standard B8) are given by main as `operations`. Sole user of node:http.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Observe } from '../observe/observations.ts';
import type { Code } from '../standard/codes.ts';
import { type Answer, answerOfFailure } from '../standard/envelope.ts';
import { Failure } from '../standard/failure.ts';
import type { Api } from './call.ts';

export interface HttpLimits {
  readonly connectionsMax: number;
  readonly headersBytesMax: number;
  readonly headersTimeoutMs: number;
  readonly requestTimeoutMs: number;
  readonly keepAliveTimeoutMs: number;
}

/** Something served beside /api/: its answer, or a Failure thrown. */
export interface Operation {
  readonly open: boolean;
  run(): Promise<{ readonly status: number; readonly contentType: string; readonly body: string }>;
}

export interface HttpOptions<Context> {
  readonly api: Api<Context>;
  readonly operations: Readonly<Record<string, Operation>>;
  readonly authenticate: (authorization: string | undefined) => unknown;
  readonly limits: HttpLimits;
  readonly observe: Observe;
}

/** How long the rest of a refused body is let in before the connection is cut, so that the client can read the answer. */
const lingerMs = 500;

export class HttpServer<Context> {
  readonly #server: Server;
  readonly #options: HttpOptions<Context>;
  #stopping = false;
  #active = 0;
  #idle: (() => void) | undefined;

  constructor(options: HttpOptions<Context>) {
    this.#options = options;
    const { limits } = options;
    this.#server = createServer(
      {
        maxHeaderSize: limits.headersBytesMax,
        headersTimeout: limits.headersTimeoutMs,
        requestTimeout: limits.requestTimeoutMs,
        keepAliveTimeout: limits.keepAliveTimeoutMs,
        connectionsCheckingInterval: 1000,
        noDelay: true,
        requireHostHeader: false, // checked by us, for an answer in the envelope
      },
      (incoming, outgoing) => void this.#serve(incoming, outgoing),
    );
    this.#server.maxConnections = limits.connectionsMax;
    this.#server.on('clientError', (error: NodeJS.ErrnoException, socket) =>
      this.#clientError(error, socket as Socket),
    );
    this.#server.on('checkExpectation', (_incoming, outgoing: ServerResponse) => {
      send(outgoing, refusal('EXPECTATION_FAILED', 'only "Expect: 100-continue" is offered'), undefined);
    });
    this.#server.on('connect', (_incoming, socket) => {
      const failure = new Failure('METHOD_NOT_ALLOWED', 'CONNECT is not offered', {
        allow: ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'],
      });
      rawAnswer(socket as Socket, answerOfFailure(failure));
    });
    this.#server.on('upgrade', (_incoming, socket) => {
      rawAnswer(socket as Socket, refusal('MALFORMED_HTTP', 'protocol upgrades are not offered'));
    });
  }

  /** Resolves with the port once connections are taken. */
  listen(host: string, port: number): Promise<number> {
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen({ host, port, backlog: 1024 }, () => {
        this.#server.off('error', reject);
        resolve((this.#server.address() as AddressInfo).port);
      });
    });
  }

  /** Takes no more connections, lets running requests end for at most `deadlineMs`, then cuts what is left. */
  async close(deadlineMs: number): Promise<void> {
    this.#stopping = true;
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    this.#server.closeIdleConnections();
    if (this.#active > 0) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#idle = resolve;
      const timer = setTimeout(resolve, deadlineMs);
      await promise;
      clearTimeout(timer);
    }
    this.#server.closeAllConnections();
    await closed;
  }

  async #serve(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const started = performance.now();
    this.#active++;
    outgoing.once('close', () => {
      this.#active--;
      if (this.#active === 0) this.#idle?.();
    });
    const url = incoming.url as string;
    if (!url.startsWith('/api/') || this.#stopping || !hostFits(incoming)) {
      await this.#beside(incoming, outgoing);
      return;
    }
    const { answer, requestId, endpoint, code, principal } = await this.#options.api.call(incoming, outgoing);
    send(outgoing, answer, requestId, this.#stopping);
    this.#options.observe({
      kind: 'requestEnded',
      requestId,
      method: incoming.method as string,
      endpoint,
      path: url,
      status: answer.status,
      code,
      principal,
      ms: performance.now() - started,
    });
  }

  async #beside(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const path = (incoming.url as string).split('?', 1)[0] as string;
    try {
      if (!hostFits(incoming)) throw new Failure('MALFORMED_HTTP', 'the request has no single Host header');
      const operation = Object.hasOwn(this.#options.operations, path) ? this.#options.operations[path] : undefined;
      if (this.#stopping && !operation) throw new Failure('SHUTTING_DOWN', 'the server is shutting down');
      if (!operation)
        throw new Failure('API_NOT_FOUND', 'the URI is not a registered REST API; they are under /api/v2/');
      if (incoming.method !== 'GET' && incoming.method !== 'HEAD') {
        throw new Failure('METHOD_NOT_ALLOWED', 'this URI has GET only', { allow: ['GET', 'HEAD'] });
      }
      if (!operation.open) this.#options.authenticate(incoming.headers.authorization);
      const { status, contentType, body } = await operation.run();
      outgoing.writeHead(status, {
        'Content-Type': contentType,
        'Content-Length': Buffer.byteLength(body),
        'Cache-Control': 'no-store',
      });
      outgoing.end(body);
    } catch (error) {
      const failure =
        error instanceof Failure ? error : new Failure('INTERNAL_ERROR', 'an unexpected error of the service');
      if (!(error instanceof Failure)) this.#options.observe({ kind: 'backgroundError', what: path, error });
      send(outgoing, answerOfFailure(failure), undefined, this.#stopping);
    }
  }

  /** What never became a request: the parser's errors and time-outs, answered in the envelope all the same. */
  #clientError(error: NodeJS.ErrnoException, socket: Socket): void {
    const broken: Record<string, readonly [Code, string]> = {
      HPE_HEADER_OVERFLOW: ['HEADERS_TOO_LARGE', 'the request line and headers are too large'],
      ERR_HTTP_REQUEST_TIMEOUT: ['REQUEST_TIMEOUT', 'the request did not arrive whole in time'],
    };
    const [code, message] = broken[error.code ?? ''] ?? [
      'MALFORMED_HTTP',
      'this is not an HTTP request that the server reads',
    ];
    this.#options.observe({ kind: 'requestBroken', code, reason: error.code ?? error.message });
    // Where an answer has begun on this socket, more bytes would only garble it.
    const begun = (socket as Socket & { _httpMessage?: ServerResponse })._httpMessage?.headersSent === true;
    if (error.code === 'ECONNRESET' || !socket.writable || begun) socket.destroy();
    else rawAnswer(socket, refusal(code, message));
  }
}

/** HTTP/1.1 asks for exactly one Host header. */
function hostFits(incoming: IncomingMessage): boolean {
  return (
    incoming.httpVersion === '1.0' ||
    (incoming.headers.host !== undefined && incoming.headersDistinct.host?.length === 1)
  );
}

function refusal(code: Code, message: string): Answer {
  return answerOfFailure(new Failure(code, message));
}

function send(outgoing: ServerResponse, answer: Answer, requestId: string | undefined, closing = false): void {
  if (outgoing.destroyed || outgoing.headersSent) return;
  const { body } = answer;
  const text = body.every((piece) => typeof piece === 'string');
  const bytes = text
    ? body.join('')
    : Buffer.concat(body.map((piece) => (typeof piece === 'string' ? Buffer.from(piece) : piece)));
  const headers: Record<string, string | number> = { ...answer.headers };
  if (body.length > 0) headers['Content-Type'] = 'application/json';
  headers['Content-Length'] = Buffer.byteLength(bytes);
  headers['Cache-Control'] = 'no-store';
  if (requestId !== undefined) headers['x-service-request-id'] = requestId;
  const unread = !outgoing.req.complete;
  if (unread || closing) headers.Connection = 'close';
  outgoing.writeHead(answer.status, headers);
  outgoing.end(bytes);
  if (unread) abandon(outgoing);
}

/** The client is still sending a body that nobody will read: let it see the answer, then cut. */
function abandon(outgoing: ServerResponse): void {
  const { socket } = outgoing.req;
  outgoing.req.resume();
  const timer = setTimeout(() => socket.destroy(), lingerMs);
  socket.once('close', () => clearTimeout(timer));
}

function rawAnswer(socket: Socket, answer: Answer): void {
  const body = Buffer.concat(answer.body.map((piece) => Buffer.from(piece)));
  const lines = [`HTTP/1.1 ${answer.status} ${answer.status === 405 ? 'Method Not Allowed' : 'Bad Request'}`];
  const headers = {
    ...answer.headers,
    'Content-Type': 'application/json',
    'Content-Length': String(body.length),
    Connection: 'close',
  };
  for (const [name, value] of Object.entries(headers)) lines.push(`${name}: ${value}`);
  socket.end(Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`), body]));
  const timer = setTimeout(() => socket.destroy(), lingerMs);
  socket.once('close', () => clearTimeout(timer));
}
