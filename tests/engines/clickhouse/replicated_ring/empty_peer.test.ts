// A server without tables counts while the one that has them is away: it was decommissioned before. When the other one returns, it keeps what the
// store defines, and the empty one gets it from there.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { eventually } from '../../../deadline.ts';
import { start, type TestServer } from '../../../server.ts';
import { availabilityIs, createDatabase, registerAll } from '../../../servers/clusters/cluster_server.ts';
import { clusterName, missingOldestVersion, type ReplicatedRing, startReplicatedRing } from './replicated_ring.ts';

const nodes = ['node1', 'node2'];
const backends = '/api/v2/warehouses/w/backends';
const database = '/api/v2/catalogs/c/databases/d';

describe('a server that returns to one without tables', { skip: missingOldestVersion }, () => {
  let ring: ReplicatedRing;
  let server: TestServer;
  before(async () => {
    ring = await startReplicatedRing({ version: '24.8', sessionMs: 10_000, shards: [1, 1] });
    server = await start({ clusterHosts: '127.0.0.1' });
    await registerAll(server, 'w', { nodes: ring.servers }, clusterName);
    await createDatabase(server, 'w');
    const columns = [{ name: 'id', type: 'BIGINT' }];
    for (const name of ['t', 'dropped']) (await server.post(`${database}/tables`, { name, columns })).is(201);
    (await server.post(`${database}/tables/t/rows`, { rows: [[1], [2], [3]] })).is(201);
    (await server.post(`${database}/views`, { name: 'v', sql: 'SELECT id FROM t' })).is(201);
  });
  after(async () => {
    await server?.close();
    await ring?.close();
  });

  test('could not be decommissioned in time while it refused to drop its tables', async () => {
    const [, second] = ring.servers;
    const ask = async (body: string) => assert.ok((await fetch(second?.url ?? '', { method: 'POST', body })).ok);
    await ask(`CREATE DICTIONARY default.uses (id UInt64) PRIMARY KEY id LAYOUT(HASHED()) LIFETIME(0)
      SOURCE(CLICKHOUSE(DB 'c__d' TABLE 't__local'))`);
    const refused = (await server.post(`${backends}/node2/decommission`, { drainSeconds: 0, timeoutSeconds: 3 })).is(
      202,
    );
    const ended = await server.ended(refused);
    assert.equal(ended.is(200).at('state'), 'failed');
    assert.equal(ended.at<{ code: string }>('error').code, 'DECOMMISSION_BLOCKED');
    await ask('DROP DICTIONARY default.uses');
    // A server of this version stops tables that it then refuses to drop, until it starts again.
    await second?.kill();
    await second?.start();
    await eventually(
      'it can be used again',
      async () => (await server.post(`${backends}/node2/enable`)).status === 200,
    );
    await availabilityIs(server, 'w', nodes, 'available');
  });

  test('keeps its tables, and the other one gets them', async () => {
    const decommissioned = (await server.post(`${backends}/node2/decommission`, { drainSeconds: 0 })).is(202);
    (await server.ended(decommissioned)).is(200, '0', { state: 'succeeded' });
    await ring.servers[0]?.kill();
    await availabilityIs(server, 'w', ['node1'], 'unavailable');
    (await server.post(`${backends}/node2/enable`)).is(200);
    await availabilityIs(server, 'w', ['node2'], 'available');
    await ring.servers[0]?.start();
    await eventually(
      'the rows are there',
      async () => {
        const reply = await server.post(`${database}/query`, { sql: 'SELECT id FROM v ORDER BY id' });
        if (reply.status === 503) return false;
        assert.deepEqual(reply.is(200).at('rows'), [[1], [2], [3]]);
        return true;
      },
      60_000,
    );
    await availabilityIs(server, 'w', nodes, 'available');
    for (const node of ring.servers)
      await eventually(
        `${node.url} has them`,
        async () => {
          const sql = 'SELECT count() FROM c__d.t__local';
          const response = await fetch(node.url, { method: 'POST', body: sql });
          return response.ok && (await response.text()).trim() === '3';
        },
        60_000,
      );
    for (const node of ring.servers) {
      const body = "SELECT comment FROM system.databases WHERE name = 'c__d'";
      const response = await fetch(node.url, { method: 'POST', body });
      assert.match(await response.text(), /^Tabularium catalog /, 'its database is that of the catalog');
    }
    (await server.delete(`${database}/tables/dropped`)).is(200);
    (await server.post(`${database}/tables/t/rows`, { rows: [[4]] })).is(201);
  });
});
