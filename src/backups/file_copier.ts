// Files of any size on their way to a place, cut into pieces that are named by their digests. What the place has is not sent again.
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { newId } from '../model/ids.ts';
import { RetryableError } from '../tasks/task.ts';
import type { Pieces } from './pieces.ts';
import { type CopiedFile, piecePath } from './server/server_manifest.ts';
import type { BackupTarget } from './targets/backup_target.ts';

/** The beginning of a file: a path, or a descriptor that stays open. */
export interface FileToCopy {
  /** What it is called in the backup. */
  readonly path: string;
  readonly from: string | number;
  readonly bytes: number;
}

export interface CopierOptions {
  readonly place: BackupTarget;
  readonly backupId: string;
  /** An empty directory, for the pieces on their way. */
  readonly staging: string;
  readonly pieceBytesMax: number;
  readonly cutter: Pick<Pieces, 'cut'>;
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

  async #piece(from: string | number, start: number, bytes: number): Promise<string> {
    const { staging, place, backupId, signal, cutter } = this.#options;
    const to = join(staging, newId());
    try {
      signal.throwIfAborted();
      const sha256 = await cutter.cut({ from, start, bytes, to });
      const path = piecePath(backupId, sha256);
      if (this.#there.get(path) !== bytes) await place.write(path, to, signal);
      this.#there.set(path, bytes);
      return sha256;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || typeof from === 'number') throw error;
      throw new RetryableError('the file of a catalog was deleted while it was copied', { cause: error });
    } finally {
      await rm(to, { force: true });
    }
  }
}
