// A damaged catalog is restored from the newest usable backup of the server: its file and its description in the store are of one
// instant, the loss is reported, the originals are retained, and other catalogs keep what was acknowledged since. Through the real
// command.
import assert from 'node:assert/strict';
import { cpSync, mkdirSync, readdirSync, rmSync, statSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, test } from 'node:test';
import { rowsIn } from '../backups/backing_up.ts';
import { command, serverBackedUp } from '../backups/whole_server.ts';
import { deadlineMs } from '../deadline.ts';
import { fileOf, flipBytes } from '../faults/damage/damaged_file.ts';
import { start, type TestServer, uri } from '../server.ts';

const options = { timeout: deadlineMs(120_000) };
let root: string;
let target: string;
let ids: Readonly<Record<string, string>>;
let backups: readonly string[];
const dataDir = () => join(root, 'case');
const check = (...words: string[]) => command(['check', ...words, `--data-dir=${dataDir()}`]);
const database = (catalog: string) => uri`/catalogs/${catalog}/databases/${'d'}`;
const count = async (server: TestServer, catalog: string, table = 't') =>
  (await rowsIn(server, catalog, `SELECT count(*) FROM d.${table}`))[0]?.[0];
const columns = [{ name: 'i', type: 'BIGINT' }];
const insert = async (server: TestServer, catalog: string, rows: number) =>
  (await server.post(uri`/catalogs/${catalog}/query`, { sql: `INSERT INTO d.t SELECT range FROM range(${rows})` })).is(
    200,
  );
const insertKeyed = (server: TestServer, catalog: string) =>
  server.request('POST', `${database(catalog)}/tables/t/rows`, {
    body: { rows: [[1]] },
    headers: { 'x-service-idempotency-key': `lost-${catalog}` },
  });

/** Two backups of two catalogs; after the second one, work that only the catalogs contain. */
before(async () => {
  root = await mkdtemp(join(tmpdir(), 'tabularium-repair-'));
  target = join(root, 'backups');
  const base = join(root, 'base');
  mkdirSync(target);
  const server = await start({ dataDir: base, backupDirectories: target, backupPassphrase: '' });
  for (const catalog of ['a', 'b']) {
    await server.client.catalogs.create({ name: catalog });
    await server.client.catalogs(catalog).databases.create({ name: 'd' });
    (await server.post(`${database(catalog)}/tables`, { name: 't', columns })).is(201);
    (await server.post(`${database(catalog)}/tables`, { name: 'gone', columns })).is(201);
    (await server.post(`${database(catalog)}/views`, { name: 'v', sql: 'SELECT i FROM t' })).is(201);
    await insert(server, catalog, 1000);
  }
  await server.client.roles.create({ name: 'readers' });
  await server.client.roles('readers').grants.create({ privilege: 'read', on: `${database('a')}/tables/t` });
  const backupIds = [await serverBackedUp(server, 'first', { path: target })];
  await insert(server, 'a', 500);
  backupIds.push(await serverBackedUp(server, 'second', { path: target }));
  backups = backupIds.map((record) => String(record.at('backupId')));
  for (const catalog of ['a', 'b']) {
    await insert(server, catalog, 7);
    (await insertKeyed(server, catalog)).is(201);
    (await server.post(`${database(catalog)}/tables`, { name: 'new', columns })).is(201);
    (await server.delete(`${database(catalog)}/tables/gone?purge=true`)).is(200);
    (await server.patch(`${database(catalog)}/tables/t`, { comment: 'later' })).is(200);
  }
  // The statistics of what was written are recorded within a second.
  await new Promise((resolve) => setTimeout(resolve, 1500));
  await server.close();
  const store = new DatabaseSync(join(base, 'metadata.sqlite'), { readOnly: true });
  const rows = store.prepare("SELECT name, id FROM objects WHERE category = 'catalogs'").all();
  store.close();
  ids = Object.fromEntries(rows.map(({ name, id }) => [String(name), String(id)]));
  cpSync(target, join(root, 'kept'), { recursive: true });
});
after(() => rm(root, { recursive: true, force: true }));

/** The header of `a`, or a block in its middle. */
async function damageStore(offset?: number): Promise<void> {
  for (const path of [dataDir(), target]) await rm(path, { recursive: true, force: true });
  cpSync(join(root, 'base'), dataDir(), { recursive: true });
  cpSync(join(root, 'kept'), target, { recursive: true });
  const file = fileOf(dataDir(), ids.a as string);
  flipBytes(file, offset ?? Math.floor(statSync(file).size / 2), 4);
}

/** Damages the file of the catalog in a backup. */
function tear(backupId: string): void {
  const folder = join(target, 'server_backups', backupId);
  for (const name of readdirSync(folder)) if (name !== 'manifest.json') flipBytes(join(folder, name), 100);
}

async function verified(): Promise<void> {
  const run = await command(['audit', 'verify', `--data-dir=${dataDir()}`]);
  assert.equal(run.status, 0, run.out + run.errors);
}

