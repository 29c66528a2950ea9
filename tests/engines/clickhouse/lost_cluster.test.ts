// A cluster that is lost for good: its warehouse is deleted with its catalogs, whose names are free then. Refused while one of its servers responds,
// and for who may not drop catalogs.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { start, type TestServer } from '../../server.ts';
import { clusterHosts, createClusterWarehouse } from './cluster_warehouse.ts';
import { deployedUser } from './ring/deployed_user.ts';
import { missingRing, type Ring, startRing } from './ring/ring.ts';

const skip = missingRing;
const warehouse = '/api/v2/warehouses/cluster';
const lake = '/api/v2/catalogs/lake';
let server: TestServer;
let ring: Ring;

before(async () => {
  if (skip !== false) return;
  ring = await startRing(2);
  server = await start({ clusterHosts });
  await createClusterWarehouse(server.client, ring, { name: 'cluster', cluster: 'copies' });
  for (const name of ['lake', 'gone']) (await server.post('/api/v2/catalogs', { name, warehouse: 'cluster' })).is(201);
  (await server.post(`${lake}/databases`, { name: 'd' })).is(201);
  const columns = [{ name: 'id', type: 'BIGINT' }];
  (await server.post(`${lake}/databases/d/tables`, { name: 't', columns })).is(201);
  (await server.post(`${lake}/databases/d/tables/t/rows`, { rows: [[1]] })).is(201);
  (await server.delete('/api/v2/catalogs/gone')).is(200);
});
after(async () => {
  await server?.close();
  await ring?.close();
});

const rows = async () => (await server.post(`${lake}/query`, { sql: 'SELECT id FROM d.t' })).is(200).at('rows');

test('is not deleted while one of its servers responds', { skip }, async () => {
  await ring.nodes[1]?.kill();
  (await server.delete(warehouse)).is(400, 'IN_USE', { catalogs: ['cluster', 'lake'] });
  (await server.delete(`${warehouse}?cascade=true`)).is(400, 'IN_USE', { backends: ['node-1'] });
  assert.deepEqual(await rows(), [[1]]);
  // Without catalogs nothing is lost with it.
  const empty = { name: 'empty', engine: 'clickhouse', cluster: 'copies', ...deployedUser };
  (await server.post('/api/v2/warehouses', empty)).is(201);
  const backend = { name: 'node-1', location: ring.nodes[0]?.url };
  (await server.post('/api/v2/warehouses/empty/backends', backend)).is(201);
  (await server.delete('/api/v2/warehouses/empty?cascade=true')).is(200, '0', { deleted: true });
  // A disabled one has its tables, too.
  (await server.post(`${warehouse}/backends/node-1/disable`)).is(200);
  (await server.delete(`${warehouse}?cascade=true`)).is(400, 'IN_USE', { backends: ['node-1'] });
  (await server.post(`${warehouse}/backends/node-1/enable`)).is(200);
});

test('is deleted with its catalogs, whose names are free', { skip }, async () => {
  await ring.nodes[0]?.kill();
  (await server.post('/api/v2/users', { name: 'ann' })).is(201);
  const token = (await server.post('/api/v2/users/ann/tokens', { name: 't' })).is(201).at<string>('secret');
  (await server.post('/api/v2/users/ann/grants', { privilege: 'drop', on: warehouse })).is(201);
  const headers = { authorization: `Bearer ${token}` };
  (await server.request('DELETE', `${warehouse}?cascade=true`, { headers })).is(403, 'FORBIDDEN');
  (await server.request('DELETE', `${warehouse}?cascade=true`, { headers: { 'if-match': '"other"' } })).is(
    400,
    'VERSION_CONFLICT',
  );
  (await server.delete(`${warehouse}?cascade=true`)).is(200, '0', { deleted: true });
  (await server.delete(`${warehouse}?cascade=true`)).is(200, '0', { deleted: false });
  for (const uri of [warehouse, `${warehouse}/backends/node-1`, lake, `${lake}/databases/d/tables/t`])
    (await server.get(uri)).is(404, 'OBJECT_NOT_FOUND');
  assert.equal((await server.post('/api/v2/catalogs/undrop', { name: 'gone' })).status, 404);
  const events = (await server.post('/api/v2/audit_events/search', { action: 'warehouses.delete', outcome: '0' })).is(
    200,
  );
  const details = events.at<{ details: object | null }[]>('auditEvents').flatMap((event) => event.details ?? []);
  assert.deepEqual(details, [{ warehouses: ['cluster'], catalogs: ['cluster', 'lake'] }]);

  (await server.post('/api/v2/catalogs', { name: 'lake' })).is(201);
  (await server.post('/api/v2/warehouses', { name: 'cluster' })).is(201);
  (await server.post(`${lake}/query`, { sql: 'SELECT 1' })).is(200);
});
