// A catalog is moved from DuckDB to two shards of a cluster, and back: every type, exactly, while the client's calls stay the same.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { engineWith } from '../../../src/engines/derived_engine.ts';
import type { Engine, EngineWarehouse } from '../../../src/engines/port/engine.ts';
import { type Reply, start, type TestServer } from '../../server.ts';
import { clusterHosts, createClusterWarehouse } from './cluster_warehouse.ts';
import { missingRing, type Ring, startRing } from './ring/ring.ts';

const skip = missingRing;
let server: TestServer;
let ring: Ring;
/** The tables of DuckDB that were copied as rows, and those that were restored from files. */
const asRows = new Set<string>();
const fromFiles = new Set<string>();

const recorded = (engine: EngineWarehouse): EngineWarehouse =>
  engineWith(engine, {
    execute(...[statement, options]: Parameters<EngineWarehouse['execute']>) {
      const [, table] = /^SELECT (?!count\(|CAST\().* FROM "d"\."(\w+)"$/.exec(statement.sql) ?? [];
      if (table !== undefined) asRows.add(table);
      return engine.execute(statement, options);
    },
    restorePart(...[part, options]: Parameters<EngineWarehouse['restorePart']>) {
      fromFiles.add(part.table.table);
      return engine.restorePart(part, options);
    },
  });

before(async () => {
  if (skip !== false) return;
  ring = await startRing(2);
  const wrapEngine = (engine: Engine): Engine => ({ ...engine, open: (options) => recorded(engine.open(options)) });
  server = await start({ clusterHosts }, { wrapEngine });
  await createClusterWarehouse(server.client, ring, { name: 'cluster', cluster: 'shards' });
});
after(async () => {
  await server?.close();
  await ring?.close();
});

const sql = async (text: string): Promise<unknown> =>
  (await server.post('/api/v2/catalogs/lake/query', { sql: text })).is(200).at('rows');
const move = async (body: object): Promise<Reply> =>
  server.ended((await server.post('/api/v2/catalogs/lake/move', body)).is(202));

const columns = [
  ['id', 'BIGINT', 1],
  ['b', 'BOOLEAN', true],
  ['tiny', 'TINYINT', -128],
  ['small', 'SMALLINT', 32767],
  ['i', 'INT', -2147483648],
  ['large', 'LARGEINT', '-170141183460469231731687303715884105727'],
  ['f', 'FLOAT', 0.5],
  ['d', 'DOUBLE', 0.1],
  ['price', 'DECIMAL(20, 4)', 1.25],
  ['day', 'DATE', '1969-12-31'],
  ['moment', 'DATETIME', '2026-01-31T10:00:00.123456'],
  ['zoned', 'TIMESTAMPTZ', '2026-01-31T10:00:00.123456Z'],
  ['c', 'CHAR(4)', 'ab'],
  ['v', 'VARCHAR(20)', 'é'],
  ['s', 'STRING', 'line\nbreak'],
  ['bytes', 'BINARY', '/wBcgAE='],
  ['j', 'JSON', { a: [1, null, 'é\n\\'] }],
  ['u', 'UUID', '550e8400-e29b-41d4-a716-446655440000'],
  ['list', 'ARRAY<INT>', [1, null]],
  ['m', 'MAP<STRING, INT>', [{ key: 'k', value: 1 }]],
  ['st', 'STRUCT<a: INT, b: STRING>', { a: 1, b: 'x' }],
  [
    'floats',
    'STRUCT<a: ARRAY<FLOAT>, m: MAP<INT, FLOAT>>',
    { a: [3.4028235e38, 1e-45], m: [{ key: 1, value: -3.4028235e38 }] },
  ],
] as const;

test('all types, keys, and what the cluster lacks', { skip }, async () => {
  (await server.put('/api/v2/catalogs/lake')).is(201);
  (await server.post('/api/v2/catalogs/lake/databases', { name: 'd' })).is(201);
  const tables = '/api/v2/catalogs/lake/databases/d/tables';
  const definition = { name: 't', columns: columns.map(([name, type]) => ({ name, type })) };
  (await server.post(tables, definition)).is(201);
  const keyed = { name: 'keyed', columns: [{ name: 'id', type: 'BIGINT' }], primaryKey: ['id'] };
  (await server.post(tables, keyed)).is(201);
  const rows = Array.from({ length: 50 }, (_, i) => [
    i,
    ...columns.slice(1).map(([, , value]) => (i % 7 === 3 ? null : value)),
  ]);
  (await server.post(`${tables}/t/rows`, { rows })).is(201);
  (await server.post(`${tables}/keyed/rows`, { rows: [[1], [2]] })).is(201);
  // Copied in files: no column of it has a type that is copied as rows.
  const inFiles = columns.filter(([, type]) => !/^(ARRAY|MAP|STRUCT)/.test(type));
  const names = inFiles.map(([name]) => name).join(', ');
  const filed = { name: 'filed', columns: inFiles.map(([name, type]) => ({ name, type })) };
  (await server.post(tables, filed)).is(201);
  await sql(`INSERT INTO d.filed SELECT ${names} FROM d.t`);
  const selectFiled = `SELECT * FROM d.filed ORDER BY id`;
  const filedBefore = await sql(selectFiled);
  const select = `SELECT ${columns.map(([name]) => name).join(', ')} FROM d.t ORDER BY id`;
  const before = await sql(select);

  const dry = await move({ warehouse: 'cluster', dryRun: true });
  dry.is(200, '0', { state: 'succeeded' });
  assert.partialDeepStrictEqual(dry.at('result', 'problems'), [
    { kind: 'keys', database: 'd', name: 'keyed', blocks: true, consent: 'dropUnenforcedKeys' },
  ]);
  assert.equal((await move({ warehouse: 'cluster' })).at('error', 'code'), 'MOVE_BLOCKED');
  (await move({ warehouse: 'cluster', dropUnenforcedKeys: true })).is(200, '0', { state: 'succeeded' });
  (await server.get('/api/v2/catalogs/lake')).is(200, '0', { warehouse: 'cluster' });
  (await server.get(`${tables}/keyed`)).is(200, '0', { primaryKey: [] });
  assert.deepEqual(await sql(select), before);
  assert.deepEqual(await sql(selectFiled), filedBefore);
  assert.deepEqual([...asRows], ['t']);
  (await server.post(`${tables}/keyed/rows`, { rows: [[2], [3]] })).is(201);
  assert.deepEqual(await sql('SELECT count(*), sum(id) FROM d.keyed'), [[4, 8]]);

  const dryBack = (await move({ warehouse: 'default', dryRun: true })).is(200, '0', { state: 'succeeded' });
  assert.partialDeepStrictEqual(dryBack.at('result'), { dryRun: true, rows: 104, problems: [] });
  assert.ok(dryBack.at<number>('result', 'estimatedSeconds') >= 0);
  (await move({ warehouse: 'default' })).is(200, '0', { state: 'succeeded' });
  assert.deepEqual(await sql(select), before);
  assert.deepEqual(await sql(selectFiled), filedBefore);
  assert.deepEqual([...fromFiles].sort(), ['filed', 'keyed']);
  assert.deepEqual(await sql('SELECT count(*), sum(id) FROM d.keyed'), [[4, 8]]);
});

test('values that the cluster cannot hold block the move', { skip }, async () => {
  await sql(`INSERT INTO d.t (id, day, moment, zoned) VALUES
    (100, DATE '9999-12-31', NULL, NULL),
    (101, DATE 'infinity', TIMESTAMP '1899-12-31 23:59:59.999999', NULL),
    (102, DATE '2299-12-31', TIMESTAMP '1900-01-01 00:00:00', TIMESTAMPTZ '2300-01-01 00:00:00+00')`);
  const dry = await move({ warehouse: 'cluster', dropUnenforcedKeys: true, dryRun: true });
  const problems = dry
    .is(200, '0', { state: 'succeeded' })
    .at<{ kind: string; reason: string }[]>('result', 'problems');
  const range = 'out of the range that the engine can hold, 1900-01-01 to 2299-12-31';
  assert.deepEqual(
    problems.flatMap(({ kind, reason }) => (kind === 'values' ? reason : [])),
    [
      `the column "day" has 2 values ${range}`,
      `the column "moment" has 1 value ${range}`,
      `the column "zoned" has 1 value ${range}`,
    ],
  );
  // Of the other tables.
  assert.ok(dry.at<number>('result', 'estimatedSeconds') >= 0);
  const refused = await move({ warehouse: 'cluster', dropUnenforcedKeys: true });
  assert.equal(refused.at('error', 'code'), 'MOVE_BLOCKED', JSON.stringify(refused.result));
  assert.deepEqual(await sql('SELECT count(*) FROM d.t'), [[53]]);
  await sql('DELETE FROM d.t WHERE id >= 100');
});

test('values within lists, maps and structs that the cluster cannot hold block the move', { skip }, async () => {
  const columns = [
    { name: 'days', type: 'ARRAY<DATE>' },
    { name: 'months', type: 'ARRAY<ARRAY<DATETIME>>' },
    { name: 'named', type: 'MAP<DATE, STRING>' },
    { name: 'pair', type: 'STRUCT<`a "b"`: TIMESTAMPTZ, c: MAP<STRING, STRUCT<d: DATE>>>' },
    { name: 'texts', type: 'ARRAY<STRING>' },
  ];
  (await server.post('/api/v2/catalogs/lake/databases/d/tables', { name: 'nested', columns })).is(201);
  const good = `{'a "b"': TIMESTAMPTZ '2000-01-01 00:00:00+00', 'c': MAP {'x': {'d': DATE '2000-01-01'}}}`;
  const late = `{'a "b"': TIMESTAMPTZ '2300-01-01 00:00:00+00', 'c': MAP {'x': {'d': DATE '1899-12-31'}, 'y': {'d': NULL}}}`;
  await sql(`INSERT INTO d.nested VALUES
    ([DATE '9999-12-31', DATE '2000-01-01', NULL], [[TIMESTAMP '1899-12-31 00:00:00'], NULL, []], MAP {DATE 'infinity': 'x'}, ${good}, ['a']),
    ([DATE '0001-01-01'], [[]], MAP {}, ${late}, []),
    (NULL, NULL, NULL, NULL, NULL)`);
  const dry = await move({ warehouse: 'cluster', dropUnenforcedKeys: true, dryRun: true });
  const problems = dry.is(200, '0').at<{ kind: string; name: string; reason: string }[]>('result', 'problems');
  assert.deepEqual(
    problems.flatMap(({ kind, name, reason }) => (kind === 'values' ? [[name, reason.split(' out ')[0]]] : [])),
    [
      ['nested', 'the column "days" has 2 values'],
      ['nested', 'the column "months" has 1 value'],
      ['nested', 'the column "named" has 1 value'],
      ['nested', 'the column "pair" has 2 values'],
    ],
  );
  const refused = await move({ warehouse: 'cluster', dropUnenforcedKeys: true });
  assert.equal(refused.at('error', 'code'), 'MOVE_BLOCKED', JSON.stringify(refused.result));
  (await server.get('/api/v2/catalogs/lake')).is(200, '0', { warehouse: 'default' });
  assert.deepEqual(await sql('SELECT count(*) FROM d.nested'), [[3]]);
});

test('views are carried over, and block what would break them', { skip }, async () => {
  (await server.put('/api/v2/catalogs/seen')).is(201);
  (await server.post('/api/v2/catalogs/seen/databases', { name: 'd' })).is(201);
  const [tables, views] = ['tables', 'views'].map((category) => `/api/v2/catalogs/seen/databases/d/${category}`);
  const columns = [
    { name: 'id', type: 'BIGINT' },
    { name: 's', type: 'STRING' },
  ];
  (await server.post(`${tables}`, { name: 't', columns })).is(201);
  (
    await server.post(`${tables}/t/rows`, {
      rows: [
        [1, 'a'],
        [2, 'b'],
        [3, 'c'],
      ],
    })
  ).is(201);
  (await server.post(`${views}`, { name: 'low', sql: 'SELECT id, s FROM seen.d.t WHERE id < 3' })).is(201);
  (await server.post(`${views}`, { name: 'high', sql: 'SELECT count(*) AS n, max(s) AS s FROM low' })).is(201);
  const rowsOfView = async () =>
    (await server.post('/api/v2/catalogs/seen/query', { sql: 'SELECT n, s FROM d.high' })).is(200).at('rows');
  for (const warehouse of ['cluster', 'default']) {
    const moved = await server.ended((await server.post('/api/v2/catalogs/seen/move', { warehouse })).is(202));
    moved.is(200, '0', { state: 'succeeded' });
    (await server.get('/api/v2/catalogs/seen')).is(200, '0', { warehouse });
    assert.deepEqual(await rowsOfView(), [[2, 'b']], warehouse);
    const broken = await server.patch(`${tables}/t`, { columns: columns.slice(0, 1) });
    broken.is(400, 'IN_USE', { views: [`${views}/high`, `${views}/low`] });
    (await server.delete(`${tables}/t`)).is(400, 'IN_USE');
    assert.deepEqual(await rowsOfView(), [[2, 'b']], warehouse);
  }
});
