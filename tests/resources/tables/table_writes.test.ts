// The actions update, delete_rows and insert_select: their effects, that each fragment must be a single expression or query, and that
// they are executed like all statements (authorization, tasks, idempotency keys, audit).
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { newPerson } from '../../access/people.ts';
import { statementWaitSeconds } from '../../deadline.ts';
import { start, type TestServer } from '../../server.ts';
import { type Scenario, scenarios } from '../scenario.ts';

let server: TestServer;
const shop = '/api/v2/databases/shop';
const orders = `${shop}/tables/orders`;
const strange = 'a "b"; DROP';

before(async () => {
  server = await start();
  (await server.put(shop)).is(201);
  for (const name of ['orders', 'other'])
    (
      await server.post(`${shop}/tables`, {
        name,
        columns: [
          { name: 'id', type: 'INT', nullable: false },
          { name: 'note', type: 'STRING', defaultValue: "'new'" },
          { name: strange, type: 'INT' },
        ],
        primaryKey: ['id'],
      })
    ).is(201);
  (await server.query('shop', "INSERT INTO other VALUES (7, 'seven', 70), (8, 'eight', 80)")).is(200);
});
after(() => server.close());

const first = [
  [1, 'a', 10],
  [2, 'b', 20],
  [3, 'c', null],
];
const rowsNow = () => server.rows('shop', 'SELECT * FROM orders ORDER BY id');
async function resetRows(): Promise<void> {
  (await server.post(`${orders}/truncate`)).is(200);
  (await server.query('shop', "INSERT INTO orders VALUES (1, 'a', 10), (2, 'b', 20), (3, 'c', NULL)")).is(200);
}

interface Case {
  readonly action: 'update' | 'delete_rows' | 'insert_select';
  readonly body: object;
  readonly rowCount: number;
  readonly rows: readonly unknown[][];
}

const [firstRow, secondRow, thirdRow] = first as [unknown[], unknown[], unknown[]];
const cases: readonly Case[] = [
  {
    action: 'update',
    body: { set: { note: "note || '!'" }, where: 'id = 2' },
    rowCount: 1,
    rows: [firstRow, [2, 'b!', 20], thirdRow],
  },
  {
    action: 'update',
    body: { set: { [strange]: '$add + id', note: 'NULL' }, where: 'id < $below', parameters: { add: 5, below: 2 } },
    rowCount: 1,
    rows: [[1, null, 6], secondRow, thirdRow],
  },
  {
    action: 'update',
    body: { set: { note: '(SELECT max(note) FROM other) -- of them' }, where: 'true -- all' },
    rowCount: 3,
    rows: [
      [1, 'seven', 10],
      [2, 'seven', 20],
      [3, 'seven', null],
    ],
  },
  { action: 'update', body: { set: { note: "'x'" }, where: 'id > 100' }, rowCount: 0, rows: first },
  { action: 'delete_rows', body: { where: 'id IN (1, 3)' }, rowCount: 2, rows: [secondRow] },
  { action: 'delete_rows', body: { where: 'id = $1', parameters: [2] }, rowCount: 1, rows: [firstRow, thirdRow] },
  { action: 'delete_rows', body: { where: 'id IN (SELECT id - 6 FROM other)' }, rowCount: 2, rows: [thirdRow] },
  { action: 'delete_rows', body: { where: 'true' }, rowCount: 3, rows: [] },
  {
    action: 'insert_select',
    body: { sql: 'SELECT * FROM other WHERE id = 7;' },
    rowCount: 1,
    rows: [...first, [7, 'seven', 70]],
  },
  {
    action: 'insert_select',
    body: { sql: 'WITH o AS (FROM other) SELECT 1, id FROM o ORDER BY id LIMIT 1 -- one', columns: [strange, 'id'] },
    rowCount: 1,
    rows: [...first, [7, 'new', 1]],
  },
  {
    action: 'insert_select',
    body: { sql: 'VALUES (?, ?, ?)', parameters: [4, 'd', null] },
    rowCount: 1,
    rows: [...first, [4, 'd', null]],
  },
  {
    action: 'insert_select',
    body: { sql: 'SELECT id + 10, note, NULL FROM orders' },
    rowCount: 3,
    rows: [...first, [11, 'a', null], [12, 'b', null], [13, 'c', null]],
  },
];
for (const { action, body, rowCount, rows } of cases)
  test(`${action} ${JSON.stringify(body)}`, async () => {
    await resetRows();
    (await server.post(`${orders}/${action}`, body)).is(200, '0', { rowCount });
    assert.deepEqual(await rowsNow(), rows);
  });

