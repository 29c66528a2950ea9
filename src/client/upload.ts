// Uploads: sends the bytes of a file in parts, and continues where the server has the file after a failure.

import type { RecordOf } from '../api/handlers.ts';
import type { uploadsApi } from '../api/transfer/uploads.ts';
import { chunksOfStream } from './byte_stream.ts';
import { TabulariumError } from './errors.ts';
import { randomId } from './random_id.ts';
import { type Sender, sleep } from './transport.ts';

export type UploadRecord = RecordOf<typeof uploadsApi>;

/** Chunks of the file in order. */
type Chunks = AsyncIterable<Uint8Array> | Iterable<Uint8Array>;

/** A `File` or another `Blob`, or the bytes in order: a stream, or chunks that are iterated. */
export type UploadSource = Blob | ReadableStream<Uint8Array> | Chunks;

export interface TransferProgress {
  /** The bytes that have arrived. */
  readonly bytes: number;
  /** Undefined while the size is unknown. */
  readonly total: number | undefined;
}

export interface UploadOptions {
  /** The name of the file, from whose extension a load infers the format; that of a `File` by default. */
  readonly name?: string | undefined;
  /** A UUID in lower case; an upload of this id that was interrupted is continued. `source` has the file from its beginning. */
  readonly uploadId?: string | undefined;
  /** The size of the file, for which the server reserves space; that of a `Blob` by default. */
  readonly bytes?: number | undefined;
  /** SHA-256 of the file in hexadecimal, which the server compares. */
  readonly sha256?: string | undefined;
  /** The size of a part in bytes; the default is 8 MiB. A part is in memory until it is stored. */
  readonly partBytes?: number | undefined;
  readonly onProgress?: ((progress: TransferProgress) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
}

interface Part {
  readonly start: number;
  readonly bytes: Uint8Array<ArrayBuffer> | Blob;
}

/** What the server has of a file. */
type Received = Pick<UploadRecord, 'state' | 'receivedBytes'>;

const partBytesDefault = 8 * 1024 * 1024;
/** How often in a row a part is repeated without progress. */
const repeatsMax = 6;
const pauseMs = 100;
/** A part that is sent more slowly is sent again from where it was interrupted. */
const slowestBytesPerMs = 32;
const restOf = (bytes: Part['bytes'], from: number): Part['bytes'] =>
  bytes instanceof Blob ? bytes.slice(from) : bytes.subarray(from);
const sizeOf = (bytes: Part['bytes']): number => (bytes instanceof Blob ? bytes.size : bytes.length);

/** Resolves when the server has the whole file. */
export async function upload(
  sender: Sender,
  uploadsPath: string,
  source: UploadSource,
  options: UploadOptions,
): Promise<UploadRecord> {
  const transfer = new Upload(sender, uploadsPath, source, options);
  return transfer.run();
}

class Upload {
  readonly #sender: Sender;
  readonly #uploadsPath: string;
  readonly #path: string;
  readonly #id: string;
  readonly #source: UploadSource;
  readonly #options: UploadOptions;
  #link = '';
  #received: Received = { state: 'receiving', receivedBytes: 0 };

  constructor(sender: Sender, uploadsPath: string, source: UploadSource, options: UploadOptions) {
    this.#sender = sender;
    this.#uploadsPath = uploadsPath;
    this.#id = options.uploadId ?? randomId();
    this.#path = `${uploadsPath}/${this.#id}`;
    this.#source = source;
    this.#options = options;
  }

  async run(): Promise<UploadRecord> {
    const { partBytes = partBytesDefault } = this.#options;
    const source = this.#source;
    const total = this.#options.bytes ?? (source instanceof Blob ? source.size : undefined);
    await this.#begin(total);
    this.#report(total);
    const from = this.#received.receivedBytes;
    let end = from;
    if (this.#received.state === 'receiving') {
      for await (const part of source instanceof Blob
        ? slicesOf(source, partBytes, from)
        : partsOf(source, partBytes)) {
        end = part.start + sizeOf(part.bytes);
        if (end > from) await this.#send(part, total);
      }
      await this.#finish(end);
    }
    return this.#read();
  }

