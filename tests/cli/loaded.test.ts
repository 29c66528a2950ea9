// What a server loads before it is needed: it determines most of its startup time and memory.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, before, test } from 'node:test';
import { type ServerProcess, startProcess } from '../server.ts';

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
