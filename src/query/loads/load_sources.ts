// Where data to be loaded comes from, made a plain file that the engine may read: a file in a directory that the settings allow, or
// fetched from a host that they allow; unpacked where it is compressed. What is made for a load is gone when it ended.
import { createReadStream, createWriteStream } from 'node:fs';
import { link, mkdir, realpath, rm, stat } from 'node:fs/promises';
import { isAbsolute, join, sep } from 'node:path';
import { type Readable, Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createZstdDecompress } from 'node:zlib';
import type { DataFormat } from '../../engines/load.ts';
import type { FileStore, StoredFile } from '../../files/file_store.ts';
import { isFullDisk } from '../../files/receiving.ts';
import { newId } from '../../model/ids.ts';
import type { Principal } from '../../model/principal.ts';
import type { HostAllowlist } from '../../outbound/host_allowlist.ts';
import { get, unavailable, urlOf } from '../../outbound/http_client.ts';
import { type ObjectStoreCredentials, type ObjectStoreLocation, openObjectStore } from '../../outbound/object_store.ts';
import { Failure } from '../../standard/failure.ts';
import type { LoadProgress, LoadStage } from './load_progress.ts';

export type Compression = 'none' | 'gzip' | 'zstd';

export interface S3Source extends ObjectStoreLocation {
  readonly key: string;
}

/** One of these. */
export interface LoadSource {
  readonly path?: string | undefined;
  readonly url?: string | undefined;
  readonly s3?: S3Source | undefined;
  /** Id of an upload of the caller. */
  readonly upload?: string | undefined;
}

export interface LoadFileOptions {
  /** Absolute, with links followed. */
  readonly directories: readonly string[];
  readonly spoolDirectory: string;
  /** Of one file, unpacked. */
  readonly bytesMax: number;
  readonly hosts: HostAllowlist;
  /** For all of a file. */
  readonly fetchMs: number;
  readonly files: Pick<FileStore, 'find' | 'pathOf' | 'remove'>;
}

export interface PrepareOptions {
  readonly principal: Principal;
  readonly credentials?: ObjectStoreCredentials | undefined;
  readonly signal: AbortSignal;
  readonly progress: LoadProgress;
}

/** Between two pieces of what is fetched. */
const idleMs = 60_000;

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

/** What a source is called, without where it is. */
function nameOfSource({ path, url, s3 }: LoadSource): string {
  const whole = path ?? s3?.key ?? (url === undefined ? '' : urlOf(url).pathname);
  return whole.split('/').at(-1) as string;
}

/** What has to be done before all of it was read. */
export function stagesOf({ url, s3 }: LoadSource, compression: Compression): LoadStage[] {
  const fetching: LoadStage[] = url !== undefined || s3 !== undefined ? ['fetching'] : [];
  return [...fetching, ...(compression === 'none' ? [] : (['unpacking'] as const)), 'reading'];
}

export class LoadFiles {
  readonly #options: LoadFileOptions;

  constructor(options: LoadFileOptions) {
    this.#options = options;
  }

