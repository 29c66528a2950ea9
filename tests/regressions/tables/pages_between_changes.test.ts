// Pages of lists and of rows while others delete, insert, rename and rewrite: nothing that existed throughout is skipped or
// repeated, and a token that is no longer valid is refused (rest-standard B3).
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { start, type TestServer } from '../../server.ts';

let server: TestServer;
const tables = '/api/v2/databases/d/tables';

before(async () => {
  server = await start();
  await server.client.databases.create({ name: 'd' });
});
after(() => server.close());

async function table(name: string, rows: number, definition: object = {}): Promise<string> {
  const columns = [
    { name: 'n', type: 'BIGINT', nullable: false },
    { name: 'list', type: 'ARRAY<BIGINT>' },
  ];
  (await server.post(tables, { name, columns, ...definition })).is(201);
  await sql(`INSERT INTO ${name} SELECT i, [i] FROM range(${rows}) r(i)`);
  return `${tables}/${name}/rows`;
}

async function optimized(name: string): Promise<void> {
  const ended = await server.ended(await server.post(`${tables}/${name}/optimize`));
  ended.is(200, undefined, { state: 'succeeded' });
}

async function sql(text: string): Promise<void> {
  (await server.post('/api/v2/databases/d/query', { sql: text })).is(200);
}

async function page(uri: string, pageSize: number, token?: string) {
  const reply = await server.get(`${uri}?pageSize=${pageSize}${token === undefined ? '' : `&pageToken=${token}`}`);
  reply.is(200);
  const numbers = reply.at<{ n: number }[]>('rows').map(({ n }) => n);
  return { numbers, token: reply.at<string | undefined>('nextPageToken') };
}

const definitions = [
  { name: 'no_key', definition: {} },
  { name: 'primary_key', definition: { primaryKey: ['n'] } },
  { name: 'unique_key', definition: { unique_key_constraints: ['n'] } },
];

for (const { name, definition } of definitions) {
  test(`rows of a table with ${name}: deletions and insertions between pages cause no row to be skipped or repeated`, async () => {
    const uri = await table(name, 10, definition);
    const first = await page(uri, 3);
    assert.deepEqual(first.numbers, [0, 1, 2]);
    await sql(`DELETE FROM ${name} WHERE n IN (0, 2)`);
    const second = await page(uri, 3, first.token);
    assert.deepEqual(second.numbers, [3, 4, 5]);
    await sql(`INSERT INTO ${name} VALUES (10, NULL)`);
    await sql(`DELETE FROM ${name} WHERE n IN (5, 7)`);
    const third = await page(uri, 100, second.token);
    assert.deepEqual(third.numbers, [6, 8, 9, 10]);
    assert.equal(third.token, undefined);
  });
}

/** A row group of the engine: only groups in which every row is deleted are certain to be freed. */
const groupRows = 122_880;

test('a checkpoint that renumbers rows invalidates the tokens of a table without a key, not those of one with a key', async () => {
  for (const { name, definition } of definitions) {
    const renumbered = `renumbered_${name}`;
    const uri = await table(renumbered, 2 * groupRows, definition);
    await optimized(renumbered);
    const last = { numbers: [] as number[], token: undefined as string | undefined };
    while (last.numbers.at(-1) !== 4) Object.assign(last, await page(uri, 1, last.token));
    await sql(`DELETE FROM ${renumbered} WHERE n < ${groupRows} AND n <> 3`);
    await optimized(renumbered);
    const next = await server.get(`${uri}?pageSize=1&pageToken=${last.token}`);
    if (name === 'no_key') next.is(400, 'INVALID_PAGE_TOKEN');
    else assert.deepEqual(next.is(200).at('rows', 0, 'n'), groupRows);
    assert.deepEqual((await page(uri, 2)).numbers, [3, groupRows]);
  }
});

test('checkpoints and inserts in a busy catalog do not invalidate the tokens of a table without deletions', async () => {
  const uri = await table('quiet', 10);
  await table('busy', 10);
  const first = await page(uri, 3);
  let removed = 0;
  const checkpoint = async () => {
    await sql(`DELETE FROM busy WHERE n = ${removed++}`);
    await optimized('busy');
  };
  for (let i = 0; i < 3; i++) {
    await sql(`INSERT INTO quiet VALUES (${10 + i}, NULL)`);
    await checkpoint();
  }
  const second = await page(uri, 3, first.token);
  assert.deepEqual(second.numbers, [3, 4, 5]);
  // A failed write counts as one that may have moved rows.
  (await server.post('/api/v2/databases/d/query', { sql: 'INSERT INTO quiet VALUES (NULL, NULL)' })).is(
    400,
    'CONSTRAINT_VIOLATED',
  );
  await checkpoint();
  (await server.get(`${uri}?pageSize=3&pageToken=${second.token}`)).is(400, 'INVALID_PAGE_TOKEN');
  const samePage = await page(uri, 6);
  await sql('UPDATE quiet SET list = [n, n] WHERE n = 1');
  await checkpoint();
  (await server.get(`${uri}?pageSize=3&pageToken=${samePage.token}`)).is(400, 'INVALID_PAGE_TOKEN');
});

