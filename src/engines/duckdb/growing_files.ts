// Files that the engine writes, looked at while it does: their digests are worked out and their bytes put on the disk as they come, so
// that little of either is left at the end; and what has become too large together is stopped, as COPY knows no such bound. Files are
// only ever appended to.
import { createHash, type Hash } from 'node:crypto';
import { open, readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { Failure } from '../../standard/failure.ts';

const lookMs = 50;
const readBytes = 1024 * 1024;

interface Growing {
  bytes: number;
  readonly hash: Hash;
}

export interface GrownFile {
  readonly bytes: number;
  /** Hexadecimal. */
  readonly sha256: string;
}

export interface Watch {
  /** The files may not be larger together. */
  readonly bytesMax: number | undefined;
  /** Makes the work end with an error; called again until it does. */
  readonly stop: () => void;
  /** Throws where what is done after the work is not to go on. */
  readonly current: () => void;
}

/** The files of a directory and of those in it. */
export class GrowingFiles {
  readonly #directory: string;
  readonly #watch: Watch;
  /** By inode: names may change. */
  readonly #files = new Map<number, Growing>();

  constructor(directory: string, watch: Watch) {
    this.#directory = directory;
    this.#watch = watch;
  }

  /** Throws what `work` throws, or FILE_QUOTA_EXCEEDED. */
  async during<T>(work: () => Promise<T>): Promise<T> {
    const { bytesMax = Number.POSITIVE_INFINITY, stop } = this.#watch;
    let isDone = false;
    let isOver = false;
    const working = work().finally(() => {
      isDone = true;
    });
    const ended = working.catch(() => undefined);
    while (!isDone) {
      await Promise.race([ended, wait(lookMs, undefined, { ref: false })]);
      // What cannot be looked at now is looked at the next time.
      isOver ||= (await this.#bytes().catch(() => 0)) > bytesMax;
      // What comes after the work must not be stopped in its place.
      if (isOver && !isDone) stop();
      for (const path of await this.#paths().catch(() => [])) {
        if (isDone || isOver) break;
        await this.#follow(path, () => !isDone).catch(() => undefined);
      }
    }
    if (isOver) throw tooLarge(bytesMax);
    return working;
  }

  /** Of a file that nobody writes any more. */
  async grown(path: string): Promise<GrownFile> {
    const { bytes, hash } = await this.#follow(path, () => {
      this.#watch.current();
      return true;
    });
    return { bytes, sha256: hash.copy().digest('hex') };
  }

  async #follow(path: string, goesOn: () => boolean): Promise<Growing> {
    const file = await open(path, 'r');
    try {
      const { ino, size } = await file.stat();
      const known = this.#files.get(ino) ?? { bytes: 0, hash: createHash('sha256') };
      this.#files.set(ino, known);
      const flushed = known.bytes < size ? file.datasync() : undefined;
      const buffer = Buffer.allocUnsafe(Math.min(readBytes, size - known.bytes));
      while (known.bytes < size && goesOn()) {
        const { bytesRead } = await file.read(buffer, 0, Math.min(buffer.length, size - known.bytes), known.bytes);
        if (bytesRead === 0) throw new Error('a file has become shorter');
        known.hash.update(buffer.subarray(0, bytesRead));
        known.bytes += bytesRead;
      }
      await flushed;
      return known;
    } finally {
      await file.close();
    }
  }

  async #paths(): Promise<string[]> {
    const entries = await readdir(this.#directory, { recursive: true, withFileTypes: true });
    return entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name));
  }

  async #bytes(): Promise<number> {
    let bytes = 0;
    for (const path of await this.#paths()) bytes += (await stat(path)).size;
    return bytes;
  }
}

const tooLarge = (roomBytes: number) =>
  new Failure('FILE_QUOTA_EXCEEDED', 'the files would be larger than there is room for', { roomBytes });
