// The conformance suite of the places of results and files: a directory, and a bucket of a real S3 server.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { after, before, describe, test } from 'node:test';
import type { BlobStore } from '../../src/files/blobs/blob_store.ts';
import { BucketBlobs } from '../../src/files/blobs/bucket_blobs.ts';
import { DirectoryBlobs } from '../../src/files/blobs/directory_blobs.ts';
import type { ObjectStore } from '../../src/outbound/object_store.ts';
import { openTestBucket } from '../file_stores.ts';
import { type ObjectStoreServer, startObjectStore } from '../outbound/object_store_server.ts';

let root: string;
let server: ObjectStoreServer;
let bucket: ObjectStore;
const stores = new Map<string, BlobStore>();
/** Several parts of an upload to S3. */
const large = randomBytes(20 * 1024 * 1024);

before(async () => {
  root = await mkdtemp(join(tmpdir(), 'tabularium-blobs-'));
  const directory = new DirectoryBlobs(join(root, 'blobs'));
  await directory.create();
  server = await startObjectStore();
  bucket = await openTestBucket(server);
  stores.set('a directory', directory);
  stores.set('a bucket', new BucketBlobs(bucket, 'some/prefix/'));
});
after(async () => {
  bucket.close();
  await server.close();
  await rm(root, { recursive: true, force: true });
});

const durable = { durable: true };
const { signal } = new AbortController();
let files = 0;

async function made(content: string | Uint8Array): Promise<string> {
  const path = join(root, `made ${++files}`);
  await writeFile(path, content);
  return path;
}

const read = async (store: BlobStore, key: string, start: number, end: number) => {
  const opened = await store.open(key, { start, end });
  return opened && buffer(opened.stream);
};

for (const name of ['a directory', 'a bucket'])
  describe(`blobs in ${name}`, () => {
    const storeOf = () => stores.get(name) as BlobStore;

    test('a file and a text are read back: ranges, the whole, a local file', async () => {
      const store = storeOf();
      await store.put('file.rows', { path: await made(large) }, durable);
      await store.put('file.json', { text: '{"ö":1}' }, durable);
      assert.ok((await read(store, 'file.rows', 0, large.length))?.equals(large));
      for (const [start, end] of [
        // s3rver takes an end of 0 for none.
        [0, 2],
        [1_000_000, 9_000_001],
        [large.length - 1, large.length],
      ] as const)
        assert.ok(
          (await read(store, 'file.rows', start, end))?.equals(large.subarray(start, end)),
          `${start} to ${end}`,
        );
      assert.equal(await store.readText('file.json', 100), '{"ö":1}');
      const path = join(root, `fetched ${++files}`);
      assert.equal(await store.fetch('file.rows', path, signal), true);
      assert.ok((await readFile(path)).equals(large));
    });

    test('a missing blob, a missing range and an empty file', async () => {
      const store = storeOf();
      await store.put('short', { path: await made('abc') }, durable);
      assert.equal(await read(store, 'missing', 0, 1), undefined);
      assert.equal(await read(store, 'short', 0, 4), undefined);
      assert.equal(await read(store, 'short', 4, 5), undefined);
      assert.equal(await store.readText('missing', 100), undefined);
      const path = join(root, `nothing ${++files}`);
      assert.equal(await store.fetch('missing', path, signal), false);
      assert.equal(existsSync(path), false);
      await store.put('empty', { path: await made('') }, durable);
      assert.equal(await store.fetch('empty', path, signal), true);
      assert.equal((await readFile(path)).length, 0);
    });

    test('what was removed is gone for new readers only, and removing is idempotent', async () => {
      const store = storeOf();
      await store.put('removed', { path: await made(large) }, durable);
      const opened = await store.open('removed', { start: 0, end: large.length });
      assert.ok(opened);
      for (let i = 0; i < 2; i++) await store.remove('removed');
      assert.ok((await buffer(opened.stream)).equals(large));
      assert.equal(await read(store, 'removed', 0, 1), undefined);
    });

    test('the list has each blob with its time', async () => {
      const store = storeOf();
      const since = Date.now();
      await store.put('listed', { text: 'x' }, durable);
      const listed = await Array.fromAsync(store.list());
      assert.ok(listed.length > 1 && new Set(listed.map(({ key }) => key)).size === listed.length);
      const found = listed.find(({ key }) => key === 'listed');
      assert.ok(found && Math.abs(found.modifiedAtMs - since) < 60_000, JSON.stringify(found));
      await store.remove('listed');
      assert.ok(!(await Array.fromAsync(store.list())).some(({ key }) => key === 'listed'));
    });

    test('a stream that is not read to its end can be destroyed', async () => {
      const store = storeOf();
      await store.put('unread', { path: await made(large) }, durable);
      const opened = await store.open('unread', { start: 0, end: large.length });
      opened?.stream.destroy();
      assert.ok((await read(store, 'unread', 0, large.length))?.equals(large));
    });
  });

// S3 promises it of a bucket, too, but s3rver puts the parts of an upload together where readers find them.
test('in a directory, a reader finds all of a file or nothing while it is stored', async () => {
  const store = stores.get('a directory') as BlobStore;
  const path = await made(large);
  let isStored = false;
  const storing = store.put('whole', { path }, durable).then(() => {
    isStored = true;
  });
  while (!isStored) {
    const found = await read(store, 'whole', 0, 10);
    if (found) assert.ok((await read(store, 'whole', 0, large.length))?.equals(large));
    await new Promise((resolve) => setImmediate(resolve));
  }
  await storing;
  assert.ok((await read(store, 'whole', 0, large.length))?.equals(large));
});
