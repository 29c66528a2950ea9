// Creation of tables: from a definition and from a CREATE TABLE statement, with every type and every key; refused requests
// leave nothing.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Reply, start, type TestServer, uri } from '../../server.ts';
import { type Scenario, scenarios } from '../scenario.ts';

let server: TestServer;
before(async () => {
  server = await start();
  (await server.put('/api/v2/users/ann')).is(201);
  (await server.put('/api/v2/databases/shop')).is(201);
});
after(() => server.close());

const tables = '/api/v2/databases/shop/tables';
const id = { name: 'id', type: 'BIGINT' };

/** Every type, with an inserted value and the value that is returned. */
const types: readonly [written: string, canonical: string, value: unknown][] = [
  ['BOOLEAN', 'BOOLEAN', true],
  ['tinyint', 'TINYINT', -128],
  ['SMALLINT', 'SMALLINT', 32767],
  ['INTEGER', 'INT', -2147483648],
  ['BIGINT', 'BIGINT', JSON.rawJSON('9223372036854775807')],
  ['HUGEINT', 'LARGEINT', JSON.rawJSON('-170141183460469231731687303715884105727')],
  ['REAL', 'FLOAT', 0.5],
  ['DOUBLE PRECISION', 'DOUBLE', 0.1],
  ['DECIMAL(38,10)', 'DECIMAL(38,10)', JSON.rawJSON('1234567890123456789012345678.0123456789')],
  ['NUMERIC', 'DECIMAL(18,3)', JSON.rawJSON('123456789012345.125')],
  ['DATE', 'DATE', '2026-02-28'],
  ['TIMESTAMP', 'DATETIME', '2026-01-31T10:00:00.123456'],
  ['TIMESTAMP WITH TIME ZONE', 'TIMESTAMPTZ', '2026-01-31T10:00:00.123456Z'],
  ['CHAR(3)', 'CHAR(3)', 'äbc'],
  ['VARCHAR(5)', 'VARCHAR(5)', '😀'],
  ['TEXT', 'STRING', 'a"b\\c\n\u0001'],
  ['BLOB', 'BINARY', 'AP8Q'],
  ['JSON', 'JSON', { a: [1, null, 'x'] }],
  ['UUID', 'UUID', 'f81d4fae-7dec-11d0-a765-00a0c91e6bf6'],
  ['INT[]', 'ARRAY<INT>', [1, null, 3]],
  ['MAP<STRING, DOUBLE>', 'MAP<STRING, DOUBLE>', [{ key: 'a', value: 1.5 }]],
  ['STRUCT<a: INT, "b c": ARRAY<STRING>>', 'STRUCT<a: INT, "b c": ARRAY<STRING>>', { a: 1, 'b c': ['x', null] }],
  [
    'ARRAY<STRUCT<k: DATE, v: MAP<INT, UUID>>>',
    'ARRAY<STRUCT<k: DATE, v: MAP<INT, UUID>>>',
    [{ k: '2026-01-31', v: [] }],
  ],
];

test('every type: created, shown in its canonical form, filled and read back exactly', async () => {
  const columns = types.map(([type], i) => ({ name: `c${i}`, type }));
  const created = (await server.post(tables, { name: 'types', columns })).is(201);
  const canonical = types.map(([, type]) => type);
  assert.deepEqual(
    created.at<{ type: string }[]>('columns').map((column) => column.type),
    canonical,
  );
  const row = types.map(([, , value]) => value);
  const nulls = types.map(() => null);
  (await server.post(`${tables}/types/rows`, { rows: [row, nulls, {}] })).is(201, '0', { rowCount: 3 });
  const answer = (await server.query('shop', 'SELECT * FROM types')).is(200);
  assert.deepEqual(
    answer.at<{ type: string }[]>('columns').map((column) => column.type),
    canonical.map((type) => type.replace(/^(VAR)?CHAR\(\d\)$/, 'STRING')),
    'a result tells types, not the limits of columns',
  );
  assert.ok(answer.text.includes(JSON.stringify(row)), answer.text);
  assert.ok(answer.text.replaceAll('\n', '').includes(JSON.stringify([nulls, nulls]).slice(1, -1)), answer.text);
  const preview = (await server.get(`${tables}/types/rows`)).is(200);
  for (const [i, [, , value]] of types.entries())
    assert.ok(
      preview.text.includes(`"c${i}":${JSON.stringify(value)}`),
      `${types[i]?.[1]}: ${preview.text.slice(0, 900)}`,
    );
});

