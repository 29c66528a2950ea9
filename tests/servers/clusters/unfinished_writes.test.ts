// Loads and statements that a server of the cluster keeps from being published whole: what was recorded counts, and is completed. So a task that is
// cancelled after that succeeds, instead of changing the table after its end.
import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { eventually } from '../../deadline.ts';
import { type CuttingProxy, startCuttingProxy } from '../../engines/clickhouse/ring/cutting_proxy.ts';
import { missingRing, type Ring, startRing } from '../../engines/clickhouse/ring/ring.ts';
import { start, type TestServer } from '../../server.ts';
import { availabilityIs, clusterSettings, createDatabase, registerAll } from './cluster_server.ts';

const backends = ['node1', 'node2'];
const database = '/api/v2/catalogs/c/databases/d';
const table = `${database}/tables/t`;
const csv = `id\n${Array.from({ length: 1000 }, (_, id) => id).join('\n')}\n`;

describe('a write that is not published whole', { skip: missingRing }, () => {
  let ring: Ring;
  let proxies: CuttingProxy[];
  let server: TestServer;
  before(async () => {
    [ring, server] = await Promise.all([startRing(2), start(clusterSettings)]);
    proxies = await Promise.all(ring.nodes.map(({ url }) => startCuttingProxy(url)));
    await registerAll(server, 'w', { nodes: proxies }, 'shards');
    await createDatabase(server, 'w');
  });
  after(async () => {
    await server?.close();
    for (const proxy of proxies ?? []) proxy.close();
    await ring?.close();
  });
  beforeEach(async () => {
    await server.delete(table);
    (await server.post(`${database}/tables`, { name: 't', columns: [{ name: 'id', type: 'BIGINT' }] })).is(201);
    (await server.post(`${table}/rows`, { rows: [[-1], [-2]] })).is(201);
  });

  const rows = async () =>
    (await server.post(`${database}/query`, { sql: 'SELECT count(*), sum(id) FROM t' })).is(200).at('rows', 0);
  async function load(mode: string) {
    const upload = (await server.post('/api/v2/uploads', { name: 'rows.csv', bytes: csv.length })).is(201);
    const sent = await server.send('PUT', upload.at('link'), { body: csv, headers: { 'content-type': undefined } });
    assert.equal(sent.status, 200, sent.text);
    return (await server.post(`${table}/load`, { source: { upload: upload.at<string>('uploadId') }, mode })).is(202);
  }
  const insert = () =>
    server.post(`${database}/query`, { sql: 'INSERT INTO t SELECT number FROM numbers(1000)', waitSeconds: 0 });
  const mended = async () => {
    for (const proxy of proxies) proxy.mend();
    await availabilityIs(server, 'w', backends, 'available');
  };

  const appended = [1002, 499_497];
  for (const { what, write, statement, expected } of [
    { what: 'replace', write: () => load('replace'), statement: /REPLACE PARTITION/, expected: [1000, 499_500] },
    { what: 'append', write: () => load('append'), statement: /ATTACH PARTITION/, expected: appended },
    { what: 'INSERT ... SELECT', write: insert, statement: /ATTACH PARTITION/, expected: appended },
  ])
    test(`and is cancelled is completed when the server returns: ${what}`, async () => {
      const [, second] = proxies as [CuttingProxy, CuttingProxy];
      second.cutAt(statement);
      const task = (await write()).is(202);
      await eventually('the server is lost', () => second.isCut);
      (await server.post(task.at<string>('cancelUri'))).is(200);
      await mended();
      (await server.ended(task)).is(200, '0', { state: 'succeeded' });
      assert.deepEqual(await rows(), expected);
    });
});
