// Stored results are accessible to those who may still read their sources: pages, links of exports, fresh links.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { fileStoreOf } from '../../file_stores.ts';
import { type Reply, start, type TestServer } from '../../server.ts';

let server: TestServer;
let pageUri: string;
let exportUri: string;
let link: string;
const grants = '/api/v2/users/ada/grants';
const headers = { authorization: `Basic ${Buffer.from('ada:correct horse battery').toString('base64')}` };
const ada = (method: string, path: string, body?: object): Promise<Reply> =>
  server.request(method, path, { headers, ...(body ? { body } : {}) });
const grant = async (on: string) => (await server.post(grants, { privilege: 'read', on })).at<string>('uri');

let onTable: string;
let onWarehouse: string;

before(async () => {
  server = await start({ pageBytesMax: 65_536, ...(await fileStoreOf(import.meta.url).settings()) });
  await server.post('/api/v2/databases', { name: 'shop' });
  await server.post('/api/v2/databases/shop/tables', { sql: 'CREATE TABLE t (i BIGINT, s VARCHAR)' });
  await server.query('shop', "INSERT INTO t SELECT range, repeat('x', 20) FROM range(20000)");
  await server.post('/api/v2/databases/shop/views', { name: 'v', sql: 'SELECT * FROM t' });
  (await server.post('/api/v2/users', { name: 'ada', password: 'correct horse battery' })).is(201);
  onWarehouse = (await server.post(grants, { privilege: 'use', on: '/api/v2/warehouses/default' })).is(201).at('uri');
  onTable = await grant('/api/v2/databases/shop/tables/t');
  await grant('/api/v2/databases/shop/views/v');
  const query = await ada('POST', '/api/v2/databases/shop/query', { sql: 'SELECT * FROM v' });
  pageUri = query.is(200).at('nextPage');
  const accepted = await ada('POST', '/api/v2/databases/shop/export', { sql: 'SELECT * FROM v', format: 'csv' });
  exportUri = accepted.is(202).at('uri');
  link = (await ada('GET', `${exportUri}?waitSeconds=30`))
    .is(200, '0', { state: 'succeeded' })
    .at('result', 'files', 0, 'link');
});
after(() => server.close());

const statusOfLink = async () => (await fetch(`${server.url}${link}`)).status;
const hasLinks = async () => (await ada('GET', exportUri)).text.includes('signature=');

test('while the sources can be read, the result can be fetched', async () => {
  (await ada('GET', pageUri)).is(200);
  assert.equal(await statusOfLink(), 200);
  assert.equal(await hasLinks(), true);
});

test('a renamed source is the same source', async () => {
  (await server.post('/api/v2/databases/shop/views/v/rename', { newName: 'w' })).is(200);
  (await ada('GET', pageUri)).is(200);
  assert.equal(await statusOfLink(), 200);
});

test('without the privilege on the table under a view, neither pages nor links are served, nor links created', async () => {
  (await server.delete(onTable)).is(200);
  (await ada('GET', pageUri)).is(403, 'FORBIDDEN');
  // Nor to others: the privileges with which the result was computed were revoked.
  (await server.get(pageUri)).is(403, 'FORBIDDEN');
  assert.equal(await statusOfLink(), 403);
  assert.equal(await hasLinks(), false);
  onTable = await grant('/api/v2/databases/shop/tables/t');
  (await ada('GET', pageUri)).is(200);
  assert.equal(await statusOfLink(), 200);
  assert.equal(await hasLinks(), true);
});

test('a repeated statement is authorized each time: on its warehouse, and on its tables', async () => {
  const run = () => ada('POST', '/api/v2/databases/shop/query', { sql: 'SELECT i FROM t WHERE i = 1' });
  for (let n = 0; n < 3; n++) (await run()).is(200, '0', { rows: [[1]] });
  (await server.delete(onWarehouse)).is(200);
  (await run()).is(403, 'FORBIDDEN');
  onWarehouse = (await server.post(grants, { privilege: 'use', on: '/api/v2/warehouses/default' })).is(201).at('uri');
  (await run()).is(200);
  (await server.delete(onTable)).is(200);
  (await run()).is(403, 'FORBIDDEN');
  onTable = await grant('/api/v2/databases/shop/tables/t');
  (await run()).is(200);
});

test('for a dropped source, the privilege to read its database decides', async () => {
  await server.delete('/api/v2/databases/shop/views/w');
  (await ada('GET', pageUri)).is(403, 'FORBIDDEN');
  const onDatabase = await grant('/api/v2/databases/shop');
  (await ada('GET', pageUri)).is(200);
  (await server.delete(onDatabase)).is(200);
  assert.equal(await statusOfLink(), 403);
});
