// Watches the files that the engine writes: computes their digests, and flushes their bytes on request, while they grow, so that little of
// either remains at the end, and stops the engine if the files become too large together, because COPY has no such limit. The engine only
// appends to files.
import { type FileHandle, open, readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Digests } from '../../../files/digests.ts';
import { withTimeout } from '../../../model/concurrency/bounded_waits.ts';
import { Failure } from '../../../standard/failure.ts';

const pollMs = 50;
/** Digests are computed in steps of this size; between two steps following a file can stop. */
const stepBytes = 64 * 1024 * 1024;

export interface FileDigest {
  readonly bytes: number;
  /** Hexadecimal. */
  readonly sha256: string;
}

export interface WatchOptions {
  /** Limit of the files' total size. */
  readonly bytesMax: number | undefined;
  /** Whether a file is flushed to the disk before its digest is returned. */
  readonly flushes: boolean;
  /** Must make the work fail; called repeatedly until it does. */
  readonly stop: () => void;
  /** Throws if computing the digests after the work must not continue. */
  readonly requireCurrent: () => void;
}

interface FileState {
  readonly path: string;
  readonly inode: number;
  readonly bytes: number;
}

/** Watches the files of a directory and its subdirectories. Must be closed. */
export class FileWatcher {
  readonly #directory: string;
  readonly #digests: Digests;
  readonly #options: WatchOptions;
  /** Bytes of each file that its digest covers. By inode, because names change. */
  readonly #digested = new Map<number, number>();
  /** The first failed flush: the operating system reports an error only once, and later flushes succeed. */
  #flushError: { readonly error: unknown } | undefined;

  constructor(directory: string, digests: Digests, options: WatchOptions) {
    this.#directory = directory;
    this.#digests = digests;
    this.#options = options;
  }

  /** Throws what `work` throws, or FILE_QUOTA_EXCEEDED. */
  async during<T>(work: () => Promise<T>): Promise<T> {
    const { bytesMax = Number.POSITIVE_INFINITY, stop } = this.#options;
    let isDone = false;
    let isOver = false;
    const working = work().finally(() => {
      isDone = true;
    });
    const ended = working.catch(() => undefined);
    while (!isDone) {
      await withTimeout(ended, pollMs, { ref: false });
      // Files that cannot be read now are read in the next round.
      const files = await this.#readStates().catch(() => []);
      isOver ||= files.reduce((sum, { bytes }) => sum + bytes, 0) > bytesMax;
      // Work that has ended must not be stopped: stopping would hit the next operation of the connection.
      if (isOver && !isDone) stop();
      for (const { path, inode, bytes } of files) {
        if (isDone || isOver) break;
        if (bytes > this.#digestedBytes(inode)) await this.#follow(path, () => !isDone).catch(() => undefined);
      }
    }
    if (isOver) throw tooLarge(bytesMax);
    return working;
  }

  /** The size and digest of a file that is complete. */
  async digestOf(path: string): Promise<FileDigest> {
    const digest = await this.#follow(path, () => {
      this.#options.requireCurrent();
      return true;
    });
    if (this.#flushError) throw this.#flushError.error;
    return digest;
  }

  close(): void {
    for (const inode of this.#digested.keys()) this.#digests.forget(this.#keyOf(inode));
  }

  async #follow(path: string, shouldContinue: () => boolean): Promise<FileDigest> {
    const file = await open(path, 'r');
    try {
      const { ino: inode, size } = await file.stat();
      let offset = this.#digestedBytes(inode);
      const digest = this.#digests.start(this.#keyOf(inode), file.fd);
      const flushing = this.#options.flushes && offset < size ? this.#flush(file) : undefined;
      try {
        await digest.begin(offset, false);
        while (offset < size && shouldContinue()) {
          offset = Math.min(offset + stepBytes, size);
          digest.advance(offset);
          await digest.end();
        }
        this.#digested.set(inode, offset);
        const { whole } = await digest.result();
        return { bytes: offset, sha256: whole };
      } finally {
        await digest.end();
        await flushing;
      }
    } finally {
      await file.close();
    }
  }

  async #flush(file: FileHandle): Promise<void> {
    await file.datasync().catch((error: unknown) => {
      this.#flushError ??= { error };
    });
  }

  #digestedBytes = (inode: number): number => this.#digested.get(inode) ?? 0;
  #keyOf = (inode: number): string => `${this.#directory}/${inode}`;

  async #readStates(): Promise<FileState[]> {
    const entries = await readdir(this.#directory, { recursive: true, withFileTypes: true });
    const paths = entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name));
    const states: FileState[] = [];
    for (const path of paths) {
      const { ino: inode, size: bytes } = await stat(path);
      states.push({ path, inode, bytes });
    }
    return states;
  }
}

const tooLarge = (roomBytes: number) =>
  new Failure('FILE_QUOTA_EXCEEDED', `the exported files exceed the available space of ${roomBytes} bytes`, {
    roomBytes,
  });
