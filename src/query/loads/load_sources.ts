// Sources of loads, turned into plain files that the engine may read: a file in an allowed directory, an upload, or a file fetched from
// an allowed host, uncompressed if needed. Temporary files are removed when the load ends.
import { createReadStream, createWriteStream } from 'node:fs';
import { mkdir, realpath, rm, stat } from 'node:fs/promises';
import { isAbsolute, join, sep } from 'node:path';
import { type Readable, Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createZstdDecompress } from 'node:zlib';
import type { DataFormat } from '../../engines/port/load.ts';
import type { StoredFile } from '../../files/file_rows.ts';
import type { FileStore } from '../../files/file_store.ts';
import { newId } from '../../model/ids.ts';
import type { Principal } from '../../model/principal.ts';
import { type HostAllowlist, hostAllowlist } from '../../outbound/host_allowlist.ts';
import { get, unavailable, urlOf } from '../../outbound/http_client.ts';
import { type ObjectStoreCredentials, type ObjectStoreLocation, openObjectStore } from '../../outbound/object_store.ts';
import { Failure, invalidParameter } from '../../standard/failure.ts';
import { isFullDisk, storageFull } from '../../store/disk_space.ts';
import type { LoadProgress, LoadStage } from './load_progress.ts';

export type Compression = 'none' | 'gzip' | 'zstd';

export interface S3Source extends ObjectStoreLocation {
  readonly key: string;
}

/** Exactly one field is set. */
export interface LoadSource {
  readonly path?: string | undefined;
  readonly url?: string | undefined;
  readonly s3?: S3Source | undefined;
  /** Id of an upload that belongs to the caller. */
  readonly upload?: string | undefined;
}

export interface LoadFileOptions {
  /** Absolute paths with symbolic links resolved. */
  readonly directories: readonly string[];
  readonly spoolDirectory: string;
  /** Limit for one file, uncompressed. */
  readonly bytesMax: number;
  readonly hosts: HostAllowlist;
  /** Timeout for fetching a whole file. */
  readonly fetchMs: number;
  readonly files: Pick<FileStore, 'find' | 'fetch' | 'remove' | 'link'>;
  /** The URL of another server that has the bytes of the file; undefined: this server has them. */
  readonly serverOfFile?: ((file: StoredFile) => string | undefined) | undefined;
}

export interface PrepareOptions {
  readonly principal: Principal;
  readonly credentials?: ObjectStoreCredentials | undefined;
  readonly signal: AbortSignal;
  readonly progress: LoadProgress;
}

/** Timeout between two chunks of a response. */
const idleMs = 60_000;

export interface PreparedFile {
  readonly path: string;
  readonly bytes: number;
  remove(): Promise<void>;
}

/** Formats by file extension. */
const formatByExtension: Readonly<Record<string, DataFormat>> = {
  csv: 'csv',
  tsv: 'csv',
  txt: 'csv',
  json: 'json',
  ndjson: 'ndjson',
  jsonl: 'ndjson',
  parquet: 'parquet',
};
const compressionByExtension: Readonly<Record<string, Compression>> = {
  gz: 'gzip',
  gzip: 'gzip',
  zst: 'zstd',
  zstd: 'zstd',
};

/** Format and compression by file name. */
export function fileKindByName(name: string): {
  readonly format: DataFormat | undefined;
  readonly compression: Compression;
} {
  const parts = name.toLowerCase().split('.').slice(1);
  const compression = compressionByExtension[parts.at(-1) ?? ''] ?? 'none';
  return { format: formatByExtension[parts.at(compression === 'none' ? -1 : -2) ?? ''], compression };
}

/** The file name of a source, without its directory. */
function sourceFileName({ path, url, s3 }: LoadSource): string {
  const sourcePath = path ?? s3?.key ?? (url === undefined ? '' : urlOf(url).pathname);
  return sourcePath.split('/').at(-1) as string;
}

/** The stages of a load from the source. */
export function stagesOf({ url, s3 }: LoadSource, compression: Compression): LoadStage[] {
  const fetching: LoadStage[] = url !== undefined || s3 !== undefined ? ['fetching'] : [];
  return [...fetching, ...(compression === 'none' ? [] : (['unpacking'] as const)), 'reading'];
}

export class LoadFiles {
  readonly #options: LoadFileOptions;

  constructor(options: LoadFileOptions) {
    this.#options = options;
  }

