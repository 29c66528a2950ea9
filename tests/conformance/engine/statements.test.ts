// Statements through the port, in SQL that engines have in common: what an analysis reports, results, steps,
// stale analyses, pages of rows, snapshots, and that data outlives a stop. See tests/engines/ for the dialect of an engine.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { after, test } from 'node:test';
import type { TableRef } from '../../../src/engines/port/refs.ts';
import { StaleAnalysis } from '../../../src/engines/port/statements.ts';
import type { TableDefinition } from '../../../src/model/records.ts';
import { rowReader } from '../../../src/query/rows/row_validation.ts';
import { admissionRequest } from '../../admission_request.ts';
import { engineOf } from '../../engines/engine_under_test.ts';
import { failureOf, openEngine, rowsOf, statusOf } from './engine_world.ts';

const { engine: testEngine, testOf } = engineOf(import.meta.url);
const world = await openEngine({}, testEngine);
after(() => world.close());
const { engine, catalog, database, run } = world;
const { signal } = new AbortController();
const rows = (sql: string, options?: Parameters<typeof run>[1]) => rowsOf(world, sql, options);
const refOf = (table: string): TableRef => ({ catalog, database, table });

/** A table with `count` rows: `id` from 0, and `name`. */
async function numbered(name: string, count: number): Promise<TableDefinition> {
  const definition = await world.table(name, { id: 'BIGINT', name: 'STRING' });
  await insert(name, definition, 0, count);
  return definition;
}

async function insert(name: string, definition: TableDefinition, from: number, count: number): Promise<void> {
  const values = Array.from({ length: count }, (_, i) => [from + i, `n${from + i}`]);
  const batch = rowReader(definition.columns).read(values);
  assert.equal(await engine.insertRows(refOf(name), batch, { signal, definition }), count);
}

const fragment = (text: string) => ({ text, pointer: '' });
const named = (table: string) => ({ catalog: catalog.name, database, table });

test('an analysis reports the kind of a statement, and the tables and views that it reads and writes', async () => {
  await numbered('source', 1);
  await numbered('target', 1);
  const analyze = async (sql: string) => {
    const { kind, reads, writes } = await engine.analyze(world.statement(sql), admissionRequest);
    return { kind, reads, writes };
  };
  const [source, target] = [named('source'), named('target')];
  assert.deepEqual(await analyze('SELECT id FROM source'), { kind: 'select', reads: [source], writes: [] });
  const insertion = await analyze('INSERT INTO target (id, name) SELECT id, name FROM source');
  assert.deepEqual(insertion, { kind: 'insert', reads: [source], writes: [target] });
  assert.equal(
    (await failureOf(engine.analyze(world.statement('SELECT id FROM nowhere'), admissionRequest))).code,
    'SQL_INVALID',
  );
});

test('statements that write return the number of changed rows', async () => {
  await world.table('written', { id: 'BIGINT', name: 'STRING' });
  assert.equal((await run("INSERT INTO written (id, name) VALUES (1, 'a'), (2, 'b'), (3, 'c')")).rowCount, 3);
  const table = refOf('written');
  const update = {
    kind: 'update',
    table,
    set: [{ column: 'name', value: fragment("'z'") }],
    where: fragment('id > 1'),
  } as const;
  assert.equal((await run((await engine.buildStatement(update)).sql)).rowCount, 2);
  const remove = { kind: 'delete', table, where: fragment('id = 1') } as const;
  assert.equal((await run((await engine.buildStatement(remove)).sql)).rowCount, 1);
  assert.deepEqual(await rows('SELECT id, name FROM written ORDER BY id'), [
    [2, 'z'],
    [3, 'z'],
  ]);
});

test('rowsMax truncates a result, and wide numbers are strings on request', async () => {
  await numbered('limited', 10);
  for (const [rowsMax, rowCount, truncated] of [
    [3, 3, true],
    [10, 10, false],
    [11, 10, false],
  ] as const) {
    const result = await run('SELECT id FROM limited', { rowsMax });
    assert.deepEqual([result.rowCount, result.truncated], [rowCount, truncated]);
  }
  const { rows: text } = await run('SELECT id FROM limited WHERE id = 3', { numbers: 'string' });
  assert.deepEqual(text, { kind: 'text', text: '["3"]' });
});

