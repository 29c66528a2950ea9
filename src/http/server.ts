// The HTTP server: sockets, their limits, and the raw edges where no request exists yet. Everything under /api/ goes to
// call.ts; the few paths beside it (rest-standard B8) are given by main as `operations`. Sole user of node:http.
import { createServer, type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Observe } from '../observe/observations.ts';
import type { Code } from '../standard/codes.ts';
import { type Answer, answerOfFailure } from '../standard/envelope.ts';
import { Failure } from '../standard/failure.ts';
import { hasBody } from './body.ts';
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
  /** Sockets whose fault is answered, or will be: what else comes on them is not read. */
  readonly #broken = new WeakSet<Socket>();
  #stopping = false;
  #active = 0;
  #idle: (() => void) | undefined;
  /** One for all requests: each answer closes once. */
  readonly #ended = (): void => {
    this.#active--;
    if (this.#active === 0) this.#idle?.();
  };

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
    // Without a listener of 'upgrade', a request that offers one (Java's client, curl --http2) is answered as it stands.
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
    outgoing.on('close', this.#ended);
    const url = pathOfTarget(incoming.url as string);
    incoming.url = url;
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
    if (error.code === 'ECONNRESET') socket.destroy();
    if (this.#broken.has(socket)) return;
    this.#broken.add(socket);
    this.#options.observe({ kind: 'requestBroken', code, reason: error.code ?? error.message });
    answerLast(socket, refusal(code, message));
  }
}

/** A target in absolute form (RFC 9112, 3.2.2) is its path and query; any other is as it was sent. */
function pathOfTarget(target: string): string {
  if (target.startsWith('/')) return target;
  const rest = /^https?:\/\/[^/?#]+(.*)$/i.exec(target)?.[1];
  return rest === undefined ? target : rest.startsWith('/') ? rest : `/${rest}`;
}

/** HTTP/1.1 asks for exactly one Host header. Counted in the raw ones: `headersDistinct` would be made of all, each time. */
function hostFits({ httpVersionMinor, rawHeaders }: IncomingMessage): boolean {
  let hosts = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] as string;
    if (name.length === 4 && name.toLowerCase() === 'host') hosts++;
  }
  return httpVersionMinor === 0 || hosts === 1;
}

function refusal(code: Code, message: string): Answer {
  return answerOfFailure(new Failure(code, message));
}

function send(outgoing: ServerResponse, answer: Answer, requestId: string | undefined, closing = false): void {
  if (outgoing.destroyed || outgoing.headersSent) return;
  const { req: incoming } = outgoing;
  const pieces = joined(answer.body);
  const headers: Record<string, string | number> = { ...answer.headers };
  if (pieces.length > 0) headers['Content-Type'] = 'application/json';
  headers['Content-Length'] = answer.bodyBytes ?? pieces.reduce((bytes, piece) => bytes + Buffer.byteLength(piece), 0);
  headers['Cache-Control'] = 'no-store';
  if (requestId !== undefined) headers['x-service-request-id'] = requestId;
  // A request without a body may not be marked as complete yet when it is answered at once.
  if (hasBody(incoming) && !incoming.complete && answering(incoming.socket) === outgoing) {
    incoming.resume();
    sendLast(incoming.socket, answer.status, headers, incoming.method === 'HEAD' ? [] : pieces);
    return;
  }
  if (closing) headers.Connection = 'close';
  outgoing.writeHead(answer.status, headers);
  const [only] = pieces;
  if (pieces.length <= 1) {
    outgoing.end(only);
    return;
  }
  // Corked, so that all leave together.
  outgoing.cork();
  for (const piece of pieces) outgoing.write(piece);
  outgoing.end();
  outgoing.uncork();
}

/** A text leaves with its head in one write; what is bytes already is large, and is not copied again. */
function joined(body: Answer['body']): Answer['body'] {
  return body.length <= 1 || body.some((piece) => typeof piece !== 'string') ? body : [body.join('')];
}

/** Requests that came whole before the fault are answered first. Where an answer to half of one has begun, it is cut. */
function answerLast(socket: Socket, answer: Answer): void {
  const running = answering(socket);
  if (running?.req.complete) running.once('close', () => answerLast(socket, answer));
  else if (running?.headersSent || !socket.writable) socket.destroy();
  else rawAnswer(socket, answer);
}

/** The response that is written to a socket now, or is to be next. */
function answering(socket: Socket): ServerResponse | undefined {
  return (socket as Socket & { _httpMessage?: ServerResponse | null })._httpMessage ?? undefined;
}

function rawAnswer(socket: Socket, answer: Answer): void {
  const body = answer.body.join('');
  const headers = {
    ...answer.headers,
    'Content-Type': 'application/json',
    'Content-Length': Buffer.byteLength(body),
  };
  sendLast(socket, answer.status, headers, [body]);
}

/**
 * Answers past node:http, which would cut a connection whose request it has not read whole: the client, still sending, would
 * meet a reset and lose the answer. So it is told that no more comes, and what it sends is let in for a while.
 */
function sendLast(
  socket: Socket,
  status: number,
  headers: Readonly<Record<string, string | number>>,
  body: Answer['body'],
): void {
  const lines = [`HTTP/1.1 ${status} ${STATUS_CODES[status]}`];
  for (const [name, value] of Object.entries(headers)) lines.push(`${name}: ${value}`);
  socket.write(`${lines.join('\r\n')}\r\nConnection: close\r\n\r\n`);
  for (const piece of body) socket.write(piece);
  socket.end();
  const timer = setTimeout(() => socket.destroy(), lingerMs);
  socket.once('close', () => clearTimeout(timer));
}