  /** Checks the source without reading it. Throws INVALID_PARAMETER. */
  async check(source: LoadSource, principal: Principal): Promise<{ readonly name: string }> {
    if (source.upload !== undefined) return this.#requireUpload(source.upload, principal);
    if (source.path !== undefined) await this.#resolvePath(source.path);
    if (source.url !== undefined) this.#options.hosts.check(urlOf(source.url));
    if (source.s3) (await openObjectStore(source.s3, undefined, this.#options.hosts)).close();
    return { name: sourceFileName(source) };
  }

  /** Prepares the file to load. The caller removes it. */
  async prepare(source: LoadSource, compression: Compression, options: PrepareOptions): Promise<PreparedFile> {
    const found =
      source.path !== undefined
        ? { path: await this.#resolvePath(source.path), remove: async () => {} }
        : source.upload !== undefined
          ? await this.#takeUpload(source.upload, options)
          : await this.#fetch(source, options);
    let isUsed = false;
    try {
      if (compression !== 'none') return await this.#unpack(found.path, compression, options);
      const bytes = await this.#requireSize(found.path);
      isUsed = true;
      return { ...found, bytes };
    } finally {
      if (!isUsed) await found.remove();
    }
  }

  /** Deletes a consumed upload before its expiry. */
  async removeUpload(uploadId: string): Promise<void> {
    await this.#options.files.remove(uploadId);
  }

  /** Another principal's upload is refused like one that does not exist. */
  async #requireUpload(uploadId: string, principal: Principal): Promise<StoredFile> {
    const file = await this.#options.files.find(uploadId);
    const isOwn =
      file?.kind === 'upload' &&
      file.owner === principal.id &&
      (principal.scopes === undefined || JSON.stringify(principal.scopes) === JSON.stringify(file.scopes));
    if (isOwn && file.state === 'ready') return file;
    const message = isOwn ? 'is an upload that is not complete yet' : 'is not an upload of the caller';
    throw invalidParameter('/source/upload', 'upload', message);
  }

  /** The engine can read the spool directory only. */
  async #takeUpload(uploadId: string, { principal, signal, progress }: PrepareOptions) {
    const file = await this.#requireUpload(uploadId, principal);
    const { fetchMs, files } = this.#options;
    const server = this.#options.serverOfFile?.(file);
    return this.#spool(signal, async (path) => {
      if (server === undefined) return files.fetch(file, path, AbortSignal.any([signal, AbortSignal.timeout(fetchMs)]));
      const hosts = hostAllowlist('internalUrl', new URL(server).host);
      await this.#download(`${server}${files.link(file, 'read')}`, hosts, path, { signal, progress });
    });
  }

  async #fetch(source: LoadSource, { credentials, signal, progress }: PrepareOptions) {
    const { fetchMs, hosts } = this.#options;
    return this.#spool(signal, async (path) => {
      if (source.url !== undefined) return this.#download(source.url, hosts, path, { signal, progress });
      const inTime = AbortSignal.any([signal, AbortSignal.timeout(fetchMs)]);
      await this.#fetchObject(source.s3 as S3Source, path, { credentials, signal: inTime, progress });
    });
  }

  /** Writes a file in the spool directory, which is removed if that fails. */
  async #spool(signal: AbortSignal, write: (path: string) => Promise<void>) {
    const path = await this.spoolPath();
    const remove = () => rm(path, { force: true });
    try {
      await write(path);
    } catch (error) {
      await remove();
      throw fetchFailure(error, signal);
    }
    return { path, remove };
  }

  async #download(
    url: string,
    hosts: HostAllowlist,
    path: string,
    { signal, progress }: Pick<PrepareOptions, 'signal' | 'progress'>,
  ): Promise<void> {
    const { bytesMax, fetchMs } = this.#options;
    const { body, bytes } = await get(url, hosts, { idleMs, totalMs: fetchMs, bytesMax, signal });
    await writeBody(body, path, { bytesMax, signal, onBytes: (done) => progress.update('fetching', done, bytes) });
  }

  async #fetchObject(
    s3: S3Source,
    path: string,
    { credentials, signal, progress }: Omit<PrepareOptions, 'principal'>,
  ): Promise<void> {
    const { bytesMax, hosts } = this.#options;
    const store = await openObjectStore(s3, credentials, hosts);
    try {
      const { bytes, body } = await store.read(s3.key, signal);
      const onBytes = (done: number) => progress.update('fetching', done, bytes);
      const received = await writeBody(body, path, { bytesMax, signal, onBytes });
      if (received !== bytes)
        throw new Failure('REMOTE_UNAVAILABLE', 'the object store closed the connection before the end of the object');
    } finally {
      store.close();
    }
  }

  /** An unused path in the spool directory. */
  async spoolPath(): Promise<string> {
    const directory = join(this.#options.spoolDirectory, 'loads');
    await mkdir(directory, { recursive: true, mode: 0o700 });
    return join(directory, newId());
  }

  /** Missing and disallowed paths get the same message, so that it does not reveal which files exist on this machine. */
  async #resolvePath(path: string): Promise<string> {
    const refused = (message: string) => invalidParameter('/source/path', 'path', message);
    const { directories } = this.#options;
    if (directories.length === 0)
      throw refused('is not allowed: this server has no directories to load from (setting `loadDirectories`)');
    const real = isAbsolute(path) && !path.includes('\0') ? await realpath(path).catch(() => undefined) : undefined;
    const isAllowed = real !== undefined && directories.some((directory) => real.startsWith(directory + sep));
    const isFile = isAllowed && (await stat(real).catch(() => undefined))?.isFile() === true;
    if (!isFile)
      throw refused('is not a file in one of the load directories of this server (setting `loadDirectories`)');
    return real;
  }

  async #requireSize(path: string): Promise<number> {
    const { size } = await stat(path);
    if (size > this.#options.bytesMax) throw tooLarge(this.#options.bytesMax);
    return size;
  }

  async #unpack(
    from: string,
    compression: Exclude<Compression, 'none'>,
    { signal, progress }: PrepareOptions,
  ): Promise<PreparedFile> {
    const path = await this.spoolPath();
    const remove = () => rm(path, { force: true });
    const { size } = await stat(from);
    const packed = createReadStream(from);
    const counter = countingStream(this.#options.bytesMax, () => progress.update('unpacking', packed.bytesRead, size));
    const unpack = compression === 'gzip' ? createGunzip() : createZstdDecompress();
    try {
      await pipeline(packed, unpack, counter.stream, createWriteStream(path, { mode: 0o600 }), {
        signal,
      });
    } catch (error) {
      await remove();
      throw unpackFailure(error, signal);
    }
    return { path, bytes: counter.bytes(), remove };
  }
}

