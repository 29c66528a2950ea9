// The bytes of an upload on their way to the disk: written in large pieces while their digest is worked out, put on the disk for
// good every so often, so that a crash costs little. Knows no owner, no quota and no HTTP.
import { createHash, type Hash } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { Failure } from '../standard/failure.ts';

export interface ReceivingOptions {
  readonly path: string;
  /** Where the content belongs. What the file has from there on is thrown away. */
  readonly offset: number;
  /** SHA-256 that the content itself must have. */
  readonly digest?: Uint8Array | undefined;
  /** The digest of what is before `offset`, where it is known. */
  readonly before?: Hash | undefined;
  /** Asked before the file has so many bytes; the answer is how many it may have before it is asked again. */
  readonly reserve: (bytes: number) => Promise<number>;
  /** So many bytes are on the disk for good. */
  readonly settled: (bytes: number) => Promise<void>;
}

export interface Received {
  readonly bytes: number;
  /** Of all bytes of the file. */
  readonly hash: Hash;
  /** Why the content did not come whole, or was not what it should be. */
  readonly fault: unknown;
}

/** Pieces of at least this size are written. */
const writeBytes = 1024 * 1024;
const settleBytes = 64 * 1024 * 1024;
const readBytes = 1024 * 1024;
const fullDisk = new Set(['ENOSPC', 'EDQUOT']);

/** What came is kept also where it did not come whole, unless its digest is wrong. Throws STORAGE_FULL. */
export async function receive(content: AsyncIterable<Uint8Array>, options: ReceivingOptions): Promise<Received> {
  const file = await open(options.path, constants.O_RDWR | constants.O_CREAT, 0o600).catch(storageFailure);
  try {
    const { size } = await file.stat();
    if (size < options.offset) {
      await options.settled(0);
      throw new Failure('FILE_OFFSET_INVALID', 'what came before is lost; begin again', { receivedBytes: 0 });
    }
    if (size > options.offset) await file.truncate(options.offset);
    const hash = options.before ?? (await hashOf(file, options.offset));
    const writing = new Writing(file, hash, options);
    let fault: unknown;
    try {
      for await (const chunk of content) await writing.add(chunk);
    } catch (error) {
      fault = error;
    }
    await writing.end().catch(async (error: unknown) => {
      await file.sync().then(() => options.settled(writing.written), ignored);
      throw error;
    });
    if (fault === undefined && writing.isWrong()) {
      await options.settled(options.offset);
      await file.truncate(options.offset);
      throw new Failure('FILE_DIGEST_MISMATCH', 'the content is not what its Content-Digest says', {
        receivedBytes: options.offset,
      });
    }
    await file.sync();
    await options.settled(writing.written);
    return { bytes: writing.written, hash, fault };
  } catch (error) {
    return storageFailure(error);
  } finally {
    await file.close();
  }
}

class Writing {
  readonly #file: FileHandle;
  readonly #hash: Hash;
  readonly #own: Hash | undefined;
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

  constructor(file: FileHandle, hash: Hash, options: ReceivingOptions) {
    this.#file = file;
    this.#hash = hash;
    this.#options = options;
    this.#own = options.digest && createHash('sha256');
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

  isWrong(): boolean {
    const { digest } = this.#options;
    return digest !== undefined && this.#own?.digest().equals(digest) !== true;
  }

  /** One piece is written while the next one comes, and while its digest is worked out. */
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
    for (const piece of pieces) {
      this.#hash.update(piece);
      this.#own?.update(piece);
    }
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
    this.written = to;
  }

  async #settle(): Promise<void> {
    const bytes = this.written;
    await this.#file.datasync();
    await this.#options.settled(bytes);
    this.#settled = bytes;
    this.#settling = undefined;
  }
}

const ignored = () => undefined;

async function hashOf(file: FileHandle, bytes: number): Promise<Hash> {
  const hash = createHash('sha256');
  const buffer = Buffer.allocUnsafe(Math.min(readBytes, bytes));
  for (let at = 0; at < bytes; ) {
    const { bytesRead } = await file.read(buffer, 0, Math.min(buffer.length, bytes - at), at);
    if (bytesRead === 0) throw new Error('a file is shorter than the store says');
    hash.update(buffer.subarray(0, bytesRead));
    at += bytesRead;
  }
  return hash;
}

export const isFullDisk = (error: unknown): boolean => fullDisk.has((error as NodeJS.ErrnoException).code ?? '');

export function storageFailure(error: unknown): never {
  if (!isFullDisk(error)) throw error;
  throw new Failure('STORAGE_FULL', 'the disk of the service is full', {}, { cause: error });
}
