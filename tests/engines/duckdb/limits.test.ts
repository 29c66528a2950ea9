// What ends a statement or a process, on a real engine process: cancellation, timeouts, memory, disk, the death of either side; and
// starting, stopping and renaming while statements run.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { after, test } from 'node:test';
import { duckdbEngine } from '../../../src/engines/duckdb/duckdb.ts';
import { admissionRequest } from '../../admission_request.ts';
import {
  type EngineWorld,
  failureOf,
  MiB,
  openEngine,
  spec,
  statementsRun,
  statusOf,
} from '../../conformance/engine/engine_world.ts';
import { eventually } from '../../deadline.ts';

const open: EngineWorld[] = [];
after(() => Promise.all(open.map((world) => world.close())));
async function engineOf(options: Parameters<typeof openEngine>[0] = {}): Promise<EngineWorld> {
  const world = await openEngine(options);
  open.push(world);
  return world;
}
const kindsOf = ({ events }: EngineWorld) => events.map(({ kind }) => kind);
const pidOf = ({ events }: EngineWorld) => events.findLast((event) => event.kind === 'engineStarted')?.pid as number;
const analysisOf = (world: EngineWorld, sql: string) => world.engine.analyze(world.statement(sql), admissionRequest);
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const leftIn = (world: EngineWorld) => readdirSync(world.spool).filter((name) => name !== 'spill');
const endless = 'SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE a.range + b.range = 7';
/** A single call of a function that does not check for interrupts. */
const uninterruptible = `SELECT length(regexp_replace(repeat('ab', 150000000 + range::INT), 'b', 'c', 'g')) FROM range(1)`;

test('a statement is cancelled at once, and the process survives', async () => {
  const world = await engineOf();
  await world.table('t', { id: 'BIGINT' });
  await world.run('INSERT INTO t SELECT range FROM range(100000)');
  const write = `UPDATE t SET id = (SELECT count(*) FROM range(10000000) a, range(1000000) b WHERE a.range + b.range = t.id)`;
  for (const sql of [endless, write, 'SELECT a.range FROM range(100000) a, range(100000) b']) {
    const analysis = await analysisOf(world, sql);
    for (const ms of [0, 1, 5, 20, 300]) {
      const controller = new AbortController();
      const running = failureOf(world.run(sql, { analysis, signal: controller.signal }));
      if (ms > 0) await pause(ms);
      controller.abort();
      assert.equal((await running).code, 'STATEMENT_CANCELLED');
    }
  }
  assert.equal((await failureOf(world.run(endless, { timeoutMs: 200 }))).code, 'STATEMENT_TIMEOUT');
  // Nothing of it remains: no transaction, no file.
  assert.deepEqual((await world.run('SELECT count(DISTINCT id) FROM t')).rows, { kind: 'text', text: '[100000]' });
  assert.equal((await world.run('DELETE FROM t')).rowCount, 100_000);
  assert.deepEqual(leftIn(world), []);
  assert.deepEqual(kindsOf(world), ['engineStarted']);
});

test('a process whose statement ignores interrupts is killed and replaced', async () => {
  const world = await engineOf({ memoryLimitBytes: 2048 * MiB });
  const analysis = await analysisOf(world, uninterruptible);
  const controller = new AbortController();
  const running = failureOf(world.run(uninterruptible, { analysis, signal: controller.signal }));
  const other = failureOf(world.run(endless, { analysis: await analysisOf(world, endless) }));
  await statementsRun(world.engine, 2);
  controller.abort();
  assert.equal((await running).code, 'STATEMENT_CANCELLED');
  if (kindsOf(world).includes('engineKilled')) {
    assert.equal((await other).code, 'WAREHOUSE_FAILED');
    await world.engine.start();
    assert.deepEqual(kindsOf(world), ['engineStarted', 'engineKilled', 'engineDied', 'engineStarted']);
  }
  assert.equal((await world.run('SELECT 1')).rowCount, 1);
});

test('a chain of arrows, whose binding would not end, is refused', async () => {
  const world = await engineOf();
  for (const sql of [
    `SELECT '{}'${`->'a'`.repeat(40)}`,
    `SELECT ${'('.repeat(40)}'{}'${`->'a')`.repeat(40)}`,
    `SELECT ${'f('.repeat(40)}'{}'${`->'a')`.repeat(40)}`,
  ]) {
    const failure = await failureOf(world.run(sql));
    assert.equal(failure.code, 'SQL_INVALID');
    assert.match(failure.message, /arrows/);
  }
  assert.equal(
    (await world.run(`SELECT ${Array.from({ length: 50 }, () => `'{}'::JSON->'a'->>'b'`).join(', ')}`)).rowCount,
    1,
  );
  assert.deepEqual(kindsOf(world), ['engineStarted']);
});

