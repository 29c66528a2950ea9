// A store that lost acknowledged changes is recognized at the start, which lists them; `check` reports damage of the store and of
// catalogs, and each `--repair` reports its losses, retains the originals, and leaves a server that starts. Through the real
// command.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { copyFileSync, cpSync, readdirSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { deadlineMs } from '../deadline.ts';
import { flipBytes } from '../faults/damage/damaged_file.ts';
import { start, startProcess } from '../server.ts';

const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
const commandMsMax = deadlineMs(60_000);
let root: string;
const dataDir = () => join(root, 'case');
const run = (...words: string[]) =>
  spawnSync(process.execPath, [main, ...words, `--data-dir=${dataDir()}`], { encoding: 'utf8', timeout: commandMsMax });
const newDirectory = async () => {
  await rm(dataDir(), { recursive: true, force: true });
  cpSync(join(root, 'base'), dataDir(), { recursive: true });
};

before(async () => {
  root = await mkdtemp(join(tmpdir(), 'tabularium-check-'));
  const dataDirectory = join(root, 'base');
  const first = await start({ dataDir: dataDirectory });
  await first.client.databases.create({ name: 'd' });
  const columns = [{ name: 'i', type: 'BIGINT' }];
  await first.client.databases('d').tables.create({ name: 't', columns }).done();
  (await first.query('d', 'INSERT INTO t SELECT hash(range) % 1000000007 FROM range(300000)')).is(200);
  await first.close();
  for (const end of ['', '-sums'])
    copyFileSync(join(dataDirectory, `metadata.sqlite${end}`), join(root, `older.sqlite${end}`));
  const second = await start({ dataDir: dataDirectory });
  // Its path is in the audit trail.
  (await second.put('/api/v2/databases/lost')).is(201);
  await second.close();
});
after(() => rm(root, { recursive: true, force: true }));

test('an intact data directory: no fault is reported, and nothing is changed', async () => {
  await newDirectory();
  const checked = run('check');
  assert.equal(checked.status, 0, checked.stdout + checked.stderr);
  assert.match(checked.stdout, /^intact {2}catalog "default": \d+ bytes\nNothing is wrong\.\n$/);
  const server = await start({ dataDir: dataDir() });
  assert.deepEqual(await server.rows('d', 'SELECT count(*) FROM t'), [[300_000]]);
  await server.close();
});

test('a store that lacks acknowledged changes is refused with their names, until the loss is accepted', async () => {
  await newDirectory();
  for (const end of ['', '-sums'])
    copyFileSync(join(root, `older.sqlite${end}`), join(dataDir(), `metadata.sqlite${end}`));
  const refused = run('--port=0');
  assert.equal(refused.status, 1);
  assert.match(
    refused.stderr,
    /lacks \d+ acknowledged changes?: .*\/databases\/lost.*tabularium check --repair=accept/s,
  );
  assert.doesNotMatch(refused.stderr, /^\s+at /m);
  const checkRun = run('check');
  assert.equal(checkRun.status, 1);
  assert.match(checkRun.stdout, /FAULT: metadata store: lost: databases\.create .*\/databases\/lost/);
  assert.equal(run('check', '--repair=accept').status, 0);
  requireAuditEvent('metadata_store.repair', null, /"lost":\["lost: databases\.create .*\/databases\/lost"\]/);
  const server = await start({ dataDir: dataDir() });
  (await server.get('/api/v2/databases/d')).is(200);
  (await server.get('/api/v2/databases/lost')).is(404, 'OBJECT_NOT_FOUND');
  await server.close();
});

