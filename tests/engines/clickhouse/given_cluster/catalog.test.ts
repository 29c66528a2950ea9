// A catalog on the cluster that CLICKHOUSE_TEST_URLS names, through the REST API: from the creation of its warehouse to the end.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { statementWaitSeconds } from '../../../deadline.ts';
import { start, type TestServer } from '../../../server.ts';
import { availabilityIs, register } from '../../../servers/clusters/cluster_server.ts';
import {
  givenCredentials,
  givenHosts,
  givenName,
  givenServers,
  missingGivenCluster,
  removeCatalogs,
} from './given_cluster.ts';

describe('a catalog on a given cluster', { skip: missingGivenCluster }, () => {
  const name = `test-${randomBytes(6).toString('hex')}`;
  const database = `/api/v2/catalogs/${name}/databases/d`;
  const table = `${database}/tables/t`;
  let server: TestServer;
  const query = (sql: string) => server.post(`${database}/query`, { sql, waitSeconds: statementWaitSeconds() });
  const rowsOf = async (sql: string) => (await query(sql)).is(200).at('rows');

  before(async () => {
    server = await start({ clusterHosts: givenHosts });
  });
  after(async () => {
    const catalog = await server?.get(`/api/v2/catalogs/${name}`);
    await server?.close();
    // Also if the test has failed before it dropped the catalog.
    await removeCatalogs([{ id: catalog?.code === '0' ? String(catalog.at('uuid')) : name, name }]);
  });

  test('a warehouse is created, and its servers are registered and available', async () => {
    const definition = { name: 'given', engine: 'clickhouse', cluster: givenName, ...givenCredentials };
    (await server.post('/api/v2/warehouses', definition)).is(201);
    for (const each of givenServers) (await register(server, 'given', each.name, each)).is(201);
    const names = givenServers.map((each) => each.name);
    await availabilityIs(server, 'given', names, 'available');
    (await server.post('/api/v2/catalogs', { name, warehouse: 'given' })).is(201);
    (await server.put(database)).is(201);
  });

  test('a table is created and filled by rows and by statements', async () => {
    const columns = [
      { name: 'id', type: 'BIGINT' },
      { name: 'price', type: 'DECIMAL(38,2)' },
      { name: 'at', type: 'DATETIME' },
    ];
    (await server.post(`${database}/tables`, { name: 't', columns })).is(201);
    const rows = '[[1,1.50,"2024-01-01T00:00:00"],[9007199254740993,2.25,"2024-01-02T00:00:00.000001"]]';
    (await server.post(`${table}/rows`, `{"rows":${rows}}`)).is(201);
    const { text } = (await query('SELECT id, price, at FROM t ORDER BY id')).is(200);
    assert.ok(text.replaceAll('\n', '').includes(rows), text);
    (await query('INSERT INTO t (id, price) SELECT number + 10, number FROM numbers(1000)')).is(200);
    // On whichever server.
    for (let i = 0; i < 2 * givenServers.length; i++)
      assert.deepEqual(await rowsOf('SELECT count(*), sum(price) FROM t'), [[1002, 499503.75]]);
  });

  test('texts of statements become values of their columns, and floating-point numbers are exact', async () => {
    const columns = ['d DATE', 'at DATETIME', 'z TIMESTAMPTZ', 'n DECIMAL(9,2)', 'x DOUBLE'].map((text) => {
      const [name, type] = text.split(' ');
      return { name, type };
    });
    (await server.post(`${database}/tables`, { name: 'typed', columns })).is(201);
    const sql = `INSERT INTO typed (d, at, z, n, x)
      VALUES ('2024-02-29', '2024-02-29 10:00:00.5', '2024-02-29T10:00:00+02:00', '1.50', '5e-324'), (NULL, NULL, NULL, NULL, NULL)`;
    (await query(sql)).is(200);
    (await server.post(`${database}/tables/typed/rows`, '{"rows":[[null,null,null,null,0.1234567890123456]]}')).is(201);
    const { text } = (await query('SELECT d, at, z, n, x FROM typed ORDER BY x')).is(200);
    const rows =
      '[["2024-02-29","2024-02-29T10:00:00.5","2024-02-29T08:00:00Z",1.50,5e-324],[null,null,null,null,0.1234567890123456],[null,null,null,null,null]]';
    assert.ok(text.replaceAll('\n', '').includes(rows), text);
  });

  test('rows are changed and deleted, and columns added and renamed', async () => {
    (await query('UPDATE t SET price = 5 WHERE id < 20')).is(200);
    (await query('DELETE FROM t WHERE id >= 20 AND id < 2000')).is(200);
    const column = { name: 'note', type: 'STRING', defaultValue: "'none'" };
    const added = await server.post(`${table}/columns`, column);
    if (added.status === 202) await server.ended(added);
    else added.is(201);
    (await query("INSERT INTO t (id, note) VALUES (3, 'new')")).is(200);
    for (let i = 0; i < 2 * givenServers.length; i++)
      assert.deepEqual(await rowsOf('SELECT count(*), sum(price), count(note), max(note) FROM t'), [
        [13, 57.25, 13, 'none'],
      ]);
  });

  test('tables are dropped and restored, and the catalog is deleted', async () => {
    (await server.delete(table)).is(200);
    (await server.post(`${database}/tables/undrop`, { name: 't' })).is(200);
    assert.deepEqual(await rowsOf('SELECT count(*) FROM t'), [[13]]);
    (await server.delete(`/api/v2/catalogs/${name}?cascade=true&purge=true`)).is(200);
  });
});
