// Writes responses: head and body in one write, the common headers, and responses on connections that node:http would close because
// the request was not read completely.
import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { Readable, type Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { type ApiResponse, bearerChallenge } from '../standard/envelope.ts';
import { concatenate, isReadPiece, pieceBytes } from '../standard/record_body.ts';
import { hasBody } from './bodies/body.ts';
import { type Coding, compressed, compressedBytesMin, compressor, preferenceOf } from './content_coding.ts';
import { requestIdHeader } from './request_headers.ts';
import type { CommonHeaders } from './security_headers.ts';

const { STATUS_CODES } = process.getBuiltinModule('node:http');
/** How long the rest of a refused body is accepted before the connection is closed, so that the client can read the response. */
const lingerMs = 500;

export class ResponseWriter {
  readonly commonHeaders: CommonHeaders;

  constructor(commonHeaders: CommonHeaders) {
    this.commonHeaders = commonHeaders;
  }

  send(outgoing: ServerResponse, response: ApiResponse, requestId: string | undefined, closing = false): void {
    if (outgoing.destroyed || outgoing.headersSent) return;
    const { req: incoming } = outgoing;
    const headers: Headers = { ...response.headers, 'Cache-Control': 'no-store' };
    if (response.body.length > 0) headers['Content-Type'] = 'application/json';
    if (response.status === 401 && isOfPage(incoming)) headers['WWW-Authenticate'] = bearerChallenge;
    headers[requestIdHeader] = requestId ?? randomUUID();
    // A request without a body may not be marked as complete yet when it is answered immediately.
    if (hasBody(incoming) && !incoming.complete && currentResponse(incoming.socket) === outgoing) {
      incoming.resume();
      const body = joined(response.body);
      const allHeaders = { ...this.commonHeaders, ...headers, 'Content-Length': response.bodyBytes ?? bytesOf(body) };
      sendLast(incoming.socket, response.status, allHeaders, incoming.method === 'HEAD' ? [] : body);
      return;
    }
    if (closing) headers.Connection = 'close';
    this.write(outgoing, response.status, headers, response.body, response.bodyBytes);
  }

  /** Writes a response with the content coding that the request prefers, unless `headers` has one. Returns before compression ends. */
  write(
    outgoing: ServerResponse,
    status: number,
    headers: Readonly<Headers>,
    body: ApiResponse['body'],
    bodyBytes?: number,
  ): void {
    const pieces = joined(body);
    const bytes = bodyBytes ?? bytesOf(pieces);
    const allHeaders: Headers = { ...this.commonHeaders, ...headers };
    allHeaders[requestIdHeader] ??= randomUUID();
    const isLarge = bytes > compressedBytesMin;
    const isCoded = allHeaders['Content-Encoding'] !== undefined;
    if (isLarge && !isCoded) allHeaders.Vary = 'Accept-Encoding';
    const { coding, mustCode } = preferenceOf(outgoing.req.headers['accept-encoding'] as string | undefined);
    if (coding !== undefined && !isCoded && (isLarge || (mustCode && bytes > 0))) {
      allHeaders['Content-Encoding'] = coding;
      void sendCoded(outgoing, status, allHeaders, pieces, bytes, coding);
      return;
    }
    if (status !== 304) allHeaders['Content-Length'] = bytes;
    outgoing.writeHead(status, allHeaders);
    sendPieces(outgoing, pieces);
  }

  /** Sends a last response on a socket, after those to earlier complete requests. A response that has started to an incomplete request is cut off. */
  last(socket: Socket, response: ApiResponse): void {
    const running = currentResponse(socket);
    if (running?.req.complete) running.once('close', () => this.last(socket, response));
    else if (running?.headersSent || !socket.writable) socket.destroy();
    else this.raw(socket, response);
  }

  /** Bypasses node:http and writes immediately. Call it only when no other response is in progress. */
  raw(socket: Socket, response: ApiResponse): void {
    const body = response.body.join('');
    const headers = {
      ...this.commonHeaders,
      ...response.headers,
      [requestIdHeader]: randomUUID(),
      'Content-Type': 'application/json',
      'Content-Length': Buffer.byteLength(body),
    };
    sendLast(socket, response.status, headers, [body]);
  }
}

/**
 * Whether a script of a page sent it; a person who enters an address may sign in by the browser's dialog. Over plain HTTP to another
 * machine, browsers do not send Sec-Fetch-Mode, and the origin only with requests that may change something.
 */
function isOfPage({ headers }: IncomingMessage): boolean {
  const mode = headers['sec-fetch-mode'];
  if (mode !== undefined) return mode !== 'navigate';
  return headers.origin !== undefined || headers['x-requested-with'] !== undefined;
}

type Headers = Record<string, string | number>;

/** A larger response is sent while it is compressed, so that it is not in memory twice. */
const bufferedCodingBytesMax = 256 * 1024;

/** A disconnect of the client is not an error. If compression fails, the connection is closed. */
async function sendCoded(
  outgoing: ServerResponse,
  status: number,
  headers: Headers,
  pieces: ApiResponse['body'],
  bytes: number,
  coding: Coding,
): Promise<void> {
  try {
    if (bytes > bufferedCodingBytesMax) {
      outgoing.writeHead(status, headers);
      await pipeline(Readable.from(slices(pieces), { objectMode: false }), compressor(coding), outgoing);
      return;
    }
    const coded = await compressed(await concatenate(pieces), coding, 'fast');
    if (!outgoing.destroyed) outgoing.writeHead(status, { ...headers, 'Content-Length': coded.length }).end(coded);
  } catch {
    outgoing.destroy();
  }
}

/** Slices small enough that encoding and writing one takes little time. */
async function* slices(pieces: ApiResponse['body']): AsyncGenerator<Uint8Array> {
  for (const piece of pieces) {
    if (isReadPiece(piece)) {
      // A chunk is valid only until the next one, and streams request that ahead.
      for await (const chunk of piece.read()) yield Buffer.from(chunk);
      continue;
    }
    for (let start = 0, end = 0; start < piece.length; start = end) {
      end = Math.min(start + bufferedCodingBytesMax, piece.length);
      if (typeof piece === 'string') {
        // Do not split a surrogate pair.
        if ((piece.charCodeAt(end - 1) & 0xfc00) === 0xd800 && end < piece.length) end++;
        yield Buffer.from(piece.slice(start, end));
      } else yield piece.subarray(start, end);
    }
  }
}

function sendPieces(outgoing: ServerResponse, pieces: ApiResponse['body']): void {
  if (!areInMemory(pieces)) {
    void sendRead(outgoing, pieces);
    return;
  }
  const [single] = pieces;
  if (pieces.length <= 1) {
    outgoing.end(single);
    return;
  }
  // Corked, so that all pieces are sent together.
  outgoing.cork();
  for (const piece of pieces) outgoing.write(piece);
  outgoing.end();
  outgoing.uncork();
}

const areInMemory = (pieces: ApiResponse['body']): pieces is readonly (string | Uint8Array)[] =>
  !pieces.some(isReadPiece);

/** A disconnect of the client is not an error. If reading fails, the connection is closed. */
async function sendRead(outgoing: ServerResponse, pieces: ApiResponse['body']): Promise<void> {
  const { socket } = outgoing.req;
  const { promise: closed, reject } = Promise.withResolvers<never>();
  closed.catch(() => undefined);
  const fail = () => reject(new Error('the connection was closed'));
  socket.once('close', fail);
  try {
    for (const piece of pieces) {
      if (!isReadPiece(piece)) outgoing.write(piece);
      else for await (const chunk of piece.read()) await Promise.race([written(outgoing, chunk), closed]);
    }
    outgoing.end();
  } catch {
    outgoing.destroy();
  } finally {
    socket.off('close', fail);
  }
}

/** Resolves when the system has taken the chunk, which can then be overwritten. */
function written(outgoing: Writable, chunk: Uint8Array): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  outgoing.write(chunk, (error) => (error ? reject(error) : resolve()));
  return promise;
}