test('after damage to a header, the newest backup is restored and the loss is reported', options, async () => {
  await damageStore(20);
  const findings = await check();
  assert.equal(findings.status, 1, findings.errors);
  assert.match(findings.out, /--repair=backup puts the catalog back to its state in the newest backup/);
  const { status, out, errors } = await check('--catalog=a', '--repair=backup');
  assert.equal(status, 0, out + errors);
  assert.match(out, new RegExp(`restored to its state of \\S+Z, from backup ${backups[1]}; losses:`));
  assert.match(out, /^ +table "d\.t": it had 1508 rows, and has 1500 in the backup$/m);
  assert.match(out, /^ +table "d\.new": all of it, made or renamed after the backup/m);
  assert.match(out, /^ +table "d\.gone": deleted or renamed since, it is restored with 0 rows$/m);
  assert.match(out, /^ +\d+ × \S+, the last at \S+Z$/m);
  assert.match(out, /^ {2}the original is \S+\.duckdb\.damaged-/m);
  await verified();
  const server = await start({ dataDir: dataDir() });
  try {
    (await server.get('/api/v2/catalogs/a')).is(200, '0', { state: 'ready' });
    assert.equal(await count(server, 'a'), 1500);
    assert.equal(await count(server, 'a', 'gone'), 0);
    assert.equal(await count(server, 'a', 'v'), 1500);
    (await server.get(`${database('a')}/tables/new`)).is(404, 'OBJECT_NOT_FOUND');
    assert.equal((await server.get(`${database('a')}/tables/t`)).is(200).at('comment'), null);
    // Grants on objects that existed before and after are retained.
    const grants = (await server.get('/api/v2/roles/readers/grants')).is(200);
    assert.match(grants.text, /catalogs\/a\/databases\/d\/tables\/t/);
    // A repeated request whose work was lost is applied again, once.
    for (let i = 0; i < 2; i++) (await insertKeyed(server, 'a')).is(201);
    assert.equal(await count(server, 'a'), 1501);
    (await server.post(`${database('a')}/tables`, { name: 'new', columns })).is(201);
    // The other catalog is complete.
    assert.equal(await count(server, 'b'), 1008);
    (await server.get(`${database('b')}/tables/new`)).is(200);
    const line = (await server.get('/api/v2/audit_events?pageSize=100')).is(200);
    assert.match(line.text, new RegExp(`"repair":"backup","backupId":"${backups[1]}"`));
  } finally {
    await server.close();
  }
  const recheck = await check();
  assert.equal(recheck.status, 0, recheck.out + recheck.errors);
});

test('if the newest backup is damaged, the previous one is used', options, async () => {
  await damageStore();
  tear(backups[1] as string);
  const { status, out, errors } = await check('--repair=backup', `--backup-place=${target}`);
  assert.equal(status, 0, out + errors);
  assert.match(out, new RegExp(`^ +backup ${backups[1]} in .* cannot be used: .*changed after it was written`, 'm'));
  assert.match(out, new RegExp(`from backup ${backups[0]}; losses:`));
  const server = await start({ dataDir: dataDir() });
  assert.equal(await count(server, 'a'), 1000);
  assert.equal(await count(server, 'b'), 1008);
  await server.close();
});

test('a backup whose copy of the catalog was damaged when it was taken is not used', options, async () => {
  await damageStore();
  const [newest = '', before = ''] = backups.toReversed();
  assert.equal((await check('--repair=backup', `--backup-id=${before}`)).status, 0);
  const server = await start({ dataDir: dataDir() });
  assert.equal(await count(server, 'a'), 1000);
  await server.close();
  const withoutBackup = await check('--repair=backup', `--backup-id=${newest}`);
  assert.match(withoutBackup.out, /Nothing is wrong\.$/m);
});

test('a missing file is restored too', options, async () => {
  await damageStore();
  rmSync(fileOf(dataDir(), ids.a as string));
  const { status, out, errors } = await check('--repair=backup');
  assert.equal(status, 0, out + errors);
  assert.doesNotMatch(out, /the original is/);
});

test('without a usable backup: exit code 1, a message, and nothing is changed', options, async () => {
  const files = () => readdirSync(join(dataDir(), 'catalogs')).sort();
  await damageStore(20);
  const before = files();
  for (const backupId of backups) tear(backupId);
  const withTornBackup = await check('--repair=backup');
  assert.equal(withTornBackup.status, 1, withTornBackup.out + withTornBackup.errors);
  assert.match(withTornBackup.out, /no backup with the catalog "a" can be used/);
  await rm(target, { recursive: true, force: true });
  const failedRepair = await check('--repair=backup');
  assert.equal(failedRepair.status, 1, failedRepair.out + failedRepair.errors);
  assert.match(failedRepair.out, /cannot be used: the directory does not exist/);
  const withoutBackup = await check('--repair=backup', `--backup-place=${target}`);
  assert.equal(withoutBackup.status, 2, withoutBackup.out + withoutBackup.errors);
  assert.match(withoutBackup.errors, /the directory .* does not exist/);
  const empty = await mkdtemp(join(root, 'empty-'));
  const emptyBackup = await check('--repair=backup', `--backup-place=${empty}`);
  assert.equal(emptyBackup.status, 1, emptyBackup.out + emptyBackup.errors);
  assert.deepEqual(files(), before);
  assert.deepEqual(readdirSync(join(dataDir(), 'staging')), []);
});
