// Servers whose metadata store is PostgreSQL, selected by the setting `store`: one, two that share it, and the messages for the operator.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Client } from 'pg';
import { deadlineMs, eventually } from '../deadline.ts';
import {
  freezePostgresql,
  missingPostgresql,
  newDatabase,
  newStoreDatabase,
  runInCluster,
  stopPostgresql,
  urlOfDatabase,
  userWithPassword,
} from '../postgresql.ts';
import { start, startProcess, type TestServer } from '../server.ts';

const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
const commandMs = deadlineMs(60_000);
const password = 'correct horse';

let root: string;
let directories = 0;
before(async () => {
  root = await mkdtemp(join(tmpdir(), 'tabularium-postgresql-'));
});
after(() => rm(root, { recursive: true, force: true }));
const newDirectory = () => join(root, String(++directories));

/** A command of `tabularium` that ends. */
function command(words: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [main, ...words], {
    encoding: 'utf8',
    timeout: commandMs,
    env: { ...process.env, ...env },
  });
  return { status, stdout, stderr };
}

const rowsOf = async (server: TestServer): Promise<unknown> =>
  (await server.client.query('SELECT id FROM shop.orders ORDER BY id').all()).map(({ id }) => id);

describe('a server on PostgreSQL', { skip: missingPostgresql }, () => {
  test('serves what it acknowledged after a restart and after a kill', async () => {
    const flags = [`--store=${urlOfDatabase(await newDatabase())}`];
    const dataDir = newDirectory();
    let server = await startProcess(flags, dataDir);
    await server.client.databases.create({ name: 'shop' });
    const { tables } = server.client.catalogs('default').databases('shop');
    await tables.create({ name: 'orders', columns: [{ name: 'id', type: 'INT' }] }).done();
    await tables('orders').rows.create({ rows: [{ id: 1 }] });
    assert.deepEqual(await rowsOf(server), [1]);
    await server.close();
    server = await startProcess(flags, dataDir);
    assert.deepEqual(await rowsOf(server), [1]);
    await server.client
      .catalogs('default')
      .databases('shop')
      .tables('orders')
      .rows.create({ rows: [{ id: 2 }] });
    server.child.kill('SIGKILL');
    await server.exited;
    server = await startProcess(flags, dataDir);
    assert.deepEqual(await rowsOf(server), [1, 2]);
    assert.ok(!existsSync(join(dataDir, 'metadata.sqlite')));
    assert.equal(statSync(join(dataDir, 'server.id')).mode & 0o777, 0o600);

    const used = command(['--port=0', `--data-dir=${dataDir}`, ...flags]);
    assert.deepEqual([used.status, used.stdout], [1, '']);
    assert.match(used.stderr, /^another server uses .*server\.lock; stop it, or start this one with another data dir/);
    (await server.post('/api/v2/server_backups', { to: { path: root } })).is(400, 'CHANGE_NOT_SUPPORTED');
    await server.close();

    const verified = command(['audit', 'verify', `--data-dir=${dataDir}`, ...flags]);
    assert.equal(verified.status, 0, verified.stderr);
    assert.match(verified.stdout, /The audit trail is complete and unchanged/);
    for (const words of [['check'], ['restore', 'server', root]]) {
      const refused = command([...words, `--data-dir=${dataDir}`, ...flags]);
      assert.equal(refused.status, 2);
      assert.match(refused.stderr, /requires a metadata store in the data directory, and .* selects PostgreSQL/);
    }
  });

  test('shares catalogs, grants and tokens with another server', async () => {
    const store = urlOfDatabase(await newStoreDatabase());
    const one = await start({ store });
    const other = await start({ store, secretKeyFile: join(one.dataDirectory, 'secret.key') });
    try {
      const [idOfOne, idOfOther] = [one, other].map(({ dataDirectory }) =>
        readFileSync(join(dataDirectory, 'server.id'), 'utf8'),
      );
      assert.notEqual(idOfOne, idOfOther);
      await one.client.databases.create({ name: 'shop' });
      const shop = '/api/v2/catalogs/default/databases/shop';
      await one.client
        .catalogs('default')
        .databases('shop')
        .tables.create({
          name: 'orders',
          columns: [{ name: 'id', type: 'INT' }],
        })
        .done();
      await eventually(
        'the table is on the other server',
        async () => (await other.get(`${shop}/tables/orders`)).status === 200,
      );
      (await one.post('/api/v2/users', { name: 'ann' })).is(201);
      const token = (await one.post('/api/v2/users/ann/tokens', { name: 'laptop' })).is(201);
      const headers = { authorization: `Bearer ${token.at<string>('secret')}` };
      const statusOnOther = async () => (await other.send('GET', `${shop}/tables/orders`, { headers })).status;
      await eventually('the token is known to the other server', async () => (await statusOnOther()) !== 401);
      assert.notEqual(await statusOnOther(), 200);
      (await one.post('/api/v2/users/ann/grants', { privilege: 'read', on: shop })).is(201);
      await eventually('the grant is in force on the other server', async () => (await statusOnOther()) === 200);
      (await one.delete(token.at<string>('uri'))).is(200);
      await eventually('the token is deleted on the other server', async () => (await statusOnOther()) === 401);
      const verdict = (await other.post('/api/v2/audit_events/verify', {})).is(200);
      assert.deepEqual(verdict.at('faults'), []);
    } finally {
      await other.close();
      await one.close();
    }
  });

  test('refuses passwords after failures on another server', async () => {
    const store = urlOfDatabase(await newStoreDatabase());
    const one = await start({ store });
    const other = await start({ store, secretKeyFile: join(one.dataDirectory, 'secret.key') });
    try {
      const authorization = `Basic ${Buffer.from('ann:wrong password').toString('base64')}`;
      const isRefused = async (server: TestServer) => {
        const { status } = await server.send('GET', '/api/v2/catalogs', { headers: { authorization } });
        assert.ok(status === 401 || status === 503, String(status));
        return status === 503;
      };
      // A refusal lasts 1 s, then 2, then 4: a slow machine may miss the first.
      let attemptsElsewhere = 0;
      do {
        while (!(await isRefused(one)));
        attemptsElsewhere++;
      } while (!(await isRefused(other)) && attemptsElsewhere < 4);
      assert.ok(attemptsElsewhere < 4, 'the other server counts only its own failures');
    } finally {
      await one.close();
      await other.close();
    }
  });

  test('makes many changes at once', async () => {
    const server = await start({ store: urlOfDatabase(await newStoreDatabase()) });
    try {
      await server.client.databases.create({ name: 'shop' });
      const tables = '/api/v2/catalogs/default/databases/shop/tables';
      const columns = [{ name: 'id', type: 'INT' }];
      const creates = Array.from({ length: 32 }, (_, n) => server.post(tables, { name: `table_${n}`, columns }));
      for (const reply of await Promise.all(creates)) reply.is(201);
      const verdict = (await server.post('/api/v2/audit_events/verify', {})).is(200);
      assert.deepEqual(verdict.at('faults'), []);
    } finally {
      await server.close();
    }
  });

  test('answers 503 when changes conflict without an end, and says whether one was made', async () => {
    const location = await newStoreDatabase();
    const server = await start({ store: urlOfDatabase(location), logLevel: 'silent' });
    const admin = new Client(location);
    await admin.connect();
    try {
      await server.client.databases.create({ name: 'shop' });
      await admin.query(`
        create function conflict() returns trigger language plpgsql
          as $$ begin raise exception 'conflict' using errcode = 'serialization_failure'; end $$;
        create trigger conflict before insert on audit_events for each row when (new.outcome = '0') execute function conflict()`);
      const user = { name: 'ann' };
      (await server.post('/api/v2/users', user)).is(503, 'STORE_UNAVAILABLE', { outcome: 'notApplied' });
      // The engine has made the table before the last transaction.
      const tables = '/api/v2/catalogs/default/databases/shop/tables';
      const table = { name: 'orders', columns: [{ name: 'id', type: 'INT' }] };
      (await server.post(tables, table)).is(503, 'STORE_UNAVAILABLE', { outcome: 'unknown' });
      await admin.query('drop trigger conflict on audit_events');
      await eventually('users are created', async () => (await server.post('/api/v2/users', user)).status === 201);
      await eventually('the open change has ended', async () => {
        const { status } = await server.post(tables, table);
        return status === 201 || status === 400;
      });
    } finally {
      await admin.end();
      await server.close();
    }
  });

  test('answers 503 while PostgreSQL is stopped, and serves when it is there again', async () => {
    const server = await start({ store: urlOfDatabase(await newStoreDatabase()), logLevel: 'silent' });
    try {
      const startAgain = await stopPostgresql();
      (await server.put('/api/v2/catalogs/default/databases/shop')).is(503, 'STORE_UNAVAILABLE');
      (await server.get('/api/v2/tasks')).is(503, 'STORE_UNAVAILABLE', { outcome: 'notApplied' });
      assert.equal((await server.send('GET', '/readyz')).status, 503);
      await startAgain();
      const put = () => server.put('/api/v2/catalogs/default/databases/shop');
      await eventually('changes are served again', async () => (await put()).status === 201);
      (await server.get('/api/v2/catalogs/default/databases/shop')).is(200);
    } finally {
      await server.close();
    }
  });

  test('answers 503, not with what it knew, while PostgreSQL answers nothing', async () => {
    const server = await start({ store: urlOfDatabase(await newStoreDatabase()), logLevel: 'silent' });
    const table = '/api/v2/catalogs/default';
    try {
      (await server.get(table)).is(200);
      const thaw = await freezePostgresql();
      try {
        await eventually('a record in memory is not served', async () => (await server.get(table)).status === 503);
        (await server.get(table)).is(503, 'STORE_UNAVAILABLE', { outcome: 'notApplied' });
        assert.equal((await server.send('GET', '/livez')).status, 200);
        assert.equal((await server.send('GET', '/readyz')).status, 503);
      } finally {
        thaw();
      }
      await eventually('the server serves again', async () => (await server.get(table)).status === 200);
    } finally {
      await server.close();
    }
  });

  test('does not start without a usable database, and says why without the password', async () => {
    const database = await newDatabase();
    await runInCluster(`create role ${userWithPassword} login superuser password '${password}'`);
    const place = urlOfDatabase({ ...database, user: userWithPassword });
    const secret = place.replace('@', `:${encodeURIComponent('wrong horse')}@`);
    const run = (words: readonly string[], env: Readonly<Record<string, string>> = {}) => {
      const result = command(['--port=0', `--data-dir=${newDirectory()}`, ...words], env);
      assert.doesNotMatch(result.stdout + result.stderr, /horse|^ +at /m);
      return [result.status, result.stderr.trimEnd()] as const;
    };
    const wrong = run([], { TABULARIUM_STORE: secret });
    assert.equal(wrong[0], 1);
    assert.match(wrong[1], /^the database \S+ at \S+ cannot be used: password authentication failed for user/);
    const missing = run([`--store=${urlOfDatabase({ ...database, database: 'missing' })}`]);
    assert.equal(missing[0], 1);
    assert.match(missing[1], /^the database missing at \S+ cannot be used: database "missing" does not exist/);
    const closed = run(['--store=postgres://127.0.0.1:1/store']);
    assert.equal(closed[0], 1);
    assert.match(closed[1], /^the database store at 127\.0\.0\.1:1 cannot be used: .*ECONNREFUSED/);
    assert.deepEqual(run([`--store=${secret}`])[0], 2);
    for (const url of ['mysql://wrong%20horse@host/store', 'postgres://host', 'postgres://host/a?options=-x'])
      assert.deepEqual(run([], { TABULARIUM_STORE: url })[0], 2, url);
    process.env.PGPASSWORD = password;
    try {
      await (await startProcess([`--store=${place}`])).close();
    } finally {
      delete process.env.PGPASSWORD;
    }
  });

  test('does not start on the data directory of a server with another store', async () => {
    const store = urlOfDatabase(await newStoreDatabase());
    const dataDir = newDirectory();
    await (await start({ dataDir })).close();
    await assert.rejects(
      start({ dataDir, store }),
      /contains a metadata store .* and the setting store selects another/,
    );
    const files = readdirSync(dataDir);
    assert.ok(!files.includes('server.id') && !files.includes('server.lock'), files.join());
    const shared = newDirectory();
    await (await start({ dataDir: shared, store })).close();
    await assert.rejects(start({ dataDir: shared }), /used by a server .* PostgreSQL/);
  });
});
