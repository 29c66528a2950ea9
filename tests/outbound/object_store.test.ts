// Files on an S3-compatible server: small and in parts, listed, removed, refused, unreachable.
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { after, before, test } from 'node:test';
import { HostAllowlist } from '../../src/outbound/host_allowlist.ts';
import { type ObjectStore, type ObjectStoreLocation, openObjectStore } from '../../src/outbound/object_store.ts';
import { Failure } from '../../src/standard/failure.ts';
import { type ObjectStoreServer, startObjectStore } from './object_store_server.ts';

let server: ObjectStoreServer;
let location: ObjectStoreLocation;
let store: ObjectStore;
let directory: string;
const rules = new HostAllowlist(['127.0.0.1']);

before(async () => {
  server = await startObjectStore();
  location = { endpoint: server.endpoint, region: 'us-east-1', bucket: server.bucket, pathStyle: true };
  store = await openObjectStore(location, server, rules);
  directory = await mkdtemp(join(tmpdir(), 'tabularium-outbound-'));
});
after(async () => {
  store.close();
  await server.close();
  await rm(directory, { recursive: true });
});

async function digestOf(body: Readable): Promise<string> {
  const hash = createHash('sha256');
  for await (const piece of body) hash.update(piece as Buffer);
  return hash.digest('hex');
}

const code = (expectedCode: string) => (error: unknown) => {
  assert.ok(error instanceof Failure, String(error));
  assert.equal(error.code, expectedCode, error.message);
  assert.doesNotMatch(error.message, /127\.0\.0\.1|S3RVER/);
  return true;
};

test('written content is read back: empty, small and in parts', async () => {
  for (const size of [0, 1, 100_000, 40 * 1024 * 1024 + 1]) {
    const bytes = randomBytes(size);
    const path = join(directory, 'file');
    await writeFile(path, bytes);
    await store.writeFile(`a b/ö/${size}`, path);
    const { bytes: length, body } = await store.read(`a b/ö/${size}`);
    assert.equal(length, size);
    assert.equal(await digestOf(body), createHash('sha256').update(bytes).digest('hex'), `${size} bytes`);
  }
});

test('nothing is written or deleted that is not confirmed', async () => {
  const refused = async () => {
    throw new Failure('CHANGE_IN_PROGRESS', 'another one has it');
  };
  await store.writeSmall('kept/0', 'as it was');
  for (const size of [10, 20 * 1024 * 1024]) {
    const path = join(directory, 'refused');
    await writeFile(path, randomBytes(size));
    await assert.rejects(store.writeFile('kept/0', path, undefined, refused), code('CHANGE_IN_PROGRESS'));
  }
  await assert.rejects(store.clear('kept/', { confirm: refused }), code('CHANGE_IN_PROGRESS'));
  assert.equal((await store.readSmall('kept/0', 100)).toString(), 'as it was');
});

test('small objects, lists, and deletion', async () => {
  // At most one page: s3rver fails to create a token for the next one on this Node.js.
  const keys = Array.from({ length: 300 }, (_, i) => `many/${String(i).padStart(4, '0')}`);
  for (let i = 0; i < keys.length; i += 50)
    await Promise.all(keys.slice(i, i + 50).map((key) => store.writeSmall(key, key)));
  const before = Date.now();
  const listed = await Array.fromAsync(store.list('many/'));
  assert.deepEqual(
    listed.map(({ key, bytes }) => ({ key, bytes })),
    keys.map((key) => ({ key, bytes: key.length })),
  );
  assert.ok(listed.every(({ modifiedAtMs }) => Math.abs(before - modifiedAtMs) < 60_000));
  assert.equal((await store.readRange('many/0042', { start: 5, end: 8 })).toString(), '004');
  assert.equal((await store.readSmall('many/0042', 100)).toString(), 'many/0042');
  await assert.rejects(store.readSmall('many/0042', 3), code('REMOTE_REFUSED'));
  await store.remove('many/0042');
  await assert.rejects(store.read('many/0042'), code('REMOTE_REFUSED'));
});

test('wrong keys, a missing bucket, a missing server, a host that is not allowed', async () => {
  const openStore = (changes: Partial<ObjectStoreLocation>, accessKeyId = server.accessKeyId) =>
    openObjectStore({ ...location, ...changes }, { ...server, accessKeyId }, rules);
  const wrong = await openStore({}, 'nobody');
  await assert.rejects(wrong.writeSmall('k', 'v'), code('REMOTE_REFUSED'));
  const missingBucket = await openStore({ bucket: 'other' });
  await assert.rejects(missingBucket.read('k'), code('REMOTE_REFUSED'));
  const unreachableStore = await openStore({ endpoint: 'http://127.0.0.1:1' });
  await assert.rejects(unreachableStore.read('k'), code('REMOTE_UNAVAILABLE'));
  await assert.rejects(openObjectStore(location, server, new HostAllowlist(['*'])), (error: unknown) => {
    assert.equal((error as Failure).code, 'HOST_NOT_ALLOWED');
    return true;
  });
});

test('an interrupted upload leaves no object', async () => {
  const path = join(directory, 'file');
  await writeFile(path, randomBytes(40 * 1024 * 1024));
  const aborted = new AbortController();
  const writing = store.writeFile('broken', path, aborted.signal);
  setTimeout(() => aborted.abort(), 50);
  await assert.rejects(writing);
  await assert.rejects(store.read('broken'), code('REMOTE_REFUSED'));
});