const refusedColumns: readonly [what: string, columns: unknown, pointer: string][] = [
  ['no columns', [], '/columns'],
  ['a type that is none', [{ name: 'a', type: 'INTT' }], '/columns/0/type'],
  ['a type with too much', [{ name: 'a', type: 'INT(3)' }], '/columns/0/type'],
  ['a decimal too wide', [{ name: 'a', type: 'DECIMAL(39,0)' }], '/columns/0/type'],
  ['a scale over its precision', [{ name: 'a', type: 'DECIMAL(3,4)' }], '/columns/0/type'],
  ['a text of no length', [{ name: 'a', type: 'VARCHAR(0)' }], '/columns/0/type'],
  ['a type that continues', [{ name: 'a', type: 'INT; DROP TABLE x' }], '/columns/0/type'],
  ['a type of types of types', [{ name: 'a', type: `${'ARRAY<'.repeat(30)}INT${'>'.repeat(30)}` }], '/columns/0/type'],
  ['a struct with a field twice', [{ name: 'a', type: 'STRUCT<a: INT, A: INT>' }], '/columns/0/type'],
  ['a name twice, but for its case', [id, { name: 'ID', type: 'INT' }], '/columns/1/name'],
  ['a name that is none', [{ name: '', type: 'INT' }], '/columns/0/name'],
  ['a control character in a name', [{ name: 'a\u0000b', type: 'INT' }], '/columns/0/name'],
  ['a name too long', [{ name: 'x'.repeat(129), type: 'INT' }], '/columns/0/name'],
  ['an unknown field', [{ ...id, primary: true }], '/columns/0/primary'],
  ['a default that does not fit', [id, { name: 'n', type: 'INT', defaultValue: "'x'" }], '/columns/1/defaultValue'],
  ['a default with a column', [id, { name: 'n', type: 'BIGINT', defaultValue: 'id + 1' }], '/columns/1/defaultValue'],
  ['a default with a query', [id, { name: 'n', type: 'INT', defaultValue: '(SELECT 1)' }], '/columns/1/defaultValue'],
  [
    'a default that reads files',
    [id, { name: 'n', type: 'STRING', defaultValue: "read_text('/etc/passwd')" }],
    '/columns/1/defaultValue',
  ],
  ['a default with a NUL', [id, { name: 'n', type: 'INT', defaultValue: '1\u0000' }], '/columns/1/defaultValue'],
  ['a default that continues', [id, { name: 'n', type: 'INT', defaultValue: '1, x INT' }], '/columns/1/defaultValue'],
];

