// Limits that protect the server from DuckDB, and callers from each other: time, memory, disk, crashes, hostile texts. Each with a
// real process.
import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { crashedAlone, endedEngine } from '../../../src/engines/engine_lost.ts';
import { Failure } from '../../../src/standard/failure.ts';
import { admissionRequest } from '../../admission_request.ts';
import { statementsRun, statusOf } from '../../conformance/engine/engine_world.ts';
import { deadlineMs } from '../../deadline.ts';
import { codeOf, openWarehouse, spec, type TestWarehouse, textOf } from './engine_process.ts';

/** Runs until it is stopped. */
const endless = 'SELECT count(*) FROM range(10000000000000) a WHERE hash(range) = 42';
const mebibyte = 1024 * 1024;

let warehouse: TestWarehouse;
before(async () => {
  warehouse = await openWarehouse();
  await warehouse.createTable('t', { id: 'INT', name: 'STRING' }, ['id']);
  await warehouse.run(`INSERT INTO t SELECT range, 'name ' || range FROM range(1000)`);
});
after(() => warehouse.close());

test('a statement ends at its timeout, and when its caller leaves', async () => {
  const before = warehouse.pid();
  assert.equal(await codeOf(warehouse.run(endless, { timeoutMs: 300 })), 'STATEMENT_TIMEOUT');
  const controller = new AbortController();
  const running = codeOf(warehouse.run(endless, { signal: controller.signal }));
  await statementsRun(warehouse.engine, 1);
  controller.abort();
  assert.equal(await running, 'STATEMENT_CANCELLED');
  assert.equal(await codeOf(warehouse.run('SELECT 1', { signal: controller.signal })), 'STATEMENT_CANCELLED');
  const writing = new AbortController();
  const inserting = codeOf(
    warehouse.run(`INSERT INTO t SELECT range + 2000, 'x' FROM range(2000000000)`, { signal: writing.signal }),
  );
  await statementsRun(warehouse.engine, 1);
  writing.abort();
  assert.equal(await inserting, 'STATEMENT_CANCELLED');
  assert.deepEqual(await warehouse.rows('SELECT count(*) FROM t'), [[1000]]);
  assert.equal(warehouse.pid(), before, 'nothing of this needs another process');
});

test('an expensive statement does not prevent small ones from running', async () => {
  const controller = new AbortController();
  const heavy = Array.from({ length: 4 }, () => codeOf(warehouse.run(endless, { signal: controller.signal })));
  await statementsRun(warehouse.engine, heavy.length);
  for (let id = 0; id < 5; id++) {
    assert.equal(
      textOf(
        await warehouse.run('SELECT name FROM t WHERE id = $1', { parameters: [id], timeoutMs: deadlineMs(5_000) }),
      ),
      `["name ${id}"]`,
    );
  }
  controller.abort();
  assert.deepEqual(new Set(await Promise.all(heavy)), new Set(['STATEMENT_CANCELLED']));
});

test('hostile texts are refused or run; none ends the process', async () => {
  const before = warehouse.pid();
  const nestedText = (open: string, content: string, close: string, n: number) =>
    `SELECT ${open.repeat(n)}${content}${close.repeat(n)}`;
  const texts = [
    nestedText('(', '1', ')', 100_000),
    nestedText('[', '1', ']', 3_000),
    nestedText('abs(', '1', ')', 3_000),
    nestedText('NOT ', 'true', '', 50_000),
    nestedText('- ', '1', '', 50_000),
    nestedText('(SELECT ', '1', ')', 3_000),
    nestedText('CASE WHEN true THEN ', '1', ' END', 3_000),
    `SELECT 1${'+1'.repeat(20_000)}`,
    `SELECT 1${'::INT'.repeat(20_000)}`,
    `SELECT '{}'${"->'a'".repeat(40)}`,
    `SELECT ((('{}'${"->'a'".repeat(9)})${"->'a'".repeat(9)}))`,
    `SELECT NULL::INT${'[]'.repeat(2_000)}`,
    `SELECT '${'x'.repeat(1_000_000)}`,
    `SELECT length('${'x'.repeat(1_000_000)}')`,
    `SELECT 1 -- ${'x'.repeat(1_100_000)}`,
    `SELECT count(*) FROM (VALUES (1)${',(1)'.repeat(20_000)})`,
    `SELECT 1${',1'.repeat(5_000)}`,
    `SELECT 1 IN (1${',1'.repeat(20_000)})`,
    'SELECT "',
    `SELECT '`,
    'SELECT /*',
    'SELECT $$',
    'SELECT $a$ $b$',
    'SELECT \0',
    'SELECT \ud800',
    'SELECT 1e400',
    'SELECT $99999999999',
    'SELECT ?, $1',
    'SELECT $a, $1',
    `SELECT repeat('x', 1000000000000)`,
    'SELECT * FROM range(-1, 9223372036854775807, 0)',
    `SELECT '\\x'::BLOB, E'\\xff'`,
    `SELECT format('{:>999999999999}', 1)`,
    `SELECT regexp_matches('a', '(((((a*)*)*)*)*)$')`,
    `SELECT 'a' SIMILAR TO '['`,
    'SELECT t FROM t, t',
    'SELECT * FROM t AT (VERSION => 1)',
    `SELECT strptime('x', '%')`,
    'INSERT INTO t',
    'UPDATE t SET',
    'DELETE',
    'MERGE INTO t',
    'WITH RECURSIVE r AS (FROM r) FROM r',
  ];
  for (const sql of texts) {
    const code = await codeOf(warehouse.run(sql, { timeoutMs: deadlineMs(10_000), parameters: undefined }));
    assert.match(code, /^(?:none|SQL_\w+|PARAMETERS_INVALID|MEMORY_LIMIT_EXCEEDED)$/, `${sql.slice(0, 60)}: ${code}`);
  }
  assert.equal(warehouse.pid(), before, 'the process is the same');
});

