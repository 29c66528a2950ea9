// A node of a cluster that cannot replicate lacks tables that are defined: answers are right or 503. What has no rows is created again.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { eventually } from '../../deadline.ts';
import { start, type TestServer } from '../../server.ts';
import { availabilityIs, backendsOf } from '../../servers/clusters/cluster_server.ts';
import { clusterHosts, createClusterWarehouse } from './cluster_warehouse.ts';
import { askNode, dropHidden } from './ring/ask_node.ts';
import { missingRing, type Ring, startRing } from './ring/ring.ts';

const lacking = 1;
const backend = `node-${lacking + 1}`;
const rows = Array.from({ length: 20 }, (_, id) => [id]);
/** So that a query very probably meets the node, which is one of two. */
const queriesMax = 8;

describe('a node that cannot replicate and lacks tables', { skip: missingRing }, () => {
  let ring: Ring;
  let server: TestServer;

  const onNode = (sql: string) => askNode(ring.nodes[lacking], sql);
  const query = (catalog: string) =>
    server.post(`/api/v2/catalogs/${catalog}/databases/d/query`, { sql: 'SELECT count(*) FROM t' });
  /** @returns the number of queries that succeeded. */
  async function right(catalog: string): Promise<number> {
    let count = 0;
    for (let n = 0; n < queriesMax; n++) {
      const reply = await query(catalog);
      if (reply.status === 503) continue;
      assert.deepEqual(reply.is(200).at('rows'), [[rows.length]]);
      count++;
    }
    return count;
  }

  before(async () => {
    if (missingRing !== false) return;
    ring = await startRing(2);
    server = await start({ clusterHosts });
    for (const name of ['copies', 'shards']) {
      await createClusterWarehouse(server.client, ring, { name, cluster: name });
      const database = `/api/v2/catalogs/${name}/databases/d`;
      (await server.put(database)).is(201);
      const columns = [{ name: 'id', type: 'BIGINT' }];
      for (const table of ['t', 'other']) (await server.post(`${database}/tables`, { name: table, columns })).is(201);
      (await server.post(`${database}/tables/t/rows`, { rows })).is(201);
    }
  });
  after(async () => {
    await server?.close();
    await ring?.close();
  });

  for (const name of ['copies', 'shards'])
    test(`${name}: a table that is not defined is 400, although the server names one that is`, async () => {
      const sql = 'SELECT count(*) FROM othe';
      const reply = await server.post(`/api/v2/catalogs/${name}/databases/d/query`, { sql });
      reply.is(400, 'SQL_INVALID');
      const dropped = `/api/v2/catalogs/${name}/databases/d/tables/others`;
      (await server.put(dropped, { columns: [{ name: 'id', type: 'BIGINT' }] })).is(201);
      (await server.delete(dropped)).is(200);
      const after = await server.post(`/api/v2/catalogs/${name}/databases/d/query`, { sql: 'SELECT * FROM others' });
      after.is(400, 'SQL_INVALID');
    });

  for (const name of ['copies', 'shards'])
    test(`${name}: what reads the rows is created again`, async () => {
      await onNode(`DROP TABLE ${name}__d.t SYNC`);
      await right(name);
      await eventually('the node has the table again', async () => {
        await query(name);
        return (await onNode(`EXISTS TABLE ${name}__d.t`)) === '1';
      });
      await availabilityIs(server, name, [backend], 'available');
      assert.equal(await right(name), queriesMax);
    });

  test('a copy that has lost its rows is not read', async () => {
    await onNode('DROP TABLE copies__d.t__local SYNC');
    await right('copies');
    await eventually('the node is out of use', async () => {
      await query('copies');
      return (await server.get(`${backendsOf('copies')}/${backend}`)).is(200).at('availability') !== 'available';
    });
    assert.equal(await right('copies'), queriesMax);
  });

  test('a shard whose rows are lost is not read as an empty one, also after a restart; other tables are read', async () => {
    await onNode('DROP TABLE shards__d.t__local SYNC');
    assert.equal(await right('shards'), 0);
    await ring.nodes[lacking]?.kill();
    await ring.nodes[lacking]?.start();
    await availabilityIs(server, 'shards', [backend], 'available');
    assert.equal(await right('shards'), 0);
    const other = await server.post('/api/v2/catalogs/shards/databases/d/query', { sql: 'SELECT count(*) FROM other' });
    assert.deepEqual(other.is(200).at('rows'), [[0]]);
    (await server.delete('/api/v2/catalogs/shards/databases/d/tables/t?purge=true')).is(200);
  });

  test('a table whose rows a shard has lost keeps its name', async () => {
    const database = '/api/v2/catalogs/shards/databases/d';
    (await server.put(`${database}/tables/lost`, { columns: [{ name: 'id', type: 'BIGINT' }] })).is(201);
    (await server.post(`${database}/tables/lost/rows`, { rows })).is(201);
    await onNode('DROP TABLE shards__d.lost__local SYNC');
    for (let n = 0; n < 2; n++) {
      const reply = await server.post(`${database}/tables/lost/rename`, { newName: 'renamed' });
      assert.equal(reply.is(503, 'WAREHOUSE_FAILED').at('outcome'), 'notApplied');
      assert.equal((await server.get(`${database}/tables/lost`)).is(200).at('state'), 'ready');
      (await server.get(`${database}/tables/renamed`)).is(404, 'OBJECT_NOT_FOUND');
    }
    await availabilityIs(server, 'shards', ['node-1', backend], 'available');
    (await server.delete(`${database}/tables/lost?purge=true`)).is(200);
  });

  test('a dropped table whose rows a shard has lost stays dropped, alone and with its database', async () => {
    const database = '/api/v2/catalogs/shards/databases/dropped';
    (await server.put(database)).is(201);
    const columns = [{ name: 'id', type: 'BIGINT' }];
    for (const name of ['kept', 'lost']) {
      (await server.put(`${database}/tables/${name}`, { columns })).is(201);
      (await server.post(`${database}/tables/${name}/rows`, { rows })).is(201);
    }
    const loseDropped = () => dropHidden(ring.nodes[lacking]);
    const isRefused = async (path: string, name: string) => {
      for (let n = 0; n < 2; n++) {
        const reply = await server.post(path, { name });
        assert.equal(reply.is(503, 'WAREHOUSE_FAILED').at('outcome'), 'notApplied');
      }
    };
    (await server.delete(`${database}/tables/lost`)).is(200);
    await loseDropped();
    await isRefused(`${database}/tables/undrop`, 'lost');
    (await server.get(`${database}/tables/lost`)).is(404, 'OBJECT_NOT_FOUND');
    const isThere = await server.post(`${database}/query`, { sql: 'SELECT count(*) FROM kept' });
    assert.deepEqual(isThere.is(200).at('rows'), [[rows.length]]);
    (await server.delete(`${database}?cascade=true`)).is(200);
    await loseDropped();
    await isRefused('/api/v2/catalogs/shards/databases/undrop', 'dropped');
    (await server.get(database)).is(404, 'OBJECT_NOT_FOUND');
    await availabilityIs(server, 'shards', ['node-1', backend], 'available');
  });
});
