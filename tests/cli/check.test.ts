// A store that lost acknowledged changes is recognized at the start, which names them; `check` finds what is damaged in the store and in
// catalogs, and `--repair` lets the server start with what is there. Through the real command.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { copyFileSync, cpSync, readdirSync, rmSync, statSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { flip } from '../faults/damaged_file.ts';
import { start } from '../server.ts';

const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
const commandMsMax = 60_000;
let root: string;
const dataDir = () => join(root, 'case');
const run = (...words: string[]) =>
  spawnSync(process.execPath, [main, ...words, `--data-dir=${dataDir()}`], { encoding: 'utf8', timeout: commandMsMax });
const fresh = async () => {
  await rm(dataDir(), { recursive: true, force: true });
  cpSync(join(root, 'base'), dataDir(), { recursive: true });
};

before(async () => {
  root = await mkdtemp(join(tmpdir(), 'tabularium-check-'));
  const dataDirectory = join(root, 'base');
  const first = await start({ dataDir: dataDirectory });
  (await first.put('/api/v2/databases/d')).is(201);
  const columns = [{ name: 'i', type: 'BIGINT' }];
  (await first.post('/api/v2/databases/d/tables', { name: 't', columns })).is(201);
  (await first.query('d', 'INSERT INTO t SELECT hash(range) % 1000000007 FROM range(300000)')).is(200);
  await first.close();
  copyFileSync(join(dataDirectory, 'metadata.sqlite'), join(root, 'older.sqlite'));
  const second = await start({ dataDir: dataDirectory });
  (await second.put('/api/v2/databases/lost')).is(201);
  await second.close();
});
after(() => rm(root, { recursive: true, force: true }));

test('a sound data directory: nothing is wrong, and nothing is changed', async () => {
  await fresh();
  const checked = run('check');
  assert.equal(checked.status, 0, checked.stdout + checked.stderr);
  assert.match(checked.stdout, /^sound {3}catalog "default": \d+ bytes\nNothing is wrong\.\n$/);
  const server = await start({ dataDir: dataDir() });
  assert.deepEqual(await server.rows('d', 'SELECT count(*) FROM t'), [[300_000]]);
  await server.close();
});

test('a store that lacks acknowledged changes is refused with their names, until the loss is accepted', async () => {
  await fresh();
  copyFileSync(join(root, 'older.sqlite'), join(dataDir(), 'metadata.sqlite'));
  const refused = run('--port=0');
  assert.equal(refused.status, 1);
  assert.match(refused.stderr, /lacks \d+ acknowledged changes?: .*\/databases\/lost.*tabularium check --repair/s);
  assert.doesNotMatch(refused.stderr, /^\s+at /m);
  const found = run('check');
  assert.equal(found.status, 1);
  assert.match(found.stdout, /FAULT: metadata store: lost: databases\.create .*\/databases\/lost/);
  run('check', '--repair');
  const server = await start({ dataDir: dataDir() });
  (await server.get('/api/v2/databases/d')).is(200);
  (await server.get('/api/v2/databases/lost')).is(404, 'OBJECT_NOT_FOUND');
  await server.close();
});

test('a byte in a block of a catalog: check names the table', async () => {
  await fresh();
  const directory = join(dataDir(), 'catalogs');
  const [file = ''] = readdirSync(directory).filter((name) => name.endsWith('.duckdb'));
  const path = join(directory, file);
  flip(path, Math.floor(statSync(path).size / 2));
  const checked = run('check', '--catalog=default');
  assert.equal(checked.status, 1, checked.stdout);
  assert.match(checked.stdout, /DAMAGED catalog "default": table "d\.t": the block at byte \d+ of its file is damaged/);
});

test('a missing file of a catalog, and a catalog that does not exist', async () => {
  await fresh();
  const directory = join(dataDir(), 'catalogs');
  for (const name of readdirSync(directory)) rmSync(join(directory, name));
  const checked = run('check');
  assert.equal(checked.status, 1);
  assert.match(checked.stdout, /DAMAGED catalog "default": its file is missing/);
  assert.equal(run('check', '--catalog=none').status, 2);
});
