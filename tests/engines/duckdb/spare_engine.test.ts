// The spare engine process: it takes over when the serving process is killed, stops with it, follows the settings of the warehouse,
// and is replaced when it is lost. Real processes, real kills.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { setImmediate as turnOfLoop } from 'node:timers/promises';
import { duckdbWith } from '../../../src/engines/duckdb/duckdb.ts';
import { Confinement } from '../../../src/engines/duckdb/sandbox/sandbox.ts';
import { type EngineWorld, failureOf, MiB, openEngine, spec } from '../../conformance/engine/engine_world.ts';
import { analysisTimeoutMs, eventually } from '../../deadline.ts';
import { startProcess } from '../../server.ts';

const endless = 'SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE a.range + b.range = 7';
const isAlive = (pid: number) => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};
const untilGone = (pid: number) => eventually(`the process ${pid} is gone`, () => !isAlive(pid));

type Kind = EngineWorld['events'][number]['kind'];
const pidsOf = ({ events }: EngineWorld, kind: Kind) =>
  events.flatMap((event) => (event.kind === kind && 'pid' in event ? [event.pid] : []));
const pidOf = (world: EngineWorld) => pidsOf(world, 'engineStarted').at(-1) as number;
const idsIn = async (world: EngineWorld) => (await world.run('SELECT id FROM t ORDER BY id')).rows;

/** One that is ready and has never served, other than the given ones. */
const spareOf = (world: EngineWorld, excluded: readonly number[] = []) =>
  eventually('a spare is ready', () => {
    const passed = new Set([...excluded, ...pidsOf(world, 'engineStarted')]);
    return pidsOf(world, 'engineSpareReady').find((pid) => !passed.has(pid) && isAlive(pid));
  });