test('columns of a query are described without running it, and a plan is explained', async () => {
  await numbered('described', 1);
  const statement = world.statement('SELECT id, name AS called FROM described');
  const described = await engine.describe(statement);
  assert.deepEqual(
    described.map(({ name, logical }) => [name, logical?.kind]),
    [
      ['id', 'BIGINT'],
      ['called', 'STRING'],
    ],
  );
  assert.ok((await engine.explain(statement)).length > 0);
});

test('a write with a step is applied once', async () => {
  await world.table('steps', { id: 'BIGINT' });
  const sql = 'INSERT INTO steps (id) VALUES (1)';
  assert.equal((await run(sql, { step: 'once' })).repeated ?? false, false);
  assert.equal((await run(sql, { step: 'once' })).repeated, true);
  assert.equal((await run(sql, { step: 'twice' })).repeated ?? false, false);
  assert.deepEqual(await rows('SELECT id FROM steps'), [[1], [1]]);
});

test('an analysis is stale once its table was changed', async () => {
  const from = await numbered('stale', 1);
  const statement = world.statement('SELECT id FROM stale');
  const analysis = await engine.analyze(statement, admissionRequest);
  await run(statement.sql, { analysis });
  const added = { name: 'c', type: { kind: 'INT' }, nullable: true } as const;
  const to = { ...from, columns: [...from.columns, added] };
  await world.change({ kind: 'alterTable', table: refOf('stale'), from, to, renamedColumns: {} });
  await assert.rejects(run(statement.sql, { analysis }), StaleAnalysis);
});

testOf('rowPositions')('the rows of a table are read page by page', async () => {
  const definition = await numbered('listed', 250);
  const numbering = await engine.rowNumbering(refOf('listed'), definition);
  const read: unknown[] = [];
  for (let after: string | undefined; ; ) {
    const { sql, parameters } = testEngine.rowsPage(refOf('listed'), { columns: ['id'], after, limit: 100 });
    const page = (await rows(sql, { parameters })) as [unknown, number][];
    read.push(...page.map(([, id]) => id));
    after = String(page.at(-1)?.[0]);
    if (page.length < 100) break;
    await insert('listed', definition, 250 + read.length, 1);
  }
  assert.deepEqual(new Set(read).size, read.length);
  const expected = Array.from({ length: 250 }, (_, i) => i);
  assert.deepEqual(
    read.filter((id) => Number(id) < 250),
    expected,
  );
  const numberingAfterwards = await engine.rowNumbering(refOf('listed'), definition);
  assert.ok(numbering.some((mark) => numberingAfterwards.includes(mark)));
});

testOf('backups')('a snapshot has the rows of its instant, and its parts are restored once', async () => {
  const definition = await numbered('snapped', 1000);
  const { columns } = definition;
  const snapshot = await engine.snapshot(catalog, { signal });
  await insert('snapped', definition, 1000, 10);
  await world.table('copy', { id: 'BIGINT', name: 'STRING' });
  const table = { database, table: 'snapped', columns };
  let rowsBefore = 0;
  for (const { part } of await snapshot.parts(table, signal)) {
    const path = join(world.spool, randomUUID());
    const count = await snapshot.write(table, part, path, signal);
    const restored = { table: refOf('copy'), columns, path, rowsBefore, rows: count, step: randomUUID() };
    await engine.restorePart(restored, { signal });
    await engine.restorePart(restored, { signal });
    rowsBefore += count;
  }
  await snapshot.close();
  assert.deepEqual(await rows('SELECT count(*), min(id), max(id) FROM copy'), [[1000, 0, 999]]);
  assert.equal((await engine.tableStatistics(refOf('snapped'))).rowCount, 1010);
});

test('each table has tablets with replicas on the backends of the engine, which are alive', async () => {
  await numbered('placed', 1);
  const backends = testEngine.backends.map(({ name }) => name);
  const tablets = await engine.topology().tablets(refOf('placed'));
  assert.notEqual(tablets.length, 0);
  for (const { replicas } of tablets) {
    assert.notEqual(replicas.length, 0);
    for (const { backend, isAvailable } of replicas) assert.ok(isAvailable && backends.includes(backend), backend);
  }
  assert.equal(statusOf(engine, testEngine).alive, true);
});

test('an optimized table, and one whose engine was stopped, has its rows', async () => {
  await numbered('lasting', 100);
  await engine.optimize(refOf('lasting'), { signal });
  await engine.stop();
  assert.equal(engine.running, false);
  assert.equal(statusOf(engine, testEngine).alive, false);
  await engine.start();
  assert.deepEqual(await rows('SELECT count(*) FROM lasting'), [[100]]);
});
