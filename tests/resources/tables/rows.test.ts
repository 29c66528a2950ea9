// Rows by REST: accepted rows, refusals row by row with nothing inserted, and reading rows.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { start, type TestServer } from '../../server.ts';
import { scenarios } from '../scenario.ts';

let server: TestServer;
const tables = '/api/v2/databases/shop/tables';
const items = `${tables}/items/rows`;
before(async () => {
  server = await start({ rowsBodyBytesMax: 8 * 1024 * 1024 });
  (await server.put('/api/v2/databases/shop')).is(201);
  const columns = [
    { name: 'id', type: 'INT' },
    { name: 'sku', type: 'VARCHAR(3)', nullable: false, defaultValue: "'new'" },
    { name: '__proto__', type: 'DECIMAL(4,2)' },
    { name: 'tags', type: 'ARRAY<STRING>' },
  ];
  const body = { name: 'items', columns, primaryKey: ['id'], unique_key_constraints: ['sku', '__proto__'] };
  (await server.post(tables, body)).is(201);
});
after(() => server.close());

const nothingNew = async (instance: TestServer) =>
  assert.deepEqual(await instance.rows('shop', 'SELECT count(*) FROM items'), [[2]]);
const refused = { method: 'POST', url: items, status: 400, code: 'ROWS_INVALID', afterwards: nothingNew } as const;
const tooLong = 'x'.repeat(4);

scenarios(
  () => server,
  [
    {
      name: 'objects and arrays together; what is left out gets its default',
      method: 'POST',
      url: items,
      body: '{"rows":[{"id":1,"__proto__":1.50},[2,"b",null,["a",null]]]}',
      status: 201,
      result: { rowCount: 2, created: true },
      afterwards: async (client) =>
        assert.deepEqual(await client.rows('shop', 'SELECT * FROM items ORDER BY id'), [
          [1, 'new', 1.5, null],
          [2, 'b', null, ['a', null]],
        ]),
    },
    {
      ...refused,
      name: 'a row that is neither',
      body: { rows: [[3, 'c', null, null], 1, 'x', null] },
      pointer: '/rows/1',
    },
    { ...refused, name: 'too few values', body: { rows: [[3]] }, pointer: '/rows/0' },
    { ...refused, name: 'too many values', body: { rows: [[3, 'c', 1, [], 1]] }, pointer: '/rows/0' },
    { ...refused, name: 'a column that is none', body: { rows: [{ id: 3, a: 1 }] }, pointer: '/rows/0/a' },
    { ...refused, name: 'a column in another case', body: { rows: [{ id: 3, SKU: 'x' }] }, pointer: '/rows/0/SKU' },
    { ...refused, name: 'a wrong type', body: { rows: [{ id: '3' + 'x' }] }, pointer: '/rows/0/id' },
    { ...refused, name: 'a wrong type in an array', body: { rows: [[true, 'c', null, null]] }, pointer: '/rows/0/0' },
    { ...refused, name: 'half a number', body: { rows: [{ id: 3.5 }] }, pointer: '/rows/0/id' },
    { ...refused, name: 'a number too large', body: '{"rows":[{"id":1e400}]}', pointer: '/rows/0/id' },
    {
      ...refused,
      name: 'digits that would be lost',
      body: '{"rows":[{"id":3,"__proto__":1.005}]}',
      pointer: '/rows/0/__proto__',
    },
    { ...refused, name: 'a text too long', body: { rows: [{ id: 3, sku: tooLong }] }, pointer: '/rows/0/sku' },
    { ...refused, name: 'NULL where there is none', body: { rows: [{ id: 3, sku: null }] }, pointer: '/rows/0/sku' },
    { ...refused, name: 'a key left out', body: { rows: [{ sku: 'c' }] }, pointer: '/rows/0/id' },
    {
      ...refused,
      name: 'a wrong value inside',
      body: { rows: [{ id: 3, tags: ['a', 1] }] },
      pointer: '/rows/0/tags/1',
    },
    {
      ...refused,
      name: 'every row that is wrong is named',
      body: { rows: [{ id: 3 }, { id: 'x' }, { id: 4 }, { id: 'y' }] },
      result: { violations: [{ pointer: '/rows/1/id' }, { pointer: '/rows/3/id' }] },
    },
    {
      ...refused,
      name: 'of a thousand, the first hundred and how many there are',
      body: { rows: Array(1000).fill({ id: 'x' }) },
      result: { violationCount: 1000 },
    },
    {
      name: 'a key that is there: its row by index, nothing inserted',
      method: 'POST',
      url: items,
      body: {
        rows: [
          { id: 3, sku: 'c' },
          { id: 1, sku: 'd' },
        ],
      },
      status: 400,
      code: 'CONSTRAINT_VIOLATED',
      pointer: '/rows/1',
      afterwards: nothingNew,
    },
    {
      name: 'a key twice in one request',
      method: 'POST',
      url: items,
      body: {
        rows: [
          { id: 3, sku: 'c' },
          { id: 3, sku: 'd' },
        ],
      },
      status: 400,
      code: 'CONSTRAINT_VIOLATED',
      afterwards: nothingNew,
    },
    {
      name: 'the unique key',
      method: 'POST',
      url: items,
      body: '{"rows":[{"id":3,"sku":"new","__proto__":1.5}]}',
      status: 400,
      code: 'CONSTRAINT_VIOLATED',
      pointer: '/rows/0',
      afterwards: nothingNew,
    },
    {
      name: 'no rows',
      method: 'POST',
      url: items,
      body: { rows: [] },
      status: 400,
      code: 'INVALID_PARAMETER',
      pointer: '/rows',
    },
    {
      name: 'rows that are no list',
      method: 'POST',
      url: items,
      body: { rows: {} },
      status: 400,
      code: 'INVALID_PARAMETER',
      pointer: '/rows',
    },
    {
      name: 'into a table that is not there',
      method: 'POST',
      url: `${tables}/nothing/rows`,
      body: { rows: [[1]] },
      status: 404,
      code: 'OBJECT_NOT_FOUND',
      result: { category: 'tables', name: 'nothing' },
    },
  ],
);

