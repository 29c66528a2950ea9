// Files of any size on their way to a place, cut into pieces that are named by their digests. What the place has is not sent again.
import { createReadStream, createWriteStream } from 'node:fs';
import { type FileHandle, open, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { Digests } from '../files/digests.ts';
import { newId } from '../model/ids.ts';
import { RetryableError } from '../tasks/task.ts';
import type { Place } from './place.ts';
import { type CopiedFile, piecePath } from './server_manifest.ts';

const readBytes = 1024 * 1024;

/** The beginning of a file: a path, or a descriptor that stays open. */
export interface FileToCopy {
  /** What it is called in the backup. */
  readonly path: string;
  readonly from: string | number;
  readonly bytes: number;
}

export interface CopierOptions {
  readonly place: Place;
  readonly backupId: string;
  /** An empty directory, for one piece at a time. */
  readonly staging: string;
  readonly pieceBytesMax: number;
  readonly digests: Digests;
  readonly signal: AbortSignal;
  /** Told after each piece how many bytes it has. */
  readonly copied: (bytes: number) => void;
  /** Sizes of the pieces that the place has already, by path. */
  readonly there: ReadonlyMap<string, number>;
}

export class FileCopier {
  readonly #options: CopierOptions;
  readonly #there: Map<string, number>;

  constructor(options: CopierOptions) {
    this.#options = options;
    this.#there = new Map(options.there);
  }

  async copy({ path, from, bytes }: FileToCopy): Promise<CopiedFile> {
    const pieces: CopiedFile['pieces'] = [];
    for (let start = 0; start < bytes; start += this.#options.pieceBytesMax) {
      const size = Math.min(this.#options.pieceBytesMax, bytes - start);
      pieces.push({ sha256: await this.#piece(from, start, size), bytes: size });
      this.#options.copied(size);
    }
    return { path, bytes, pieces };
  }

  /** A small file that exists nowhere else. */
  async copyText(path: string, text: string): Promise<CopiedFile> {
    const from = join(this.#options.staging, newId());
    await writeFile(from, text, { mode: 0o600 });
    try {
      return await this.copy({ path, from, bytes: Buffer.byteLength(text) });
    } finally {
      await rm(from, { force: true });
    }
  }

  async #piece(from: string | number, start: number, size: number): Promise<string> {
    const { staging, place, backupId, signal } = this.#options;
    const staged = join(staging, newId());
    const range = { start, end: start + size - 1, highWaterMark: readBytes, signal };
    const source =
      typeof from === 'number'
        ? createReadStream('', { ...range, fd: from, autoClose: false })
        : createReadStream(from, range);
    try {
      await pipeline(source, createWriteStream(staged, { mode: 0o600 }), { signal });
      const sha256 = await this.#digestOf(staged, size);
      const path = piecePath(backupId, sha256);
      if (this.#there.get(path) !== size) await place.write(path, staged, signal);
      this.#there.set(path, size);
      return sha256;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || typeof from === 'number') throw error;
      throw new RetryableError('the file of a catalog was deleted while it was copied', { cause: error });
    } finally {
      await rm(staged, { force: true });
    }
  }

  /** By a thread: a piece is large. */
  async #digestOf(staged: string, size: number): Promise<string> {
    const { digests } = this.#options;
    let file: FileHandle | undefined;
    try {
      file = await open(staged, 'r');
      if ((await file.stat()).size !== size) throw new RetryableError('a file became shorter while it was copied');
      const digest = digests.of(staged, file.fd);
      await digest.begin(0, false);
      digest.advance(size);
      const { whole } = await digest.result();
      await digest.end();
      return whole;
    } finally {
      digests.forget(staged);
      await file?.close();
    }
  }
}
