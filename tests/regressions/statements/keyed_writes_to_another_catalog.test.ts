// A statement that was sent to one catalog and writes to another could not be applied exactly once: the engine recorded its step
// in the catalog that it was sent to, and a transaction writes to one file. With an idempotency key, or as a task, it was always answered
// WAREHOUSE_BUSY.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { start } from '../../server.ts';

test('a keyed statement, and a task, write to another catalog than the one that they are sent to', async (t) => {
  const server = await start();
  t.after(() => server.close());
  await server.client.databases.create({ name: 'd' });
  await server.client.catalogs.create({ name: 'other' });
  await server.client.catalogs('other').databases.create({ name: 'd' });
  const table = { name: 't', columns: [{ name: 'n', type: 'INT' }] };
  await server.client.catalogs('other').databases('d').tables.create(table).done();
  const sql = 'INSERT INTO other.d.t VALUES (1)';
  for (let i = 0; i < 2; i++) {
    const options = { body: { sql }, headers: { 'x-service-idempotency-key': 'once' } };
    (await server.request('POST', '/api/v2/databases/d/query', options)).is(200, '0', { rowCount: 1 });
  }
  const task = await server.ended(await server.query('d', sql, { waitSeconds: 0 }));
  assert.deepEqual([task.at('state'), task.at('error')], ['succeeded', null]);
  assert.deepEqual(await server.rows('d', 'SELECT count(*) FROM other.d.t'), [[2]]);
});