scenarios(
  () => server,
  [
    ...refusedColumns.map(
      ([description, columns, pointer]): Scenario => ({
        name: `refused: ${description}`,
        method: 'POST',
        url: tables,
        body: { name: 'refused', columns },
        status: 400,
        code: description === 'an unknown field' ? 'UNKNOWN_FIELD' : 'INVALID_PARAMETER',
        pointer,
        afterwards: async (client) => void (await client.get(`${tables}/refused`)).is(404, 'OBJECT_NOT_FOUND'),
      }),
    ),
    ...(
      [
        ['a primary key of nothing', { primaryKey: ['nothing'] }, '/primaryKey/0'],
        ['a key of the wrong case', { primaryKey: ['ID'] }, '/primaryKey/0'],
        ['a key column twice', { primaryKey: ['id', 'id'] }, '/primaryKey/1'],
        ['a key of a list', { columns: [{ name: 'l', type: 'INT[]' }], primaryKey: ['l'] }, '/primaryKey/0'],
        ['a unique key of nothing', { unique_key_constraints: ['nothing'] }, '/unique_key_constraints/0'],
        ['an order of nothing', { orderBy: ['nothing'] }, '/orderBy/0'],
        ['a partition of nothing', { partitionBy: ['nothing'] }, '/partitionBy/0'],
        ['a distribution of nothing', { distribution: { by: ['nothing'] } }, '/distribution/by/0'],
        ['no buckets', { distribution: { buckets: 0 } }, '/distribution/buckets'],
        ['no replicas', { replicationNum: 0 }, '/replicationNum'],
        ['no columns and no SQL', { columns: undefined }, '/columns'],
      ] as const
    ).map(
      ([description, body, pointer]): Scenario => ({
        name: `refused: ${description}`,
        method: 'POST',
        url: tables,
        body: { name: 'refused', columns: [id], ...body },
        status: 400,
        code: 'INVALID_PARAMETER',
        pointer,
        afterwards: async (client) => void (await client.get(`${tables}/refused`)).is(404, 'OBJECT_NOT_FOUND'),
      }),
    ),
    {
      name: 'more replicas than there are backends: 503 that names both numbers',
      method: 'POST',
      url: tables,
      body: { name: 'refused', columns: [id], replicationNum: 3 },
      status: 503,
      code: 'NOT_ENOUGH_BACKENDS',
      result: { needed: 3, available: 1 },
      contains: ['3 replicas', '1 backend'],
    },
    {
      name: 'a table with everything',
      method: 'POST',
      url: tables,
      body: {
        name: 'orders',
        comment: 'All',
        properties: { a: 'b' },
        owner: 'ann',
        columns: [
          id,
          { name: 'sku', type: 'VARCHAR(20)', nullable: false, comment: 'article' },
          { name: 'amount', type: 'DECIMAL(10,2)', defaultValue: 0 },
          { name: 'open', type: 'BOOLEAN', defaultValue: true },
          { name: 'state', type: 'STRING', defaultValue: "'it''s new'" },
          { name: 'at', type: 'DATETIME', defaultValue: 'current_timestamp' },
        ],
        primaryKey: ['id'],
        unique_key_constraints: ['sku'],
        orderBy: ['at'],
        partitionBy: ['state'],
        distribution: { by: ['id'], buckets: 4 },
        replicationNum: 1,
      },
      status: 201,
      result: {
        name: 'orders',
        comment: 'All',
        properties: { a: 'b' },
        owner: 'ann',
        columns: [
          { name: 'id', position: 1, type: 'BIGINT', nullable: false, isKey: true },
          { name: 'sku', position: 2, nullable: false, comment: 'article', isKey: false },
          { name: 'amount', defaultValue: '0' },
          { name: 'open', defaultValue: 'true' },
          { name: 'state', defaultValue: "'it''s new'" },
          { name: 'at', defaultValue: 'current_timestamp' },
        ],
        primaryKey: ['id'],
        unique_key_constraints: ['sku'],
        orderBy: ['at'],
        partitionBy: ['state'],
        distribution: { by: ['id'], buckets: 4 },
        replicationNum: 1,
        state: 'ready',
      },
      afterwards: async (client) => {
        (await client.post(`${tables}/orders/rows`, { rows: [{ id: 1, sku: 'x' }] })).is(201);
        const [row] = await client.rows('shop', 'SELECT amount, open, state, "at" IS NOT NULL FROM orders');
        assert.deepEqual(row, [0, true, "it's new", true]);
      },
    },
    {
      name: 'its definition copied, with nothing in it',
      method: 'POST',
      url: `${tables}/orders/copy_definition`,
      body: { newName: 'orders_copy' },
      status: 201,
      result: {
        name: 'orders_copy',
        comment: 'All',
        primaryKey: ['id'],
        unique_key_constraints: ['sku'],
        created: true,
      },
      afterwards: async (client) => assert.deepEqual(await client.rows('shop', 'SELECT * FROM orders_copy'), []),
    },
    {
      name: 'a copy over what exists',
      method: 'POST',
      url: `${tables}/orders/copy_definition`,
      body: { newName: 'orders_copy' },
      status: 400,
      code: 'OBJECT_ALREADY_EXISTS',
    },
    {
      name: 'a copy into a database that is not there',
      method: 'POST',
      url: `${tables}/orders/copy_definition`,
      body: { newName: 'c', database: 'nowhere' },
      status: 404,
      code: 'OBJECT_NOT_FOUND',
      result: { category: 'databases', name: 'nowhere' },
    },
  ],
);

