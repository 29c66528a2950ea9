// Commands whose output cannot be written any more, and commands that are stopped: the exit code says it, and nothing is left on the server.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, mkdirSync, openSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, describe, it, test } from 'node:test';
import { eventually } from '../../deadline.ts';
import { start, type TestServer } from '../../server.ts';
import { type CommandLine, main, newCommandLine, signIn } from './command_process.ts';

let server: TestServer;
let line: CommandLine;
const path = (name: string) => join(line.directory, name);

before(async () => {
  server = await start();
  line = newCommandLine();
  await signIn(line, server);
  await server.client.databases.create({ name: 'shop' });
  const columns = [{ name: 'id', type: 'BIGINT' }];
  await server.client.databases('shop').tables.create({ name: 'orders', columns }).done();
});
after(async () => {
  line.remove();
  await server.close();
});

/** Runs a command whose standard output is `stdout`, or a pipe whose reader has ended. */
async function runInto(words: readonly string[], stdout: number | 'nobody') {
  const child = spawn(process.execPath, [main, ...words], {
    cwd: line.directory,
    env: line.env,
    stdio: ['ignore', stdout === 'nobody' ? 'pipe' : stdout, 'pipe'],
  });
  child.stdout?.destroy();
  const [stderr, [code]] = await Promise.all([text(child.stderr as NodeJS.ReadableStream), once(child, 'close')]);
  return { code: code as number | null, stderr };
}

const exports = () => server.client.tasks.search({ type: 'export' }).all();
const uploads = () => server.client.uploads.list().all();
const exportWords = ['export', '-d', 'shop', '-c', 'FROM range(300000)', '--format', 'csv'];

describe('a reader that ends first', () => {
  const commands: readonly (readonly string[])[] = [
    ['--help'],
    ['--version'],
    ['audit', 'verify', '--help'],
    ['tables', '--help'],
    ['tables', 'list', '--database', 'shop'],
    ['tables', 'get', 'shop.orders', '--json'],
    ['sql', '-c', 'FROM range(300000)', '--format', 'ndjson'],
    ['completion', 'bash'],
    ['openapi', 'rules'],
    ['profiles'],
    ['doctor'],
    exportWords,
  ];
  for (const words of commands)
    it(`is no failure of "${words.join(' ')}"`, async () => {
      const { code, stderr } = await runInto(words, 'nobody');
      assert.deepEqual([code, stderr], [141, '']);
    });

  it('leaves nothing of an export on the server', async () => assert.deepEqual(await exports(), []));

  it('of the notes alone ends nothing', async () => {
    const child = spawn(process.execPath, [main, 'sql', '-c', 'SELECT 1 AS n', '--timing'], {
      cwd: line.directory,
      env: line.env,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    child.stderr.destroy();
    const [stdout, [code]] = await Promise.all([text(child.stdout), once(child, 'close')]);
    assert.deepEqual([code, stdout], [0, 'n\r\n1\r\n']);
  });
});

describe('a full disk', () => {
  for (const words of [['tables', 'list', '--database', 'shop'], exportWords, ['doctor', '--json']])
    it(`is reported by "${words.join(' ')}"`, async () => {
      const full = openSync('/dev/full', 'w');
      const { code, stderr } = await runInto(words, full);
      closeSync(full);
      assert.deepEqual(
        [code, stderr],
        [1, 'the output cannot be written (the disk is full: make room, or choose another place)\n'],
      );
    });

  it('leaves the file as it was, and no part of the new one', async (context) => {
    const small = path('small');
    mkdirSync(small);
    if (spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', small]).status !== 0)
      return context.skip('a file system of 1 MB can be mounted by root only');
    try {
      writeFileSync(join(small, 'rows.csv'), 'as it was');
      for (const words of [exportWords, ['sql', '-c', 'FROM range(300000)']]) {
        const { code, stderr } = await line.run([...words, '-o', 'small/rows.csv']);
        assert.deepEqual(
          [code, stderr],
          [1, 'the file small/rows.csv cannot be written (the disk is full: make room, or choose another place)\n'],
        );
        assert.deepEqual(readdirSync(small), ['rows.csv']);
        assert.equal(readFileSync(join(small, 'rows.csv'), 'utf8'), 'as it was');
      }
      assert.deepEqual(await exports(), []);
    } finally {
      spawnSync('umount', [small]);
    }
  });
});

describe('a command that is stopped', () => {
  const endless = 'SELECT count(*) AS n FROM range(100000000000) a, range(1000) b';
  const running = async (type: string) => (await server.client.tasks.search({ type, state: 'running' }).all()).length;

  for (const [signal, code] of [
    ['SIGTERM', 143],
    ['SIGHUP', 129],
  ] as const)
    it(`by ${signal} cancels its task`, async () => {
      const ended = await line.run(['export', '-d', 'shop', '-c', endless, '--format', 'csv'], {
        started: (kill) =>
          void eventually('the export runs', async () => (await running('export')) > 0).then(() => kill(signal)),
      });
      assert.equal(ended.code, code, ended.stderr);
      assert.deepEqual(await exports(), []);
    });

  it('while it sends a file leaves no upload, and no row', async () => {
    const child = spawn(process.execPath, [main, 'load', '-', '--name', 'ids.csv', '-d', 'shop', '-t', 'orders'], {
      cwd: line.directory,
      env: line.env,
    });
    child.stdin.on('error', () => undefined);
    child.stdin.write(`id\n${'1\n'.repeat(5_000_000)}`);
    const isSent = async () => (await uploads()).some(({ receivedBytes }) => receivedBytes > 0);
    await eventually('a part of the file is sent', isSent);
    child.kill('SIGINT');
    const [code] = (await once(child, 'close')) as [number | null];
    assert.equal(code, 130);
    assert.deepEqual(await uploads(), []);
    assert.deepEqual(await server.rows('shop', 'SELECT count(*) FROM orders'), [[0]]);
  });
});

test('a load leaves no upload, whether it succeeds or not', async () => {
  const words = ['load', '-', '--name', 'ids.csv', '-d', 'shop', '-t', 'orders'];
  assert.equal((await line.run(words, { input: 'id\n7\n' })).code, 0);
  assert.equal((await line.run(words, { input: 'id\nseven\n' })).code, 5);
  assert.deepEqual(await uploads(), []);
});
