// The compile cache of engine processes: filled by the server when the program is new, used by engines, never written by them.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { globSync, mkdtempSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, beforeEach, test } from 'node:test';
import { compileCache } from '../../src/engines/duckdb/process/compile_cache.ts';
import { Confinement, confinedCommand } from '../../src/engines/duckdb/sandbox/sandbox.ts';

const directory = mkdtempSync(join(tmpdir(), 'tabularium-compiled-test-'));
const program = join(mkdtempSync(join(directory, 'program-')), 'program.mjs');
const runs = join(directory, 'runs');
let cache: string;

beforeEach(() => {
  cache = mkdtempSync(join(directory, 'cache-'));
  process.env.NODE_COMPILE_CACHE = cache;
  writeFileSync(runs, '');
  writeFileSync(program, `import { appendFileSync } from 'node:fs'; appendFileSync(${JSON.stringify(runs)}, 'x');`);
});
after(() => rmSync(directory, { recursive: true, force: true }));

const runsOf = () => readFileSync(runs, 'utf8').length;
/** The files of the cache, with their times of modification. */
const content = () =>
  globSync('**', { cwd: cache, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .sort()
    .map((path) => `${path} ${statSync(path).mtimeMs}`);

test('it is filled once, and again after the program has changed', async () => {
  assert.equal(await compileCache([program], {}), cache);
  assert.equal(runsOf(), 1);
  assert.ok(content().length > 1, content().join());
  assert.equal(await compileCache([program], {}), cache);
  assert.equal(runsOf(), 1);
  utimesSync(program, 1, 1);
  assert.equal(await compileCache([program], {}), cache);
  assert.equal(runsOf(), 2);
});

test('there is none if the server has none, or if the program cannot be loaded', async () => {
  delete process.env.NODE_COMPILE_CACHE;
  assert.equal(await compileCache([program], {}), undefined);
  process.env.NODE_COMPILE_CACHE = 'relative';
  assert.equal(await compileCache([program], {}), undefined);
  process.env.NODE_COMPILE_CACHE = cache;
  writeFileSync(program, 'process.exit(3)');
  assert.equal(await compileCache([program], {}), undefined);
  assert.equal(runsOf(), 0);
});

test('an engine uses it, and does not change it', async (t) => {
  const data = join(directory, 'data');
  const places = { data, writable: [join(data, 'catalogs'), join(data, 'spool')] };
  const { command, args, env, confinement } = await new Confinement('auto').launch(places);
  const before = content();
  assert.ok(before.length > 100, `${before.length} files`);
  // Without a channel to a server the program is loaded, and exits.
  const { status, stderr } = spawnSync(command, args, {
    env: { ...env, NODE_DEBUG_NATIVE: 'COMPILE_CACHE' },
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
  });
  assert.equal(status, 0, stderr.slice(-1000));
  for (const name of ['worker', 'sandbox_exec'])
    assert.match(stderr, new RegExp(`cache for .*${name}\\.[tj]s.* was accepted`));
  assert.doesNotMatch(stderr, /was rejected/);
  assert.deepEqual(content(), before);
  const { reason = null } = confinement.find(({ measure }) => measure === 'namespaces') ?? {};
  if (reason !== null) return t.diagnostic(`not confined here: ${reason}`);

  const script =
    'for file in "$1" "$1"/*; do : 2>/dev/null >>"$file/x" && echo wrote; rm -r "$file" && echo removed; done';
  const sandboxedCommand = confinedCommand({ ...places, readable: [cache] }, ['sh', '-c', script, 'test', cache]);
  assert.equal(spawnSync(sandboxedCommand.command, sandboxedCommand.args, { encoding: 'utf8' }).stdout, '');
  assert.deepEqual(content(), before);
});
