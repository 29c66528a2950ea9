// S3-compatible object stores: reads objects, uploads files in parts, lists and deletes. The host allowlist decides on hosts, tasks on
// retries. The library is loaded when a store is first used.
import { type FileHandle, open } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import type { CompletedPart, S3Client } from '@aws-sdk/client-s3';
import { Failure } from '../standard/failure.ts';
import type { HostAllowlist } from './host_allowlist.ts';
import { unavailable, urlOf } from './http_client.ts';

export interface ObjectStoreLocation {
  /** `https://s3.eu-central-1.amazonaws.com`, or any S3-compatible server. */
  readonly endpoint: string;
  readonly region: string;
  readonly bucket: string;
  /** The bucket is a part of the path, not of the host: required by most servers other than Amazon's. */
  readonly pathStyle: boolean;
}

/** Without credentials, requests are not signed. */
export interface ObjectStoreCredentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string | undefined;
}

export interface ClearOptions {
  readonly signal?: AbortSignal | undefined;
  readonly confirm?: (() => Promise<void>) | undefined;
  /** The key of an object that stays. */
  readonly except?: string | undefined;
}

export interface StoredObject {
  readonly key: string;
  readonly bytes: number;
  /** Since 1970; 0 if the store does not report it. */
  readonly modifiedAtMs: number;
}

const connectMs = 10_000;
const requestMs = 60_000;
const attemptsMax = 4;
/** Size and number of the parts of an upload; S3 allows at most 10,000 parts. */
const partBytesMin = 16 * 1024 * 1024;
const partsMax = 9000;
const keysPerPage = 1000;

/** Throws HOST_NOT_ALLOWED, INVALID_PARAMETER. */
export async function openObjectStore(
  location: ObjectStoreLocation,
  credentials: ObjectStoreCredentials | undefined,
  allowlist: HostAllowlist,
): Promise<ObjectStore> {
  const url = urlOf(location.endpoint);
  if (!location.pathStyle) url.hostname = `${location.bucket}.${url.hostname}`;
  allowlist.check(url);
  const library = await import('@aws-sdk/client-s3');
  const { accessKeyId = '', secretAccessKey = '', sessionToken } = credentials ?? {};
  const signing = { accessKeyId, secretAccessKey, ...(sessionToken === undefined ? {} : { sessionToken }) };
  const lookup = allowlist.lookupFor(url);
  const { Agent } = process.getBuiltinModule('node:http');
  const { Agent: SecureAgent } = process.getBuiltinModule('node:https');
  const client = new library.S3Client({
    endpoint: location.endpoint,
    region: location.region,
    forcePathStyle: location.pathStyle,
    maxAttempts: attemptsMax,
    // Never the credentials of the machine that the server runs on.
    credentials: signing,
    ...(credentials ? {} : { signer: { sign: async (request) => request } }),
    // Only if required: many servers do not support the newer checksums.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    followRegionRedirects: false,
    requestHandler: {
      connectionTimeout: connectMs,
      requestTimeout: requestMs,
      httpAgent: new Agent({ keepAlive: true, lookup }),
      httpsAgent: new SecureAgent({ keepAlive: true, lookup }),
    },
  });
  return new ObjectStore(library, client, location.bucket);
}

/** Every method throws REMOTE_REFUSED or REMOTE_UNAVAILABLE. */
export class ObjectStore {
  readonly #library: typeof import('@aws-sdk/client-s3');
  readonly #client: S3Client;
  readonly #bucket: string;

  constructor(library: typeof import('@aws-sdk/client-s3'), client: S3Client, bucket: string) {
    this.#library = library;
    this.#client = client;
    this.#bucket = bucket;
  }

  close(): void {
    this.#client.destroy();
  }

