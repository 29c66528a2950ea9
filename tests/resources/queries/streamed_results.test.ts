// A result of several pages: the first page is sent while later ones are computed, each is complete, and a page that cannot be computed
// any more responds with the failure.
import assert from 'node:assert/strict';
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { eventually, statementWaitSeconds } from '../../deadline.ts';
import { fileStoreOf } from '../../file_stores.ts';
import { endOfTask, type Reply, start, startProcess, type TestServer } from '../../server.ts';

const fileStore = fileStoreOf(import.meta.url);
let server: TestServer;
const pageBytesMax = 64 * 1024;
const mebibyte = 1024 * 1024;
before(async () => {
  const limits = { pageBytesMax, principalResultBytesMax: 64 * mebibyte, principalTasksMax: 3 };
  server = await start({ ...limits, ...(await fileStore.settings()) });
});
after(() => server.close());

/** Takes minutes, but not for its first pages. */
const slow = `SELECT i, repeat('x', 100) AS t, list_sum(list_transform(range(500), lambda x: x * i)) AS n FROM range(10000000) AS r(i)`;
const endless = `SELECT i, repeat('x', 100) AS t FROM range(100000000000) AS r(i)`;
const failing = (
  rowIndex: number,
) => `SELECT i, repeat('x', 100) AS t, CASE WHEN i = ${rowIndex} THEN error('row ${rowIndex}') END AS e
  FROM range(${rowIndex * 2}) AS r(i)`;

const query = (sql: string, body: object = {}, instance: Pick<TestServer, 'post'> = server) =>
  instance.post('/api/v2/catalogs/default/query', { sql, waitSeconds: statementWaitSeconds(), ...body });
const taskOf = (reply: Reply) => reply.at<string>('nextPage').replace(/\/pages\/.*/, '');
const storedFiles = async ({ dataDirectory } = server) => [
  ...(await fileStore.stored(dataDirectory, 'results')),
  ...(await readdir(join(dataDirectory, 'spool')).catch(() => [])).filter((name) => name !== 'spill'),
];

interface PageRecord {
  readonly page: number;
  readonly firstRow: number;
  readonly rowCount: number;
}

/** Rows of all pages, in their order. */
async function allRows(first: Reply): Promise<unknown[][]> {
  const rows = first.at<unknown[][]>('rows');
  for (let next = first.at<string | undefined>('nextPage'); next !== undefined; ) {
    const page = (await server.get(next)).is(200);
    rows.push(...page.at<unknown[][]>('rows'));
    next = page.at('nextPage');
  }
  return rows;
}

async function forget(task: string, instance = server): Promise<void> {
  (await instance.delete(task)).is(200, '0', { deleted: true });
  await eventually('nothing is stored', async () => (await storedFiles(instance)).length === 0);
}

test('every row comes once, in order, whichever page is asked for while it is computed', async () => {
  const rowCount = 60_000;
  const first = (await query(`SELECT i, repeat('x', 100) AS t FROM range(${rowCount}) AS r(i)`)).is(200);
  const rows = await allRows(first);
  assert.equal(rows.length, rowCount);
  assert.ok(rows.every(([i], row) => i === row));
  const task = (await endOfTask(server, taskOf(first))).is(200, '0', { state: 'succeeded' });
  const pageCount = task.at<number>('result', 'pageCount');
  assert.ok(pageCount > 50, `${pageCount} pages`);
  task.is(200, '0', { result: { rowCount, truncated: false }, firstPage: `${taskOf(first)}/pages/0` });
  (await server.get(`${taskOf(first)}/pages/${pageCount - 1}`)).is(200, '0', { pageCount });
  (await server.get(`${taskOf(first)}/pages/${pageCount}`)).is(404, 'OBJECT_NOT_FOUND');
  const pages = (await server.get(`${taskOf(first)}/pages?pageSize=1000`)).is(200).at<PageRecord[]>('pages');
  assert.equal(pages.length, pageCount);
  for (const { page, firstRow, rowCount: own } of [pages[0], pages[1], pages.at(-1)] as PageRecord[]) {
    const read = (await server.get(`${taskOf(first)}/pages/${page}`)).is(200, '0', { firstRow, rowCount: own });
    assert.deepEqual([read.at('rows', 0, 0), read.at<unknown[]>('rows').length], [firstRow, own]);
  }
  await forget(taskOf(first));
});

