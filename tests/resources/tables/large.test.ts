// Large and deeply nested requests: ten thousand columns, a mebibyte of SQL, two hundred levels of JSON. A clear response, never a crash.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { start, type TestServer } from '../../server.ts';

let server: TestServer;
const tables = '/api/v2/databases/shop/tables';
const columnsMax = 10_000;
before(async () => {
  server = await start();
  (await server.put('/api/v2/databases/shop')).is(201);
});
after(() => server.close());

const columns = (count: number) => Array.from({ length: count }, (_, i) => ({ name: `c${i}`, type: 'INT' }));

test('a table of 10,000 columns: created, shown, filled, read, changed, deleted', async () => {
  (await server.post(tables, { name: 'wide', columns: columns(columnsMax) })).is(201);
  const created = (await server.get(`${tables}/wide`)).is(200).at<{ name: string; position: number }[]>('columns');
  assert.equal(created.length, columnsMax);
  assert.deepEqual([created.at(-1)?.name, created.at(-1)?.position], ['c9999', columnsMax]);
  const row = Array.from({ length: columnsMax }, (_, i) => i);
  (await server.post(`${tables}/wide/rows`, { rows: [row, { c5: 7 }] })).is(201, '0', { rowCount: 2 });
  assert.deepEqual(await server.rows('shop', 'SELECT c0, c5, c9999 FROM wide ORDER BY c0'), [
    [0, 5, 9999],
    [null, 7, null],
  ]);
  assert.deepEqual((await server.query('shop', 'SELECT * FROM wide WHERE c0 = 0')).at('rows', 0), row);
  (await server.get(`${tables}/wide/columns?pageSize=1000`)).is(200);
  (await server.get(`${tables}/wide/columns/c5000`)).is(200, '0', { position: 5001 });
  (await server.patch(`${tables}/wide/columns/c1`, { comment: 'x' })).is(200);
  (await server.delete(`${tables}/wide/columns/c2`)).is(200, '0', { deleted: true });
  (await server.delete(`${tables}/wide`)).is(200, '0', { deleted: true });
});

test('one more column is refused', async () => {
  const reply = await server.post(tables, { name: 'wider', columns: columns(columnsMax + 1) });
  reply.is(400, 'INVALID_PARAMETER', { violations: [{ pointer: '/columns', rule: 'maxItems' }] });
  const sql = `CREATE TABLE wider (${columns(columnsMax + 1).map(({ name }) => `${name} INT`)})`;
  (await server.post(tables, { sql })).is(400, 'INVALID_PARAMETER');
});

test('SQL of a mebibyte runs, and one more character is refused', async () => {
  const most = 1024 * 1024;
  const literal = `SELECT length('${'x'.repeat(most - "SELECT length('')".length)}')`;
  assert.equal(literal.length, most);
  assert.deepEqual(await server.rows('shop', literal), [[most - "SELECT length('')".length]]);
  const reply = await server.query('shop', `${literal} `);
  reply.is(400, 'INVALID_PARAMETER', { violations: [{ pointer: '/sql', rule: 'maxLength' }] });
  assert.ok(reply.text.length < 1000, 'the text is not sent back');
  const [entry] = (await server.post('/api/v2/queries/search', { text: "length('xxx" })).at<{ sql: string }[]>(
    'queries',
  );
  assert.ok((entry?.sql.length ?? 0) <= 65_536, 'the history keeps the beginning');
});

