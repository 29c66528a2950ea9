// Dropped objects are restored: with their rows, keys, owner and grants; under their name or another; alone or with their contents.
import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { newPerson } from '../../access/people.ts';
import { eventually } from '../../deadline.ts';
import { start, type TestServer, uri } from '../../server.ts';

let server: TestServer;
before(async () => {
  server = await start();
});
after(() => server.close());

const columns = [
  { name: 'id', type: 'BIGINT' },
  { name: 'note', type: 'STRING', defaultValue: "'new'" },
];

async function makeTable(path: string, rows: number): Promise<void> {
  (await server.post(path, { columns, primaryKey: ['id'], unique_key_constraints: ['note'], name: 't' })).is(201);
  const rowValues = Array.from({ length: rows }, (_, i) => ({ id: i, note: `n${i}` }));
  if (rows > 0) (await server.post(`${path}/t/rows`, { rows: rowValues })).is(201);
}

const count = async (parent: string, from: string) =>
  (await server.post(`${parent}/query`, { sql: `SELECT count(*) FROM ${from}` }))
    .is(200)
    .at<unknown[][]>('rows')[0]?.[0];

test('a table is restored with its rows, its keys and its statistics', async () => {
  const database = uri`/databases/${'tables back'}`;
  (await server.put(database)).is(201);
  await makeTable(`${database}/tables`, 3);
  const before = (await server.get(`${database}/tables/t`)).is(200);
  (await server.delete(`${database}/tables/t`)).is(200, '0', { deleted: true });
  (await server.get(`${database}/tables/t`)).is(404, 'OBJECT_NOT_FOUND');
  (await server.delete(`${database}/tables/t`)).is(200, '0', { deleted: false });
  (await server.post(`${database}/query`, { sql: 'SELECT * FROM t' })).is(400, 'SQL_INVALID');
  (await server.get(database)).is(200, '0', { tableCount: 0 });
  const restored = (await server.post(`${database}/tables/undrop`, { name: 't' })).is(200);
  assert.equal(restored.at('version'), before.at<number>('version') + 1);
  assert.deepEqual(restored.at('columns'), before.at('columns'));
  assert.equal(await count(database, 't'), 3);
  const duplicate = await server.post(`${database}/tables/t/rows`, { rows: [{ id: 9, note: 'n1' }] });
  duplicate.is(400, 'CONSTRAINT_VIOLATED');
  (await server.post(`${database}/tables/t/rows`, { rows: [{ id: 0, note: 'x' }] })).is(400, 'CONSTRAINT_VIOLATED');
  (await server.post(`${database}/tables/t/rows`, { rows: [{ id: 9 }] })).is(201);
  (await server.post(`${database}/tables/undrop`, { name: 't' })).is(404, 'OBJECT_NOT_FOUND');
});

test('the name is free at once; several dropped objects of one name are distinguished by their ids', async () => {
  const database = uri`/databases/${'same name'}`;
  (await server.put(database)).is(201);
  for (const rows of [1, 2, 3]) {
    await makeTable(`${database}/tables`, rows);
    (await server.delete(`${database}/tables/t`)).is(200);
  }
  await makeTable(`${database}/tables`, 4);
  const search = { dropped: true, pageSize: 2 };
  const first = (await server.post(`${database}/tables/search`, search)).is(200);
  const pageToken = first.at<string>('nextPageToken');
  const second = (await server.post(`${database}/tables/search`, { ...search, pageToken })).is(200);
  assert.equal(second.at('nextPageToken'), undefined);
  const tables = [...first.at<DroppedObject[]>('tables'), ...second.at<DroppedObject[]>('tables')];
  assert.deepEqual(
    tables.map(({ name, state, droppedBy }) => ({ name, state, droppedBy })),
    Array(3).fill({ name: 't', state: 'dropped', droppedBy: 'root' }),
  );
  for (const { droppedAt, undropUntil } of tables)
    assert.ok(Math.abs(Date.parse(undropUntil) - Date.parse(droppedAt) - 86_400_000) < 10_000);
  (await server.post(`${database}/tables/undrop`, { name: 't' })).is(400, 'OBJECT_ALREADY_EXISTS');
  (await server.post(`${database}/tables/undrop`, { name: 't', newName: 'T' })).is(400, 'OBJECT_ALREADY_EXISTS');
  (await server.post(`${database}/tables/undrop`, { name: 't', newName: 'last' })).is(200, '0', { name: 'last' });
  (await server.post(`${database}/tables/undrop`, { id: tables[0]?.id, newName: 'first' })).is(200);
  assert.deepEqual(
    [await count(database, 't'), await count(database, 'last'), await count(database, 'first')],
    [4, 3, 1],
  );
  (await server.post(`${database}/tables/undrop`, { newName: 'x' })).is(400, 'INVALID_PARAMETER');
  (await server.post(`${database}/tables/undrop`, { id: tables[1]?.id, name: 't' })).is(400, 'INVALID_PARAMETER');
  (await server.post(`${database}/tables/undrop`, { id: tables[1]?.id, newName: 'a\nb' })).is(400, 'INVALID_NAME');
  (await server.post(`${database}/tables/search`, { dropped: true, namePattern: 'u%' })).is(200, '0', { tables: [] });
});

