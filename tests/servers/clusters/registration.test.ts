// Registering the servers of a cluster through the API: what is checked before a server is stored, and what its record shows.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { deployedUser } from '../../engines/clickhouse/ring/deployed_user.ts';
import { clusters, missingRing, type Ring, startRing } from '../../engines/clickhouse/ring/ring.ts';
import { start, type TestServer } from '../../server.ts';
import {
  availabilityIs,
  backendsOf,
  clusterSettings,
  createWarehouse,
  register,
  warehouses,
} from './cluster_server.ts';

/** Answers every request in the same way. */
async function answering(body: string, status = 200): Promise<{ readonly server: Server; readonly url: string }> {
  const server = createServer((_request, response) => {
    response.statusCode = status;
    response.end(body);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

/** With these privileges only. */
const userFile = (name: string, privileges: string) => `<clickhouse><users><${name}>
  <password/><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota>
  <grants><query>GRANT ${privileges} ON *.*</query></grants>
</${name}></users></clickhouse>`;
const usersWithLess = {
  'users.d/blind.xml': userFile('blind', 'SHOW'),
  'users.d/reader.xml': userFile('reader', 'SHOW, SELECT'),
};
/** A definition for servers that replicate, which the nodes of a ring do not. */
const replicatedCluster = {
  'config.d/replicated.xml': `<clickhouse><remote_servers><replicated><shard>
    <internal_replication>true</internal_replication>
    <replica><host>127.0.0.1</host><port>1</port></replica><replica><host>127.0.0.1</host><port>2</port></replica>
  </shard></replicated></remote_servers></clickhouse>`,
};

describe('the servers of a cluster', { skip: missingRing }, () => {
  let ring: Ring;
  let server: TestServer;
  const fakes: Server[] = [];
  before(async () => {
    [ring, server] = await Promise.all([
      startRing(3, { files: { ...usersWithLess, ...replicatedCluster } }),
      start(clusterSettings),
    ]);
    await createWarehouse(server, 'shards', clusters.shards);
  });
  after(async () => {
    await server?.close();
    await ring?.close();
    for (const fake of fakes) fake.close();
  });

  const node = (index: number) => {
    const found = ring.nodes[index];
    assert.ok(found);
    return found;
  };
  const fake = async (body: string, status?: number) => {
    const { server: http, url } = await answering(body, status);
    fakes.push(http);
    return { url };
  };
  const refusedFor = (reason: string) => ({ reason });

  test('a warehouse has the fields of its engine, and no others', async () => {
    const body = { name: 'other', engine: 'clickhouse', cluster: clusters.copies, user: deployedUser.user };
    for (const [field, more] of [
      ['cluster', { cluster: undefined }],
      ['user', { user: undefined }],
      ['threads', { threads: 2 }],
      ['memoryLimitBytes', { memoryLimitBytes: 1e9 }],
      ['autoResume', { autoResume: true }],
    ] as const) {
      const refused = (await server.post(warehouses, { ...body, ...more })).is(400, 'INVALID_PARAMETER');
      assert.equal(refused.at('violations', 0, 'pointer'), `/${field}`);
    }
    for (const field of ['cluster', 'user', 'password']) {
      const refused = (await server.post(warehouses, { name: 'other', [field]: 'x' })).is(400, 'INVALID_PARAMETER');
      assert.equal(refused.at('violations', 0, 'pointer'), `/${field}`);
    }
    (await server.get(`${warehouses}/shards`)).is(200, '0', {
      engine: 'clickhouse',
      cluster: clusters.shards,
      user: deployedUser.user,
      replicated: null,
      shardCount: null,
      replicaCount: null,
      engineVersions: [],
      threads: null,
      memoryLimitBytes: null,
      autoSuspendSeconds: null,
      backendCount: 0,
      availableBackendCount: 0,
      health: { status: 'unavailable', message: 'no backend is registered' },
    });
    (await server.patch(`${warehouses}/shards`, { memoryLimitBytes: 1e9 })).is(400, 'INVALID_PARAMETER');
  });

  test('a server is checked before it is stored', async () => {
    const missing = (await server.post(backendsOf('shards'), { name: 'b' })).is(400, 'INVALID_PARAMETER');
    assert.equal(missing.at('violations', 0, 'pointer'), '/location');
    (await register(server, 'shards', 'b', { url: 'http://10.1.2.3:8123' })).is(400, 'HOST_NOT_ALLOWED');
    (await register(server, 'shards', 'b', { url: 'ftp://127.0.0.1' })).is(400, 'INVALID_PARAMETER');
    (await register(server, 'shards', 'b', { url: `${node(0).url}/play?user=x` })).is(400, 'INVALID_PARAMETER');
    (await register(server, 'shards', 'b', { url: 'http://127.0.0.1:1' })).is(503, 'REMOTE_UNAVAILABLE');
    (await register(server, 'shards', 'b', await fake('<html></html>'))).is(
      400,
      'BACKEND_UNSUITABLE',
      refusedFor('protocol'),
    );
    (await register(server, 'shards', 'b', await fake('not here', 404))).is(
      400,
      'BACKEND_UNSUITABLE',
      refusedFor('protocol'),
    );
    const old = await register(server, 'shards', 'b', await fake('18.16.1\n'));
    assert.match(old.is(400, 'BACKEND_UNSUITABLE', refusedFor('version')).message, /18\.16\.1.*24\.8/);
    (await server.get(backendsOf('shards'))).is(200, '0', { backends: [] });
  });

  test('a server that refuses the credentials, or knows no such cluster, is no backend', async () => {
    const wrong = { name: 'wrong', engine: 'clickhouse', cluster: 'nowhere', user: 'default', password: 'not it' };
    (await server.post(warehouses, wrong)).is(201);
    (await register(server, 'wrong', 'b', node(0))).is(400, 'BACKEND_UNSUITABLE', refusedFor('credentials'));
    (await server.patch(`${warehouses}/wrong`, { password: '' })).is(200);
    (await register(server, 'wrong', 'b', node(0))).is(400, 'BACKEND_UNSUITABLE', refusedFor('cluster'));
    (await server.patch(`${warehouses}/wrong`, { user: 'nobody' })).is(200, '0', { user: 'nobody' });
    (await register(server, 'wrong', 'b', node(0))).is(400, 'BACKEND_UNSUITABLE', refusedFor('credentials'));
    (await server.delete(`${warehouses}/wrong`)).is(200, '0', { deleted: true });
  });

  test('a server that does not replicate is no backend of a cluster whose copies only replication writes', async () => {
    await createWarehouse(server, 'replicated', 'replicated');
    const refused = await register(server, 'replicated', 'b', node(0));
    assert.match(refused.is(400, 'BACKEND_UNSUITABLE', refusedFor('cluster')).message, /internal_replication/);
    (await server.delete(`${warehouses}/replicated`)).is(200, '0', { deleted: true });
  });

  test('the privilege that the user of a warehouse lacks is named', async () => {
    const path = `${warehouses}/lacking`;
    (await server.put(path, { engine: 'clickhouse', cluster: clusters.copies, user: 'blind', password: '' })).is(201);
    const refused = await register(server, 'lacking', 'b', node(0));
    assert.match(
      refused.is(400, 'BACKEND_UNSUITABLE', refusedFor('credentials')).message,
      /lacks the privilege SELECT/,
    );
    (await server.patch(path, { user: 'reader' })).is(200);
    const lack = 'the user of the warehouse lacks the privilege CREATE DATABASE';
    (await register(server, 'lacking', 'b', node(0))).is(201, '0', { availability: 'unavailable' });
    (await server.get(`${backendsOf('lacking')}/b`)).is(200, '0', { errorMessage: `${lack} there` });
    const failed = await server.post('/api/v2/catalogs', { name: 'lacking', warehouse: 'lacking' });
    assert.equal(failed.is(503, 'WAREHOUSE_FAILED').message, `${lack} on its servers`);
    (await server.delete(`${backendsOf('lacking')}/b`)).is(200);
    (await server.delete(path)).is(200);
  });

  test('a registered server has a record with what was measured', async () => {
    const created = await server.post(backendsOf('shards'), { name: 'node1', location: node(0).url, zone: 'a' });
    created.is(201, '0', {
      backendId: 'node1',
      location: node(0).url,
      zone: 'a',
      shard: 1,
      replica: 'r1',
      state: 'enabled',
      availability: 'available',
      decommission: null,
      alive: true,
      errorMessage: null,
    });
    const record = (await server.get(created.at('uri'))).is(200);
    assert.match(record.at('engineVersion'), /^26\.7/);
    for (const field of ['cpuCores', 'memoryUsedBytes', 'memoryLimitBytes', 'diskAvailableBytes', 'diskTotalBytes'])
      assert.ok(record.at<number>(field) > 0, field);
    assert.ok(Date.parse(record.at('lastHeartbeatAt')) > 0);
    assert.ok(Date.parse(record.at('lastStartAt')) > 0);
    (await server.get(`${warehouses}/shards`)).is(200, '0', {
      replicated: false,
      shardCount: 3,
      replicaCount: 1,
      engineVersions: [record.at('engineVersion')],
      backendCount: 1,
      availableBackendCount: 1,
      health: { status: 'degraded', message: 'no available replica of the tablets 2, 3' },
    });
    const patched = await server.patch(created.at('uri'), { zone: null, comment: 'rack 1' });
    patched.is(200, '0', { zone: null, comment: 'rack 1', shard: 1 });
  });

  test('no server is registered twice', async () => {
    (await register(server, 'shards', 'again', node(0))).is(400, 'BACKEND_UNSUITABLE', refusedFor('registered'));
    (await register(server, 'shards', 'node1', node(1))).is(400, 'OBJECT_ALREADY_EXISTS');
    (await server.put(`${backendsOf('shards')}/node1`, { location: node(1).url })).is(201, '0', {
      created: false,
      location: node(0).url,
    });
    const both = await Promise.all([
      register(server, 'shards', 'x', node(1)),
      register(server, 'shards', 'y', node(1)),
    ]);
    assert.deepEqual(both.map(({ status }) => status).sort(), [201, 400]);
  });

  test('several clusters are used side by side', async () => {
    await createWarehouse(server, 'copies', clusters.copies);
    (await register(server, 'copies', 'node1', node(0))).is(201, '0', { shard: 1, replica: 'r1' });
    (await register(server, 'copies', 'node2', node(1))).is(201, '0', { shard: 1, replica: 'r2' });
    (await server.get(`${warehouses}/copies`)).is(200, '0', {
      replicated: false,
      shardCount: 1,
      replicaCount: 3,
      availableBackendCount: 2,
    });
    (await server.get(`${warehouses}/shards`)).is(200, '0', { shardCount: 3, availableBackendCount: 2 });
  });

  test('a server that ends or freezes is unavailable, and available again when it is back', async () => {
    await node(0).kill();
    await availabilityIs(server, 'copies', ['node1'], 'unavailable');
    (await server.get(`${backendsOf('copies')}/node1`)).is(200, '0', {
      state: 'enabled',
      alive: false,
      errorMessage: 'it does not respond',
    });
    (await server.get(`${warehouses}/copies`)).is(200, '0', { availableBackendCount: 1 });
    await node(0).start();
    await availabilityIs(server, 'copies', ['node1'], 'available');
    node(1).freeze();
    await availabilityIs(server, 'copies', ['node2'], 'unavailable');
    node(1).resume();
    await availabilityIs(server, 'copies', ['node2'], 'available');
  });

  test('a backend without tables is deleted', async () => {
    (await server.delete(`${backendsOf('copies')}/node2`)).is(200, '0', { deleted: true });
    (await server.delete(`${backendsOf('copies')}/node2`)).is(200, '0', { deleted: false });
    (await register(server, 'copies', 'node2', node(1))).is(201);
  });
});
