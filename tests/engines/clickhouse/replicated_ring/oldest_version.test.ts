// The oldest version that warehouses may have, 24.8, with real replication: three servers and one ZooKeeper.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { start, type TestServer } from '../../../server.ts';
import {
  availabilityIs,
  backendsOf,
  clusterSettings,
  createWarehouse,
  register,
} from '../../../servers/clusters/cluster_server.ts';
import { clusterName, missingOldestVersion, type ReplicatedRing, startReplicatedRing } from './replicated_ring.ts';

const names = ['node1', 'node2', 'node3'];

async function ask(url: string | undefined, sql: string): Promise<string> {
  return (await (await fetch(url ?? '', { method: 'POST', body: sql })).text()).trim();
}

describe('a cluster of 24.8 that replicates', { skip: missingOldestVersion }, () => {
  const table = '/api/v2/catalogs/c/databases/d/tables/t';
  let ring: ReplicatedRing;
  let server: TestServer;
  const query = (sql: string) => server.post('/api/v2/catalogs/c/databases/d/query', { sql });

  before(async () => {
    const opened = startReplicatedRing({ version: '24.8', sessionMs: 4000 });
    [server, ring] = await Promise.all([start(clusterSettings), opened]);
    await createWarehouse(server, 'w', clusterName);
    for (const [index, node] of ring.servers.entries())
      (await register(server, 'w', names[index] as string, node)).is(201);
    await availabilityIs(server, 'w', names, 'available');
    (await server.post('/api/v2/catalogs', { name: 'c', warehouse: 'w' })).is(201);
    (await server.put('/api/v2/catalogs/c/databases/d')).is(201);
  });
  after(async () => {
    await server?.close();
    await ring?.close();
  });

  test('its servers are of the oldest version that warehouses may have', async () => {
    const { text } = (await server.get(`${backendsOf('w')}/node1`)).is(200);
    assert.match(text, /"engineVersion":"24\.8\./);
  });

  test('a table is replicated, and its exact values are on every server', async () => {
    const columns = [
      { name: 'id', type: 'BIGINT' },
      { name: 'price', type: 'DECIMAL(38,2)' },
      { name: 'at', type: 'DATETIME' },
    ];
    (await server.post('/api/v2/catalogs/c/databases/d/tables', { name: 't', columns })).is(201, '0', {
      replicationNum: 3,
    });
    const rows = '[[9007199254740993,1.50,"2024-01-01T00:00:00"],[2,2.25,"2024-01-02T00:00:00.000001"]]';
    (await server.post(`${table}/rows`, `{"rows":${rows}}`)).is(201);
    const { text } = (await query('SELECT id, price, at FROM t ORDER BY price')).is(200);
    assert.ok(text.replaceAll('\n', '').includes(rows), text);
    for (const { url } of ring.servers) assert.equal(await ask(url, 'SELECT count() FROM c__d.t__local'), '2');
    const replicas =
      "SELECT total_replicas, active_replicas, is_readonly FROM system.replicas WHERE database != '_tabularium'";
    assert.equal(await ask(ring.servers[0]?.url, replicas), '3\t3\t0');
  });

  test('rows are inserted while a server is killed, which has them when it counts again', async () => {
    await ring.servers[1]?.kill();
    await availabilityIs(server, 'w', ['node2'], 'unavailable');
    (await server.post(`${table}/rows`, { rows: [[3, '3.00', null]] })).is(201);
    (await query('INSERT INTO t (id, price) SELECT id + 100, price FROM t WHERE id < 10')).is(200);
    assert.deepEqual((await query('SELECT count(*) FROM t')).is(200).at('rows'), [[5]]);
    await ring.servers[1]?.start();
    await availabilityIs(server, 'w', ['node2'], 'available');
    assert.equal(await ask(ring.servers[1]?.url, 'SELECT count() FROM c__d.t__local'), '5');
  });

  test('rows are changed while a server is killed, which has the change when it counts again', async () => {
    await ring.servers[2]?.kill();
    await availabilityIs(server, 'w', ['node3'], 'unavailable');
    (await query('UPDATE t SET price = 7 WHERE id = 102')).is(200, '0', { rowCount: 1 });
    (await query('DELETE FROM t WHERE id = 103')).is(200, '0', { rowCount: 1 });
    await ring.servers[2]?.start();
    await availabilityIs(server, 'w', ['node3'], 'available');
    const rows = 'SELECT id, price FROM c__d.t__local WHERE id > 100 AND id < 1000 ORDER BY id';
    for (const { url } of ring.servers) assert.equal(await ask(url, rows), '102\t7');
  });

  test('rows are changed and a column is added on all servers', async () => {
    (await query('UPDATE t SET price = 5 WHERE id = 3')).is(200);
    (await server.post(`${table}/columns`, { name: 'note', type: 'STRING' })).is(201);
    assert.deepEqual((await query('SELECT price, note FROM t WHERE id = 3')).is(200).at('rows'), [[5, null]]);
  });
});