interface DroppedObject {
  readonly id: string;
  readonly name: string;
  readonly state: string;
  readonly droppedAt: string;
  readonly droppedBy: string;
  readonly undropUntil: string;
}

test('dropped objects are found by a pattern with many wildcards', async () => {
  const name = 'a'.repeat(100);
  (await server.put(`/api/v2/databases/${name}`)).is(201);
  (await server.delete(`/api/v2/databases/${name}`)).is(200);
  const search = async (namePattern: string) =>
    (await server.post('/api/v2/databases/search', { dropped: true, namePattern })).is(200).at<unknown[]>('databases')
      .length;
  // As a regular expression, it would not be compared with the name within a lifetime.
  assert.equal(await search(`${'%A'.repeat(20)}b`), 0);
  assert.equal(await search('%A'.repeat(20)), 1);
});

test('a database is restored with its contents, but not with what was dropped before it', async () => {
  const database = uri`/databases/${'with all'}`;
  (await server.put(database)).is(201);
  await makeTable(`${database}/tables`, 2);
  (await server.post(`${database}/tables/t/rename`, { newName: 'gone' })).is(200);
  (await server.delete(`${database}/tables/gone`)).is(200);
  await makeTable(`${database}/tables`, 5);
  (await server.delete(database)).is(400, 'NOT_EMPTY');
  (await server.delete(`${database}?cascade=true`)).is(200);
  // Another object takes the name, also in the engine.
  (await server.put(database)).is(201);
  await makeTable(`${database}/tables`, 1);
  (await server.delete(`${database}?cascade=true&purge=true`)).is(200, '0', { deleted: true });
  const databases = (await server.post('/api/v2/databases/search', { dropped: true, namePattern: 'with%' })).is(200);
  assert.equal(databases.at<{ tableCount: number }[]>('databases')[0]?.tableCount, 1);
  (await server.post('/api/v2/databases/undrop', { name: 'with all' })).is(200, '0', { tableCount: 1 });
  assert.equal(await count(database, 't'), 5);
  (await server.post(`${database}/tables/undrop`, { name: 'gone' })).is(200);
  assert.equal(await count(database, 'gone'), 2);
});

test('a database is restored under another name, and a table into a renamed database', async () => {
  const database = uri`/databases/${'old'}`;
  (await server.put(database)).is(201);
  await makeTable(`${database}/tables`, 6);
  (await server.delete(`${database}/tables/t`)).is(200);
  (await server.post(`${database}/rename`, { newName: 'middle' })).is(200);
  (await server.post(uri`/databases/${'middle'}/tables/undrop`, { name: 't' })).is(200);
  assert.equal(await count(uri`/databases/${'middle'}`, 't'), 6);
  (await server.delete(`${uri`/databases/${'middle'}`}?cascade=true`)).is(200);
  (await server.post('/api/v2/databases/undrop', { name: 'middle', newName: 'new' })).is(200, '0', { name: 'new' });
  assert.equal(await count(uri`/databases/${'new'}`, 't'), 6);
  (await server.post(uri`/databases/${'new'}/tables/t/rows`, { rows: [{ id: 1 }] })).is(400, 'CONSTRAINT_VIOLATED');
  (await server.get('/api/v2/databases/middle')).is(404, 'OBJECT_NOT_FOUND');
});

test('a catalog is restored with its file, under another name', async () => {
  (await server.put(uri`/catalogs/${'lake'}`)).is(201);
  (await server.put('/api/v2/catalogs/lake/databases/d')).is(201);
  await makeTable('/api/v2/catalogs/lake/databases/d/tables', 7);
  const files = () => readdirSync(join(server.dataDirectory, 'catalogs')).length;
  const before = files();
  (await server.delete('/api/v2/catalogs/lake?cascade=true')).is(200);
  (await server.post('/api/v2/databases/undrop', { name: 'd' })).is(404, 'OBJECT_NOT_FOUND');
  (await server.put(uri`/catalogs/${'lake'}`)).is(201);
  assert.ok(files() > before, 'the file is kept');
  (await server.post('/api/v2/catalogs/undrop', { name: 'lake' })).is(400, 'OBJECT_ALREADY_EXISTS');
  (await server.post('/api/v2/catalogs/undrop', { name: 'lake', newName: 'memory' })).is(400, 'INVALID_NAME');
  (await server.post('/api/v2/catalogs/undrop', { name: 'lake', newName: 'pond' })).is(200, '0', { name: 'pond' });
  assert.equal(await count('/api/v2/catalogs/pond/databases/d', 't'), 7);
  (await server.get('/api/v2/catalogs/lake/databases/d')).is(404, 'OBJECT_NOT_FOUND');
});

