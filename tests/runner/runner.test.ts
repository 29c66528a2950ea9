// What scripts/test.ts reports of a run that is too long, and of files that are slow; and how tests/budget.ts and tests/deadline.ts
// use its measurement and its seeds.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { join, relative, resolve } from 'node:path';
import { after, test } from 'node:test';
import { ProcessorLoad } from '../../scripts/processor_load.ts';
import { type TestGroup, TestQueue } from '../../scripts/test_queue.ts';
import { Budget } from '../budget.ts';
import { deadlineFromNow, deadlineMs, eventually, spentMs } from '../deadline.ts';
import { Random } from '../random.ts';
import { skippedInCi } from '../skipped_in_ci.ts';

const root = resolve(import.meta.dirname, '../..');
const directory = mkdtempSync(join(tmpdir(), 'tabularium-runner-'));
after(() => rmSync(directory, { recursive: true, force: true }));

async function run(
  files: Readonly<Record<string, string>>,
  env: Readonly<Record<string, string>>,
  others: readonly string[] = [],
) {
  const fileDirectory = mkdtempSync(join(directory, 'files-'));
  for (const [name, text] of Object.entries(files))
    writeFileSync(join(fileDirectory, name), `import { test } from 'node:test';\n${text}`);
  const temporary = mkdtempSync(join(directory, 'tmp-'));
  // A runner that knows that it runs inside a test runs no files.
  const { NODE_TEST_CONTEXT: _, TEST_BUDGET: __, ...inherited } = process.env;
  const child = spawn(process.execPath, ['scripts/test.ts', fileDirectory, ...others], {
    cwd: root,
    env: { ...inherited, TMPDIR: temporary, ...env },
  });
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => (output += chunk));
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, output, remaining: readdirSync(temporary) };
}

test('a run over its limit names the running files and tests, and those that did not begin', async () => {
  const endless = "test('never ends', () => new Promise((resolve) => setTimeout(resolve, 600_000)));";
  const files = Object.fromEntries(['a', 'b', 'c', 'd', 'e', 'f'].map((name) => [`${name}.test.ts`, endless]));
  const { code, output } = await run(files, { TEST_MINUTES_MAX: String(spentMs(1500) / 60_000) });
  assert.equal(code, 1, output);
  assert.match(
    output,
    /failed: \S*a\.test\.ts ran for [\d.]+ s when the limit of [\d.]+ minutes was over: running: never ends/,
  );
  assert.match(output, /failed: \d+ files were not run: .*f\.test\.ts/);
});

test('a run measures the machine, passes the scale on, lists the slowest files and leaves nothing behind', async () => {
  const show =
    "import { readFileSync } from 'node:fs';\nconst { TEST_SLOWNESS_FILE, NODE_COMPILE_CACHE, TMPDIR } = process.env;\ntest('scale', (t) => t.diagnostic(['scale', readFileSync(TEST_SLOWNESS_FILE, 'utf8'), NODE_COMPILE_CACHE, TMPDIR].join(' ')));";
  const { code, output, remaining } = await run({ 'a.test.ts': show }, { TEST_TIME_SCALE: '7' });
  assert.equal(code, 0, output);
  assert.match(output, /a process starts in \d+ ms, the sample computation takes \d+ ms: deadlines x\d/);
  const [, scale, directory] = /scale ([\d.]+) (\S*)\/compiled \2\/tmp$/m.exec(output) ?? [];
  assert.ok(Number(scale) >= 7, output);
  assert.match(output, new RegExp(`temporary files are in ${directory}\n`));
  assert.match(output, /slowest files, .*:\n +[\d.]+ s +[\d.]+ s {2}\S*a\.test\.ts/);
  assert.deepEqual(remaining, []);
});

test('in CI a skipped test fails the run, unless it is listed', async () => {
  const skipped = await run({ 'a.test.ts': "test('skipped', { skip: 'it is cold' }, () => {});" }, { CI: 'true' });
  assert.equal(skipped.code, 1, skipped.output);
  assert.match(skipped.output, /^skipped:\n {2}\S*a\.test\.ts: skipped: it is cold$/m);
  assert.match(skipped.output, /^failed: in CI nothing may be skipped but what tests\/skipped_in_ci\.ts lists$/m);
  const files = [...new Set(skippedInCi.map(({ file }) => file))];
  const unset = Object.fromEntries(skippedInCi.map(({ needs }) => [needs, '']));
  // A run without any test fails.
  const listed = await run({ 'b.test.ts': "test('runs', () => {});" }, { ...unset, CI: 'true' }, files);
  assert.equal(listed.code, 0, listed.output);
  for (const { file, name } of skippedInCi)
    assert.ok(listed.output.includes(`  ${file}: ${name}: needs a `), listed.output);
});

