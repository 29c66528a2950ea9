// The files of an export: their names, sizes, digests and the limit of their total size.
import { createHash, type Hash } from 'node:crypto';
import { type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';
import { Failure } from '../../../standard/failure.ts';
import type { ExportedFile, ExportInto } from '../../port/export.ts';

export interface OutputOptions extends Pick<ExportInto, 'bytesMax' | 'isDurable'> {
  readonly directory: string;
  readonly extension: string;
}

interface OpenFile {
  readonly name: string;
  readonly handle: FileHandle;
  readonly digest: Hash;
  bytes: number;
}

/** Must be closed. One file is open at a time. */
export class OutputFiles {
  readonly #options: OutputOptions;
  readonly #entries: ExportedFile[] = [];
  #open: OpenFile | undefined;
  #totalBytes = 0;

  constructor(options: OutputOptions) {
    this.#options = options;
  }

  /** The complete files. */
  get entries(): readonly ExportedFile[] {
    return this.#entries;
  }

  /** Of the open file. */
  get bytes(): number {
    return this.#open?.bytes ?? 0;
  }

  /** Appends to the open file, or begins the next one. Throws FILE_QUOTA_EXCEEDED. */
  async write(parts: readonly Uint8Array[]): Promise<void> {
    const bytes = parts.reduce((sum, { byteLength }) => sum + byteLength, 0);
    const { bytesMax = Number.POSITIVE_INFINITY } = this.#options;
    this.#totalBytes += bytes;
    if (this.#totalBytes > bytesMax)
      throw new Failure(
        'FILE_QUOTA_EXCEEDED',
        `the exported files exceed the available space of ${bytesMax} bytes`,
        { roomBytes: bytesMax },
        { outcome: 'notApplied' },
      );
    this.#open ??= await this.#next();
    const file = this.#open;
    // A nearly full disk accepts only a part of the bytes; appending throws the reason.
    for (const part of parts) {
      await file.handle.appendFile(part);
      file.digest.update(part);
    }
    file.bytes += bytes;
  }

  async finish(rows: number): Promise<void> {
    this.#open ??= await this.#next();
    const { name, handle, digest, bytes } = this.#open;
    if (this.#options.isDurable) await handle.datasync();
    await this.close();
    this.#entries.push({ name, bytes, rows, sha256: digest.digest('hex') });
  }

  async close(): Promise<void> {
    const file = this.#open;
    if (!file) return;
    this.#open = undefined;
    await file.handle.close();
  }

  async #next(): Promise<OpenFile> {
    const { directory, extension } = this.#options;
    const name = `part-${String(this.#entries.length).padStart(5, '0')}.${extension}`;
    return { name, handle: await open(join(directory, name), 'ax'), digest: createHash('sha256'), bytes: 0 };
  }
}
