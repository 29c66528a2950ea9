// Backups to a directory and to a real S3-compatible server while the catalog is written and changed: the restored data is of one
// instant, unchanged data is not sent again, and failed or cancelled backups leave nothing.
import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { HostAllowlist } from '../../src/outbound/host_allowlist.ts';
import { type ObjectStore, openObjectStore } from '../../src/outbound/object_store.ts';
import { type ObjectStoreServer, startObjectStore } from '../outbound/object_store_server.ts';
import { type TestServer, uri } from '../server.ts';
import {
  type BackupServer,
  backUpSucceeding,
  filesIn,
  restore,
  restoreSucceeding,
  rowsIn,
  startBackingUp,
  type Target,
} from './backing_up.ts';
import { command } from './whole_server.ts';

let backing: BackupServer;
let server: TestServer;
let s3: ObjectStoreServer;
let store: ObjectStore;

const numbers = [
  { name: 'id', type: 'BIGINT' },
  { name: 'n', type: 'BIGINT' },
];

before(async () => {
  s3 = await startObjectStore();
  backing = await startBackingUp();
  server = backing.server;
  const location = { endpoint: s3.endpoint, region: 'us-east-1', bucket: s3.bucket, pathStyle: true };
  store = await openObjectStore(location, s3, new HostAllowlist(['127.0.0.1']));
});
after(async () => {
  store.close();
  await backing.close();
  await s3.close();
});

async function makeCatalog(name: string, tables: readonly string[], database = 'd'): Promise<void> {
  await server.client.catalogs.create({ name }, { ifExists: 'return' });
  await server.client.catalogs(name).databases.create({ name: database });
  for (const table of tables)
    await server.client.catalogs(name).databases(database).tables.create({ name: table, columns: numbers }).done();
}

const run = async (catalog: string, sql: string) =>
  (await server.post(uri`/catalogs/${catalog}/query`, { sql })).is(200);

const inDirectory = (name: string): Target => ({ path: join(backing.directory, name) });
const inStore = (prefix: string): Target => ({
  s3: {
    endpoint: s3.endpoint,
    bucket: s3.bucket,
    prefix,
    accessKeyId: s3.accessKeyId,
    secretAccessKey: s3.secretAccessKey,
  },
});

async function keysOf(prefix: string): Promise<string[]> {
  return (await Array.fromAsync(store.list(`${prefix}/`))).map(({ key }) => key.slice(prefix.length + 1)).sort();
}

const kinds: [string, (name: string) => Target, (name: string) => Promise<string[]>][] = [
  ['a directory', inDirectory, (name) => filesIn(join(backing.directory, name))],
  ['an object store', inStore, keysOf],
];

