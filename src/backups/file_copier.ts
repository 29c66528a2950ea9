// Copies files of any size to a target, cut into pieces that are named by their digests. Pieces that the target has already are not sent
// again.
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { newId } from '../model/ids.ts';
import { RetryableError } from '../tasks/task.ts';
import type { Pieces } from './pieces.ts';
import { type CopiedFile, piecePath } from './server/server_manifest.ts';
import type { BackupTarget } from './targets/backup_target.ts';

/** The first `bytes` bytes of a file, given by a path or an open descriptor. */
export interface FileToCopy {
  /** Its path in the backup. */
  readonly path: string;
  readonly from: string | number;
  readonly bytes: number;
}

export interface CopierOptions {
  readonly target: BackupTarget;
  readonly backupId: string;
  /** An empty directory for temporary pieces. */
  readonly staging: string;
  readonly pieceBytesMax: number;
  readonly cutter: Pick<Pieces, 'cut'>;
  readonly signal: AbortSignal;
  /** Called after each piece with its size. */
  readonly onCopied: (bytes: number) => void;
  /** Sizes of the pieces that the target has already, by path. */
  readonly existingPieces: ReadonlyMap<string, number>;
}

export class FileCopier {
  readonly #options: CopierOptions;
  readonly #existingPieces: Map<string, number>;

  constructor(options: CopierOptions) {
    this.#options = options;
    this.#existingPieces = new Map(options.existingPieces);
  }

  async copy({ path, from, bytes }: FileToCopy): Promise<CopiedFile> {
    const pieces: CopiedFile['pieces'] = [];
    for (let start = 0; start < bytes; start += this.#options.pieceBytesMax) {
      const size = Math.min(this.#options.pieceBytesMax, bytes - start);
      pieces.push({ sha256: await this.#copyPiece(from, start, size), bytes: size });
      this.#options.onCopied(size);
    }
    return { path, bytes, pieces };
  }

  /** Copies a small file from memory. */
  async copyText(path: string, text: string): Promise<CopiedFile> {
    const from = join(this.#options.staging, newId());
    await writeFile(from, text, { mode: 0o600 });
    try {
      return await this.copy({ path, from, bytes: Buffer.byteLength(text) });
    } finally {
      await rm(from, { force: true });
    }
  }

  async #copyPiece(from: string | number, start: number, bytes: number): Promise<string> {
    const { staging, target, backupId, signal, cutter } = this.#options;
    const to = join(staging, newId());
    try {
      signal.throwIfAborted();
      const sha256 = await cutter.cut({ from, start, bytes, to });
      const path = piecePath(backupId, sha256);
      if (this.#existingPieces.get(path) !== bytes) await target.write(path, to, signal);
      this.#existingPieces.set(path, bytes);
      return sha256;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || typeof from === 'number') throw error;
      throw new RetryableError('the file of a catalog was deleted while it was copied', { cause: error });
    } finally {
      await rm(to, { force: true });
    }
  }
}
