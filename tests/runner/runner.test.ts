// What scripts/test.ts reports of a run that is too long, and of files that are slow; and how tests/budget.ts and tests/deadline.ts
// use its measurement and its seeds.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, test } from 'node:test';
import { ProcessorLoad } from '../../scripts/processor_load.ts';
import { Budget } from '../budget.ts';
import { deadlineMs, eventually } from '../deadline.ts';
import { Random } from '../faults/random.ts';

const root = resolve(import.meta.dirname, '../..');
const directory = mkdtempSync(join(tmpdir(), 'tabularium-runner-'));
after(() => rmSync(directory, { recursive: true, force: true }));

async function run(files: Readonly<Record<string, string>>, env: Readonly<Record<string, string>>) {
  const of = mkdtempSync(join(directory, 'files-'));
  const temporary = mkdtempSync(join(directory, 'tmp-'));
  for (const [name, text] of Object.entries(files))
    writeFileSync(join(of, name), `import { test } from 'node:test';\n${text}`);
  // A runner that knows that it runs inside a test runs no files.
  const { NODE_TEST_CONTEXT: _, TEST_BUDGET: __, ...inherited } = process.env;
  const child = spawn(process.execPath, ['scripts/test.ts', of], {
    cwd: root,
    env: { ...inherited, TMPDIR: temporary, ...env },
  });
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => (output += chunk));
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, output, left: readdirSync(temporary) };
}

test('a run over its limit names the running files and tests, and those that did not begin', async () => {
  const endless = "test('never ends', () => new Promise((resolve) => setTimeout(resolve, 600_000)));";
  const files = Object.fromEntries(['a', 'b', 'c', 'd', 'e', 'f'].map((name) => [`${name}.test.ts`, endless]));
  const { code, output } = await run(files, { TEST_MINUTES_MAX: String(deadlineMs(1500) / 60_000) });
  assert.equal(code, 1, output);
  assert.match(
    output,
    /failed: \S*a\.test\.ts ran for [\d.]+ s when the limit of [\d.]+ minutes was over: running: never ends/,
  );
  assert.match(output, /failed: \d+ files were not run: .*f\.test\.ts/);
});

test('a run measures the machine, passes the scale on, lists the slowest files and leaves nothing behind', async () => {
  const show =
    "const { TEST_TIME_SCALE, NODE_COMPILE_CACHE, TMPDIR } = process.env;\ntest('scale', (t) => t.diagnostic(['scale', TEST_TIME_SCALE, NODE_COMPILE_CACHE, TMPDIR].join(' ')));";
  const { code, output, left } = await run({ 'a.test.ts': show }, { TEST_TIME_SCALE: '7' });
  assert.equal(code, 0, output);
  assert.match(output, /a process starts in \d+ ms, the sample computation takes \d+ ms: deadlines x\d/);
  const [, scale, directory] = /scale ([\d.]+) (\S*)\/compiled \2\/tmp$/m.exec(output) ?? [];
  assert.ok(Number(scale) >= 7, output);
  assert.match(output, new RegExp(`temporary files are in ${directory}\n`));
  assert.match(output, /slowest files, .*:\n +[\d.]+ s +[\d.]+ s {2}\S*a\.test\.ts/);
  assert.deepEqual(left, []);
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
  const taken = (seconds: number, seed: number) => [...new Budget(seconds).sample(cases, new Random(seed))];
  const all = taken(60, 7);
  assert.deepEqual(
    all.toSorted((a, b) => a - b),
    cases,
  );
  assert.deepEqual(taken(60, 7), all);
  assert.notDeepEqual(taken(60, 8), all);
  assert.deepEqual(taken(0, 7), all.slice(0, 1), 'one case in no time');
  const five = [...new Budget(0).sample(cases, new Random(7), (count) => count >= 5)];
  assert.deepEqual(five, all.slice(0, 5));
});

test('parts share the remaining time', () => {
  const budget = new Budget(3600, 2);
  assert.ok(budget.part()(), 'the first has half of it');
  const none = new Budget(0, 2);
  assert.ok(!none.part()());
  assert.ok(!none.part()());
});

test('a wait that times out says what it waited for', async () => {
  assert.ok(deadlineMs(100) >= 100);
  await assert.rejects(
    eventually('the impossible', () => false, 20),
    /the impossible/,
  );
  assert.equal(await eventually('a value', () => 5), 5);
});
