// How a repeated request with an idempotency key is compared and authorized (rest-standard B6): with the credentials that are sent
// now, on the objects of the first attempt. Rows are not stored with keys.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, describe, test } from 'node:test';
import { type Reply, start, type TestServer } from '../../server.ts';

const replayHeader = 'x-service-idempotent-replay';

describe('a repeated request with an idempotency key', () => {
  let server: TestServer;
  let dataDir: string;
  before(async () => {
    dataDir = mkdtempSync(join(tmpdir(), 'tabularium-replays-'));
    server = await start({ dataDir });
    (await server.post('/api/v2/databases', { name: 'd' })).is(201);
    (await server.post('/api/v2/databases/d/tables', { name: 't', columns: [{ name: 'a', type: 'STRING' }] })).is(201);
    (await server.post('/api/v2/users', { name: 'ann' })).is(201);
  });
  after(async () => {
    await server.close();
    rmSync(dataDir, { recursive: true, force: true });
  });

  interface KeyedRequest {
    readonly key: string;
    readonly method?: string;
    readonly path?: string;
    readonly body?: unknown;
    readonly token?: string;
  }
  const rowsPath = '/api/v2/databases/d/tables/t/rows';
  const send = ({ key, method = 'POST', path = rowsPath, body, token }: KeyedRequest): Promise<Reply> =>
    server.request(method, path, {
      headers: {
        'x-service-idempotency-key': key,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      },
      ...(body === undefined ? {} : { body }),
    });
  const isReplay = (reply: Reply) => reply.headers[replayHeader] === 'true';
  const query = '/api/v2/databases/d/query';
  const count = async () => (await server.rows('d', 'SELECT count(*) FROM t'))[0]?.[0] as number;
  const grant = async (privilege: string, on: string) =>
    (await server.post('/api/v2/users/ann/grants', { privilege, on })).is(201).at<string>('uri');
  const revoke = async (name: string) => (await server.delete(name)).is(200, '0', { deleted: true });
  const tokenOf = async (scopes?: readonly object[]) =>
    (await server.post('/api/v2/users/ann/tokens', { name: randomUUID(), ...(scopes ? { scopes } : {}) }))
      .is(201)
      .at<string>('secret');

  test('bodies are compared as JSON values, paths as the resources that they name', async () => {
    const key = randomUUID();
    const before = await count();
    (await send({ key, body: '{"rows":[{"a":"1"},["x"]]}' })).is(201);
    const long = '/api/v2/catalogs/default/databases/%64/tables/t/rows';
    for (const [path, body] of [
      [rowsPath, '{ "rows" : [ {"a" : "\\u0031"}, ["x"] ] }\n'],
      [long, '{"rows":[{"a":"1"},["x"]]}'],
    ] as const)
      assert.ok(isReplay((await send({ key, path, body })).is(201)), body);
    assert.equal(await count(), before + 2);
    for (const body of ['{"rows":[["x"],{"a":"1"}]}', '{"rows":[{"a":"2"},["x"]]}'])
      (await send({ key, body })).is(400, 'IDEMPOTENCY_KEY_REUSED');

    const create = { key: randomUUID(), path: '/api/v2/databases' };
    (await send({ ...create, body: '{"name":"made","comment":"c"}' })).is(201);
    assert.ok(isReplay((await send({ ...create, body: '{"comment":"c","name":"made"}' })).is(201)));
    const number = { key: randomUUID(), path: query };
    (await send({ ...number, body: '{"sql":"INSERT INTO t SELECT $1","parameters":[123456789012345678901.50]}' })).is(
      200,
    );
    const sameBody = '{"parameters":[1.234567890123456789015e20],"sql":"INSERT INTO t SELECT $1"}';
    assert.ok(isReplay((await send({ ...number, body: sameBody })).is(200)));
    const other = '{"parameters":[123456789012345678901.51],"sql":"INSERT INTO t SELECT $1"}';
    (await send({ ...number, body: other })).is(400, 'IDEMPOTENCY_KEY_REUSED');
  });

  test('PUT and DELETE accept keys, with their query', async () => {
    const put = { key: randomUUID(), method: 'PUT', path: '/api/v2/databases/once', body: {} };
    (await send(put)).is(201, '0', { created: true });
    assert.ok(isReplay((await send(put)).is(201, '0', { created: true })));
    const remove = { key: randomUUID(), method: 'DELETE', path: '/api/v2/databases/once?cascade=true' };
    (await send(remove)).is(200, '0', { deleted: true });
    (await server.post('/api/v2/databases', { name: 'once' })).is(201);
    assert.ok(isReplay((await send(remove)).is(200, '0', { deleted: true })));
    (await server.get('/api/v2/databases/once')).is(200);
    (await send({ ...remove, path: '/api/v2/databases/once' })).is(400, 'IDEMPOTENCY_KEY_REUSED');
  });

  test('a token with fewer scopes gets no response that it could not have got itself', async () => {
    await grant('write', '/api/v2/databases/d');
    await grant('use', '/api/v2/warehouses/default');
    const unrestricted = await tokenOf();
    const body = { rows: [['scoped']] };
    const key = randomUUID();
    (await send({ key, body, token: unrestricted })).is(201);
    const narrow = await tokenOf([{ privilege: 'read', on: '/api/v2/databases/d' }]);
    (await send({ key, body, token: narrow })).is(403, 'FORBIDDEN');
    // Sufficient for the endpoint, but not for the other privileges that the request needed.
    const withoutUse = await tokenOf([{ privilege: 'write', on: '/api/v2/databases/d' }]);
    (await send({ key, body, token: withoutUse })).is(403, 'FORBIDDEN');
    const sufficient = await tokenOf([
      { privilege: 'write', on: '/api/v2/databases/d/tables/t' },
      { privilege: 'use', on: '/api/v2/warehouses/default' },
    ]);
    assert.ok(isReplay((await send({ key, body, token: sufficient })).is(201)));
    assert.ok(isReplay((await send({ key, body, token: unrestricted })).is(201)));
  });

  test('a statement is authorized again on all of its tables', async () => {
    (await server.post('/api/v2/databases', { name: 'e' })).is(201);
    for (const name of ['src', 'dst'])
      (await server.post('/api/v2/databases/e/tables', { name, columns: [{ name: 'a', type: 'STRING' }] })).is(201);
    const onSource = await grant('read', '/api/v2/databases/e/tables/src');
    await grant('write', '/api/v2/databases/e/tables/dst');
    await server.put('/api/v2/users/ann/grants', { privilege: 'use', on: '/api/v2/warehouses/default' });
    const token = await tokenOf();
    const request = {
      key: randomUUID(),
      path: '/api/v2/databases/e/query',
      body: { sql: 'INSERT INTO dst SELECT a FROM src' },
      token,
    };
    (await send(request)).is(200);
    assert.ok(isReplay((await send(request)).is(200)));
    await revoke(onSource);
    (await send(request)).is(403, 'FORBIDDEN');
    // Another object has its name by now; the privileges on the original one count.
    await grant('read', '/api/v2/databases/e/tables/src');
    (await server.post('/api/v2/databases/e/tables/dst/rename', { newName: 'moved' })).is(200);
    assert.ok(isReplay((await send(request)).is(200)));
  });

  test('a refusal for missing privileges is not stored', async () => {
    const token = await tokenOf();
    const request = { key: randomUUID(), path: '/api/v2/databases/f/tables/t/rows', body: { rows: [['1']] }, token };
    (await server.post('/api/v2/databases', { name: 'f' })).is(201);
    (await server.post('/api/v2/databases/f/tables', { name: 't', columns: [{ name: 'a', type: 'STRING' }] })).is(201);
    (await send(request)).is(403, 'FORBIDDEN');
    await grant('write', '/api/v2/databases/f');
    assert.ok(!isReplay((await send(request)).is(201)));
  });

  /** All text that the metadata store contains about keys. The server is restarted, because it has exclusive access to the store. */
  const storedText = async (): Promise<string> => {
    await server.close();
    const store = new DatabaseSync(join(dataDir, 'metadata.sqlite'));
    const text = JSON.stringify(store.prepare('SELECT * FROM idempotency_keys').all());
    store.close();
    // Whoever changes the store itself makes its checksums void.
    rmSync(join(dataDir, 'metadata.sqlite-sums'));
    server = await start({ dataDir });
    return text;
  };

  test('rows that were read are read again, and returned or refused rows are not stored', async () => {
    const secret = 'Sesame-4711';
    const columns = [
      { name: 'a', type: 'STRING' },
      { name: 'n', type: 'INT' },
    ];
    (await server.post('/api/v2/databases/d/tables', { name: 's', columns, primaryKey: ['a'] })).is(201);
    (await server.query('d', `INSERT INTO s VALUES ('Sesame-' || 4711, 1)`)).is(200);

    const read = { key: randomUUID(), path: query, body: { sql: 'SELECT a, n FROM s' } };
    assert.deepEqual((await send(read)).is(200).at('rows'), [[secret, 1]]);
    (await server.query('d', 'UPDATE s SET n = 2')).is(200);
    assert.deepEqual((await send(read)).is(200).at('rows'), [[secret, 2]]);
    (await send({ ...read, body: { sql: 'SELECT 1' } })).is(400, 'IDEMPOTENCY_KEY_REUSED');

    const returning = { key: randomUUID(), path: query, body: { sql: 'UPDATE s SET n = n + 1 RETURNING a, n' } };
    (await send(returning)).is(200, '0', { rowCount: 1, rows: [[secret, 3]] });
    const replayed = await send(returning);
    assert.ok(isReplay(replayed.is(200, '0', { rowCount: 1, rows: null })));
    assert.deepEqual(await server.rows('d', 'SELECT n FROM s'), [[3]]);

    const clash = { key: randomUUID(), path: query, body: { sql: 'INSERT INTO s SELECT a, 5 FROM s' } };
    assert.ok((await send(clash)).is(400, 'CONSTRAINT_VIOLATED').text.includes(secret));
    (await send(clash)).is(400, 'CONSTRAINT_VIOLATED');
    const firstRequest = { key: randomUUID(), path: query, body: { sql: 'INSERT INTO s SELECT a, a::INT FROM s' } };
    (await send(firstRequest)).is(400, 'SQL_INVALID');
    assert.ok(isReplay((await send(firstRequest)).is(400, 'SQL_INVALID')));
    const text = await storedText();
    assert.ok(text.includes(clash.key));
    assert.ok(!text.includes(secret), text);
    assert.ok(isReplay((await send(returning)).is(200, '0', { rowCount: 1, rows: null })));
  });

  test('a caller that waits for an attempt in progress gets its response only with sufficient privileges', async () => {
    const narrow = await tokenOf([
      { privilege: 'write', on: '/api/v2/databases/d' },
      { privilege: 'read', on: '/api/v2/databases/d' },
    ]);
    const token = await tokenOf();
    const before = await count();
    const request = { key: randomUUID(), body: { rows: [['raced']] } };
    const [first, second] = await Promise.all([send({ ...request, token }), send({ ...request, token: narrow })]);
    first.is(201);
    second.is(403, 'FORBIDDEN');
    assert.equal(await count(), before + 1);
  });
});
