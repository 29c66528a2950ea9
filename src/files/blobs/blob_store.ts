// The port to the place of complete results and files: the data directory of a server, or an S3 bucket that servers share. What is still
// computed or received is in the spool of its server. See directory_blobs.ts and bucket_blobs.ts.
import type { Readable } from 'node:stream';

/** Bytes from `start` up to, not including, `end`. */
export interface ByteRange {
  readonly start: number;
  readonly end: number;
}

/** A local file, which a directory moves and a bucket leaves to its owner, or a text. */
export type BlobContent = { readonly path: string } | { readonly text: string };

export interface OpenBlob {
  /** Its bytes; destroying the stream closes the blob. */
  readonly stream: Readable;
}

export interface ListedBlob {
  readonly key: string;
  readonly modifiedAtMs: number;
}

/** Every method of a bucket throws REMOTE_UNAVAILABLE; those of a directory throw STORAGE_FULL. */
export interface BlobStore {
  /** A file is stored atomically: no part of it is ever found. `durable`: the blob survives a power failure when this resolves. */
  put(key: string, content: BlobContent, options: { readonly durable: boolean }): Promise<void>;
  /** Undefined if there is no such blob, or if it is shorter. The content that was opened stays readable after `remove`. */
  open(key: string, range: ByteRange): Promise<OpenBlob | undefined>;
  /** The whole content, of at most `bytesMax`. Undefined if there is no such blob. */
  readText(key: string, bytesMax: number): Promise<string | undefined>;
  /** Makes the content available as a local file, without a copy if possible. False if there is no such blob. */
  fetch(key: string, path: string, signal: AbortSignal): Promise<boolean>;
  /** Idempotent. */
  remove(key: string): Promise<void>;
  /** In no particular order. */
  list(): AsyncIterable<ListedBlob>;
}