test('the first page is sent while later ones are computed; counts are null until they are known', async () => {
  const first = await query(slow);
  first.is(200, '0', { rowCount: null, pageCount: null, truncated: null });
  assert.ok(first.at<unknown[]>('rows').length > 100);
  const uri = taskOf(first);
  (await server.get(uri)).is(200, '0', { state: 'running', result: null });
  const firstRow = first.at<unknown[]>('rows').length;
  const second = (await server.get(first.at('nextPage'))).is(200, '0', { page: 1, pageCount: null, firstRow });
  assert.equal(second.at<number>('rowCount'), second.at<unknown[]>('rows').length);
  const listed = (await server.get(`${uri}/pages`)).is(200).at<PageRecord[]>('pages');
  assert.deepEqual(listed.slice(0, 2), [
    { page: 0, firstRow: 0, rowCount: firstRow, pageCount: null, uri: `${uri}/pages/0` },
    { page: 1, firstRow, rowCount: second.at('rowCount'), pageCount: null, uri: `${uri}/pages/1` },
  ]);
  const queryId = first.at<string>('queryId');
  (await server.get(`/api/v2/queries/${queryId}`)).is(200, '0', { state: 'running' });
  (await server.post(`${uri}/cancel`)).is(200);
  (await endOfTask(server, uri)).is(200, '0', { state: 'cancelled' });
  (await server.get(`${uri}/pages/1`)).is(400, 'STATEMENT_CANCELLED');
  (await server.get(`${uri}/pages`)).is(200, '0', { pages: [] });
  (await server.get(`/api/v2/queries/${queryId}`)).is(200, '0', { state: 'cancelled' });
  await forget(uri);
});

test('a page after a failure responds with the failure', async () => {
  const first = (await query(failing(400_000))).is(200, '0', { rowCount: null });
  let next = first.at<string>('nextPage');
  for (;;) {
    const page = await server.get(next);
    if (page.status !== 200) {
      page.is(400, 'SQL_INVALID');
      assert.match(page.message, /row 400000/);
      break;
    }
    next = page.at('nextPage');
    assert.ok(next, 'the result ended without its failure');
  }
  (await endOfTask(server, taskOf(first))).is(200, '0', { state: 'failed', error: { code: 'SQL_INVALID' } });
  await forget(taskOf(first));
});

test('rowsMax ends a result within a page', async () => {
  const sql = `SELECT i, repeat('x', 100) AS t FROM range(1000000) AS r(i)`;
  for (const rowsMax of [1, 2048, 30_000]) {
    const first = (await query(sql, { rowsMax })).is(200);
    const rows = await allRows(first);
    assert.deepEqual([rows.length, rows.at(-1)?.[0]], [rowsMax, rowsMax - 1]);
    if (first.at('nextPage') === undefined) first.is(200, '0', { rowCount: rowsMax, truncated: true });
    else {
      const task = await endOfTask(server, taskOf(first));
      task.is(200, '0', { result: { rowCount: rowsMax, truncated: true } });
      await forget(taskOf(first));
    }
  }
});

test('a result over the quota is stopped while it is computed, and leaves nothing', async () => {
  const first = (await query(endless)).is(200);
  const task = await endOfTask(server, taskOf(first));
  task.is(200, '0', { state: 'failed', error: { code: 'RESULT_QUOTA_EXCEEDED' } });
  await forget(taskOf(first));
  const accepted = (await query(endless, { waitSeconds: 0 })).is(202);
  const ended = await endOfTask(server, accepted.at('uri'));
  ended.is(200, '0', { state: 'failed', error: { code: 'RESULT_QUOTA_EXCEEDED' } });
  await forget(accepted.at('uri'));
});

test('a client that disconnects before the first page cancels the statement', async () => {
  const abandoned = new AbortController();
  const body = {
    sql: 'SELECT sum(a.range * b.range) FROM range(10000000) AS a, range(10000000) AS b',
    waitSeconds: statementWaitSeconds(),
  };
  const sent = server.send('POST', '/api/v2/catalogs/default/query', { body, signal: abandoned.signal });
  const running = async () =>
    (await server.post('/api/v2/queries/search', { state: 'running' })).at<unknown[]>('queries').length;
  await eventually('it runs', async () => (await running()) > 0);
  abandoned.abort();
  await assert.rejects(sent);
  await eventually('it was cancelled', async () => (await running()) === 0);
  assert.deepEqual(await storedFiles(), []);
});