test('strings with special characters are returned as they were inserted', async () => {
  const values = [
    '',
    ' ',
    '\u0000',
    'a\u0000b',
    '\\',
    '"',
    "'",
    '\n\r\t',
    ',',
    '\u2028',
    '😀',
    'NULL',
    'null',
    '\\N',
    '\u0001',
    '$1',
    '{}',
    'é',
    'x'.repeat(100_000),
  ];
  (
    await server.post(tables, {
      name: 'texts',
      columns: [
        { name: 'i', type: 'INT' },
        { name: 't', type: 'STRING' },
        { name: 'j', type: 'JSON' },
      ],
    })
  ).is(201);
  const rows = values.map((value, i) => [i, value, { [value]: [value] }]);
  (await server.post(`${tables}/texts/rows`, { rows })).is(201);
  assert.deepEqual(await server.rows('shop', 'SELECT * FROM texts ORDER BY i'), rows);
  for (const value of values)
    assert.deepEqual(
      await server.rows('shop', 'SELECT t = $1, CAST($1 AS VARCHAR) FROM texts WHERE t = $1', [value]),
      [[true, value]],
      JSON.stringify(value),
    );
});

test('numbers at their limits, inserted and returned', async () => {
  const columns = ['DOUBLE', 'FLOAT', 'LARGEINT', 'DECIMAL(38,38)', 'BIGINT'].map((type, i) => ({
    name: `c${i}`,
    type,
  }));
  (await server.post(tables, { name: 'numbers', columns })).is(201);
  const rows = [
    '"NaN","NaN",-170141183460469231731687303715884105727,0.12345678901234567890123456789012345678,9223372036854775807',
    '"Infinity","-Infinity",170141183460469231731687303715884105727,-0.99999999999999999999999999999999999999,-9223372036854775808',
    '1.7976931348623157e308,3.4028234663852886e38,0,0,0',
    '5e-324,1e-45,9007199254740993,0.00000000000000000000000000000000000001,9007199254740993',
  ];
  const body = `{"rows":[${rows.map((row) => `[${row}]`)}]}`;
  (await server.request('POST', `${tables}/numbers/rows`, { body })).is(201);
  const { text } = await server.query('shop', 'SELECT * FROM numbers');
  for (const row of rows.slice(0, 2)) assert.ok(text.includes(`[${row}]`), text);
  for (const part of [
    '1.7976931348623157e308',
    '5e-324',
    '9007199254740993,0.00000000000000000000000000000000000001,9007199254740993',
  ])
    assert.ok(text.replaceAll('e+', 'e').includes(part), `${part}: ${text}`);
  for (const wrong of ['1e400', '-1e400', '1.8e308', '"1e5"', '"inf"']) {
    const reply = await server.request('POST', `${tables}/numbers/rows`, { body: `{"rows":[[${wrong},0,0,0,0]]}` });
    reply.is(400, 'ROWS_INVALID');
  }
});

test('rows are read page by page to the end', async () => {
  (await server.post(tables, { name: 'many', columns: [{ name: 'i', type: 'INT' }] })).is(201);
  (await server.post(`${tables}/many/rows`, { rows: Array.from({ length: 250 }, (_, i) => [i]) })).is(201);
  const values: number[] = [];
  let token = '';
  for (let page = 0; page < 3; page++) {
    const reply = (await server.get(`${tables}/many/rows?pageSize=100${token}`)).is(200);
    values.push(...reply.at<{ i: number }[]>('rows').map((row) => row.i));
    const next = reply.at<string | undefined>('nextPageToken');
    assert.equal(next === undefined, page === 2);
    token = `&pageToken=${next}`;
  }
  assert.deepEqual(
    values,
    Array.from({ length: 250 }, (_, i) => i),
  );
  (await server.get(`${tables}/texts/rows?pageSize=1${token}`)).is(400, 'INVALID_PAGE_TOKEN');
});

test('a body with more rows than the limit is refused', async () => {
  const body = `{"rows":[["${'x'.repeat(8 * 1024 * 1024)}"]]}`;
  (await server.request('POST', items, { body })).is(400, 'BODY_TOO_LARGE', { bytesMax: 8 * 1024 * 1024 });
});

test('concurrent inserts are all applied', async () => {
  (await server.post(tables, { name: 'busy', columns: [{ name: 'i', type: 'INT' }], primaryKey: ['i'] })).is(201);
  const insert = (i: number) => server.post(`${tables}/busy/rows`, { rows: [[i], [i + 1000]] });
  for (const reply of await Promise.all(Array.from({ length: 40 }, (_, i) => insert(i)))) reply.is(201);
  assert.deepEqual(await server.rows('shop', 'SELECT count(*), sum(i) FROM busy'), [[80, 41560]]);
});
