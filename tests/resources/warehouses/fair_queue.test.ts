// Long statements of one principal do not delay another principal.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { start } from '../../server.ts';

const endless = 'SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b';
const warehouse = '/api/v2/warehouses/default';

test('40 long statements of one principal do not keep another one waiting', async (t) => {
  const server = await start({ warehouseQueriesMax: 4, warehouseQueueMax: 100 });
  t.after(() => server.close());
  (await server.post('/api/v2/databases', { name: 'shop' })).is(201);
  (await server.post('/api/v2/users', { name: 'ada', password: 'correct horse battery' })).is(201);
  for (const [privilege, on] of Object.entries({ use: warehouse, read: '/api/v2/databases/shop' }))
    (await server.post('/api/v2/users/ada/grants', { privilege, on })).is(201);
  const headers = { authorization: `Basic ${Buffer.from('ada:correct horse battery').toString('base64')}` };
  const path = '/api/v2/databases/shop/query';
  const long = Array.from({ length: 40 }, () => server.request('POST', path, { body: { sql: endless }, headers }));
  const load = async () => {
    const { result } = await server.get(warehouse);
    return `${result.runningQueries} running, ${result.queuedQueries} queued`;
  };
  while ((await load()) !== '3 running, 37 queued') await sleep(20);
  (await server.query('shop', 'SELECT 1')).is(200);
  assert.equal(await load(), '3 running, 37 queued');
  // Ends all of them.
  (await server.patch('/api/v2/users/ada', { disabled: true })).is(200);
  for (const reply of await Promise.all(long)) reply.is(401, 'UNAUTHENTICATED');
  assert.equal(await load(), '0 running, 0 queued');
});