test('a changed byte of the store is refused at the start and found by check, which changes nothing; after --repair=accept, the originals are retained', async () => {
  await newDirectory();
  const store = join(dataDir(), 'metadata.sqlite');
  flipBytes(store, statSync(store).size - 50);
  const damaged = readFileSync(store);
  const refused = run('--port=0');
  assert.equal(refused.status, 1);
  assert.match(
    refused.stderr,
    /metadata\.sqlite is damaged: page \d+ differs from what was written\..*tabularium check/s,
  );
  const checkRun = run('check');
  assert.equal(checkRun.status, 1, checkRun.stderr);
  assert.match(
    checkRun.stdout,
    /FAULT: metadata store: page \d+ differs from what was written\n {2}--repair=accept loses that/,
  );
  assert.ok(readFileSync(store).equals(damaged));
  assert.deepEqual(
    readdirSync(dataDir()).filter((name) => name.startsWith('.check')),
    [],
  );
  const accepted = run('check', '--repair=accept');
  assert.match(accepted.stdout, /accepted as lost: metadata store: page \d+ differs/);
  requireAuditEvent('metadata_store.repair', null, /"repair":"accept","lost":\["page \d+ differs/);
  const [original = ''] = readdirSync(dataDir()).filter((name) => name.startsWith('metadata.sqlite.damaged-'));
  assert.ok(readFileSync(join(dataDir(), original)).equals(damaged));
  const server = await start({ dataDir: dataDir() });
  assert.deepEqual(await server.rows('d', 'SELECT count(*) FROM t'), [[300_000]]);
  await server.close();
});

test('a catalog that was never used has no file yet, and is intact', async () => {
  const unused = join(root, 'unused');
  await (await start({ dataDir: unused })).close();
  const checked = spawnSync(process.execPath, [main, 'check', `--data-dir=${unused}`], { encoding: 'utf8' });
  assert.equal(checked.status, 0, checked.stdout + checked.stderr);
  assert.match(checked.stdout, /^intact {2}catalog "default": never used, without a file$/m);
});

test('a byte in a block of a catalog: check names the table', async () => {
  await newDirectory();
  const directory = join(dataDir(), 'catalogs');
  const [file = ''] = readdirSync(directory).filter((name) => name.endsWith('.duckdb'));
  const path = join(directory, file);
  flipBytes(path, Math.floor(statSync(path).size / 2));
  const checked = run('check', '--catalog=default');
  assert.equal(checked.status, 1, checked.stdout);
  assert.match(checked.stdout, /DAMAGED catalog "default": table "d\.t": the block at byte \d+ of its file is damaged/);
});

test('a damaged log of a catalog is truncated before the damage; the original is retained', async () => {
  await newDirectory();
  const { name, log } = await withLog();
  flipBytes(log, statSync(log).size - 30);
  const checkRun = run('check');
  assert.equal(checkRun.status, 1, checkRun.stderr);
  assert.match(checkRun.stdout, /DAMAGED catalog "default": .*write-ahead log/);
  assert.match(checkRun.stdout, /--repair=wal loses the last \d+ bytes of its write-ahead log, which follow byte \d+/);
  const bytes = statSync(log).size;
  const repaired = run('check', '--repair=wal');
  assert.equal(repaired.status, 0, repaired.stdout + repaired.stderr);
  assert.match(repaired.stdout, /repaired catalog "default"/);
  requireAuditEvent(
    'catalogs.repair',
    '/api/v2/catalogs/default',
    /"repair":"wal","faults":\[".*loses the last \d+ bytes/,
  );
  const directory = join(dataDir(), 'catalogs');
  const [original = ''] = readdirSync(directory).filter((file) => file.startsWith(`${name}.wal.damaged-`));
  assert.equal(statSync(join(directory, original)).size, bytes);
  const server = await start({ dataDir: dataDir() });
  // The last of three inserts is lost.
  assert.deepEqual(await server.rows('d', 'SELECT count(*) FROM t'), [[300_002]]);
  await server.close();
});

test('a damaged catalog is detached from the server; its files are retained', async () => {
  await newDirectory();
  const directory = join(dataDir(), 'catalogs');
  const [file = ''] = readdirSync(directory).filter((name) => name.endsWith('.duckdb'));
  flipBytes(join(directory, file), 20, 4);
  const checkRun = run('check');
  assert.match(checkRun.stdout, /--repair=detach detaches the catalog from the server, with 2 databases with 1 tables/);
  assert.equal(run('check', '--repair=wal').status, 1);
  const repaired = run('check', '--repair=detach');
  assert.equal(repaired.status, 0, repaired.stdout + repaired.stderr);
  assert.equal(readdirSync(directory).filter((name) => name.startsWith(`${file}.damaged-`)).length, 1);
  requireAuditEvent('catalogs.repair', '/api/v2/catalogs/default', /"repair":"detach"/);
  const server = await start({ dataDir: dataDir() });
  (await server.get('/api/v2/databases/d')).is(404, 'OBJECT_NOT_FOUND');
  await server.client.databases.create({ name: 'd' });
  await server.close();
});

test('a damaged catalog is accepted as it is', async () => {
  await newDirectory();
  const directory = join(dataDir(), 'catalogs');
  for (const name of readdirSync(directory))
    flipBytes(join(directory, name), Math.floor(statSync(join(directory, name)).size / 2));
  assert.equal(run('check', '--repair=accept').status, 0);
  requireAuditEvent('catalogs.repair', '/api/v2/catalogs/default', /"repair":"accept","faults":\["table .*damaged/);
});

test('no catalog is repaired while the store lacks acknowledged changes, nor without the key of the audit trail', async () => {
  await newDirectory();
  const directory = join(dataDir(), 'catalogs');
  const [file = ''] = readdirSync(directory);
  flipBytes(join(directory, file), 20, 4);
  const key = join(dataDir(), 'secret.key');
  renameSync(key, `${key}.away`);
  const checkWithoutKey = run('check', '--repair=detach');
  assert.equal(checkWithoutKey.status, 1);
  assert.match(checkWithoutKey.stderr, /key/);
  assert.doesNotMatch(checkWithoutKey.stderr, /^\s+at /m);
  assert.deepEqual(readdirSync(directory), [file]);
  renameSync(`${key}.away`, key);
  for (const end of ['', '-sums'])
    copyFileSync(join(root, `older.sqlite${end}`), join(dataDir(), `metadata.sqlite${end}`));
  const checkRun = run('check', '--repair=detach');
  assert.equal(checkRun.status, 1);
  assert.match(checkRun.stderr, /lacks \d+ acknowledged changes?/);
  assert.deepEqual(readdirSync(directory), [file]);
});

test('a table that the file lacks, and a column of another type, are reported', async () => {
  await newDirectory();
  const store = new DatabaseSync(join(dataDir(), 'metadata.sqlite'));
  const columns =
    'category, parent_id, state, owner, version, created_at, created_by, updated_at, updated_by, folded_comment, spec';
  store.exec(`UPDATE objects SET spec = replace(spec, 'BIGINT', 'DATE') WHERE category = 'tables';
    INSERT INTO objects (id, name, folded_name, ${columns}) SELECT 'x', 'u', 'u', ${columns} FROM objects WHERE category = 'tables'`);
  store.close();
  rmSync(join(dataDir(), 'metadata.sqlite-sums'));
  const { status, stdout } = run('check');
  assert.equal(status, 1);
  assert.match(stdout, /table "d\.t": its column "i" has the type BIGINT in the file instead of DATE/);
  assert.match(stdout, /table "d\.u": it is missing from the file/);
});

test('a missing file of a catalog, and a catalog that does not exist', async () => {
  await newDirectory();
  const directory = join(dataDir(), 'catalogs');
  for (const name of readdirSync(directory)) rmSync(join(directory, name));
  const checked = run('check');
  assert.equal(checked.status, 1);
  assert.match(checked.stdout, /DAMAGED catalog "default": its file is missing/);
  assert.equal(run('check', '--catalog=none').status, 2);
});

/** Three inserts in the log of the catalog, of a killed server. */
async function withLog(): Promise<{ readonly name: string; readonly log: string }> {
  const server = await startProcess([], dataDir());
  for (let i = 0; i < 3; i++) (await server.query('d', `INSERT INTO t VALUES (${i})`)).is(200);
  // The positions of the files are recorded within a second.
  await new Promise((resolve) => setTimeout(resolve, 1500));
  server.child.kill('SIGKILL');
  await server.exited;
  const [log = ''] = readdirSync(join(dataDir(), 'catalogs')).filter((file) => file.endsWith('.wal'));
  return { name: log.slice(0, -'.wal'.length), log: join(dataDir(), 'catalogs', log) };
}

/** The last event of the audit trail, whose chain is intact. */
function requireAuditEvent(action: string, target: string | null, details: RegExp): void {
  const verified = run('audit', 'verify');
  assert.equal(verified.status, 0, verified.stdout + verified.stderr);
  const store = new DatabaseSync(join(dataDir(), 'metadata.sqlite'), { readOnly: true });
  const row = store.prepare('SELECT action, outcome, target, details FROM audit_events ORDER BY sequence DESC').get();
  store.close();
  assert.deepEqual([row?.action, row?.outcome, row?.target], [action, '0', target]);
  assert.match(String(row?.details), details);
}
