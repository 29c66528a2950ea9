// The file stores that suites run on. A suite gets its file store with `fileStoreOf(import.meta.url)`; it runs on the data directory, and
// on an S3 server when it is imported with that in its URL (`suitesOnS3`).
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, describe } from 'node:test';
import { BlobPlaces } from '../src/files/blobs/blob_places.ts';
import { BucketBlobs } from '../src/files/blobs/bucket_blobs.ts';
import { DirectoryBlobs } from '../src/files/blobs/directory_blobs.ts';
import { HostAllowlist } from '../src/outbound/host_allowlist.ts';
import { type ObjectStore, openObjectStore } from '../src/outbound/object_store.ts';
import type { Settings } from '../src/settings/read_settings.ts';
import { storeFileName } from '../src/store/sqlite/sqlite_store.ts';
import { type ObjectStoreServer, startObjectStore } from './outbound/object_store_server.ts';

export interface FileStoreKind {
  readonly isBucket: boolean;
  /** For servers in this process. */
  settings(): Promise<Partial<Settings>>;
  /** For servers in processes of their own, which also inherit the credentials. */
  flags(): Promise<readonly string[]>;
  /** For parts of a server. */
  places(directory: string): Promise<BlobPlaces>;
  /** The keys of what is stored for a server on this data directory, in order. */
  stored(dataDirectory: string, name: 'files' | 'results'): Promise<string[]>;
}

const namesIn = async (path: string): Promise<string[]> => (await readdir(path).catch(() => [])).sort();

function directoryIn(path: string): DirectoryBlobs {
  mkdirSync(path, { recursive: true });
  return new DirectoryBlobs(path);
}

const directory: FileStoreKind = {
  isBucket: false,
  settings: async () => ({}),
  flags: async () => [],
  places: async (path) => new BlobPlaces(directoryIn(path), undefined),
  stored: (dataDirectory, name) => namesIn(join(dataDirectory, name)),
};

/** One S3 server for all suites of a test file. */
let running: Promise<ObjectStoreServer> | undefined;

async function bucketSettings() {
  running ??= startObjectStore();
  const { endpoint, bucket, accessKeyId, secretAccessKey } = await running;
  return {
    fileStore: `s3://${bucket}/shop`,
    fileStoreEndpoint: endpoint,
    fileStoreAccessKeyId: accessKeyId,
    fileStoreSecretAccessKey: secretAccessKey,
  };
}

/** The caller must close it. */
export async function openTestBucket(server: ObjectStoreServer): Promise<ObjectStore> {
  const { endpoint, bucket } = server;
  return openObjectStore(
    { endpoint, bucket, region: 'us-east-1', pathStyle: true },
    server,
    new HostAllowlist(['127.0.0.1']),
  );
}

/** Read from a copy, because a running server has its store locked. */
function fileStoreId(dataDirectory: string): string {
  const copied = mkdtempSync(join(tmpdir(), 'tabularium-store-'));
  try {
    for (const end of ['', '-wal'])
      if (existsSync(join(dataDirectory, storeFileName + end)))
        copyFileSync(join(dataDirectory, storeFileName + end), join(copied, storeFileName + end));
    const metadata = new DatabaseSync(join(copied, storeFileName));
    const row = metadata.prepare("SELECT value FROM settings WHERE key = 'file_store_id'").get();
    metadata.close();
    return String(row?.value);
  } finally {
    rmSync(copied, { recursive: true });
  }
}

const s3: FileStoreKind = {
  isBucket: true,
  settings: bucketSettings,
  async flags() {
    const { fileStore, fileStoreEndpoint, fileStoreAccessKeyId, fileStoreSecretAccessKey } = await bucketSettings();
    process.env.TABULARIUM_FILE_STORE_ACCESS_KEY_ID = fileStoreAccessKeyId;
    process.env.TABULARIUM_FILE_STORE_SECRET_ACCESS_KEY = fileStoreSecretAccessKey;
    return [`--file-store=${fileStore}`, `--file-store-endpoint=${fileStoreEndpoint}`];
  },
  async places(path) {
    running ??= startObjectStore();
    return new BlobPlaces(directoryIn(path), new BucketBlobs(await openTestBucket(await running), `${randomUUID()}/`));
  },
  async stored(dataDirectory, name) {
    const id = fileStoreId(dataDirectory);
    assert(running, 'the server uses the bucket');
    const bucket = await openTestBucket(await running);
    try {
      const prefix = `shop/${id}/${name}/`;
      const inBucket = (await Array.fromAsync(bucket.list(prefix))).map(({ key }) => key.slice(prefix.length));
      // Only what is received or computed is in the data directory.
      return [...inBucket, ...(await namesIn(join(dataDirectory, name)))];
    } finally {
      bucket.close();
    }
  },
};

export const fileStoreOf = (url: string): FileStoreKind =>
  new URL(url).searchParams.get('files') === 's3' ? s3 : directory;

/** Runs test files with an S3 bucket as the file store, one after the other. Call it once in a file. */
export function suitesOnS3(urls: readonly URL[]): void {
  after(async () => {
    await (await running)?.close();
    running = undefined;
  });
  for (const url of urls)
    describe(`${basename(url.pathname)} on S3`, async () => void (await import(`${url.href}?files=s3`)));
}
