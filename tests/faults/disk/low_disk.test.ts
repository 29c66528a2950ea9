// An almost full disk: writes are refused before anything fails, reads, deletes and purges are served even without a free byte; and
// operators are informed.
import assert from 'node:assert/strict';
import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { deadlineMs, eventually } from '../../deadline.ts';
import { uri } from '../../server.ts';
import { SmallDisk } from './small_disk.ts';

const skip = process.platform !== 'linux' && 'mount namespaces are Linux’s';
/** The mark is 5 % of the disk: 3 MiB. The reserve is a quarter of that. */
const diskMegabytes = 60;
const belowMark = 2_000_000;

let disk: SmallDisk;
const path = uri`/databases/${'d'}`;
const reserve = () => join(disk.directory, 'disk.reserve');
const readinessText = async () => (await disk.server.send('GET', '/readyz')).text;

before(async () => {
  if (skip) return;
  disk = await SmallDisk.start(diskMegabytes, []);
  (await disk.server.put(path)).is(201);
  const columns = [{ name: 'i', type: 'BIGINT' }];
  for (const name of ['t', 'u', 'v']) (await disk.server.post(`${path}/tables`, { name, columns })).is(201);
  (await disk.server.query('d', 'INSERT INTO t SELECT range FROM range(1000)')).is(200);
});
after(() => disk?.server.close());

const served = async () => {
  assert.deepEqual(await disk.server.rows('d', 'SELECT count(*), sum(i) FROM t'), [[1000, 499500]]);
  (await disk.server.get(`${path}/tables/t`)).is(200);
  (await disk.server.get(path)).is(200);
};

test('an upload that fills the disk leaves room for its deletion, and one below the mark is refused', {
  skip,
  timeout: deadlineMs(60_000),
}, async () => {
  const { server } = disk;
  const upload = (await server.post('/api/v2/uploads', { name: 'rows.csv' })).is(201);
  const send = (at: number, bytes: number) =>
    server.send('PUT', upload.at('link'), {
      body: 'x'.repeat(bytes),
      headers: { 'content-type': undefined, 'content-range': `bytes ${at}-${at + bytes - 1}/*` },
    });
  // A part is larger than the mark, so that the disk is full before it is noticed.
  const partBytes = 16_000_000;
  let at = 0;
  for (; at < diskMegabytes * 1_000_000; at += partBytes) {
    const sent = await send(at, partBytes);
    if (sent.status === 200) continue;
    assert.match(sent.text, /"STORAGE_FULL"/);
    break;
  }
  assert.ok(disk.freeBytes > 0, 'the bytes of the failed part are given back');
  assert.equal((await server.get(upload.at('uri'))).at('receivedBytes'), at);
  await disk.fillLeaving(belowMark);
  await eventually('the mark is noticed', async () => /low on disk space/.test(await readinessText()));
  assert.match((await send(at, 1000)).text, /"STORAGE_FULL".*"notApplied"/);
  (await server.delete(upload.at('uri'))).is(200);
  await disk.free();
  await eventually('the room is noticed', async () => (await readinessText()) === 'ready\n');
});

test('below the mark writes are refused, reads and deletes are served, and health reports it', {
  skip,
  timeout: deadlineMs(60_000),
}, async () => {
  assert.equal(await readinessText(), 'ready\n');
  assert.ok(statSync(reserve()).size > 500_000, 'a reserve is kept');
  await disk.fillLeaving(belowMark);
  await eventually('the mark is noticed', async () => /low on disk space/.test(await readinessText()));
  const { server } = disk;
  for (const [method, to, body] of [
    ['POST', '/api/v2/databases', { name: 'none' }],
    ['PATCH', path, { comment: 'c' }],
    ['POST', `${path}/tables/t/rename`, { newName: 'x' }],
    ['POST', `${path}/tables/t/rows`, { rows: [[1]] }],
    ['POST', `${path}/query`, { sql: 'INSERT INTO t VALUES (1)' }],
    ['POST', '/api/v2/users', { name: 'nobody' }],
  ] as const)
    (await server.request(method, to, { body })).is(503, 'STORAGE_FULL', { outcome: 'notApplied' });
  await served();
  const health = (await server.get('/api/v2/warehouses/default')).at<{ status: string; message: string }>('health');
  assert.equal(health.status, 'degraded');
  assert.match(health.message, /low on disk space .*writes are refused/);
  (await server.query('d', 'DELETE FROM t WHERE i < 0')).is(200);
  (await server.delete(`${path}/tables/u?purge=true`)).is(200);
});

test('without a free byte the reserve is released, and reads and deletes are served', {
  skip,
  timeout: deadlineMs(60_000),
}, async () => {
  await disk.fillLeaving(0);
  await eventually('the reserve is released', () => !existsSync(reserve()));
  await served();
  (await disk.server.patch(path, { comment: 'c' })).is(503, 'STORAGE_FULL', { outcome: 'notApplied' });
  await served();
  (await disk.server.delete(`${path}/tables/v?purge=true`)).is(200);
});

test('after space was freed writes are accepted, and the reserve is restored', {
  skip,
  timeout: deadlineMs(60_000),
}, async () => {
  await disk.free();
  await eventually('the room is noticed', async () => (await readinessText()) === 'ready\n');
  (await disk.server.patch(path, { comment: 'c' })).is(200);
  (await disk.server.post(`${path}/tables/t/rows`, { rows: [[1000]] })).is(201);
  assert.ok(statSync(reserve()).size > 500_000);
});