test('the statistics of tables follow when their database or catalog is restored or renamed', async () => {
  (await server.put(uri`/catalogs/${'sizes'}`)).is(201);
  (await server.put('/api/v2/catalogs/sizes/databases/d')).is(201);
  await makeTable('/api/v2/catalogs/sizes/databases/d/tables', 2);
  const hasRows = (path: string, rows: number) =>
    eventually(`${path} has statistics`, async () => {
      const table = (await server.get(path)).is(200);
      return table.at<{ rowCount: number | null }>('statistics').rowCount === rows;
    });
  let path = '/api/v2/catalogs/sizes/databases/d/tables/t';
  await hasRows(path, 2);
  // Each write is followed at once by a change after which the table has no or another path.
  (await server.post(`${path}/rows`, { rows: [{ id: 10, note: 'x' }] })).is(201);
  (await server.delete('/api/v2/catalogs/sizes/databases/d?cascade=true')).is(200);
  (await server.post('/api/v2/catalogs/sizes/databases/undrop', { name: 'd' })).is(200);
  await hasRows(path, 3);
  (await server.post(`${path}/delete_rows`, { where: 'id = 10' })).is(200);
  (await server.delete('/api/v2/catalogs/sizes?cascade=true')).is(200);
  (await server.post('/api/v2/catalogs/undrop', { name: 'sizes' })).is(200);
  await hasRows(path, 2);
  (await server.post(`${path}/rows`, { rows: [{ id: 11, note: 'a' }] })).is(201);
  (await server.post('/api/v2/catalogs/sizes/databases/d/rename', { newName: 'e' })).is(200);
  path = '/api/v2/catalogs/sizes/databases/e/tables/t';
  await hasRows(path, 3);
  (await server.post(`${path}/rows`, { rows: [{ id: 12, note: 'b' }] })).is(201);
  (await server.post('/api/v2/catalogs/sizes/rename', { newName: 'lengths' })).is(200);
  await hasRows('/api/v2/catalogs/lengths/databases/e/tables/t', 4);
});

test('an object that is purged, or not retained, is deleted at once', async () => {
  (await server.put(uri`/catalogs/${'brief'}`)).is(201);
  const files = () => readdirSync(join(server.dataDirectory, 'catalogs')).filter((name) => name.endsWith('.duckdb'));
  const before = files().length;
  (await server.delete('/api/v2/catalogs/brief?purge=true')).is(200, '0', { deleted: true });
  assert.equal(files().length, before - 1);
  (await server.post('/api/v2/catalogs/undrop', { name: 'brief' })).is(404, 'OBJECT_NOT_FOUND');
  const other = await start({ undropSeconds: 0 });
  try {
    (await other.put(uri`/databases/${'d'}`)).is(201);
    (await other.delete('/api/v2/databases/d')).is(200);
    (await other.post('/api/v2/databases/undrop', { name: 'd' })).is(404, 'OBJECT_NOT_FOUND');
    (await other.post('/api/v2/databases/search', { dropped: true })).is(200, '0', { databases: [] });
  } finally {
    await other.close();
  }
});