test('random tokens result in clear failures', async () => {
  const before = warehouse.pid();
  const words =
    "SELECT FROM t id name WHERE ( ) , * + - ' \" $1 ? :: INT [ ] { } : -> ->> lambda x AND OR NOT NULL IN VALUES INSERT INTO UPDATE SET DELETE WITH AS GROUP BY ORDER LIMIT 1 'a' 1.5 JOIN ON USING UNION ALL CASE WHEN THEN END OVER PARTITION ; -- /* */ $$ e'\\ \0 é 🦆 struct map unnest range read_csv current_setting sum count exists interval cast filter".split(
      ' ',
    );
  const seed = Number(process.env.SEED ?? Date.now() % 1_000_000);
  let state = seed;
  const next = () => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    return state >>> 8;
  };
  for (let i = 0; i < 400; i++) {
    const sql = Array.from({ length: 1 + (next() % 14) }, () => words[next() % words.length]).join(
      next() % 4 === 0 ? '' : ' ',
    );
    const text = i % 2 === 0 ? `SELECT ${sql}` : sql;
    const code = await codeOf(warehouse.run(text, { timeoutMs: deadlineMs(5_000) })).catch(
      (error: unknown) => `${error}`,
    );
    assert.match(
      code,
      /^(?:none|SQL_\w+|PARAMETERS_INVALID|CONSTRAINT_VIOLATED)$/,
      `seed ${seed}: ${JSON.stringify(text)}: ${code}`,
    );
  }
  assert.equal(warehouse.pid(), before, `seed ${seed}: the process is the same`);
});

test('when a process is killed its statements fail, it is replaced, and no acknowledged work is lost', async () => {
  const before = warehouse.pid();
  await warehouse.run(`INSERT INTO t VALUES (5000, 'kept')`);
  const texts = [endless, `INSERT INTO t SELECT range + 10000, 'lost' FROM range(2000000000)`];
  const analyzed = await Promise.all(
    texts.map(async (sql) => ({
      sql,
      analysis: await warehouse.engine.analyze(warehouse.statement(sql), admissionRequest),
    })),
  );
  const ended = Promise.all(analyzed.map(({ sql, analysis }) => codeOf(warehouse.run(sql, { analysis }))));
  await statementsRun(warehouse.engine, 2);
  process.kill(before, 'SIGKILL');
  assert.deepEqual(await ended, ['WAREHOUSE_FAILED', 'WAREHOUSE_FAILED']);
  await warehouse.engine.start();
  assert.notEqual(warehouse.pid(), before);
  assert.deepEqual(await warehouse.rows('SELECT count(*), max(id) FROM t'), [[1001, 5000]]);
  assert.ok(warehouse.events.some((event) => event.kind === 'engineDied'));
  const spooledFiles = readdirSync(join(warehouse.root, 'spool'));
  assert.ok(spooledFiles.length <= 1, `only the living process has a spool: ${spooledFiles}`);
});

