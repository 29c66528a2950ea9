// Searches of tasks, uploads, tokens, grants and other objects without a parent: each criterion, paging, and what others may see.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type GrantedPrivilege, newPerson, newToken, Person } from '../../access/people.ts';
import { type Reply, start, type TestServer } from '../../server.ts';

let server: TestServer;
before(async () => {
  server = await start();
  (await server.put('/api/v2/databases/d')).is(201);
});
after(() => server.close());

async function searchFor(path: string, body: object, field: string, id: string): Promise<unknown[]> {
  return (await server.post(`${path}/search`, body))
    .is(200)
    .at<Record<string, unknown>[]>(field)
    .map((record) => record[id]);
}

test('tasks are found by state, type, submitter, target and time', async () => {
  const submit = async (sql: string) =>
    server.ended(await server.post('/api/v2/databases/d/query', { sql, waitSeconds: 0 }));
  const succeeded = await submit('SELECT 1');
  const from = new Date().toISOString();
  const failed = await submit("SELECT CAST('x' AS INTEGER) FROM range(3)");
  const tasks = (body: object) => searchFor('/api/v2/tasks', body, 'tasks', 'taskId');
  const [first, second] = [succeeded.at('taskId'), failed.at('taskId')];
  assert.deepEqual(await tasks({ type: 'run_query' }), [second, first]);
  assert.deepEqual(await tasks({ state: 'failed' }), [second]);
  assert.deepEqual(await tasks({ state: 'succeeded', submittedBy: 'root' }), [first]);
  assert.deepEqual(await tasks({ submittedBy: 'nobody' }), []);
  assert.deepEqual(await tasks({ target: succeeded.at('target') }), [second, first]);
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
  const rowCount = first.at<number>('pages', 0, 'rowCount');
  assert.ok(rowCount > 0 && rowCount < 40_000, String(rowCount));
  assert.deepEqual(first.at('pages'), [{ page: 0, firstRow: 0, rowCount, pageCount, uri: `${pages}/0` }]);
  const rest = (await server.get(`${pages}?pageToken=${first.at('nextPageToken')}`)).is(200);
  assert.deepEqual(
    rest.at<{ page: number }[]>('pages').map(({ page }) => page),
    Array.from({ length: pageCount - 1 }, (_, i) => i + 1),
  );
  assert.equal(rest.at('pages', 0, 'firstRow'), rowCount);
  (await server.get(`${pages}/${pageCount - 1}`)).is(200);
});

test('tokens, grants and uploads are found', async () => {
  const root = '/api/v2/users/root';
  for (const name of ['nightly', 'night_2', 'other']) (await server.post(`${root}/tokens`, { name })).is(201);
  assert.deepEqual(await searchFor(`${root}/tokens`, { namePattern: 'NIGHT%' }, 'tokens', 'name'), [
    'night_2',
    'nightly',
  ]);
  assert.deepEqual(await searchFor(`${root}/tokens`, { namePattern: '%\\_2' }, 'tokens', 'name'), ['night_2']);
  await newPerson(server, 'ann', [
    ['read', '/databases/d'],
    ['write', '/databases/d'],
  ]);
  const grants = (body: object) => searchFor('/api/v2/users/ann/grants', body, 'grants', 'privilege');
  assert.deepEqual(await grants({ privilege: 'write' }), ['write']);
  assert.deepEqual((await grants({ on: '/api/v2/databases/d' })).sort(), ['read', 'write']);
  assert.deepEqual(await grants({ on: '/api/v2/catalogs/default' }), []);
  for (const name of ['a.csv', 'b.json']) (await server.post('/api/v2/uploads', { name })).is(201);
  assert.deepEqual(await searchFor('/api/v2/uploads', { namePattern: '%.csv' }, 'uploads', 'name'), ['a.csv']);
  assert.deepEqual(await searchFor('/api/v2/uploads', { state: 'ready' }, 'uploads', 'name'), []);
});