test('files of a room run in one process, each with its own hooks and after the one before', async () => {
  const show = (name: string) => `import { before, beforeEach } from 'node:test';
before(() => console.log('begin ${name}', process.pid));
beforeEach(() => console.log('each ${name}'));
test('first of ${name}', () => console.log('first ${name}'));
test('second of ${name}', () => console.log('second ${name}'));`;
  const { code, output } = await run({ 'a.test.ts': show('a'), 'b.test.ts': show('b') }, {});
  assert.equal(code, 0, output);
  const printed = [...output.matchAll(/^(begin|each|first|second) (a|b)/gm)].map(([text]) => text);
  const all = ['begin', 'each', 'first', 'each', 'second'];
  assert.deepEqual(printed, [...all.map((text) => `${text} a`), ...all.map((text) => `${text} b`)]);
  const [a, b] = [...output.matchAll(/^begin . (\d+)$/gm)].map(([, pid]) => pid);
  assert.equal(a, b, output);
});

test('files that wait for clusters begin first, and others while processors are idle; each begins once', () => {
  const inRoom = (room: string, count: number) => Array.from({ length: count }, (_, i) => `${room}/${i}.test.ts`);
  const waiting = [...inRoom('faults/cluster', 2), ...inRoom('engines/clickhouse/load', 3), ...inRoom('servers', 8)];
  const computing = [...inRoom('faults', 1), ...inRoom('sandbox', 2), ...inRoom('servers_of_others', 8)];
  const files = [...computing, ...waiting].map((file) => join(root, 'tests', file)).sort();
  const namesOf = (group: TestGroup | undefined) => group?.map((file) => relative(join(root, 'tests'), file));
  const orderOf = (next: (queue: TestQueue) => TestGroup | undefined) => {
    const queue = new TestQueue(files, join(root, 'tests'));
    const order: (readonly string[])[] = [];
    for (let names = namesOf(next(queue)); names !== undefined; names = namesOf(next(queue))) order.push(names);
    assert.deepEqual(queue.files, []);
    return order;
  };
  const first = orderOf((queue) => queue.next());
  assert.deepEqual(first.slice(0, 2), [['faults/cluster/0.test.ts'], ['faults/cluster/1.test.ts']]);
  assert.deepEqual(
    first.map(({ length }) => length),
    [1, 1, 3, 4, 4, 1, 1, 1, 4, 4],
  );
  assert.deepEqual(first.flat(), [...waiting, ...computing]);
  assert.deepEqual(orderOf((queue) => queue.nextForIdle()).flat(), [...computing, ...waiting]);
  const both = new TestQueue(files, join(root, 'tests'));
  assert.deepEqual(namesOf(both.nextForIdle()), ['faults/0.test.ts']);
  assert.deepEqual(namesOf(both.next()), ['faults/cluster/0.test.ts']);
  assert.equal(both.files.length, files.length - 2);
});