describe('a spare engine', { skip: process.platform === 'win32' && 'sends signals' }, () => {
  let world: EngineWorld;
  before(async () => {
    world = await openEngine(
      {},
      duckdbWith({ confinement: new Confinement('auto'), spareEngine: true, analysisTimeoutMs }),
    );
    await world.table('t', { id: 'BIGINT' });
    await world.run('INSERT INTO t VALUES (1)');
  });
  after(() => world.close());

  test('takes over when the serving process is killed, repeatedly, and nothing is lost', async () => {
    for (let id = 2; id < 5; id++) {
      const serving = pidOf(world);
      const spare = await spareOf(world);
      const running = failureOf(world.run(endless));
      await world.run(`INSERT INTO t VALUES (${id})`);
      process.kill(serving, 'SIGKILL');
      assert.equal((await running).code, 'WAREHOUSE_FAILED');
      await world.engine.start();
      assert.equal(pidOf(world), spare);
      const ids = Array.from({ length: id }, (_, i) => i + 1);
      assert.deepEqual(await idsIn(world), {
        kind: 'text',
        text: ids.map((candidate) => `[${candidate}]`).join(',\n'),
      });
    }
  });

  test('that is killed is replaced, without effect on users of the engine', async () => {
    const serving = pidOf(world);
    const killed = await spareOf(world);
    const deaths = world.events.filter(({ kind }) => kind === 'engineDied').length;
    process.kill(killed, 'SIGKILL');
    await eventually('its loss is seen', () => world.events.some(({ kind }) => kind === 'engineSpareLost'));
    assert.equal((await world.run('FROM t')).rowCount, 4);
    await spareOf(world, [killed]);
    assert.equal(pidOf(world), serving);
    assert.equal(world.events.filter(({ kind }) => kind === 'engineDied').length, deaths);
  });

  test('that is killed together with the serving process leaves the start to a new process', async () => {
    const serving = pidOf(world);
    const spare = await spareOf(world);
    process.kill(spare, 'SIGKILL');
    process.kill(serving, 'SIGKILL');
    await Promise.all([untilGone(serving), untilGone(spare)]);
    await eventually('another process serves', () => world.engine.running && pidOf(world) !== serving);
    assert.ok(![serving, spare].includes(pidOf(world)));
    assert.equal((await world.run('FROM t')).rowCount, 4);
    assert.ok(!world.events.some(({ kind }) => kind === ('catalogDamaged' as Kind)));
  });

  test('that takes minutes to open the files does not count as hanging, nor its files as damaged', async (t) => {
    const [serving, spare] = [pidOf(world), await spareOf(world)];
    process.kill(spare, 'SIGSTOP');
    t.mock.timers.enable({ apis: ['setTimeout'] });
    try {
      process.kill(serving, 'SIGKILL');
      while (isAlive(serving)) await turnOfLoop();
      for (let second = 0; second < 600; second++) {
        t.mock.timers.tick(1_000);
        await turnOfLoop();
      }
    } finally {
      t.mock.timers.reset();
      process.kill(spare, 'SIGCONT');
    }
    await world.engine.start();
    assert.equal(pidOf(world), spare);
    assert.equal((await world.run('FROM t')).rowCount, 4);
    assert.ok(!world.events.some(({ kind }) => kind === 'engineKilled'));
  });

  test('that was started with other settings does not take over', async () => {
    const [serving, old] = [pidOf(world), await spareOf(world)];
    await world.engine.configure({ ...spec, memoryLimitBytes: 100 * MiB, threads: 1 });
    await untilGone(old);
    await eventually('the settings are taken over', () => world.engine.running && pidOf(world) !== serving);
    await world.run('SELECT 1');
    const spare = await spareOf(world, [old]);
    process.kill(pidOf(world), 'SIGKILL');
    await eventually('the spare serves', () => world.engine.running && pidOf(world) === spare);
    const large = await failureOf(world.run('SELECT length(list(range)) FROM range(20000000)'));
    assert.equal(large.code, 'MEMORY_LIMIT_EXCEEDED');
    await world.engine.configure(spec);
    await eventually('the settings are back', () => world.engine.running && pidOf(world) !== spare);
  });

  test('stops with the serving process, and is not started before a first statement', async () => {
    await world.run('SELECT 1');
    const serving = pidOf(world);
    const spare = await spareOf(world);
    await world.engine.stop();
    assert.deepEqual([isAlive(serving), isAlive(spare)], [false, false]);
    const sparesStarted = pidsOf(world, 'engineSpareReady').length;
    await world.engine.start();
    await world.engine.stop();
    assert.equal(pidsOf(world, 'engineSpareReady').length, sparesStarted);
    await world.engine.start();
  });
});

describe('the spare engine of a server', { skip: !existsSync('/proc') && 'reads /proc' }, () => {
  /** A server whose spare is ready, and the processes of its engines. */
  async function withSpare() {
    const server = await startProcess(['--log-level=debug', '--warehouse-auto-suspend-seconds=0']);
    let output = '';
    server.child.stderr?.on('data', (chunk: Buffer) => {
      output += chunk;
    });
    (await server.put('/api/v2/databases/d')).is(201);
    (await server.query('d', 'SELECT 1')).is(200);
    const pidIn = (kind: string) => {
      const line = output.split('\n').find((candidate) => candidate.includes(`"msg":"${kind}"`));
      return line === undefined ? undefined : (JSON.parse(line) as { pid: number }).pid;
    };
    const spare = await eventually('the spare is ready', () => pidIn('engineSpareReady'));
    return { server, pids: [pidIn('engineStarted') as number, spare] };
  }

  for (const signal of ['SIGTERM', 'SIGKILL'] as const)
    test(`is stopped after ${signal} to the server`, async () => {
      const { server, pids } = await withSpare();
      server.child.kill(signal);
      await server.exited;
      for (const pid of pids) await untilGone(pid);
      await server.close();
    });

  test('is stopped when the warehouse is suspended', async () => {
    const { server, pids } = await withSpare();
    try {
      (await server.post('/api/v2/warehouses/default/suspend')).is(200);
      for (const pid of pids) await untilGone(pid);
      (await server.post('/api/v2/warehouses/default/resume')).is(200);
      (await server.query('d', 'SELECT 1')).is(200);
    } finally {
      await server.close();
    }
  });
});