const sqlForms: readonly [what: string, sql: string, result: object][] = [
  [
    'plain',
    "CREATE TABLE s1 (a INTEGER PRIMARY KEY, b VARCHAR(10) NOT NULL DEFAULT 'x', c DECIMAL(5,1))",
    {
      name: 's1',
      primaryKey: ['a'],
      columns: [{ type: 'INT', nullable: false }, { nullable: false, defaultValue: "'x'" }, { type: 'DECIMAL(5,1)' }],
    },
  ],
  ['with its database', 'create table shop.s2 (a bigint, unique (a));', { name: 's2', unique_key_constraints: ['a'] }],
  [
    'with its catalog',
    'CREATE TABLE "default".shop."s 3" ("a b" TEXT) -- made',
    { name: 's 3', columns: [{ name: 'a b', type: 'STRING' }] },
  ],
  [
    'if it is not there',
    'CREATE TABLE IF NOT EXISTS s4 (a INT[], b STRUCT(x INT), c MAP(INT, TEXT))',
    { name: 's4', columns: [{ type: 'ARRAY<INT>' }, { type: 'STRUCT<x: INT>' }, { type: 'MAP<INT, STRING>' }] },
  ],
];

for (const [description, sql, result] of sqlForms) {
  test(`CREATE TABLE, ${description}`, async () => {
    const reply = (await server.post(`${tables}/create`, { sql })).is(201);
    assert.partialDeepStrictEqual(reply.result, result);
    (await server.delete(uri`/databases/shop/tables/${reply.at('name')}`)).is(200);
    const asText = { body: sql, headers: { 'content-type': 'application/sql; charset=utf-8' } };
    assert.partialDeepStrictEqual((await server.request('PUT', `${tables}/create`, asText)).is(201).result, result);
    (await server.request('PUT', tables, asText)).is(201, '0', { created: false });
    (await server.request('POST', tables, asText)).is(400, 'OBJECT_ALREADY_EXISTS');
  });
}

test('an empty text is not said to have to be JSON', async () => {
  const empty = { body: '', headers: { 'content-type': 'application/sql' } };
  const reply = (await server.request('POST', `${tables}/create`, empty)).is(400, 'EMPTY_BODY');
  assert.match(reply.message, /^the body is empty: .* text of the field `sql`$/);
});