const refusedScenario = (action: string, body: object, code: Scenario['code'], pointer?: string): Scenario => ({
  name: `${action} refuses ${JSON.stringify(body)}`,
  method: 'POST',
  url: `${orders}/${action}`,
  body,
  status: 400,
  ...(code === undefined ? {} : { code }),
  ...(pointer === undefined ? {} : code === 'INVALID_PARAMETER' ? { pointer } : { result: { pointer } }),
  afterwards: async (client) => {
    assert.deepEqual(await client.rows('shop', 'SELECT * FROM orders ORDER BY id'), first);
    assert.equal((await client.rows('shop', 'SELECT * FROM other')).length, 2);
  },
});

/** Each would do something else if it were only inserted into the surrounding text. */
const notOne = [
  '1; DROP TABLE orders',
  '1) --',
  '1) WHERE true --',
  '1), (2',
  '1, 2',
  '1) UNION SELECT (2',
  '1) FROM other WHERE (true',
  '1 FROM other',
  '1 AS x',
  'id) OR (true',
  '1 LIMIT 1',
  'SELECT 1',
  'DISTINCT 1',
  '*',
  'COLUMNS(*)',
  'DEFAULT',
  '',
  ' ',
  '-- nothing',
  '/* open',
  "'open",
  '(',
  '$$open',
  'true) RETURNING (id',
];
test('the table is unchanged by refused actions', resetRows);
scenarios(
  () => server,
  [
    ...notOne.flatMap((text) => {
      const code = text === '' ? 'INVALID_PARAMETER' : 'SQL_INVALID';
      return [
        refusedScenario('update', { set: { [strange]: text }, where: 'true' }, code, `/set/${strange}`),
        refusedScenario('update', { set: { note: "'x'" }, where: text }, code, '/where'),
        refusedScenario('delete_rows', { where: text }, code, '/where'),
      ];
    }),
    ...[
      'SELECT 1; SELECT 2',
      'SELECT 1 RETURNING id',
      "SELECT 9, 'x', 1 ON CONFLICT DO NOTHING",
      'SELECT 1) --',
      '',
      "INSERT INTO other VALUES (1, 'x', 1)",
      'DELETE FROM other',
      'SELECT 1) UNION (SELECT 2',
    ].map((text) =>
      refusedScenario('insert_select', { sql: text }, text === '' ? 'INVALID_PARAMETER' : 'SQL_INVALID', '/sql'),
    ),
    refusedScenario('insert_select', { sql: 'DROP TABLE orders' }, 'SQL_NOT_SUPPORTED', '/sql'),
    refusedScenario('insert_select', { sql: 'SHOW TABLES' }, 'SQL_NOT_SUPPORTED', '/sql'),
    refusedScenario('insert_select', { sql: "SELECT * FROM read_csv('/etc/passwd')" }, 'SQL_FORBIDDEN_FUNCTION'),
    refusedScenario('insert_select', { sql: "SELECT 4, 'd', 1", columns: ['id'] }, 'SQL_INVALID'),
    refusedScenario('insert_select', { sql: 'SELECT 4, 5', columns: ['id', 'id'] }, 'INVALID_PARAMETER', '/columns/1'),
    refusedScenario('insert_select', { sql: 'SELECT 4', columns: ['ID'] }, 'INVALID_PARAMETER', '/columns/0'),
    refusedScenario('insert_select', { sql: 'SELECT id, note, 1 FROM orders' }, 'CONSTRAINT_VIOLATED'),
    refusedScenario('update', { set: { missing: '1' }, where: 'true' }, 'INVALID_PARAMETER', '/set/missing'),
    refusedScenario('update', { set: { 'a/b~': '1' }, where: 'true' }, 'INVALID_PARAMETER', '/set/a~1b~0'),
    refusedScenario('update', { set: {}, where: 'true' }, 'INVALID_PARAMETER', '/set'),
    refusedScenario('update', { set: { note: "'x'" } }, 'INVALID_PARAMETER', '/where'),
    refusedScenario('delete_rows', {}, 'EMPTY_BODY'),
    refusedScenario('update', { set: { id: '1' }, where: 'id > 1' }, 'CONSTRAINT_VIOLATED'),
    refusedScenario('update', { set: { id: 'NULL' }, where: 'true' }, 'CONSTRAINT_VIOLATED'),
    refusedScenario('update', { set: { id: "'word'" }, where: 'true' }, 'SQL_INVALID'),
    refusedScenario('delete_rows', { where: "getenv('HOME') = 'x'" }, 'SQL_FORBIDDEN_FUNCTION'),
    refusedScenario('delete_rows', { where: 'sum(id) > 1' }, 'SQL_INVALID', '/where'),
    {
      name: 'an error of binding names the line of its part',
      method: 'POST',
      url: `${orders}/update`,
      body: { set: { note: "'two\nlines'", [strange]: 'id +\n  missing' }, where: 'true' },
      status: 400,
      code: 'SQL_INVALID',
      result: { pointer: `/set/${strange}`, line: 2, column: 3 },
    },
    {
      name: 'a table that is not there',
      method: 'POST',
      url: `${shop}/tables/none/delete_rows`,
      body: { where: 'true' },
      status: 404,
      code: 'OBJECT_NOT_FOUND',
    },
  ],
);

