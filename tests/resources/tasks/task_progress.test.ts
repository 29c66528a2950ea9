// The progress of tasks that run SQL, as their records show it: it grows while they run, with an estimated end.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { endOfTask, type Reply, start, type TestServer, uri } from '../../server.ts';

let server: TestServer;
/** Slow for each row, so that the statement is still running when its progress is read. */
const slow = Array.from({ length: 16 }).reduce<string>((inner) => `md5(${inner})`, 'text');
const lookEveryMs = 100;

before(async () => {
  server = await start();
  (await server.put('/api/v2/databases/shop')).is(201);
  const columns = [
    { name: 'n', type: 'BIGINT' },
    { name: 'text', type: 'VARCHAR(64)' },
  ];
  for (const name of ['numbers', 'copies'])
    (await server.post('/api/v2/databases/shop/tables', { name, columns })).is(201);
  (await server.query('shop', 'INSERT INTO numbers SELECT range, md5(range::VARCHAR) FROM range(3000000)')).is(200);
});
after(() => server.close());

/** Polls until the progress has grown twice, then cancels the task. */
async function requireGrowth(accepted: Reply): Promise<void> {
  const task = accepted.is(202).at<string>('uri');
  const fractions: number[] = [];
  for (let record = accepted; fractions.length < 3; record = (await server.get(task)).is(200)) {
    const { state, progress } = record.result as { state: string; progress: number | null };
    assert.ok(state === 'pending' || state === 'running', `it is still at it: ${record.text}`);
    if (progress !== null && progress > (fractions.at(-1) ?? 0)) fractions.push(progress);
    if (fractions.length === 2) assert.ok(Date.parse(record.at('expectedEndAt')) > Date.parse(record.at('startedAt')));
    await new Promise((resolve) => setTimeout(resolve, lookEveryMs));
  }
  assert.ok((fractions.at(-1) as number) <= 1);
  (await server.post(`${task}/cancel`)).is(200);
  (await endOfTask(server, task)).is(200, '0', { state: 'cancelled', expectedEndAt: null });
}

test('a query task', async () =>
  requireGrowth(await server.query('shop', `SELECT max(${slow}) FROM numbers`, { waitSeconds: 0 })));

test('a query that became a task after a while', async () =>
  requireGrowth(await server.query('shop', `SELECT min(${slow}) FROM numbers`, { waitSeconds: 0.5 })));

test('insert_select, update and delete_rows', async () => {
  const action = (table: string, verb: string, body: object) =>
    server.post(`${uri`/databases/shop/tables/${table}`}/${verb}`, { ...body, waitSeconds: 0 });
  await requireGrowth(await action('copies', 'insert_select', { sql: `SELECT n, ${slow} FROM numbers` }));
  await requireGrowth(await action('numbers', 'update', { set: { text: slow }, where: 'true' }));
  await requireGrowth(await action('numbers', 'delete_rows', { where: `${slow} > '0'` }));
});

test('a table that is created with its rows', async () => {
  const asSelect = { sql: `SELECT n, ${slow} AS text FROM numbers`, waitSeconds: 0 };
  await requireGrowth(await server.post('/api/v2/databases/shop/tables', { name: 'made', asSelect }));
});
