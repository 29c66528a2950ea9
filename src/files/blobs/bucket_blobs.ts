// Blobs in an S3 bucket, below a prefix. Every call has a deadline and a stream an idle limit. Whatever the object store answers, callers
// get REMOTE_UNAVAILABLE without its words; the cause is for the log.
import { createWriteStream } from 'node:fs';
import { rm, stat } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { withTimeout } from '../../model/concurrency/bounded_waits.ts';
import { isMissingContent, type ObjectStore } from '../../outbound/object_store.ts';
import { Failure } from '../../standard/failure.ts';
import { isFullDisk, storageFull } from '../../store/disk_space.ts';
import type { BlobContent, BlobStore, ByteRange, ListedBlob, OpenBlob } from './blob_store.ts';

export interface BucketDeadlines {
  /** Until the beginning of an answer, and for calls without a stream. */
  readonly answerMs: number;
  /** Between two pieces of a stream. */
  readonly idleMs: number;
}

const usualDeadlines: BucketDeadlines = { answerMs: 15_000, idleMs: 30_000 };
const slowestBytesPerMs = 1024;
/** Less than `orphanAgeMs`: some object stores date an object by the beginning of its upload. */
const putMsMax = 12 * 3_600_000;

export class BucketBlobs implements BlobStore {
  readonly #store: ObjectStore;
  readonly #prefix: string;
  readonly #deadlines: BucketDeadlines;

  /** `prefix`: ends with `/`. */
  constructor(store: ObjectStore, prefix: string, deadlines: Partial<BucketDeadlines> = {}) {
    this.#store = store;
    this.#prefix = prefix;
    this.#deadlines = { ...usualDeadlines, ...deadlines };
  }

  async put(key: string, content: BlobContent): Promise<void> {
    const { answerMs } = this.#deadlines;
    if ('text' in content)
      return this.#call((signal) => this.#store.writeSmall(this.#prefix + key, content.text, signal));
    const { path } = content;
    const { size } = await stat(path);
    const ms = Math.min(putMsMax, answerMs + size / slowestBytesPerMs);
    return this.#call((signal) => this.#store.writeFile(this.#prefix + key, path, signal), ms);
  }

  async open(key: string, range: ByteRange): Promise<OpenBlob | undefined> {
    const found = await this.#read(key, range);
    if (!found) return undefined;
    if (found.bytes !== range.end - range.start) {
      found.body.destroy();
      return undefined;
    }
    return { stream: this.#limited(found.body) };
  }

  async readText(key: string, bytesMax: number): Promise<string | undefined> {
    const bytes = await this.#call((signal) =>
      this.#store.readSmall(this.#prefix + key, bytesMax, signal).catch(undefinedIfMissing),
    );
    return bytes?.toString();
  }

  async fetch(key: string, path: string, signal: AbortSignal): Promise<boolean> {
    const found = await this.#read(key);
    if (!found) return false;
    try {
      await pipeline(this.#limited(found.body), createWriteStream(path, { mode: 0o600 }), { signal });
      return true;
    } catch (error) {
      await rm(path, { force: true });
      if (signal.aborted) throw error;
      throw isFullDisk(error) ? storageFull(error) : unavailable(error);
    }
  }

  remove(key: string): Promise<void> {
    return this.#call((signal) => this.#store.remove(this.#prefix + key, signal));
  }

  async *list(): AsyncGenerator<ListedBlob> {
    const listed = this.#store.list(this.#prefix)[Symbol.asyncIterator]();
    for (;;) {
      const { value, done } = await this.#call(() => listed.next());
      if (done) return;
      yield { key: value.key.slice(this.#prefix.length), modifiedAtMs: value.modifiedAtMs };
    }
  }

  #read(key: string, range?: ByteRange) {
    return this.#call((signal) => this.#store.read(this.#prefix + key, signal, range).catch(undefinedIfMissing));
  }

  async #call<T>(work: (signal: AbortSignal) => Promise<T>, ms = this.#deadlines.answerMs): Promise<T> {
    const controller = new AbortController();
    try {
      const answered = work(controller.signal).then((value) => ({ value }));
      const answer = await withTimeout(answered, ms);
      if (answer) return answer.value;
      controller.abort();
      throw new Error(`the object store did not answer within ${ms} ms`);
    } catch (error) {
      throw unavailable(error);
    }
  }

  #limited(body: Readable): Readable {
    return Readable.from(withIdleLimit(body, this.#deadlines.idleMs), { objectMode: false });
  }
}

async function* withIdleLimit(body: Readable, idleMs: number): AsyncGenerator<Uint8Array> {
  const pieces = body[Symbol.asyncIterator]() as AsyncIterator<Uint8Array>;
  try {
    for (;;) {
      const timer = setTimeout(() => body.destroy(new Error(`the object store sent nothing for ${idleMs} ms`)), idleMs);
      const { value, done } = await pieces.next().finally(() => clearTimeout(timer));
      if (done) return;
      yield value;
    }
  } finally {
    body.destroy();
  }
}

function unavailable(cause: unknown): Failure {
  return new Failure('REMOTE_UNAVAILABLE', 'the file store does not respond, or refuses the request', {}, { cause });
}

function undefinedIfMissing(error: unknown): undefined {
  if (!isMissingContent(error)) throw error;
}
