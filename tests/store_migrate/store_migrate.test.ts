// `store migrate` between SQLite and PostgreSQL: a server answers on the new store as it did on the old one, also if the command was killed before
// any of its steps and repeated; and what it refuses.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Client } from 'pg';
import { migrateStore } from '../../src/cli/store_migrate/migrate_store.ts';
import { storePlace } from '../../src/cli/store_migrate/store_places.ts';
import { openSqliteStore } from '../../src/store/sqlite/sqlite_store.ts';
import { runsAll } from '../budget.ts';
import { deadlineMs } from '../deadline.ts';
import { missingPostgresql, newDatabase, urlOfDatabase } from '../postgresql.ts';
import { type ServerProcess, startProcess } from '../server.ts';

const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
const killed = fileURLToPath(new URL('killed_migration.ts', import.meta.url));
const flags = ['--spare-engine=false', '--log-level=error'];
const shop = '/api/v2/catalogs/default/databases/shop';

function command(...words: string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [main, ...words], {
    encoding: 'utf8',
    timeout: deadlineMs(60_000),
  });
  return { status, stdout, stderr };
}
const migrate = (from: string, to: string) => command('store', 'migrate', `--from=${from}`, `--to=${to}`, '--json');
const moved = (from: string, to: string) => {
  const { status, stdout, stderr } = migrate(from, to);
  assert.equal(status, 0, stderr);
  return JSON.parse(stdout) as {
    copied: boolean;
    secrets: number;
    tables: { table: string; rows: number; checksum: string }[];
    audit: { eventCount: number; faults: unknown[] };
  };
};

/** Objects of every kind, and the paths of their records and lists. */
async function fill(server: ServerProcess): Promise<string[]> {
  (await server.put(shop, { comment: 'a "comment" – ü' })).is(201);
  const columns = [
    { name: 'id', type: 'BIGINT' },
    { name: 'note', type: 'STRING' },
  ];
  (await server.post(`${shop}/tables`, { name: 'orders', columns, primaryKey: ['id'] })).is(201);
  (await server.post(`${shop}/tables`, { name: 'dropped', columns })).is(201);
  (await server.delete(`${shop}/tables/dropped`)).is(200);
  (await server.post(`${shop}/tables/orders/rows`, { rows: [{ id: 1, note: 'a' }] })).is(201);
  (await server.post(`${shop}/tables/orders/columns`, { name: 'price', type: 'DOUBLE' })).is(201);
  (await server.put(`${shop}/views/cheap`, { sql: 'SELECT id FROM orders WHERE price < 1.5' })).is(201);
  (await server.post('/api/v2/warehouses', { name: 'second' })).is(201);
  (await server.post('/api/v2/catalogs', { name: 'far', warehouse: 'second' })).is(201);
  (await server.post('/api/v2/users', { name: 'ann', password: 'correct horse battery' })).is(201);
  (await server.post('/api/v2/roles', { name: 'readers', members: ['ann'] })).is(201);
  (await server.post('/api/v2/roles/readers/grants', { privilege: 'read', on: shop })).is(201);
  const schedule = { name: 'yearly', query: { sql: 'SELECT 1' }, cron: '0 0 1 1 *' };
  (await server.post('/api/v2/schedules', schedule)).is(201);
  const keyed = { body: { name: 'keyed', columns }, headers: { 'x-service-idempotency-key': 'a-key' } };
  (await server.request('POST', `${shop}/tables`, keyed)).is(201);
  const sql = 'SELECT * FROM range(20000)';
  const task = (await server.ended(await server.post(`${shop}/query`, { sql, waitSeconds: 0 }))).is(200);
  const exported = await server.post(`${shop}/export`, { sql: 'SELECT 1 AS a', format: 'csv' });
  const file = (await server.ended(exported)).is(200);
  return [
    '/api/v2/catalogs',
    '/api/v2/warehouses/second',
    `${shop}/tables/orders`,
    `${shop}/tables/orders/columns`,
    `${shop}/views/cheap`,
    '/api/v2/users/ann',
    '/api/v2/roles/readers',
    '/api/v2/roles/readers/grants',
    '/api/v2/schedules/yearly',
    `${shop}/tables?dropped=true`,
    task.at<string>('uri'),
    task.at<string>('firstPage'),
    file.at<string>('uri'),
  ];
}

/** Of the processes of a warehouse, and which server has it. */
const volatile = new Set([
  'serverId',
  'state',
  'statistics',
  'health',
  'engineVersions',
  'confinement',
  'runningQueries',
]);

