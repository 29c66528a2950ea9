// Analysis in a process of its own: a text that crashes it does not crash the process that runs statements, only that text is
// blamed, and waiting texts are analyzed anyway. With real processes and real kills.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { AdmissionRequest } from '../../../../src/engines/admission.ts';
import { duckdbWith } from '../../../../src/engines/duckdb/duckdb.ts';
import { Confinement } from '../../../../src/engines/duckdb/sandbox/sandbox.ts';
import { crashedAlone, endedEngine } from '../../../../src/engines/engine_lost.ts';
import { Failure } from '../../../../src/standard/failure.ts';
import { admissionRequest } from '../../../admission_request.ts';
import { busyChild, childPids, idleChildren } from '../../../children.ts';
import { statusOf } from '../../../conformance/engine/engine_world.ts';
import { deadlineMs, eventually } from '../../../deadline.ts';
import { plain } from '../../../table_definition.ts';
import { codeOf, openWarehouse, spec, type TestWarehouse, textOf } from '../engine_process.ts';

/** Evaluated during binding, for many seconds. */
const killer = `SELECT ${[1, 2, 3, 4].map((i) => `length(regexp_replace(repeat('ab', 9000000${i}), 'b', 'c', 'g'))`).join(' + ')}`;
/** Runs until it is stopped. */
const endless = 'SELECT count(*) FROM range(10000000000000) a WHERE hash(range) = 42';

let warehouse: TestWarehouse;
before(async () => {
  warehouse = await openWarehouse({ memoryLimitBytes: 2 * 1024 ** 3, threads: 1 });
  await warehouse.createTable('t', { id: 'INT', name: 'STRING' }, ['id']);
  await warehouse.run(`INSERT INTO t VALUES (1, 'one')`);
});
after(() => warehouse.close());

const analyze = (sql: string, request: AdmissionRequest = admissionRequest) =>
  warehouse.engine.analyze(warehouse.statement(sql), request);
/** An idle process takes the analysis: one that is starting would look busy, or be missed by `busyProcess`. */
const analyzeWarm = async (sql: string, request?: AdmissionRequest) => {
  await analyze('SELECT 1');
  await idleChildren(warehouse.pid());
  return { analysis: analyze(sql, request) };
};
const requestBy = (id: string): AdmissionRequest => ({ ...admissionRequest, principal: { id } });

const slowExpression = killer.replace('SELECT', 'id +');

/** One row, 7, into the table `loaded`. */
function load(expression: string, request: AdmissionRequest = admissionRequest) {
  const path = join(warehouse.root, 'spool', `${randomUUID()}.csv`);
  writeFileSync(path, 'id\n7\n');
  return warehouse.engine.load(
    {
      table: { catalog: warehouse.catalog, database: 'd', table: 'loaded' },
      definition: { columns: [{ name: 'id', type: { kind: 'INT' }, nullable: true }], ...plain },
      file: { path, format: 'csv', csv: {} },
      columns: [{ name: 'id', expression }],
      mode: 'append',
      errorsMax: 0,
      dryRun: false,
      rejectsPath: join(warehouse.root, 'spool', 'rejects'),
      step: randomUUID(),
    },
    request,
  );
}

const busyProcess = () => busyChild(warehouse.pid());

test('the death of an analysis is blamed on that analysis only; the process that runs statements is unaffected', async () => {
  const before = warehouse.pid();
  const controller = new AbortController();
  const runningQuery = codeOf(warehouse.run(endless, { signal: controller.signal }));
  await eventually('the honest statement to run', () => statusOf(warehouse.engine).runningQueries > 0);
  const { analysis } = await analyzeWarm(killer, requestBy('eve'));
  const killed = analysis.catch((error: unknown) => error);
  const pid = await busyProcess();
  const otherAnalyses = Array.from({ length: 3 }, (_, i) => analyze(`SELECT id + ${i} FROM t`, requestBy(`user ${i}`)));
  process.kill(pid, 'SIGSEGV');
  const error = await killed;
  assert.ok(error instanceof Failure);
  assert.deepEqual([error.code, endedEngine(error), error.outcome], ['WAREHOUSE_FAILED', true, 'notApplied']);
  for (const { reads } of await Promise.all(otherAnalyses))
    assert.deepEqual(
      reads.map(({ table }) => table),
      ['t'],
    );
  assert.equal(textOf(await warehouse.run('SELECT name FROM t WHERE id = 1')), '["one"]');
  controller.abort();
  assert.equal(await runningQuery, 'STATEMENT_CANCELLED');
  assert.equal(warehouse.pid(), before);
  assert.deepEqual(
    warehouse.events.filter(({ kind }) => kind === 'analysisDied').map((event) => 'pid' in event && event.pid),
    [pid],
  );
});

