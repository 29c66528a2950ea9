// The file store alone, with a controlled clock: expiry, removal, adoption, and links that expire.
import assert from 'node:assert/strict';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, test } from 'node:test';
import { noTrail } from '../../src/access/audit/audit_log.ts';
import { type BlobPlaces, idOfKey, orphanAgeMs } from '../../src/files/blobs/blob_places.ts';
import { FileStore } from '../../src/files/file_store.ts';
import type { Store } from '../../src/store/store.ts';
import { fileStoreOf } from '../file_stores.ts';
import { storesOf } from '../stores.ts';

const dayMs = 86_400_000;
let root: string;
let store: Store;
let blobs: BlobPlaces;
let files: FileStore;
let now: number;
const activeOwners = new Set(['ann', 'ben']);

beforeEach(async () => {
  now = 1_800_000_000_000;
  root = await mkdtemp(join(tmpdir(), 'tabularium-files-'));
  ({ store } = await storesOf(import.meta.url).open());
  blobs = await fileStoreOf(import.meta.url).places(join(root, 'files'));
  files = new FileStore({
    store,
    blobs,
    linkKey: Buffer.alloc(32, 7),
    limits: { principalFileBytesMax: 1000, uploadBytesMax: 1000 },
    trail: noTrail,
    isLinkAllowed: ({ owner }) => activeOwners.has(owner),
    clock: () => now,
  });
  await files.start();
});
afterEach(async () => {
  await store.close();
  await rm(root, { recursive: true, force: true });
});

const newStore = (more: object = {}) =>
  files.create({ kind: 'upload', owner: 'ann', name: 'a.csv', expiresInMs: dayMs, ...more });
const create = async (more: object = {}) => (await newStore(more)).file;
const content = async function* (...texts: string[]) {
  for (const text of texts) yield Buffer.from(text);
};
/** Whose content is stored, wherever it is. */
const stored = async () => {
  const inBucket = blobs.bucket ? (await Array.fromAsync(blobs.bucket.list())).map(({ key }) => idOfKey(key)) : [];
  return [...inBucket, ...(await readdir(join(root, 'files')))].sort();
};
const contentOf = async (fileId: string) => {
  const file = await files.find(fileId);
  assert(file, fileId);
  return text((await files.open(file, { start: 0, end: file.bytes ?? 0 })).stream);
};
/** The dates of objects are those of the bucket, whatever the clock of the store is. */
const sweepBucketIn = async (ms: number) => {
  const before = now;
  now = Date.now() + ms;
  const removed = await files.sweepBucket();
  now = before;
  return removed;
};
const queryOf = (link: string) => new URL(link, 'http://here').searchParams;

test('with a given id, an existing file is returned, and an expired one is replaced with its bytes', async () => {
  const fileId = '0f4b2d9e-7c1e-4d3a-9c55-0f6c1a2b3c4d';
  const [first, second] = await Promise.all([
    newStore({ fileId, name: 'first' }),
    newStore({ fileId, name: 'second' }),
  ]);
  assert.deepEqual([first.created, second.created].sort(), [false, true]);
  assert.deepEqual(second.file, first.file);
  await files.append(fileId, content('abc'), { offset: 0 });
  now += dayMs;
  const { created, file } = await newStore({ fileId, name: 'third' });
  assert.deepEqual([created, file.name, file.state, file.receivedBytes], [true, 'third', 'receiving', 0]);
  assert.deepEqual(await stored(), []);
  assert.equal(await files.sweep(), 0);
});

test('an id is not reused while bytes of its former file are still being written', async () => {
  const { fileId } = await create();
  const { promise: rest, resolve: send } = Promise.withResolvers<void>();
  const { promise: started, resolve: begin } = Promise.withResolvers<void>();
  const appending = files.append(
    fileId,
    (async function* () {
      yield Buffer.from('a');
      begin();
      await rest;
      yield Buffer.from('b');
    })(),
    { offset: 0 },
  );
  // It has found the upload.
  await started;
  assert.equal(await files.remove(fileId), true);
  await assert.rejects(newStore({ fileId }), { code: 'CHANGE_IN_PROGRESS' });
  send();
  await assert.rejects(appending, { code: 'OBJECT_NOT_FOUND' });
  assert.equal((await newStore({ fileId })).created, true);
  assert.deepEqual(await stored(), []);
});

test('expired files are not found, and are removed with their bytes', async () => {
  const expiring = await create({ expiresInMs: 1000 });
  const long = await create();
  for (const { fileId } of [expiring, long]) await files.append(fileId, content('ab', 'c'), { offset: 0 });
  now += 1000;
  assert.equal(await files.find(expiring.fileId), undefined);
  assert.deepEqual(
    (await files.list({ kind: 'upload', limit: 10 })).items.map(({ fileId }) => fileId),
    [long.fileId],
  );
  await assert.rejects(files.append(expiring.fileId, content('x'), { offset: 0 }), { code: 'OBJECT_NOT_FOUND' });
  await writeFile(join(root, 'files', 'nobody knows'), 'x');
  assert.equal(await files.sweep(), 2);
  await sweepBucketIn(orphanAgeMs + 60_000);
  assert.deepEqual(await stored(), [long.fileId]);
  assert.equal(await files.sweep(), 0);
});