const strange: readonly [what: string, sql: string][] = [
  ['a list of 50,000 values', `SELECT 1 WHERE 1 IN (${Array.from({ length: 50_000 }, (_, i) => i)})`],
  [
    '20,000 values in brackets',
    `SELECT count(*) FROM (VALUES ${Array.from({ length: 20_000 }, (_, i) => `(${i})`)}) v(i)`,
  ],
  ['brackets in brackets', `SELECT ${'('.repeat(5_000)}1${')'.repeat(5_000)}`],
  ['a sum of 5,000', `SELECT ${'1+'.repeat(5_000)}1`],
  ['a chain of NOT', `SELECT ${'NOT '.repeat(5_000)}true`],
  ['queries in queries', `${'SELECT * FROM ('.repeat(500)}SELECT 1${')'.repeat(500)}`],
  ['arrows', `SELECT '{}'::JSON${"->'a'".repeat(60)}`],
  ['a name of 100,000 characters', `SELECT ${'x'.repeat(100_000)}`],
  ['a comment without end', `SELECT 1 /* ${'x'.repeat(100_000)}`],
  ['a text without end', `SELECT '${'x'.repeat(100_000)}`],
  ['10,000 columns of nothing', `SELECT ${Array.from({ length: 10_000 }, (_, i) => `${i} AS c${i}`)}`],
  ['300 unions', `SELECT 1${' UNION ALL SELECT 1'.repeat(300)}`],
  ['emoji', `SELECT '${'😀'.repeat(100_000)}'`],
];

for (const [description, sql] of strange) {
  test(`SQL: ${description}: rows or a clear refusal, and the next statement runs`, async () => {
    const reply = await server.query('shop', sql);
    assert.ok(reply.status === 200 || reply.status === 400, `${reply.status} ${reply.text.slice(0, 300)}`);
    if (reply.status === 400) assert.match(reply.code, /^SQL_|^MEMORY_LIMIT/, reply.text.slice(0, 300));
    assert.deepEqual(await server.rows('shop', 'SELECT 1'), [[1]]);
  });
}

test('200 levels of JSON: a body is refused; values created by SQL are stored and shown', async () => {
  (await server.post(tables, { name: 'deep', columns: [{ name: 'j', type: 'JSON' }] })).is(201);
  const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth);
  const insert = (text: string) => server.request('POST', `${tables}/deep/rows`, { body: `{"rows":[[${text}]]}` });
  (await insert(nested(200))).is(400, 'MALFORMED_JSON', { line: 1 });
  (await insert(nested(120))).is(201);
  const sql = "INSERT INTO deep SELECT (repeat('[', 200) || repeat(']', 200))::JSON";
  (await server.query('shop', sql)).is(200);
  assert.ok((await server.query('shop', 'SELECT j FROM deep')).is(200).text.includes(nested(200)));
  assert.ok((await server.get(`${tables}/deep/rows`)).is(200).text.includes(nested(200)));
});

test('JSON deeper than any stack is shown or refused, never a 500', async () => {
  const sql = "INSERT INTO deep SELECT (repeat('[', 100000) || '1e5' || repeat(']', 100000))::JSON";
  const written = await server.query('shop', sql);
  assert.ok([200, 400].includes(written.status), written.text.slice(0, 300));
  const reply = await server.send('GET', `${tables}/deep/rows`);
  assert.ok([200, 400].includes(reply.status), reply.text.slice(0, 300));
  const queried = await server.send('POST', '/api/v2/databases/shop/query', { body: { sql: 'SELECT j FROM deep' } });
  assert.ok([200, 400].includes(queried.status), queried.text.slice(0, 300));
});

test('properties and parameters up to their limits', async () => {
  const properties = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`p${i}`, 'x']));
  (await server.put('/api/v2/databases/props', { properties: properties(256) })).is(201);
  (await server.patch('/api/v2/databases/props', { properties: properties(257) })).is(400, 'INVALID_PARAMETER');
  const placeholders = (count: number) => Array.from({ length: count }, (_, i) => `$${i + 1}::INT`).join('+');
  const queryWithPlaceholders = (count: number) =>
    server.query('shop', `SELECT ${placeholders(count)}`, { parameters: Array(count).fill(1) });
  assert.deepEqual((await queryWithPlaceholders(500)).is(200).at('rows'), [[500]]);
  (await server.query('shop', 'SELECT 1', { parameters: Array(10_001).fill(1) })).is(400, 'INVALID_PARAMETER');
});