test('warehouses, schedules and identity providers are found by name and comment', async () => {
  (await server.post('/api/v2/warehouses', { name: 'etl_night', comment: 'Loads' })).is(201);
  const schedule = { cron: '0 3 * * *', query: { sql: 'SELECT 1', catalog: 'default' }, comment: 'Loads' };
  (await server.post('/api/v2/schedules', { name: 'etl_1', ...schedule })).is(201);
  for (const category of ['warehouses', 'schedules']) {
    const names = await searchFor(`/api/v2/${category}`, { namePattern: 'ETL%', comment: 'load' }, category, 'name');
    assert.equal(names.length, 1, category);
  }
  assert.deepEqual(
    await searchFor('/api/v2/identity_providers', { namePattern: '%' }, 'identityProviders', 'name'),
    [],
  );
});

test('`browse` shows the names on the way to what the caller may read, and nothing else', async () => {
  (await server.put('/api/v2/catalogs/way')).is(201);
  for (const database of ['open', 'closed', 'owned']) {
    (await server.put(`/api/v2/catalogs/way/databases/${database}`)).is(201);
    for (const table of ['one', 'two'])
      (
        await server.post(`/api/v2/catalogs/way/databases/${database}/tables`, { sql: `CREATE TABLE ${table} (a INT)` })
      ).is(201);
  }
  const at = '/catalogs/way/databases';
  const table = (database: string, name: string) => `${at}/${database}/tables/${name}`;
  type Names = readonly { readonly name: string; readonly readable: boolean }[];
  const seen = async (who: { post: (path: string, body?: unknown) => Promise<Reply> }) => {
    const listed = async (path: string, field: string) => {
      const reply = await who.post(`${path}/browse`);
      return reply.code === 'FORBIDDEN'
        ? 'FORBIDDEN'
        : reply
            .is(200)
            .at<Names>(field)
            .map(({ name, readable }) => (readable ? `${name} (readable)` : name));
    };
    return [await listed('/api/v2/catalogs', 'catalogs'), await listed(`/api/v2${at}`, 'databases')];
  };
  const person = (
    name: string,
    ...more: [grants?: readonly GrantedPrivilege[], scopes?: readonly GrantedPrivilege[]]
  ) => newPerson(server, name, ...more);

  assert.deepEqual(await seen(await person('none')), [[], 'FORBIDDEN']);
  const one = await person('one table', [['read', table('open', 'one')]]);
  assert.deepEqual(await seen(one), [['way'], ['open']]);
  assert.deepEqual((await one.post('/api/v2/catalogs/browse')).at('catalogs'), [
    { name: 'way', uri: '/api/v2/catalogs/way', readable: false },
  ]);
  (await one.get('/api/v2/catalogs/way')).is(403, 'FORBIDDEN');
  assert.deepEqual((await one.get('/api/v2/catalogs')).is(200).at('catalogs'), []);
  assert.deepEqual(await seen(await person('writer', [['write', table('open', 'one')]])), [[], []]);
  assert.deepEqual(await seen(await person('database', [['read', `${at}/open`]])), [['way'], ['open (readable)']]);
  assert.deepEqual(await seen(await person('catalog', [['read', '/catalogs/way']])), [
    ['way (readable)'],
    ['closed (readable)', 'open (readable)', 'owned (readable)'],
  ]);
  await person('owner');
  (await server.patch(`/api/v2${table('owned', 'two')}`, { owner: 'owner' })).is(200);
  const owner = new Person(server, 'owner', await newToken(server, 'owner', 'whole'));
  assert.deepEqual(await seen(owner), [['way'], ['owned']]);

  let tokens = 0;
  const scoped = async (name: string, scopes: readonly GrantedPrivilege[]) =>
    seen(new Person(server, name, await newToken(server, name, `token ${++tokens}`, scopes)));
  assert.deepEqual(await scoped('one table', [['read', table('closed', 'one')]]), [[], []], 'no grant and scope meet');
  assert.deepEqual(await scoped('one table', [['read', '/catalogs/way']]), [['way'], ['open']]);
  assert.deepEqual(await scoped('catalog', [['read', table('closed', 'one')]]), [['way'], ['closed']]);
  assert.deepEqual(await scoped('owner', [['read', table('owned', 'two')]]), [['way'], ['owned']]);
  assert.deepEqual(await scoped('owner', [['read', `${at}/closed`]]), [[], []]);

  (await server.delete(`/api/v2${table('open', 'one')}`)).is(200);
  assert.deepEqual(await seen(one), [[], 'FORBIDDEN'], 'what was dropped leads nowhere');
});
