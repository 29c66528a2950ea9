// What the service reports about statements: profiles, plans, and a history in which each statement is found by each of its fields.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { newPerson } from '../../access/people.ts';
import { endOfTask, start, type TestServer } from '../../server.ts';

let server: TestServer;
const database = '/api/v2/databases/shop';
before(async () => {
  server = await start();
  (await server.put(database)).is(201);
  (await server.post(`${database}/tables`, { sql: 'CREATE TABLE t (i INT, s TEXT)' })).is(201);
  (await server.query('shop', "INSERT INTO t SELECT range, 's' || range FROM range(10000)")).is(200);
});
after(() => server.close());

interface Operator {
  readonly operator_name?: string;
  readonly operator_cardinality?: number;
  readonly children: readonly Operator[];
}
const operators = (operator: Operator): Operator[] => [operator, ...operator.children.flatMap(operators)];
const profile = (sql: string, more: object = {}) => server.post(`${database}/profile`, { sql, ...more });

test('a profile shows the work of each operator, and no rows', async () => {
  const sql = 'SELECT s, count(*) FROM t WHERE i >= $1 GROUP BY s ORDER BY s LIMIT 7';
  const reply = (await profile(sql, { parameters: [4000] })).is(200, '0', { rowCount: 7 });
  assert.deepEqual(Object.keys(reply.result).sort(), ['profile', 'queryId', 'rowCount', 'statistics']);
  const all = operators(reply.at('profile'));
  const scan = all.find(({ operator_name: name }) => name?.includes('SCAN'));
  assert.equal(scan?.operator_cardinality, 6000);
  assert.ok(all.some(({ operator_name: name }) => name?.includes('GROUP_BY')));
  assert.ok(reply.at<number>('profile', 'latency') > 0);
  const entry = await server.get(`/api/v2/queries/${reply.at<string>('queryId')}`);
  entry.is(200, '0', { sql, kind: 'select', state: 'succeeded', rowCount: 7, resultBytes: 0 });
});

test('texts that JSON has to escape are preserved', async () => {
  const text = 'quote " back \\ tab \t line \n é 𝄞 \u0001';
  const sql = `SELECT i AS "a ""b"" \\ \n" FROM t WHERE concat(s, '${text}') <> $1 -- the end`;
  const reply = (await profile(sql, { parameters: [text] })).is(200, '0', { rowCount: 10_000 });
  assert.ok(JSON.stringify(reply.result).includes('𝄞'), JSON.stringify(reply.result));
});

test('statements that write are not run for a profile', async () => {
  for (const sql of ['DELETE FROM t', 'INSERT INTO t VALUES (1, NULL)', 'UPDATE t SET i = 0'])
    (await profile(sql)).is(400, 'SQL_NOT_SUPPORTED');
  assert.deepEqual(await server.rows('shop', 'SELECT count(*), sum(i) FROM t'), [[10_000, 49_995_000]]);
  (await profile('SELECT 1; SELECT 2')).is(400, 'SQL_NOT_SUPPORTED');
  (await profile('SELECT nothing FROM t')).is(400, 'SQL_INVALID', { line: 1, column: 8 });
  (await profile("SELECT CASE WHEN i > 9000 THEN error('late') END FROM t")).is(400, 'SQL_INVALID');
  (await profile("SELECT * FROM read_csv('/etc/passwd')")).is(400, 'SQL_FORBIDDEN_FUNCTION');
});

test('a profile uses the privileges of the caller and the limits of statements', async () => {
  const person = await newPerson(server, 'watcher', [
    ['use', '/warehouses'],
    ['create', '/catalogs/default/databases/shop'],
  ]);
  (await person.post(`${database}/profile`, { sql: 'SELECT * FROM t' })).is(403, 'FORBIDDEN');
  const endless = 'SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b';
  (await server.patch('/api/v2/warehouses/default', { statementTimeoutSeconds: 1 })).is(200);
  (await profile(endless)).is(400, 'STATEMENT_TIMEOUT');
  (await server.patch('/api/v2/warehouses/default', { statementTimeoutSeconds: 3600 })).is(200);
});

test('a profile without waiting is the result of a task', async () => {
  const task = await server.ended(await profile('SELECT count(*) FROM t', { waitSeconds: 0 }));
  task.is(200, '0', { state: 'succeeded', type: 'profile_query', result: { rowCount: 1 } });
  assert.equal(task.at('firstPage'), undefined);
  assert.ok(operators(task.at('result', 'profile')).length > 2);
  (await server.get(`${task.at<string>('uri')}/pages/0`)).is(404, 'OBJECT_NOT_FOUND');
  const uri = (
    await profile('SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b', { waitSeconds: 0 })
  )
    .is(202)
    .at<string>('uri');
  while ((await server.get(uri)).at('state') !== 'running');
  (await server.post(`${uri}/cancel`)).is(200);
  (await endOfTask(server, uri)).is(200, '0', { state: 'cancelled' });
});