  /** Creates the upload, or finds the one of this id. */
  async #begin(total: number | undefined): Promise<void> {
    const { name = this.#source instanceof File ? this.#source.name : undefined, sha256, signal } = this.#options;
    const given = Object.entries({ uploadId: this.#id, name, sha256, bytes: total });
    const body = Object.fromEntries(given.filter(([, value]) => value !== undefined));
    // Creating what exists returns it.
    await this.#sender.send({ method: 'PUT', path: this.#uploadsPath, body, isRead: true, signal });
    await this.#read();
  }

  async #read(): Promise<UploadRecord> {
    const { result } = await this.#sender.send({
      method: 'GET',
      path: this.#path,
      isRead: true,
      signal: this.#options.signal,
    });
    const record = result as unknown as UploadRecord;
    this.#link = record.link ?? '';
    this.#received = record;
    return record;
  }

  /** Sends what the server does not have of a part; after a failure, from where the server has the file. */
  async #send({ start, bytes }: Part, total: number | undefined): Promise<void> {
    const end = start + sizeOf(bytes);
    await this.#repeated(async () => {
      const { receivedBytes: offset } = this.#received;
      if (offset >= end) return;
      if (offset < start) throw lost(offset, start);
      await this.#put(`bytes ${offset}-${end - 1}/${total ?? '*'}`, restOf(bytes, offset - start));
    });
    this.#report(total);
  }

  /** A file whose size was unknown, or that is empty, is complete when its size is sent. */
  async #finish(total: number): Promise<void> {
    if (this.#received.state === 'ready') return;
    await this.#repeated(async () => {
      if (this.#received.receivedBytes !== total) throw lost(this.#received.receivedBytes, total);
      await this.#put(`bytes */${total}`);
    });
    this.#report(total);
  }

  async #put(contentRange: string, bytes: Part['bytes'] = new Uint8Array()): Promise<void> {
    const { signal } = this.#options;
    const { result } = await this.#sender.send({
      method: 'PUT',
      path: this.#link,
      part: { bytes, contentRange },
      isRead: false,
      waitMs: Math.ceil(sizeOf(bytes) / slowestBytesPerMs),
      signal,
    });
    this.#received = result as unknown as Received;
  }

  async #repeated(attempt: () => Promise<void>): Promise<void> {
    for (let repeats = 0; ; ) {
      const before = this.#received.receivedBytes;
      try {
        return await attempt();
      } catch (error) {
        if (!(error instanceof TabulariumError) || !isTransient(error)) throw error;
        if (repeats >= repeatsMax) throw error;
        await sleep(pauseMs * 2 ** repeats, this.#options.signal);
        await this.#read();
        repeats = this.#received.receivedBytes > before ? 0 : repeats + 1;
        if (this.#received.state === 'ready') return;
      }
    }
  }

  #report(total: number | undefined): void {
    this.#options.onProgress?.({ bytes: this.#received.receivedBytes, total });
  }
}

/** An expired link is `FORBIDDEN`, and the record has a new one; an offset is wrong after bytes whose acknowledgement was lost. */
const transient: readonly string[] = ['FORBIDDEN', 'FILE_OFFSET_INVALID', 'MALFORMED_HTTP', 'REQUEST_TIMEOUT'];
const isTransient = ({ status, code }: TabulariumError): boolean =>
  status === 0 || status === 503 || transient.includes(code);

const lost = (offset: number, end: number): Error =>
  new TypeError(`the server has ${offset} bytes of the file, of which ${end} were sent`);

function* slicesOf(blob: Blob, partBytes: number, from: number): Generator<Part> {
  for (let start = from; start < blob.size; start += partBytes)
    yield { start, bytes: blob.slice(start, start + partBytes) };
}

/** The bytes of a part are those of the next one when that is asked for: one buffer, however large the file is. */
async function* partsOf(source: Exclude<UploadSource, Blob>, partBytes: number): AsyncGenerator<Part> {
  const chunks = source instanceof ReadableStream ? chunksOfStream(source) : source;
  let start = 0;
  const part = new Uint8Array(partBytes);
  let size = 0;
  for await (const chunk of chunks)
    for (let taken = 0; taken < chunk.length; ) {
      const piece = chunk.subarray(taken, taken + partBytes - size);
      part.set(piece, size);
      size += piece.length;
      taken += piece.length;
      if (size < partBytes) continue;
      yield { start, bytes: part };
      start += size;
      size = 0;
    }
  if (size > 0) yield { start, bytes: part.subarray(0, size) };
}