test('privileges: on the written table, and on every table that the plan reads', async () => {
  await resetRows();
  const tablesTarget = `/catalogs/default${shop.slice('/api/v2'.length)}/tables`;
  const use = ['use', '/warehouses/default'] as const;
  const writer = await newPerson(server, 'writer', [['write', `${tablesTarget}/orders`], use]);
  const update = { set: { note: "'x'" }, where: 'id = 1' };
  (await writer.post(`${orders}/update`, update)).is(403, 'FORBIDDEN');
  (await writer.post(`${orders}/insert_select`, { sql: "SELECT 4, 'd', 1" })).is(200, '0', { rowCount: 1 });
  (await writer.post(`${orders}/insert_select`, { sql: 'SELECT * FROM other' })).is(403, 'FORBIDDEN');
  const personWithBoth = await newPerson(server, 'both', [
    ['write', `${tablesTarget}/orders`],
    ['read', `${tablesTarget}/orders`],
    use,
  ]);
  (await personWithBoth.post(`${orders}/update`, update)).is(200, '0', { rowCount: 1 });
  (await personWithBoth.post(`${orders}/update`, { ...update, where: 'id IN (SELECT id FROM other)' })).is(
    403,
    'FORBIDDEN',
  );
  (await personWithBoth.post(`${shop}/tables/other/delete_rows`, { where: 'true' })).is(403, 'FORBIDDEN');
  const reader = await newPerson(server, 'reader', [['read', `${tablesTarget}`.replace('/tables', '')], use]);
  (await reader.post(`${orders}/delete_rows`, { where: 'true' })).is(403, 'FORBIDDEN');
  assert.equal((await rowsNow()).length, 4);
});

test('as a task, applied once however often it is sent with its key, and recorded in the audit trail', async () => {
  await resetRows();
  const task = await server.post(`${orders}/update`, { set: { [strange]: 'id' }, where: 'true', waitSeconds: 0 });
  task.is(202, '0', { type: 'run_query', target: '/api/v2/catalogs/default/databases/shop/tables/orders' });
  (await server.ended(task)).is(200, '0', { state: 'succeeded' });
  const body = { set: { [strange]: `"${strange.replaceAll('"', '""')}" + 1` }, where: 'id = 1' };
  for (const requestId of ['keyed-update', 'keyed-again']) {
    const headers = { 'x-service-idempotency-key': 'key-1', 'x-service-request-id': requestId };
    (await server.request('POST', `${orders}/update`, { body, headers })).is(200, '0', { rowCount: 1 });
  }
  assert.deepEqual(await server.rows('shop', 'SELECT * FROM orders WHERE id = 1'), [[1, 'a', 2]]);
  const events = await server.post('/api/v2/audit_events/search', { requestId: 'keyed-update' });
  const outcomes = events.at<{ action: string; outcome: string }[]>('auditEvents');
  assert.deepEqual(new Set(outcomes.map(({ action }) => action)), new Set(['tables.update_rows']));
  assert.deepEqual(outcomes.map(({ outcome }) => outcome).sort(), ['0', 'begun']);
});

test('optimize: a task that frees the space of deleted rows and keeps the others', async () => {
  const waitSeconds = statementWaitSeconds();
  (
    await server.post(`${shop}/tables`, {
      name: 'large',
      asSelect: { sql: 'SELECT range AS id, md5(range::TEXT) AS v FROM range(200000)', waitSeconds },
    })
  ).is(201);
  const allBytes = (await server.get(`${shop}/tables/large`)).is(200).at<number>('statistics', 'dataBytes');
  (await server.post(`${shop}/tables/large/delete_rows`, { where: 'id >= 1000', waitSeconds })).is(200, '0', {
    rowCount: 199_000,
  });
  const task = (await server.post(`${shop}/tables/large/optimize`)).is(202, '0', { type: 'optimize_table' });
  const ended = (await server.ended(task)).is(200, '0', { state: 'succeeded', result: { rowCount: 1000 } });
  const { dataBytes, dataBytesBefore } = ended.at<{ dataBytes: number; dataBytesBefore: number }>('result');
  // The engine may have written the file on its own before: then there was nothing left to free.
  assert.ok(dataBytes <= dataBytesBefore, `${dataBytesBefore} bytes became ${dataBytes}`);
  assert.ok(dataBytes < allBytes, `${allBytes} bytes of 200 times as many rows became ${dataBytes}`);
  assert.deepEqual(
    await server.rows(
      'shop',
      'SELECT count(*), sum(id), min(v) = (SELECT min(md5(range::TEXT)) FROM range(1000)) FROM large',
    ),
    [[1000, 499_500, true]],
  );
});
