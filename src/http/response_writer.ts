// How an answer leaves: its head and body in one write, the headers that all answers have, and answers on connections that
// node:http would cut because it has not read what came. What the answer is, is for others.
import { randomUUID } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Answer } from '../standard/envelope.ts';
import { hasBody } from './bodies/body.ts';
import { type Coding, compressed, compressedBytesMin, compressor, preferenceOf } from './content_coding.ts';
import { requestIdHeader } from './request_headers.ts';
import type { CommonHeaders } from './security_headers.ts';

const { STATUS_CODES } = process.getBuiltinModule('node:http');
/** How long the rest of a refused body is let in before the connection is cut, so that the client can read the answer. */
const lingerMs = 500;

export class ResponseWriter {
  readonly headersOfAll: CommonHeaders;

  constructor(headersOfAll: CommonHeaders) {
    this.headersOfAll = headersOfAll;
  }

  send(outgoing: ServerResponse, answer: Answer, requestId: string | undefined, closing = false): void {
    if (outgoing.destroyed || outgoing.headersSent) return;
    const { req: incoming } = outgoing;
    const headers: Headers = { ...answer.headers, 'Cache-Control': 'no-store' };
    if (answer.body.length > 0) headers['Content-Type'] = 'application/json';
    headers[requestIdHeader] = requestId ?? randomUUID();
    // A request without a body may not be marked as complete yet when it is answered at once.
    if (hasBody(incoming) && !incoming.complete && answering(incoming.socket) === outgoing) {
      incoming.resume();
      const body = joined(answer.body);
      const own = { ...this.headersOfAll, ...headers, 'Content-Length': answer.bodyBytes ?? bytesOf(body) };
      sendLast(incoming.socket, answer.status, own, incoming.method === 'HEAD' ? [] : body);
      return;
    }
    if (closing) headers.Connection = 'close';
    this.write(outgoing, answer.status, headers, answer.body, answer.bodyBytes);
  }

  /** Any answer, with the content coding that its request prefers, unless the headers name one. Compression does not wait here. */
  write(
    outgoing: ServerResponse,
    status: number,
    headers: Readonly<Headers>,
    body: Answer['body'],
    bodyBytes?: number,
  ): void {
    const pieces = joined(body);
    const bytes = bodyBytes ?? bytesOf(pieces);
    const own: Headers = { ...this.headersOfAll, ...headers };
    own[requestIdHeader] ??= randomUUID();
    const isLarge = bytes > compressedBytesMin;
    const isCoded = own['Content-Encoding'] !== undefined;
    if (isLarge && !isCoded) own.Vary = 'Accept-Encoding';
    const { coding, mustCode } = preferenceOf(outgoing.req.headers['accept-encoding'] as string | undefined);
    if (coding !== undefined && !isCoded && (isLarge || (mustCode && bytes > 0))) {
      own['Content-Encoding'] = coding;
      void sendCoded(outgoing, status, own, pieces, bytes, coding);
      return;
    }
    if (status !== 304) own['Content-Length'] = bytes;
    outgoing.writeHead(status, own);
    sendPieces(outgoing, pieces);
  }

  /** Requests that came whole before the fault are answered first. Where an answer to half of one has begun, it is cut. */
  last(socket: Socket, answer: Answer): void {
    const running = answering(socket);
    if (running?.req.complete) running.once('close', () => this.last(socket, answer));
    else if (running?.headersSent || !socket.writable) socket.destroy();
    else this.raw(socket, answer);
  }

  /** Past node:http, at once: only where no other answer is on its way. */
  raw(socket: Socket, answer: Answer): void {
    const body = answer.body.join('');
    const headers = {
      ...this.headersOfAll,
      ...answer.headers,
      [requestIdHeader]: randomUUID(),
      'Content-Type': 'application/json',
      'Content-Length': Buffer.byteLength(body),
    };
    sendLast(socket, answer.status, headers, [body]);
  }
}

type Headers = Record<string, string | number>;

/** A larger answer is sent while it is compressed, so that it is not held twice. */
const codedAtOnceBytesMax = 256 * 1024;

/** The client may leave meanwhile, which is no fault; if the compression itself fails, the answer is cut or never begins. */
async function sendCoded(
  outgoing: ServerResponse,
  status: number,
  headers: Headers,
  pieces: Answer['body'],
  bytes: number,
  coding: Coding,
): Promise<void> {
  try {
    if (bytes > codedAtOnceBytesMax) {
      outgoing.writeHead(status, headers);
      await pipeline(Readable.from(slices(pieces), { objectMode: false }), compressor(coding), outgoing);
      return;
    }
    const content = Buffer.concat(pieces.map((piece) => Buffer.from(piece as Uint8Array)));
    const coded = await compressed(content, coding, 'fast');
    if (!outgoing.destroyed) outgoing.writeHead(status, { ...headers, 'Content-Length': coded.length }).end(coded);
  } catch {
    outgoing.destroy();
  }
}

/** Of a size that neither encoding nor handing over takes long. */
function* slices(pieces: Answer['body']): Generator<Uint8Array> {
  for (const piece of pieces) {
    for (let at = 0, end = 0; at < piece.length; at = end) {
      end = Math.min(at + codedAtOnceBytesMax, piece.length);
      if (typeof piece === 'string') {
        // A surrogate pair is not cut.
        if ((piece.charCodeAt(end - 1) & 0xfc00) === 0xd800 && end < piece.length) end++;
        yield Buffer.from(piece.slice(at, end));
      } else yield piece.subarray(at, end);
    }
  }
}

function sendPieces(outgoing: ServerResponse, pieces: Answer['body']): void {
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

const bytesOf = (pieces: Answer['body']): number =>
  pieces.reduce((bytes, piece) => bytes + Buffer.byteLength(piece), 0);

/** A text leaves with its head in one write; what is bytes already is large, and is not copied again. */
function joined(body: Answer['body']): Answer['body'] {
  return body.length <= 1 || body.some((piece) => typeof piece !== 'string') ? body : [body.join('')];
}

/** The response that is written to a socket now, or is to be next. */
function answering(socket: Socket): ServerResponse | undefined {
  return (socket as Socket & { _httpMessage?: ServerResponse | null })._httpMessage ?? undefined;
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
