// Tables changed by PATCH and by actions: the effects on the definition and on the rows. See columns.test.ts for changes of
// single columns.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { start, type TestServer } from '../../server.ts';
import { scenarios } from '../scenario.ts';

let server: TestServer;
const tables = '/api/v2/databases/shop/tables';
const orders = `${tables}/orders`;
before(async () => {
  server = await start();
  (await server.put('/api/v2/users/ann')).is(201);
  (await server.put('/api/v2/databases/shop')).is(201);
  const columns = [
    { name: 'id', type: 'INT' },
    { name: 'sku', type: 'VARCHAR(3)', comment: 'article' },
    { name: 'n', type: 'SMALLINT', defaultValue: 7 },
  ];
  (await server.post(tables, { name: 'orders', columns, primaryKey: ['id'], orderBy: ['sku'] })).is(201);
  const rows = [
    [1, 'a', 1],
    [2, 'b', 2],
    [3, 'b', null],
  ];
  (await server.post(`${orders}/rows`, { rows })).is(201);
});
after(() => server.close());

const all = (instance: TestServer) => instance.rows('shop', 'SELECT * FROM orders ORDER BY id');
const id = { name: 'id', type: 'INT' };
const sku = { name: 'sku', type: 'VARCHAR(3)', comment: 'article' };
const n = { name: 'n', type: 'SMALLINT', defaultValue: 7 };

