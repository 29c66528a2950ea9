// `doctor`: a healthy machine is good, and each of ten planted troubles is named with what to do.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, cpSync, existsSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { Finding } from '../../../src/cli/doctor/finding.ts';
import { openSqliteStore } from '../../../src/store/sqlite/sqlite_store.ts';
import { deadlineMs } from '../../deadline.ts';
import { flipBytes } from '../../faults/damage/damaged_file.ts';
import { start } from '../../server.ts';

const repository = fileURLToPath(new URL('../../../', import.meta.url));
const main = join(repository, 'src/main.ts');
const timeout = deadlineMs(60_000);
const skip = process.platform !== 'linux' && 'mount namespaces are Linux’s';

let root: string;
const base = () => join(root, 'base');

before(async () => {
  root = await mkdtemp(join(tmpdir(), 'tabularium-doctor-'));
  const server = await start({ dataDir: base(), diskLowBytes: 1 });
  await server.client.databases.create({ name: 'd' });
  const columns = [{ name: 'i', type: 'BIGINT' }];
  await server.client.databases('d').tables.create({ name: 't', columns }).done();
  await server.client
    .query('INSERT INTO t SELECT hash(range) % 1000000007 FROM range(300000)', { database: 'd' })
    .summary();
  await server.close();
  rmSync(join(base(), 'disk.reserve'), { force: true });
});
after(() => rm(root, { recursive: true, force: true }));

const words = (dataDir: string, ...flags: string[]) => [main, 'doctor', '--json', `--data-dir=${dataDir}`, ...flags];
const findingsOf = (text: string) => (JSON.parse(text) as { readonly findings: readonly Finding[] }).findings;

test('on a healthy machine all is good', () => {
  const ended = spawnSync(process.execPath, words(base(), '--port=0'), { encoding: 'utf8', timeout });
  assert.equal(ended.status, 0, ended.stdout + ended.stderr);
  const findings = findingsOf(ended.stdout);
  assert.deepEqual(new Set(findings.map(({ state }) => state)), new Set(['good']), ended.stdout);
  for (const check of [
    'settings',
    'node',
    'data directory',
    'key file',
    'disk',
    'port',
    'confinement',
    'store',
    'secrets',
    'clock',
  ])
    assert.ok(
      findings.some((finding) => finding.check === check),
      check,
    );
  const fresh = spawnSync(process.execPath, [main, 'doctor', `--data-dir=${join(root, 'new')}`, '--port=0'], {
    encoding: 'utf8',
    timeout,
  });
  assert.deepEqual([fresh.status, existsSync(join(root, 'new'))], [0, false], fresh.stdout + fresh.stderr);
  assert.match(fresh.stdout, /Nothing is wrong\.\n$/);
});

test('of a running server only what needs it stopped is skipped', async () => {
  const server = await start({ dataDir: join(root, 'running') });
  const command = words(join(root, 'running'), `--port=${new URL(server.url).port}`);
  const running = spawn(process.execPath, command, { timeout });
  const [output] = await Promise.all([text(running.stdout), once(running, 'close')]);
  await server.close();
  const states = Object.fromEntries(findingsOf(output).map(({ check, state }) => [check, state]));
  assert.deepEqual(
    [states.server, states.port, states.store, running.exitCode],
    ['good', 'skipped', 'skipped', 0],
    output,
  );
});

