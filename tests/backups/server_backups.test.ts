// Backups of the whole server by REST: in an object store, with a damaged catalog, cancelled, deleted, and with the server killed while
// one is made. SERVER_BACKUP_SEED replays the kills.
import assert from 'node:assert/strict';
import { readdirSync, rmSync } from 'node:fs';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { verifyServerBackups } from '../../src/backups/server/server_verification.ts';
import { DirectoryTarget } from '../../src/backups/targets/directory_target.ts';
import { deadlineMs } from '../deadline.ts';
import { type ObjectStoreServer, startObjectStore } from '../outbound/object_store_server.ts';
import { Random, seedFrom } from '../random.ts';
import { type ServerProcess, start, startProcess, type TestServer, uri } from '../server.ts';
import { type BackupServer, filesIn, rowsIn, startBackingUp } from './backing_up.ts';
import { backUpServer, command, restoredTo, serverBackedUp } from './whole_server.ts';

const options = { timeout: deadlineMs(120_000) };
const backupPassphrase = 'a long passphrase';

async function withTable(server: TestServer, catalog: string, rows: number): Promise<void> {
  await server.client.catalogs.create({ name: catalog });
  await server.client.catalogs(catalog).databases.create({ name: 'd' });
  const columns = [{ name: 'n', type: 'BIGINT' }];
  await server.client.catalogs(catalog).databases('d').tables.create({ name: 't', columns }).done();
  const sql = `INSERT INTO d.t SELECT hash(range) >> 1 FROM range(${rows})`;
  (await server.post(uri`/catalogs/${catalog}/query`, { sql })).is(200);
}

const sumOf = (server: TestServer, catalog: string) => rowsIn(server, catalog, 'SELECT count(*), sum(n) FROM d.t');

describe('a backup of the server', () => {
  let from: BackupServer;
  let objects: ObjectStoreServer;
  let root: string;
  before(async () => {
    root = await mkdtemp(join(tmpdir(), 'tabularium-server-backups-'));
    objects = await startObjectStore();
    from = await startBackingUp({ backupPassphrase });
    await withTable(from.server, 'c', 10_000);
  });
  after(async () => {
    await from.close();
    await objects.close();
    await rm(root, { recursive: true, force: true });
  });
  const s3 = () => {
    const { endpoint, bucket, accessKeyId, secretAccessKey } = objects;
    return { s3: { endpoint, bucket, prefix: 'all', accessKeyId, secretAccessKey } };
  };

  it('goes to an object store, is restored from there, and deleted', options, async () => {
    const record = await serverBackedUp(from.server, 'remote', s3());
    assert.ok(!record.text.includes(objects.secretAccessKey), 'keys are not shown');
    const environment = {
      AWS_ACCESS_KEY_ID: objects.accessKeyId,
      AWS_SECRET_ACCESS_KEY: objects.secretAccessKey,
      TABULARIUM_BACKUP_PASSPHRASE: backupPassphrase,
    };
    const words = [`s3://${objects.bucket}/all`, `--store-endpoint=${objects.endpoint}`];
    const verified = await command(['backup', 'verify', ...words], environment);
    assert.equal(verified.status, 0, verified.out + verified.errors);
    const dataDir = join(root, 'from s3');
    await restoredTo(dataDir, words, environment);
    const copy = await start({ dataDir });
    assert.deepEqual(await sumOf(copy, 'c'), await sumOf(from.server, 'c'));
    await copy.close();
    (await from.server.delete('/api/v2/server_backups/remote')).is(200, '0', { deleted: true });
    const invalidPassphrase = await command(['backup', 'verify', ...words], environment);
    assert.match(invalidPassphrase.out, /No backups found/);
  });

  it(
    'is refused for an object store if the server has no passphrase, and in a directory has keys that only their owner can read',
    options,
    async () => {
      const other = await startBackingUp();
      try {
        const refused = await other.server.post('/api/v2/server_backups', { to: s3() });
        refused.is(400, 'INVALID_PARAMETER', { violations: [{ pointer: '/to/s3', rule: 'passphrase' }] });
        const accepted = await other.server.post('/api/v2/server_backups', { to: { path: other.directory } });
        const task = await other.server.ended(accepted);
        task.is(200, '0', { state: 'succeeded', result: { secretKey: 'plain' } });
        // The default name is its id.
        (await other.server.get(uri`/server_backups/${task.at<string>('taskId')}`)).is(200);
        const dataDir = join(root, 'plain');
        await restoredTo(dataDir, [other.directory]);
        const copy = await start({ dataDir });
        (await copy.get('/api/v2/users/root')).is(200);
        await copy.close();
      } finally {
        await other.close();
      }
    },
  );

  it('lists the damaged catalogs that it omits', options, async () => {
    const dataDir = join(root, 'damaged');
    const first = await start({ dataDir, backupDirectories: from.directory });
    await withTable(first, 'sound', 1000);
    const before = new Set(readdirSync(join(dataDir, 'catalogs')));
    await withTable(first, 'lost', 1000);
    await first.close();
    for (const name of readdirSync(join(dataDir, 'catalogs')))
      if (!before.has(name) && !before.has(`${name}.wal`)) rmSync(join(dataDir, 'catalogs', name));
    const second = await start({ dataDir, backupDirectories: from.directory, backupPassphrase: '' });
    const path = join(from.directory, 'of damaged');
    const record = await serverBackedUp(second, 'partly', { path });
    await second.close();
    const leftOut = record.at<{ name: string; reason: string }[]>('catalogsLeftOut');
    assert.deepEqual(leftOut, [{ name: 'lost', reason: 'its file is missing' }]);
    const restored = join(root, 'partly');
    const { out } = await restoredTo(restored, [path]);
    assert.match(out, /^NOT in the backup: catalog "lost" \(its file is missing\)$/m);
    const copy = await start({ dataDir: restored });
    assert.deepEqual(await rowsIn(copy, 'sound', 'SELECT count(*) FROM d.t'), [[1000]]);
    (await copy.get('/api/v2/catalogs/lost')).is(200, '0', { state: 'damaged' });
    await copy.close();
  });

  it('is deleted with its files, or without them', options, async () => {
    const path = join(from.directory, 'deleted');
    await serverBackedUp(from.server, 'one', { path });
    const retained = await serverBackedUp(from.server, 'two', { path });
    (await from.server.post('/api/v2/server_backups', { name: 'two', to: { path } })).is(400, 'OBJECT_ALREADY_EXISTS');
    (await from.server.delete('/api/v2/server_backups/one')).is(200, '0', { deleted: true });
    (await from.server.delete('/api/v2/server_backups/one')).is(200, '0', { deleted: false });
    (await from.server.delete('/api/v2/server_backups/two?keepFiles=true')).is(200, '0', { deleted: true });
    (await from.server.get('/api/v2/server_backups/two')).is(404, 'OBJECT_NOT_FOUND');
    const files = await filesIn(path);
    assert.ok(files.length > 3);
    assert.ok(
      files.every((file) => file.startsWith(`server_backups/${retained.at<string>('backupId')}/`)),
      files.join(),
    );
  });

  it('that fails is recorded as failed, and leaves nothing', options, async () => {
    const path = join(from.directory, 'refused');
    const accepted = await from.server.post('/api/v2/server_backups', {
      name: 'bad',
      to: { ...s3(), s3: { ...s3().s3, bucket: 'none' } },
    });
    const task = await from.server.ended(accepted);
    task.is(200, '0', { state: 'failed' });
    const until = Date.now() + deadlineMs(10_000);
    let record = await from.server.get('/api/v2/server_backups/bad');
    while (record.at('state') === 'creating' && Date.now() < until) {
      await pause(50);
      record = await from.server.get('/api/v2/server_backups/bad');
    }
    record.is(200, '0', { state: 'failed', takenAt: null });
    assert.deepEqual(await filesIn(path), []);
    (await from.server.delete('/api/v2/server_backups/bad?keepFiles=true')).is(200, '0', { deleted: true });
  });

  it('that is requested twice at once is made twice', options, async () => {
    const path = join(from.directory, 'both');
    const replies = await Promise.all(['x', 'y'].map((name) => backUpServer(from.server, name, { path })));
    for (const task of replies) task.is(200, '0', { state: 'succeeded' });
    const { backups, faults } = await verifyServerBackups(new DirectoryTarget(path));
    assert.deepEqual([backups.length, faults], [2, []]);
  });
});

