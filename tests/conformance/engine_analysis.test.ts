// Analysis in a process of its own: what dies of a text is not the process that runs statements, only that text is blamed, and what waits
// behind it is analysed all the same. With real processes and real kills.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { Turn } from '../../src/engines/admission.ts';
import { endedEngine } from '../../src/engines/engine_lost.ts';
import { Failure } from '../../src/standard/failure.ts';
import { busyChild, childrenBut } from '../children.ts';
import { eventually } from '../deadline.ts';
import { turn } from '../turn.ts';
import { codeOf, openWarehouse, type TestWarehouse, textOf } from './engine_process.ts';

/** Worked out while it is bound, for longer than the deadline of an analysis. */
const killer = `SELECT length(regexp_replace(repeat('ab', 90000000), 'b', 'c', 'g'))`;
/** Runs until it is stopped. */
const endless = 'SELECT count(*) FROM range(10000000000000) a WHERE hash(range) = 42';

let w: TestWarehouse;
before(async () => {
  w = await openWarehouse({ memoryLimitBytes: 2 * 1024 ** 3 });
  await w.createTable('t', { id: 'INT', name: 'STRING' }, ['id']);
  await w.run(`INSERT INTO t VALUES (1, 'one')`);
});
after(() => w.close());

const analyze = (sql: string, one: Turn = turn) => w.engine.analyze(w.statement(sql), one);
const of = (id: string): Turn => ({ ...turn, principal: { id } });

const busyProcess = () => busyChild(w.pid());

test('the death of an analysis is blamed on it alone; the process that runs statements does not notice', async () => {
  const before = w.pid();
  const controller = new AbortController();
  const honest = codeOf(w.run(endless, { signal: controller.signal }));
  await eventually('the honest statement to run', () => w.engine.status().runningQueries > 0);
  const killed = analyze(killer, of('eve')).catch((error: unknown) => error);
  const pid = await busyProcess();
  const beside = Array.from({ length: 6 }, (_, i) => analyze(`SELECT id + ${i} FROM t`, of(`user ${i}`)));
  process.kill(pid, 'SIGKILL');
  const error = await killed;
  assert.ok(error instanceof Failure);
  assert.deepEqual([error.code, endedEngine(error), error.outcome], ['WAREHOUSE_FAILED', true, 'notApplied']);
  for (const { reads } of await Promise.all(beside))
    assert.deepEqual(
      reads.map(({ table }) => table),
      ['t'],
    );
  assert.equal(textOf(await w.run('SELECT name FROM t WHERE id = 1')), '["one"]');
  controller.abort();
  assert.equal(await honest, 'STATEMENT_CANCELLED');
  assert.equal(w.pid(), before);
  assert.deepEqual(
    w.events.filter(({ kind }) => kind === 'analysisDied').map((event) => 'pid' in event && event.pid),
    [pid],
  );
});

test('an analysis that goes on and on ends at its deadline, and holds nobody else up', {
  timeout: 120_000,
}, async () => {
  const before = w.pid();
  const slow = analyze(killer, of('eve')).catch((error: unknown) => error);
  await busyProcess();
  assert.deepEqual(
    (await Promise.all([1, 2, 3].map((i) => analyze(`SELECT ${i} FROM t`, of('ann'))))).map(({ kind }) => kind),
    ['select', 'select', 'select'],
  );
  const error = await slow;
  assert.ok(error instanceof Failure);
  assert.deepEqual([error.code, endedEngine(error)], ['STATEMENT_TIMEOUT', true]);
  assert.equal(w.pid(), before);
});

test('the death of a process that reads a file to be loaded is not that of the one that loads', async () => {
  const before = w.pid();
  const path = join(w.root, 'spool', 'rows.csv');
  writeFileSync(path, 'id\n7\n');
  const definition = {
    columns: [{ name: 'id', type: { kind: 'INT' }, nullable: true }],
    primaryKey: [],
    uniqueKey: [],
  } as const;
  await w.createTable('loaded', { id: 'INT' });
  const load = (expression: string) =>
    w.engine.load(
      {
        table: { catalog: w.catalog, database: 'd', table: 'loaded' },
        definition,
        file: { path, format: 'csv', csv: {} },
        columns: [{ name: 'id', expression }],
        mode: 'append',
        errorsMax: 0,
        dryRun: false,
        rejectsPath: join(w.root, 'spool', 'rejects'),
        step: randomUUID(),
      },
      turn,
    );
  const killed = load(killer.replace('SELECT', 'id +')).catch((error: unknown) => error);
  process.kill(await busyProcess(), 'SIGKILL');
  assert.equal(endedEngine(await killed), true);
  assert.equal((await load('id + 1')).rowsLoaded, 1);
  assert.deepEqual(await w.rows('FROM loaded'), [[8]]);
  assert.equal(w.pid(), before);
});

test('statements are bound on definitions as they are now, in any order of changes', async () => {
  const table = { catalog: w.catalog, database: 'd', table: 'changing' };
  await w.createTable('changing', { a: 'INT' });
  assert.deepEqual((await analyze('SELECT a FROM changing')).reads, [
    { catalog: 'lake', database: 'd', table: 'changing' },
  ]);
  assert.equal(await codeOf(analyze('SELECT b FROM changing')), 'SQL_INVALID');
  await w.apply({ kind: 'dropTable', table });
  assert.equal(await codeOf(analyze('SELECT a FROM changing')), 'SQL_INVALID');
  await w.createTable('changing', { b: 'STRING' });
  assert.equal(await codeOf(analyze('SELECT a FROM changing')), 'SQL_INVALID');
  assert.equal((await analyze('SELECT b FROM CHANGING')).reads[0]?.table, 'changing');
  await w.apply({
    kind: 'createView',
    view: { catalog: w.catalog, database: 'd', view: 'v' },
    sql: 'SELECT b FROM changing',
  });
  const { reads, views } = await analyze('SELECT b FROM v');
  assert.deepEqual([reads[0]?.table, views[0]?.table], ['changing', 'v']);
  await w.apply({
    kind: 'replaceView',
    view: { catalog: w.catalog, database: 'd', view: 'v' },
    sql: 'SELECT id FROM t',
  });
  assert.deepEqual(
    (await analyze('SELECT id FROM v')).reads.map((one) => one.table),
    ['t'],
  );
  assert.equal(await codeOf(analyze('SELECT b FROM v')), 'SQL_INVALID');
  await w.apply({ kind: 'createDatabase', database: { catalog: w.catalog, database: 't' } });
  await w.apply({
    kind: 'createTable',
    table: { catalog: w.catalog, database: 't', table: 't' },
    definition: { columns: [{ name: 'x', type: { kind: 'INT' }, nullable: true }], primaryKey: [], uniqueKey: ['x'] },
  });
  assert.deepEqual((await analyze('SELECT x FROM t.t')).reads, [{ catalog: 'lake', database: 't', table: 't' }]);
  assert.deepEqual((await analyze('INSERT INTO t.t VALUES (1) ON CONFLICT (x) DO NOTHING')).writes, [
    { catalog: 'lake', database: 't', table: 't' },
  ]);
});

test('the processes leave with the warehouse, and come back with it', async () => {
  const [pid] = childrenBut(w.pid());
  assert.ok(pid);
  await w.engine.stop();
  assert.deepEqual(childrenBut(w.pid()), []);
  await w.engine.start();
  assert.equal((await analyze('SELECT id FROM t')).kind, 'select');
  assert.equal(childrenBut(w.pid()).length, 1);
});
