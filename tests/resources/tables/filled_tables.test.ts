// Tables created with their rows, by `asSelect` and by `clone`: types, keys, all or nothing, invisible until complete, with the privileges
// of the caller, as a task if it takes long.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { newPerson } from '../../access/people.ts';
import { type Reply, start, type TestServer, uri } from '../../server.ts';

let server: TestServer;
const shop = '/api/v2/databases/shop';
const tables = `${shop}/tables`;
const strange = 'a "b"; DROP';

before(async () => {
  server = await start({ taskRunnersMax: 1, warehouseThreads: 1 });
  for (const database of ['shop', 'other']) (await server.put(uri`/databases/${database}`)).is(201);
  const columns = [
    { name: 'id', type: 'BIGINT' },
    { name: 'note', type: 'VARCHAR(20)', defaultValue: "'new'", comment: 'free' },
    { name: strange, type: 'DECIMAL(9,2)' },
  ];
  const body = { name: 'orders', comment: 'all', columns, primaryKey: ['id'], unique_key_constraints: ['note'] };
  (await server.post(tables, body)).is(201);
  (await server.query('shop', "INSERT INTO orders VALUES (1, 'a', 1.5), (2, 'b', 2.25), (3, NULL, NULL)")).is(200);
});
after(() => server.close());

const rowsOf = (table: string, database = 'shop') => server.rows(database, `SELECT * FROM "${table}" ORDER BY 1`);
const columnsOf = (reply: Reply) =>
  reply.at<{ name: string; type: string }[]>('columns').map(({ name, type }) => `${name} ${type}`);
async function requireAbsent(name: string): Promise<void> {
  (await server.get(`${tables}/${name}`)).is(404, 'OBJECT_NOT_FOUND');
  (await server.query('shop', `SELECT * FROM ${name}`)).is(400, 'SQL_INVALID');
}

test('asSelect: names and types from the query, keys and comment from the body', async () => {
  const sql =
    'SELECT id, count(*) AS n, sum("a ""b""; DROP") AS total, DATE \'2026-01-31\' AS day, [id] AS list, {\'x\': note} AS s, id::UBIGINT AS u FROM orders WHERE id < $1 GROUP BY ALL; -- end';
  const body = { name: 'sums', comment: 'made', primaryKey: ['id'], asSelect: { sql, parameters: [3] } };
  const reply = (await server.post(tables, body)).is(201, '0', {
    comment: 'made',
    primaryKey: ['id'],
    created: true,
    statistics: { rowCount: 2 },
  });
  assert.deepEqual(
    columnsOf(reply),
    [
      'id BIGINT',
      'n BIGINT',
      'total DECIMAL(38,2)',
      'day DATE',
      'list ARRAY<BIGINT>',
      's STRUCT<x: STRING>',
      'u LARGEINT',
    ].with(5, 's STRUCT<x: STRING>'),
  );
  assert.deepEqual(await server.rows('shop', 'SELECT id, n, total, day, list, s, u FROM sums ORDER BY id'), [
    [1, 1, 1.5, '2026-01-31', [1], { x: 'a' }, 1],
    [2, 1, 2.25, '2026-01-31', [2], { x: 'b' }, 2],
  ]);
  (await server.post(tables, body)).is(400, 'OBJECT_ALREADY_EXISTS');
  (await server.put(`${tables}/sums`, body)).is(201, '0', { created: false });
  assert.equal((await rowsOf('sums')).length, 2);
});

const refused: readonly (readonly [string, object, string])[] = [
  ['a name that stands twice', { sql: 'SELECT id, id FROM orders' }, 'INVALID_PARAMETER'],
  ['a type that no table holds', { sql: "SELECT INTERVAL '1' DAY AS i" }, 'SQL_NOT_SUPPORTED'],
  ['what writes', { sql: 'DELETE FROM orders RETURNING id' }, 'SQL_NOT_SUPPORTED'],
  ['two statements', { sql: 'SELECT 1 AS a; SELECT 2' }, 'SQL_NOT_SUPPORTED'],
  ['what does not parse', { sql: 'SELEC 1' }, 'SQL_INVALID'],
  ['a bracket too many', { sql: 'SELECT 1 AS a) --' }, 'SQL_INVALID'],
  ['a table that is not there', { sql: 'SELECT * FROM none' }, 'SQL_INVALID'],
  ['files', { sql: "SELECT * FROM read_csv('/etc/passwd')" }, 'SQL_FORBIDDEN_FUNCTION'],
  ['a fault of a row', { sql: 'SELECT note::INT AS i FROM orders' }, 'SQL_INVALID'],
];
for (const [description, asSelect, code] of refused)
  test(`asSelect refuses ${description}, and leaves nothing`, async () => {
    (await server.post(tables, { name: 'fresh', asSelect })).is(400, code);
    await requireAbsent('fresh');
  });

test('rows that violate a key leave nothing, and the name is free', async () => {
  const asSelect = { sql: 'SELECT 1 AS k FROM orders' };
  (await server.post(tables, { name: 'fresh', primaryKey: ['k'], asSelect })).is(400, 'CONSTRAINT_VIOLATED');
  await requireAbsent('fresh');
  (await server.post(tables, { name: 'fresh', asSelect })).is(201, '0', { statistics: { rowCount: 3 } });
  (await server.delete(`${tables}/fresh`)).is(200, '0', { deleted: true });
});