test('what is in a bucket without a row is removed a day later, since another server may be about to add the row', async () => {
  const { fileId } = await create();
  await files.append(fileId, content('abc'), { offset: 0 });
  const [path, orphan] = [join(root, 'made'), '00000000-0000-7000-8000-000000000000'];
  await writeFile(path, 'left by a kill');
  await blobs.bucket?.put(`${orphan}/1`, { path }, { durable: true });
  await blobs.bucket?.put(`${fileId}/1`, { path }, { durable: true });
  assert.equal(await sweepBucketIn(orphanAgeMs - 60_000), 0);
  assert.equal((await stored()).length, blobs.bucket ? 3 : 1);
  assert.equal(await sweepBucketIn(orphanAgeMs + 60_000), blobs.bucket ? 2 : 0);
  assert.deepEqual(await stored(), [fileId]);
  assert.equal(await contentOf(fileId), 'abc');
});

test('a link lasts an hour, and no longer than its file', async () => {
  const file = await create();
  const { fileId } = file;
  const query = queryOf(files.link(file, 'write'));
  now += 3_599_000;
  assert.equal((await files.resolveLink(fileId, 'write', query)).fileId, fileId);
  await assert.rejects(files.resolveLink(fileId, 'read', query), { code: 'FORBIDDEN' });
  now += 1000;
  await assert.rejects(files.resolveLink(fileId, 'write', query), { code: 'FORBIDDEN' });
  const expiring = await create({ expiresInMs: 10_000 });
  assert.equal(queryOf(files.link(expiring, 'read')).get('expires'), String((now + 10_000) / 1000));
  const abandonedUpload = await create({ owner: 'carl' });
  await assert.rejects(
    files.resolveLink(abandonedUpload.fileId, 'read', queryOf(files.link(abandonedUpload, 'read'))),
    {
      code: 'FORBIDDEN',
    },
  );
});

test('a finished file is moved in, and repeating that returns the same file', async () => {
  const path = join(root, 'made');
  const requested = { fileId: 'chosen', kind: 'export', owner: 'ben', name: 'r.ndjson', expiresInMs: dayMs } as const;
  await writeFile(path, '{"a":1}\n');
  const file = await files.adopt(path, requested);
  assert.deepEqual([file.state, file.bytes, file.fileId], ['ready', 8, 'chosen']);
  assert.equal(await contentOf('chosen'), '{"a":1}\n');
  await writeFile(path, '{"a":1}\n');
  assert.deepEqual(await files.adopt(path, requested), file);
  await assert.rejects(readFile(path), { code: 'ENOENT' });
  await writeFile(path, 'x'.repeat(1000));
  await assert.rejects(files.adopt(path, { ...requested, fileId: 'large' }), { code: 'FILE_QUOTA_EXCEEDED' });
  assert.deepEqual(await stored(), ['chosen']);
});

test('an interrupted part is retained, and the digest covers the whole file even if another process continues', async () => {
  const { fileId } = await create();
  const failingContent = async function* () {
    yield Buffer.from('abc');
    throw new Error('gone');
  };
  await assert.rejects(files.append(fileId, failingContent(), { offset: 0 }), { message: 'gone' });
  assert.equal((await files.find(fileId))?.receivedBytes, 3);
  // Bytes beyond those recorded in the store are not part of it.
  await writeFile(join(root, 'files', fileId), 'abcXYZ');
  const reopened = new FileStore({
    store,
    blobs,
    linkKey: Buffer.alloc(32, 7),
    limits: { principalFileBytesMax: 1000, uploadBytesMax: 1000 },
    trail: noTrail,
    isLinkAllowed: () => true,
    clock: () => now,
  });
  const appended = await reopened.append(fileId, content('de'), { offset: 3, end: 5, total: 5 });
  assert.equal(await contentOf(fileId), 'abcde');
  assert.equal(appended.sha256, '36bbe50ed96841d10443bcb670d6554f0a34b761be67ec9c4a8ad2c0c44ca42c');
});

test('an upload that is deleted during its transfer leaves nothing', async () => {
  const { fileId } = await create();
  const { promise, resolve } = Promise.withResolvers<void>();
  const slowContent = async function* () {
    yield Buffer.from('abc');
    await promise;
    yield Buffer.from('def');
  };
  const upload = files.append(fileId, slowContent(), { offset: 0 });
  await new Promise((r) => setTimeout(r, 20));
  assert.equal(await files.remove(fileId), true);
  resolve();
  await assert.rejects(upload, { code: 'OBJECT_NOT_FOUND' });
  assert.deepEqual(await stored(), []);
  assert.equal(await files.remove(fileId), false);
});
