// Two servers on one store and one engine that both reach: each serves every request for its warehouses itself, and what one of them
// changes holds on the other.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Client } from 'pg';
import { eventually, statementWaitSeconds } from '../deadline.ts';
import { type EngineServer, startEngineServer } from '../engines/sqlite/sqlite.ts';
import { missingPostgresql } from '../postgresql.ts';
import { endOfTask, type ServerProcess } from '../server.ts';
import { kill, newPlaces, type Places } from './two_servers.ts';

const shop = '/api/v2/catalogs/common/databases/shop';
const orders = `${shop}/tables/orders`;
const columns = [
  { name: 'id', type: 'BIGINT' },
  { name: 'note', type: 'STRING' },
];
const wait = { waitSeconds: statementWaitSeconds() };

describe('an engine that all servers reach', { skip: missingPostgresql }, () => {
  let engine: EngineServer;
  let places: Places;
  let one: ServerProcess;
  let two: ServerProcess;
  before(async () => {
    engine = await startEngineServer();
    places = await newPlaces(engine.port);
    one = await places.one.start();
    two = await places.two.start();
    (await one.post('/api/v2/warehouses', { name: 'shared', engine: 'sqlite' })).is(201);
    await eventually('the second server knows the warehouse', async () => {
      const { status } = await two.get('/api/v2/warehouses/shared/backends');
      return status === 200;
    });
    (await two.post('/api/v2/catalogs', { name: 'common', warehouse: 'shared' })).is(201);
    (await two.put(shop)).is(201);
    (await two.post(`${shop}/tables`, { name: 'orders', columns })).is(201);
    await eventually('the first server knows the table', async () => (await one.get(orders)).status === 200);
  });
  after(async () => {
    await one?.close();
    await two?.close();
    engine?.child.kill('SIGKILL');
    places?.remove();
  });

  const query = (server: ServerProcess, sql: string, more: object = {}) =>
    server.post(`${shop}/query`, { sql, ...wait, ...more });
  const rowsThrough = async (server: ServerProcess, sql: string): Promise<unknown[][]> =>
    (await query(server, sql)).is(200).at('rows');

  test('rows that one server inserts, updates and deletes are those of the other', async () => {
    (await one.post(`${orders}/rows`, { rows: [{ id: 1, note: 'a' }] })).is(201);
    (await two.post(`${orders}/rows`, { rows: [{ id: 2, note: 'b' }] })).is(201);
    (await query(one, "UPDATE orders SET note = 'c' WHERE id = 2")).is(200);
    (await query(two, 'DELETE FROM orders WHERE id = 1')).is(200);
    for (const server of [one, two])
      assert.deepEqual(await rowsThrough(server, 'SELECT id, note FROM orders'), [[2, 'c']]);
  });

  test('no positions of files are recorded for its catalogs, which are not files of a server', async () => {
    (await one.post(`${orders}/rows`, { rows: [{ id: 3, note: 'd' }] })).is(201);
    const client = new Client(places.storeUrl);
    await client.connect();
    try {
      const { rows } = await client.query(
        `select o.name from catalog_files f join objects o on o.id = f.catalog_id where o.name = 'common'`,
      );
      assert.deepEqual(rows, []);
    } finally {
      await client.end();
    }
    (await query(one, 'DELETE FROM orders WHERE id = 3')).is(200);
  });

  test('a stored result is read through either server, whichever ran its task', async () => {
    const insert = 'WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) SELECT i FROM n';
    (await query(one, `INSERT INTO orders (id) ${insert}`)).is(200);
    for (const server of [one, two]) {
      const accepted = await query(server, 'SELECT id FROM orders ORDER BY id', { waitSeconds: 0 });
      const uri = accepted.is(202).at<string>('uri');
      const task = (await endOfTask(server, uri)).is(200, '0', { state: 'succeeded' });
      for (const reader of [one, two]) {
        await eventually(
          'the end of the task is known',
          async () => (await reader.get(uri)).at('state') === 'succeeded',
        );
        const firstPage = (await reader.get(uri)).at<string>('firstPage');
        assert.equal((await reader.get(firstPage)).is(200).at<unknown[]>('rows').length, 3001, task.text);
      }
    }
  });

  test('a warehouse that one server suspends and resumes is so on the other', async () => {
    const answerOf = async (server: ServerProcess) => (await query(server, 'SELECT 1')).code;
    (await one.post('/api/v2/warehouses/shared/suspend')).is(200);
    for (const server of [one, two])
      await eventually('it is suspended', async () => (await answerOf(server)) === 'WAREHOUSE_SUSPENDED');
    (await two.post('/api/v2/warehouses/shared/resume')).is(200);
    for (const server of [one, two]) await eventually('it is resumed', async () => (await answerOf(server)) === '0');
  });

  test('requests need neither the server that created the warehouse nor any other', async () => {
    await kill(one);
    assert.deepEqual(await rowsThrough(two, 'SELECT count(*) FROM orders'), [[3001]]);
    (await two.post(`${orders}/columns`, { name: 'price', type: 'DOUBLE' })).is(201);
    (await two.post(`${orders}/rows`, { rows: [{ id: 5000, note: 'd', price: 1.5 }] })).is(201);
    one = await places.one.start();
    assert.deepEqual(await rowsThrough(one, 'SELECT price FROM orders WHERE id = 5000'), [[1.5]]);
  });

  // The last one: the engine cannot stop the statement.
  test('a task shows the statement that it runs through either server', async () => {
    (await one.put(`${shop}/tables/numbers`, { columns })).is(201);
    const rows = Array.from({ length: 3000 }, (_, id) => ({ id, note: '' }));
    (await one.post(`${shop}/tables/numbers/rows`, { rows })).is(201);
    const sql = 'SELECT count(*) FROM numbers a, numbers b, numbers c WHERE a.id * b.id % 7 = c.id % 3';
    const uri = (await query(one, sql, { waitSeconds: 0 })).is(202).at<string>('uri');
    const queryIds: string[] = [];
    for (const reader of [one, two]) {
      const queryId = await eventually('the statement of the task is known', async () => {
        const task = (await reader.get(uri)).is(200, '0', { endedAt: null }).result as { queryId?: string };
        return task.queryId;
      });
      const listed = (await reader.get('/api/v2/tasks')).is(200).at<{ uri: string; queryId?: string }[]>('tasks');
      queryIds.push(queryId, listed.find((task) => task.uri === uri)?.queryId ?? 'none');
    }
    assert.equal(new Set(queryIds).size, 1, queryIds.join(' '));
  });
});
