// Bodies of requests as they come from the socket: read whole, bounded in bytes and time. What they say is body_text.ts's.
import type { IncomingMessage } from 'node:http';
import { Failure } from '../../standard/failure.ts';

/** Larger bodies are parsed and checked by a thread of their own: this many bytes take the main one some 10 ms. */
export const inlineBodyBytesMax = 256 * 1024;
const blockBytes = 1024 * 1024;

/** Whether the request says that it has a body. */
export function hasBody(incoming: IncomingMessage): boolean {
  const length = incoming.headers['content-length'];
  return incoming.headers['transfer-encoding'] !== undefined || (length !== undefined && length !== '0');
}

/** Receives a body that nobody reads, where it is small: the connection can then be used for the next request. Settles in any case. */
export async function discardSmallBody(incoming: IncomingMessage): Promise<void> {
  const length = Number(incoming.headers['content-length'] ?? Number.POSITIVE_INFINITY);
  if (!hasBody(incoming) || incoming.complete || length > inlineBodyBytesMax) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  incoming
    .once('end', resolve)
    .once('close', resolve)
    .once('error', () => resolve());
  incoming.resume();
  await promise;
}

/** A body as blocks of memory of its own, which can be handed to a thread without a copy. */
export class ReceivedBody {
  bytes = 0;
  /** The last one is perhaps not full. */
  readonly blocks: Uint8Array<ArrayBuffer>[] = [];
  #chunks: Buffer[] = [];
  #room = 0;

  get isLarge(): boolean {
    return this.bytes > inlineBodyBytesMax;
  }

  /** One that is not large, in one piece. */
  get content(): Buffer {
    return this.#chunks.length === 1 ? (this.#chunks[0] as Buffer) : Buffer.concat(this.#chunks);
  }

  push(chunk: Buffer): void {
    this.bytes += chunk.length;
    this.#chunks.push(chunk);
    if (!this.isLarge) return;
    for (const one of this.#chunks) this.#copy(one);
    this.#chunks = [];
  }

  #copy(chunk: Buffer): void {
    for (let at = 0; at < chunk.length; ) {
      if (this.#room === 0) {
        this.blocks.push(new Uint8Array(blockBytes));
        this.#room = blockBytes;
      }
      const piece = chunk.subarray(at, at + this.#room);
      (this.blocks.at(-1) as Uint8Array).set(piece, blockBytes - this.#room);
      this.#room -= piece.length;
      at += piece.length;
    }
  }
}

/**
 * `onLarge` is called once, when a body turns out to be large, with the most bytes that it can have, and may throw.
 * Throws BODY_TOO_LARGE as soon as it is known, REQUEST_TIMEOUT or MALFORMED_HTTP where the rest does not come.
 */
export function readBody(
  incoming: IncomingMessage,
  bytesMax: number,
  onLarge: (bytesMax: number) => void,
): Promise<ReceivedBody> {
  const tooLarge = () =>
    new Failure('BODY_TOO_LARGE', `the body of this request has at most ${bytesMax} bytes`, { bytesMax });
  const length = incoming.headers['content-length'];
  if (Number(length ?? 0) > bytesMax) return Promise.reject(tooLarge());
  return new Promise((resolve, reject) => {
    const body = new ReceivedBody();
    const fail = (error: unknown) => {
      incoming.removeAllListeners('data');
      incoming.pause();
      reject(error);
    };
    incoming.on('data', (chunk: Buffer) => {
      const wasLarge = body.isLarge;
      if (body.bytes + chunk.length > bytesMax) return fail(tooLarge());
      body.push(chunk);
      if (wasLarge || !body.isLarge) return;
      try {
        onLarge(length === undefined ? bytesMax : Number(length));
      } catch (error) {
        fail(error);
      }
    });
    incoming.once('end', () => resolve(body));
    incoming.once('error', (cause) => fail(new Failure('MALFORMED_HTTP', 'the body broke off', {}, { cause })));
    incoming.once('close', () => {
      // It comes after every body; a failure, with its stack, is made only where the end did not come.
      if (!incoming.readableEnded) fail(new Failure('MALFORMED_HTTP', 'the body broke off'));
    });
  });
}