test('rows of a table with a column named like the row id are paged', async () => {
  (await server.post(tables, { name: 'ids', columns: [{ name: 'RowId', type: 'STRING' }] })).is(201);
  (await server.post(`${tables}/ids/rows`, { rows: [['c'], ['b'], ['a']] })).is(201);
  const first = (await server.get(`${tables}/ids/rows?pageSize=2`)).is(200, undefined, {
    rows: [{ RowId: 'c' }, { RowId: 'b' }],
  });
  const next = await server.get(`${tables}/ids/rows?pageSize=2&pageToken=${first.at('nextPageToken')}`);
  assert.deepEqual(next.is(200).result, { rows: [{ RowId: 'a' }] });
});

test('a token belongs to the object, not to its name', async () => {
  const uri = await table('moving', 10);
  const { token } = await page(uri, 4);
  (await server.post(`${tables}/moving/rename`, { newName: 'moved' })).is(200);
  assert.deepEqual((await page(`${tables}/moved/rows`, 1, token)).numbers, [4]);
  await table('moving', 10);
  (await server.get(`${uri}?pageToken=${token}`)).is(400, 'INVALID_PAGE_TOKEN');
  (await server.delete(`${tables}/moved`)).is(200);
  await table('moved', 10);
  (await server.get(`${tables}/moved/rows?pageToken=${token}`)).is(400, 'INVALID_PAGE_TOKEN');
});

test('rewriting a table for another definition invalidates its tokens', async () => {
  const uri = await table('retyped', 10, { primaryKey: ['n'] });
  const { token } = await page(uri, 4);
  await sql('DELETE FROM retyped WHERE n < 3');
  (await server.patch(`${tables}/retyped/columns/n`, { type: 'DECIMAL(38,0)' })).is(200);
  (await server.get(`${uri}?pageToken=${token}`)).is(400, 'INVALID_PAGE_TOKEN');
});

test('every character of a token is significant', async () => {
  const uri = await table('signed', 10);
  const { token = '' } = await page(uri, 4);
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
  const forged = [...alphabet].map((letter) => token.slice(0, -1) + letter).filter((text) => text !== token);
  for (const text of [...forged, `${token}A`, `${token}=`, `%20${token}`, token.slice(0, -1)])
    (await server.get(`${uri}?pageToken=${text}`)).is(400, 'INVALID_PAGE_TOKEN');
});

test('the token of a search is bound to its criteria, not to the page size', async () => {
  for (const name of ['s1', 's2', 's3', 's4'])
    (await server.post(tables, { name, columns: [{ name: 'n', type: 'INT' }] })).is(201);
  const body = { namePattern: 's%', comment: '' };
  const first = (await server.post(`${tables}/search`, { ...body, pageSize: 2 })).is(200);
  const pageToken = first.at('nextPageToken');
  const more = (await server.post(`${tables}/search`, { comment: '', namePattern: 's%', pageToken, pageSize: 1 })).is(
    200,
  );
  assert.deepEqual(more.at('tables', 0, 'name'), 's3');
  for (const other of [{ namePattern: 's%' }, { ...body, namePattern: 'S%' }, { ...body, dropped: true }, {}])
    (await server.post(`${tables}/search`, { ...other, pageToken })).is(400, 'INVALID_PAGE_TOKEN');
  (await server.post('/api/v2/databases/d/views/search', { ...body, pageToken })).is(400, 'INVALID_PAGE_TOKEN');
  (await server.get(`${tables}?pageToken=${pageToken}`)).is(400, 'INVALID_PAGE_TOKEN');
});

test('tasks, queries and audit events are listed newest first, and new ones do not affect later pages', async () => {
  for (const [collection, field, id] of [
    ['tasks', 'tasks', 'taskId'],
    ['queries', 'queries', 'queryId'],
    ['audit_events', 'auditEvents', 'eventId'],
  ] as const) {
    const more = async () => {
      for (let i = 0; i < 3; i++)
        (await server.post('/api/v2/databases/d/query', { sql: `SELECT ${i}`, waitSeconds: 0 })).is(202);
    };
    await more();
    const all = (await server.get(`/api/v2/${collection}`)).is(200).at<Record<string, string>[]>(field);
    const ids = all.map((record) => record[id] as string);
    assert.deepEqual(ids, [...ids].sort().reverse());
    const first = (await server.get(`/api/v2/${collection}?pageSize=2`)).is(200);
    await more();
    const next = (await server.get(`/api/v2/${collection}?pageSize=1&pageToken=${first.at('nextPageToken')}`)).is(200);
    const newest = first.at<string>(field, 1, id);
    assert.ok(next.at<string>(field, 0, id) < newest);
    const older = (await server.get(`/api/v2/${collection}?pageSize=1000`)).is(200).at<Record<string, string>[]>(field);
    const index = older.findIndex((record) => record[id] === newest);
    assert.equal(next.at(field, 0, id), older[index + 1]?.[id]);
  }
});
