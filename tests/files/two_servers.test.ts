// Two servers on one metadata store in PostgreSQL with one bucket: each reads the results and files of the other.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { eventually } from '../deadline.ts';
import { type ObjectStoreServer, startObjectStore } from '../outbound/object_store_server.ts';
import { missingPostgresql, newStoreDatabase, urlOfDatabase } from '../postgresql.ts';
import { type Reply, start, type TestServer, uri } from '../server.ts';

describe('two servers with one bucket', { skip: missingPostgresql }, () => {
  let objects: ObjectStoreServer;
  let one: TestServer;
  let other: TestServer;
  before(async () => {
    objects = await startObjectStore();
    const settings = {
      store: urlOfDatabase(await newStoreDatabase()),
      pageBytesMax: 64 * 1024,
      fileStore: `s3://${objects.bucket}`,
      fileStoreEndpoint: objects.endpoint,
      fileStoreAccessKeyId: objects.accessKeyId,
      fileStoreSecretAccessKey: objects.secretAccessKey,
    };
    one = await start(settings);
    other = await start({ ...settings, secretKeyFile: join(one.dataDirectory, 'secret.key') });
  });
  after(async () => {
    await other?.close();
    await one?.close();
    await objects?.close();
  });

  const rowCount = 3000;
  const rows = `SELECT i, repeat('x', 100) AS t FROM range(${rowCount}) AS r(i)`;
  const download = async (link: string, server: TestServer) => {
    const response = await fetch(new URL(link, server.url));
    assert.equal(response.status, 200);
    return Buffer.from(await response.arrayBuffer());
  };
  const taskOn = (server: TestServer, path: string): Promise<Reply> =>
    eventually('the task is on the other server', async () => {
      const task = await server.get(path);
      return task.status === 200 && task.at('state') === 'succeeded' && task;
    });

  test('a result is read page by page from the other server, and deleted there', async () => {
    await one.client.databases.create({ name: 'shop' });
    const first = (await one.query('shop', rows)).is(200);
    const uriOfTask = first.at<string>('nextPage').replace(/\/pages\/.*/, '');
    const task = await taskOn(other, uriOfTask);
    const read: unknown[] = [];
    for (let next = task.at<string | undefined>('firstPage'); next !== undefined; ) {
      const page = (await other.get(next)).is(200);
      read.push(...page.at<unknown[][]>('rows').map(([i]) => i));
      next = page.at('nextPage');
    }
    assert.ok(task.at<number>('result', 'pageCount') > 3);
    assert.deepEqual(
      read,
      Array.from({ length: rowCount }, (_, i) => i),
    );
    (await other.delete(uriOfTask)).is(200, '0', { deleted: true });
    (await one.get(`${uriOfTask}/pages/0`)).is(404, 'OBJECT_NOT_FOUND');
  });

  test('an upload and an export are downloaded from the other server', async () => {
    const bytes = randomBytes(300_000);
    const upload = (await one.post('/api/v2/uploads', {})).is(201).result as { uploadId: string; link: string };
    const sent = await one.send('PUT', upload.link, { body: bytes, headers: { authorization: undefined } });
    assert.equal(sent.status, 200, sent.text);
    const { link } = (await other.get(uri`/uploads/${upload.uploadId}`)).is(200, '0', { state: 'ready' }).result;
    assert.ok((await download(String(link), other)).equals(bytes));
    (await other.delete(uri`/uploads/${upload.uploadId}`)).is(200, '0', { deleted: true });
    (await one.get(uri`/uploads/${upload.uploadId}`)).is(404, 'OBJECT_NOT_FOUND');

    const body = { sql: rows, format: 'csv' };
    const submitted = (await one.post('/api/v2/catalogs/default/export', body)).is(202);
    await one.ended(submitted);
    const exported = await taskOn(other, submitted.at('uri'));
    const csv = await download(exported.at('result', 'files', 0, 'link'), other);
    assert.equal(csv.toString().trim().split('\n').length, rowCount + 1);
  });
});
