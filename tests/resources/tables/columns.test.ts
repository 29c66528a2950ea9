// Single columns, under their own URI: added, changed, renamed, dropped, searched, on a table with rows.
import assert from 'node:assert/strict';
import { after, before } from 'node:test';
import { start, type TestServer } from '../../server.ts';
import { scenarios } from '../scenario.ts';

let server: TestServer;
const tables = '/api/v2/databases/shop/tables';
const orders = `${tables}/orders`;
before(async () => {
  server = await start();
  (await server.put('/api/v2/databases/shop')).is(201);
  const columns = [
    { name: 'id', type: 'INT' },
    { name: 'sku', type: 'VARCHAR(3)', comment: 'article' },
    { name: 'n', type: 'SMALLINT', defaultValue: 7 },
  ];
  (await server.post(tables, { name: 'orders', columns, primaryKey: ['id'], orderBy: ['sku'] })).is(201);
  (
    await server.post(`${orders}/rows`, {
      rows: [
        [1, 'a', 1],
        [2, 'b', null],
      ],
    })
  ).is(201);
});
after(() => server.close());

scenarios(
  () => server,
  [
    {
      name: 'a column added',
      method: 'POST',
      url: `${orders}/columns`,
      body: { name: 'note', type: 'JSON', comment: 'free' },
      status: 201,
      result: { name: 'note', position: 4, type: 'JSON', nullable: true, version: 1, created: true },
    },
    {
      name: 'one that must have values, without a default, where there are rows',
      method: 'POST',
      url: `${orders}/columns`,
      body: { name: 'must', type: 'INT', nullable: false },
      status: 400,
      code: 'CONSTRAINT_VIOLATED',
      afterwards: async (client) => void (await client.get(`${orders}/columns/must`)).is(404, 'OBJECT_NOT_FOUND'),
    },
    {
      name: 'one that must have values, with a default',
      method: 'POST',
      url: `${orders}/columns`,
      body: { name: 'must', type: 'INT', nullable: false, defaultValue: 1 },
      status: 201,
      afterwards: async (client) =>
        assert.deepEqual(await client.rows('shop', 'SELECT DISTINCT must FROM orders'), [[1]]),
    },
    ...(
      [
        ['POST', '', { name: 'no', type: 'INT', defaultValue: "'x'" }, '/defaultValue'],
        ['PATCH', '/n', { defaultValue: 'now(' }, '/defaultValue'],
        ['PATCH', '/n', { type: 'SMALLINT', defaultValue: 'now(' }, '/defaultValue'],
      ] as const
    ).map(([method, path, body, pointer]) => ({
      name: `${method} of ${JSON.stringify(body)} points to ${pointer}`,
      method,
      url: `${orders}/columns${path}`,
      body,
      status: 400,
      code: 'INVALID_PARAMETER' as const,
      pointer,
    })),
    {
      name: 'one that is there already',
      method: 'POST',
      url: `${orders}/columns`,
      body: { name: 'must', type: 'INT' },
      status: 400,
      code: 'OBJECT_ALREADY_EXISTS',
    },
    {
      name: 'one that is there but for its case',
      method: 'PUT',
      url: `${orders}/columns/MUST`,
      body: { type: 'INT' },
      status: 400,
      code: 'OBJECT_ALREADY_EXISTS',
    },
    {
      name: 'PUT of one that is there',
      method: 'PUT',
      url: `${orders}/columns/must`,
      body: { type: 'STRING' },
      status: 201,
      result: { created: false, type: 'INT' },
    },
    {
      name: 'NOT NULL where there are NULLs',
      method: 'PATCH',
      url: `${orders}/columns/note`,
      body: { nullable: false },
      status: 400,
      code: 'CONSTRAINT_VIOLATED',
      afterwards: async (client) =>
        void (await client.get(`${orders}/columns/note`)).is(200, '0', { nullable: true, version: 1 }),
    },
    {
      name: 'a wider type, no default, another comment',
      method: 'PATCH',
      url: `${orders}/columns/n`,
      body: { type: 'BIGINT', defaultValue: null, comment: 'count' },
      status: 200,
      result: { type: 'BIGINT', defaultValue: null, comment: 'count' },
      afterwards: async (client) => {
        (await client.post(`${orders}/rows`, { rows: [{ id: 5, n: 5_000_000_000 }] })).is(201);
        assert.deepEqual((await client.rows('shop', 'SELECT n FROM orders WHERE id = 5'))[0], [5_000_000_000]);
      },
    },
    {
      name: 'a type that is no type',
      method: 'PATCH',
      url: `${orders}/columns/n`,
      body: { type: 'NUMBERS' },
      status: 400,
      code: 'INVALID_PARAMETER',
      pointer: '/type',
    },
    {
      name: 'a default that does not fit the type',
      method: 'PATCH',
      url: `${orders}/columns/n`,
      body: { defaultValue: "'x'" },
      status: 400,
      code: 'INVALID_PARAMETER',
    },
    {
      name: 'renamed, and whatever names it follows',
      method: 'POST',
      url: `${orders}/columns/sku/rename`,
      body: { newName: 'ar/ti"kel' },
      status: 200,
      result: { name: 'ar/ti"kel', uri: '/api/v2/catalogs/default/databases/shop/tables/orders/columns/ar%2Fti%22kel' },
      afterwards: async (client) => {
        (await client.get(orders)).is(200, '0', { orderBy: ['ar/ti"kel'] });
        assert.equal((await client.rows('shop', 'SELECT "ar/ti""kel" FROM orders WHERE id = 1'))[0]?.[0], 'a');
      },
    },
    {
      name: 'renamed to one that is there',
      method: 'POST',
      url: `${orders}/columns/n/rename`,
      body: { newName: 'ID' },
      status: 400,
      code: 'OBJECT_ALREADY_EXISTS',
    },
    { name: 'a key column is not deleted', method: 'DELETE', url: `${orders}/columns/id`, status: 400, code: 'IN_USE' },
    {
      name: 'deleted, with its data',
      method: 'DELETE',
      url: `${orders}/columns/note`,
      status: 200,
      result: { deleted: true },
      afterwards: async (client) => void (await client.query('shop', 'SELECT note FROM orders')).is(400, 'SQL_INVALID'),
    },
    {
      name: 'found by type',
      method: 'POST',
      url: `${orders}/columns/search`,
      body: { type: 'long' },
      status: 200,
      result: { columns: [{ name: 'n' }] },
    },
    {
      name: 'found by comment and pattern',
      method: 'POST',
      url: `${orders}/columns/search`,
      body: { comment: 'COUN', namePattern: '_' },
      status: 200,
      result: { columns: [{ name: 'n' }] },
    },
  ],
);
