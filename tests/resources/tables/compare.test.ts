// `compare` of tables and views: what a definition would become, without changing anything.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createClient, errors } from '../../../src/client/index.ts';
import { start, type TestServer } from '../../server.ts';

let server: TestServer;
const shop = () => server.client.databases('shop');

before(async () => {
  server = await start();
  await server.client.databases.create({ name: 'shop' });
  await shop().tables.create({
    name: 'orders',
    columns: [
      { name: 'id', type: 'BIGINT' },
      { name: 'note', type: 'VARCHAR(10)' },
      { name: 'total', type: 'DECIMAL(10,2)' },
    ],
    primaryKey: ['id'],
  });
});
after(() => server.close());

test('a definition is returned as the record would have it, and nothing is created', async () => {
  const compared = await shop().tables.compare({
    sql: 'CREATE TABLE shop.items (id bigint PRIMARY KEY, price decimal(10,2) NOT NULL DEFAULT 1)',
  });
  assert.equal(compared.table, undefined);
  assert.equal(compared.cost, undefined);
  await assert.rejects(shop().tables('items').get(), errors.OBJECT_NOT_FOUND);
  await shop().tables.create({
    sql: 'CREATE TABLE shop.items (id bigint PRIMARY KEY, price decimal(10,2) NOT NULL DEFAULT 1)',
  });
  const created = await shop().tables('items').get();
  assert.deepEqual({ ...created, ...compared.definition }, created);
  const again = await shop().tables.compare({
    name: 'items',
    ...compared.definition,
    columns: bodies(compared.definition.columns),
  });
  assert.equal(again.cost, 'none');
  assert.equal(again.table?.version, created.version);
});

const bodies = (
  columns: readonly {
    readonly name: string;
    readonly type: string;
    readonly nullable: boolean;
    readonly defaultValue: string | null;
  }[],
) => columns.map(({ name, type, nullable, defaultValue }) => ({ name, type, nullable, defaultValue }));

test('the cost is that of the change, with renamed and retained columns', async () => {
  const before = await shop().tables('orders').get();
  const columns = [
    { name: 'id', type: 'bigint' },
    { name: 'remark', type: 'varchar(20)' },
    { name: 'at', type: 'DATE' },
  ];
  const request = { name: 'orders', columns, primaryKey: ['id'], renamedColumns: { note: 'remark', gone: 'nowhere' } };
  const retained = await shop().tables.compare({ ...request, keepColumns: true });
  assert.deepEqual(
    retained.definition.columns.map(({ name, type }) => [name, type]),
    [
      ['id', 'BIGINT'],
      ['remark', 'VARCHAR(20)'],
      ['total', 'DECIMAL(10,2)'],
      ['at', 'DATE'],
    ],
  );
  assert.deepEqual([retained.undeclaredColumns, retained.cost], [['total'], 'instant']);
  const dropped = await shop().tables.compare(request);
  assert.deepEqual(
    dropped.definition.columns.map(({ name }) => name),
    ['id', 'remark', 'at'],
  );
  await server.client.query("INSERT INTO shop.orders SELECT range, 'x', 1 FROM range(100000)").summary();
  assert.equal((await shop().tables.compare(request)).cost, 'rewrite');
  assert.equal((await shop().tables('orders').get()).version, before.version);
});

test('it fails as the change would, and shows what no table can change', async () => {
  const columns = [
    { name: 'id', type: 'INT' },
    { name: 'note', type: 'VARCHAR(10)' },
  ];
  await assert.rejects(
    shop().tables.compare({ name: 'orders', columns, primaryKey: ['id'] }),
    errors.CHANGE_NOT_SUPPORTED,
  );
  await assert.rejects(
    shop().tables.compare({ name: 'orders', sql: 'CREATE TABLE others (id INT)' }),
    errors.INVALID_PARAMETER,
  );
  const wrongDefault = [{ name: 'id', type: 'INT', defaultValue: 'no_such_function()' }];
  await assert.rejects(shop().tables.compare({ name: 'new', columns: wrongDefault }), errors.INVALID_PARAMETER);
  const { definition, table } = await shop().tables.compare({
    name: 'orders',
    columns: [{ name: 'id', type: 'BIGINT' }],
    keepColumns: true,
    orderBy: ['id'],
  });
  assert.deepEqual([definition.primaryKey, definition.orderBy], [[], ['id']]);
  assert.deepEqual([table?.primaryKey, table?.orderBy], [['id'], []]);
});

test('a definition in a database that does not exist yet is compared for the warehouse that will have it', async () => {
  const tables = server.client.databases('planned').tables;
  const request = { name: 'orders', columns: [{ name: 'id', type: 'bigint' }] };
  await assert.rejects(tables.compare(request), errors.OBJECT_NOT_FOUND);
  const { definition, table } = await tables.compare({ ...request, warehouse: 'default' });
  assert.deepEqual([definition.columns[0]?.type, table], ['BIGINT', undefined]);
  const there = server.client.catalogs('planned').databases('planned').tables;
  assert.deepEqual((await there.compare({ ...request, warehouse: 'default' })).definition, definition);
  await assert.rejects(there.compare({ ...request, warehouse: 'nowhere' }), errors.INVALID_PARAMETER);
  const wrong = { name: 'orders', columns: [{ name: 'id', type: 'no_type' }], warehouse: 'default' };
  await assert.rejects(there.compare(wrong), errors.INVALID_PARAMETER);
  // A reader of all catalogs who may not use the warehouse.
  const ann = await userNamed('ann');
  await server.client.users('ann').grants.create({ privilege: 'read', on: '/api/v2/catalogs' });
  await assert.rejects(
    ann
      .catalogs('planned')
      .databases('planned')
      .tables.compare({ ...request, warehouse: 'default' }),
    errors.FORBIDDEN,
  );
});

async function userNamed(name: string) {
  await server.client.users.create({ name });
  const { secret } = await server.client.users(name).tokens.create({ name: 'one' });
  return createClient({ url: server.url, token: String(secret) });
}

test('a caller who may not read a table does not learn of its definition', async () => {
  const eve = await userNamed('eve');
  const compared = eve.databases('shop').tables.compare({ name: 'orders', columns: [{ name: 'id', type: 'INT' }] });
  await assert.rejects(compared, errors.FORBIDDEN);
});

test('a view is compared by its query', async () => {
  const views = shop().views;
  const sql = 'CREATE VIEW big AS SELECT id FROM orders WHERE total > 10';
  assert.deepEqual(await views.compare({ sql }), { name: 'big', sql: 'SELECT id FROM orders WHERE total > 10' });
  const created = await views.create({ sql });
  const compared = await views.compare({ name: 'big', sql: 'SELECT 1' });
  assert.deepEqual([compared.sql, compared.view?.sql], ['SELECT 1', created.sql]);
  const renamed = await views.compare({ name: 'bigger', renamedFrom: 'big', sql: 'SELECT 2' });
  assert.deepEqual([renamed.name, renamed.view?.name], ['bigger', 'big']);
});
