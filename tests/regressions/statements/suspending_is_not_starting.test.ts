// A statement that was admitted while its warehouse was being suspended was answered that the warehouse
// is starting: its client would have retried immediately, and forever.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { start } from '../../server.ts';

test('statements that run or wait when a warehouse is suspended report that', async (t) => {
  const server = await start();
  t.after(() => server.close());
  const sql = 'SELECT count(*) FROM range(30000000) WHERE hash(range) % 7 = 0';
  for (let round = 0; round < 5; round++) {
    const requests = Array.from({ length: 6 }, (_, i) =>
      server.post('/api/v2/catalogs/default/query', { sql: `${sql} -- ${i}` }),
    );
    (await server.post('/api/v2/warehouses/default/suspend')).is(200);
    for (const reply of await Promise.all(requests))
      assert.ok(['0', 'WAREHOUSE_SUSPENDED'].includes(reply.code), reply.text);
    (await server.post('/api/v2/warehouses/default/resume')).is(200);
  }
});
