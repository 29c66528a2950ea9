// Requests with x-service-idempotency-key: applied once, answered as often as they are sent (rest-standard B6); also if a crash
// happened between the change and its response, which is simulated in the store.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, describe, test } from 'node:test';
import { type Reply, start, type TestServer } from '../../server.ts';

const header = 'x-service-idempotency-key';
const replay = 'x-service-idempotent-replay';
let keys = 0;
const freshKey = () => `key-${++keys}`;

function keyed(server: TestServer, key: string, method: string, path: string, body?: unknown): Promise<Reply> {
  return server.request(method, path, { headers: { [header]: key }, ...(body === undefined ? {} : { body }) });
}

const assertSame = (first: Reply, second: Reply) => {
  assert.equal(second.headers[replay], 'true', second.request);
  assert.deepEqual([second.status, second.text], [first.status, first.text]);
  assert.equal(second.headers.location, first.headers.location);
  assert.equal(second.headers.etag, first.headers.etag);
};

describe('a repeated request', () => {
  let server: TestServer;
  before(async () => {
    server = await start({ largeBodiesBytesMax: 1024 * 1024 });
    (await server.post('/api/v2/databases', { name: 'd' })).is(201);
    (await server.post('/api/v2/databases/d/tables', { name: 't', columns: [{ name: 'a', type: 'INT' }] })).is(201);
  });
  after(() => server.close());
  const count = async () => ((await server.rows('d', 'SELECT count(*) FROM t'))[0] as number[])[0] as number;

  const requests: [string, string, string, unknown][] = [
    ['create', 'POST', '/api/v2/databases', { name: 'made' }],
    ['create as an action', 'POST', '/api/v2/databases/create', { name: 'made2' }],
    ['update', 'PATCH', '/api/v2/databases/made', { comment: 'x', expectedVersion: 1 }],
    ['rename', 'POST', '/api/v2/databases/made2/rename', { newName: 'moved' }],
    ['an action without a body', 'POST', '/api/v2/databases/d/tables/t/truncate', undefined],
    ['a refusal', 'POST', '/api/v2/databases', { name: 'd' }],
    ['a task', 'POST', '/api/v2/databases/d/query', { sql: 'SELECT 1', waitSeconds: 0 }],
    ['a user', 'POST', '/api/v2/users', { name: 'ann' }],
    ['a grant', 'POST', '/api/v2/users/ann/grants', { privilege: 'read', on: '/api/v2' }],
  ];
  for (const [description, method, path, body] of requests)
    test(`${description}: the same response`, async () => {
      const key = freshKey();
      const first = await keyed(server, key, method, path, body);
      assertSame(first, await keyed(server, key, method, path, body));
      assertSame(first, await keyed(server, key, method, path, body));
    });

  test('rows are inserted once, also by concurrent requests', async () => {
    const before = await count();
    const key = freshKey();
    const all = await Promise.all(
      [1, 2, 3, 4].map(() => keyed(server, key, 'POST', '/api/v2/databases/d/tables/t/rows', { rows: [[1], [2]] })),
    );
    for (const reply of all) reply.is(201, '0', { rowCount: 2 });
    assert.equal(all.filter((reply) => reply.headers[replay] === undefined).length, 1);
    assert.equal(await count(), before + 2);
  });

  test('a statement that writes runs once', async () => {
    const before = await count();
    const key = freshKey();
    const body = { sql: 'INSERT INTO t VALUES (7), (8), (9)' };
    const first = (await keyed(server, key, 'POST', '/api/v2/databases/d/query', body)).is(200, '0', { rowCount: 3 });
    assertSame(first, await keyed(server, key, 'POST', '/api/v2/databases/d/query', body));
    assert.equal(await count(), before + 3);
  });

  test('another request with the same key is refused: other body, route or method', async () => {
    const key = freshKey();
    (await keyed(server, key, 'POST', '/api/v2/databases', { name: 'one' })).is(201);
    for (const [method, path, body] of [
      ['POST', '/api/v2/databases', { name: 'two' }],
      ['POST', '/api/v2/databases/create', { name: 'one' }],
      ['PATCH', '/api/v2/databases/one', { name: 'one' }],
    ] as const)
      if (method === 'POST') (await keyed(server, key, method, path, body)).is(400, 'IDEMPOTENCY_KEY_REUSED');
      else (await keyed(server, key, method, path, { comment: 'x' })).is(400, 'IDEMPOTENCY_KEY_REUSED');
    (await server.get('/api/v2/databases/two')).is(404, 'OBJECT_NOT_FOUND');
  });

  test('keys belong to their caller: another caller has its own', async () => {
    const key = freshKey();
    (await server.put('/api/v2/users', { name: 'bob' })).is(201);
    const { secret } = (await server.post('/api/v2/users/bob/tokens', { name: 't' })).is(201).result;
    (await server.post('/api/v2/users/bob/grants', { privilege: 'create', on: '/api/v2/catalogs/default' })).is(201);
    (await keyed(server, key, 'POST', '/api/v2/databases', { name: 'mine' })).is(201);
    const headers = { [header]: key, authorization: `Bearer ${secret}` };
    const reply = await server.request('POST', '/api/v2/databases', { headers, body: { name: 'bobs' } });
    assert.equal(reply.is(201).headers[replay], undefined);
  });

  test('the caller gets the first response even if it can no longer reach the object', async () => {
    (await server.put('/api/v2/users', { name: 'eve' })).is(201);
    const { secret } = (await server.post('/api/v2/users/eve/tokens', { name: 't' })).is(201).result;
    (await server.post('/api/v2/databases', { name: 'eves', owner: 'eve' })).is(201);
    const send = (body: object) =>
      server.request('POST', '/api/v2/databases/eves/rename', {
        headers: { [header]: 'eve-1', authorization: `Bearer ${secret}` },
        body,
      });
    const first = (await send({ newName: 'eves2' })).is(200);
    assertSame(first, await send({ newName: 'eves2' }));
    (await send({ newName: 'other' })).is(403, 'FORBIDDEN');
  });

  test('a token is created once, and its secret is not returned again', async () => {
    const key = freshKey();
    const first = (await keyed(server, key, 'POST', '/api/v2/users/ann/tokens', { name: 'n' })).is(201);
    assert.match(first.at<string>('secret'), /^tbl_pat_/);
    const second = (await keyed(server, key, 'POST', '/api/v2/users/ann/tokens', { name: 'n' })).is(201);
    assert.equal(second.at('secret'), undefined);
    assert.equal(second.at('name'), 'n');
  });

  test('after a transient refusal the request with the same key is tried again', async () => {
    const key = freshKey();
    (await server.post('/api/v2/warehouses/default/suspend')).is(200);
    const body = { rows: [[5]] };
    const rows = '/api/v2/databases/d/tables/t/rows';
    (await keyed(server, key, 'POST', rows, body)).is(503, 'WAREHOUSE_SUSPENDED');
    (await server.post('/api/v2/warehouses/default/resume')).is(200);
    (await keyed(server, key, 'POST', rows, body)).is(201, '0', { rowCount: 1 });
  });

  test('a request whose client disconnected is applied once', async () => {
    const before = await count();
    const path = '/api/v2/databases/d/query';
    const body = { sql: 'INSERT INTO t SELECT 1 WHERE (SELECT sum(range) FROM range(200000000)) > 0' };
    for (const ms of [0, 30, 150]) {
      const key = freshKey();
      const headers = { [header]: key };
      await server.send('POST', path, { headers, body, signal: AbortSignal.timeout(ms) }).catch(() => undefined);
      (await keyed(server, key, 'POST', path, body)).is(200, '0', { rowCount: 1 });
      (await keyed(server, key, 'POST', path, body)).is(200, '0', { rowCount: 1 });
    }
    assert.equal(await count(), before + 3);
  });

  test('an invalid key', async () => {
    for (const key of ['', 'a b', 'ü', 'x'.repeat(256)])
      (await keyed(server, key, 'POST', '/api/v2/databases', { name: 'x' })).is(400, 'INVALID_IDEMPOTENCY_KEY');
  });
});

