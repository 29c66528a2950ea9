// `load`, `export` and `sql` with streams of some megabytes: nothing is lost or done twice, memory is flat, and the bars on a terminal are right.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { after, before, test } from 'node:test';
import { deadlineMs, eventually } from '../../../deadline.ts';
import { type ServerProcess, startProcess } from '../../../server.ts';
import { type CommandLine, main, newCommandLine, signIn } from '../command_process.ts';
import { runMeasured } from './measured_command.ts';
import { numberedRows } from './numbered_rows.ts';
import { loadFromPipe, readThroughPipe, requireFlat, type StreamsOptions } from './streams.ts';

const seed = Number(process.env.TEST_SEED ?? Date.now() % 2 ** 32) >>> 0;
const timeoutMs = deadlineMs(60_000);
const [smallBytes, largeBytes] = [1_000_000, 30_000_000];
let server: ServerProcess;
let line: CommandLine;
let options: StreamsOptions;

before(async () => {
  line = newCommandLine();
  server = await startProcess([], join(line.directory, 'data'));
  await signIn(line, server);
  await server.client.databases.create({ name: 'shop' });
  options = { line, server, database: 'shop', seed, timeoutMs };
});
after(async () => {
  await server.close();
  line.remove();
});

test(`a stream of ${largeBytes / 1e6} MB is loaded once and read again in the memory of one of 1 MB (seed ${seed})`, async () => {
  const small = await loadFromPipe(options, 'few', smallBytes);
  const large = await loadFromPipe(options, 'many', largeBytes);
  requireFlat('load', small, large);
  for (const command of ['export', 'sql'] as const)
    requireFlat(
      command,
      await readThroughPipe(options, 'few', command),
      await readThroughPipe(options, 'many', command),
    );
});

/** What a command shows on a terminal; its input and output are files. */
async function shownOnTerminal(words: string): Promise<string> {
  const command = `'${process.execPath}' '${main}' ${words}`;
  const child = spawn('script', ['--quiet', '--return', '--command', command, '/dev/null'], {
    cwd: line.directory,
    env: { ...line.env, TERM: 'xterm', COLUMNS: '100' },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [shown, [code]] = await Promise.all([text(child.stdout), once(child, 'close')]);
  assert.equal(code, 0, shown);
  return shown;
}

const hasScript = spawnSync('script', ['--version']).status === 0;

test('bars are shown on a terminal, and count what was sent', {
  skip: hasScript ? false : 'script is not installed (apt-get install bsdutils)',
}, async () => {
  const sums = { rows: 0, amount: 0 };
  await pipeline(numberedRows(seed, largeBytes, sums), createWriteStream(join(line.directory, 'rows.csv')));
  const sentBytes = (shown: string) =>
    [...shown.matchAll(/(?:█*░* +(\d+)% )?rows\.csv: ([\d.]+) MB sent, [\d.]+ [kMG]?B\/s/g)].map(
      ([, percent, megabytes]) => [percent === undefined ? undefined : Number(percent), Number(megabytes)] as const,
    );
  const ofFile = sentBytes(await shownOnTerminal('load rows.csv -d shop -t of_file --create'));
  assert.ok(ofFile.length > 2, 'several bars');
  const total = (ofFile.at(-1) as readonly [number, number])[1];
  assert.ok(total >= largeBytes / 1e6);
  for (const [percent, megabytes] of ofFile) assert.ok(Math.abs((100 * megabytes) / total - (percent ?? -9)) <= 1.5);
  const ofPipe = sentBytes(await shownOnTerminal('load - --name rows.csv -d shop -t of_pipe --create < rows.csv'));
  assert.deepEqual(ofPipe.at(-1), [undefined, total], 'without a size there is no share');
  const exported = await shownOnTerminal('export -d shop -t of_file --format csv > exported.csv');
  assert.match(exported, /█{24} 100% \S+: ([\d.]+) MB received, [\d.]+ [kMG]?B\/s/);
});

test('a load whose server is lost ends with 3, and repeated with its label is done once', async () => {
  const words = ['load', '-', '--name', 'rows.csv', '-d', 'shop', '-t', 'few', '--label', 'after the loss'];
  const sums = { rows: 0, amount: 0 };
  const { port } = new URL(server.url);
  const lost = runMeasured(line, words, {
    input: (async function* () {
      yield* numberedRows(seed, largeBytes / 3, sums);
      const isSent = async () => (await server.client.uploads.list().all()).some((upload) => upload.receivedBytes > 0);
      await eventually('a part is sent', isSent);
      server.child.kill('SIGKILL');
      await server.exited;
    })(),
    timeoutMs,
  });
  const { code, stderr } = await lost;
  assert.equal(code, 3, stderr);
  assert.match(stderr, /^NO_ANSWER: .*\n.*check that the server runs/);
  server = await startProcess([`--port=${port}`], join(line.directory, 'data'));
  options = { ...options, server };
  const [[before]] = (await server.rows('shop', 'SELECT count(*) FROM few')) as [[string]];
  for (let n = 0; n < 2; n++) {
    const again = { rows: 0, amount: 0 };
    const ended = await runMeasured(line, words, { input: numberedRows(seed, largeBytes / 3, again), timeoutMs });
    assert.deepEqual([ended.code, ended.stderr], [0, '']);
    const [[now]] = (await server.rows('shop', 'SELECT count(*) FROM few')) as [[string]];
    assert.equal(Number(now) - Number(before), again.rows);
  }
});

test('a load whose server returns in time succeeds', async () => {
  const { port } = new URL(server.url);
  const words = ['load', '-', '--name', 'rows.csv', '-d', 'shop', '-t', 'survived', '--create'];
  const sums = { rows: 0, amount: 0 };
  const ended = await runMeasured(line, words, {
    input: (async function* () {
      yield* numberedRows(seed, largeBytes / 3, sums);
      server.child.kill('SIGKILL');
      await server.exited;
      server = await startProcess([`--port=${port}`], join(line.directory, 'data'));
      yield* [];
    })(),
    timeoutMs,
  });
  assert.deepEqual([ended.code, ended.stderr], [0, '']);
  assert.deepEqual((await server.rows('shop', 'SELECT count(*) FROM survived')).flat().map(Number), [sums.rows]);
});
