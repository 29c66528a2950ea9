// The bytes of an upload on their way to the disk: written in large pieces, put on the disk for good every so often, so that a crash
// costs little. Their digest is worked out behind them (digests.ts). Knows no owner, no quota and no HTTP.
import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { isMarkedAsUntransferable } from 'node:worker_threads';
import { Failure } from '../standard/failure.ts';
import type { Digests, RunningDigest } from './digests.ts';

export interface ReceivingOptions {
  readonly path: string;
  /** Where the content belongs. What the file has from there on is thrown away. */
  readonly offset: number;
  /** SHA-256 that the content itself must have. */
  readonly digest?: Uint8Array | undefined;
  readonly digests: Digests;
  /** By which what is known of the file's digest is found again. */
  readonly key: string;
  /** Asked before the file has so many bytes; the answer is how many it may have before it is asked again. */
  readonly reserve: (bytes: number) => Promise<number>;
  /** So many bytes are on the disk for good. */
  readonly onDurable: (bytes: number) => Promise<void>;
}

export interface ReceivedFile {
  readonly bytes: number;
  /** SHA-256 of all bytes of the file, in hexadecimal. Undefined where they did not come whole. */
  readonly sha256: string | undefined;
  /** Why the content did not come whole, or was not what it should be. */
  readonly fault: unknown;
}

/** Pieces of at least this size are written. */
const writeBytes = 1024 * 1024;
const settleBytes = 64 * 1024 * 1024;
const fullDisk = new Set(['ENOSPC', 'EDQUOT']);

/** What came is kept also where it did not come whole, unless its digest is wrong. Chunks are used up. Throws STORAGE_FULL. */
export async function receive(content: AsyncIterable<Uint8Array>, options: ReceivingOptions): Promise<ReceivedFile> {
  const file = await open(options.path, constants.O_RDWR | constants.O_CREAT, 0o600).catch(storageFailure);
  const running = options.digests.start(options.key, file.fd);
  try {
    const { size } = await file.stat();
    if (size < options.offset) {
      await options.onDurable(0);
      throw new Failure('FILE_OFFSET_INVALID', 'what came before is lost; begin again', { receivedBytes: 0 });
    }
    if (size > options.offset) await file.truncate(options.offset);
    await running.begin(options.offset, options.digest !== undefined);
    const writing = new Writing(file, running, options);
    let fault: unknown;
    try {
      for await (const chunk of content) await writing.add(chunk);
    } catch (error) {
      fault = error;
    }
    await writing.end().catch(async (error: unknown) => {
      await file.sync().then(() => options.onDurable(writing.written), ignored);
      throw error;
    });
    const found = fault === undefined ? await running.result() : undefined;
    if (options.digest && found && found.part !== Buffer.from(options.digest).toString('hex')) {
      await options.onDurable(options.offset);
      await file.truncate(options.offset);
      throw new Failure('FILE_DIGEST_MISMATCH', 'the content is not what its Content-Digest says', {
        receivedBytes: options.offset,
      });
    }
    await file.sync();
    await options.onDurable(writing.written);
    return { bytes: writing.written, sha256: found?.whole, fault };
  } catch (error) {
    return storageFailure(error);
  } finally {
    await running.end();
    await file.close();
  }
}

class Writing {
  readonly #file: FileHandle;
  readonly #running: RunningDigest;
  readonly #options: ReceivingOptions;
  #pieces: Uint8Array[] = [];
  #pieceBytes = 0;
  #position: number;
  #settled: number;
  #reserved = 0;
  #writing: Promise<void> = Promise.resolve();
  #settling: Promise<void> | undefined;
  /** How far the file is filled without a gap. */
  written: number;

  constructor(file: FileHandle, running: RunningDigest, options: ReceivingOptions) {
    this.#file = file;
    this.#running = running;
    this.#options = options;
    this.#position = options.offset;
    this.#settled = options.offset;
    this.written = options.offset;
  }

  async add(chunk: Uint8Array): Promise<void> {
    this.#pieces.push(chunk);
    this.#pieceBytes += chunk.length;
    if (this.#pieceBytes >= writeBytes) await this.#flush();
  }

  /** Waits for all that is written. */
  async end(): Promise<void> {
    await this.#flush();
    await this.#writing;
    await this.#settling;
  }

  /** One piece is written while the next one comes. */
  async #flush(): Promise<void> {
    await this.#writing;
    const pieces = this.#pieces;
    const bytes = this.#pieceBytes;
    if (bytes === 0) return;
    this.#pieces = [];
    this.#pieceBytes = 0;
    const to = this.#position + bytes;
    if (to > this.#reserved) this.#reserved = await this.#options.reserve(to);
    this.#writing = this.#write(pieces, this.#position, to);
    this.#writing.catch(() => undefined);
    this.#position = to;
    if (this.#settling || this.written - this.#settled < settleBytes) return;
    this.#settling = this.#settle();
    this.#settling.catch(() => undefined);
  }

  async #write(pieces: readonly Uint8Array[], from: number, to: number): Promise<void> {
    const { bytesWritten } = await this.#file.writev(pieces, from);
    // A disk that is nearly full takes a part; the rest fails, and says why.
    if (bytesWritten < to - from) {
      const all = Buffer.concat(pieces);
      for (let at = bytesWritten; at < all.length; )
        at += (await this.#file.write(all, at, all.length - at, from + at)).bytesWritten;
    }
    for (const piece of pieces) release(piece);
    this.written = to;
    this.#running.advance(to);
  }

  async #settle(): Promise<void> {
    const bytes = this.written;
    await this.#file.datasync();
    await this.#options.onDurable(bytes);
    this.#settled = bytes;
    this.#settling = undefined;
  }
}

/**
 * At once, not when garbage is collected: each 64 MB that came would make the engine of JavaScript look through all that the server
 * has. A chunk that shares its memory with others, as small ones do, is left to it.
 */
function release({ buffer, byteLength }: Uint8Array): void {
  if (!(buffer instanceof ArrayBuffer) || buffer.byteLength !== byteLength || isMarkedAsUntransferable(buffer)) return;
  if (!buffer.detached) buffer.transfer(0);
}

const ignored = () => undefined;

export const isFullDisk = (error: unknown): boolean => fullDisk.has((error as NodeJS.ErrnoException).code ?? '');

export function storageFailure(error: unknown): never {
  if (!isFullDisk(error)) throw error;
  throw new Failure('STORAGE_FULL', 'the disk of the service is full', {}, { cause: error });
}
