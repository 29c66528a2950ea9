// What /metrics shows of the backends of a cluster: whether they respond, what they run, and when they last did.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { eventually } from '../../deadline.ts';
import { clusters, missingRing, type Ring, startRing } from '../../engines/clickhouse/ring/ring.ts';
import { start, type TestServer } from '../../server.ts';
import { availabilityIs, backendsOf, clusterSettings, registerAll } from './cluster_server.ts';

describe('metrics of the backends of a cluster', { skip: missingRing }, () => {
  let ring: Ring;
  let server: TestServer;
  before(async () => {
    [ring, server] = await Promise.all([startRing(2), start(clusterSettings)]);
    await registerAll(server, 'cluster', ring, clusters.copies);
    (await server.post('/api/v2/catalogs', { name: 'sales', warehouse: 'cluster' })).is(201);
  });
  after(async () => {
    await server?.close();
    await ring?.close();
  });

  /** Undefined if there is no such sample. */
  async function measured(metric: string, backend: string): Promise<number | undefined> {
    const { status, text } = await server.send('GET', '/metrics');
    assert.equal(status, 200, text);
    const line = new RegExp(`^tabularium_backend_${metric}\\{warehouse="cluster",backend="${backend}"\\} (\\S+)$`, 'm');
    const found = line.exec(text);
    return found ? Number(found[1]) : undefined;
  }

  const becomes = (metric: string, backend: string, isReached: (value: number | undefined) => boolean) =>
    eventually(`${metric} of ${backend}`, async () => isReached(await measured(metric, backend)));

  test('a backend that responds is up, and its last heartbeat is recent', async () => {
    for (const backend of ['node1', 'node2']) {
      assert.equal(await measured('up', backend), 1);
      assert.equal(await measured('queries', backend), 0);
      assert.ok(((await measured('heartbeat_age_seconds', backend)) ?? -1) >= 0);
    }
    assert.equal(await measured('up', 'node3'), undefined);
  });

  test('a statement is counted where it runs', async () => {
    const shop = '/api/v2/catalogs/sales/databases/shop';
    (await server.put(shop)).is(201);
    (await server.post(`${shop}/tables`, { name: 'n', columns: [{ name: 'id', type: 'BIGINT' }] })).is(201);
    const rows = Array.from({ length: 1000 }, (_, id) => ({ id }));
    (await server.post(`${shop}/tables/n/rows`, { rows })).is(201);
    // It ends only when it is cancelled.
    const sql =
      'SELECT count(*) FROM n a CROSS JOIN n b CROSS JOIN n c CROSS JOIN n d WHERE a.id + b.id + c.id + d.id < 0';
    const accepted = (await server.post(`${shop}/query`, { sql, waitSeconds: 0 })).is(202);
    await eventually('the statement is counted', async () => {
      const counts = [await measured('queries', 'node1'), await measured('queries', 'node2')];
      return counts.some((count) => count !== undefined && count > 0);
    });
    (await server.post(`${accepted.at('uri')}/cancel`)).is(200);
    await server.ended(accepted);
  });

  test('a disabled backend is not up, and neither is one that ended', async () => {
    (await server.post(`${backendsOf('cluster')}/node1/disable`)).is(200);
    assert.equal(await measured('up', 'node1'), 0);
    (await server.post(`${backendsOf('cluster')}/node1/enable`)).is(200);
    await availabilityIs(server, 'cluster', ['node1'], 'available');
    assert.equal(await measured('up', 'node1'), 1);
    await ring.nodes[1]?.kill();
    await becomes('up', 'node2', (up) => up === 0);
    const before = (await measured('heartbeat_age_seconds', 'node2')) ?? 0;
    await becomes('heartbeat_age_seconds', 'node2', (age) => (age ?? 0) > before);
    assert.equal(await measured('up', 'node1'), 1);
  });
});
