// How an answer leaves: its head and body in one write, the headers that all answers have, and answers on connections that
// node:http would cut because it has not read what came. What the answer is, is for others.
import { type ServerResponse, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { Answer } from '../standard/envelope.ts';
import { hasBody } from './body.ts';
import type { HeadersOfAll } from './security_headers.ts';

/** How long the rest of a refused body is let in before the connection is cut, so that the client can read the answer. */
const lingerMs = 500;

export class AnswerWriter {
  readonly headersOfAll: HeadersOfAll;

  constructor(headersOfAll: HeadersOfAll) {
    this.headersOfAll = headersOfAll;
  }

  send(outgoing: ServerResponse, answer: Answer, requestId: string | undefined, closing = false): void {
    if (outgoing.destroyed || outgoing.headersSent) return;
    const { req: incoming } = outgoing;
    const pieces = joined(answer.body);
    const headers: Record<string, string | number> = { ...this.headersOfAll, ...answer.headers };
    if (pieces.length > 0) headers['Content-Type'] = 'application/json';
    headers['Content-Length'] =
      answer.bodyBytes ?? pieces.reduce((bytes, piece) => bytes + Buffer.byteLength(piece), 0);
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
      'Content-Type': 'application/json',
      'Content-Length': Buffer.byteLength(body),
    };
    sendLast(socket, answer.status, headers, [body]);
  }
}

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
