// An operator alters a table by hand on one node of a cluster: the node is repaired, or taken out of use with the reason, and changes that are
// carried out on one node after the other are not taken for that.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { eventually } from '../../deadline.ts';
import { start, type TestServer } from '../../server.ts';
import { availabilityIs, backendsOf } from '../../servers/clusters/cluster_server.ts';
import { clusterHosts, createClusterWarehouse } from './cluster_warehouse.ts';
import { askNode } from './ring/ask_node.ts';
import { missingRing, type Ring, startRing } from './ring/ring.ts';

const altered = 1;
const nodes = ['node-1', 'node-2'];
const backend = nodes[altered] as string;
const database = '/api/v2/catalogs/copies/databases/d';
const rows = Array.from({ length: 20 }, (_, id) => [id, 'x']);
/** Longer than the time between two comparisons of the tables of a node. */
const changesMs = 13_000;

describe('a node whose table was altered by hand', { skip: missingRing }, () => {
  let ring: Ring;
  let server: TestServer;

  const onNode = (sql: string) => askNode(ring.nodes[altered], sql);
  const columnsOf = (table: string) =>
    onNode(`SELECT arrayStringConcat(groupArray(name), ',') FROM (SELECT name FROM system.columns
      WHERE database = 'copies__d' AND table = '${table}' AND default_kind != 'MATERIALIZED' ORDER BY position)`);
  const record = async (name: string) => (await server.get(`${backendsOf('copies')}/${name}`)).is(200);
  const allRows = async () => {
    const reply = await server.post(`${database}/query`, { sql: 'SELECT id, s FROM t ORDER BY id' });
    assert.deepEqual(reply.is(200).at('rows'), rows);
  };

  before(async () => {
    if (missingRing !== false) return;
    ring = await startRing(2);
    server = await start({ clusterHosts });
    await createClusterWarehouse(server.client, ring, { name: 'copies', cluster: 'copies' });
    (await server.put(database)).is(201);
    const columns = [
      { name: 'id', type: 'BIGINT' },
      { name: 's', type: 'STRING' },
    ];
    (await server.post(`${database}/tables`, { name: 't', columns, distribution: { by: ['id'] } })).is(201);
    (await server.post(`${database}/tables/t/rows`, { rows })).is(201);
  });
  after(async () => {
    await server?.close();
    await ring?.close();
  });

  for (const change of ['ADD COLUMN extra Int32', 'DROP COLUMN s', 'MODIFY COLUMN s String'])
    test(`what reads the rows is made anew: ${change}`, async () => {
      const before = await columnsOf('t');
      await onNode(`ALTER TABLE copies__d.t ${change}`);
      const type = async () => onNode(`SELECT toTypeName(s) FROM copies__d.t LIMIT 1`).catch(() => '');
      await eventually(
        'the node has the columns of the table again',
        async () => (await columnsOf('t')) === before && (await type()) === 'Nullable(String)',
        30_000,
      );
      await availabilityIs(server, 'copies', nodes, 'available');
      await allRows();
    });

  test('a copy with other columns is out of use, with the reason, until they are those of the table', async () => {
    await onNode('ALTER TABLE copies__d.t__local ADD COLUMN extra Int32');
    await availabilityIs(server, 'copies', [backend], 'catchingUp');
    await eventually('the reason is shown', async () => {
      const message = (await record(backend)).at<string | null>('errorMessage');
      return message === 'the definition of the table t__local differs from that of the others';
    });
    assert.equal((await record(nodes[0] as string)).at('availability'), 'available');
    await allRows();
    await onNode('ALTER TABLE copies__d.t__local DROP COLUMN extra');
    await availabilityIs(server, 'copies', nodes, 'available');
  });

  test('columns that are added and dropped take no node out of use', async () => {
    const endMs = performance.now() + changesMs;
    for (let n = 0; performance.now() < endMs; n++) {
      (await server.post(`${database}/tables/t/columns`, { name: `c${n}`, type: 'INT' })).is(201);
      (await server.delete(`${database}/tables/t/columns/c${n}`)).is(200);
      for (const name of nodes) {
        const reply = await record(name);
        assert.equal(reply.at('availability'), 'available', reply.text);
        assert.equal(reply.at('errorMessage'), null, reply.text);
      }
    }
  });
});
