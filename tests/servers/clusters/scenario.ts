// The whole way through the API on a real cluster: warehouse, backends, catalog, database, table, rows, query; a server that is killed, frozen,
// disabled or decommissioned; and the 503 conditions, which recover by themselves.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { eventually } from '../../deadline.ts';
import { clusters, missingRing, type Ring, startRing } from '../../engines/clickhouse/ring/ring.ts';
import { start, type TestServer } from '../../server.ts';
import { availabilityIs, backendsOf, clusterSettings, registerAll, warehouses } from './cluster_server.ts';

const columns = [
  { name: 'id', type: 'BIGINT' },
  { name: 'note', type: 'STRING' },
];
const rows = Array.from({ length: 300 }, (_, id) => ({ id, note: `note ${id}` }));
const count = 'SELECT count(*), sum(id) FROM orders';
const all = [[300, 44_850]];

/** Defines the tests on a ring of its own. */
export const scenarioOn = (kind: 'shards' | 'copies'): void =>
  void describe(`a catalog on three ${kind}`, { skip: missingRing }, () => {
    let ring: Ring;
    let server: TestServer;
    const shop = `/api/v2/catalogs/${kind}/databases/shop`;
    const orders = `${shop}/tables/orders`;
    const backups = mkdtempSync(join(tmpdir(), 'tabularium-backups-'));
    before(async () => {
      const settings = { ...clusterSettings, backupDirectories: backups };
      [ring, server] = await Promise.all([startRing(3), start(settings)]);
      await registerAll(server, kind, ring, clusters[kind]);
      (await server.post('/api/v2/catalogs', { name: kind, warehouse: kind })).is(201);
      (await server.put(shop)).is(201);
    });
    after(async () => {
      await server?.close();
      await ring?.close();
      rmSync(backups, { recursive: true, force: true });
    });
    const node = (index: number) => {
      const found = ring.nodes[index];
      assert.ok(found);
      return found;
    };
    const query = (sql: string) => server.post(`${shop}/query`, { sql });
    const isAnswered = async () => assert.deepEqual((await query(count)).is(200).at('rows'), all);
    const missing = (backend: number) =>
      kind === 'shards' ? { tables: [`${kind}.shop.orders`], tablets: [{ tabletId: String(backend) }] } : undefined;

    test('a table is created with the replicas of the cluster, filled and read', async () => {
      const replicas = kind === 'copies' ? 3 : 1;
      const body = { name: 'orders', columns };
      (await server.post(`${shop}/tables`, { ...body, replicationNum: replicas + 1 })).is(400, 'INVALID_PARAMETER');
      (await server.post(`${shop}/tables`, body)).is(201, '0', { replicationNum: replicas });
      (await server.post(`${orders}/rows`, { rows })).is(201);
      await isAnswered();
      const tablets = (await server.get(`${orders}/tablets`)).is(200).at<object[]>('tablets');
      assert.equal(tablets.length, kind === 'copies' ? 1 : 3);
      (await server.get(`${orders}/tablets/1`)).is(200, '0', {
        replicaCount: replicas,
        availableReplicaCount: replicas,
        state: 'available',
      });
    });

    test('an UPDATE computes values that differ from server to server only where rows have no copies', async () => {
      for (const [sql, name] of [
        ['UPDATE orders SET note = toString(NOW()) WHERE id = -1', 'NOW'],
        ["UPDATE orders SET note = 'x' WHERE id = -1 - rand()", 'rand'],
        ['DELETE FROM orders WHERE id < 0 AND toString(generateUUIDv4()) = note', 'generateUUIDv4'],
      ] as const) {
        const reply = await query(sql);
        if (kind === 'shards') reply.is(200, '0', { rowCount: 0 });
        else assert.match(reply.is(400, 'SQL_NOT_SUPPORTED').message, new RegExp(`cannot use ${name} `));
      }
    });

    test('it is backed up with its views, by a server that has the store alone, and restored', async () => {
      (await server.put(`${shop}/views/few`, { sql: 'SELECT id FROM orders WHERE id < 10' })).is(201);
      const from = { path: backups };
      const backedUp = await server.ended(await server.post(`/api/v2/catalogs/${kind}/backup`, { to: from }));
      backedUp.is(200, '0', { state: 'succeeded', result: { tables: 1, rows: 300 } });
      const body = { name: 'again', warehouse: kind, from };
      const restored = await server.ended(await server.post('/api/v2/catalogs/restore', body));
      restored.is(200, '0', { state: 'succeeded', result: { tables: 1, views: 1, rows: 300 } });
      const again = (sql: string) => server.post('/api/v2/catalogs/again/databases/shop/query', { sql });
      assert.deepEqual((await again(count)).is(200).at('rows'), all);
      assert.deepEqual((await again('SELECT count(*) FROM few')).is(200).at('rows'), [[10]]);
      const copies = kind === 'copies' ? 3 : 1;
      (await server.get('/api/v2/catalogs/again/databases/shop/tables/orders')).is(200, '0', {
        replicationNum: copies,
      });
      (await server.delete('/api/v2/catalogs/again?cascade=true&purge=true')).is(200);
      (await server.delete(`${shop}/views/few?purge=true`)).is(200);
    });

    for (const [how, stop, back] of [
      ['killed', (index: number) => node(index).kill(), (index: number) => node(index).start()],
      ['frozen', async (index: number) => node(index).freeze(), async (index: number) => node(index).resume()],
    ] as const)
      test(`a server is ${how}: copies continue, shards name the tablet, and it clears`, async () => {
        const index = how === 'killed' ? 1 : 2;
        const name = `node${index + 1}`;
        await stop(index);
        try {
          await availabilityIs(server, kind, [name], 'unavailable');
          if (kind === 'copies') for (let repeat = 0; repeat < 5; repeat++) await isAnswered();
          else {
            const refused = (await query(count)).is(503, 'REPLICAS_UNAVAILABLE', missing(index + 1));
            assert.ok(!refused.text.includes('127.0.0.1'), refused.text);
            (await server.get(`${orders}/tablets/${index + 1}`)).is(200, '0', { state: 'unavailable' });
            (await query('SELECT 1')).is(200);
          }
          const body = { name: 'more', columns };
          const available = kind === 'copies' ? 2 : 0;
          (await server.post(`${shop}/tables`, body)).is(503, 'NOT_ENOUGH_BACKENDS', { available });
        } finally {
          await back(index);
        }
        await availabilityIs(server, kind, [name], 'available');
        await eventually('the query is answered again', async () => (await query(count)).status === 200, 30_000);
        await isAnswered();
      });

    test('a disabled backend gets no statements, and all of them are answered on copies under load', async () => {
      let isDone = false;
      const load = async () => {
        while (!isDone) {
          const reply = await query(count);
          if (kind === 'copies') assert.deepEqual(reply.is(200).at('rows'), all);
          else assert.ok([200, 503].includes(reply.status), reply.text);
        }
      };
      const running = [load(), load()];
      try {
        for (let repeat = 0; repeat < 3; repeat++) {
          const disabled = await server.post(`${backendsOf(kind)}/node2/disable`);
          disabled.is(200, '0', { state: 'disabled', availability: 'unavailable' });
          (await server.get(`${warehouses}/${kind}`)).is(200, '0', { availableBackendCount: 2 });
          (await server.post(`${backendsOf(kind)}/node2/enable`)).is(200, '0', { state: 'enabled' });
          await availabilityIs(server, kind, ['node2'], 'available');
        }
      } finally {
        isDone = true;
        await Promise.all(running);
      }
      await isAnswered();
    });

    test('a backend with tables is not deleted', async () => {
      (await server.delete(`${backendsOf(kind)}/node3`)).is(400, 'BACKEND_HAS_TABLES', { tableCount: 1 });
    });

    test('a decommission shows what blocks it, and is cancelled', async () => {
      const accepted = await server.post(`${backendsOf(kind)}/node3/decommission`, { drainSeconds: 1 });
      accepted.is(202, '0', { type: 'decommission_backend' });
      const reason = kind === 'copies' ? 'writtenByCluster' : 'lastReplica';
      await eventually('the blocker is shown', async () => {
        const record = (await server.get(`${backendsOf(kind)}/node3`)).is(200, '0', {
          state: 'decommissioning',
          decommission: { taskUri: accepted.at('uri'), remainingTablets: 1 },
        });
        const blockers = record.at<{ reason: string; table: string | null }[]>('decommission', 'blockers');
        const found = blockers.find((blocker) => blocker.reason === reason);
        if (found && reason === 'lastReplica') assert.equal(found.table, `${kind}.shop.orders`);
        return found !== undefined;
      });
      (await server.post(`${backendsOf(kind)}/node3/decommission`)).is(400, 'CHANGE_NOT_SUPPORTED');
      (await server.post(`${backendsOf(kind)}/node3/enable`)).is(400, 'CHANGE_NOT_SUPPORTED');
      (await server.post(`${backendsOf(kind)}/node3/cancel_decommission`)).is(200, '0', {
        state: 'enabled',
        decommission: null,
      });
      (await server.ended(accepted)).is(200, '0', { state: 'cancelled' });
      (await server.post(`${backendsOf(kind)}/node3/cancel_decommission`)).is(400, 'CHANGE_NOT_SUPPORTED');
      await availabilityIs(server, kind, ['node3'], 'available');
      await isAnswered();
    });

    test('a decommission that stays blocked fails with its blockers, and the backend stays disabled', async () => {
      const accepted = await server.post(`${backendsOf(kind)}/node3/decommission`, {
        drainSeconds: 0,
        timeoutSeconds: 1,
      });
      const ended = (await server.ended(accepted)).is(200, '0', {
        state: 'failed',
        error: { code: 'DECOMMISSION_BLOCKED' },
      });
      assert.ok(!ended.text.includes('127.0.0.1'), ended.text);
      await eventually('the backend is disabled', async () => {
        return (await server.get(`${backendsOf(kind)}/node3`)).at('state') === 'disabled';
      });
      (await server.post(`${backendsOf(kind)}/node3/enable`)).is(200, '0', { state: 'enabled' });
      await availabilityIs(server, kind, ['node3'], 'available');
      await isAnswered();
    });
  });
