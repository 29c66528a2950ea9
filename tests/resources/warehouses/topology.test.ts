// An engine that divides its tables among two backends: backends, tablets, replicas and their states are what the engine reports, less
// what an operator disabled.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Topology } from '../../../src/engines/port/backends.ts';
import type { Engine, EngineWarehouse } from '../../../src/engines/port/engine.ts';
import { start, type TestServer } from '../../server.ts';

const topology: Topology = {
  tablets: async ({ table }) => [
    { id: 's2', statistics: { rowCount: table.length, dataBytes: 70 }, replicas: [replica('south', true)] },
    {
      id: 's1',
      statistics: { rowCount: null, dataBytes: null },
      replicas: [replica('south', false), replica('north')],
    },
  ],
  tabletCount: async (backend, tableCount) => (await tableCount()) * (backend === 'south' ? 2 : 1),
};

function replica(backend: string, isAvailable = true) {
  return { backend, isAvailable };
}

function divided(engine: EngineWarehouse): EngineWarehouse {
  return {
    ...engine,
    get running() {
      return engine.running;
    },
    status: (backend) => ({
      ...engine.status(backend),
      alive: backend === 'north',
      errorMessage: failures[backend] ?? null,
    }),
    topology: () => topology,
  };
}

const failures: Readonly<Record<string, string>> = { south: 'does not respond' };
const wrapEngine = (engine: Engine): Engine => ({
  ...engine,
  backends: [
    { name: 'north', location: 'https://north.invalid:8443' },
    { name: 'south', location: 'https://south.invalid:8443' },
  ],
  open: (options) => divided(engine.open(options)),
});

const warehouse = '/api/v2/warehouses/default';
const table = '/api/v2/databases/shop/tables/orders';
let server: TestServer;
before(async () => {
  server = await start({}, { wrapEngine });
  (await server.post('/api/v2/databases', { name: 'shop' })).is(201);
  const columns = [{ name: 'id', type: 'BIGINT' }];
  const body = { name: 'orders', columns, replicationNum: 2, distribution: { by: ['id'], buckets: 2 } };
  (await server.post('/api/v2/databases/shop/tables', body)).is(201, '0', { replicationNum: 2 });
});
after(() => server.close());

test('a warehouse has the backends of its engine, each with a status of its own', async () => {
  (await server.get(warehouse)).is(200, '0', {
    backendCount: 2,
    availableBackendCount: 2,
    health: { status: 'degraded', message: 'does not respond' },
  });
  (await server.get(`${warehouse}/backends`)).is(200, '0', {
    backends: [
      { backendId: 'north', location: 'https://north.invalid:8443', alive: true, tabletCount: 1, errorMessage: null },
      { backendId: 'south', alive: false, tabletCount: 2, errorMessage: 'does not respond' },
    ],
  });
});

test('no backend can be added to those of the engine', async () => {
  const refused = await server.post(`${warehouse}/backends`, { name: 'west' });
  assert.match(refused.is(400, 'CHANGE_NOT_SUPPORTED').message, /has exactly 2 backends/);
});

test('a table has the tablets and replicas of the engine, in the order of their ids', async () => {
  (await server.get(`${table}/tablets`)).is(200, '0', {
    tablets: [
      {
        tabletId: 's1',
        rowCount: null,
        dataBytes: null,
        replicaCount: 2,
        availableReplicaCount: 1,
        state: 'available',
      },
      { tabletId: 's2', rowCount: 6, dataBytes: 70, replicaCount: 1, availableReplicaCount: 1, state: 'available' },
    ],
  });
  (await server.get(`${table}/tablets/s1/replicas`)).is(200, '0', {
    replicas: [
      { replicaId: 'north', backendId: 'north', state: 'available' },
      { replicaId: 'south', backendId: 'south', state: 'unavailable' },
    ],
  });
  const second = await server.get(`${table}/tablets/s1/replicas?pageSize=1`);
  const next = await server.get(
    `${table}/tablets/s1/replicas?pageSize=1&pageToken=${second.is(200).at<string>('nextPageToken')}`,
  );
  next.is(200, '0', { replicas: [{ replicaId: 'south' }] });
});

test('the replicas of a disabled backend are not available', async () => {
  (await server.post(`${warehouse}/backends/north/disable`)).is(200, '0', { state: 'disabled' });
  (await server.get(`${table}/tablets/s1`)).is(200, '0', { availableReplicaCount: 0, state: 'unavailable' });
  (await server.get(`${table}/tablets/s2`)).is(200, '0', { availableReplicaCount: 1, state: 'available' });
  (await server.get(warehouse)).is(200, '0', { backendCount: 2, availableBackendCount: 1 });
  const body = { newName: 'copy' };
  (await server.post(`${table}/copy_definition`, body)).is(503, 'NOT_ENOUGH_BACKENDS', { needed: 2, available: 1 });
  (await server.post(`${warehouse}/backends/north/enable`)).is(200, '0', { state: 'enabled' });
  (await server.post(`${table}/copy_definition`, body)).is(201, '0', { replicationNum: 2 });
});