describe('a backup', () => {
  for (const [i, [description, placeOf, filesOf]] of kinds.entries()) {
    it(`to ${description} sends changed data and refers to unchanged files`, async () => {
      const catalog = `changing ${i}`;
      const to = placeOf(`changing-${i}`);
      await makeCatalog(catalog, ['a', 'b', 'empty']);
      await run(catalog, 'INSERT INTO d.a SELECT range, range * 2 FROM range(1000)');
      await run(catalog, 'INSERT INTO d.b SELECT range, -range FROM range(500)');
      const first = await backUpSucceeding(server, uri`/catalogs/${catalog}`, to);
      assert.deepEqual([first.since, first.tables, first.rows, first.files, first.filesSent], [null, 3, 1500, 2, 2]);
      const files = await filesOf(`changing-${i}`);
      assert.equal(files.length, 3);
      assert.equal(files.filter((path) => path === `backups/${first.backupId}/manifest.json`).length, 1);

      const second = await backUpSucceeding(server, uri`/catalogs/${catalog}`, to);
      assert.deepEqual([second.since, second.files, second.filesSent, second.bytesSent], [first.backupId, 2, 0, 0]);
      const added = (await filesOf(`changing-${i}`)).filter((path) => !files.includes(path));
      assert.deepEqual(added, [`backups/${second.backupId}/manifest.json`]);

      await run(catalog, 'UPDATE d.b SET n = n + 1 WHERE id = 7');
      const third = await backUpSucceeding(server, uri`/catalogs/${catalog}`, to);
      assert.deepEqual([third.since, third.files, third.filesSent], [second.backupId, 2, 1]);
      for (const [name, backupId, n] of [
        ['old', first.backupId, -7],
        ['new', undefined, -6],
      ] as const) {
        const task = await restoreSucceeding(server, '/api/v2/catalogs', {
          name: `${catalog} ${name}`,
          from: to,
          backupId,
        });
        assert.equal(task.at('result', 'rows'), 1500);
        assert.deepEqual(await rowsIn(server, `${catalog} ${name}`, 'SELECT n FROM d.b WHERE id = 7'), [[n]]);
        assert.deepEqual(
          await rowsIn(server, `${catalog} ${name}`, 'SELECT id, n FROM d.a'),
          await rowsIn(server, catalog, 'SELECT id, n FROM d.a'),
        );
        assert.deepEqual(await rowsIn(server, `${catalog} ${name}`, 'SELECT count(*) FROM d.empty'), [[0]]);
      }
    });
  }

  it('is of one instant, while related tables are written', async () => {
    await makeCatalog('busy', ['first', 'large', 'second']);
    await run('busy', 'INSERT INTO d.large SELECT range, hash(range) >> 1 FROM range(1000000)');
    const workers = 3;
    let isOver = false;
    // Each row is in `first` before it is in `second`: at any instant `first` is ahead by at most as many rows as there are
    // writers.
    const writing = Array.from({ length: workers }, async (_, worker) => {
      let written = 0;
      for (; !isOver; written++)
        for (const table of ['first', 'second'])
          await run('busy', `INSERT INTO d.${table} VALUES (${worker}, ${written})`);
      return written;
    });
    const to = inDirectory('busy');
    const backups: string[] = [];
    for (let i = 0; i < 4; i++) {
      // Definitions that change meanwhile make the backup read them again.
      const tableCreated = server.put(uri`/catalogs/busy/databases/d/tables/${`made${i}`}`, { columns: numbers });
      backups.push((await backUpSucceeding(server, '/api/v2/catalogs/busy', to)).backupId);
      (await tableCreated).is(201);
      await run('busy', `UPDATE d.large SET n = ${i} WHERE id = ${i}`);
    }
    isOver = true;
    const written = (await Promise.all(writing)).reduce((sum, count) => sum + count, 0);
    const counts = 'SELECT (SELECT count(*) FROM d.first), (SELECT count(*) FROM d.second)';
    assert.deepEqual(await rowsIn(server, 'busy', counts), [[written, written]]);
    let before = -1;
    for (const [i, backupId] of backups.entries()) {
      await restoreSucceeding(server, '/api/v2/catalogs', { name: `busy ${i}`, from: to, backupId });
      const [[first = 0, second = 0] = []] = (await rowsIn(server, `busy ${i}`, counts)) as number[][];
      assert.ok(first >= second && first - second <= workers, `${first} and ${second}`);
      assert.ok(second > before, `${second} after ${before}`);
      before = second;
      const changes = Array.from({ length: i }, (_, n) => [n]);
      const sql = `SELECT n FROM d.large WHERE id < ${i} ORDER BY id`;
      assert.deepEqual(await rowsIn(server, `busy ${i}`, sql), changes);
    }
  });

  it('continues while its catalog is renamed and a table is dropped', async () => {
    await makeCatalog('moving', ['a', 'b']);
    await run('moving', 'INSERT INTO d.a SELECT range, range FROM range(2000000)');
    await run('moving', 'INSERT INTO d.b SELECT range, range FROM range(10)');
    const to = inDirectory('moving');
    const accepted = await server.post('/api/v2/catalogs/moving/backup', { to });
    await readingBegan(accepted.is(202).at('taskId'));
    (await server.delete('/api/v2/catalogs/moving/databases/d/tables/b?purge=true')).is(200, '0', { deleted: true });
    (await server.post('/api/v2/catalogs/moving/rename', { newName: 'moved' })).is(200);
    await run('moved', 'INSERT INTO d.a VALUES (-1, -1)');
    const task = await server.ended(accepted);
    task.is(200, '0', { state: 'succeeded' });
    await restoreSucceeding(server, '/api/v2/catalogs', { name: 'moved again', from: to });
    const [[count]] = (await rowsIn(server, 'moved again', 'SELECT count(*) FROM d.a')) as [[number]];
    assert.ok(count === 2_000_000 || count === 2_000_001, String(count));
  });

  it('contains the tables of its instant, even if they are dropped, changed or truncated before they are copied', async () => {
    await makeCatalog('under', ['a', 'dropped', 'emptied', 'rewritten', 'written']);
    await run('under', 'INSERT INTO d.a SELECT range, hash(range) >> 1 FROM range(4000000)');
    const rest = ['dropped', 'emptied', 'rewritten', 'written'];
    for (const table of rest) await run('under', `INSERT INTO d.${table} SELECT range, range FROM range(200000)`);
    const to = inDirectory('under');
    const accepted = await server.post('/api/v2/catalogs/under/backup', { to });
    await writingBegan(accepted.is(202).at('taskId'));
    const table = (name: string) => uri`/catalogs/under/databases/d/tables/${name}`;
    (await server.delete(`${table('dropped')}?purge=true`)).is(200, '0', { deleted: true });
    (await server.post(`${table('emptied')}/truncate`)).is(200);
    await server.patch(`${table('rewritten')}/columns/n`, { type: 'STRING' });
    await run('under', 'UPDATE d.written SET n = -n');
    for (let i = 0; i < 5; i++) await run('under', 'INSERT INTO d.emptied SELECT range, -range FROM range(300000)');
    (await server.ended(accepted)).is(200, '0', {
      state: 'succeeded',
      attempt: 1,
      result: { tables: 5, rows: 4_800_000 },
    });
    await restoreSucceeding(server, '/api/v2/catalogs', { name: 'under again', from: to });
    for (const name of rest)
      assert.deepEqual(
        await rowsIn(server, 'under again', `SELECT count(*), sum(n), bit_xor(hash(rowid, n)) FROM d.${name}`),
        await rowsIn(
          server,
          'under again',
          'SELECT count(*), sum(range), bit_xor(hash(range, range)) FROM range(200000)',
        ),
        name,
      );
  });

  it('that is cancelled leaves nothing, not even staged files', async () => {
    await makeCatalog('cancelled', ['a']);
    await run('cancelled', 'INSERT INTO d.a SELECT range, hash(range) >> 1 FROM range(9000000)');
    for (const [i, [, placeOf, filesOf]] of kinds.entries()) {
      const accepted = await server.post('/api/v2/catalogs/cancelled/backup', { to: placeOf(`cancelled-${i}`) });
      const taskId = accepted.is(202).at<string>('taskId');
      await readingBegan(taskId);
      (await server.post(uri`/tasks/${taskId}/cancel`)).is(200);
      (await server.ended(accepted)).is(200, '0', { state: 'cancelled' });
      assert.deepEqual(await filesOf(`cancelled-${i}`), []);
    }
    assert.deepEqual(await readdir(join(server.dataDirectory, 'spool', 'backups')), []);
  });

  it('of a database contains that alone, and is restored beside it or in another catalog', async () => {
    await makeCatalog('two', ['a'], 'one');
    await makeCatalog('two', ['a'], 'other');
    await run('two', 'INSERT INTO one.a VALUES (1, 1)');
    await run('two', 'INSERT INTO other.a VALUES (2, 2)');
    const to = inDirectory('two');
    const backedUpDatabase = await backUpSucceeding(server, '/api/v2/catalogs/two/databases/one', to);
    assert.equal(backedUpDatabase.tables, 1);
    await makeCatalog('three', []);
    const catalogBackup = await backUpSucceeding(server, '/api/v2/catalogs/two', to);
    assert.deepEqual([catalogBackup.since, catalogBackup.tables], [null, 2]);
    // The newest backup of a database, although that of the catalog is newer.
    await restoreSucceeding(server, '/api/v2/catalogs/two/databases', { name: 'again', from: to });
    assert.deepEqual(await rowsIn(server, 'two', 'SELECT id FROM again.a'), [[1]]);
    await restoreSucceeding(server, '/api/v2/catalogs/three/databases', { name: 'other', from: to, database: 'other' });
    assert.deepEqual(await rowsIn(server, 'three', 'SELECT id FROM other.a'), [[2]]);
    (await server.get('/api/v2/catalogs/three/databases/other')).is(200, '0', { tableCount: 1, owner: 'root' });
    (await server.get('/api/v2/catalogs/three/databases/other/tables/a')).is(200, '0', {
      statistics: { rowCount: 1 },
    });
    const missing = await restore(server, '/api/v2/catalogs/three/databases', { name: 'x', from: to, database: 'no' });
    missing.is(200, '0', { state: 'failed', error: { code: 'OBJECT_NOT_FOUND' } });
    assert.match(
      missing.text,
      /has a database \\"no\\": it has backups of the catalog \\"two\\" \(databases: [^)]*\\"other\\"/,
    );
    const unknown = await restore(server, '/api/v2/catalogs/three/databases', {
      name: 'x',
      from: to,
      backupId: '01900000-0000-7000-8000-000000000000',
    });
    unknown.is(200, '0', { state: 'failed', error: { code: 'OBJECT_NOT_FOUND' } });
    assert.match(
      unknown.text,
      /no backup of this id: it has backups of the catalog \\"two\\".*; the newest is [0-9a-f-]{36}/,
    );
    const ofCatalog = { path: join(backing.directory, 'two-catalog') };
    await backUpSucceeding(server, '/api/v2/catalogs/two', ofCatalog);
    const forgotten = await restore(server, '/api/v2/catalogs/three/databases', { name: 'x', from: ofCatalog });
    assert.match(
      forgotten.text,
      /no backup of a database in this target: it has backups of the catalog \\"two\\".* in `database`/,
    );
    const ofDatabase = inDirectory('two-database');
    await backUpSucceeding(server, '/api/v2/catalogs/two/databases/one', ofDatabase);
    const asCatalog = await restore(server, '/api/v2/catalogs', { name: 'x', from: ofDatabase });
    assert.match(
      asCatalog.text,
      /no backup of a catalog in this target: it has backups of the database \\"one\\"; restore a /,
    );
    const words = [
      'restore',
      'server',
      ofCatalog.path,
      `--data-dir=${join(server.dataDirectory, 'spool', 'restored')}`,
    ];
    const { status, out, errors } = await command(words);
    assert.equal(status, 1, out + errors);
    assert.match(out, /^FAULT: there is no backup of a server in this target: it has backups of the catalog "two" /m);
    const { backupId } = backedUpDatabase;
    const wrong = await restore(server, '/api/v2/catalogs', { name: 'x', from: to, backupId });
    wrong.is(200, '0', { state: 'failed', error: { code: 'OBJECT_NOT_FOUND' } });
    for (const path of ['/api/v2/catalogs/three/databases/x', '/api/v2/catalogs/x'])
      (await server.get(path)).is(404, 'OBJECT_NOT_FOUND');
  });

  it('writes audit events, and so does a restore', async () => {
    await makeCatalog('notified', ['a']);
    const to = inDirectory('notified');
    const { backupId } = await backUpSucceeding(server, '/api/v2/catalogs/notified', to);
    await restoreSucceeding(server, '/api/v2/catalogs', { name: 'notified again', from: to });
    const events = async (action: string) =>
      (await server.post('/api/v2/audit_events/search', { action }))
        .is(200)
        .at<{ outcome: string; details?: object }[]>('auditEvents');
    assert.ok((await events('catalogs.backup')).some(({ outcome }) => outcome === '0'));
    const restoreEvents = (await events('catalogs.restore')).filter(({ outcome }) => outcome === '0');
    assert.ok(restoreEvents.some(({ details }) => (details as { backupId?: string } | null)?.backupId === backupId));
  });
});