test('memory and temporary disk have limits', async () => {
  const world = await engineOf({ memoryLimitBytes: 64 * MiB, spillLimitBytes: 8 * MiB });
  const list = await failureOf(world.run('SELECT length(list(range)::VARCHAR) FROM range(30000000)'));
  assert.equal(list.code, 'MEMORY_LIMIT_EXCEEDED');
  const sort = await failureOf(
    world.run(`SELECT * FROM (SELECT hash(range) AS h, repeat('x', 100) FROM range(5000000)) ORDER BY h`),
  );
  assert.equal(sort.code, 'SPILL_LIMIT_EXCEEDED');
  assert.doesNotMatch(sort.message + list.message, /tabularium-|SET /);
  assert.equal((await world.run('SELECT 1')).rowCount, 1);
  assert.deepEqual(leftIn(world), []);
  assert.deepEqual(kindsOf(world), ['engineStarted']);
});

test('a process that exceeds its memory limit is killed and replaced', async () => {
  const world = await engineOf({ memoryLimitBytes: 64 * MiB });
  const greedy = `SELECT length(regexp_replace(repeat('ab', 350000000 + range::INT), 'b', 'c', 'g')) FROM range(1)`;
  assert.equal((await failureOf(world.run(greedy))).code, 'MEMORY_LIMIT_EXCEEDED');
  assert.equal(world.engine.running, false);
  await world.engine.start();
  const other = failureOf(world.run(endless, { analysis: await analysisOf(world, endless) }));
  assert.equal((await failureOf(world.run(greedy))).code, 'WAREHOUSE_FAILED');
  assert.equal((await other).code, 'WAREHOUSE_FAILED');
  await world.engine.start();
  assert.equal((await world.run('SELECT 1')).rowCount, 1);
  const expectedEvents = ['engineStarted', 'engineKilled', 'engineDied'];
  assert.deepEqual(kindsOf(world), [...expectedEvents, ...expectedEvents, 'engineStarted']);
});

test('memory that the analysis of a statement lacks is not said to be that of the statement while it runs', async () => {
  const world = await engineOf({ memoryLimitBytes: 64 * MiB });
  const failure = await failureOf(analysisOf(world, `SELECT repeat('y', 1000000000)`));
  assert.equal(failure.code, 'MEMORY_LIMIT_EXCEEDED');
  assert.match(
    failure.message,
    /^the analysis of the statement .* its limit of 67108864 bytes: that is `memoryLimitBytes`/,
  );
  assert.equal((await world.run('SELECT 1')).rowCount, 1);
});

test('a killed process is replaced automatically, and its statements report the loss', async () => {
  const world = await engineOf();
  await world.table('t', { id: 'BIGINT' });
  await world.run('INSERT INTO t VALUES (1)');
  const texts = [endless, 'SELECT range FROM range(300000000)'];
  const analyzed = await Promise.all(texts.map(async (sql) => ({ sql, analysis: await analysisOf(world, sql) })));
  const running = analyzed.map(({ sql, analysis }) => failureOf(world.run(sql, { analysis })));
  await statementsRun(world.engine, 2);
  process.kill(pidOf(world), 'SIGKILL');
  for (const statement of running) assert.equal((await statement).code, 'WAREHOUSE_FAILED');
  await eventually('a new process', () => world.engine.running);
  assert.deepEqual((await world.run('SELECT id FROM t')).rows, { kind: 'text', text: '[1]' });
  assert.deepEqual(leftIn(world), []);
  assert.deepEqual(kindsOf(world), ['engineStarted', 'engineDied', 'engineStarted']);
});

test('stopping ends running statements; after starts and stops in any order the last one applies', async () => {
  const world = await engineOf();
  await world.table('t', { id: 'BIGINT' });
  const { engine } = world;
  const running = failureOf(world.run(endless, { analysis: await analysisOf(world, endless) }));
  await statementsRun(engine, 1);
  await Promise.all([engine.stop(), engine.stop()]);
  assert.equal((await running).code, 'WAREHOUSE_SUSPENDED');
  assert.equal(engine.running, false);
  assert.equal((await failureOf(world.run('SELECT 1'))).code, 'WAREHOUSE_SUSPENDED');
  await Promise.all([engine.start(), engine.start()]);
  assert.equal((await world.run('INSERT INTO t VALUES (1)')).rowCount, 1);
  void engine.stop();
  await engine.start();
  assert.equal((await world.run('SELECT * FROM t')).rowCount, 1);
  await engine.stop();
  const start = failureOf(engine.start());
  await pause(50);
  await engine.stop();
  assert.equal((await start).code, 'WAREHOUSE_SUSPENDED');
  assert.equal(engine.running, false);
  await pause(200);
  assert.equal(engine.running, false);
  assert.ok(!kindsOf(world).includes('engineDied'));
});