test('for a crash no statement is blamed; a statement that ran alone is known to have done so', async () => {
  const requireBlamed = async (statements: number, signal: NodeJS.Signals) => {
    await warehouse.engine.start();
    const analysis = await warehouse.engine.analyze(warehouse.statement(endless), admissionRequest);
    const running = Array.from({ length: statements }, () =>
      warehouse.run(endless, { analysis }).catch((error) => error),
    );
    await statementsRun(warehouse.engine, statements);
    process.kill(warehouse.pid(), signal);
    return (await Promise.all(running)).map((error) => [endedEngine(error), crashedAlone(error)]);
  };
  assert.deepEqual(await requireBlamed(1, 'SIGSEGV'), [[false, true]]);
  assert.deepEqual(await requireBlamed(2, 'SIGSEGV'), [
    [false, false],
    [false, false],
  ]);
  assert.deepEqual(await requireBlamed(1, 'SIGKILL'), [[false, false]]);
  await warehouse.engine.start();
});

test('a statement that ignores its cancellation is blamed, and those beside it are not', async () => {
  const uninterruptible = `SELECT length(regexp_replace(repeat('ab', 60000000 + range::INT), 'b', 'c', 'g')) FROM range(1)`;
  const warehouse = await openWarehouse();
  try {
    const otherStatement = warehouse.run(endless).catch((error: unknown) => error);
    await statementsRun(warehouse.engine, 1);
    const killer = await warehouse.run(uninterruptible, { timeoutMs: 500 }).catch((error: unknown) => error);
    assert.equal(killer instanceof Failure && killer.code, 'STATEMENT_TIMEOUT');
    assert.deepEqual([endedEngine(killer), endedEngine(await otherStatement)], [true, false]);
  } finally {
    await warehouse.close();
  }
});

test('exceeding the memory or spill limit ends a statement, and the next one runs', async () => {
  const small = await openWarehouse({ memoryLimitBytes: 64 * mebibyte, spillLimitBytes: 16 * mebibyte });
  try {
    const pid = small.pid();
    assert.equal(await codeOf(small.run('SELECT list(range) FROM range(100000000)')), 'MEMORY_LIMIT_EXCEEDED');
    assert.equal(
      await codeOf(small.run('SELECT count(*) FROM (SELECT DISTINCT range % 90000000 FROM range(90000000))')),
      'SPILL_LIMIT_EXCEEDED',
    );
    assert.equal(textOf(await small.run('SELECT 1')), '[1]');
    assert.equal(small.pid(), pid);
    // Memory that DuckDB does not count: the process is killed when it exceeds its limit by a quarter plus 256 MiB.
    const code = await codeOf(
      small.run(
        `SELECT max(length(x)) FROM (SELECT repeat('x', 900000000 + range::INT) || repeat('y', 900000000) AS x FROM range(4))`,
      ),
    );
    assert.equal(code, 'MEMORY_LIMIT_EXCEEDED');
    await small.engine.start();
    assert.equal(textOf(await small.run('SELECT 2')), '[2]');
  } finally {
    await small.close();
  }
});

test('stopping ends what runs and starting restores everything, any number of times', async () => {
  const warehouse = await openWarehouse();
  try {
    await warehouse.createTable('kept', { a: 'INT' });
    await warehouse.run('INSERT INTO kept VALUES (1)');
    const pid = warehouse.pid();
    const running = codeOf(warehouse.run(endless));
    await statementsRun(warehouse.engine, 1);
    await Promise.all([warehouse.engine.stop(), warehouse.engine.stop()]);
    assert.equal(await running, 'WAREHOUSE_SUSPENDED');
    assert.equal(warehouse.engine.running, false);
    assert.throws(() => process.kill(pid, 0));
    assert.equal((await warehouse.run('SELECT 1').catch((error: Failure) => error)) instanceof Failure, true);
    await Promise.all([warehouse.engine.start(), warehouse.engine.start()]);
    assert.equal(warehouse.events.filter(({ kind }) => kind === 'engineStarted').length, 2, 'started once for both');
    assert.deepEqual(await warehouse.rows('FROM kept'), [[1]]);
    await warehouse.engine.configure({ ...spec, threads: 1, memoryLimitBytes: 512 * mebibyte });
    await warehouse.engine.start();
    assert.equal(statusOf(warehouse.engine).memoryLimitBytes, 512 * mebibyte);
    assert.deepEqual(await warehouse.rows('FROM kept'), [[1]]);
    const status = statusOf(warehouse.engine);
    assert.equal(status.alive, true);
    assert.ok(status.version);
    assert.equal(existsSync(join(warehouse.root, 'catalogs', `${warehouse.catalog.id}.duckdb`)), true);
  } finally {
    await warehouse.close();
  }
});