/** Without what depends on the time or the process. */
async function answersOf(server: ServerProcess, paths: readonly string[]): Promise<unknown[]> {
  const answers: unknown[] = [];
  for (const path of paths) {
    const { status, result } = await server.get(path);
    const text = JSON.stringify(result, (key, value) => (volatile.has(key) ? undefined : value));
    answers.push([path, status, text.replaceAll(/\?expires=[^"]*/g, '')]);
  }
  answers.push(await server.rows('shop', 'SELECT id, note FROM orders ORDER BY id'));
  const keyed = { body: { name: 'keyed', columns: [] }, headers: { 'x-service-idempotency-key': 'a-key' } };
  answers.push((await server.request('POST', `${shop}/tables`, keyed)).code);
  const headers = { authorization: `Basic ${Buffer.from('ann:correct horse battery').toString('base64')}` };
  answers.push((await server.request('GET', `${shop}/tables/orders`, { headers })).status);
  return answers;
}

/** The names of steps before which the process is killed; those of a sample unless all of everything is run. */
const killedSteps = runsAll
  ? [
      'open the target',
      'copy objects',
      'copy files',
      'commit',
      'close the target',
      'publish the target',
      'retire the source',
    ]
  : ['commit', 'retire the source'];
/** Before these, PostgreSQL has everything; the file of a data directory is complete when it is published. */
const afterCommit = new Set(['close the target', 'publish the target', 'retire the source']);

/** In this process, which is faster. */
const moveHere = (from: string, to: string) =>
  migrateStore({
    from: storePlace('--from', from),
    to: storePlace('--to', to),
    keys: {},
    isLocalEngine: () => true,
  });

describe('store migrate', { skip: missingPostgresql }, () => {
  let root: string;
  let directory: string;
  let paths: string[];
  let answers: unknown[];
  let copies = 0;
  before(async () => {
    root = mkdtempSync(join(tmpdir(), 'tabularium-migrate-'));
    directory = join(root, 'data');
    const server = await startProcess(flags, directory);
    paths = await fill(server);
    answers = await answersOf(server, paths);
    // What was begun and not ended goes along.
    (await server.post(`${shop}/query`, { sql: 'SELECT count(*) FROM range(5000000000)', waitSeconds: 0 })).is(202);
    server.child.kill('SIGKILL');
    await server.exited;
  });
  after(() => rmSync(root, { recursive: true, force: true }));

  /** A copy of the data directory of the server. */
  const newCopy = (): string => {
    const copy = join(root, `copy-${++copies}`);
    cpSync(directory, copy, { recursive: true });
    return copy;
  };
  const requireAnswers = async (dataDir: string, more: readonly string[]): Promise<void> => {
    const server = await startProcess([...flags, ...more], dataDir);
    try {
      assert.deepEqual(await answersOf(server, paths), answers);
      const verdict = (await server.post('/api/v2/audit_events/verify', {})).is(200);
      assert.deepEqual(verdict.at('faults'), []);
      (await server.post(`${shop}/tables/orders/rows`, { rows: [{ id: 2, note: 'b' }] })).is(201);
      (await server.query('shop', 'DELETE FROM orders WHERE id = 2')).is(200);
    } finally {
      await server.close();
    }
  };

  test('makes the single server the first one on PostgreSQL, and back', async () => {
    const copy = newCopy();
    const source = await openSqliteStore({ file: join(copy, 'metadata.sqlite') });
    // As releases before wrote the comment "a\0b"; PostgreSQL has no text with a NUL.
    await source.db.updateTable('objects').set({ folded_comment: 'a\0b' }).where('category', '=', 'catalogs').execute();
    await source.close();
    const store = urlOfDatabase(await newDatabase());
    const there = moved(`sqlite:${copy}`, store);
    assert.ok(there.copied && there.secrets > 0 && there.audit.eventCount > 10);
    assert.deepEqual(there.audit.faults, []);
    for (const table of ['objects', 'tasks', 'grants', 'tokens', 'files', 'idempotency_keys', 'object_versions'])
      assert.ok(
        there.tables.some((sum) => sum.table === table),
        table,
      );
    assert.ok(!existsSync(join(copy, 'metadata.sqlite')));
    assert.ok(readdirSync(copy).some((name) => name.startsWith('metadata.sqlite.moved-')));
    await requireAnswers(copy, [`--store=${store}`]);

    const warehouse = readFileSync(join(copy, 'server.id'), 'utf8').trim();
    const client = new Client(store);
    await client.connect();
    try {
      const { rows } = await client.query(`select spec from objects where category = 'warehouses'`);
      for (const { spec } of rows) assert.equal(JSON.parse(spec).serverId, warehouse);
    } finally {
      await client.end();
    }

    moved(store, `sqlite:${copy}`);
    await requireAnswers(copy, []);
    const database = new DatabaseSync(join(copy, 'metadata.sqlite'), { readOnly: true });
    const specs = database.prepare(`select spec from objects where category = 'warehouses'`).all();
    for (const { spec } of specs) assert.equal(JSON.parse(String(spec)).serverId, undefined);
    assert.equal(database.prepare('select count(*) as n from servers').get()?.n, 0);
    database.close();
    const refused = command(`--store=${store}`, `--data-dir=${join(root, 'other')}`, '--port=0');
    assert.equal(refused.status, 1);
    assert.match(refused.stderr, /`store migrate` moved the metadata in this database \(to sqlite:.*copy-\d+ on 20/);
  });

  test('moves a store from one database to another', async () => {
    const copy = newCopy();
    const [first, second] = [urlOfDatabase(await newDatabase()), urlOfDatabase(await newDatabase())];
    const one = moved(`sqlite:${copy}`, first);
    const two = moved(first, second);
    assert.deepEqual(two.tables, one.tables);
    await requireAnswers(copy, [`--store=${second}`]);
  });

  test('is repeated after it was killed before any step, there and back', async (t) => {
    for (const isBack of [false, true]) {
      let kills = 0;
      for (const step of killedSteps) {
        const copy = newCopy();
        const store = urlOfDatabase(await newDatabase());
        if (isBack) await moveHere(`sqlite:${copy}`, store);
        const [from, to] = isBack ? [store, `sqlite:${copy}`] : [`sqlite:${copy}`, store];
        const run = spawnSync(process.execPath, [killed, from, to, step], { encoding: 'utf8' });
        assert.equal(run.signal, 'SIGKILL', `${step}: ${run.stderr}`);
        kills++;
        // Before the commit the source is in use; after it the copy is complete, and found to be.
        const { copied, audit } = await moveHere(from, to);
        assert.equal(copied, !afterCommit.has(step) || (isBack && step !== 'retire the source'), step);
        assert.deepEqual(audit?.faults, []);
        if (step === 'commit' || step === 'retire the source')
          await requireAnswers(copy, isBack ? [] : [`--store=${store}`]);
        rmSync(copy, { recursive: true });
      }
      t.diagnostic(`${kills} kills ${isBack ? 'back' : 'there'}`);
    }
  });

  test('refuses what it cannot move, and changes nothing', async (t) => {
    const copy = newCopy();
    const sqlite = `sqlite:${copy}`;
    const database = await newDatabase();
    const store = urlOfDatabase(database);
    const refuses = (from: string, to: string, status: number, message: RegExp) => {
      const answer = migrate(from, to);
      assert.deepEqual([answer.status, answer.stdout], [status, ''], answer.stderr);
      assert.match((JSON.parse(answer.stderr) as { readonly message: string }).message, message);
    };
    refuses(sqlite, `sqlite:${join(root, 'nowhere')}`, 2, /one of --from and --to must be a database of PostgreSQL/);
    refuses(`sqlite:${join(root, 'nowhere')}`, store, 2, /does not contain metadata\.sqlite/);
    refuses('mysql://x', store, 2, /^--from must be sqlite:/);
    refuses('postgres://u:secret@h/d', store, 2, /^--from must not contain a password/);
    refuses(store, sqlite, 1, /is not the metadata store of a server/);

    const server = await startProcess(flags, copy);
    t.after(() => server.close());
    refuses(sqlite, store, 1, /^another server uses .*metadata\.sqlite/);
    await server.close();

    const client = new Client(store);
    t.after(() => client.end());
    await client.connect();
    await client.query('create table something (a int)');
    refuses(sqlite, store, 1, /contains 1 tables of something else/);
    await client.query('drop table something');
    moved(sqlite, store);
    refuses(`sqlite:${newCopy()}`, store, 1, /is not empty, and not a copy of the source/);

    const onPostgresql = await startProcess([...flags, `--store=${store}`], copy);
    t.after(() => onPostgresql.close());
    refuses(store, sqlite, 1, /a server uses the database/);
    await onPostgresql.close();

    const keyFile = join(copy, 'secret.key');
    const other = join(root, 'other-server');
    const second = await startProcess([...flags, `--store=${store}`, `--secret-key-file=${keyFile}`], other);
    (await second.post('/api/v2/warehouses', { name: 'of_other' })).is(201);
    await second.close();
    refuses(store, sqlite, 1, /other servers than .* have the warehouses "of_other"/);

    await client.query(
      'update schema_versions set version = 1000 where version = (select max(version) from schema_versions)',
    );
    refuses(
      store,
      sqlite,
      1,
      /has version 1000 and this release has \d+: use the command of the release that wrote it/,
    );
    await client.query('update schema_versions set version = 0 where version = 1000');
    refuses(store, sqlite, 1, /start and stop a server of this release on it/);
  });
});
