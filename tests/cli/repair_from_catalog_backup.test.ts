// A damaged catalog is restored from the newest backup, even if that is a backup of the catalog alone, in Parquet: through the real
// command. Ids, and with them grants and owners, are unchanged.
import assert from 'node:assert/strict';
import { cpSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, test } from 'node:test';
import { backUpSucceeding, rowsIn } from '../backups/backing_up.ts';
import { command, serverBackedUp } from '../backups/whole_server.ts';
import { deadlineMs } from '../deadline.ts';
import { fileOf, flipBytes } from '../faults/damage/damaged_file.ts';
import { start, type TestServer, uri } from '../server.ts';

const options = { timeout: deadlineMs(120_000) };
let root: string;
let target: string;
let catalogId: string;
let serverBackup: string;
let catalogBackup: string;
const dataDir = () => join(root, 'case');
const check = (...words: string[]) => command(['check', ...words, `--data-dir=${dataDir()}`]);
const tables = '/api/v2/catalogs/default/databases/d/tables';
const columns = [
  { name: 'i', type: 'BIGINT', nullable: false },
  { name: 's', type: 'STRING' },
];
const insert = async (server: TestServer, from: number, to: number) =>
  (
    await server.post(uri`/catalogs/default/query`, {
      sql: `INSERT INTO d.t SELECT range, 'x' FROM range(${from}, ${to})`,
    })
  ).is(200);
const count = async (server: TestServer, sql: string) => (await rowsIn(server, 'default', sql))[0]?.[0];
const idOf = (path: string, category: string, name: string) => {
  const store = new DatabaseSync(join(path, 'metadata.sqlite'), { readOnly: true });
  const row = store.prepare('SELECT id, owner FROM objects WHERE category = ? AND name = ?').get(category, name);
  store.close();
  return `${row?.id} of ${row?.owner}`;
};

/** Backs up the server, then the catalog; rows are written in between and afterwards. */
before(async () => {
  root = await mkdtemp(join(tmpdir(), 'tabularium-rebuild-'));
  target = join(root, 'backups');
  const base = join(root, 'base');
  mkdirSync(target);
  const server = await start({ dataDir: base, backupDirectories: target, backupPassphrase: '' });
  (await server.patch('/api/v2/catalogs/default', { comment: 'all of it' })).is(200);
  await server.client.catalogs('default').databases.create({ name: 'd' });
  await server.client.users.create({ name: 'ada', password: 'correct horse battery' });
  (await server.post(tables, { name: 't', columns, primaryKey: ['i'], owner: 'ada' })).is(201);
  await server.client.catalogs('default').databases('d').views.create({ name: 'v', sql: 'SELECT i FROM t' });
  await server.client.catalogs.create({ name: 'other' });
  await server.client.catalogs('other').databases.create({ name: 'd' });
  await server.client.users('ada').grants.create({ privilege: 'read', on: `${tables}/t` });
  await insert(server, 0, 100);
  serverBackup = (await serverBackedUp(server, 'first', { path: target })).at('backupId');
  await insert(server, 100, 150);
  await backUpSucceeding(server, '/api/v2/catalogs/other', { path: target });
  catalogBackup = (await backUpSucceeding(server, '/api/v2/catalogs/default', { path: target })).backupId;
  await backUpSucceeding(server, '/api/v2/catalogs/other', { path: target });
  await insert(server, 150, 157);
  (await server.post(tables, { name: 'new', columns })).is(201);
  await server.client.catalogs('default').databases('d').views.create({ name: 'w', sql: 'SELECT i FROM v' });
  // The statistics of what was written are recorded within a second.
  await new Promise((resolve) => setTimeout(resolve, 1500));
  await server.close();
  catalogId = idOf(base, 'catalogs', 'default').split(' ')[0] as string;
  cpSync(target, join(root, 'kept'), { recursive: true });
});
after(() => rm(root, { recursive: true, force: true }));

