// Receives request bodies from the socket, limited in bytes and time. body_text.ts parses them.
import type { IncomingMessage } from 'node:http';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Failure } from '../../standard/failure.ts';

/** Larger bodies are parsed and checked by a worker thread: this many bytes take the main thread about 10 ms. */
const inlineBodyBytesMax = 256 * 1024;
const blockBytes = 1024 * 1024;

/** Whether the headers announce a body. */
export function hasBody(incoming: IncomingMessage): boolean {
  const length = incoming.headers['content-length'];
  return incoming.headers['transfer-encoding'] !== undefined || (length !== undefined && length !== '0');
}

/**
 * A body that comes in one piece with its headers is complete when this returns. Headers and body are parsed in one turn of the event loop,
 * but a response may be ready between them; it would close the connection of an incomplete request.
 */
export async function untilParsed(incoming: IncomingMessage): Promise<void> {
  if (hasBody(incoming) && !incoming.complete) await nextTurn();
}

/** Receives and discards a small body, so that the connection stays usable for the next request. Never rejects. */
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

/** A body in separate memory blocks, which can be transferred to a thread without copying. */
export class ReceivedBody {
  bytes = 0;
  /** The last block may be partly filled. */
  readonly blocks: Uint8Array<ArrayBuffer>[] = [];
  #chunks: Buffer[] = [];
  #freeBytes = 0;

  get isLarge(): boolean {
    return this.bytes > inlineBodyBytesMax;
  }

  /** The content of a body that is not large. */
  get content(): Buffer {
    return this.#chunks.length === 1 ? (this.#chunks[0] as Buffer) : Buffer.concat(this.#chunks);
  }

  push(chunk: Buffer): void {
    this.bytes += chunk.length;
    this.#chunks.push(chunk);
    if (!this.isLarge) return;
    for (const buffered of this.#chunks) this.#copy(buffered);
    this.#chunks = [];
  }

  #copy(chunk: Buffer): void {
    for (let offset = 0; offset < chunk.length; ) {
      if (this.#freeBytes === 0) {
        this.blocks.push(new Uint8Array(blockBytes));
        this.#freeBytes = blockBytes;
      }
      const piece = chunk.subarray(offset, offset + this.#freeBytes);
      (this.blocks.at(-1) as Uint8Array).set(piece, blockBytes - this.#freeBytes);
      this.#freeBytes -= piece.length;
      offset += piece.length;
    }
  }
}

/**
 * `onLarge` is called once when the body proves to be large, with the maximum of its bytes, and may throw.
 * Throws BODY_TOO_LARGE as early as possible; REQUEST_TIMEOUT or MALFORMED_HTTP when the body is incomplete.
 */
export function readBody(
  incoming: IncomingMessage,
  bytesMax: number,
  onLarge: (bytesMax: number) => void,
): Promise<ReceivedBody> {
  const tooLarge = () =>
    new Failure('BODY_TOO_LARGE', `the body of this request is limited to ${bytesMax} bytes`, { bytesMax });
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
    incoming.once('error', (cause) =>
      fail(new Failure('MALFORMED_HTTP', 'the connection was closed before the body was complete', {}, { cause })),
    );
    incoming.once('close', () => {
      // 'close' follows every body; the failure and its stack are created only when the body is incomplete.
      if (!incoming.readableEnded)
        fail(new Failure('MALFORMED_HTTP', 'the connection was closed before the body was complete'));
    });
  });
}
