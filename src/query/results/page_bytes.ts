// The rows of one page, a range of the file of a result: read while they are sent.
import { type FileHandle, open } from 'node:fs/promises';
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

  #takeFile(): FileHandle | undefined {
    clearTimeout(this.#closing);
    const file = this.#file;
    this.#file = undefined;
    return file;
  }

  /** Two buffers are used in turn: a chunk is read while the one before it is sent. */
  async *read(): AsyncGenerator<Uint8Array> {
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
