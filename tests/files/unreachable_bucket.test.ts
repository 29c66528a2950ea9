// A bucket that refuses, is gone or says nothing: every call ends, the caller gets 503, and nothing about the object store leaks; what was
// under way continues when it is back, also after a kill between two steps.
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { after, afterEach, before, test } from 'node:test';
import { orphanAgeMs } from '../../src/files/blobs/blob_places.ts';
import type { BlobStore } from '../../src/files/blobs/blob_store.ts';
import { BucketBlobs } from '../../src/files/blobs/bucket_blobs.ts';
import { HostAllowlist } from '../../src/outbound/host_allowlist.ts';
import { openObjectStore } from '../../src/outbound/object_store.ts';
import type { Services } from '../../src/resources/records/handler_context.ts';
import type { Settings } from '../../src/settings/read_settings.ts';
import { Failure } from '../../src/standard/failure.ts';
import { type ObjectStoreProxy, startObjectStoreProxy } from '../outbound/object_store_proxy.ts';
import { type ObjectStoreServer, startObjectStore } from '../outbound/object_store_server.ts';
import { endOfTask, type Reply, type ServerProcess, start, startProcess, type TestServer, uri } from '../server.ts';

let objects: ObjectStoreServer;
let proxy: ObjectStoreProxy;
let directory: string;
const secret = 'S3RVER';

before(async () => {
  objects = await startObjectStore();
  proxy = await startObjectStoreProxy(objects.endpoint);
  directory = await mkdtemp(join(tmpdir(), 'tabularium-bucket-'));
});
afterEach(() => {
  proxy.mode = 'open';
  proxy.onAnswered = undefined;
});
after(async () => {
  await proxy.close();
  await objects.close();
  await rm(directory, { recursive: true });
});

const fileStore = (): Partial<Settings> => ({
  fileStore: `s3://${objects.bucket}/warehouse`,
  fileStoreEndpoint: proxy.endpoint,
  fileStoreAccessKeyId: objects.accessKeyId,
  fileStoreSecretAccessKey: objects.secretAccessKey,
});

async function blobsWith(changes: { bucket?: string; accessKeyId?: string; idleMs?: number; answerMs?: number }) {
  const { bucket = objects.bucket, accessKeyId = objects.accessKeyId, ...deadlines } = changes;
  const location = { endpoint: proxy.endpoint, region: 'us-east-1', bucket, pathStyle: true };
  const store = await openObjectStore(location, { ...objects, accessKeyId }, new HostAllowlist(['127.0.0.1']));
  const blobs: BlobStore = new BucketBlobs(store, 'p/', deadlines);
  return { blobs, close: () => store.close() };
}

/** Says nothing about the object store, of which its cause tells the log. */
function unavailable(error: unknown): boolean {
  assert.ok(error instanceof Failure, String(error));
  assert.equal(error.code, 'REMOTE_UNAVAILABLE');
  assert.doesNotMatch(JSON.stringify([error.message, error.result]), /127\.0\.0\.1|S3RVER|NoSuch|Denied/);
  return true;
}

async function everyCallFails(blobs: BlobStore): Promise<void> {
  const path = join(directory, 'content');
  await writeFile(path, 'abc');
  const { signal } = new AbortController();
  await assert.rejects(blobs.put('k', { path }, { durable: true }), unavailable);
  await assert.rejects(blobs.put('k', { text: 'abc' }, { durable: true }), unavailable);
  await assert.rejects(blobs.open('k', { start: 0, end: 3 }), unavailable);
  await assert.rejects(blobs.readText('k', 100), unavailable);
  await assert.rejects(blobs.fetch('k', join(directory, 'fetched'), signal), unavailable);
  await assert.rejects(blobs.remove('k'), unavailable);
  await assert.rejects(Array.fromAsync(blobs.list()), unavailable);
}

test('every call on a missing bucket, with wrong credentials, without a server and without an answer', async () => {
  for (const changes of [{ bucket: 'other' }, { accessKeyId: 'nobody' }]) {
    const { blobs, close } = await blobsWith(changes);
    await everyCallFails(blobs);
    close();
  }
  for (const mode of ['cut', 'silent'] as const) {
    const { blobs, close } = await blobsWith({ answerMs: 200 });
    proxy.mode = mode;
    await everyCallFails(blobs);
    proxy.mode = 'open';
    close();
  }
});

