// Where data to be loaded comes from, made a plain file that the engine may read: a file in a directory that the settings allow,
// unpacked where it is compressed. What is made for a load is gone when it ended.
import { createReadStream, createWriteStream } from 'node:fs';
import { mkdir, realpath, rm, stat } from 'node:fs/promises';
import { isAbsolute, join, sep } from 'node:path';
import { Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createZstdDecompress } from 'node:zlib';
import type { DataFormat } from '../engines/load.ts';
import { newId } from '../model/ids.ts';
import { Failure } from '../standard/failure.ts';

export type Compression = 'none' | 'gzip' | 'zstd';

export interface LoadSource {
  readonly path?: string | undefined;
}

export interface LoadFileOptions {
  /** Absolute, with links followed. */
  readonly directories: readonly string[];
  readonly spoolDirectory: string;
  /** Of one file, unpacked. */
  readonly bytesMax: number;
}

export interface PreparedFile {
  readonly path: string;
  readonly bytes: number;
  remove(): Promise<void>;
}

/** What the end of a name says. */
const endings: Readonly<Record<string, DataFormat>> = {
  csv: 'csv',
  tsv: 'csv',
  txt: 'csv',
  json: 'json',
  ndjson: 'ndjson',
  jsonl: 'ndjson',
  parquet: 'parquet',
};
const packed: Readonly<Record<string, Compression>> = { gz: 'gzip', gzip: 'gzip', zst: 'zstd', zstd: 'zstd' };

/** What a file is by its name. */
export function kindByName(name: string): {
  readonly format: DataFormat | undefined;
  readonly compression: Compression;
} {
  const parts = name.toLowerCase().split('.').slice(1);
  const compression = packed[parts.at(-1) ?? ''] ?? 'none';
  return { format: endings[parts.at(compression === 'none' ? -1 : -2) ?? ''], compression };
}

export const nameOfSource = ({ path = '' }: LoadSource): string => path.split('/').at(-1) as string;

export class LoadFiles {
  readonly #options: LoadFileOptions;

  constructor(options: LoadFileOptions) {
    this.#options = options;
  }

  /** Throws INVALID_PARAMETER where the source is none that could be used, as far as that can be said at once. */
  async check(source: LoadSource): Promise<void> {
    if (source.path !== undefined) await this.#found(source.path);
  }

  /** The file to load. To be removed by who asked. */
  async prepare(source: LoadSource, compression: Compression, signal: AbortSignal): Promise<PreparedFile> {
    const found = { path: await this.#found(source.path as string), remove: async () => {} };
    if (compression === 'none') return { ...found, bytes: await this.#size(found.path) };
    try {
      return await this.#unpacked(found.path, compression, signal);
    } finally {
      await found.remove();
    }
  }

  /** A place in the spool that nothing has yet. */
  async spoolPath(): Promise<string> {
    const directory = join(this.#options.spoolDirectory, 'loads');
    await mkdir(directory, { recursive: true, mode: 0o700 });
    return join(directory, newId());
  }

  /** One answer for all that is not there or not allowed: what else the machine has is nobody's business. */
  async #found(path: string): Promise<string> {
    const refused = (message: string) =>
      new Failure('INVALID_PARAMETER', `/source/path ${message}`, {
        violations: [{ pointer: '/source/path', rule: 'path', message }],
      });
    const { directories } = this.#options;
    if (directories.length === 0) throw refused('is not taken: this server has no directories to load from');
    const real = isAbsolute(path) && !path.includes('\0') ? await realpath(path).catch(() => undefined) : undefined;
    const isWithin = real !== undefined && directories.some((directory) => real.startsWith(directory + sep));
    const isFile = isWithin && (await stat(real).catch(() => undefined))?.isFile() === true;
    if (!isFile) throw refused('names no file in a directory that this server loads from');
    return real;
  }

  async #size(path: string): Promise<number> {
    const { size } = await stat(path);
    if (size > this.#options.bytesMax) throw tooLarge(this.#options.bytesMax);
    return size;
  }

  async #unpacked(from: string, compression: Exclude<Compression, 'none'>, signal: AbortSignal): Promise<PreparedFile> {
    const path = await this.spoolPath();
    const remove = () => rm(path, { force: true });
    const counted = counter(this.#options.bytesMax);
    const unpack = compression === 'gzip' ? createGunzip() : createZstdDecompress();
    try {
      await pipeline(createReadStream(from), unpack, counted.stream, createWriteStream(path, { mode: 0o600 }), {
        signal,
      });
    } catch (error) {
      await remove();
      throw unpackFailure(error, signal);
    }
    return { path, bytes: counted.bytes(), remove };
  }
}

/** Lets so many bytes through. */
export function counter(bytesMax: number): { readonly stream: Transform; readonly bytes: () => number } {
  let bytes = 0;
  const stream = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length;
      if (bytes > bytesMax) done(tooLarge(bytesMax));
      else done(null, chunk);
    },
  });
  return { stream, bytes: () => bytes };
}

const tooLarge = (bytesMax: number): Failure =>
  new Failure('DATA_INVALID', `the data is larger than ${bytesMax} bytes, which is the most that is loaded at once`, {
    bytesMax,
  });

function unpackFailure(error: unknown, signal: AbortSignal): unknown {
  if (error instanceof Failure) return error;
  if (signal.aborted) return new Failure('STATEMENT_CANCELLED', 'the load was cancelled; nothing was loaded');
  const { code = '' } = error as NodeJS.ErrnoException;
  if (code === 'ENOSPC') return new Failure('STORAGE_FULL', 'the disk of the service is full', {}, { cause: error });
  if (/^(?:Z_|ZSTD_|ERR_ZSTD|ERR_.*ZLIB)/.test(code))
    return new Failure('DATA_INVALID', 'the file is not compressed as was said, or it is cut off; nothing was loaded');
  return error;
}