test('grants are retained, and whoever may drop an object may restore it; nobody else learns of it', async () => {
  const database = uri`/databases/${'granted'}`;
  (await server.put(database)).is(201);
  await makeTable(`${database}/tables`, 2);
  const [tableTarget, databaseTarget] = ['/databases/granted/tables/t', '/databases/granted'];
  const reader = await newPerson(server, 'reader', [
    ['read', tableTarget],
    ['use', '/warehouses/default'],
  ]);
  const maker = await newPerson(server, 'maker', [['create', databaseTarget]]);
  const remover = await newPerson(server, 'remover', [
    ['create', databaseTarget],
    ['drop', tableTarget],
  ]);
  const dropper = await newPerson(server, 'dropper', [
    ['create', databaseTarget],
    ['read', databaseTarget],
    ['drop', databaseTarget],
  ]);
  (await reader.query('granted', 'SELECT count(*) FROM t')).is(200);
  (await dropper.request('DELETE', `${database}/tables/t`)).is(200);
  (await reader.get(`${database}/tables/t`)).is(403, 'FORBIDDEN');
  (await reader.query('granted', 'SELECT count(*) FROM t')).is(403, 'FORBIDDEN');
  (await reader.post(`${database}/tables/undrop`, { name: 't' })).is(403, 'FORBIDDEN');
  // Grants on the table itself have no effect while it is dropped.
  for (const person of [maker, remover])
    (await person.post(`${database}/tables/undrop`, { name: 't' })).is(404, 'OBJECT_NOT_FOUND');
  const tables = (await dropper.post(`${database}/tables/search`, { dropped: true })).is(200);
  const [{ id = '' } = {}] = tables.at<{ id?: string }[]>('tables');
  assert.notEqual(id, '');
  const unreadable = await reader.request('POST', `${database}/tables/search`, { dropped: true });
  if (unreadable.status !== 403) unreadable.is(200, '0', { tables: [] });
  const hidden = `__tabularium_dropped_${id}`;
  for (const person of [server, dropper, reader])
    for (const sql of [`SELECT * FROM "${hidden}"`, `DELETE FROM "${hidden}"`, `SELECT * FROM granted."${hidden}"`]) {
      const reply = await person.query('granted', sql);
      assert.ok([400, 403].includes(reply.status), reply.text);
      assert.ok(!reply.message.includes('note'), reply.text);
    }
  const guessedSchema = await server.query('granted', 'SELECT * FROM __tabularium_dropped');
  assert.ok(!guessedSchema.text.includes(id), guessedSchema.text);
  for (const from of ['duckdb_tables()', 'information_schema.tables', 'sqlite_master', 'pg_catalog.pg_tables'])
    assert.ok(!(await server.query('granted', `SELECT * FROM ${from}`)).text.includes(id), from);
  (await server.put(`${database}/tables/${hidden}`, { columns })).is(400, 'INVALID_NAME');
  (await server.post(`${database}/tables`, { columns, name: hidden.toUpperCase() })).is(400, 'INVALID_NAME');
  (await dropper.post(`${database}/tables/undrop`, { id, newName: hidden })).is(400, 'INVALID_NAME');
  (await dropper.post(`${database}/tables/undrop`, { id, newName: 'back' })).is(200, '0', { owner: 'root' });
  (await reader.query('granted', 'SELECT count(*) FROM back')).is(200, '0', { rows: [[2]] });
  const grants = (await server.get('/api/v2/users/reader/grants')).at<{ on: string; uri: string }[]>('grants');
  const read = grants.find(({ on: target }) => target.endsWith('/tables/back'));
  (await server.delete(`${database}/tables/back`)).is(200);
  (await server.get(read?.uri as string)).is(200, '0', { isDropped: true });
  (await maker.request('DELETE', read?.uri as string)).is(403, 'FORBIDDEN');
  (await server.delete(read?.uri as string)).is(200, '0', { deleted: true });
  (await server.post(`${database}/tables/undrop`, { name: 'back' })).is(200);
  (await reader.query('granted', 'SELECT count(*) FROM back')).is(403, 'FORBIDDEN');
});

test('objects can be restored after a restart; a warehouse with restorable objects cannot be deleted', async () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'tabularium-undrop-'));
  try {
    const first = await start({ dataDir });
    (await first.put('/api/v2/warehouses/w')).is(201);
    (await first.put('/api/v2/catalogs/c', { warehouse: 'w' })).is(201);
    (await first.put('/api/v2/catalogs/c/databases/d')).is(201);
    (await first.post('/api/v2/catalogs/c/databases/d/tables', { columns, name: 't' })).is(201);
    (await first.post('/api/v2/catalogs/c/databases/d/tables/t/rows', { rows: [{ id: 1 }] })).is(201);
    (await first.delete('/api/v2/catalogs/c?cascade=true')).is(200);
    (await first.delete('/api/v2/warehouses/w')).is(400, 'IN_USE', { droppedCatalogs: ['c'] });
    await first.close();
    const second = await start({ dataDir });
    const catalogs = (await second.post('/api/v2/catalogs/search', { dropped: true })).is(200);
    assert.deepEqual(
      catalogs.at<{ name: string }[]>('catalogs').map(({ name }) => name),
      ['c'],
    );
    (await second.post('/api/v2/catalogs/undrop', { name: 'c' })).is(200, '0', { warehouse: 'w' });
    const counted = await second.post('/api/v2/catalogs/c/query', { sql: 'SELECT count(*) FROM c.d.t' });
    counted.is(200, '0', { rows: [[1]] });
    await second.close();
  } finally {
    rmSync(dataDir, { recursive: true, force: true });
  }
});