const bytesOf = (pieces: ApiResponse['body']): number => pieces.reduce((bytes, piece) => bytes + pieceBytes(piece), 0);

/** Joins text, so that it is sent with the head in one write. Byte pieces are large and are not copied. */
function joined(body: ApiResponse['body']): ApiResponse['body'] {
  return body.length <= 1 || body.some((piece) => typeof piece !== 'string') ? body : [body.join('')];
}

/** The response that is being written to a socket, or is next. */
function currentResponse(socket: Socket): ServerResponse | undefined {
  return (socket as Socket & { _httpMessage?: ServerResponse | null })._httpMessage ?? undefined;
}

/**
 * Bypasses node:http, which would close a connection whose request is incomplete: the client, still sending, would receive a reset and
 * lose the response. Instead the write side is closed, and input is accepted for a short time.
 */
function sendLast(
  socket: Socket,
  status: number,
  headers: Readonly<Record<string, string | number>>,
  body: ApiResponse['body'],
): void {
  const lines = [`HTTP/1.1 ${status} ${STATUS_CODES[status]}`];
  for (const [name, value] of Object.entries(headers)) lines.push(`${name}: ${value}`);
  socket.write(`${lines.join('\r\n')}\r\nConnection: close\r\n\r\n`);
  if (areInMemory(body)) {
    for (const piece of body) socket.write(piece);
    socket.end();
  } else pipeline(Readable.from(slices(body), { objectMode: false }), socket).catch(() => socket.destroy());
  const timer = setTimeout(() => socket.destroy(), lingerMs);
  socket.once('close', () => clearTimeout(timer));
}