async function damageStore(): Promise<void> {
  for (const path of [dataDir(), target]) await rm(path, { recursive: true, force: true });
  cpSync(join(root, 'base'), dataDir(), { recursive: true });
  cpSync(join(root, 'kept'), target, { recursive: true });
  flipBytes(fileOf(dataDir(), catalogId), 20, 4);
}

const parquetOf = (backupId: string) => {
  const folder = join(target, 'backups', backupId);
  return readdirSync(folder)
    .filter((name) => name.endsWith('.parquet'))
    .map((name) => join(folder, name));
};

test('if the newest backup is of the catalog alone, it is restored and the loss is reported', options, async () => {
  await damageStore();
  const before = idOf(dataDir(), 'tables', 't');
  const { status, out, errors } = await check('--catalog=default', '--repair=backup');
  assert.equal(status, 0, out + errors);
  assert.match(out, new RegExp(`restored to its state of \\S+Z, from backup ${catalogBackup} of the catalog`));
  assert.match(out, /^ +table "d\.t": it had 157 rows, and has 150 in the backup$/m);
  assert.match(out, /^ +table "d\.new": all of it, made or renamed after the backup/m);
  assert.match(out, /^ {2}the original is \S+\.duckdb\.damaged-/m);
  assert.equal(idOf(dataDir(), 'tables', 't'), before);
  assert.deepEqual(readdirSync(join(dataDir(), 'staging')), []);
  const server = await start({ dataDir: dataDir() });
  try {
    (await server.get('/api/v2/catalogs/default')).is(200, '0', { state: 'ready', comment: 'all of it' });
    assert.equal(await count(server, 'SELECT count(*) FROM d.t'), 150);
    assert.equal(await count(server, 'SELECT count(*) FROM d.v'), 150);
    (await server.get(`${tables}/new`)).is(404, 'OBJECT_NOT_FOUND');
    const grants = (await server.get('/api/v2/users/ada/grants')).is(200);
    assert.match(grants.text, /catalogs\/default\/databases\/d\/tables\/t/);
    // Keys, views and their sources work as before.
    (await server.post(`${tables}/t/rows`, { rows: [[1, 'again']] })).is(400, 'CONSTRAINT_VIOLATED');
    await insert(server, 150, 157);
    (await server.delete(`${tables}/t`)).is(400, 'IN_USE');
    const events = (await server.get('/api/v2/audit_events?pageSize=100')).is(200);
    assert.match(events.text, new RegExp(`"repair":"backup","backupId":"${catalogBackup}"`));
  } finally {
    await server.close();
  }
  const recheck = await check();
  assert.equal(recheck.status, 0, recheck.out + recheck.errors);
});

test(
  'if a file of the backup of the catalog is damaged, the previous backup of the server is used',
  options,
  async () => {
    await damageStore();
    for (const path of parquetOf(catalogBackup)) flipBytes(path, 100);
    const { status, out, errors } = await check('--repair=backup', `--backup-place=${target}`);
    assert.equal(status, 0, out + errors);
    assert.match(out, new RegExp(`^ +backup ${catalogBackup} in .* cannot be used: `, 'm'));
    assert.match(out, new RegExp(`from backup ${serverBackup}; losses:`));
    const server = await start({ dataDir: dataDir() });
    assert.equal(await count(server, 'SELECT count(*) FROM d.t'), 100);
    await server.close();
  },
);

test('with backups of the catalog only, a missing file is restored', options, async () => {
  await damageStore();
  rmSync(fileOf(dataDir(), catalogId));
  await rm(join(target, 'server_backups'), { recursive: true });
  const findings = await check();
  assert.match(findings.out, /--repair=backup puts the catalog back to its state in the newest backup/);
  const { status, out, errors } = await check('--repair=backup', `--backup-id=${catalogBackup}`);
  assert.equal(status, 0, out + errors);
  assert.doesNotMatch(out, /the original is/);
});