scenarios(
  () => server,
  [
    { name: 'nothing to change', method: 'PATCH', url: orders, body: {}, status: 400, code: 'EMPTY_BODY' },
    {
      name: 'a field that is none',
      method: 'PATCH',
      url: orders,
      body: { comment: 'x', uniqueKeyConstraints: ['sku'] },
      status: 400,
      code: 'UNKNOWN_FIELD',
      pointer: '/uniqueKeyConstraints',
    },
    {
      name: 'what is fixed when the table is made',
      method: 'PATCH',
      url: orders,
      body: { primaryKey: ['sku'] },
      status: 400,
      code: 'UNKNOWN_FIELD',
    },
    {
      name: 'description and owner',
      method: 'PATCH',
      url: orders,
      body: { comment: 'All', properties: { a: '1' }, owner: 'ann', expectedVersion: 1 },
      status: 200,
      result: { comment: 'All', properties: { a: '1' }, owner: 'ann', version: 2 },
    },
    {
      name: 'null clears',
      method: 'PATCH',
      url: orders,
      body: { comment: null, properties: null },
      status: 200,
      result: { comment: null, properties: {}, owner: 'ann', version: 3 },
    },
    {
      name: 'a version that is past',
      method: 'PATCH',
      url: orders,
      body: { comment: 'late', expectedVersion: 1 },
      status: 400,
      code: 'VERSION_CONFLICT',
      afterwards: async (client) => void (await client.get(orders)).is(200, '0', { comment: null }),
    },
    {
      name: 'a unique key that the data breaks: a sample of the keys',
      method: 'PATCH',
      url: orders,
      body: { unique_key_constraints: ['sku'] },
      status: 400,
      code: 'CONSTRAINT_VIOLATED',
      contains: ['"b"'],
      afterwards: async (client) =>
        void (await client.get(orders)).is(200, '0', { unique_key_constraints: [], version: 3 }),
    },
    {
      name: 'a unique key that it keeps',
      method: 'PATCH',
      url: orders,
      body: { unique_key_constraints: ['sku', 'n'] },
      status: 200,
      result: { unique_key_constraints: ['sku', 'n'] },
      afterwards: async (client) => {
        const reply = await client.post(`${orders}/rows`, { rows: [[9, 'a', 1]] });
        reply.is(400, 'CONSTRAINT_VIOLATED');
        assert.equal((await all(client)).length, 3);
      },
    },
    {
      name: 'a unique key on a missing column',
      method: 'PATCH',
      url: orders,
      body: { unique_key_constraints: ['nothing'] },
      status: 400,
      code: 'INVALID_PARAMETER',
      pointer: '/unique_key_constraints/0',
    },
    {
      name: 'null takes the unique key away',
      method: 'PATCH',
      url: orders,
      body: { unique_key_constraints: null },
      status: 200,
      result: { unique_key_constraints: [] },
      afterwards: async (client) => {
        (await client.post(`${orders}/rows`, { rows: [[9, 'a', 1]] })).is(201);
        (await client.query('shop', 'DELETE FROM orders WHERE id = 9')).is(200, '0', { rowCount: 1 });
      },
    },
    {
      name: 'columns: one added, one changed, one dropped, in another order',
      method: 'PATCH',
      url: orders,
      body: {
        columns: [{ name: 'new', type: 'STRING', defaultValue: "'x'" }, { ...sku, type: 'STRING', comment: null }, id],
      },
      status: 200,
      result: {
        columns: [
          { name: 'new', position: 1, defaultValue: "'x'" },
          { name: 'sku', position: 2, type: 'STRING', comment: null },
          { name: 'id', position: 3, isKey: true, nullable: false },
        ],
      },
      afterwards: async (client) =>
        assert.deepEqual(await client.rows('shop', 'SELECT new, sku, id FROM orders ORDER BY id'), [
          ['x', 'a', 1],
          ['x', 'b', 2],
          ['x', 'b', 3],
        ]),
    },
    {
      name: 'rows as arrays follow the order of the columns',
      method: 'POST',
      url: `${orders}/rows`,
      body: { rows: [['y', 'c', 4]] },
      status: 201,
      afterwards: async (client) =>
        assert.deepEqual((await client.rows('shop', 'SELECT * FROM orders WHERE id = 4'))[0], ['y', 'c', 4]),
    },
    {
      name: 'a column of the primary key is not dropped',
      method: 'PATCH',
      url: orders,
      body: { columns: [sku] },
      status: 400,
      code: 'IN_USE',
      result: { column: 'id', usedBy: ['primaryKey'] },
    },
    {
      name: 'nor one of the order',
      method: 'PATCH',
      url: orders,
      body: { columns: [id] },
      status: 400,
      code: 'IN_USE',
      result: { column: 'sku' },
    },
    {
      name: 'a type that is narrower',
      method: 'PATCH',
      url: orders,
      body: {
        columns: [
          { name: 'id', type: 'TINYINT' },
          { name: 'sku', type: 'STRING' },
        ],
      },
      status: 400,
      code: 'CHANGE_NOT_SUPPORTED',
      result: { from: 'INT', to: 'TINYINT' },
    },
    {
      name: 'no columns at all',
      method: 'PATCH',
      url: orders,
      body: { columns: [] },
      status: 400,
      code: 'INVALID_PARAMETER',
      pointer: '/columns',
    },
    {
      name: 'a column twice',
      method: 'PATCH',
      url: orders,
      body: { columns: [id, { name: 'sku', type: 'STRING' }, { name: 'SKU', type: 'STRING' }] },
      status: 400,
      code: 'INVALID_PARAMETER',
      pointer: '/columns/2/name',
    },
    {
      name: 'back to fewer columns',
      method: 'PATCH',
      url: orders,
      body: { columns: [id, { name: 'sku', type: 'STRING' }, n] },
      status: 200,
      afterwards: async (client) => assert.deepEqual((await all(client))[3], [4, 'c', 7]),
    },
    // actions of the table
    {
      name: 'renamed, with its rows',
      method: 'POST',
      url: `${orders}/rename`,
      body: { newName: 'select' },
      status: 200,
      result: { name: 'select' },
      afterwards: async (client) => {
        (await client.get(orders)).is(404, 'OBJECT_NOT_FOUND');
        assert.equal((await client.rows('shop', 'SELECT count(*) FROM "select"'))[0]?.[0], 4);
        (await client.query('shop', 'SELECT 1 FROM orders')).is(400, 'SQL_INVALID');
      },
    },
    {
      name: 'truncated',
      method: 'POST',
      url: `${tables}/select/truncate`,
      status: 200,
      result: { statistics: { rowCount: 0 } },
      afterwards: async (client) => assert.deepEqual(await client.rows('shop', 'SELECT * FROM "select"'), []),
    },
    {
      name: 'deleted',
      method: 'DELETE',
      url: `${tables}/select`,
      status: 200,
      result: { deleted: true },
      afterwards: async (client) => {
        (await client.query('shop', 'SELECT 1 FROM "select"')).is(400, 'SQL_INVALID');
        (await client.get('/api/v2/databases/shop')).is(200, '0', { tableCount: 0 });
      },
    },
  ],
);

test('a change that rewrites data can be a task; either way it is applied, and nothing is lost', async () => {
  (
    await server.post(tables, {
      name: 'big',
      columns: [
        { name: 'a', type: 'INT' },
        { name: 'b', type: 'STRING' },
      ],
    })
  ).is(201);
  (await server.query('shop', "INSERT INTO big SELECT range, 'x' || range FROM range(300000)")).is(200, '0', {
    rowCount: 300_000,
  });
  const body = {
    columns: [
      { name: 'b', type: 'STRING' },
      { name: 'a', type: 'BIGINT' },
    ],
    unique_key_constraints: ['a'],
  };
  const reply = await server.patch(`${tables}/big`, body);
  if (reply.status === 202) (await server.ended(reply)).is(200, '0', { state: 'succeeded', type: 'alter_table' });
  else reply.is(200);
  (await server.get(`${tables}/big`)).is(200, '0', {
    ...body,
    columns: [{ name: 'b' }, { name: 'a', type: 'BIGINT' }],
    state: 'ready',
  });
  assert.deepEqual(await server.rows('shop', 'SELECT count(*), sum(a), count(DISTINCT b) FROM big'), [
    [300000, 44999850000, 300000],
  ]);
});
