// One TCP connection and the bytes on it: for what a client library would refuse to send, or would hide of the response. Responses
// are separated by their Content-Length.
import assert from 'node:assert/strict';
import { connect, type Socket } from 'node:net';
import { deadlineMs } from '../../deadline.ts';

export interface WireAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

const waitMsMax = deadlineMs(15_000);

export class Wire {
  readonly socket: Socket;
  #received: Buffer = Buffer.alloc(0);
  #changed: () => void = () => undefined;
  /** How the connection ended; undefined while it is open. */
  endKind: 'closed' | 'reset' | undefined;

  constructor(port: number) {
    this.socket = connect({ port, host: '127.0.0.1', noDelay: true });
    this.socket.on('data', (chunk) => {
      this.#received = Buffer.concat([this.#received, chunk as Buffer]);
      this.#changed();
    });
    this.socket.on('error', () => {
      this.endKind = 'reset';
      this.#changed();
    });
    this.socket.on('close', () => {
      this.endKind ??= 'closed';
      this.#changed();
    });
  }

  write(bytes: string | Uint8Array): boolean {
    return this.socket.write(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes);
  }

  /** The next response. `head`: it responds to a HEAD, so it has no body whatever its length says. */
  async answer(options: { readonly head?: boolean } = {}): Promise<WireAnswer> {
    const complete = await this.#until(() => this.#take(options.head === true));
    assert.ok(complete, `no answer came; the connection is ${this.endKind ?? 'open'}: ${this.#received.toString()}`);
    return complete;
  }

  /** Waits for the end of the connection; returns received bytes that belong to no response. */
  async rest(): Promise<string> {
    await this.#until(() => undefined);
    assert.ok(this.endKind, 'the server keeps the connection open');
    return this.#received.toString();
  }

  async #until<T>(condition: () => T | undefined): Promise<T | undefined> {
    const deadline = Date.now() + waitMsMax;
    for (;;) {
      const value = condition();
      if (value !== undefined || this.endKind !== undefined || Date.now() > deadline) return value;
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#changed = resolve;
      const timer = setTimeout(resolve, deadline - Date.now());
      await promise;
      clearTimeout(timer);
    }
  }

  #take(head: boolean): WireAnswer | undefined {
    const end = this.#received.indexOf('\r\n\r\n');
    if (end < 0) return undefined;
    const [first = '', ...lines] = this.#received.subarray(0, end).toString().split('\r\n');
    const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(first)?.[1]);
    const headers: Record<string, string> = {};
    for (const line of lines) {
      const colon = line.indexOf(':');
      headers[line.slice(0, colon).toLowerCase()] = line.slice(colon + 1).trim();
    }
    const length = head || status < 200 ? 0 : Number(headers['content-length']);
    const start = end + 4;
    if (!(this.#received.length >= start + length)) return undefined;
    const body = this.#received.subarray(start, start + length).toString();
    this.#received = this.#received.subarray(start + length);
    return { status, headers, body };
  }

  close(): void {
    this.socket.destroy();
  }
}

/** Asserts that a response is a failure in the envelope. */
export function isFailure(answer: WireAnswer, status: number, code: string, context = ''): void {
  const description = `${context}: ${answer.status} ${answer.body}`;
  assert.equal(answer.status, status, description);
  assert.equal(answer.headers['content-type'], 'application/json', description);
  const body = JSON.parse(answer.body) as { code: string };
  assert.deepEqual(Object.keys(body), ['code', 'message', 'result'], description);
  assert.equal(body.code, code, description);
}

/** A request head: its first line, Host, credentials, and further lines. */
export function requestHead(token: string, first: string, ...more: readonly string[]): string {
  return [`${first} HTTP/1.1`, 'Host: test', `Authorization: Bearer ${token}`, ...more, '', ''].join('\r\n');
}