  /** Throws INVALID_PARAMETER where the source is none that could be used, as far as that can be said at once. */
  async check(source: LoadSource, principal: Principal): Promise<{ readonly name: string }> {
    if (source.upload !== undefined) return this.#upload(source.upload, principal);
    if (source.path !== undefined) await this.#found(source.path);
    if (source.url !== undefined) this.#options.hosts.check(urlOf(source.url));
    if (source.s3) (await openObjectStore(source.s3, undefined, this.#options.hosts)).close();
    return { name: nameOfSource(source) };
  }

  /** The file to load. To be removed by who asked. */
  async prepare(source: LoadSource, compression: Compression, options: PrepareOptions): Promise<PreparedFile> {
    const found =
      source.path !== undefined
        ? { path: await this.#found(source.path), remove: async () => {} }
        : source.upload !== undefined
          ? await this.#linked(source.upload, options.principal)
          : await this.#fetched(source, options);
    if (compression === 'none') return { ...found, bytes: await this.#size(found.path) };
    try {
      return await this.#unpacked(found.path, compression, options);
    } finally {
      await found.remove();
    }
  }

  /** Used up: it is not kept for the rest of its day. */
  async removeUpload(uploadId: string): Promise<void> {
    await this.#options.files.remove(uploadId);
  }

  /** What is another's is as what is not there. */
  async #upload(uploadId: string, principal: Principal): Promise<StoredFile> {
    const file = await this.#options.files.find(uploadId);
    const isTheirs =
      file?.kind === 'upload' &&
      file.owner === principal.id &&
      (principal.scopes === undefined || JSON.stringify(principal.scopes) === JSON.stringify(file.scopes));
    if (isTheirs && file.state === 'ready') return file;
    const message = isTheirs ? 'is an upload that is not whole yet' : 'names no upload of the caller';
    throw new Failure('INVALID_PARAMETER', `/source/upload ${message}`, {
      violations: [{ pointer: '/source/upload', rule: 'upload', message }],
    });
  }

  /** The engine reads the spool; a link costs nothing. */
  async #linked(uploadId: string, principal: Principal) {
    const { fileId } = await this.#upload(uploadId, principal);
    const path = await this.spoolPath();
    await link(this.#options.files.pathOf(fileId), path);
    return { path, remove: () => rm(path, { force: true }) };
  }

  async #fetched(source: LoadSource, { credentials, signal, progress }: PrepareOptions) {
    const path = await this.spoolPath();
    const remove = () => rm(path, { force: true });
    const { bytesMax, fetchMs, hosts } = this.#options;
    const limits = { idleMs, totalMs: fetchMs, bytesMax, signal };
    try {
      if (source.url !== undefined) {
        const { body, bytes } = await get(source.url, hosts, limits);
        await kept(body, path, { bytesMax, signal, tell: (done) => progress.at('fetching', done, bytes) });
      } else {
        const inTime = AbortSignal.any([signal, AbortSignal.timeout(fetchMs)]);
        await this.#fetchedObject(source.s3 as S3Source, path, { credentials, signal: inTime, progress });
      }
    } catch (error) {
      await remove();
      throw fetchFailure(error, signal);
    }
    return { path, remove };
  }

  async #fetchedObject(
    s3: S3Source,
    path: string,
    { credentials, signal, progress }: Omit<PrepareOptions, 'principal'>,
  ): Promise<void> {
    const { bytesMax, hosts } = this.#options;
    const store = await openObjectStore(s3, credentials, hosts);
    try {
      const { bytes, body } = await store.read(s3.key, signal);
      const tell = (done: number) => progress.at('fetching', done, bytes);
      const got = await kept(body, path, { bytesMax, signal, tell });
      if (got !== bytes) throw new Failure('REMOTE_UNAVAILABLE', 'the object store broke off');
    } finally {
      store.close();
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

  async #unpacked(
    from: string,
    compression: Exclude<Compression, 'none'>,
    { signal, progress }: PrepareOptions,
  ): Promise<PreparedFile> {
    const path = await this.spoolPath();
    const remove = () => rm(path, { force: true });
    const { size } = await stat(from);
    const packed = createReadStream(from);
    const counted = counter(this.#options.bytesMax, () => progress.at('unpacking', packed.bytesRead, size));
    const unpack = compression === 'gzip' ? createGunzip() : createZstdDecompress();
    try {
      await pipeline(packed, unpack, counted.stream, createWriteStream(path, { mode: 0o600 }), {
        signal,
      });
    } catch (error) {
      await remove();
      throw unpackFailure(error, signal);
    }
    return { path, bytes: counted.bytes(), remove };
  }
}

/** Into a file; how many bytes it were. */
async function kept(
  body: Readable,
  path: string,
  {
    bytesMax,
    signal,
    tell,
  }: { readonly bytesMax: number; readonly signal: AbortSignal; readonly tell: (bytes: number) => void },
): Promise<number> {
  const counted = counter(bytesMax, tell);
  await pipeline(body, counted.stream, createWriteStream(path, { mode: 0o600 }), { signal });
  return counted.bytes();
}

function fetchFailure(error: unknown, signal: AbortSignal): unknown {
  if (signal.aborted) return cancelled();
  if (error instanceof Failure) return error;
  return isFullDisk(error) ? storageFull(error) : unavailable(error);
}

const cancelled = () => new Failure('STATEMENT_CANCELLED', 'the load was cancelled; nothing was loaded');
const storageFull = (cause: unknown) => new Failure('STORAGE_FULL', 'the disk of the service is full', {}, { cause });

/** Lets so many bytes through. */
function counter(
  bytesMax: number,
  tell: (bytes: number) => void,
): { readonly stream: Transform; readonly bytes: () => number } {
  let bytes = 0;
  const stream = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length;
      if (bytes > bytesMax) done(tooLarge(bytesMax));
      else {
        tell(bytes);
        done(null, chunk);
      }
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
  if (signal.aborted) return cancelled();
  const { code = '' } = error as NodeJS.ErrnoException;
  if (isFullDisk(error)) return storageFull(error);
  if (/^(?:Z_|ZSTD_|ERR_ZSTD|ERR_.*ZLIB)/.test(code))
    return new Failure('DATA_INVALID', 'the file is not compressed as was said, or it is cut off; nothing was loaded');
  return error;
}
