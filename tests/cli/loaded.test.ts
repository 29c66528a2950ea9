// What a server and a command load before it is needed: it determines most of their startup time and memory.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it, test } from 'node:test';
import { type ServerProcess, startProcess } from '../server.ts';
import { main, newCommandLine } from './remote/command_process.ts';

let server: ServerProcess;
before(async () => {
  server = await startProcess([], undefined, { preload: new URL('loaded_probe.ts', import.meta.url) });
});
after(() => server.close());

async function loadedModules(): Promise<string[]> {
  const answer = once(server.child, 'message');
  server.child.send('loaded?');
  const [names] = (await answer) as [string[]];
  return names;
}

const lazyModules = ['typebox', 'prom-client', 'jose', '@aws-sdk/client-s3', '@duckdb/node-api', 'apache-arrow'];

test('a start loads no package that only some requests need', async () => {
  const names = await loadedModules();
  assert.ok(names.includes('kysely'), 'the probe sees packages');
  assert.deepEqual(
    lazyModules.filter((name) => names.includes(name)),
    [],
  );
});

// An `import` of node:http evaluates all that it exports, and with it the HTTP client of fetch: 16 MB.
test('a start does not load the HTTP client of fetch', async () => {
  assert.deepEqual(
    (await loadedModules()).filter((name) => name.includes('undici')),
    [],
  );
});

test('modules that are loaded late are available when they are needed', async () => {
  (await server.put('/api/v2/databases/d', { nonsense: 1 })).is(400, 'UNKNOWN_FIELD');
  const { status, text } = await server.send('GET', '/metrics');
  assert.equal(status, 200);
  assert.match(text, /^tabularium_request_seconds_count\{.*code="UNKNOWN_FIELD"\} 1$/m);
  assert.match(text, /^tabularium_process_cpu_seconds_total/m);
  const names = await loadedModules();
  for (const name of ['typebox', 'prom-client']) assert.ok(names.includes(name), name);
});

describe('a command that calls a server loads nothing of one', () => {
  const own = ['cli', 'client', 'model', 'operator', 'settings', 'standard'];
  const parser = ['commander'];
  const tables = ['ansi-regex', 'get-east-asian-width', 'string-width', 'strip-ansi'];
  const cases: readonly (readonly [readonly string[], readonly string[]])[] = [
    [['--version'], own.filter((room) => room !== 'client')],
    [['profiles'], [...own, ...parser]],
    [
      ['sql', '-c', 'SELECT 1', '--profile', 'none'],
      [...own, ...parser, ...tables],
    ],
    [
      ['load', 'none.csv', '-d', 'd', '-t', 't'],
      [...own, ...parser, 'api'],
    ],
    [
      ['tables', 'get', 'd.t', '--profile', 'none'],
      [...own, ...parser, ...tables, 'api'],
    ],
    [['--help'], [...own, ...parser, ...tables, 'api', 'conformance']],
  ];
  for (const [words, expected] of cases)
    it(words.join(' '), () => {
      const line = newCommandLine();
      const file = join(line.directory, 'loaded.json');
      const probe = new URL('loaded_rooms.ts', import.meta.url).href;
      const { stderr } = spawnSync(process.execPath, ['--import', probe, main, ...words], {
        cwd: line.directory,
        env: { ...line.env, LOADED_ROOMS: file },
        encoding: 'utf8',
      });
      const loaded = JSON.parse(readFileSync(file, 'utf8')) as string[];
      line.remove();
      assert.deepEqual(
        loaded.filter((room) => !expected.includes(room)),
        [],
        stderr,
      );
    });
});
