// Searches of tasks, uploads, tokens, grants and other objects without a parent: each criterion, paging, and what others may see.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { newPerson } from '../access/people.ts';
import { start, type TestServer } from '../server.ts';

let server: TestServer;
before(async () => {
  server = await start();
  (await server.put('/api/v2/databases/d')).is(201);
});
after(() => server.close());

async function found(path: string, body: object, field: string, id: string): Promise<unknown[]> {
  return (await server.post(`${path}/search`, body))
    .is(200)
    .at<Record<string, unknown>[]>(field)
    .map((record) => record[id]);
}

test('tasks are found by state, type, submitter, target and time', async () => {
  const submit = async (sql: string) =>
    server.ended(await server.post('/api/v2/databases/d/query', { sql, waitSeconds: 0 }));
  const good = await submit('SELECT 1');
  const from = new Date().toISOString();
  const bad = await submit("SELECT CAST('x' AS INTEGER) FROM range(3)");
  const tasks = (body: object) => found('/api/v2/tasks', body, 'tasks', 'taskId');
  const [first, second] = [good.at('taskId'), bad.at('taskId')];
  assert.deepEqual(await tasks({ type: 'run_query' }), [second, first]);
  assert.deepEqual(await tasks({ state: 'failed' }), [second]);
  assert.deepEqual(await tasks({ state: 'succeeded', submittedBy: 'root' }), [first]);
  assert.deepEqual(await tasks({ submittedBy: 'nobody' }), []);
  assert.deepEqual(await tasks({ target: good.at('target') }), [second, first]);
  assert.deepEqual(await tasks({ target: '/api/v2/nothing' }), []);
  assert.deepEqual(await tasks({ from }), [second]);
  assert.deepEqual(await tasks({ to: from }), [first]);
  assert.deepEqual(await tasks({ label: 'monday' }), []);
  const page = (await server.post('/api/v2/tasks/search', { pageSize: 1 })).is(200);
  assert.deepEqual(await tasks({ pageSize: 1, pageToken: page.at('nextPageToken') }), [first]);
  const other = await newPerson(server, 'other', []);
  assert.deepEqual((await other.request('POST', '/api/v2/tasks/search', {})).is(200).at('tasks'), []);
});

test('the pages of a result are listed', async () => {
  const sql = 'SELECT i, repeat(i::VARCHAR, 200) AS t FROM range(40000) r(i)';
  const task = await server.ended(await server.post('/api/v2/databases/d/query', { sql, waitSeconds: 0 }));
  const pages = `${task.is(200).at<string>('uri')}/pages`;
  const pageCount = task.at<number>('result', 'pageCount');
  assert.ok(pageCount > 1);
  const first = (await server.get(`${pages}?pageSize=1`)).is(200);
  assert.deepEqual(first.at('pages'), [{ page: 0, pageCount, uri: `${pages}/0` }]);
  const rest = (await server.get(`${pages}?pageToken=${first.at('nextPageToken')}`)).is(200);
  assert.deepEqual(
    rest.at<{ page: number }[]>('pages').map(({ page }) => page),
    Array.from({ length: pageCount - 1 }, (_, i) => i + 1),
  );
  (await server.get(`${pages}/${pageCount - 1}`)).is(200);
});

test('tokens, grants and uploads are found', async () => {
  const root = '/api/v2/users/root';
  for (const name of ['nightly', 'night_2', 'other']) (await server.post(`${root}/tokens`, { name })).is(201);
  assert.deepEqual(await found(`${root}/tokens`, { namePattern: 'NIGHT%' }, 'tokens', 'name'), ['night_2', 'nightly']);
  assert.deepEqual(await found(`${root}/tokens`, { namePattern: '%\\_2' }, 'tokens', 'name'), ['night_2']);
  await newPerson(server, 'ann', [
    ['read', '/databases/d'],
    ['write', '/databases/d'],
  ]);
  const grants = (body: object) => found('/api/v2/users/ann/grants', body, 'grants', 'privilege');
  assert.deepEqual(await grants({ privilege: 'write' }), ['write']);
  assert.deepEqual((await grants({ on: '/api/v2/databases/d' })).sort(), ['read', 'write']);
  assert.deepEqual(await grants({ on: '/api/v2/catalogs/default' }), []);
  for (const name of ['a.csv', 'b.json']) (await server.post('/api/v2/uploads', { name })).is(201);
  assert.deepEqual(await found('/api/v2/uploads', { namePattern: '%.csv' }, 'uploads', 'name'), ['a.csv']);
  assert.deepEqual(await found('/api/v2/uploads', { state: 'ready' }, 'uploads', 'name'), []);
});

test('warehouses, schedules and identity providers are found by name and comment', async () => {
  (await server.post('/api/v2/warehouses', { name: 'etl_night', comment: 'Loads' })).is(201);
  const schedule = { cron: '0 3 * * *', query: { sql: 'SELECT 1', catalog: 'default' }, comment: 'Loads' };
  (await server.post('/api/v2/schedules', { name: 'etl_1', ...schedule })).is(201);
  for (const category of ['warehouses', 'schedules']) {
    const names = await found(`/api/v2/${category}`, { namePattern: 'ETL%', comment: 'load' }, category, 'name');
    assert.equal(names.length, 1, category);
  }
  assert.deepEqual(await found('/api/v2/identity_providers', { namePattern: '%' }, 'identityProviders', 'name'), []);
});