test('at the limit of unfinished tasks the whole result is waited for', async () => {
  const tasks: string[] = [];
  for (let n = 0; n < 3; n++) tasks.push(taskOf((await query(slow)).is(200)));
  (await query('SELECT 1', { waitSeconds: 0 })).is(503, 'TOO_MANY_TASKS');
  const complete = (await query(`SELECT i, repeat('x', 100) AS t FROM range(60000) AS r(i)`)).is(200, '0', {
    rowCount: 60_000,
  });
  for (const task of tasks) (await server.post(`${task}/cancel`)).is(200);
  for (const task of tasks) (await endOfTask(server, task)).is(200, '0', { state: 'cancelled' });
  assert.equal((await allRows(complete)).length, 60_000);
  for (const task of [...tasks, taskOf(complete)]) (await server.delete(task)).is(200);
});

/** A task of a statement that waited longer than its request, because the only slot of its warehouse is taken until `free`. */
async function waitingTask(sql: string, instance: Pick<TestServer, 'post' | 'get'>) {
  (await instance.post('/api/v2/warehouses', { name: 'single', queriesMax: 1 })).is(201);
  (await instance.post('/api/v2/catalogs', { name: 'lab', warehouse: 'single' })).is(201);
  const submit = async (text: string) =>
    (await instance.post('/api/v2/catalogs/lab/query', { sql: text, waitSeconds: 0.2 })).is(202).at<string>('uri');
  const blocking = await submit(
    'SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE a.range % 7 = b.range % 11',
  );
  const task = await submit(sql);
  const free = async () => {
    (await instance.post(`${blocking}/cancel`)).is(200);
    await eventually(
      'the first page is complete',
      async () => (await instance.get(task)).at('firstPage') !== undefined,
    );
  };
  return { task, free };
}

test('a task whose statement waited longer than its request serves the pages that are complete', async () => {
  const { task, free } = await waitingTask(slow, server);
  (await server.get(`${task}/pages`)).is(200, '0', { pages: [] });
  (await server.get(`${task}/pages/0`)).is(404, 'OBJECT_NOT_FOUND');
  await free();
  (await server.get(task)).is(200, '0', { state: 'running', firstPage: `${task}/pages/0` });
  const first = (await server.get(`${task}/pages/0`)).is(200, '0', { pageCount: null, nextPage: `${task}/pages/1` });
  const rowCount = first.at<unknown[]>('rows').length;
  (await server.get(`${task}/pages/1`)).is(200, '0', { page: 1, firstRow: rowCount, pageCount: null });
  const listed = (await server.get(`${task}/pages`)).is(200).at<PageRecord[]>('pages');
  assert.equal(listed[1]?.firstRow, rowCount);
  (await server.post(`${task}/cancel`)).is(200);
  (await endOfTask(server, task)).is(200, '0', { state: 'cancelled' });
  (await server.get(`${task}/pages/0`)).is(400, 'STATEMENT_CANCELLED');
  await forget(task);
});

test('after a crash, a task is run again unless pages of it were read', async () => {
  const flags = [`--page-bytes-max=${pageBytesMax}`, ...(await fileStore.flags())];
  for (const isRead of [false, true]) {
    const killed = await startProcess(flags);
    const { task, free } = await waitingTask(slow, killed);
    await free();
    if (isRead) (await killed.get(`${task}/pages/0`)).is(200, '0', { pageCount: null });
    killed.child.kill('SIGKILL');
    await killed.exited;
    const restarted = await startProcess(flags, killed.dataDirectory);
    try {
      if (isRead)
        (await endOfTask(restarted, task)).is(200, '0', { state: 'failed', error: { code: 'TASK_INTERRUPTED' } });
      else
        await eventually('it runs again', async () => {
          const { state, attempt } = (await restarted.get(task)).is(200).result as { state: string; attempt: number };
          return state === 'running' && attempt === 2;
        });
    } finally {
      await restarted.close();
      await rm(killed.dataDirectory, { recursive: true, force: true });
    }
  }
});

test('a server that is killed leaves nothing, and its pages respond that the result is lost', async () => {
  const flags = [`--page-bytes-max=${pageBytesMax}`, ...(await fileStore.flags())];
  const killed = await startProcess(flags);
  const first = (await query(slow, {}, killed)).is(200, '0', { rowCount: null });
  const uri = taskOf(first);
  killed.child.kill('SIGKILL');
  await killed.exited;
  const restarted = await startProcess(flags, killed.dataDirectory);
  try {
    (await endOfTask(restarted, uri)).is(200, '0', { state: 'failed', error: { code: 'TASK_INTERRUPTED' } });
    (await restarted.get(`${uri}/pages/1`)).is(400, 'RESULT_EXPIRED');
    await eventually('nothing is stored', async () => (await storedFiles(restarted)).length === 0);
  } finally {
    await restarted.close();
    await rm(killed.dataDirectory, { recursive: true, force: true });
  }
});
