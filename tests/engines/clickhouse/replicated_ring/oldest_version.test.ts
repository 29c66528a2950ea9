// The oldest version that warehouses may have, 24.8, with real replication: three servers and one ZooKeeper.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { HttpServer } from '../../../../src/engines/clickhouse/connection/http_server.ts';
import { reconcile } from '../../../../src/engines/clickhouse/replication/reconcile.ts';
import { eventually, statementWaitSeconds } from '../../../deadline.ts';
import { start, type TestServer } from '../../../server.ts';
import {
  availabilityIs,
  backendsOf,
  clusterSettings,
  createDatabase,
  registerAll,
} from '../../../servers/clusters/cluster_server.ts';
import { createTable, newTable, database as ordersDatabase, timeoutMs } from '../replication/replicated_tables.ts';
import {
  clusterName,
  missingOldestVersion,
  type ReplicatedRing,
  type RingServer,
  startReplicatedRing,
} from './replicated_ring.ts';
import { clientOf } from './ring_client.ts';

const names = ['node1', 'node2', 'node3'];
/** By default a server looks once a minute for a session that has expired. */
const writtenAgainMs = 25_000;

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
    await registerAll(server, 'w', { nodes: ring.servers }, clusterName);
    await createDatabase(server, 'w');
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

  test('rows are refused while Keeper is away, and taken soon after its return', async () => {
    const insert = (id: number) => server.post(`${table}/rows`, { rows: [[id, '1.00', null]] });
    await ring.zookeeper.kill();
    (await insert(500)).is(503, 'REPLICAS_UNAVAILABLE');
    const later = { name: 'later', columns: [{ name: 'id', type: 'INT' }] };
    (await server.post('/api/v2/catalogs/c/databases/d/tables', later)).is(503, 'REPLICAS_UNAVAILABLE');
    (await query('SELECT count(*) FROM t')).is(200);
    await ring.zookeeper.start();
    await eventually('rows are inserted', async () => (await insert(501)).status === 201, writtenAgainMs);
    (await query('DELETE FROM t WHERE id IN (500, 501)')).is(200);
    await availabilityIs(server, 'w', names, 'available');
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

  test('columns are added, stored and changed while a server is out of service, which has them when it counts again', async () => {
    const third = ring.servers[2];
    (await server.post(`${backendsOf('w')}/node3/disable`)).is(200);
    await third?.kill();
    (await server.post(`${table}/columns`, { name: 'tag', type: 'STRING' })).is(201);
    const stored = await server.post(`${table}/columns`, { name: 'level', type: 'INT', defaultValue: '7' });
    (await server.ended(stored.is(202))).is(200, '0', { state: 'succeeded' });
    const widened = await server.patch(`${table}/columns/level`, { type: 'BIGINT' });
    (await server.ended(widened.is(202))).is(200, '0', { state: 'succeeded' });
    // On whichever server it runs.
    const read = Array.from({ length: 6 }, () => query('SELECT level, tag FROM t WHERE id = 3'));
    for (const answer of await Promise.all(read)) assert.deepEqual(answer.is(200).at('rows'), [[7, null]]);
    await third?.start();
    (await server.post(`${backendsOf('w')}/node3/enable`)).is(200);
    await availabilityIs(server, 'w', ['node3'], 'available');
    const columns = `SELECT name, type FROM system.columns WHERE database = 'c__d' AND table = 't__local' AND name IN ('tag', 'level') ORDER BY name`;
    for (const { url } of ring.servers) {
      assert.equal(await ask(url, columns), 'level\tNullable(Int64)\ntag\tNullable(String)');
      assert.equal(await ask(url, 'SELECT uniqExact(level), any(level) FROM c__d.t__local'), '1\t7');
    }
  });

  test('a server that has lost its disk gets its tables again', async () => {
    const [, second] = ring.servers;
    await second?.kill();
    await availabilityIs(server, 'w', ['node2'], 'unavailable');
    second?.wipe();
    await second?.start();
    await availabilityIs(server, 'w', ['node2'], 'available');
    assert.equal(await ask(second?.url, 'SELECT count() FROM c__d.t__local'), '4');
  });

  test('a server that was away while a catalog got another name has its tables under that name', async () => {
    const third = ring.servers[2];
    (await server.post(`${backendsOf('w')}/node3/disable`)).is(200);
    (await server.post('/api/v2/catalogs/c/rename', { newName: 'renamed' })).is(200);
    (await server.post(`${backendsOf('w')}/node3/enable`)).is(200);
    await availabilityIs(server, 'w', ['node3'], 'available');
    assert.equal(await ask(third?.url, 'SELECT count() FROM renamed__d.t__local'), '4');
    const left = `SELECT count() FROM system.databases WHERE name = 'c__d'`;
    assert.equal(await ask(third?.url, left), '0');
    const sql = 'SELECT count(*) FROM t';
    const answer = await server.post('/api/v2/catalogs/renamed/databases/d/query', { sql });
    assert.deepEqual(answer.is(200).at('rows'), [[4]]);
  });

  test('a decommission drops what was dropped or got another name while the server was out of service', async () => {
    const third = ring.servers[2];
    const database = '/api/v2/catalogs/renamed/databases/d';
    const columns = [{ name: 'id', type: 'BIGINT' }];
    (await server.post(`${database}/tables`, { name: 'gone', columns })).is(201);
    (await server.post('/api/v2/catalogs', { name: 'purged', warehouse: 'w' })).is(201);
    (await server.put('/api/v2/catalogs/purged/databases/d')).is(201);
    for (const name of ['hidden', 'shown'])
      (await server.post('/api/v2/catalogs/purged/databases/d/tables', { name, columns })).is(201);
    (await server.delete('/api/v2/catalogs/purged/databases/d/tables/hidden')).is(200);
    (await server.post(`${backendsOf('w')}/node3/disable`)).is(200);
    (await server.delete('/api/v2/catalogs/purged?cascade=true&purge=true')).is(200);
    (await server.delete(`${database}/tables/gone?purge=true`)).is(200);
    (await server.post('/api/v2/catalogs/renamed/rename', { newName: 'again' })).is(200);
    const options = { drainSeconds: 1, timeoutSeconds: statementWaitSeconds(20) };
    const accepted = (await server.post(`${backendsOf('w')}/node3/decommission`, options)).is(202);
    (await server.ended(accepted)).is(200, '0', { state: 'succeeded' });
    const left = "SELECT database, table FROM system.replicas WHERE database != '_tabularium'";
    assert.equal(await ask(third?.url, left), '');
    assert.equal(await ask(third?.url, `SELECT count() FROM system.databases WHERE name = 'renamed__d'`), '0');
    (await server.post(`${backendsOf('w')}/node3/enable`)).is(200);
    await availabilityIs(server, 'w', ['node3'], 'available');
    assert.equal(await ask(third?.url, 'SELECT count() FROM again__d.t__local'), '4');
  });

  test('a server that loses its disk while a catalog is dropped has its tables when the catalog is restored', async () => {
    const second = ring.servers[1];
    (await server.delete('/api/v2/catalogs/again?cascade=true')).is(200);
    await second?.kill();
    await availabilityIs(server, 'w', ['node2'], 'unavailable');
    second?.wipe();
    await second?.start();
    await availabilityIs(server, 'w', ['node2'], 'available');
    (await server.post('/api/v2/catalogs/undrop', { name: 'again' })).is(200);
    assert.equal(await ask(second?.url, 'SELECT count() FROM again__d.t__local'), '4');
  });

  test('a catalog that was dropped while a server was out of service is created again', async () => {
    const [, second, third] = ring.servers;
    // Of another installation, which has taken it off its other server: its replica here is the only one.
    const others = '/tabularium/00000000-0000-4000-8000-000000000000/{shard}';
    for (const node of [second, third])
      for (const sql of [
        "CREATE DATABASE others__d COMMENT 'Tabularium catalog of another installation'",
        `CREATE TABLE others__d.t__local (i Int64) ENGINE = ReplicatedMergeTree('${others}', '{replica}') ORDER BY i`,
      ])
        assert.equal(await ask(node?.url, sql), '');
    assert.equal(await ask(second?.url, 'DROP DATABASE others__d SYNC'), '');
    (await server.post(`${backendsOf('w')}/node3/disable`)).is(200);
    (await server.delete('/api/v2/catalogs/again?cascade=true&purge=true')).is(200);
    (await server.post(`${backendsOf('w')}/node3/enable`)).is(200);
    await availabilityIs(server, 'w', ['node3'], 'available');
    (await server.post('/api/v2/catalogs', { name: 'again', warehouse: 'w' })).is(201);
    const database = '/api/v2/catalogs/again/databases/d';
    (await server.put(database)).is(201);
    const columns = [{ name: 'other', type: 'STRING' }];
    (await server.post(`${database}/tables`, { name: 't', columns })).is(201);
    (await server.post(`${database}/tables/t/rows`, { rows: [['new']] })).is(201);
    assert.equal(await ask(third?.url, 'SELECT other FROM again__d.t'), 'new');
    assert.equal(await ask(third?.url, 'SELECT count() FROM others__d.t__local'), '0');
  });

  test('a name that went from a purged catalog to a new one while a server was out of service is that of the new one there', async () => {
    const [first, , third] = ring.servers;
    const database = '/api/v2/catalogs/reused/databases/d';
    const create = async () => {
      (await server.post('/api/v2/catalogs', { name: 'reused', warehouse: 'w' })).is(201);
      (await server.put(database)).is(201);
    };
    const insert = async (column: string) => {
      const columns = [{ name: column, type: 'STRING' }];
      (await server.post(`${database}/tables`, { name: 't', columns })).is(201);
      (await server.post(`${database}/tables/t/rows`, { rows: [[column]] })).is(201);
    };
    await create();
    await insert('hidden');
    (await server.delete(`${database}/tables/t`)).is(200);
    await insert('before');
    (await server.post(`${backendsOf('w')}/node3/disable`)).is(200);
    (await server.delete('/api/v2/catalogs/reused?cascade=true&purge=true')).is(200);
    await create();
    // Of an unknown catalog: the error message reports it to the operator.
    (await server.put('/api/v2/catalogs/reused/databases/e')).is(201);
    await ask(third?.url, "CREATE DATABASE reused__e COMMENT 'Tabularium catalog of another installation'");
    (await server.post(`${backendsOf('w')}/node3/enable`)).is(200);
    await eventually('the database is named', async () => {
      const { text } = (await server.get(`${backendsOf('w')}/node3`)).is(200);
      return /"errorMessage":"the servers have a database \\"reused__e\\"/.test(text);
    });
    assert.equal(await ask(third?.url, 'DROP DATABASE reused__e SYNC'), '');
    await availabilityIs(server, 'w', ['node3'], 'available');
    await insert('after');
    assert.equal(await ask(third?.url, 'SELECT after FROM reused__d.t'), 'after');
    const stored =
      "SELECT name, comment FROM system.databases WHERE NOT match(name, '^_tabularium_(claim|aside)') AND name != 'others__d' ORDER BY 1";
    assert.equal(await ask(third?.url, stored), await ask(first?.url, stored));
    // Early builds created databases without a comment.
    (await server.post(`${backendsOf('w')}/node3/disable`)).is(200);
    for (const sql of [
      'CREATE DATABASE moving',
      'RENAME TABLE reused__d.t__local TO moving.t__local, reused__d.t TO moving.t',
      'DROP DATABASE reused__d SYNC',
      'RENAME DATABASE moving TO reused__d',
    ])
      assert.equal(await ask(third?.url, sql), '');
    (await server.post(`${backendsOf('w')}/node3/enable`)).is(200);
    await availabilityIs(server, 'w', ['node3'], 'available');
    assert.equal(await ask(third?.url, 'SELECT after FROM reused__d.t'), 'after');
    assert.equal(await ask(third?.url, stored), await ask(first?.url, stored));
    (await server.delete('/api/v2/catalogs/reused?cascade=true&purge=true')).is(200);
  });

  test('catalogs that exchanged their names while a server was out of service have their own databases there', async () => {
    const [first, , third] = ring.servers;
    // As long as they can be: what gets out of the way fits in the name of a file.
    const [one, two, long] = ['o', 't', 'd'].map((letter) => letter.repeat(100));
    (await server.post('/api/v2/catalogs/again/rename', { newName: one })).is(200);
    (await server.post('/api/v2/catalogs', { name: two, warehouse: 'w' })).is(201);
    (await server.put(`/api/v2/catalogs/${two}/databases/d`)).is(201);
    for (const name of [one, two]) (await server.put(`/api/v2/catalogs/${name}/databases/${long}`)).is(201);
    const columns = [{ name: 'id', type: 'BIGINT' }];
    (await server.post(`/api/v2/catalogs/${two}/databases/d/tables`, { name: 't', columns })).is(201);
    (await server.post(`${backendsOf('w')}/node3/disable`)).is(200);
    for (const [name, newName] of [
      [one, 'other'],
      [two, one],
      ['other', two],
    ])
      (await server.post(`/api/v2/catalogs/${name}/rename`, { newName })).is(200);
    (await server.post(`${backendsOf('w')}/node3/enable`)).is(200);
    await availabilityIs(server, 'w', ['node3'], 'available');
    assert.equal(await ask(third?.url, `SELECT other FROM ${two}__d.t`), 'new');
    assert.equal(await ask(third?.url, `SELECT count() FROM ${one}__d.t__local`), '0');
    const stored =
      "SELECT name, comment FROM system.databases WHERE match(name, '__d+$') AND name != 'others__d' ORDER BY 1";
    assert.equal(await ask(third?.url, stored), await ask(first?.url, stored));
  });

  test('what two servers of the product give back to a server at once is replicated', async () => {
    const tables = ['one', 'two', 'three'].map(newTable);
    const clients = await Promise.all(ring.servers.map(clientOf));
    const third = ring.servers[2] as RingServer;
    const peers = clients.slice(0, 2);
    for (const table of tables) await createTable(clients, table);
    for (let round = 0; round < 5; round++) {
      await ask(third.url, `DROP DATABASE ${ordersDatabase} SYNC`);
      const both = await Promise.all([third, third].map(clientOf));
      const isReconciled = async (client: HttpServer) =>
        reconcile(client, { peers, owns: ({ name }) => name === ordersDatabase, timeoutMs }).then(
          () => true,
          () => false,
        );
      await Promise.all(both.map((client) => eventually('it is reconciled', () => isReconciled(client), 30_000)));
      const replicated = `SELECT count() FROM system.replicas WHERE database = '${ordersDatabase}' AND NOT is_readonly`;
      await eventually('all of them are', async () => (await ask(third.url, replicated)) === '3');
    }
  });
});
