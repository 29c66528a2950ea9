// Every way of stopping a server that was started with `npm start` or the launcher: an orderly stop, after which the logs of the
// catalogs are in their files, and port and data directory are free for the next server.
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, describe, test } from 'node:test';
import { eventually } from '../deadline.ts';
import { oldNodePreload, userEnvironment } from '../package/user_environment.ts';
import { start } from '../server.ts';

const root = resolve(import.meta.dirname, '../..');
const directory = mkdtempSync(join(tmpdir(), 'tabularium-stopping-'));
after(() => rmSync(directory, { recursive: true, force: true }));
const old = join(directory, 'old.cjs');
writeFileSync(old, oldNodePreload);

const launcher = ['node', join(root, 'bin/tabularium.js')];
const oldLauncher = ['node', '--require', old, join(root, 'bin/tabularium.js')];
const npm = ['npm', 'start', '--'];
/** In a terminal of its own, which is closed when `script` dies. */
const inTerminal = (command: readonly string[]) => (flags: readonly string[]) => [
  'script',
  '-qec',
  [...command, ...flags].join(' '),
  '/dev/null',
];

/** `alone`: only the started process gets the signal; otherwise its whole process group, as from a terminal. */
type StopSignal = readonly [signal: NodeJS.Signals, to: 'alone' | 'group'];
const ways: readonly (readonly [
  what: string,
  command: readonly string[] | ((flags: readonly string[]) => readonly string[]),
  ...stops: StopSignal[],
])[] = [
  ['the launcher receives SIGTERM', launcher, ['SIGTERM', 'alone']],
  ['the launcher of an older Node receives SIGTERM', oldLauncher, ['SIGTERM', 'alone']],
  ['npm receives SIGTERM', npm, ['SIGTERM', 'alone']],
  ['Ctrl-C reaches npm and the server', npm, ['SIGINT', 'group']],
  ['Ctrl-C reaches an older Node and the server', oldLauncher, ['SIGINT', 'group']],
  ['Ctrl-C is pressed twice', npm, ['SIGINT', 'group'], ['SIGINT', 'group']],
  ['all processes of npm hang up', npm, ['SIGHUP', 'group']],
  ['the terminal of npm is closed', inTerminal(npm), ['SIGKILL', 'alone']],
  ['the terminal of an older Node is closed', inTerminal(oldLauncher), ['SIGKILL', 'alone']],
];

/** The processes whose command line contains this text. */
function processesWith(text: string): number[] {
  return readdirSync('/proc').flatMap((name) => {
    if (!/^\d+$/.test(name) || Number(name) === process.pid) return [];
    try {
      return readFileSync(`/proc/${name}/cmdline`, 'utf8').includes(text) ? [Number(name)] : [];
    } catch {
      return [];
    }
  });
}

async function createTable(url: string, dataDirectory: string): Promise<void> {
  const token = readFileSync(join(dataDirectory, 'root.token'), 'utf8').trim();
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
  const sent: [string, string, object][] = [
    ['PUT', 'databases/d', {}],
    ['PUT', 'databases/d/tables/t', { columns: [{ name: 'id', type: 'INT' }] }],
    ['POST', 'databases/d/tables/t/rows', { rows: [[1], [2]] }],
  ];
  for (const [method, path, body] of sent) {
    const answer = await fetch(`${url}/api/v2/${path}`, { method, headers, body: JSON.stringify(body) });
    assert.ok(answer.ok, await answer.text());
  }
}

function signal(child: ChildProcess, [name, to]: StopSignal): void {
  const pid = child.pid as number;
  try {
    process.kill(to === 'group' ? -pid : pid, name);
  } catch (error) {
    // A second signal may come too late.
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

describe('a server that is stopped', {
  concurrency: 3,
  skip: process.platform !== 'linux' && 'reads /proc',
}, () => {
  for (const [description, command, ...stops] of ways)
    test(description, async () => {
      const dataDir = mkdtempSync(join(directory, 'data-'));
      const flags = ['--port=0', `--data-dir=${dataDir}`, '--log-level=info', '--warehouse-threads=2'];
      const [program, ...args] = typeof command === 'function' ? command(flags) : [...command, ...flags];
      const options = { cwd: root, env: userEnvironment(), detached: true } as const;
      const child = spawn(program as string, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] });
      try {
        let output = '';
        for (const stream of [child.stdout, child.stderr])
          stream.on('data', (chunk: Buffer) => {
            output += chunk;
          });
        const url = await eventually('the server is ready', () => /URL +(http:\S+)\s/.exec(output)?.[1]);
        await createTable(url, dataDir);
        assert.ok(processesWith(dataDir).length >= 2, 'the server and its engine run');
        for (const stop of stops) signal(child, stop);
        await eventually('the server and its engine are gone', () => processesWith(dataDir).length === 0);
        const logs = readdirSync(join(dataDir, 'catalogs')).filter((name) => name.endsWith('.wal'));
        assert.deepEqual(logs, [], `the engine was not closed: ${output}`);
        const next = await start({ dataDir, port: Number(new URL(url).port) });
        try {
          assert.deepEqual(await next.rows('d', 'SELECT id FROM t ORDER BY id'), [[1], [2]]);
        } finally {
          await next.close();
        }
      } finally {
        for (const pid of processesWith(dataDir)) process.kill(pid, 'SIGKILL');
      }
    });
});
