// A running server checks a catalog: damage, and differences from the metadata store, are in the result of the task; and a catalog
// that was refused is served again once its intact file is back, by the running engine.

import assert from 'node:assert/strict';
import { cpSync, readFileSync, renameSync, statSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, test } from 'node:test';
import { DuckDBInstance } from '@duckdb/node-api';
import { statementWaitSeconds } from '../../deadline.ts';
import { endOfTask, start, type TestServer, uri } from '../../server.ts';
import { breakRoot, fileOf, flipBytes, remove } from './damaged_file.ts';

let root: string;
let id: string;
const databaseOf = (catalog: string) => uri`/catalogs/${catalog}/databases/${'d'}`;
const query = (server: TestServer, catalog: string, sql: string) =>
  server.post(`${databaseOf(catalog)}/query`, { sql, waitSeconds: statementWaitSeconds() });
const count = async (server: TestServer, catalog: string) =>
  (await query(server, catalog, 'SELECT count(*) FROM t')).is(200).at('rows', 0, 0);
const engineStart = async (server: TestServer) =>
  (await server.get('/api/v2/warehouses/default/backends/embedded')).is(200).at('lastStartAt');

interface CheckResult {
  readonly sound: boolean;
  readonly released: boolean;
  readonly tablesRead: number;
  readonly faultCount: number;
  readonly faults: readonly { database: string | null; table: string | null; problem: string; reason: string }[];
  readonly advice: string | null;
}

