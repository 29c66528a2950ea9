// Views on DuckDB: each change is atomic and idempotent; the effect of changes under views, and what an analysis reports about
// views.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, test } from 'node:test';
import { qualifiedTable } from '../../../../src/engines/duckdb/sql/identifiers.ts';
import type { ViewRef } from '../../../../src/engines/port/refs.ts';
import { StaleAnalysis } from '../../../../src/engines/port/statements.ts';
import { admissionRequest } from '../../../admission_request.ts';
import { deadlineMs } from '../../../deadline.ts';
import { openWarehouse, type TestWarehouse } from '../engine_process.ts';
import { column, definition, failureOf, hostileName, requireIdempotent, type World, world } from './changes_world.ts';

const plain = definition([column('id', 'BIGINT'), column('n', 'INT')]);
const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`;

async function withTable(): Promise<World> {
  const fixture = await world();
  await fixture.apply({ kind: 'createTable', table: fixture.table, definition: plain });
  await fixture.rows(`INSERT INTO ${qualifiedTable(fixture.table)} VALUES (1, 10), (2, 20)`);
  return fixture;
}

const viewIn = (fixture: World, view: string): ViewRef => ({ ...fixture.database, view });
const read = (fixture: World, view: string) =>
  fixture.rows(`FROM ${qualifiedTable({ ...fixture.database, table: view })} ORDER BY ALL`);

test('a view is created, replaced, renamed and dropped', async () => {
  const fixture = await withTable();
  const view = viewIn(fixture, `v ${hostileName}`);
  const sql = `SELECT n FROM ${quoted(fixture.table.table)} -- to the end`;
  await requireIdempotent(fixture, { kind: 'createView', view, sql });
  assert.deepEqual(await read(fixture, view.view), [[10], [20]]);
  await requireIdempotent(fixture, { kind: 'replaceView', view, sql: `${sql}\n WHERE id = 1` });
  assert.deepEqual(await read(fixture, view.view), [[10]]);
  await requireIdempotent(fixture, { kind: 'renameView', view, newName: 'w', sql });
  await assert.rejects(read(fixture, view.view), /does not exist/);
  assert.deepEqual(await read(fixture, 'w'), [[10], [20]]);
  await requireIdempotent(fixture, { kind: 'renameView', view: viewIn(fixture, 'w'), newName: 'W', sql });
  const names = 'SELECT view_name FROM duckdb_views() WHERE NOT internal';
  assert.deepEqual(await fixture.rows(names), [['W']]);
  await requireIdempotent(fixture, { kind: 'dropView', view: viewIn(fixture, 'W') });
  assert.deepEqual(await fixture.rows(names), []);
  for (const invalidQuery of ['SELECT nope FROM t', 'FROM nope', 'SELECT 1; SELECT 2', 'DROP TABLE t', 'SELECT $1'])
    assert.match(
      (await failureOf(fixture.apply({ kind: 'createView', view, sql: invalidQuery }))).message,
      /./,
      invalidQuery,
    );
  assert.deepEqual(await fixture.rows(names), []);
});

test('a change that would break a view is refused; otherwise the new columns of the view are reported', async () => {
  const fixture = await withTable();
  const id = randomUUID();
  const view = viewIn(fixture, 'v');
  await fixture.apply({ kind: 'createView', view, sql: `SELECT * FROM ${quoted(fixture.table.table)} WHERE n > 0` });
  const views = [
    { id, view },
    { id: randomUUID(), view: viewIn(fixture, 'dropped meanwhile') },
  ];
  const alter = (...columns: ReturnType<typeof column>[]) =>
    ({
      kind: 'alterTable',
      table: fixture.table,
      from: plain,
      to: definition(columns),
      renamedColumns: {},
      views,
    }) as const;
  const failure = await failureOf(fixture.apply(alter(column('id', 'BIGINT'))));
  assert.equal(failure.code, 'IN_USE');
  assert.deepEqual(failure.result, { broken: [id] });
  assert.deepEqual(await read(fixture, 'v'), [
    ['1', 10],
    ['2', 20],
  ]);
  const change = alter(column('id', 'BIGINT'), column('n', 'BIGINT'), column('more', 'STRING'));
  const columns = [
    { name: 'id', type: 'BIGINT' },
    { name: 'n', type: 'BIGINT' },
    { name: 'more', type: 'STRING' },
  ];
  // The second time nothing is changed, and the same is reported.
  const step = randomUUID();
  for (let i = 0; i < 2; i++) assert.deepEqual(await fixture.apply(change, step), { views: [{ id, columns }] });
  const viewOverView = await failureOf(fixture.apply({ kind: 'replaceView', view, sql: 'FROM v' }));
  assert.equal(viewOverView.code, 'SQL_INVALID', 'a view under itself is not to be had');
});

test('views are restored with their database if they are valid, in any order', async () => {
  const fixture = await withTable();
  const { database } = fixture;
  const other = { ...fixture.table, table: 'other' };
  await fixture.apply({ kind: 'createTable', table: other, definition: plain });
  const id = randomUUID();
  const sqls = { a: 'FROM b', b: 'FROM c', c: `FROM ${quoted(fixture.table.table)}`, lost: 'FROM gone' };
  const views = Object.entries(sqls).map(([name, sql]) => ({ id: name, database: database.database, name, sql }));
  await requireIdempotent(fixture, { kind: 'hideDatabase', database, tables: [{ id, name: fixture.table.table }] });
  assert.deepEqual(await fixture.rows('SELECT view_name FROM duckdb_views() WHERE NOT internal'), []);
  const tables = [{ id, name: fixture.table.table, definition: plain }];
  const change = { kind: 'restoreDatabase', database, from: database.database, tables, views } as const;
  for (let i = 0; i < 2; i++) {
    const applied = (await fixture.apply(change)) as {
      views: { id: string; sources?: { name: { table: string } }[] }[];
    };
    const sourcesById = applied.views.map((view) => [view.id, view.sources?.map(({ name }) => name.table)]);
    assert.deepEqual(sourcesById, [
      ['c', [fixture.table.table]],
      ['b', ['c']],
      ['a', ['b']],
      ['lost', undefined],
    ]);
  }
  assert.deepEqual(await read(fixture, 'a'), [
    ['1', 10],
    ['2', 20],
  ]);
});

let running: TestWarehouse;
before(async () => {
  running = await openWarehouse();
});
after(() => running.close());

test('an analysis reports every view and every table under them, also after a restart', async () => {
  const { engine, apply, statement, catalog } = running;
  await running.createTable('t', { id: 'INT' });
  await running.createTable('u', { id: 'INT' });
  const make = (view: string, sql: string) =>
    apply({ kind: 'createView', view: { catalog, database: 'd', view }, sql });
  await make('folded', 'SELECT id FROM u WHERE false');
  await make('v', 'WITH u AS (SELECT 1 AS id) SELECT t.id FROM t, u, folded');
  await make('constant', 'SELECT 1 AS one');
  const tablesOf = (names: readonly { readonly table: string }[]) => names.map(({ table }) => table).sort();
  const usageOf = async (sql: string) => {
    const { reads, writes, views } = await engine.analyze(statement(sql), admissionRequest);
    return [tablesOf(views), tablesOf(reads), tablesOf(writes)];
  };
  const check = async () => {
    assert.deepEqual(await usageOf('SELECT * FROM lake.d.V'), [['folded', 'v'], ['t', 'u'], []]);
    assert.deepEqual(await usageOf('SELECT * FROM d.folded'), [['folded'], ['u'], []]);
    assert.deepEqual(await usageOf('SELECT 1 WHERE 2 IN (FROM constant)'), [['constant'], [], []]);
    assert.deepEqual(await usageOf('INSERT INTO t SELECT one FROM constant'), [['constant'], [], ['t']]);
    assert.deepEqual(await usageOf("WITH v AS (SELECT 'constant') FROM v"), [[], [], []]);
    assert.deepEqual(await usageOf('SELECT id FROM t'), [[], ['t'], []]);
  };
  await check();
  await engine.stop();
  await engine.start();
  await check();
});

test('an analysis is stale after one of its views changed, but not after another one did', async () => {
  const { engine, apply, statement, catalog, run } = running;
  await running.createTable('s', { id: 'INT' });
  const ref = (view: string) => ({ catalog, database: 'd', view });
  await apply({ kind: 'createView', view: ref('s1'), sql: 'SELECT id FROM s' });
  await apply({ kind: 'createView', view: ref('s2'), sql: 'SELECT id FROM s1' });
  await apply({ kind: 'createView', view: ref('s3'), sql: 'SELECT 1 AS a' });
  const query = statement('SELECT count(*) FROM s2');
  const signal = AbortSignal.timeout(deadlineMs(30_000));
  const options = { numbers: 'number', timeoutMs: deadlineMs(30_000), signal, pageBytesMax: 1e6 } as const;
  const execute = (analysis: Awaited<ReturnType<typeof engine.analyze>>) =>
    engine.execute(query, { ...options, analysis, resultPath: `${running.root}/spool/stale` });
  let analysis = await engine.analyze(query, admissionRequest);
  await apply({ kind: 'replaceView', view: ref('s3'), sql: 'SELECT 2 AS a' });
  await execute(analysis);
  await apply({ kind: 'replaceView', view: ref('s1'), sql: 'SELECT 7 AS id' });
  await assert.rejects(execute(analysis), StaleAnalysis);
  analysis = await engine.analyze(query, admissionRequest);
  assert.deepEqual(analysis.reads, []);
  await apply({ kind: 'dropView', view: ref('s2') });
  await assert.rejects(execute(analysis), StaleAnalysis);
  await assert.rejects(run('SELECT * FROM s2'), /does not exist/);
});
