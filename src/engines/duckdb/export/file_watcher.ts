// Files that the engine writes, looked at while it does: their digests are worked out and their bytes put on the disk as they come, so
// that little of either is left at the end; and what has become too large together is stopped, as COPY knows no such bound. Files are
// only ever appended to.
import { type FileHandle, open, readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import type { Digests } from '../../../files/digests.ts';
import { Failure } from '../../../standard/failure.ts';

const lookMs = 50;
/** Between two of these, the work may be found to be over. */
const stepBytes = 64 * 1024 * 1024;

export interface FileGrowth {
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

interface Seen {
  readonly path: string;
  readonly inode: number;
  readonly bytes: number;
}

/** The files of a directory and of those in it. To be closed. */
export class FileWatcher {
  readonly #directory: string;
  readonly #digests: Digests;
  readonly #watch: Watch;
  /** How far each is followed. By inode: names may change. */
  readonly #followed = new Map<number, number>();
  /** What could not be put on the disk is said once: asked again, the system says that all is well. */
  #flushFault: { readonly error: unknown } | undefined;

  constructor(directory: string, digests: Digests, watch: Watch) {
    this.#directory = directory;
    this.#digests = digests;
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
      const files = await this.#seen().catch(() => []);
      isOver ||= files.reduce((sum, { bytes }) => sum + bytes, 0) > bytesMax;
      // What comes after the work must not be stopped in its place.
      if (isOver && !isDone) stop();
      for (const { path, inode, bytes } of files) {
        if (isDone || isOver) break;
        if (bytes > this.#from(inode)) await this.#follow(path, () => !isDone).catch(() => undefined);
      }
    }
    if (isOver) throw tooLarge(bytesMax);
    return working;
  }

  /** Of a file that nobody writes any more. */
  async grown(path: string): Promise<FileGrowth> {
    const grown = await this.#follow(path, () => {
      this.#watch.current();
      return true;
    });
    if (this.#flushFault) throw this.#flushFault.error;
    return grown;
  }

  close(): void {
    for (const inode of this.#followed.keys()) this.#digests.forget(this.#keyOf(inode));
  }

  async #follow(path: string, goesOn: () => boolean): Promise<FileGrowth> {
    const file = await open(path, 'r');
    try {
      const { ino: inode, size } = await file.stat();
      let at = this.#from(inode);
      const digest = this.#digests.start(this.#keyOf(inode), file.fd);
      const flushed = at < size ? this.#flush(file) : undefined;
      try {
        await digest.begin(at, false);
        while (at < size && goesOn()) {
          at = Math.min(at + stepBytes, size);
          digest.advance(at);
          await digest.end();
        }
        this.#followed.set(inode, at);
        const { whole } = await digest.result();
        return { bytes: at, sha256: whole };
      } finally {
        await digest.end();
        await flushed;
      }
    } finally {
      await file.close();
    }
  }

  async #flush(file: FileHandle): Promise<void> {
    await file.datasync().catch((error: unknown) => {
      this.#flushFault ??= { error };
    });
  }

  #from = (inode: number): number => this.#followed.get(inode) ?? 0;
  #keyOf = (inode: number): string => `${this.#directory}/${inode}`;

  async #seen(): Promise<Seen[]> {
    const entries = await readdir(this.#directory, { recursive: true, withFileTypes: true });
    const paths = entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name));
    const seen: Seen[] = [];
    for (const path of paths) {
      const { ino: inode, size: bytes } = await stat(path);
      seen.push({ path, inode, bytes });
    }
    return seen;
  }
}

const tooLarge = (roomBytes: number) =>
  new Failure('FILE_QUOTA_EXCEEDED', 'the files would be larger than there is room for', { roomBytes });