/** Writes the body to a file and returns its size in bytes. */
async function writeBody(
  body: Readable,
  path: string,
  {
    bytesMax,
    signal,
    onBytes,
  }: { readonly bytesMax: number; readonly signal: AbortSignal; readonly onBytes: (bytes: number) => void },
): Promise<number> {
  const counter = countingStream(bytesMax, onBytes);
  await pipeline(body, counter.stream, createWriteStream(path, { mode: 0o600 }), { signal });
  return counter.bytes();
}

function fetchFailure(error: unknown, signal: AbortSignal): unknown {
  if (signal.aborted) return cancelled();
  if (error instanceof Failure) return error;
  return isFullDisk(error) ? storageFull(error) : unavailable(error);
}

const cancelled = () => new Failure('STATEMENT_CANCELLED', 'the load was cancelled; nothing was loaded');

/** A stream that counts bytes and fails beyond `bytesMax`. */
function countingStream(
  bytesMax: number,
  onBytes: (bytes: number) => void,
): { readonly stream: Transform; readonly bytes: () => number } {
  let bytes = 0;
  const stream = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length;
      if (bytes > bytesMax) done(tooLarge(bytesMax));
      else {
        onBytes(bytes);
        done(null, chunk);
      }
    },
  });
  return { stream, bytes: () => bytes };
}

const tooLarge = (bytesMax: number): Failure =>
  new Failure('DATA_INVALID', `the data exceeds ${bytesMax} bytes, the limit of one load`, {
    bytesMax,
  });

function unpackFailure(error: unknown, signal: AbortSignal): unknown {
  if (error instanceof Failure) return error;
  if (signal.aborted) return cancelled();
  const { code = '' } = error as NodeJS.ErrnoException;
  if (isFullDisk(error)) return storageFull(error);
  if (/^(?:Z_|ZSTD_|ERR_ZSTD|ERR_.*ZLIB)/.test(code))
    return new Failure(
      'DATA_INVALID',
      'the file is truncated, or not compressed in the stated format; nothing was loaded',
    );
  return error;
}
