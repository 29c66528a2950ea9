// A disabled backend of a cluster with several shards: the other servers still read its tables by their names, which other tables may have by now.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { eventually } from '../../../deadline.ts';
import { start, type TestServer } from '../../../server.ts';
import { availabilityIs, backendsOf, createWarehouse, register } from '../../../servers/clusters/cluster_server.ts';
import { askNode } from '../ring/ask_node.ts';
import { clusterName, missingOldestVersion, type ReplicatedRing, startReplicatedRing } from './replicated_ring.ts';

const nodes = ['node1', 'node2', 'node3', 'node4'];
const database = '/api/v2/catalogs/c/databases/d';
const formerRows = Array.from({ length: 40 }, (_, id) => [id]);
const rows = [[1], [2], [3]];
/** A query of the other shard picks one of two replicas: so many very probably meet the disabled one. */
const queriesMax = 12;

describe('a disabled replica of one of several shards', { skip: missingOldestVersion }, () => {
  let ring: ReplicatedRing;
  let server: TestServer;
  const disabled = `${backendsOf('w')}/node1`;

  before(async () => {
    ring = await startReplicatedRing({ version: '24.8', sessionMs: 4000, shards: [1, 1, 2, 2] });
    server = await start({ clusterHosts: '127.0.0.1' });
    await createWarehouse(server, 'w', clusterName);
    for (const [index, node] of ring.servers.entries())
      (await register(server, 'w', nodes[index] as string, node)).is(201);
    await availabilityIs(server, 'w', nodes, 'available');
    (await server.post('/api/v2/catalogs', { name: 'c', warehouse: 'w' })).is(201);
    (await server.put(database)).is(201);
  });
  after(async () => {
    await server?.close();
    await ring?.close();
  });

  const create = async (name: string, content: readonly (readonly number[])[]) => {
    (await server.put(`${database}/tables/${name}`, { columns: [{ name: 'id', type: 'BIGINT' }] })).is(201);
    (await server.post(`${database}/tables/${name}/rows`, { rows: content })).is(201);
  };
  const isRead = async (name: string, count: number) => {
    for (let n = 0; n < queriesMax; n++) {
      const reply = await server.post(`${database}/query`, { sql: `SELECT count(*) FROM ${name}` });
      assert.deepEqual(reply.is(200).at('rows'), [[count]]);
    }
  };
  const hasTable = async (name: string) =>
    (await askNode(ring.servers[0], `SELECT count() FROM system.tables WHERE name = '${name}__local'`)) !== '0';
  const rename = async (name: string, newName: string) =>
    void (await server.post(`${database}/tables/${name}/rename`, { newName })).is(200);
  /** What takes the name from a table. */
  const takes: Readonly<Record<string, (name: string) => Promise<void>>> = {
    'is dropped': async (name) => void (await server.delete(`${database}/tables/${name}`)).is(200),
    'is purged': async (name) => void (await server.delete(`${database}/tables/${name}?purge=true`)).is(200),
    'gets another name': (name) => rename(name, `${name}_before`),
  };

  for (const [index, [what, take]] of Object.entries(takes).entries())
    test(`${what}: the next table of that name is read, also when it is written through all shards`, async () => {
      const name = `t${index}`;
      await create(name, formerRows);
      await create(`${name}_next`, rows);
      (await server.post(`${disabled}/disable`)).is(200);
      await take(name);
      await rename(`${name}_next`, name);
      await isRead(name, rows.length);
      const sql = `INSERT INTO ${name} SELECT id + 10 FROM ${name}`;
      (await server.post(`${database}/query`, { sql })).is(200);
      await isRead(name, 2 * rows.length);
      (await server.post(`${disabled}/enable`)).is(200);
      await availabilityIs(server, 'w', nodes, 'available');
      await isRead(name, 2 * rows.length);
    });

  test('it was away meanwhile: no table gets a name by which it has another one', async () => {
    await create('away', formerRows);
    await create('next', rows);
    (await server.post(`${disabled}/disable`)).is(200);
    await ring.servers[0]?.kill();
    (await server.delete(`${database}/tables/away`)).is(200);
    const renamed = () => server.post(`${database}/tables/next/rename`, { newName: 'away' });
    assert.equal((await renamed()).is(503, 'NOT_ENOUGH_BACKENDS').at('outcome'), 'notApplied');
    await isRead('next', rows.length);
    await ring.servers[0]?.start();
    await eventually('it does not have the dropped table any more', async () => !(await hasTable('away')));
    await eventually('a table can have the name', async () => {
      const reply = await renamed();
      return reply.status === 200 || void reply.is(503, 'NOT_ENOUGH_BACKENDS');
    });
    await isRead('away', rows.length);
    assert.equal((await server.get(disabled)).is(200).at('state'), 'disabled');
    (await server.post(`${disabled}/enable`)).is(200);
    await availabilityIs(server, 'w', nodes, 'available');
    await isRead('away', rows.length);
  });
});
