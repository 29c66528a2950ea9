// Names of every kind, in every category whose names users choose, in REST and in SQL: created, read, listed, changed, renamed,
// filled, queried, deleted.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { sampled } from '../../budget.ts';
import { start, type TestServer, uri } from '../../server.ts';

let server: TestServer;
before(async () => {
  server = await start();
});
after(() => server.close());

const names = [
  'a/b',
  'a%b',
  '%2F',
  '100%',
  'two words',
  ' leading and trailing ',
  `"double"`,
  `'single'`,
  '`back`',
  'semi;colon',
  '--comment',
  '/* comment */',
  '$1',
  '?',
  'a.b',
  'a\\b',
  '[x]',
  '{x}',
  'é',
  'ß',
  'İ',
  '日本',
  '🗄️',
  'e\u0301',
  '\u202eabc',
  '\u00a0',
  'x'.repeat(128),
  '😀'.repeat(128),
  'select',
  'SELECT',
  'table',
  'order',
  'null',
  'true',
  'create',
  'search',
  'rename',
  'query',
  'tables',
  'columns',
  'main',
  'default',
  'constructor',
  '__proto__',
  'toString',
  '0',
  '-1',
  '...',
  '#',
  'a?b=c&d',
  'a+b',
  'NaN',
  'rowid',
];
// Without names that differ only in case, because SQL considers them equal.
const distinct = names.filter(
  (name, i) => names.findIndex((candidate) => candidate.toLowerCase() === name.toLowerCase()) === i,
);
const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`;

test('of a database, a table and a column', async (t) => {
  for (const name of sampled(t, 8, distinct, (sampledCount) => sampledCount >= 8)) await isDatabaseTableAndColumn(name);
});

async function isDatabaseTableAndColumn(name: string): Promise<void> {
  const database = uri`/databases/${name}`;
  (await server.post('/api/v2/databases', { name })).is(201, '0', { name });
  const table = uri`/databases/${name}/tables/${name}`;
  const columns = [
    { name, type: 'INT' },
    { name: 'other', type: 'STRUCT<"a b": INT>' },
  ];
  const body = { name, columns, primaryKey: [name] };
  (await server.post(`${database}/tables`, body)).is(201, '0', { name });
  (await server.get(table)).is(200, '0', { name, primaryKey: [name], columns: [{ name }, { name: 'other' }] });
  const tablePath = uri`/catalogs/default/databases/${name}/tables/${name}`;
  assert.equal((await server.get(table)).at('uri'), tablePath);
  (await server.post(`${table}/rows`, { rows: [[1, null], { [name]: 2 }] })).is(201, '0', { rowCount: 2 });
  const q = quoted(name);
  // "default".x could be a database or a catalog of that name: the engine requires the qualified name.
  const halves = name === 'default' ? [] : [`${q}.${q}`];
  for (const from of [q, ...halves, `"default".${q}.${q}`])
    assert.deepEqual(await server.rows(name, `SELECT ${q} FROM ${from} WHERE ${q} = $1`, [2]), [[2]], from);
  assert.deepEqual((await server.query(name, `SELECT ${q} FROM ${q}`)).at('columns'), [{ name, type: 'INT' }]);
  assert.deepEqual((await server.get(`${table}/rows?pageSize=1`)).at('rows', 0, name), 1);
  (await server.query(name, `UPDATE ${q} SET ${q} = 3 WHERE ${q} = 2`)).is(200, '0', { rowCount: 1 });
  const column = `${table}/columns/${encodeURIComponent(name)}`;
  (await server.patch(column, { comment: name, type: 'BIGINT' })).is(200, '0', {
    name,
    comment: name,
    type: 'BIGINT',
  });
  (await server.post(`${table}/columns/${encodeURIComponent(name)}/rename`, { newName: 'renamed' })).is(200);
  assert.deepEqual(await server.rows(name, `SELECT renamed FROM ${q} ORDER BY 1`), [[1], [3]]);
  (await server.post(`${table}/columns/renamed/rename`, { newName: name })).is(200, '0', { name });
  (await server.post(`${table}/rename`, { newName: 'renamed' })).is(200);
  (await server.post(`${database}/tables/renamed/rename`, { newName: name })).is(200, '0', { name, uri: tablePath });
  (await server.post(`${table}/copy_definition`, { newName: 'copy' })).is(201);
  (await server.post(`${table}/truncate`)).is(200);
  (await server.delete(table)).is(200, '0', { deleted: true });
  (await server.delete(`${database}?cascade=true`)).is(200, '0', { deleted: true });
  (await server.get(database)).is(404, 'OBJECT_NOT_FOUND', { category: 'databases', name });
}

test('of catalogs and warehouses', async (t) => {
  const free = distinct.filter((name) => !['default', 'main'].includes(name));
  for (const name of sampled(t, 5, free, (sampledCount) => sampledCount >= 8)) {
    (await server.post('/api/v2/catalogs', { name })).is(201, '0', { name, uri: uri`/catalogs/${name}` });
    (await server.put(uri`/catalogs/${name}/databases/d`)).is(201);
    const sql = `CREATE TABLE ${quoted(name)}.d.t (i INT)`;
    (await server.post(uri`/catalogs/${name}/databases/d/tables`, { sql })).is(201);
    const text = `SELECT count(*) FROM ${quoted(name)}.d.t`;
    (await server.post('/api/v2/catalogs/default/query', { sql: text })).is(200, '0', { rows: [[0]] });
    (await server.post(uri`/catalogs/${name}/query`, { sql: 'SELECT count(*) FROM d.t' })).is(200, '0', {
      rows: [[0]],
    });
    (await server.delete(`${uri`/catalogs/${name}`}?cascade=true`)).is(200, '0', { deleted: true });
    (await server.post('/api/v2/warehouses', { name })).is(201, '0', { name });
    (await server.patch(uri`/warehouses/${name}`, { comment: name })).is(200, '0', { name, comment: name });
    (await server.get(uri`/warehouses/${name}/backends/embedded`)).is(200);
    (await server.delete(uri`/warehouses/${name}`)).is(200, '0', { deleted: true });
  }
});

test('renamed from each to the next, with their rows', async () => {
  (await server.put('/api/v2/databases/chain')).is(201);
  (await server.post('/api/v2/databases/chain/tables', { sql: 'CREATE TABLE t (i INT)' })).is(201);
  (await server.query('chain', 'INSERT INTO t VALUES (7)')).is(200);
  let before = 'chain';
  for (const name of distinct) {
    (await server.post(uri`/databases/${before}/rename`, { newName: name })).is(200, '0', { name });
    before = name;
    assert.deepEqual(await server.rows(name, 'SELECT i FROM t'), [[7]]);
  }
});

test('lists are ordered by code points for all names', async () => {
  for (const name of distinct) await server.post('/api/v2/databases', { name });
  const listed = (await server.get('/api/v2/databases?pageSize=1000'))
    .at<{ name: string }[]>('databases')
    .map((record) => record.name);
  const byCodePoint = (a: string, b: string) => Buffer.compare(Buffer.from(a), Buffer.from(b));
  assert.deepEqual(listed, listed.toSorted(byCodePoint));
  const pagedNames: string[] = [];
  let token = '';
  do {
    const page = (await server.get(`/api/v2/databases?pageSize=7${token}`)).is(200);
    pagedNames.push(...page.at<{ name: string }[]>('databases').map((record) => record.name));
    const next = page.at<string | undefined>('nextPageToken');
    token = next === undefined ? '' : `&pageToken=${next}`;
  } while (token !== '');
  assert.deepEqual(pagedNames, listed);
});