  /** `range`: only the bytes from `start` up to, not including, `end`. */
  async read(
    key: string,
    signal?: AbortSignal,
    range?: { readonly start: number; readonly end: number },
  ): Promise<{ readonly bytes: number; readonly body: Readable }> {
    const part = range ? { Range: `bytes=${range.start}-${range.end - 1}` } : {};
    const command = new this.#library.GetObjectCommand({ Bucket: this.#bucket, Key: key, ...part });
    const { Body, ContentLength, ContentRange } = await withFailures(this.#client.send(command, sendOptions(signal)));
    if (!Body) throw new Failure('REMOTE_REFUSED', 'the object has no content');
    return { bytes: ContentLength ?? bytesOfRange(ContentRange), body: Body as Readable };
  }

  /** Reads the whole content into memory, for objects that are known to be small. */
  async readSmall(key: string, bytesMax: number, signal?: AbortSignal): Promise<Buffer> {
    const { bytes, body } = await this.read(key, signal);
    if (bytes > bytesMax) {
      body.destroy();
      throw new Failure('REMOTE_REFUSED', `the object is larger than ${bytesMax} bytes`, { bytesMax });
    }
    return withFailures(Array.fromAsync(body as AsyncIterable<Buffer>).then((pieces) => Buffer.concat(pieces)));
  }

  /** Reads the bytes from `start` up to, not including, `end` into memory. */
  async readRange(
    key: string,
    range: { readonly start: number; readonly end: number },
    signal?: AbortSignal,
  ): Promise<Buffer> {
    const { body } = await this.read(key, signal, range);
    return withFailures(Array.fromAsync(body as AsyncIterable<Buffer>).then((pieces) => Buffer.concat(pieces)));
  }

  async writeSmall(key: string, content: string | Buffer, signal?: AbortSignal): Promise<void> {
    const command = new this.#library.PutObjectCommand({ Bucket: this.#bucket, Key: key, Body: content });
    await withFailures(this.#client.send(command, sendOptions(signal)));
  }

  /**
   * Atomic: the object exists once the last part is written. Memory: one part. `confirm` is called before the request after which the object
   * exists, and what it throws prevents that.
   */
  async writeFile(key: string, path: string, signal?: AbortSignal, confirm?: () => Promise<void>): Promise<void> {
    const file = await open(path, 'r');
    try {
      const { size } = await file.stat();
      if (size > partBytesMin) return await this.#writeInParts(key, file, size, { signal, confirm });
      const content = await file.readFile();
      await confirm?.();
      await this.writeSmall(key, content, signal);
    } finally {
      await file.close();
    }
  }

  /** In the order of keys. */
  async *list(prefix: string, signal?: AbortSignal): AsyncGenerator<StoredObject> {
    for (let after: string | undefined; ; ) {
      const command = new this.#library.ListObjectsV2Command({
        Bucket: this.#bucket,
        Prefix: prefix,
        MaxKeys: keysPerPage,
        ...(after === undefined ? {} : { StartAfter: after }),
      });
      const { Contents = [], IsTruncated } = await withFailures(this.#client.send(command, sendOptions(signal)));
      for (const { Key = '', Size = 0, LastModified } of Contents)
        yield { key: Key, bytes: Size, modifiedAtMs: LastModified?.getTime() ?? 0 };
      after = Contents.at(-1)?.Key;
      if (!IsTruncated || after === undefined) return;
    }
  }

  async remove(key: string, signal?: AbortSignal): Promise<void> {
    const command = new this.#library.DeleteObjectCommand({ Bucket: this.#bucket, Key: key });
    await withFailures(this.#client.send(command, sendOptions(signal)));
  }

  /** Deletes all objects under a prefix but `except`, and aborts unfinished uploads there. `confirm` is called before each of them. */
  async clear(prefix: string, { signal, confirm, except }: ClearOptions = {}): Promise<void> {
    for (const { key, uploadId } of await this.#unfinished(prefix, signal)) {
      await confirm?.();
      const target = { Bucket: this.#bucket, Key: key, UploadId: uploadId };
      await withFailures(this.#client.send(new this.#library.AbortMultipartUploadCommand(target), sendOptions(signal)));
    }
    for await (const { key } of this.list(prefix, signal)) {
      if (key === except) continue;
      await confirm?.();
      await this.remove(key, signal);
    }
  }

  /** Empty if the server or the credentials do not allow listing them: unfinished uploads then expire after days. */
  async #unfinished(prefix: string, signal?: AbortSignal): Promise<{ key: string; uploadId: string }[]> {
    const command = new this.#library.ListMultipartUploadsCommand({ Bucket: this.#bucket, Prefix: prefix });
    const { Uploads = [] } = await this.#client.send(command, sendOptions(signal)).catch(() => ({ Uploads: [] }));
    return Uploads.flatMap(({ Key: key, UploadId: uploadId }) =>
      key?.startsWith(prefix) && uploadId !== undefined ? [{ key, uploadId }] : [],
    );
  }

  async #writeInParts(
    key: string,
    file: FileHandle,
    size: number,
    {
      signal,
      confirm,
    }: { readonly signal: AbortSignal | undefined; readonly confirm: (() => Promise<void>) | undefined },
  ): Promise<void> {
    const target = { Bucket: this.#bucket, Key: key };
    const { CreateMultipartUploadCommand, CompleteMultipartUploadCommand, AbortMultipartUploadCommand } = this.#library;
    const { UploadId } = await withFailures(
      this.#client.send(new CreateMultipartUploadCommand(target), sendOptions(signal)),
    );
    try {
      const Parts = await this.#writeParts({ ...target, UploadId }, file, size, signal);
      await confirm?.();
      const complete = new CompleteMultipartUploadCommand({ ...target, UploadId, MultipartUpload: { Parts } });
      await withFailures(this.#client.send(complete, sendOptions(signal)));
    } catch (error) {
      // Otherwise the parts remain stored and are billed.
      await this.#client.send(new AbortMultipartUploadCommand({ ...target, UploadId })).catch(() => {});
      throw error;
    }
  }

  /** Each part is a buffer, so that an interrupted one can be sent again. */
  async #writeParts(
    target: { readonly Bucket: string; readonly Key: string; readonly UploadId: string | undefined },
    file: FileHandle,
    size: number,
    signal: AbortSignal | undefined,
  ): Promise<CompletedPart[]> {
    const partBytes = Math.max(partBytesMin, Math.ceil(size / partsMax));
    const parts: CompletedPart[] = [];
    for (let start = 0; start < size; start += partBytes) {
      const PartNumber = parts.length + 1;
      const Body = Buffer.alloc(Math.min(partBytes, size - start));
      const { bytesRead } = await file.read(Body, 0, Body.length, start);
      if (bytesRead !== Body.length) throw new Error('the file was truncated while it was uploaded');
      const command = new this.#library.UploadPartCommand({ ...target, PartNumber, Body });
      const { ETag } = await withFailures(this.#client.send(command, sendOptions(signal)));
      parts.push({ ETag, PartNumber });
    }
    return parts;
  }
}

/** Whether a call failed because there is no object with its key, or because the object has no such range. */
export const isMissingContent = (error: unknown): boolean =>
  error instanceof Failure && error.cause instanceof Error && ['NoSuchKey', 'InvalidRange'].includes(error.cause.name);

/** The length of `bytes 0-9/100`, which servers that send the content in chunks report instead of its length. */
function bytesOfRange(range: string | undefined): number {
  const [, first, last] = /^bytes (\d+)-(\d+)\//.exec(range ?? '') ?? [];
  return last === undefined ? 0 : Number(last) + 1 - Number(first);
}

const sendOptions = (signal: AbortSignal | undefined) => (signal ? { abortSignal: signal } : {});

/** Errors of the library contain hosts and request ids: the cause is only for the log. */
async function withFailures<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (cause) {
    if (cause instanceof Failure) throw cause;
    const { name, $metadata } = cause as { name?: string; $metadata?: { httpStatusCode?: number } };
    const remoteStatus = $metadata?.httpStatusCode;
    // The clocks differ: the library then uses the server's time, but cannot send the content of a file a second time.
    const hasClockSkew = name === 'RequestTimeTooSkewed';
    if (remoteStatus === undefined || remoteStatus >= 500 || remoteStatus === 429 || hasClockSkew)
      throw unavailable(cause);
    const code = /^[A-Za-z]{1,64}$/.test(name ?? '') ? name : 'an error';
    throw new Failure('REMOTE_REFUSED', `the object store returned ${code}`, { remoteStatus }, { cause });
  }
}
