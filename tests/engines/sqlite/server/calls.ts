// Calls of servers to the process: HTTP requests of lines. The first line of a request is the argument, and the rest is a stream, such as
// the file of a load. A response has lines of rows, which begin with `[`, and ends with the value or the failure of the call.
import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Failure } from '../../../../src/standard/failure.ts';
import { Stale } from './statements.ts';

const newline = 10;
/** How many bytes the first line of a request can have. */
const argumentBytesMax = 256 * 1024 * 1024;

/** What a response ends with. */
export type CallEnd =
  | { readonly value: unknown }
  | { readonly stale: true }
  | { readonly failure: { readonly code: string; readonly message: string; readonly result: object } };

export class Call {
  readonly #request: IncomingMessage;
  readonly #response: ServerResponse;
  /** Of the request. A second iterator of a request that has ended would wait for the end of the response. */
  readonly #chunks: AsyncIterator<Buffer>;
  #isCancelled = false;
  #step: string | undefined;
  /** The transaction of the call is committing, or has ended. */
  #hasTakenStep = false;
  #rest: Buffer | undefined;

  constructor(request: IncomingMessage, response: ServerResponse) {
    this.#request = request;
    this.#response = response;
    this.#chunks = request[Symbol.asyncIterator]();
    // The server that made the call is gone, and nobody would learn of the result.
    response.once('close', () => {
      if (!response.writableFinished) this.cancel();
    });
  }

  cancel(): void {
    this.#isCancelled = true;
  }

  requireNotCancelled(): void {
    if (this.#isCancelled) throw new Failure('STATEMENT_CANCELLED', 'the statement was cancelled');
  }

  /** Assigns a step to a write that has not begun its transaction. */
  assignStep(step: string): boolean {
    if (!this.#hasTakenStep) this.#step = step;
    return !this.#hasTakenStep;
  }

  takeStep(): string | undefined {
    this.#hasTakenStep = true;
    return this.#step;
  }

  /** Lets other calls run. Throws STATEMENT_CANCELLED. */
  async turn(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve));
    this.requireNotCancelled();
  }

  async send(lines: string): Promise<void> {
    if (lines === '' || this.#response.write(lines)) return;
    await Promise.race([once(this.#response, 'drain'), once(this.#response, 'close')]);
    this.requireNotCancelled();
  }

  async argument(): Promise<unknown> {
    const chunks: Buffer[] = [];
    let bytes = 0;
    for (;;) {
      const { value: chunk, done } = await this.#chunks.next();
      if (done) throw new Error('the request has no argument');
      const end = chunk.indexOf(newline);
      chunks.push(end < 0 ? chunk : chunk.subarray(0, end));
      bytes += chunk.length;
      if (bytes > argumentBytesMax) throw new Error(`an argument has more than ${argumentBytesMax} bytes`);
      if (end < 0) continue;
      this.#rest = chunk.subarray(end + 1);
      break;
    }
    return JSON.parse(Buffer.concat(chunks).toString());
  }

  /** The stream after the argument. */
  async *input(): AsyncGenerator<Buffer> {
    if (this.#rest && this.#rest.length > 0) yield this.#rest;
    for (;;) {
      const { value: chunk, done } = await this.#chunks.next();
      this.requireNotCancelled();
      if (done) return;
      yield chunk;
    }
  }

  end(end: CallEnd): void {
    // What the call did not read of its input.
    this.#request.resume();
    this.#response.end(`${JSON.stringify(end)}\n`);
  }
}

export function failedEnd(error: unknown): CallEnd {
  if (error instanceof Stale) return { stale: true };
  if (error instanceof Failure) return { failure: { code: error.code, message: error.message, result: error.result } };
  const message = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return { failure: { code: 'INTERNAL_ERROR', message, result: {} } };
}