describe('a restore', () => {
  it('is not visible before it is complete, and reserves the name', async () => {
    await makeCatalog('large', ['a']);
    await run('large', 'INSERT INTO d.a SELECT range, range FROM range(3000000)');
    const to = inDirectory('large');
    await backUpSucceeding(server, '/api/v2/catalogs/large', to);
    const accepted = await server.post('/api/v2/catalogs/restore', { name: 'slow', from: to });
    accepted.is(202, '0', { type: 'restore', target: '/api/v2/catalogs/slow' });
    const ids = new Set<string>();
    for (let state = 'running'; state !== 'succeeded'; ) {
      const query = { sql: 'SELECT count(*) FROM d.a' };
      const { status, text } = await server.post('/api/v2/catalogs/slow/query', query);
      ids.add(status === 200 ? (JSON.parse(text).result.rows[0][0] as number).toString() : String(status));
      const { code } = await server.post('/api/v2/catalogs', { name: 'slow' });
      assert.ok(['CHANGE_IN_PROGRESS', 'OBJECT_ALREADY_EXISTS'].includes(code), code);
      state = (await server.get(uri`/tasks/${accepted.at<string>('taskId')}`)).at('state');
      assert.ok(['pending', 'running', 'succeeded'].includes(state), state);
    }
    ids.delete('404');
    assert.ok(
      [...ids].every((count) => count === '3000000'),
      [...ids].join(),
    );
    assert.deepEqual(await rowsIn(server, 'slow', 'SELECT count(*), sum(n) FROM d.a'), [[3_000_000, 4499998500000]]);
  });

  it('that is cancelled leaves nothing', async () => {
    const from = inDirectory('large');
    for (const collection of ['/api/v2/catalogs', '/api/v2/catalogs/large/databases']) {
      const more = collection.endsWith('databases') ? { database: 'd' } : {};
      const accepted = await server.post(`${collection}/restore`, { name: 'gone', from, ...more });
      const taskId = accepted.is(202).at<string>('taskId');
      await readingBegan(taskId);
      (await server.post(uri`/tasks/${taskId}/cancel`)).is(200);
      (await server.ended(accepted)).is(200, '0', { state: 'cancelled' });
      (await server.get(`${collection}/gone`)).is(404, 'OBJECT_NOT_FOUND');
      // The name is free, and the engine has nothing under it.
      (await server.post(collection, { name: 'gone' })).is(201);
      (await server.delete(`${collection}/gone`)).is(200, '0', { deleted: true });
    }
    assert.deepEqual(await readdir(join(server.dataDirectory, 'spool', 'backups')), []);
  });

  it('of a missing backup is refused at once, or by its task', async () => {
    const from = inDirectory('nothing here');
    (await server.post('/api/v2/catalogs/restore', { name: 'x', from })).is(400, 'INVALID_PARAMETER');
    await restoreFails({ name: 'x', from: inStore('nothing-here') }, 'OBJECT_NOT_FOUND');
    const backupId = '00000000-0000-7000-8000-000000000000';
    await restoreFails({ name: 'x', from: inDirectory('large'), backupId }, 'OBJECT_NOT_FOUND');
    (await server.post('/api/v2/catalogs/restore', { name: 'large', from: inDirectory('large') })).is(
      400,
      'OBJECT_ALREADY_EXISTS',
    );
    (await server.post('/api/v2/catalogs/restore', { name: 'main', from: inDirectory('large') })).is(
      400,
      'INVALID_NAME',
    );
  });
});

async function restoreFails(body: object, code: string): Promise<void> {
  const task = await restore(server, '/api/v2/catalogs', body);
  task.is(200, '0', { state: 'failed', error: { code } });
  (await server.get('/api/v2/catalogs/x')).is(404, 'OBJECT_NOT_FOUND');
}

/** Until it has a staging folder. */
const readingBegan = (taskId: string) => stagingHas(taskId, (names) => names.length > 0);
/** Until the engine has written a file there. */
const writingBegan = (taskId: string) => stagingHas(taskId, (names) => names.some((name) => name.endsWith('.parquet')));

async function stagingHas(taskId: string, isSo: (names: readonly string[]) => boolean): Promise<void> {
  const staging = join(server.dataDirectory, 'spool', 'backups');
  while (!isSo(await readdir(staging, { recursive: true }).catch(() => []))) {
    const state = (await server.get(uri`/tasks/${taskId}`)).at<string>('state');
    assert.ok(state === 'pending' || state === 'running', `the task ended too early: ${state}`);
  }
}