async function checked(server: TestServer, catalog: string): Promise<CheckResult> {
  const task = await server.ended(await server.post(`/api/v2/catalogs/${catalog}/check`, {}));
  task.is(200, '0', { state: 'succeeded' });
  assert.doesNotMatch(task.text, /\.duckdb|\/tmp\//);
  return task.at<CheckResult>('result');
}

const columns = [{ name: 'i', type: 'BIGINT' }];

before(async () => {
  root = await mkdtemp(join(tmpdir(), 'tabularium-catalog-check-'));
  const base = join(root, 'base');
  const server = await start({ dataDir: base });
  for (const catalog of ['a', 'b']) {
    await server.client.catalogs.create({ name: catalog });
    await server.client.catalogs(catalog).databases.create({ name: 'd' });
    (await server.post(`${databaseOf(catalog)}/tables`, { name: 't', columns })).is(201);
    (await query(server, catalog, 'INSERT INTO t SELECT range FROM range(1000)')).is(200);
  }
  await server.close();
  const restarted = await start({ dataDir: base });
  (await restarted.post(`${databaseOf('a')}/tables`, { name: 'large', columns })).is(201);
  (await query(restarted, 'a', 'INSERT INTO large SELECT hash(range) % 1000000007 FROM range(300000)')).is(200);
  await restarted.close();
  const store = new DatabaseSync(join(base, 'metadata.sqlite'), { readOnly: true });
  ({ id } = store.prepare("SELECT id FROM objects WHERE category = 'catalogs' AND name = 'a'").get() as { id: string });
  store.close();
});
after(() => rm(root, { recursive: true, force: true }));

async function checkDamagedCatalog(
  damage: (dataDirectory: string) => void | Promise<void>,
  work: (server: TestServer, dataDirectory: string) => Promise<void>,
): Promise<void> {
  const dataDir = join(root, 'case');
  await rm(dataDir, { recursive: true, force: true });
  cpSync(join(root, 'base'), dataDir, { recursive: true });
  await damage(dataDir);
  const server = await start({ dataDir, logLevel: 'silent' });
  try {
    await work(server, dataDir);
  } finally {
    await server.close();
  }
}

test('an intact catalog: all of its tables are read, and no fault is reported; a check can be cancelled', () =>
  checkDamagedCatalog(
    () => undefined,
    async (server) => {
      const { tablesRead, ...result } = await checked(server, 'a');
      assert.ok(tablesRead >= 2, `${tablesRead}`);
      assert.deepEqual(result, {
        catalog: 'a',
        sound: true,
        released: false,
        faultCount: 0,
        faults: [],
        advice: null,
      });
      // The check is queued.
      (await server.patch('/api/v2/warehouses/default', { queriesMax: 1 })).is(200);
      const endless = 'SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b';
      const long = (await server.post(`${databaseOf('b')}/query`, { sql: endless, waitSeconds: 0 })).is(202);
      const check = (await server.post('/api/v2/catalogs/a/check', {})).is(202);
      (await server.post(`${check.at<string>('uri')}/cancel`)).is(200);
      (await endOfTask(server, check.at<string>('uri'))).is(200, '0', { state: 'cancelled' });
      (await server.post(`${long.at<string>('uri')}/cancel`)).is(200);
      (await endOfTask(server, long.at<string>('uri'))).is(200, '0', { state: 'cancelled' });
    },
  ));

test('a damaged block: the check names the table and reads the others; once the table is dropped the catalog is intact', () =>
  checkDamagedCatalog(
    (dataDir) => flipBytes(fileOf(dataDir, id), Math.floor(statSync(fileOf(dataDir, id)).size / 2)),
    async (server) => {
      (await server.get('/api/v2/catalogs/a')).is(200, undefined, { state: 'ready' });
      const result = await checked(server, 'a');
      assert.equal(result.faultCount, 1);
      assert.deepEqual(
        result.faults.map(({ reason, ...fault }) => fault),
        [{ database: 'd', table: 'large', problem: 'damaged' }],
      );
      assert.match(result.faults[0]?.reason ?? '', /the block at byte \d+ of its file is damaged/);
      assert.match(result.advice ?? '', /backup/);
      assert.ok(result.tablesRead >= 1);
      (await server.get('/api/v2/catalogs/a')).is(200, undefined, { state: 'damaged' });
      assert.equal(await count(server, 'a'), 1000);
      (await server.delete(`${databaseOf('a')}/tables/large?purge=true`)).is(200);
      const mended = await checked(server, 'a');
      assert.equal(mended.sound, true);
      (await server.get('/api/v2/catalogs/a')).is(200, undefined, { state: 'ready', stateReason: null });
    },
  ));

test('tables that differ from the metadata store are reported', () =>
  checkDamagedCatalog(
    async (dataDir) => {
      const instance = await DuckDBInstance.create(fileOf(dataDir, id));
      const connection = await instance.connect();
      await connection.run('DROP TABLE d.large');
      await connection.run('ALTER TABLE d.t ALTER i TYPE INTEGER');
      await connection.run('CHECKPOINT');
      connection.closeSync();
      instance.closeSync();
    },
    async (server) => {
      const { faults, sound } = await checked(server, 'a');
      assert.equal(sound, false);
      assert.deepEqual(faults, [
        { database: 'd', table: 'large', problem: 'different', reason: 'it is missing from the file' },
        {
          database: 'd',
          table: 't',
          problem: 'different',
          reason: 'its column "i" has the type INTEGER in the file instead of BIGINT',
        },
      ]);
      (await server.get('/api/v2/catalogs/a')).is(200, undefined, { state: 'ready' });
    },
  ));

const refusals: readonly { name: string; damage: (path: string) => void; reason: RegExp }[] = [
  {
    name: 'a file that stopped the engine',
    damage: breakRoot,
    reason: /cannot be read|the engine stopped while it read its file/,
  },
  { name: 'a missing file', damage: remove, reason: /its file is missing/ },
];

for (const { name, damage, reason } of refusals)
  test(`${name}: the check reports it, and serves the catalog again once its file is intact`, () =>
    checkDamagedCatalog(
      (dataDir) => damage(fileOf(dataDir, id)),
      async (server, dataDir) => {
        const path = fileOf(dataDir, id);
        (await query(server, 'a', 'SELECT count(*) FROM t')).is(503, 'CATALOG_DAMAGED');
        assert.equal(await count(server, 'b'), 1000);
        const startedAt = await engineStart(server);
        const damaged = statSync(path, { throwIfNoEntry: false }) && readFileSync(path);
        const refused = await checked(server, 'a');
        assert.equal(refused.sound, false);
        assert.equal(refused.released, false);
        assert.equal(refused.faultCount, 1);
        assert.deepEqual([refused.faults[0]?.table, refused.faults[0]?.problem], [null, 'damaged']);
        assert.match(refused.faults[0]?.reason ?? '', reason);
        assert.match(refused.advice ?? '', /undamaged file/);
        // It changed nothing.
        if (damaged) assert.ok(readFileSync(path).equals(damaged));
        (await server.get('/api/v2/catalogs/a')).is(200, undefined, { state: 'damaged' });
        cpSync(fileOf(join(root, 'base'), id), `${path}.sound`);
        renameSync(`${path}.sound`, path);
        (await query(server, 'a', 'SELECT count(*) FROM t')).is(503, 'CATALOG_DAMAGED');
        // Two concurrent checks: one of them serves the catalog again, and the other finds it served.
        const rechecks = await Promise.all([checked(server, 'a'), checked(server, 'a')]);
        for (const { sound, faultCount, tablesRead } of rechecks) {
          assert.deepEqual([sound, faultCount], [true, 0]);
          assert.ok(tablesRead >= 2);
        }
        assert.ok(rechecks.some(({ released }) => released));
        (await server.get('/api/v2/catalogs/a')).is(200, undefined, { state: 'ready', stateReason: null });
        assert.equal(await count(server, 'a'), 1000);
        (await query(server, 'a', 'INSERT INTO t VALUES (1)')).is(200);
        assert.equal(await engineStart(server), startedAt);
      },
    ));

test('a file that was replaced while the engine has it open: the check does not attach it; it is put back while the warehouse is suspended', () =>
  checkDamagedCatalog(
    () => undefined,
    async (server, dataDir) => {
      const path = fileOf(dataDir, id);
      assert.equal(await count(server, 'a'), 1000);
      renameSync(path, `${path}.taken`);
      (await query(server, 'a', 'INSERT INTO t VALUES (1)')).is(200);
      (await query(server, 'a', 'SELECT count(*) FROM t')).is(503, 'CATALOG_DAMAGED');
      cpSync(fileOf(join(root, 'base'), id), path);
      const put = readFileSync(path);
      const { sound, faults } = await checked(server, 'a');
      assert.equal(sound, false);
      assert.match(faults[0]?.reason ?? '', /the engine still has the previous file open: suspend and resume/);
      assert.ok(readFileSync(path).equals(put));
      (await server.post('/api/v2/warehouses/default/suspend')).is(200);
      renameSync(`${path}.taken`, path);
      (await server.post('/api/v2/warehouses/default/resume')).is(200);
      assert.equal((await checked(server, 'a')).sound, true);
      assert.equal(await count(server, 'a'), 1001);
    },
  ));
