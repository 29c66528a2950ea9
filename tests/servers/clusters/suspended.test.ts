// A warehouse on a cluster is suspended and resumed by requests only.
import { after, before, describe, test } from 'node:test';
import { clusters, missingRing, type Ring, startRing } from '../../engines/clickhouse/ring/ring.ts';
import { start, type TestServer } from '../../server.ts';
import { availabilityIs, clusterSettings, registerAll, warehouses } from './cluster_server.ts';

describe('a warehouse on a cluster that is suspended', { skip: missingRing }, () => {
  let ring: Ring;
  let server: TestServer;
  const warehouse = `${warehouses}/cluster`;
  const query = () => server.post('/api/v2/catalogs/sales/query', { sql: 'SELECT 1' });
  before(async () => {
    [ring, server] = await Promise.all([startRing(1), start(clusterSettings)]);
    await registerAll(server, 'cluster', ring, clusters.copies);
    (await server.post('/api/v2/catalogs', { name: 'sales', warehouse: 'cluster' })).is(201);
  });
  after(async () => {
    await server?.close();
    await ring?.close();
  });

  const running = { state: 'running', health: { status: 'healthy' }, autoResume: null, autoSuspendSeconds: null };

  test('it refuses statements until it is resumed, and is not unhealthy meanwhile', async () => {
    (await server.get(warehouse)).is(200, '0', running);
    (await query()).is(200);
    const suspended = { state: 'suspended', health: { status: 'healthy', message: 'suspended' } };
    (await server.post(`${warehouse}/suspend`)).is(200, '0', suspended);
    (await query()).is(503, 'WAREHOUSE_SUSPENDED');
    (await server.get(warehouse)).is(200, '0', suspended);
    (await server.post(`${warehouse}/resume`)).is(200);
    (await query()).is(200);
    await availabilityIs(server, 'cluster', ['node1'], 'available');
    (await server.get(warehouse)).is(200, '0', running);
  });

  test('it has no fields that resume it by itself', async () => {
    for (const field of [{ autoResume: true }, { autoSuspendSeconds: 60 }])
      (await server.patch(warehouse, field)).is(400, 'INVALID_PARAMETER');
  });
});