test('a stream that stops before its end fails', async () => {
  const { blobs, close } = await blobsWith({ idleMs: 100 });
  const path = join(directory, 'content');
  const content = randomBytes(12 * 1024 * 1024);
  await writeFile(path, content);
  await blobs.put('large', { path }, { durable: true });
  const opened = await blobs.open('large', { start: 0, end: content.length });
  proxy.mode = 'silent';
  assert.ok(opened);
  await assert.rejects(buffer(opened.stream), /sent nothing/);
  close();
});

const database = '/api/v2/databases/d';
const query = async (server: TestServer, sql: string) =>
  (await server.post(`${database}/query`, { sql, waitSeconds: 0 })).is(202);
const pagesSql = `SELECT i, repeat('x', 100) AS t FROM range(3000) AS r(i)`;
const digest = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');

async function put(server: TestServer, link: string, body: Uint8Array, headers: Record<string, string> = {}) {
  const reply = await server.send('PUT', link, { body, headers: { authorization: undefined, ...headers } });
  return { status: reply.status, ...(JSON.parse(reply.text) as { code: string; result: Record<string, unknown> }) };
}

/** All rows of a stored result. */
async function rowsOf(server: TestServer, task: Reply): Promise<unknown[]> {
  const rows: unknown[] = [];
  for (let next = task.at<string | undefined>('firstPage'); next !== undefined; ) {
    const page = (await server.get(next)).is(200);
    rows.push(...page.at<unknown[][]>('rows').map(([i]) => i));
    next = page.at('nextPage');
  }
  return rows;
}

test('pages, downloads and uploads respond with 503 while the bucket is gone, deletions succeed, and all continues afterwards', async () => {
  let services: Services | undefined;
  const assembled = (made: Services) => {
    services = made;
  };
  const server = await start({ ...fileStore(), pageBytesMax: 64 * 1024, logLevel: 'silent' }, { assembled });
  try {
    await server.client.databases.create({ name: 'd' });
    const task = (await server.ended(await query(server, pagesSql))).is(200, '0', { state: 'succeeded' });
    const other = (await server.ended(await query(server, pagesSql))).is(200, '0', { state: 'succeeded' });
    const upload = (await server.post('/api/v2/uploads', {})).is(201).result as { uploadId: string; link: string };
    const complete = (await server.post('/api/v2/uploads', {})).is(201).result as { uploadId: string; link: string };
    const bytes = randomBytes(100_000);
    assert.equal((await put(server, complete.link, bytes)).status, 200);
    const { link } = (await server.get(uri`/uploads/${complete.uploadId}`)).is(200).result as { link: string };

    proxy.mode = 'cut';
    const { text } = (await server.get(task.at('firstPage'))).is(503, 'REMOTE_UNAVAILABLE');
    const refused = await server.send('GET', link, { headers: { authorization: undefined } });
    assert.equal(refused.status, 503, refused.text);
    const sent = await put(server, upload.link, bytes);
    assert.deepEqual([sent.status, sent.code], [503, 'REMOTE_UNAVAILABLE']);
    for (const shown of [text, refused.text, JSON.stringify(sent)])
      assert.doesNotMatch(shown, new RegExp(`127\\.0\\.0\\.1|${secret}|${objects.bucket}/warehouse`));
    (await server.get(uri`/uploads/${upload.uploadId}`)).is(200, '0', {
      state: 'receiving',
      receivedBytes: bytes.length,
    });
    (await server.delete(other.at('uri'))).is(200, '0', { deleted: true });

    proxy.mode = 'open';
    const rest = await put(server, upload.link, Buffer.alloc(0), { 'content-range': `bytes */${bytes.length}` });
    assert.deepEqual([rest.status, rest.result.state, rest.result.sha256], [200, 'ready', digest(bytes)]);
    assert.deepEqual(
      await rowsOf(server, task),
      Array.from({ length: 3000 }, (_, i) => i),
    );
    const removed = async () => {
      await services?.submitter.sweepBucket(Date.now() + orphanAgeMs + 60_000);
      return keysOf(other.at('taskId'));
    };
    assert.notDeepEqual(await keysOf(other.at('taskId')), []);
    assert.deepEqual(await removed(), []);
    assert.deepEqual(
      await rowsOf(server, task),
      Array.from({ length: 3000 }, (_, i) => i),
    );
  } finally {
    await server.close();
  }
});

