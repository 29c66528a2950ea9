// A fatal error of DuckDB, after which every statement of its process fails ("database has been invalidated"): caused by a catalog whose
// index does not match its rows. That catalog is damaged and refused, a new process serves the others, and nothing acknowledged is lost.
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, test } from 'node:test';
import { deadlineMs, statementWaitSeconds } from '../../deadline.ts';
import { start, type TestServer, uri } from '../../server.ts';
import { changeInBlocks, fileOf } from './damaged_file.ts';

const options = { timeout: deadlineMs(60_000) };
const readers = 12;
/** So few and so different that they are stored unchanged. */
const keys = ['Vb0kq7RmXw', 'yT3hLz9PdA', '4fNcU8sJeo', 'gK1xQi6WtB', 'mE5vHr2YpC'];
const damagedKey = 2;
let dataDir: string;
const databaseOf = (catalog: string) => uri`/catalogs/${catalog}/databases/${'d'}`;
const query = (server: TestServer, catalog: string, sql: string) =>
  server.post(`${databaseOf(catalog)}/query`, { sql, waitSeconds: statementWaitSeconds() });
const count = async (server: TestServer, catalog: string, table: string) =>
  (await query(server, catalog, `SELECT count(*) FROM ${table}`)).is(200).at('rows', 0, 0);

before(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'tabularium-fatal-'));
  const server = await start({ dataDir });
  const columns = [
    { name: 'k', type: 'VARCHAR' },
    { name: 'n', type: 'BIGINT' },
  ];
  for (const catalog of ['a', 'b']) {
    await server.client.catalogs.create({ name: catalog });
    await server.client.catalogs(catalog).databases.create({ name: 'd' });
    (await server.post(`${databaseOf(catalog)}/tables`, { name: 't', columns, primaryKey: ['k'] })).is(201);
    (await server.post(`${databaseOf(catalog)}/tables`, { name: 'u', columns })).is(201);
    const rows = keys.map((key, n) => [key, n]);
    (await server.post(`${databaseOf(catalog)}/tables/t/rows`, { rows })).is(201);
  }
  await server.close();
  const store = new DatabaseSync(join(dataDir, 'metadata.sqlite'), { readOnly: true });
  const row = store.prepare("SELECT id FROM objects WHERE category = 'catalogs' AND name = 'a'").get();
  store.close();
  // In the column only: the index stores the keys separately.
  assert.equal(changeInBlocks(fileOf(dataDir, String(row?.id)), keys[damagedKey] as string, 'XXXXX8sJeo'), 1);
});
after(() => rm(dataDir, { recursive: true, force: true }));

test('a fatal error: one catalog is damaged, the others are served by a new process', options, async () => {
  const server = await start({ dataDir, logLevel: 'silent' });
  try {
    for (let i = 0; i < 10; i++)
      for (const catalog of ['a', 'b'])
        (await server.post(`${databaseOf(catalog)}/tables/u/rows`, { rows: [['x', i]] })).is(201);
    let isOver = false;
    const reading = Array.from({ length: readers }, async () => {
      for (let reads = 0; ; reads++) {
        if (isOver && reads > 0) return;
        assert.equal(await count(server, 'b', 't'), keys.length);
      }
    });
    let acknowledged = 10;
    const writing = (async () => {
      for (let i = 10; !isOver; i++) {
        const keyed = { 'x-service-idempotency-key': `write-${i}` };
        const body = { rows: [['x', i]] };
        for (;;) {
          const answer = await server.request('POST', `${databaseOf('b')}/tables/u/rows`, { body, headers: keyed });
          if (answer.status === 503) continue;
          answer.is(201);
          acknowledged++;
          break;
        }
      }
    })();
    const met = await query(server, 'a', `DELETE FROM t WHERE n = ${damagedKey}`);
    met.is(503, 'CATALOG_DAMAGED', { catalog: 'a', outcome: 'unknown' });
    const reason = 'an index in its file does not match the rows of its table';
    assert.equal(met.at('reason'), reason);
    // The next process, after the one that failed.
    assert.equal(await count(server, 'b', 't'), keys.length);
    isOver = true;
    await Promise.all([...reading, writing]);
    (await server.get('/api/v2/catalogs/a')).is(200, '0', { state: 'damaged', stateReason: reason });
    (await server.get('/api/v2/catalogs/b')).is(200, '0', { state: 'ready' });
    (await query(server, 'a', 'SELECT count(*) FROM u')).is(503, 'CATALOG_DAMAGED', { catalog: 'a' });
    assert.equal(await count(server, 'b', 'u'), acknowledged);
    // Its intact tables are served again after a check.
    const { taskId } = (await server.post('/api/v2/catalogs/a/check', {})).is(202).result;
    (await server.get(uri`/tasks/${String(taskId)}?waitSeconds=30`)).is(200, '0', { state: 'succeeded' });
    assert.equal(await count(server, 'a', 'u'), 10);
    assert.equal(await count(server, 'a', 't'), keys.length);
  } finally {
    await server.close();
  }
});
