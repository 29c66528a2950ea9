// `import` into a catalog of a ClickHouse cluster, from each kind of source: values arrive exactly, and what the cluster cannot have is listed,
// or the reason for which a table is not loaded.
import assert from 'node:assert/strict';
import { DatabaseSync } from 'node:sqlite';
import { after, before, describe, test } from 'node:test';
import { createClusterWarehouse } from '../../../engines/clickhouse/cluster_warehouse.ts';
import { missingRing, type Ring, startRing } from '../../../engines/clickhouse/ring/ring.ts';
import { missingPostgresql, newDatabase, runInDatabase, urlOfDatabase } from '../../../postgresql.ts';
import { clusterSettings } from '../../../servers/clusters/cluster_server.ts';
import { becomesText, typesStatements, writeDuckdbFile } from './duckdb_files.ts';
import { type ImportTest, lost, type Report, startImports } from './imports.ts';

/** With values outside the years 1900 to 2299. */
const farDates: readonly string[] = ['dt', 'tz'];

describe('a catalog in a cluster', { skip: missingRing }, () => {
  let ring: Ring;
  let world: ImportTest;
  before(async () => {
    [ring, world] = await Promise.all([startRing(2), startImports(clusterSettings)]);
    await createClusterWarehouse(world.server.client, ring, { name: 'lake', cluster: 'copies' });
  });
  after(async () => {
    await world?.close();
    await ring?.close();
  });
  const statesOf = ({ tables }: Report) => Object.fromEntries(tables.map(({ name, state }) => [name, state]));
  const rowsOf = (database: string, sql: string) => world.server.client.query(sql, { catalog: 'lake', database }).all();

  test('a DuckDB file: every type that the cluster has', async () => {
    await writeDuckdbFile(world.path('all.duckdb'), [
      ...typesStatements((name) => !farDates.includes(name)),
      'CREATE TABLE far (day DATE)',
      "INSERT INTO far VALUES ('2026-01-31'), ('1899-12-31')",
      'CREATE TABLE keyed (id INTEGER PRIMARY KEY, code VARCHAR UNIQUE)',
      "INSERT INTO keyed SELECT i, 'c' || i FROM range(1000) AS r(i)",
      'CREATE VIEW few AS SELECT id FROM keyed WHERE id < 10',
    ]);
    const words = ['all.duckdb', '--catalog', 'lake', '-d', 'all'];
    const report = await world.imported(words, 1);
    assert.deepEqual(
      statesOf(report),
      { far: 'failed', keyed: 'loaded', types: 'loaded' },
      JSON.stringify(report.tables),
    );
    const far = report.tables.find(({ name }) => name === 'far');
    assert.match(far?.reason ?? '', /DATA_INVALID: .*column "day": the value is none of DATE; nothing was loaded/);
    const keys = ['keyed: primary key', 'keyed: unique key'];
    assert.deepEqual(
      lost(report).toSorted(),
      [...becomesText.map(([name]) => `types.${name}: type`), ...keys].toSorted(),
    );
    assert.deepEqual(report.views, [{ name: 'few', state: 'created' }]);
    const [values] = await rowsOf('all', 'SELECT i8, i16, d38, f8, s, bin, j, u, l, m, ts FROM types WHERE i1 = -128');
    assert.deepEqual(values, {
      i8: -(2n ** 63n),
      i16: -(2n ** 127n),
      d38: '-9999999999999999999999999999.9999999999',
      f8: Number.POSITIVE_INFINITY,
      s: '',
      bin: Uint8Array.of(0, 0xff),
      j: { a: [1, 2.5, 12345678901234567890n] },
      u: '550e8400-e29b-41d4-a716-446655440000',
      l: ['1.50', null, '123456789012345678.25'],
      m: new Map([
        ['k', 2n ** 127n - 1n],
        ['l', null],
      ]),
      ts: '1969-12-31T23:59:59.999999',
    });
    // Again: what the cluster lacks is listed again, and nothing is loaded twice.
    const again = await world.imported(words, 1);
    assert.deepEqual(statesOf(again), { far: 'failed', keyed: 'present', types: 'present' });
    assert.deepEqual(lost(again).toSorted(), lost(report).toSorted());
    assert.deepEqual(await rowsOf('all', 'SELECT count(*) AS n, sum(id) AS ids FROM keyed'), [
      { n: 1000n, ids: 499_500n },
    ]);
  });

  test('a SQLite file', async () => {
    const db = new DatabaseSync(world.path('all.sqlite'));
    db.exec(`CREATE TABLE t (whole INTEGER, money DECIMAL(10,2), mixed TEXT, moment DATETIME, floating REAL);
      INSERT INTO t VALUES (9223372036854775807, '12.5', 'a"b,c', '2026-01-31 10:00:00', 0.1), (NULL, '-0.01', 'é', NULL, -9e999)`);
    db.close();
    const report = await world.imported(['all.sqlite', '--catalog', 'lake', '-d', 'lite']);
    assert.deepEqual(statesOf(report), { t: 'loaded' });
    assert.deepEqual(await rowsOf('lite', 'SELECT * FROM t ORDER BY money DESC'), [
      { whole: 2n ** 63n - 1n, money: '12.50', mixed: 'a"b,c', moment: '2026-01-31T10:00:00', floating: 0.1 },
      { whole: null, money: '-0.01', mixed: 'é', moment: null, floating: Number.NEGATIVE_INFINITY },
    ]);
  });

  test('a PostgreSQL database', { skip: missingPostgresql }, async () => {
    const location = await newDatabase();
    await runInDatabase(
      location,
      `CREATE TABLE t (id bigint PRIMARY KEY, n numeric(38,10), tz timestamptz, j jsonb, a text[], bin bytea);
       INSERT INTO t VALUES (1, -9999999999999999999999999999.9999999999, '2026-01-31 10:00:00.25+02', '{"b": 1.10}', '{a,NULL}', '\\x00ff'), (2, NULL, NULL, NULL, NULL, NULL)`,
    );
    const report = await world.imported(['--from', urlOfDatabase(location), '--catalog', 'lake', '-d', 'pg']);
    assert.deepEqual([statesOf(report), lost(report)], [{ t: 'loaded' }, ['t: primary key']]);
    const [first, second] = await rowsOf('pg', 'SELECT * FROM t ORDER BY id');
    assert.deepEqual(first, {
      id: 1n,
      n: '-9999999999999999999999999999.9999999999',
      tz: '2026-01-31T08:00:00.25Z',
      j: { b: 1.1 },
      a: ['a', null],
      bin: Uint8Array.of(0, 0xff),
    });
    assert.deepEqual(second, { id: 2n, n: null, tz: null, j: null, a: null, bin: null });
  });
});
