// The rows of one page, a range of the file of a result: read while they are sent, from memory where the last rows of a result that grows still are.
import { type FileHandle, open } from 'node:fs/promises';
import type { RecentBytes } from '../../engines/results/recent_blocks.ts';
import { Failure } from '../../standard/failure.ts';
import type { ReadPiece } from '../../standard/record_body.ts';

const chunkBytes = 256 * 1024;
/** A response is sent at once, if at all: a HEAD request does not read the page, for example. */
export const defaultUnreadMsMax = 10_000;
const [newline, comma] = [0x0a, 0x2c];
/** What ends every row but the last of a whole result. */
export const separatorBytes = 2;

export class PageBytes implements ReadPiece {
  /** JSON arrays joined by commas. */
  readonly byteLength: number;
  readonly #paths: readonly string[];
  readonly #start: number;
  /** Open until it is read: the engine removes the file when its statement fails, also between `find` and `read`. */
  #file: FileHandle | undefined;
  readonly #closing: NodeJS.Timeout;
  #recent: RecentBytes | undefined;

  private constructor(paths: readonly string[], file: FileHandle, start: number, end: number, unreadMsMax: number) {
    this.#paths = paths;
    this.#start = start;
    this.byteLength = end - start;
    this.#file = file;
    this.#closing = setTimeout(() => void this.#takeFile()?.close(), unreadMsMax).unref();
  }

  /** `paths`: where the file is, or will be moved to. Throws RESULT_EXPIRED if the file does not have these bytes. */
  static async find(
    paths: readonly string[],
    start: number,
    end: number,
    unreadMsMax = defaultUnreadMsMax,
  ): Promise<PageBytes> {
    const file = await openFirst(paths);
    try {
      const separator = Buffer.alloc(Math.min(separatorBytes, end - start));
      await readExactly(file, separator, end - separator.length);
      const bytesEnd = end - separator.length + withoutSeparator(separator).length;
      return new PageBytes(paths, file, start, bytesEnd, unreadMsMax);
    } catch (error) {
      await file.close();
      throw error;
    }
  }

  /** A page of a file that grows: what `recent` has of it need not be in the file yet. Further rows follow the page. */
  static async findLive(
    paths: readonly string[],
    recent: RecentBytes | undefined,
    start: number,
    end: number,
  ): Promise<PageBytes> {
    if (!recent) return PageBytes.find(paths, start, end);
    const file = await openFirst(paths);
    const page = new PageBytes(paths, file, start, end - separatorBytes, defaultUnreadMsMax);
    page.#recent = recent;
    return page;
  }

  #takeFile(): FileHandle | undefined {
    clearTimeout(this.#closing);
    const file = this.#file;
    this.#file = undefined;
    return file;
  }

  async *read(): AsyncGenerator<Uint8Array> {
    yield* this.#recent ? this.#readLive(this.#recent) : this.#readFile();
  }

  /** From memory, and from the file where a reader comes too late for that. */
  async *#readLive(recent: RecentBytes): AsyncGenerator<Uint8Array> {
    const file = this.#takeFile() ?? (await openFirst(this.#paths));
    const end = this.#start + this.byteLength;
    let buffer: Buffer | undefined;
    try {
      for (let position = this.#start; position < end; ) {
        const held = recent.hold(position, end);
        if (held) {
          position += held.bytes.length;
          try {
            yield held.bytes;
          } finally {
            held.release();
          }
          continue;
        }
        buffer ??= Buffer.allocUnsafeSlow(Math.min(chunkBytes, this.byteLength));
        const { bytesRead } = await file.read(buffer, 0, Math.min(chunkBytes, end - position), position);
        if (bytesRead === 0) throw expiredFailure();
        position += bytesRead;
        yield buffer.subarray(0, bytesRead);
      }
    } finally {
      await file.close();
    }
  }

  /** Two buffers are used in turn: a chunk is read while the one before it is sent. */
  async *#readFile(): AsyncGenerator<Uint8Array> {
    const file = this.#takeFile() ?? (await openFirst(this.#paths));
    const end = this.#start + this.byteLength;
    const buffers = [0, 1].map(() => Buffer.allocUnsafeSlow(Math.min(chunkBytes, this.byteLength)));
    const readAt = (position: number, turn: number) => {
      const bytes = Math.min(chunkBytes, end - position);
      return bytes > 0 ? readExactly(file, (buffers[turn % 2] as Buffer).subarray(0, bytes), position) : undefined;
    };
    let pending = readAt(this.#start, 0);
    try {
      for (let turn = 1, position = this.#start; pending; turn++) {
        const chunk = await pending;
        position += chunk.length;
        pending = readAt(position, turn);
        pending?.catch(() => undefined);
        yield chunk;
      }
    } finally {
      await pending?.catch(() => undefined);
      await file.close();
    }
  }
}

/** Removes the comma and newline that end every row but the last of the whole result; a page is the inside of a JSON array. */
export function withoutSeparator(rows: Buffer): Buffer {
  let end = rows.length;
  if (rows[end - 1] === newline) end--;
  if (rows[end - 1] === comma) end--;
  return rows.subarray(0, end);
}

export function expiredFailure(): Failure {
  return new Failure('RESULT_EXPIRED', 'the result has expired; run the query again');
}

function rethrowAsExpired(error: NodeJS.ErrnoException): never {
  throw error.code === 'ENOENT' ? expiredFailure() : error;
}

async function openFirst([path = '', ...others]: readonly string[]): Promise<FileHandle> {
  try {
    return await open(path);
  } catch (error) {
    return others.length === 0 ? rethrowAsExpired(error as NodeJS.ErrnoException) : openFirst(others);
  }
}

async function readExactly(file: FileHandle, bytes: Buffer, position: number): Promise<Buffer> {
  const { bytesRead } = await file.read(bytes, 0, bytes.length, position);
  if (bytesRead !== bytes.length) throw expiredFailure();
  return bytes;
}
