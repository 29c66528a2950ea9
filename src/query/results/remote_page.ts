// The rows of one page in the bucket, requested when the page is found, so that a bucket that does not answer is reported in the response,
// and read while they are sent.
import type { BlobStore, ByteRange, OpenBlob } from '../../files/blobs/blob_store.ts';
import type { ReadPiece } from '../../standard/record_body.ts';
import { defaultUnreadMsMax, expiredFailure } from './page_bytes.ts';

export class RemotePage implements ReadPiece {
  readonly byteLength: number;
  readonly #store: BlobStore;
  readonly #key: string;
  readonly #range: ByteRange;
  /** Open until it is read, or not read for a while. */
  #opened: OpenBlob | undefined;
  readonly #closing: NodeJS.Timeout;

  private constructor(store: BlobStore, key: string, range: ByteRange, opened: OpenBlob | undefined) {
    this.#store = store;
    this.#key = key;
    this.#range = range;
    this.byteLength = range.end - range.start;
    this.#opened = opened;
    this.#closing = setTimeout(() => this.#take()?.stream.destroy(), defaultUnreadMsMax).unref();
  }

  /** Throws RESULT_EXPIRED, REMOTE_UNAVAILABLE. */
  static async find(store: BlobStore, key: string, range: ByteRange): Promise<RemotePage> {
    return new RemotePage(store, key, range, await openRange(store, key, range));
  }

  #take(): OpenBlob | undefined {
    clearTimeout(this.#closing);
    const opened = this.#opened;
    this.#opened = undefined;
    return opened;
  }

  async *read(): AsyncGenerator<Uint8Array> {
    const opened = this.#take() ?? (await openRange(this.#store, this.#key, this.#range));
    if (opened) yield* opened.stream as AsyncIterable<Uint8Array>;
  }
}

/** Undefined for an empty page. */
async function openRange(store: BlobStore, key: string, range: ByteRange): Promise<OpenBlob | undefined> {
  if (range.start === range.end) return undefined;
  const opened = await store.open(key, range);
  if (!opened) throw expiredFailure();
  return opened;
}
