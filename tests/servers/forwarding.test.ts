// Two servers on one store, each with a warehouse of its own: every kind of request reaches the data through either server, and a server
// that is down is named in the answer.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { openSecrets } from '../../src/access/secrets/secrets.ts';
import { ForwardedHeaders, forwardedHeader } from '../../src/http/forwarding/forwarded_header.ts';
import { openPostgresqlStore } from '../../src/store/postgresql/postgresql_store.ts';
import { parsePostgresqlUrl } from '../../src/store/postgresql/postgresql_url.ts';
import { eventually, statementWaitSeconds } from '../deadline.ts';
import { missingPostgresql } from '../postgresql.ts';
import { endOfTask, type Reply, type ServerProcess } from '../server.ts';
import { kill, newPlaces, type Places, seeEachOther } from './two_servers.ts';

const shop = '/api/v2/catalogs/far/databases/shop';
const orders = `${shop}/tables/orders`;
const columns = [
  { name: 'id', type: 'BIGINT' },
  { name: 'note', type: 'STRING' },
];
const wait = { waitSeconds: statementWaitSeconds() };
const elsewhere = 'WAREHOUSE_ON_ANOTHER_SERVER';
/** After which a request has very probably been forwarded. */
const forwardedMs = 300;

describe('requests for a warehouse on another server', { skip: missingPostgresql }, () => {
  let places: Places;
  let one: ServerProcess;
  let two: ServerProcess;
  before(async () => {
    places = await newPlaces();
    one = await places.one.start();
    two = await places.two.start();
    (await two.post('/api/v2/warehouses', { name: 'second', threads: 2 })).is(201);
    await seeEachOther(one, two, ['default', 'second']);
    // The body decides where it is created.
    (await one.post('/api/v2/catalogs', { name: 'far', warehouse: 'second' })).is(201);
    (await one.put(shop)).is(201);
    (await one.post(`${shop}/tables`, { name: 'orders', columns })).is(201);
  });
  after(async () => {
    await one?.close();
    await two?.close();
    places?.remove();
  });

  const rowsThrough = async (server: ServerProcess, sql: string): Promise<unknown[][]> =>
    (await server.post(`${shop}/query`, { sql, ...wait })).is(200).at('rows');
  const catalogOfTwo = async (): Promise<unknown> => (await two.get('/api/v2/catalogs/far')).is(200).at('warehouse');

  test('tables, rows and statements, in both directions', async () => {
    assert.equal(await catalogOfTwo(), 'second');
    (await one.post(`${orders}/rows`, { rows: [{ id: 1, note: 'a' }] })).is(201);
    (await two.post(`${orders}/rows`, { rows: [{ id: 2, note: 'b' }] })).is(201);
    for (const server of [one, two]) {
      assert.deepEqual(await rowsThrough(server, 'SELECT id, note FROM orders ORDER BY id'), [
        [1, 'a'],
        [2, 'b'],
      ]);
      assert.equal((await server.get(`${orders}/rows`)).is(200).at<unknown[]>('rows').length, 2);
      (await server.post(`${shop}/explain`, { sql: 'SELECT id FROM orders' })).is(200);
      (await server.get(`${orders}/tablets`)).is(200);
    }
    (await one.post(`${orders}/columns`, { name: 'price', type: 'DOUBLE' })).is(201);
    (await one.post(`${shop}/query`, { sql: 'UPDATE orders SET price = id * 2', ...wait })).is(200);
    assert.deepEqual(await rowsThrough(two, 'SELECT sum(price) FROM orders'), [[6]]);
    (await one.delete(`${orders}/columns/price`)).is(200);

    (await two.put('/api/v2/databases/near')).is(201);
    (await two.post('/api/v2/databases/near/tables', { name: 't', columns })).is(201);
    (await two.post('/api/v2/databases/near/tables/t/rows', { rows: [{ id: 7, note: null }] })).is(201);
    assert.deepEqual(await one.rows('near', 'SELECT id FROM t'), [[7]]);
    (
      await two.post('/api/v2/databases/near/tables/t/copy_definition', {
        newName: 'copied',
        catalog: 'far',
        database: 'shop',
      })
    ).is(201);
    assert.deepEqual(await rowsThrough(one, 'SELECT count(*) FROM copied'), [[0]]);
    (await one.delete(`${shop}/tables/copied`)).is(200);
  });

  test('results of several pages, tasks and their files', async () => {
    const sql = "SELECT range AS n, repeat('x', 200) AS filler FROM range(120000)";
    const first = (await one.post(`${shop}/query`, { sql, ...wait })).is(200);
    let rowCount = first.at<unknown[]>('rows').length;
    for (let next = first.at<string | undefined>('nextPage'); next !== undefined; ) {
      const page: Reply = (await one.get(next)).is(200);
      rowCount += page.at<unknown[]>('rows').length;
      next = page.at<string | undefined>('nextPage');
    }
    assert.equal(rowCount, 120_000);

    const submitted = (await one.post(`${shop}/query`, { sql: 'SELECT 42 AS n', waitSeconds: 0 })).is(202);
    const ended = (await endOfTask(one, submitted.at('uri'))).is(200, undefined, { state: 'succeeded' });
    assert.deepEqual((await one.get(ended.at('firstPage'))).is(200).at('rows'), [[42]]);

    const long = (await one.post(`${shop}/query`, { sql: longSql, waitSeconds: 0 })).is(202);
    await eventually('the statement runs', async () => (await one.get(long.at('uri'))).at('state') === 'running');
    (await one.post(`${long.at<string>('uri')}/cancel`)).is(200);
    (await endOfTask(one, long.at('uri'))).is(200, undefined, { state: 'cancelled' });

    const accepted = (await one.post(`${shop}/export`, { sql: 'SELECT range AS n FROM range(3)', format: 'csv' })).is(
      202,
    );
    const exported = (await endOfTask(one, accepted.at('uri'))).is(200, undefined, { state: 'succeeded' });
    const link = exported.at<string>('result', 'files', 0, 'link');
    for (const server of [one, two]) {
      const { status, text } = await server.send('GET', link, { headers: { authorization: undefined } });
      assert.deepEqual([status, text.trim().split(/\r?\n/)], [200, ['n', '0', '1', '2']]);
    }
    (await one.delete(accepted.at('uri'))).is(200);
    assert.equal((await two.send('GET', link, { headers: { authorization: undefined } })).status, 404);

    // The bytes are on the server that received them, and the load fetches them from there.
    const upload = (await one.post('/api/v2/uploads', { name: 'loaded.csv' })).is(201);
    const put = { headers: { authorization: undefined }, body: 'id,note\n1,a\n2,b\n' };
    for (const [server, uri] of [
      [one, upload.at<string>('link')],
      [two, upload.at<string>('link')],
    ] as const)
      assert.equal((await server.send('PUT', uri, put)).status, server === one ? 200 : 400);
    const source = { upload: upload.at<string>('uploadId') };
    const loading = (await one.post(`${shop}/load`, { source, format: 'csv', table: 'loaded' })).is(202);
    (await endOfTask(one, loading.at('uri'))).is(200, undefined, { state: 'succeeded' });
    assert.deepEqual(await rowsThrough(two, 'SELECT sum(id) FROM loaded'), [[3]]);
  });

  test('drops, restores, renames and drafts', async () => {
    (await one.post(`${shop}/tables`, { name: 'gone', columns })).is(201);
    (await one.delete(`${shop}/tables/gone`)).is(200);
    (await one.post(`${shop}/tables/undrop`, { name: 'gone' })).is(200);
    (await one.post(`${shop}/tables/gone/rename`, { newName: 'back' })).is(200);
    assert.deepEqual(await rowsThrough(two, 'SELECT count(*) FROM back'), [[0]]);
    (await one.post('/api/v2/catalogs', { name: 'brief', warehouse: 'second' })).is(201);
    (await one.delete('/api/v2/catalogs/brief')).is(200);
    (await one.post('/api/v2/catalogs/undrop', { name: 'brief' })).is(200);
    (await one.delete('/api/v2/catalogs/brief?purge=true')).is(200);
    const draft = (await one.post('/api/v2/drafts', { name: 'd', sql: 'SELECT 1', catalog: 'far' })).is(201);
    await eventually('the draft of the same user', async () => (await two.get(draft.at('uri'))).status === 200);
  });

  test('a request with a key is applied once, audited once, and has one id in both logs', async () => {
    const key = 'the-same-key';
    const headers = { 'x-service-idempotency-key': key, 'x-service-request-id': 'once' };
    const body = { rows: [{ id: 100, note: 'keyed' }] };
    for (const server of [one, two, one]) (await server.request('POST', `${orders}/rows`, { body, headers })).is(201);
    assert.deepEqual(await rowsThrough(one, 'SELECT count(*) FROM orders WHERE id = 100'), [[1]]);
    (
      await one.request('POST', `${shop}/tables`, {
        body: { name: 'audited', columns },
        headers: { 'x-service-request-id': 'audited-once' },
      })
    ).is(201);
    const events = (await one.post('/api/v2/audit_events/search', { requestId: 'audited-once' })).is(200);
    assert.equal(events.at<unknown[]>('auditEvents').length, 1);
  });

  test('the server of the data checks the credentials of the caller', async () => {
    (await one.post('/api/v2/users', { name: 'ann' })).is(201);
    const token = (await one.post('/api/v2/users/ann/tokens', { name: 'laptop' })).is(201).at<string>('secret');
    const headers = { authorization: `Bearer ${token}` };
    const query = (server: ServerProcess) =>
      server.request('POST', `${shop}/query`, { headers, body: { sql: 'SELECT 1', ...wait } });
    await eventually('the token is known', async () => (await query(one)).status !== 401);
    (await query(one)).is(403, 'FORBIDDEN');
    (await one.post('/api/v2/users/ann/grants', { privilege: 'read', on: shop })).is(201);
    (await one.post('/api/v2/users/ann/grants', { privilege: 'use', on: '/api/v2/warehouses/second' })).is(201);
    await eventually('the grants are in force', async () => (await query(one)).status === 200);
    const wrong = { authorization: 'Bearer tbl_wrong' };
    (await one.request('POST', `${shop}/query`, { headers: wrong, body: { sql: 'SELECT 1' } })).is(
      401,
      'UNAUTHENTICATED',
    );
  });

  test('a forged header is ignored, and a forwarded request is not forwarded again', async () => {
    const sql = { sql: 'SELECT 1', ...wait };
    for (const forged of ['x', `${Buffer.from('{}').toString('base64url')}.AAAA`])
      (await one.request('POST', `${shop}/query`, { headers: { [forwardedHeader]: forged }, body: sql })).is(200);

    const store = await openPostgresqlStore({ location: parsePostgresqlUrl(places.storeUrl) });
    try {
      const secrets = await openSecrets({ store, dataDirectory: places.two.directory, keyFile: places.keyFile });
      const signed = (from: string, to: string) => {
        const header = new ForwardedHeaders(from, secrets.derive('forwarded requests'));
        const message = { method: 'POST', url: `${shop}/query` };
        return header.sign(message as never, to, { address: '192.0.2.1', isCharged: false, isRoot: true });
      };
      const send = (server: ServerProcess, value: string) =>
        server.request('POST', `${shop}/query`, { headers: { [forwardedHeader]: value }, body: sql });
      const [idOfOne, idOfTwo] = [places.one.id(), places.two.id()];
      (await send(two, signed(idOfOne, idOfTwo))).is(200);
      (await send(one, signed(idOfTwo, idOfOne))).is(503, elsewhere, { serverId: idOfTwo, outcome: 'notApplied' });
      // Signed for another server: as if it were not there.
      (await send(one, signed(idOfOne, idOfTwo))).is(200);
    } finally {
      await store.close();
    }
  });

  test('while the server is down, its id is in the answer, and metadata is served', async () => {
    (await one.post(`${orders}/rows`, { rows: [{ id: 200, note: 'before' }] })).is(201);
    const submitted = (await one.post(`${shop}/query`, { sql: 'SELECT 1', waitSeconds: 0 })).is(202);
    (await endOfTask(one, submitted.at('uri'))).is(200, undefined, { state: 'succeeded' });
    // Its connection is lost while the response is awaited.
    two.child.kill('SIGSTOP');
    const reading = one.get(submitted.at('uri'));
    await pause(forwardedMs);
    await kill(two);
    (await reading).is(200);
    const serverId = places.two.id();
    const refused = { serverId, outcome: 'notApplied' };
    (await one.post(`${orders}/rows`, { rows: [{ id: 201, note: 'lost' }] })).is(503, elsewhere, refused);
    const query = (await one.post(`${shop}/query`, { sql: 'SELECT 1' })).is(503, elsewhere, refused);
    assert.ok(query.message.includes(serverId) && !query.text.includes('127.0.0.1'), query.text);
    (await one.post(`${shop}/tables`, { name: 'never', columns })).is(503, elsewhere, refused);
    (await one.post('/api/v2/catalogs', { name: 'never', warehouse: 'second' })).is(503, elsewhere, refused);
    (await one.get(orders)).is(200);
    (await one.get(`${shop}/tables`)).is(200);
    (await one.get('/api/v2/warehouses/second')).is(200);
    (await one.get(submitted.at('uri'))).is(200);
    (await one.get(`${submitted.at<string>('uri')}/pages/0`)).is(503, elsewhere, refused);
    // Only those who may use the table learn that it is there.
    (await one.post('/api/v2/users', { name: 'eve' })).is(201);
    const token = (await one.post('/api/v2/users/eve/tokens', { name: 'laptop' })).is(201).at<string>('secret');
    const headers = { authorization: `Bearer ${token}` };
    (await one.request('POST', `${orders}/rows`, { headers, body: { rows: [{ id: 1 }] } })).is(403, 'FORBIDDEN');

    two = await places.two.start();
    const rows = () => one.post(`${shop}/query`, { sql: 'SELECT id FROM orders WHERE id >= 200', ...wait });
    await eventually('the server is back', async () => (await rows()).status === 200);
    assert.deepEqual((await rows()).is(200).at('rows'), [[200]]);
  });
});

const longSql = 'SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE a.range * b.range % 7 = 3';