const slow = 'SELECT max(hash(a.range, b.range)) AS slow FROM range(10000) a, range(40000) b WHERE a.range > $1';

test('the history stores the plan of slow statements; for others a plan is computed on request', async () => {
  const { queryId } = (await server.query('shop', slow, { parameters: [1] })).is(200).result;
  const record = (await server.get(`/api/v2/queries/${queryId}`)).is(200);
  assert.ok(record.at<number>('elapsedMs') >= 250, `${record.at('elapsedMs')} ms: make the statement longer`);
  assert.match(record.at('plan'), /RANGE/);
  const quick = (await server.query('shop', 'SELECT s FROM t WHERE i = $1', { parameters: [5] })).is(200).result;
  (await server.get(`/api/v2/queries/${quick.queryId}`)).is(200, '0', { plan: null });
  const explainReply = await server.post(`/api/v2/queries/${quick.queryId}/explain`, { parameters: [5] });
  assert.match(explainReply.is(200).at('plan'), /SCAN/);
  (await server.post(`/api/v2/queries/${quick.queryId}/explain`)).is(400, 'PARAMETERS_INVALID');
  const listed = (await server.post('/api/v2/queries/search', { planText: 'range' })).at<object[]>('queries');
  assert.ok(listed.length > 0 && listed.every((entry) => !('plan' in entry)));
});

test('explain accepts the parameters of a statement', async () => {
  const sql = 'SELECT s FROM t WHERE i = $n';
  const reply = await server.post(`${database}/explain`, { sql, parameters: { n: 77 } });
  assert.match(reply.is(200).at('plan'), /77/);
});

test('a plan requires the privilege to run the statement', async () => {
  const sql = 'SELECT s FROM t WHERE i = 1';
  const { queryId } = (await server.query('shop', sql)).is(200).result;
  const person = await newPerson(server, 'clerk', [
    ['read', '/queries'],
    ['use', '/warehouses'],
  ]);
  (await person.get(`/api/v2/queries/${queryId}`)).is(200, '0', { sql });
  (await person.post(`/api/v2/queries/${queryId}/explain`)).is(403, 'FORBIDDEN');
});

test('a statement is found by any field of its history entry', async () => {
  const search = async (body: object) =>
    (await server.post('/api/v2/queries/search', body)).is(200).at<{ queryId: string }[]>('queries');
  const sql = "SELECT i, 'sought' AS mark FROM t";
  const before = new Date().toISOString();
  const succeeded = (await server.query('shop', sql)).is(200).result;
  const failed = (await server.query('shop', 'SELECT sought_by_nobody FROM t')).is(400, 'SQL_INVALID').result;
  const { elapsedMs, resultBytes, createdAt } = (await server.get(`/api/v2/queries/${succeeded.queryId}`)).result;
  const filter = { text: 'SOUGHT', from: before };
  const searchIds = async (body: object) => (await search({ ...filter, ...body })).map((entry) => entry.queryId);
  assert.deepEqual(await searchIds({}), [failed.queryId, succeeded.queryId]);
  for (const body of [
    { rowCountMin: 10_000 },
    { resultBytesMin: resultBytes },
    { elapsedMsMin: elapsedMs, rowCountMin: 1 },
    { queuedMsMin: 0, state: 'succeeded' },
    { kind: 'select', warehouse: 'default', catalog: 'default', database: 'shop', submittedBy: 'root', rowCountMin: 1 },
  ])
    assert.deepEqual(await searchIds(body), [succeeded.queryId], JSON.stringify(body));
  for (const body of [{ errorCode: 'SQL_INVALID' }, { errorText: 'SOUGHT_BY_nobody' }, { state: 'failed' }])
    assert.deepEqual(await searchIds(body), [failed.queryId], JSON.stringify(body));
  for (const body of [
    { rowCountMin: 10_001 },
    { resultBytesMin: (resultBytes as number) + 1 },
    { elapsedMsMin: 1e9 },
    { queuedMsMin: 1e9 },
    { errorText: '%nobody' },
    { kind: 'delete' },
    { warehouse: 'other' },
    { catalog: 'other' },
    { database: 'other' },
    { submittedBy: 'nobody' },
    { to: createdAt },
    { from: '2999-01-01T00:00:00Z' },
  ])
    assert.deepEqual(await searchIds(body), [], JSON.stringify(body));
  (await server.post('/api/v2/queries/search', { from: 'yesterday' })).is(400, 'INVALID_PARAMETER');
});