const sqlRefused: readonly [what: string, body: object, status: string][] = [
  ['no SQL', { sql: 'CREATE TABEL t (a INT)' }, '400 SQL_INVALID'],
  ['another statement', { sql: 'SELECT 1' }, '400 SQL_NOT_SUPPORTED'],
  ['two statements', { sql: 'CREATE TABLE t (a INT); CREATE TABLE u (a INT)' }, '400 SQL_NOT_SUPPORTED'],
  ['another statement about what does not exist', { sql: 'DROP TABLE nothing' }, '400 SQL_NOT_SUPPORTED'],
  ['a second statement', { sql: 'CREATE TABLE q (a INT); DROP TABLE q' }, '400 SQL_NOT_SUPPORTED'],
  ['from a query', { sql: 'CREATE TABLE t AS SELECT 1 AS a' }, '400 SQL_NOT_SUPPORTED'],
  ['a view', { sql: 'CREATE VIEW t AS SELECT 1' }, '400 SQL_NOT_SUPPORTED'],
  ['OR REPLACE', { sql: 'CREATE OR REPLACE TABLE t (a INT)' }, '400 SQL_NOT_SUPPORTED'],
  ['a temporary table', { sql: 'CREATE TEMP TABLE t (a INT)' }, '400 SQL_NOT_SUPPORTED'],
  ['an attached file', { sql: "ATTACH '/tmp/x.db'" }, '400 SQL_NOT_SUPPORTED'],
  ['a default that reads files', { sql: "CREATE TABLE t (a TEXT DEFAULT (getenv('HOME')))" }, '400'],
  ['another name than the path', { name: 'u', sql: 'CREATE TABLE t (a INT)' }, '400 INVALID_PARAMETER'],
  ['another database than the path', { sql: 'CREATE TABLE other.t (a INT)' }, '400 INVALID_PARAMETER'],
  ['columns besides', { sql: 'CREATE TABLE t (a INT)', columns: [id] }, '400 INVALID_PARAMETER'],
  ['a foreign key', { sql: 'CREATE TABLE t (a INT REFERENCES orders(id))' }, '400'],
  ['a check', { sql: 'CREATE TABLE t (a INT CHECK (a > 0))' }, '400'],
  ['nothing', { sql: '' }, '400'],
  ['a comment alone', { sql: '-- nothing' }, '400'],
  ['a type of no use here', { sql: 'CREATE TABLE t (a INTERVAL)' }, '400'],
  ['a generated column', { sql: 'CREATE TABLE t (a INT, b INT GENERATED ALWAYS AS (a + 1))' }, '400'],
  ['a lone surrogate', { sql: 'CREATE TABLE t ("\ud800" INT)' }, '400'],
  ['a NUL', { sql: 'CREATE TABLE t (a INT)\u0000; DROP TABLE orders' }, '400'],
];

for (const [description, body, expected] of sqlRefused) {
  test(`CREATE TABLE refused: ${description}`, async () => {
    const reply: Reply = await server.post(tables, body);
    assert.ok(`${reply.status} ${reply.code}`.startsWith(expected), `${reply.status} ${reply.code} ${reply.message}`);
    for (const name of ['t', 'u']) (await server.get(`${tables}/${name}`)).is(404, 'OBJECT_NOT_FOUND');
  });
}

test('an error in the SQL is reported with its position', async () => {
  const reply = await server.post(tables, { sql: 'CREATE TABLE t (\n  a INT,\n  b INTT\n)' });
  assert.equal(reply.status, 400);
  assert.match(reply.message, /INTT/);
  const text = await server.post(tables, { sql: 'CREATE TABLE t (\n  a INT\n  b INT\n)' });
  text.is(400, 'SQL_INVALID', { line: 3, column: 3 });
});

test('search finds tables by pattern and comment, page by page', async () => {
  (await server.put('/api/v2/databases/found')).is(201);
  const foundTables = '/api/v2/databases/found/tables';
  for (const [name, comment] of [
    ['a_1', 'Alpha'],
    ['A_2', 'beta'],
    ['ab3', 'ALPHABET'],
  ] as const)
    (await server.post(foundTables, { name, comment, columns: [id] })).is(201);
  const search = async (body: object) =>
    (await server.post(`${foundTables}/search`, body))
      .is(200)
      .at<{ name: string }[]>('tables')
      .map((record) => record.name);
  assert.deepEqual(await search({}), ['A_2', 'a_1', 'ab3']);
  assert.deepEqual(await search({ namePattern: 'a\\_%' }), ['A_2', 'a_1']);
  assert.deepEqual(await search({ comment: 'alpha' }), ['a_1', 'ab3']);
  const page = (await server.post(`${foundTables}/search`, { pageSize: 2 })).is(200);
  assert.deepEqual(await search({ pageSize: 2, pageToken: page.at('nextPageToken') }), ['ab3']);
});
