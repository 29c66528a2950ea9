// Writes the bytes of an upload to the disk in large pieces, and flushes them periodically, so that a crash loses little. Their digest
// is computed behind the writes; see digests.ts. Knows no owner, no quota and no HTTP.
import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { isMarkedAsUntransferable } from 'node:worker_threads';
import { Failure } from '../standard/failure.ts';
import { isFullDisk, storageFailure } from '../store/disk_space.ts';
import type { Digests, RunningDigest } from './digests.ts';

export interface ReceivingOptions {
  readonly path: string;
  /** Where the content begins in the file. Existing bytes from there on are discarded. */
  readonly offset: number;
  /** The SHA-256 that this content must have. */
  readonly digest?: Uint8Array | undefined;
  readonly digests: Digests;
  /** Identifies the file's digest in progress, which continues with the next part. */
  readonly key: string;
  /** Called before the file grows to `bytes`; returns the size up to which it may grow before the next call. */
  readonly reserve: (bytes: number) => Promise<number>;
  /** Called when this many bytes of the file are durable. */
  readonly onDurable: (bytes: number) => Promise<void>;
}

export interface ReceivedFile {
  readonly bytes: number;
  /** SHA-256 of all bytes of the file, in hexadecimal. Undefined if the content is incomplete. */
  readonly sha256: string | undefined;
  /** Why the content is incomplete or invalid. */
  readonly fault: unknown;
}

/** Pieces of at least this size are written. */
const writeBytes = 1024 * 1024;
const durableEveryBytes = 64 * 1024 * 1024;

/**
 * Received bytes are retained even if the content is incomplete, unless its digest is wrong or the disk is full. The memory of the chunks is released.
 * Throws STORAGE_FULL.
 */
export async function receive(content: AsyncIterable<Uint8Array>, options: ReceivingOptions): Promise<ReceivedFile> {
  const file = await open(options.path, constants.O_RDWR | constants.O_CREAT, 0o600).catch(storageFailure);
  const running = options.digests.start(options.key, file.fd);
  try {
    const { size } = await file.stat();
    if (size < options.offset) {
      await options.onDurable(0);
      throw new Failure('FILE_OFFSET_INVALID', 'the bytes received before were lost; restart the upload at offset 0', {
        receivedBytes: 0,
      });
    }
    if (size > options.offset) await file.truncate(options.offset);
    await running.begin(options.offset, options.digest !== undefined);
    const writing = new FileWriter(file, running, options);
    let fault: unknown;
    try {
      for await (const chunk of content) await writing.add(chunk);
    } catch (error) {
      fault = error;
    }
    await writing.end().catch(async (error: unknown) => {
      // What is not recorded as received is given back: on a full disk not even the deletion of the upload could be recorded.
      if (isFullDisk(error)) await file.truncate(await writing.durable()).catch(ignored);
      else await file.sync().then(() => options.onDurable(writing.written), ignored);
      throw error;
    });
    const found = fault === undefined ? await running.result() : undefined;
    if (options.digest && found && found.part !== Buffer.from(options.digest).toString('hex')) {
      await options.onDurable(options.offset);
      await file.truncate(options.offset);
      throw new Failure('FILE_DIGEST_MISMATCH', 'the content does not match its Content-Digest', {
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

class FileWriter {
  readonly #file: FileHandle;
  readonly #running: RunningDigest;
  readonly #options: ReceivingOptions;
  #pieces: Uint8Array[] = [];
  #pieceBytes = 0;
  #position: number;
  #durableBytes: number;
  #reserved = 0;
  #writing: Promise<void> = Promise.resolve();
  #flushingToDisk: Promise<void> | undefined;
  /** How far the file is written without a gap. */
  written: number;

  constructor(file: FileHandle, running: RunningDigest, options: ReceivingOptions) {
    this.#file = file;
    this.#running = running;
    this.#options = options;
    this.#position = options.offset;
    this.#durableBytes = options.offset;
    this.written = options.offset;
  }

  async add(chunk: Uint8Array): Promise<void> {
    this.#pieces.push(chunk);
    this.#pieceBytes += chunk.length;
    if (this.#pieceBytes >= writeBytes) await this.#flush();
  }

  /** Waits until everything is written. */
  async end(): Promise<void> {
    await this.#flush();
    await this.#writing;
    await this.#flushingToDisk;
  }

  /** How many bytes are recorded as received. */
  async durable(): Promise<number> {
    await this.#flushingToDisk?.catch(ignored);
    return this.#durableBytes;
  }

  /** One piece is written while the next one is received. */
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
    if (this.#flushingToDisk || this.written - this.#durableBytes < durableEveryBytes) return;
    this.#flushingToDisk = this.#flushToDisk();
    this.#flushingToDisk.catch(() => undefined);
  }

  async #write(pieces: readonly Uint8Array[], from: number, to: number): Promise<void> {
    const { bytesWritten } = await this.#file.writev(pieces, from);
    // A nearly full disk accepts only a part; writing the rest then fails with the reason.
    if (bytesWritten < to - from) {
      const all = Buffer.concat(pieces);
      for (let offset = bytesWritten; offset < all.length; )
        offset += (await this.#file.write(all, offset, all.length - offset, from + offset)).bytesWritten;
    }
    for (const piece of pieces) release(piece);
    this.written = to;
    this.#running.advance(to);
  }

  async #flushToDisk(): Promise<void> {
    const bytes = this.written;
    await this.#file.datasync();
    await this.#options.onDurable(bytes);
    this.#durableBytes = bytes;
    this.#flushingToDisk = undefined;
  }
}

/**
 * Releases the memory at once instead of at the next garbage collection: each 64 MB received would otherwise trigger a collection of
 * the whole heap. Chunks that share their memory with others, as small ones do, are left to the garbage collector.
 */
function release({ buffer, byteLength }: Uint8Array): void {
  if (!(buffer instanceof ArrayBuffer) || buffer.byteLength !== byteLength || isMarkedAsUntransferable(buffer)) return;
  if (!buffer.detached) buffer.transfer(0);
}

const ignored = () => undefined;