/** The keys in the bucket that contain an id. */
async function keysOf(id: string): Promise<string[]> {
  const location = { endpoint: objects.endpoint, region: 'us-east-1', bucket: objects.bucket, pathStyle: true };
  const store = await openObjectStore(location, objects, new HostAllowlist(['127.0.0.1']));
  try {
    return (await Array.fromAsync(store.list(''))).map(({ key }) => key).filter((key) => key.includes(id));
  } finally {
    store.close();
  }
}

test('a server that is killed after content is in the bucket and before it is recorded continues', async () => {
  const settings = fileStore();
  process.env.TABULARIUM_FILE_STORE_ACCESS_KEY_ID = objects.accessKeyId;
  process.env.TABULARIUM_FILE_STORE_SECRET_ACCESS_KEY = objects.secretAccessKey;
  const flags = [
    `--file-store=${settings.fileStore}`,
    `--file-store-endpoint=${settings.fileStoreEndpoint}`,
    '--page-bytes-max=65536',
  ];
  const dataDir = join(directory, 'killed');
  let server: ServerProcess = await startProcess(flags, dataDir);
  const killAfterPut = () => {
    proxy.onAnswered = { method: 'PUT', act: () => server.child.kill('SIGKILL') };
  };
  try {
    await server.client.databases.create({ name: 'd' });
    const upload = (await server.post('/api/v2/uploads', {})).is(201).result as { uploadId: string; link: string };
    const bytes = randomBytes(100_000);
    killAfterPut();
    await assert.rejects(put(server, upload.link, bytes));
    await server.exited;
    assert.equal((await keysOf(upload.uploadId)).length, 1);
    server = await startProcess(flags, dataDir);
    const record = (await server.get(uri`/uploads/${upload.uploadId}`)).is(200, '0', { state: 'receiving' });
    assert.equal(record.at('receivedBytes'), bytes.length);
    const all = { 'content-range': `bytes */${bytes.length}` };
    assert.equal((await put(server, record.at('link'), Buffer.alloc(0), all)).result.sha256, digest(bytes));
    const { link } = (await server.get(uri`/uploads/${upload.uploadId}`)).is(200).result as { link: string };
    const downloaded = await fetch(new URL(link, server.url));
    assert.ok(Buffer.from(await downloaded.arrayBuffer()).equals(bytes));

    killAfterPut();
    const submitted = await query(server, pagesSql);
    await server.exited;
    server = await startProcess(flags, dataDir);
    const task = (await endOfTask(server, submitted.at('uri'))).is(200, '0', { state: 'succeeded', attempt: 2 });
    assert.deepEqual(
      await rowsOf(server, task),
      Array.from({ length: 3000 }, (_, i) => i),
    );
    (await server.delete(task.at('uri'))).is(200, '0', { deleted: true });
  } finally {
    await server.close();
  }
});

test('a server does not start with a bucket that refuses it, and the message has no secret', async () => {
  const refuse = (changes: Partial<Settings>, expected: RegExp) =>
    assert.rejects(start({ ...fileStore(), ...changes }), (error: Error) => {
      assert.match(error.message, expected);
      assert.doesNotMatch(error.message, /wrong secret|nobody|S3RVER/);
      return true;
    });
  await refuse({ fileStore: '/var/files' }, /fileStore must be s3:/);
  await refuse({ fileStoreEndpoint: 'ftp://here' }, /fileStoreEndpoint must be/);
  await refuse({ fileStoreSecretAccessKey: '' }, /TABULARIUM_FILE_STORE_SECRET_ACCESS_KEY/);
  await refuse({ fileStore: 's3://missing' }, /cannot be used: the object store returned NoSuchBucket/);
  await refuse(
    { fileStoreAccessKeyId: 'nobody', fileStoreSecretAccessKey: 'wrong secret' },
    /cannot be used: the object store returned InvalidAccessKeyId/,
  );
});

test('what is in the data directory stays there when a bucket is set', async () => {
  const dataDir = join(directory, 'moved');
  let server = await start({ dataDir, pageBytesMax: 64 * 1024 });
  await server.client.databases.create({ name: 'd' });
  const task = (await server.ended(await query(server, pagesSql))).is(200, '0', { state: 'succeeded' });
  await server.close();
  server = await start({ ...fileStore(), dataDir, pageBytesMax: 64 * 1024 });
  try {
    assert.deepEqual(
      await rowsOf(server, task),
      Array.from({ length: 3000 }, (_, i) => i),
    );
    (await server.delete(task.at('uri'))).is(200, '0', { deleted: true });
    assert.deepEqual(await readdir(join(dataDir, 'results')), []);
  } finally {
    await server.close();
  }
});