test('for the first death of an analysis by a kill from outside nothing is blamed', async () => {
  const { analysis } = await analyzeWarm(killer, requestBy('eve'));
  const killed = analysis.catch((error: unknown) => error);
  process.kill(await busyProcess(), 'SIGKILL');
  const error = await killed;
  assert.ok(error instanceof Failure);
  assert.deepEqual([error.code, error.outcome], ['WAREHOUSE_FAILED', 'notApplied']);
  assert.deepEqual([endedEngine(error), crashedAlone(error)], [false, true]);
});

test('an endless analysis delays nobody else', async () => {
  const controller = new AbortController();
  let hasEnded = false;
  const { analysis } = await analyzeWarm(killer, { ...requestBy('eve'), signal: controller.signal });
  const slow = codeOf(analysis).finally(() => {
    hasEnded = true;
  });
  await busyProcess();
  assert.deepEqual(
    (await Promise.all([1, 2, 3].map((i) => analyze(`SELECT ${i} FROM t`, requestBy('ann'))))).map(({ kind }) => kind),
    ['select', 'select', 'select'],
  );
  assert.equal(hasEnded, false);
  controller.abort();
  assert.equal(await slow, 'STATEMENT_CANCELLED');
});

test('an endless analysis ends at its deadline, and its process with it', async () => {
  const strict = await openWarehouse({}, duckdbWith({ confinement: new Confinement('off'), analysisTimeoutMs: 500 }));
  try {
    const before = strict.pid();
    const error = await strict.engine
      .analyze(strict.statement(killer), admissionRequest)
      .catch((thrown: unknown) => thrown);
    assert.ok(error instanceof Failure);
    assert.deepEqual([error.code, endedEngine(error)], ['STATEMENT_TIMEOUT', true]);
    assert.equal(strict.pid(), before);
  } finally {
    await strict.close();
  }
});

test('the death of a process that inspects a file does not end the process that loads it', async () => {
  const before = warehouse.pid();
  await warehouse.createTable('loaded', { id: 'INT' });
  await analyze('SELECT 1');
  await idleChildren(warehouse.pid());
  const killed = load(slowExpression).catch((error: unknown) => error);
  process.kill(await busyProcess(), 'SIGSEGV');
  assert.equal(endedEngine(await killed), true);
  assert.equal((await load('id + 1')).rowsLoaded, 1);
  assert.deepEqual(await warehouse.rows('FROM loaded'), [[8]]);
  assert.equal(warehouse.pid(), before);
});

test('reading large files leaves processes for the statements of others', {
  timeout: deadlineMs(120_000),
}, async () => {
  const controller = new AbortController();
  let endedCount = 0;
  const loads = ['eve', 'eve', 'eve', 'mal', 'mal'].map((id) =>
    codeOf(load(slowExpression, { ...requestBy(id), signal: controller.signal })).finally(() => endedCount++),
  );
  await busyProcess();
  for (const id of ['eve', 'mal', 'ann'])
    assert.equal((await analyze('SELECT id FROM t', requestBy(id))).kind, 'select');
  assert.equal(endedCount, 0);
  controller.abort();
  assert.deepEqual(new Set(await Promise.all(loads)), new Set(['STATEMENT_CANCELLED']));
});

test('as many processes are started as calls wait, even while one start is in progress; a cancelled call ends', {
  timeout: deadlineMs(120_000),
}, async () => {
  await warehouse.engine.stop();
  await warehouse.engine.start();
  await analyze('SELECT id FROM t');
  const controller = new AbortController();
  let endedCount = 0;
  const slow = [1, 2, 3].map(() =>
    codeOf(analyze(killer, { ...requestBy('eve'), signal: controller.signal })).finally(() => endedCount++),
  );
  await eventually('a process for each call', () => childPids(warehouse.pid()).length >= 3 || endedCount > 0);
  assert.equal(endedCount, 0);
  controller.abort();
  assert.deepEqual(await Promise.all(slow), Array(3).fill('STATEMENT_CANCELLED'));
  assert.equal((await analyze('SELECT id FROM t')).kind, 'select');
});