test('the table is invisible before it is complete; cancelled, nothing is left', async () => {
  const asSelect = {
    sql: 'SELECT count(*) AS n FROM range(100000) a, range(10000000) b WHERE a.range * b.range % 7 = 3',
    waitSeconds: 0.3,
  };
  const accepted = (await server.post(tables, { name: 'slow', asSelect })).is(202, '0', {
    type: 'create_filled_table',
    target: '/api/v2/catalogs/default/databases/shop/tables/slow',
  });
  assert.notEqual(accepted.at('state'), 'succeeded');
  await requireAbsent('slow');
  (await server.query('shop', 'INSERT INTO slow VALUES (1)')).is(400, 'SQL_INVALID');
  assert.ok(!(await server.get(tables)).at<{ name: string }[]>('tables').some(({ name }) => name === 'slow'));
  (await server.post(tables, { name: 'slow', columns: [{ name: 'a', type: 'INT' }] })).is(503, 'CHANGE_IN_PROGRESS');
  (await server.post(accepted.at('cancelUri'))).is(200);
  (await server.ended(accepted)).is(200, '0', { state: 'cancelled' });
  await requireAbsent('slow');
  (await server.post(tables, { name: 'slow', columns: [{ name: 'a', type: 'INT' }] })).is(201);
});

test('asSelect as a task', async () => {
  const accepted = (
    await server.post(tables, { name: 'later', asSelect: { sql: 'SELECT * FROM orders', waitSeconds: 0 } })
  ).is(202);
  (await server.ended(accepted)).is(200, '0', { state: 'succeeded', result: { name: 'later', rowCount: 3 } });
  assert.deepEqual(await rowsOf('later'), await rowsOf('orders'));
});

test('clone: definition, rows and keys, also into another database; also without rows', async () => {
  const copy = (await server.post(`${tables}/orders/clone`, { newName: 'copy "1"' })).is(201, '0', {
    comment: 'all',
    primaryKey: ['id'],
    unique_key_constraints: ['note'],
    statistics: { rowCount: 3 },
    uri: `/api/v2/catalogs/default/databases/shop/tables/${encodeURIComponent('copy "1"')}`,
  });
  assert.deepEqual(columnsOf(copy), columnsOf(await server.get(`${tables}/orders`)));
  (await server.query('shop', `INSERT INTO "copy ""1""" VALUES (4, 'a', 1)`)).is(400, 'CONSTRAINT_VIOLATED');
  (await server.query('shop', `INSERT INTO "copy ""1""" VALUES (4, 'd', 1)`)).is(200);
  (await server.post(`${tables}/orders/clone`, { newName: 'orders', database: 'other' })).is(201);
  assert.deepEqual(await rowsOf('orders', 'other'), await rowsOf('orders'));
  (await server.post(`${tables}/orders/clone`, { newName: 'empty', rows: false })).is(201);
  assert.deepEqual(await rowsOf('empty'), []);
  (await server.post(`${tables}/orders/clone`, { newName: 'empty' })).is(400, 'OBJECT_ALREADY_EXISTS');
  (await server.post(`${tables}/orders/clone`, { newName: 'x', database: 'none' })).is(404, 'OBJECT_NOT_FOUND');
});

test('privileges: create on the parent, read on every source table, checked again when the task runs', async () => {
  const databaseTarget = '/catalogs/default/databases/shop';
  const use = ['use', '/warehouses/default'] as const;
  const maker = await newPerson(server, 'maker', [
    ['create', databaseTarget],
    ['read', `${databaseTarget}/tables/orders`],
    use,
  ]);
  (await maker.post(tables, { name: 'mine', asSelect: { sql: 'SELECT id FROM orders' } })).is(201, '0', {
    owner: 'maker',
  });
  (await maker.post(tables, { name: 'mine2', asSelect: { sql: 'SELECT * FROM sums' } })).is(403, 'FORBIDDEN');
  (await maker.post(`${tables}/orders/clone`, { newName: 'mine3' })).is(201, '0', { owner: 'maker' });
  (await maker.post(`${tables}/orders/clone`, { newName: 'x', database: 'other' })).is(403, 'FORBIDDEN');
  (await maker.post(`${tables}/sums/clone`, { newName: 'x' })).is(403, 'FORBIDDEN');
  const idlePerson = await newPerson(server, 'idle', [
    ['create', databaseTarget],
    ['read', `${databaseTarget}/tables/orders`],
  ]);
  (await idlePerson.post(tables, { name: 'x', asSelect: { sql: 'SELECT id FROM orders' } })).is(403, 'FORBIDDEN');
  // Data that the submitter may no longer read is not read by the task.
  const endless = 'SELECT count(*) AS n FROM range(100000) a, range(10000000) b WHERE a.range * b.range % 7 = 3';
  const runningInsert = await server.query('shop', endless, { waitSeconds: 0 });
  const accepted = (
    await maker.post(tables, { name: 'late', asSelect: { sql: 'SELECT note FROM orders', waitSeconds: 0 } })
  ).is(202);
  const grants = await server.get('/api/v2/users/maker/grants');
  const ownGrant = grants
    .at<{ uri: string; on: string }[]>('grants')
    .find(({ on: uri }) => uri.endsWith('/tables/orders'));
  (await server.delete(ownGrant?.uri as string)).is(200, '0', { deleted: true });
  (await server.post(runningInsert.at('cancelUri'))).is(200);
  (await server.ended(accepted)).is(200, '0', { state: 'failed', error: { code: 'FORBIDDEN' } });
  await requireAbsent('late');
});

test('an idempotency key creates it once', async () => {
  const headers = { 'x-service-idempotency-key': 'make-1' };
  const body = { name: 'once', asSelect: { sql: 'SELECT 1 AS a' } };
  const first = (await server.request('POST', tables, { body, headers })).is(201);
  assert.equal((await server.request('POST', tables, { body, headers })).is(201).text, first.text);
});
