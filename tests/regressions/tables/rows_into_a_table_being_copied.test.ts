// DuckDB commits a row into a table that another transaction has already copied, and the row is lost with the old table: an
// insert that was acknowledged while a column was added with a default, or the database renamed, was lost (instance/table_locks.ts).
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Reply, start, type TestServer } from '../../server.ts';

const manyRows = 300_000;
let server: TestServer;
before(async () => {
  server = await start();
  await server.client.databases.create({ name: 'copied' });
  const columns = [{ name: 'id', type: 'BIGINT' }];
  await server.client.databases('copied').tables.create({ name: 't', columns }).done();
  (await server.query('copied', `INSERT INTO t SELECT range FROM range(${manyRows})`)).is(200);
});
after(() => server.close());

/** Inserts continuously until the change is complete; returns the acknowledged rows. */
async function insertDuring(path: () => string, change: Promise<Reply>): Promise<number> {
  let rows = 0;
  let isDone = false;
  const changed = change
    .then((accepted) => server.ended(accepted))
    .finally(() => {
      isDone = true;
    });
  while (!isDone) {
    const reply = await server.post(path(), { rows: [{ id: -1 }, { id: -2 }] });
    if (reply.status === 201) rows += reply.at<number>('rowCount');
  }
  (await changed).is(200, '0', { state: 'succeeded' });
  return rows;
}

test('rows inserted during a rewrite of the table are retained', async () => {
  const table = '/api/v2/databases/copied/tables/t';
  const change = server.post(`${table}/columns`, { name: 'c', type: 'CHAR(5)', defaultValue: "'x'" });
  const rows = await insertDuring(() => `${table}/rows`, change);
  assert.deepEqual(await server.rows('copied', 'SELECT count(*) FROM t'), [[manyRows + rows]]);
});

test('rows inserted while the database is moved are retained', async () => {
  const [{ length: before }] = [await server.rows('copied', 'SELECT 1 FROM t WHERE id < 0')];
  const change = server.post('/api/v2/databases/copied/rename', { newName: 'moved' });
  const rows = await insertDuring(() => '/api/v2/databases/copied/tables/t/rows', change);
  assert.deepEqual(await server.rows('moved', 'SELECT count(*) FROM t WHERE id < 0'), [[before + rows]]);
});