test('after a crash between change and answer', async () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'tabularium-keys-'));
  const requests: [string, string, string, unknown][] = [
    ['k1', 'POST', '/api/v2/databases', { name: 'd' }],
    ['k2', 'POST', '/api/v2/databases/d/tables', { name: 't', columns: [{ name: 'a', type: 'INT' }] }],
    ['k3', 'POST', '/api/v2/databases/d/tables/t/rows', { rows: [[1], [2]] }],
    ['k4', 'POST', '/api/v2/databases/d/query', { sql: 'INSERT INTO t SELECT a + 10 FROM t' }],
    ['k5', 'PATCH', '/api/v2/databases/d', { comment: 'changed', expectedVersion: 1 }],
    ['k6', 'POST', '/api/v2/databases/d/tables/t/rename', { newName: 't2' }],
    ['k7', 'POST', '/api/v2/users', { name: 'ann' }],
  ];
  try {
    const first = await start({ dataDir });
    for (const [key, method, path, body] of requests) await keyed(first, key, method, path, body);
    await first.close();
    // Deletes the stored responses; the store has no record of what an engine did either.
    const store = new DatabaseSync(join(dataDir, 'metadata.sqlite'));
    store.exec('UPDATE idempotency_keys SET status = NULL, body = NULL, location = NULL');
    store.exec("UPDATE idempotency_keys SET state = 'begun' WHERE key IN ('k3', 'k4')");
    store.close();
    // Whoever changes the store itself makes its checksums void.
    rmSync(join(dataDir, 'metadata.sqlite-sums'));
    const second = await start({ dataDir });
    try {
      const replays = new Map<string, Reply>();
      for (const [key, method, path, body] of requests) replays.set(key, await keyed(second, key, method, path, body));
      replays.get('k1')?.is(201, '0', { name: 'd', created: true });
      replays.get('k2')?.is(201, '0', { name: 't2' });
      // The engine remembers that it inserted them, whatever the name of the table is by now.
      replays.get('k3')?.is(201, '0', { rowCount: 2 });
      replays.get('k5')?.is(200, '0', { comment: 'changed', version: 2 });
      replays.get('k6')?.is(200, '0', { name: 't2' });
      replays.get('k7')?.is(201, '0', { name: 'ann', created: true });
      assert.deepEqual(await second.rows('d', 'SELECT count(*) FROM t2'), [[4]]);
    } finally {
      await second.close();
    }
  } finally {
    rmSync(dataDir, { recursive: true, force: true });
  }
});

