// Two warehouses whose clusters have the same server: a server has one database of a name, so a catalog is not moved from one to the other.
import { after, before, describe, test } from 'node:test';
import { clusters, missingRing, type Ring, startRing } from '../../engines/clickhouse/ring/ring.ts';
import { start, type TestServer } from '../../server.ts';
import { clusterSettings, registerAll } from './cluster_server.ts';

describe('a catalog in a warehouse whose server another one has, too', { skip: missingRing }, () => {
  let ring: Ring;
  let server: TestServer;
  const catalog = '/api/v2/catalogs/lake';
  before(async () => {
    [ring, server] = await Promise.all([startRing(1), start(clusterSettings)]);
    for (const name of ['shards', 'copies'] as const) await registerAll(server, name, ring, clusters[name]);
    (await server.post('/api/v2/catalogs', { name: 'lake', warehouse: 'shards' })).is(201);
    (await server.put(`${catalog}/databases/d`)).is(201);
    const columns = [{ name: 'id', type: 'BIGINT' }];
    (await server.post(`${catalog}/databases/d/tables`, { name: 't', columns })).is(201);
    (await server.post(`${catalog}/databases/d/tables/t/rows`, { rows: [[1], [2]] })).is(201);
  });
  after(async () => {
    await server?.close();
    await ring?.close();
  });

  test('is not moved there directly, which a dry run says, too', async () => {
    for (const dryRun of [true, false])
      (await server.post(`${catalog}/move`, { warehouse: 'copies', dryRun })).is(400, 'MOVE_NOT_POSSIBLE');
    (await server.get(catalog)).is(200, '0', { warehouse: 'shards', state: 'ready' });
  });

  test('is moved there by way of another warehouse', async () => {
    for (const warehouse of ['default', 'copies']) {
      const accepted = (await server.post(`${catalog}/move`, { warehouse, retainSeconds: 0 })).is(202);
      (await server.ended(accepted)).is(200, '0', { state: 'succeeded' });
    }
    const query = await server.post(`${catalog}/query`, { sql: 'SELECT sum(id) FROM d.t' });
    query.is(200, '0', { rows: [[3]] });
  });
});
