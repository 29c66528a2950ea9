// Moves of catalogs between two warehouses of one server: what carries over, what is reported and refused.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Reply, start, type TestServer, uri } from '../../server.ts';

let server: TestServer;
before(async () => {
  server = await start();
  (await server.post('/api/v2/warehouses', { name: 'other' })).is(201);
});
after(() => server.close());

const sql = async (text: string, catalog: string): Promise<unknown> => {
  const reply = await server.post(uri`/catalogs/${catalog}/query`, { sql: text });
  return reply.is(200).at('rows');
};

/** A catalog with two tables, two views that build on each other, and grants. */
async function fill(name: string): Promise<void> {
  (await server.put(uri`/catalogs/${name}`, { comment: 'moved', properties: { team: 'a' } })).is(201);
  const at = uri`/catalogs/${name}/databases`;
  (await server.post(at, { name: 'd', comment: 'in it' })).is(201);
  const columns = [
    { name: 'id', type: 'BIGINT' },
    { name: 'name', type: 'STRING', comment: 'free' },
    { name: 'price', type: 'DECIMAL(10, 2)', defaultValue: '0.5' },
  ];
  (await server.post(`${at}/d/tables`, { name: 't', columns, primaryKey: ['id'], comment: 'rows' })).is(201);
  (await server.post(`${at}/d/tables`, { name: 'empty', columns })).is(201);
  (await server.post(`${at}/d/views`, { name: 'v', sql: `SELECT id, name FROM ${name}.d.t` })).is(201);
  (await server.post(`${at}/d/views`, { name: 'w', sql: 'SELECT count(*) AS n FROM v' })).is(201);
  await sql("INSERT INTO d.t SELECT range, 'n' || range, range / 4 FROM range(5000)", name);
}

async function move(name: string, body: object): Promise<Reply> {
  return server.ended((await server.post(uri`/catalogs/${name}/move`, body)).is(202));
}

test('a catalog is moved with everything in it, and the old copy is deleted later', async () => {
  await fill('lake');
  (await server.put('/api/v2/users/ann')).is(201);
  (await server.post('/api/v2/users/ann/grants', { privilege: 'read', on: '/api/v2/catalogs/lake' })).is(201);
  (
    await server.post('/api/v2/users/ann/grants', {
      privilege: 'write',
      on: '/api/v2/catalogs/lake/databases/d/tables/t',
    })
  ).is(201);
  const before = (await server.get('/api/v2/catalogs/lake')).is(200);
  const done = await move('lake', { warehouse: 'other', retainSeconds: 0 });
  done.is(200, '0', { state: 'succeeded' });
  assert.deepEqual(
    { ...(done.at('result') as object), pausedMs: 0, retainedUntil: '', bytes: 0 },
    {
      catalog: 'lake',
      from: 'default',
      to: 'other',
      dryRun: false,
      databases: 1,
      tables: 2,
      views: 2,
      rows: 5000,
      bytes: 0,
      problems: [],
      estimatedSeconds: null,
      rounds: 1,
      pausedMs: 0,
      retainedUntil: '',
    },
  );
  const now = (await server.get('/api/v2/catalogs/lake')).is(200, '0', {
    warehouse: 'other',
    comment: 'moved',
    state: 'ready',
    createdAt: before.at('createdAt'),
  });
  assert.equal(now.at('version'), Number(before.at('version')) + 1);
  assert.deepEqual(await sql('SELECT count(*), sum(id), sum(price) FROM d.t', 'lake'), [[5000, 12497500, 3124375]]);
  assert.deepEqual(await sql('SELECT n FROM d.w', 'lake'), [[5000]]);
  await sql("INSERT INTO d.t VALUES (5000, 'new', 1)", 'lake');
  (await server.post('/api/v2/catalogs/lake/databases/d/tables/t/rows', { rows: [[5000, 'again', 1]] })).is(
    400,
    'CONSTRAINT_VIOLATED',
  );
  const grants = (await server.get('/api/v2/users/ann/grants')).is(200).at('grants') as { on: string }[];
  assert.deepEqual(grants.map(({ on }) => on).sort(), [
    '/api/v2/catalogs/lake',
    '/api/v2/catalogs/lake/databases/d/tables/t',
  ]);
  (
    await server.post('/api/v2/catalogs/lake/databases/d/tables', { name: 'u', columns: [{ name: 'a', type: 'INT' }] })
  ).is(201);
  // Back again: nothing is left there under the name.
  (await move('lake', { warehouse: 'default' })).is(200, '0', { state: 'succeeded' });
  assert.deepEqual(await sql('SELECT n FROM d.w', 'lake'), [[5001]]);
});