test('rows and statements that an engine applied before a crash are not applied again', async () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'tabularium-keys-'));
  const rows = ['r', 'POST', '/api/v2/databases/d/tables/t/rows', { rows: [[1], [2]] }] as const;
  const write = ['w', 'POST', '/api/v2/databases/d/query', { sql: 'INSERT INTO t SELECT a + 10 FROM t' }] as const;
  try {
    const first = await start({ dataDir });
    (await first.post('/api/v2/databases', { name: 'd' })).is(201);
    (await first.post('/api/v2/databases/d/tables', { name: 't', columns: [{ name: 'a', type: 'INT' }] })).is(201);
    (await keyed(first, ...rows)).is(201);
    (await keyed(first, ...write)).is(200);
    await first.close();
    const store = new DatabaseSync(join(dataDir, 'metadata.sqlite'));
    store.exec("UPDATE idempotency_keys SET status = NULL, body = NULL, location = NULL, state = 'begun'");
    store.close();
    // Whoever changes the store itself makes its checksums void.
    rmSync(join(dataDir, 'metadata.sqlite-sums'));
    const second = await start({ dataDir });
    try {
      (await keyed(second, ...rows)).is(201, '0', { rowCount: 2 });
      (await keyed(second, ...write)).is(200, '0', { rowCount: 2 });
      assert.deepEqual(await second.rows('d', 'SELECT count(*) FROM t'), [[4]]);
    } finally {
      await second.close();
    }
  } finally {
    rmSync(dataDir, { recursive: true, force: true });
  }
});
