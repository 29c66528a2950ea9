// A move to a cluster that is lost: its warehouse can be deleted all the same, and nothing of the move is left.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Services } from '../../../src/resources/records/handler_context.ts';
import { eventually } from '../../deadline.ts';
import { start, type TestServer } from '../../server.ts';
import { clusterHosts } from './cluster_warehouse.ts';
import { deployedUser } from './ring/deployed_user.ts';

const warehouse = '/api/v2/warehouses/cluster';
let server: TestServer;
let services: Services;
before(async () => {
  const assembled = (all: Services) => {
    services = all;
  };
  server = await start({ clusterHosts }, { assembled });
  (await server.post('/api/v2/catalogs', { name: 'lake' })).is(201);
  (await server.post('/api/v2/catalogs/lake/databases', { name: 'd' })).is(201);
});
after(() => server.close());

for (const dryRun of [false, true])
  test(`is ${dryRun ? 'tried' : 'begun'}, and ends without it`, async () => {
    (
      await server.post('/api/v2/warehouses', {
        name: 'cluster',
        engine: 'clickhouse',
        cluster: 'copies',
        ...deployedUser,
      })
    ).is(201);
    const accepted = (await server.post('/api/v2/catalogs/lake/move', { warehouse: 'cluster', dryRun })).is(202);
    (await server.delete(warehouse)).is(400, 'IN_USE', { tasks: [accepted.at('taskId')] });
    (await server.delete(`${warehouse}?cascade=true`)).is(200, '0', { deleted: true });
    const ended = await server.ended(accepted);
    assert.equal(ended.at('state'), 'failed');
    assert.equal(ended.at('error', 'code'), 'OBJECT_NOT_FOUND');
    await eventually(
      'the changes of the move have ended',
      async () => (await services.catalog.openIntents()).length === 0,
    );
    await eventually('the catalog can be changed', async () => {
      const changed = await server.patch('/api/v2/catalogs/lake', { comment: `after it: ${dryRun}` });
      return changed.status === 200;
    });
  });
