// Tasks and the history of queries: waiting, cancelling, deleting, ordered lists, searches, and restarts.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { newPerson } from '../../access/people.ts';
import { deadlineMs } from '../../deadline.ts';
import { endOfTask, start, type TestServer } from '../../server.ts';

let server: TestServer;
const endless = 'SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b';
before(async () => {
  server = await start({ taskRunnersMax: 1, warehouseThreads: 1 });
  (await server.put('/api/v2/databases/shop')).is(201);
});
after(() => server.close());

const submit = async (sql: string) => (await server.query('shop', sql, { waitSeconds: 0 })).is(202).at<string>('uri');

test('waiting ends with the task, and not before', async () => {
  const uri = await submit(endless);
  const started = performance.now();
  (await server.get(`${uri}?waitSeconds=1`)).is(200, '0', { state: 'running' });
  assert.ok(performance.now() - started >= 900, 'the whole second');
  const waiting = server.get(`${uri}?waitSeconds=60`);
  (await server.post(`${uri}/cancel`)).is(200);
  (await waiting).is(200, '0', { state: 'cancelled' });
  assert.ok(performance.now() - started < deadlineMs(30_000));
  (await server.get(`${uri}?waitSeconds=61`)).is(400, 'INVALID_PARAMETER');
  (await server.get('/api/v2/tasks/nothing?waitSeconds=1')).is(404, 'OBJECT_NOT_FOUND', { category: 'tasks' });
});

test('cancelling an ended task changes nothing; a cancelled pending task never runs', async () => {
  const ended = await submit('SELECT 1');
  (await endOfTask(server, ended)).is(200, '0', { state: 'succeeded' });
  for (let i = 0; i < 2; i++) (await server.post(`${ended}/cancel`)).is(200, '0', { state: 'succeeded' });
  const [first, second] = [await submit(endless), await submit('SELECT 2')];
  (await server.get(second)).is(200, '0', { state: 'pending', attempt: 0, startedAt: null, progress: null });
  (await server.post(`${second}/cancel`)).is(200, '0', { state: 'cancelled' });
  (await server.delete(first)).is(200, '0', { deleted: true });
  (await server.get(first)).is(404, 'OBJECT_NOT_FOUND');
  (await server.get(second)).is(200, '0', { state: 'cancelled', startedAt: null });
  const third = await submit('SELECT 3');
  (await endOfTask(server, third)).is(200, '0', { state: 'succeeded' });
});