test('a file that cannot be loaded fails, and the others of its group run', async () => {
  const { code, output } = await run(
    { 'a.test.ts': "import './missing.ts';", 'b.test.ts': "test('runs', () => {});" },
    {},
  );
  assert.equal(code, 1, output);
  assert.match(output, /missing\.ts/);
  assert.match(output, /✔ runs/);
  assert.match(output, /^# pass 1$/m);
});

test('a process that ends badly after its tests is reported with its exit code or signal, and what it wrote', async () => {
  const endings: [string, RegExp][] = [
    ["process.kill(process.pid, 'SIGKILL')", /ended by SIGKILL; the last file was \S*b\.test\.ts; it wrote nothing/],
    [
      "console.error('a last word'); process.exitCode = 3",
      /ended with exit code 3; .*; its last lines:\n {2}a last word/,
    ],
  ];
  for (const [statement, reported] of endings) {
    const ending = `test('passes', () => {});\nprocess.once('exit', () => { ${statement}; });`;
    const { code, output } = await run({ 'a.test.ts': "test('runs', () => {});", 'b.test.ts': ending }, {});
    assert.equal(code, 1, output);
    assert.match(output, /^failed: the process of \S*a\.test\.ts, \S*b\.test\.ts ended/m);
    assert.match(output, reported);
  }
});

test('the processor time of a file includes its child processes', async () => {
  const parent = `import { execFileSync } from 'node:child_process';
test('a child computes', () => execFileSync(process.execPath, ['-e', ${JSON.stringify(`const end = process.cpuUsage().user + 500_000; while (process.cpuUsage().user < end);`)}]));`;
  const { output } = await run({ 'idle.test.ts': "test('nothing', () => {});", 'parent.test.ts': parent }, {});
  const [idle = 0, parents = 0] = ['idle', 'parent'].map((name) =>
    Number(new RegExp(`([\\d.]+) s {2}\\S*${name}\\.test\\.ts`).exec(output)?.[1]),
  );
  assert.ok(idle > 0, output);
  assert.ok(parents >= idle + 0.4, output);
});

test('the load of the processors is the fraction of their time since the last measurement', () => {
  const load = new ProcessorLoad();
  const end = performance.now() + 200;
  while (performance.now() < end);
  const idle = load.idlePart();
  // This process had one processor, or waited for one.
  assert.ok(idle >= 0 && idle <= 1 - 0.5 / cpus().length, String(idle));
});

test('a seed gives the same cases in the same order; the time determines how many', () => {
  const cases = Array.from({ length: 50 }, (_, i) => i);
  const sampleFor = (seconds: number, seed: number) => [...new Budget(seconds).sample(cases, new Random(seed))];
  const all = sampleFor(60, 7);
  assert.deepEqual(
    all.toSorted((a, b) => a - b),
    cases,
  );
  assert.deepEqual(sampleFor(60, 7), all);
  assert.notDeepEqual(sampleFor(60, 8), all);
  assert.deepEqual(sampleFor(0, 7), all.slice(0, 1), 'one case in no time');
  const five = [...new Budget(0).sample(cases, new Random(7), (count) => count >= 5)];
  assert.deepEqual(five, all.slice(0, 5));
});

test('parts share the remaining time', () => {
  const budget = new Budget(3600, 2);
  assert.ok(budget.part()(), 'the first has half of it');
  const emptyBudget = new Budget(0, 2);
  assert.ok(!emptyBudget.part()());
  assert.ok(!emptyBudget.part()());
});

test('a wait that times out says what it waited for', async () => {
  await assert.rejects(
    eventually('the impossible', () => false, 20),
    /the impossible/,
  );
  assert.equal(await eventually('a value', () => 5), 5);
});

test('a deadline allows for bursts of other load; one under way is extended where the machine becomes slower', async (t) => {
  const { TEST_SLOWNESS_FILE: runFile, TEST_TIME_SCALE: least } = process.env;
  t.after(() =>
    Object.assign(process.env, {
      ...(runFile && { TEST_SLOWNESS_FILE: runFile }),
      ...(least && { TEST_TIME_SCALE: least }),
    }),
  );
  delete process.env.TEST_TIME_SCALE;
  const file = join(directory, 'slowness');
  process.env.TEST_SLOWNESS_FILE = file;
  writeFileSync(file, '1.00');
  assert.deepEqual([deadlineMs(100), spentMs(100)], [400, 100]);
  const isOver = deadlineFromNow(5);
  await eventually('the deadline passes', isOver);
  writeFileSync(file, '100000');
  assert.equal(isOver(), false);
  assert.deepEqual([deadlineMs(100), spentMs(100)], [10_000_000, 10_000_000]);
});

test('files that run at the same time get different ports, whatever the numbers of their processes', async () => {
  // Two instances of the module have the same process number.
  const load = async (instance: number): Promise<typeof import('../engines/clickhouse/ring/free_ports.ts')> =>
    import(`../engines/clickhouse/ring/free_ports.ts?instance=${instance}`);
  const [first, second] = await Promise.all([load(1), load(2)]);
  const wanted = 250;
  const both = await Promise.all([first, second, first].map(({ freePorts }) => freePorts(wanted)));
  assert.equal(new Set(both.flat()).size, 3 * wanted);
});