describe('a server that is killed during its backup', () => {
  const random = new Random(seedFrom('SERVER_BACKUP_SEED'));
  const rounds = 3;
  let root: string;
  let server: ServerProcess;
  const startAgain = async () => {
    server = await startProcess([`--backup-directories=${join(root, 'backups')}`], join(root, 'data'));
  };
  before(async () => {
    root = await mkdtemp(join(tmpdir(), 'tabularium-server-killed-'));
    for (const name of ['data', 'backups']) await mkdir(join(root, name));
    await startAgain();
    await withTable(server, 'c', 4_000_000);
  });
  after(async () => {
    await server.close();
    await rm(root, { recursive: true, force: true });
  });

  it('completes it after the restart; until then the incomplete backup does not count', options, async (t) => {
    t.diagnostic(`SERVER_BACKUP_SEED=${random.seed}`);
    const expected = await sumOf(server, 'c');
    for (let round = 0; round < rounds; round++) {
      const path = join(root, 'backups', `of ${round}`);
      const accepted = await server.post('/api/v2/server_backups', { name: `b${round}`, to: { path } });
      accepted.is(202);
      await pause(random.below(300));
      server.child.kill('SIGKILL');
      await server.exited;
      const { backups, faults } = await verifyServerBackups(new DirectoryTarget(path));
      assert.deepEqual(faults, [], 'what has a manifest is whole');
      t.diagnostic(`round ${round}: ${backups.length === 0 ? 'killed before its end' : 'killed after its end'}`);
      await startAgain();
      (await server.ended(accepted)).is(200, '0', { state: 'succeeded' });
      (await server.get(uri`/server_backups/${`b${round}`}`)).is(200, '0', { state: 'ready' });
      const after = await verifyServerBackups(new DirectoryTarget(path));
      assert.deepEqual([after.backups.length, after.faults], [1, []]);
    }
    const restored = join(root, 'restored');
    await restoredTo(restored, [join(root, 'backups', `of ${rounds - 1}`)]);
    const copy = await start({ dataDir: restored });
    assert.deepEqual(await sumOf(copy, 'c'), expected);
    await copy.close();
  });
});
