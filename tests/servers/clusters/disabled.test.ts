// A backend that is disabled on servers that cannot replicate: what is changed without it, it could never catch up with. So nothing is changed
// meanwhile, and reads continue.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { eventually } from '../../deadline.ts';
import { clusters, missingRing, type Ring, startRing } from '../../engines/clickhouse/ring/ring.ts';
import { type Reply, start, type TestServer } from '../../server.ts';
import { availabilityIs, backendsOf, clusterSettings, registerAll, warehouses } from './cluster_server.ts';

const columns = [
  { name: 'id', type: 'BIGINT' },
  { name: 'note', type: 'STRING' },
];
const rows = Array.from({ length: 3000 }, (_, id) => ({ id, note: `note ${id}` }));

describe('a disabled backend on servers that cannot replicate', { skip: missingRing }, () => {
  let ring: Ring;
  let server: TestServer;
  before(async () => {
    [ring, server] = await Promise.all([startRing(2), start(clusterSettings)]);
  });
  after(async () => {
    await server?.close();
    await ring?.close();
  });

  for (const kind of ['copies', 'shards'] as const) {
    const shop = `/api/v2/catalogs/${kind}/databases/shop`;
    const orders = `${shop}/tables/orders`;
    const isAvailable = () => availabilityIs(server, kind, ['node1', 'node2'], 'available');
    const query = (sql: string) => server.post(`${shop}/query`, { sql });
    const content = async () => (await query('SELECT count(*), sum(id) FROM orders')).is(200).at('rows');
    const disable = async () =>
      (await server.post(`${backendsOf(kind)}/node2/disable`)).is(200, '0', { state: 'disabled' });
    const enable = async () => {
      (await server.post(`${backendsOf(kind)}/node2/enable`)).is(200, '0', { state: 'enabled' });
      await isAvailable();
    };

    const insert = (...inserted: object[]) => server.post(`${orders}/rows`, { rows: inserted });
    // What needs all rows of the table names the shard that has none of its replicas.
    const withoutAll = kind === 'copies' ? 'NOT_ENOUGH_BACKENDS' : 'REPLICAS_UNAVAILABLE';
    const changes: readonly {
      readonly what: string;
      readonly change: () => Promise<Reply>;
      readonly code?: string;
    }[] = [
      { what: 'a small insert', change: () => insert({ id: -1, note: 'small' }), code: withoutAll },
      { what: 'a large insert', change: () => insert(...rows), code: withoutAll },
      {
        what: 'INSERT ... SELECT',
        change: () => query("INSERT INTO orders SELECT id + 10000, 'again' FROM orders WHERE id < 5"),
        code: withoutAll,
      },
      { what: 'DELETE', change: () => query('DELETE FROM orders WHERE id < 10'), code: withoutAll },
      { what: 'UPDATE', change: () => query("UPDATE orders SET note = '' WHERE id = 20"), code: withoutAll },
      { what: 'CREATE', change: () => server.post(`${shop}/tables`, { name: 'more', columns }) },
      { what: 'ALTER', change: () => server.post(`${orders}/columns`, { name: 'price', type: 'INT' }) },
      { what: 'DROP', change: () => server.delete(`${shop}/tables/old`) },
      { what: 'rename', change: () => server.post(`${shop}/tables/odd/rename`, { newName: 'even' }) },
      { what: 'CREATE DATABASE', change: () => server.post(`/api/v2/catalogs/${kind}/databases`, { name: 'other' }) },
    ];

    describe(`of ${kind}`, () => {
      before(async () => {
        await registerAll(server, kind, ring, clusters[kind]);
        (await server.post('/api/v2/catalogs', { name: kind, warehouse: kind })).is(201);
        (await server.put(shop)).is(201);
        for (const name of ['orders', 'old', 'odd']) (await server.post(`${shop}/tables`, { name, columns })).is(201);
        (await insert(...rows)).is(201);
      });

      test('is complete as soon as it is enabled, because nothing is changed without it', async () => {
        const before = await content();
        await disable();
        if (kind === 'copies') assert.deepEqual(await content(), before);
        for (const { what, change, code = 'NOT_ENOUGH_BACKENDS' } of changes) {
          const reply = await change();
          assert.equal(`${what} ${reply.status} ${reply.code}`, `${what} 503 ${code}`, reply.text);
          assert.equal(reply.at('outcome'), 'notApplied', `${what}: ${reply.text}`);
        }
        await enable();
        assert.deepEqual(await content(), before);
        for (const { what, change } of changes) {
          const { status, text } = await change();
          assert.ok(status < 300, `${what}: ${text}`);
        }
        await isAvailable();
        for (let copy = 0; copy < 4; copy++)
          assert.deepEqual((await query('SELECT count(*) FROM orders')).is(200).at('rows'), [[5991]]);
      });
    });
  }

  test('counts no longer when the definition of the cluster is without it, which the warehouse shows', async () => {
    const rows = '/api/v2/catalogs/copies/databases/shop/tables/orders/rows';
    const write = () => server.post(rows, { rows: [{ id: 1, note: 'alone' }] });
    (await server.post(`${backendsOf('copies')}/node2/disable`)).is(200);
    (await write()).is(503, 'NOT_ENOUGH_BACKENDS', { needed: 2, available: 1 });
    await ring.takeOut(1);
    await eventually('it is written without it', async () => (await write()).status === 201, 30_000);
    const shape = async () => (await server.get(`${warehouses}/copies`)).is(200).at('replicaCount');
    await eventually('the warehouse has one replica', async () => (await shape()) === 1, 30_000);
  });
});