test('a task record shows its submitter, action, times and result', async () => {
  const uri = await submit('SELECT 42 AS answer');
  const task = (await endOfTask(server, uri)).is(200, '0', {
    type: 'run_query',
    submittedBy: 'root',
    createdBy: 'root',
    attempt: 1,
    request: { sql: 'SELECT 42 AS answer', catalog: 'default', database: 'shop' },
    result: { columns: [{ name: 'answer', type: 'INT' }], rowCount: 1, pageCount: 1 },
    cancelUri: `${uri}/cancel`,
  });
  const times = ['submittedAt', 'startedAt', 'endedAt'].map((field) => task.at<string>(field));
  assert.deepEqual(times, times.toSorted());
  for (const time of times) assert.match(time, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
});

test('tasks are listed newest first, page by page', async () => {
  const uris: string[] = [];
  for (let i = 0; i < 5; i++) uris.push(await submit(`SELECT ${i} AS listed`));
  for (const uri of uris) (await endOfTask(server, uri)).is(200, '0', { state: 'succeeded' });
  const states: string[] = [];
  let token: string | undefined;
  do {
    const page = (await server.get(`/api/v2/tasks?pageSize=2${token === undefined ? '' : `&pageToken=${token}`}`)).is(
      200,
    );
    states.push(...page.at<{ uri: string }[]>('tasks').map((task) => task.uri));
    token = page.at('nextPageToken');
  } while (token !== undefined);
  assert.deepEqual(states.slice(0, 5), uris.reverse());
  assert.equal(new Set(states).size, states.length);
});

test('the history contains every statement: found by state, text and caller, deleted one by one', async () => {
  (await server.query('shop', "SELECT 'needle' AS hay")).is(200);
  (await server.query('shop', 'SELECT needle FROM nothing')).is(400, 'SQL_INVALID');
  const search = async (body: object) =>
    (await server.post('/api/v2/queries/search', body)).is(200).at<Record<string, unknown>[]>('queries');
  const [bad, good] = await search({ text: 'NEEDLE' });
  assert.partialDeepStrictEqual(good, {
    state: 'succeeded',
    kind: 'select',
    rowCount: 1,
    database: 'shop',
    error: null,
    createdBy: 'root',
  });
  assert.partialDeepStrictEqual(bad, { state: 'failed', error: { code: 'SQL_INVALID' } });
  assert.deepEqual(await search({ text: 'needle', state: 'failed' }), [bad]);
  assert.deepEqual(await search({ text: 'needle', submittedBy: 'nobody' }), []);
  assert.deepEqual(await search({ text: '%needle' }), [], 'no pattern, a part of the text');
  const page = (await server.post('/api/v2/queries/search', { pageSize: 1 })).is(200);
  const next = { pageSize: 1, pageToken: page.at('nextPageToken') };
  assert.notDeepEqual((await search(next))[0]?.queryId, page.at('queries', 0, 'queryId'));
  (await server.get(good?.uri as string)).is(200, '0', { queryId: good?.queryId });
  (await server.delete(good?.uri as string)).is(200, '0', { deleted: true });
  (await server.delete(good?.uri as string)).is(200, '0', { deleted: false });
  (await server.get(good?.uri as string)).is(404, 'OBJECT_NOT_FOUND');
});

test('a failed query refers to its entry in the history; the query of a task refers to the task', async () => {
  const failed = (await server.query('shop', 'SELECT nothing')).is(400, 'SQL_INVALID');
  (await server.get(`/api/v2/queries/${failed.at<string>('queryId')}`)).is(200, '0', { state: 'failed' });
  const uri = await submit('SELECT 7 AS tasked');
  const task = (await endOfTask(server, uri)).is(200);
  (await server.get(`/api/v2/queries/${task.at<string>('result', 'queryId')}`)).is(200, '0', { task: uri });
});

test('DML in a task is applied once', async () => {
  (await server.post('/api/v2/databases/shop/tables', { sql: 'CREATE TABLE once (i INT)' })).is(201);
  const uri = await submit('INSERT INTO once SELECT range FROM range(10)');
  (await endOfTask(server, uri)).is(200, '0', { state: 'succeeded', result: { rowCount: 10 } });
  assert.deepEqual(await server.rows('shop', 'SELECT count(*) FROM once'), [[10]]);
});

test('a task can precede others, or depend on some that the caller may read', async () => {
  const blocker = await submit(endless);
  const submitQuery = async (sql: string, more: object) => {
    const accepted = (await server.query('shop', sql, { waitSeconds: 0, ...more })).is(202);
    return { uri: accepted.at<string>('uri'), taskId: accepted.at<string>('taskId') };
  };
  const low = await submitQuery('SELECT 1', { priority: 'low' });
  const high = await submitQuery('SELECT 2', { priority: 'high', after: [low.taskId] });
  (await server.get(low.uri)).is(200, '0', { priority: 'low', after: [] });
  (await server.get(high.uri)).is(200, '0', { state: 'pending', priority: 'high', after: [low.taskId] });
  const third = (await server.query('shop', 'SELECT 3', { after: [high.taskId] })).is(202).at<string>('uri');
  (await server.post(`${blocker}/cancel`)).is(200);
  (await endOfTask(server, third)).is(200, '0', { state: 'succeeded', priority: 'normal' });
  (await server.get(low.uri)).is(200, '0', { state: 'succeeded' });
  const failing = await submitQuery('SELECT nothing', {});
  const after = await submitQuery('SELECT 4', { after: [failing.taskId] });
  (await endOfTask(server, after.uri)).is(200, '0', {
    state: 'failed',
    error: { code: 'TASK_DEPENDENCY_FAILED', result: { taskId: failing.taskId, state: 'failed' } },
  });
  const refused = { waitSeconds: 0, after: [low.taskId, 'none'] };
  (await server.query('shop', 'SELECT 5', refused)).is(400, 'INVALID_PARAMETER', {
    violations: [{ pointer: '/after/1' }],
  });
  (await server.query('shop', 'SELECT 5', { waitSeconds: 3, after: [low.taskId] })).is(400, 'INVALID_PARAMETER');
  (await server.query('shop', 'SELECT 5', { priority: 'urgent' })).is(400, 'INVALID_PARAMETER');
});

test('a task of another principal cannot be a dependency', async () => {
  const waitingTask = (await server.query('shop', 'SELECT 1', { waitSeconds: 0 })).is(202).at<string>('taskId');
  const other = await newPerson(server, 'other', [
    ['read', '/catalogs/default'],
    ['use', '/warehouses/default'],
  ]);
  const after = (body: object) => other.query('shop', 'SELECT 2', { waitSeconds: 0, ...body });
  const unseenTask = (await after({ after: [waitingTask] })).is(400, 'INVALID_PARAMETER');
  const missing = (await after({ after: ['019aa0b4-7c1e-7d3a-9c55-0f6c1a2b3c4d'] })).is(400, 'INVALID_PARAMETER');
  const withoutIds = (text: string) => text.replace(/[0-9a-f]{8}-[-0-9a-f]{27}/g, 'ID');
  assert.equal(withoutIds(unseenTask.message), withoutIds(missing.message), 'it is as if it were not there');
  const ownTaskId = (await after({})).is(202).at<string>('taskId');
  (await server.ended(await after({ after: [ownTaskId] }))).is(200, '0', { state: 'succeeded' });
});
