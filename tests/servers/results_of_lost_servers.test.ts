// Results and files of a server that does not respond: the other server removes their records when they have expired, and the lost one, if it
// ever starts again, what it has of them. Nobody removes what a server that responds is about to record.
import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Client } from 'pg';
import { eventually, statementWaitSeconds } from '../deadline.ts';
import { missingPostgresql, newStoreDatabase, urlOfDatabase } from '../postgresql.ts';
import { endOfTask, start, type TestServer } from '../server.ts';

const far = '/api/v2/catalogs/far';
const wait = { waitSeconds: statementWaitSeconds() };

describe('results of a server that does not respond', { skip: missingPostgresql }, () => {
  const directory = mkdtempSync(join(tmpdir(), 'tabularium-lost-'));
  let store: Client;
  let one: TestServer;
  let other: TestServer;
  let maintainOne: () => Promise<void>;
  let maintainOther: () => Promise<void>;
  let startOther: () => Promise<TestServer>;
  before(async () => {
    const url = urlOfDatabase(await newStoreDatabase());
    store = new Client(url);
    await store.connect();
    const settings = { store: url, pageBytesMax: 64 * 1024 };
    const maintained = (all: () => Promise<void>) => {
      maintainOne = all;
    };
    one = await start({ ...settings, dataDir: join(directory, 'one') }, { maintained });
    const secretKeyFile = join(directory, 'one', 'secret.key');
    startOther = () =>
      start(
        { ...settings, dataDir: join(directory, 'other'), secretKeyFile },
        {
          maintained: (all) => {
            maintainOther = all;
          },
        },
      );
    other = await startOther();
    (await other.post('/api/v2/warehouses', { name: 'second' })).is(201);
    await eventually(
      'the warehouse is known',
      async () => (await one.get('/api/v2/warehouses/second/backends')).status === 200,
    );
    (await one.post('/api/v2/catalogs', { name: 'far', warehouse: 'second' })).is(201);
  });
  after(async () => {
    await other?.close();
    await one?.close();
    await store?.end();
    rmSync(directory, { recursive: true, force: true });
  });

  const idOf = (name: string) => readFileSync(join(directory, name, 'server.id'), 'utf8').trim();
  const stored = () => ['results', 'files'].flatMap((name) => readdirSync(join(directory, 'other', name)));
  const countOf = async (table: string): Promise<number> =>
    (await store.query(`select count(*)::int as n from ${table}`)).rows[0].n;

  test('a file that a server has stored and whose task it is about to record is left to it', async () => {
    const columns =
      'file_id, kind, owner, created_by, name, state, received_bytes, reserved_bytes, created_at, updated_at';
    const insert = (id: string, serverId: string | null, createdAt: number) =>
      store.query(
        `insert into files (${columns}, expires_at, task_id, server_id)
         values ($1, 'export', 'root', 'root', $1, 'ready', 0, 0, $3, 0, 9999999999999, $1, $2)`,
        [id, serverId, createdAt],
      );
    const { rows } = await store.query('select id from servers');
    const otherId = rows.map(({ id }) => id).find((id) => id !== idOf('one'));
    const now = Date.now();
    await insert('of-other', otherId, now);
    await insert('of-lost', 'gone', now);
    await insert('of-one', idOf('one'), now);
    await insert('in-bucket', null, now);
    await insert('old-in-bucket', null, 0);
    await maintainOne();
    const left = (await store.query('select file_id from files order by file_id')).rows.map(({ file_id }) => file_id);
    assert.deepEqual(left, ['in-bucket', 'of-other']);
    await store.query('delete from files');
  });

  test('are removed by the other server when they have expired, and from its directory when it is back', async () => {
    const sql = "SELECT range AS n, repeat('x', 200) AS filler FROM range(3000)";
    const task = (await one.post(`${far}/query`, { sql, waitSeconds: 0 })).is(202).at<string>('uri');
    const ended = (await endOfTask(one, task)).is(200, undefined, { state: 'succeeded' });
    (await one.post(`${far}/query`, { sql, ...wait })).is(200);
    const exported = (await one.post(`${far}/export`, { sql, format: 'csv' })).is(202).at<string>('uri');
    (await endOfTask(one, exported)).is(200, undefined, { state: 'succeeded' });
    const upload = (await other.post('/api/v2/uploads', { name: 'u.csv' })).is(201);
    await other.send('PUT', upload.at('link'), { headers: { authorization: undefined }, body: 'id\n1\n' });
    (await one.get(ended.at('firstPage'))).is(200);
    assert.ok(stored().length > 4, String(stored()));

    await other.close();
    await store.query('update tasks set ended_at = 1');
    await store.query('update files set expires_at = 1');
    await maintainOne();
    for (const uri of [task, exported]) (await one.get(uri)).is(404, 'OBJECT_NOT_FOUND');
    for (const table of ['tasks', 'files', 'result_sources']) assert.equal(await countOf(table), 0, table);
    assert.ok(stored().length > 4, String(stored()));

    other = await startOther();
    await maintainOther();
    assert.deepEqual(stored(), []);
  });
});