test('a call that is cancelled while it waits for a process ends at once', async () => {
  const running = new AbortController();
  const slow = [1, 2, 3].map((i) => codeOf(analyze(killer, { ...requestBy(`user ${i}`), signal: running.signal })));
  const waiting = new AbortController();
  const cancelled = codeOf(analyze('SELECT id FROM t', { ...requestBy('ann'), signal: waiting.signal }));
  waiting.abort();
  assert.equal(await cancelled, 'STATEMENT_CANCELLED');
  running.abort();
  await Promise.all(slow);
});

test('statements are bound to the current definitions, in any order of changes', async () => {
  const table = { catalog: warehouse.catalog, database: 'd', table: 'changing' };
  await warehouse.createTable('changing', { a: 'INT' });
  assert.deepEqual((await analyze('SELECT a FROM changing')).reads, [
    { catalog: 'lake', database: 'd', table: 'changing' },
  ]);
  assert.equal(await codeOf(analyze('SELECT b FROM changing')), 'SQL_INVALID');
  await warehouse.apply({ kind: 'dropTable', table });
  assert.equal(await codeOf(analyze('SELECT a FROM changing')), 'SQL_INVALID');
  await warehouse.createTable('changing', { b: 'STRING' });
  assert.equal(await codeOf(analyze('SELECT a FROM changing')), 'SQL_INVALID');
  assert.equal((await analyze('SELECT b FROM CHANGING')).reads[0]?.table, 'changing');
  await warehouse.apply({
    kind: 'createView',
    view: { catalog: warehouse.catalog, database: 'd', view: 'v' },
    sql: 'SELECT b FROM changing',
  });
  const { reads, views } = await analyze('SELECT b FROM v');
  assert.deepEqual([reads[0]?.table, views[0]?.table], ['changing', 'v']);
  await warehouse.apply({
    kind: 'replaceView',
    view: { catalog: warehouse.catalog, database: 'd', view: 'v' },
    sql: 'SELECT id FROM t',
  });
  assert.deepEqual(
    (await analyze('SELECT id FROM v')).reads.map((read) => read.table),
    ['t'],
  );
  assert.equal(await codeOf(analyze('SELECT b FROM v')), 'SQL_INVALID');
  await warehouse.apply({ kind: 'createDatabase', database: { catalog: warehouse.catalog, database: 't' } });
  await warehouse.apply({
    kind: 'createTable',
    table: { catalog: warehouse.catalog, database: 't', table: 't' },
    definition: { columns: [{ name: 'x', type: { kind: 'INT' }, nullable: true }], ...plain, uniqueKey: ['x'] },
  });
  assert.deepEqual((await analyze('SELECT x FROM t.t')).reads, [{ catalog: 'lake', database: 't', table: 't' }]);
  assert.deepEqual((await analyze('INSERT INTO t.t VALUES (1) ON CONFLICT (x) DO NOTHING')).writes, [
    { catalog: 'lake', database: 't', table: 't' },
  ]);
});

test('the processes stop and start with the warehouse', async () => {
  const [pid] = childPids(warehouse.pid());
  assert.ok(pid);
  await warehouse.engine.stop();
  assert.deepEqual(childPids(warehouse.pid()), []);
  await warehouse.engine.start();
  assert.equal((await analyze('SELECT id FROM t')).kind, 'select');
  assert.equal(childPids(warehouse.pid()).length, 1);
});

test('a start that is interrupted by a stop leaves no process', async () => {
  await warehouse.engine.stop();
  const started = codeOf(warehouse.engine.start());
  await eventually('a process', () => childPids().length > 0);
  await warehouse.engine.stop();
  assert.deepEqual(childPids(), []);
  await started;
  await warehouse.engine.start();
  assert.equal((await analyze('SELECT id FROM t')).kind, 'select');
});

test('an engine whose limits change during its start is started with the new ones', async () => {
  const starts = () => warehouse.events.filter(({ kind }) => kind === 'engineStarted').length;
  await warehouse.engine.stop();
  const before = starts();
  const started = warehouse.engine.start();
  await eventually('the processes', () => childPids().length > 1);
  await warehouse.engine.configure({ ...spec, memoryLimitBytes: 512 * 1024 ** 2, threads: 1 });
  await started;
  // The first process has the previous limits, which are locked.
  assert.equal(starts(), before + 2);
  assert.deepEqual(await warehouse.rows('SELECT name FROM t WHERE id = 1'), [['one']]);
});