test('new limits apply once nothing runs', async () => {
  const world = await engineOf();
  const before = pidOf(world);
  const count = 'SELECT count(*) FROM range(300000000)';
  // Nothing runs between its analysis and its execution, and the new limits are applied then.
  const running = world.run(count, { analysis: await analysisOf(world, count) });
  await world.engine.configure({ ...spec, memoryLimitBytes: 100 * MiB, threads: 1 });
  assert.equal(pidOf(world), before);
  assert.equal((await running).rowCount, 1);
  await eventually('another process', () => world.engine.running && pidOf(world) !== before);
  assert.equal(statusOf(world.engine).memoryLimitBytes, 100 * MiB);
  assert.equal(
    (await failureOf(world.run('SELECT length(list(range)::VARCHAR) FROM range(30000000)'))).code,
    'MEMORY_LIMIT_EXCEEDED',
  );
});

test('a catalog is renamed and dropped while statements run in it', async () => {
  const world = await engineOf();
  await world.table('t', { id: 'BIGINT' });
  let isBusy = true;
  let succeeded = 0;
  const codes = new Set<string>();
  const statements = Array.from({ length: 4 }, async () => {
    while (isBusy) {
      const { code } = await failureOf(world.run('SELECT count(*), sum(range) FROM t, range(100000)'));
      codes.add(code);
      if (code === '0') succeeded++;
    }
  });
  const { id, name } = world.catalog;
  try {
    for (let i = 0; i < 5; i++) {
      const before = succeeded;
      await eventually('statements succeed between the changes', () => succeeded > before);
      await world.change({ kind: 'renameCatalog', catalog: { id, name }, newName: `other ${i}` });
      await world.change({ kind: 'renameCatalog', catalog: { id, name: `other ${i}` }, newName: name });
    }
    await world.change({ kind: 'dropCatalog', catalog: world.catalog });
  } finally {
    // Otherwise the statements keep the process of this file running when an assertion fails.
    isBusy = false;
    await Promise.all(statements);
  }
  // '0' too: some statements end while the change waits.
  for (const code of codes) assert.match(code, /^(?:0|CHANGE_IN_PROGRESS|SQL_INVALID)$/);
  assert.deepEqual(kindsOf(world), ['engineStarted']);
});

test('an engine whose server is killed ends, and a new one can open the files', async () => {
  const world = await engineOf();
  await world.table('t', { id: 'BIGINT' });
  await world.engine.stop();
  const file = new URL('../../../src/engines/duckdb/duckdb.ts', import.meta.url).href;
  const options = { name: 'w', spec, dataDirectory: world.directory, spoolDirectory: world.spool };
  const script = `import { duckdbEngine } from ${JSON.stringify(file)};
    const engine = duckdbEngine.open({ ...${JSON.stringify(options)}, catalogs: async () => [${JSON.stringify(world.catalog)}],
      observe: (event) => { if (event.pid) console.log(event.pid); } });
    await engine.start();
    const statement = { sql: ${JSON.stringify(endless)}, catalog: ${JSON.stringify(world.catalog)}, database: ${JSON.stringify(world.database)} };
    const turn = { principal: { id: 'x' }, signal: new AbortController().signal };
    await engine.execute(statement, { analysis: await engine.analyze(statement, turn), numbers: 'number', timeoutMs: 60000,
      signal: new AbortController().signal, resultPath: ${JSON.stringify(`${world.spool}/r`)}, pageBytesMax: 1000 });`;
  const parent = spawn(process.execPath, ['--input-type=module-typescript', '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const pid = await new Promise<number>((resolve) => parent.stdout.once('data', (text) => resolve(Number(text))));
  await pause(300);
  parent.kill('SIGKILL');
  const countAlive = () => {
    try {
      return process.kill(pid, 0);
    } catch {
      return false;
    }
  };
  await world.engine.start();
  assert.equal((await world.run('INSERT INTO t VALUES (1)')).rowCount, 1);
  await eventually('the engine process ends', () => !countAlive(), 5000);
});

test('an engine that cannot open its files reports that, and stops', async () => {
  const world = await engineOf();
  const brokenWarehouse = duckdbEngine.open({
    name: 'w',
    spec,
    dataDirectory: '/dev/null/nowhere',
    spoolDirectory: world.spool,
    observe: () => undefined,
    catalogs: async () => [],
  });
  assert.equal((await failureOf(brokenWarehouse.start())).code, 'WAREHOUSE_FAILED');
  assert.equal(brokenWarehouse.running, false);
  await brokenWarehouse.stop();
  const unprivileged = duckdbEngine.open({
    name: 'w',
    spec,
    dataDirectory: world.directory,
    spoolDirectory: world.spool,
    observe: () => undefined,
    catalogs: () => Promise.reject(new Error('no list')),
  });
  await assert.rejects(unprivileged.start(), /no list/);
  await unprivileged.stop();
});