test('nine troubles of one machine are named, each with what to do', { skip }, async () => {
  const prepared = join(root, 'prepared');
  cpSync(base(), prepared, { recursive: true });
  writeFileSync(join(prepared, 'config.json'), '{"prot": 8030}');
  const [catalog = ''] = readdirSync(join(prepared, 'catalogs')).filter((name) => name.endsWith('.duckdb'));
  const path = join(prepared, 'catalogs', catalog);
  flipBytes(path, Math.floor(statSync(path).size / 2));
  const store = await openSqliteStore({ file: join(prepared, 'metadata.sqlite') });
  const hour = Date.now() + 3_600_000;
  const warehouse = await store.db
    .selectFrom('objects')
    .selectAll()
    .where('category', '=', 'warehouses')
    .executeTakeFirstOrThrow();
  await store.db.updateTable('objects').set({ updated_at: hour }).where('id', '=', warehouse.id).execute();
  const spec = JSON.stringify({ disabled: false, location: 'http://127.0.0.1:9' });
  await store.db
    .insertInto('objects')
    .values({
      ...warehouse,
      id: crypto.randomUUID(),
      category: 'backends',
      parent_id: warehouse.id,
      name: 'lost',
      folded_name: 'lost',
      spec,
    })
    .execute();
  await store.close();
  rmSync(join(prepared, 'secret.key'));
  chmodSync(join(prepared, 'root.token'), 0o644);
  const busy = createServer().listen(0, '127.0.0.1');
  await new Promise((listening) => busy.once('listening', listening));
  const { port } = busy.address() as { readonly port: number };
  const mounted = join(root, 'mounted');
  cpSync(base(), mounted, { recursive: true });
  const script =
    'mount -t tmpfs -o size=64m tmpfs "$0" && cp -a "$1"/. "$0" && chmod 0755 "$0" && head -c 200m /dev/zero > "$0/ballast" 2>/dev/null; truncate -s -40k "$0/ballast"; shift; exec "$@"';
  const command = [process.execPath, ...words(mounted, `--port=${port}`)];
  const ended = spawnSync(
    'unshare',
    ['--user', '--map-root-user', '--mount', 'sh', '-c', script, mounted, prepared, ...command],
    {
      encoding: 'utf8',
      timeout,
    },
  );
  busy.close();
  assert.equal(ended.status, 1, ended.stdout + ended.stderr);
  const found = findingsOf(ended.stdout).filter(({ state }) => state === 'wrong');
  const expected: readonly (readonly [string, RegExp])[] = [
    ['settings', /has the key "prot", which is not one of its settings/],
    ['data directory', /accessible to other users of the machine \(0755\): chmod 0700/],
    ['token of root', /\(0644\): chmod 0600/],
    ['disk', /only .* are free at .*: free some space/],
    ['port', /is used by another process: end it .* or choose another --port/],
    ['catalog', /`tabularium check` says what each --repair would lose/],
    ['secrets', /secret\.key does not exist: .*restore it/],
    ['clock', /s behind a change in the store: set it/],
    ['backend lost', /127\.0\.0\.1:9 does not accept connections \(ECONNREFUSED\): start it/],
  ];
  for (const [check, message] of expected) {
    const finding = found.find((each) => each.check === check);
    assert.match(finding?.message ?? '', message, `${check}: ${ended.stdout}`);
  }
  assert.equal(found.length, expected.length, ended.stdout);
});

test('an engine without confinement, and invalid flags, are named', () => {
  const ended = spawnSync(process.execPath, words(base(), '--port=0', '--engine-confinement=off'), {
    encoding: 'utf8',
    timeout,
  });
  assert.equal(ended.status, 1, ended.stdout);
  const found = findingsOf(ended.stdout).filter(({ state }) => state === 'wrong');
  assert.deepEqual(
    found.map(({ check }) => check),
    ['confinement'],
  );
  assert.match(found[0]?.message ?? '', /engineConfinement is off.*set engineConfinement to auto/);
});

const old = '/usr/bin/node';
const version = existsSync(old) ? spawnSync(old, ['--version'], { encoding: 'utf8' }).stdout : '';
const hasOld = /^v(1\d|2[0-5])\./.test(version);

test('an old Node.js is named', {
  skip: !hasOld && 'there is no Node.js below 26 in /usr/bin (apt-get install nodejs)',
}, () => {
  // Without the package that carries a newer one.
  cpSync(join(repository, 'bin'), join(root, 'installed', 'bin'), { recursive: true });
  const ended = spawnSync(old, [join(root, 'installed/bin/tabularium.js'), 'doctor'], { encoding: 'utf8', timeout });
  assert.equal(ended.status, 1);
  assert.match(ended.stderr, /needs Node\.js 26 or newer; this is .*Install a newer Node\.js/);
});
