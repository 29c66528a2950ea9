// Drafts and saved queries: two editors of one text do not overwrite each other, earlier texts can be read again, and what one user
// stores is bounded and private.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, test } from 'node:test';
import { indexOfRedundant } from '../../../src/catalog/object_versions.ts';
import { start, TestServer, uri } from '../../server.ts';

let server: TestServer;
before(async () => {
  server = await start({ principalDraftsMax: 20, principalDraftBytesMax: 64 * 1024 });
});
after(() => server.close());

async function user(name: string): Promise<TestServer> {
  (await server.put(uri`/users/${name}`)).is(201);
  const token = (await server.post(uri`/users/${name}/tokens`, { name: 'test' })).is(201).at<string>('secret');
  return new TestServer({ url: server.url, token, dataDirectory: server.dataDirectory }, async () => {});
}

const textOf = (length: number, mark: string) => `-- ${mark} ${'x'.repeat(length)}`;

test('a draft that was saved in another tab is not overwritten', async () => {
  const id = randomUUID();
  const created = (await server.put(`/api/v2/drafts/${id}`, { sql: 'SELECT 1' })).is(201, '0', { created: true });
  const etag = created.headers.etag ?? (await server.get(`/api/v2/drafts/${id}`)).headers.etag;
  const saveDraft = (sql: string, tag: unknown) =>
    server.request('PATCH', `/api/v2/drafts/${id}`, { body: { sql }, headers: { 'if-match': String(tag) } });
  const first = (await saveDraft('SELECT 2', etag)).is(200);
  (await saveDraft('SELECT 3', etag)).is(400, 'VERSION_CONFLICT');
  (await server.get(`/api/v2/drafts/${id}`)).is(200, '0', { sql: 'SELECT 2' });
  (await saveDraft('SELECT 3', first.headers.etag)).is(200, '0', { sql: 'SELECT 3' });
});

test('the versions of a draft are its earlier texts, newest first; what is no text makes none', async () => {
  const path = `/api/v2/drafts/${randomUUID()}`;
  (await server.put(path, { name: 'a', sql: 'SELECT 1', parameters: [1], database: 'ssb' })).is(201);
  (await server.patch(path, { sql: 'SELECT 2', parameters: null })).is(200, '0', { parameters: null });
  (await server.patch(path, { name: 'b', properties: { tab: '2' } })).is(200, '0', { name: 'b', version: 3 });
  (await server.patch(path, { sql: 'SELECT 2' })).is(200, '0', { version: 3 });
  const versions = (await server.get(`${path}/versions`)).is(200).at<{ version: number; state: string }[]>('versions');
  assert.deepEqual(
    versions.map(({ version, state }) => [version, state]),
    [
      [2, 'current'],
      [1, 'superseded'],
    ],
  );
  const first = { sql: 'SELECT 1', parameters: [1], database: 'ssb', catalog: null, state: 'superseded' };
  (await server.get(`${path}/versions/1`)).is(200, '0', first);
  (await server.get(`${path}/versions/3`)).is(404, 'OBJECT_NOT_FOUND');
});

test('a draft has at most 100 versions', async () => {
  const path = `/api/v2/drafts/${randomUUID()}`;
  (await server.put(path, { sql: 'SELECT 1' })).is(201);
  for (let i = 2; i <= 110; i++) (await server.patch(path, { sql: `SELECT ${i}` })).is(200);
  const versions = (await server.get(`${path}/versions?pageSize=1000`)).is(200).at<{ version: number }[]>('versions');
  assert.equal(versions.length, 100);
  assert.deepEqual(
    versions.slice(0, 50).map(({ version }) => version),
    Array.from({ length: 50 }, (_, i) => 110 - i),
  );
  assert.equal(versions.at(-1)?.version, 1);
  (await server.delete(path)).is(200, '0', { deleted: true });
});

test('the version that is removed is one of the older half that was saved soon after another', () => {
  assert.equal(indexOfRedundant([0, 100, 200, 201, 300, 301, 302, 303, 304]), 3);
  assert.equal(indexOfRedundant([0, 1, 2, 3, 4, 5]), 1);
  // After many saves, the older half covers the whole time.
  const saved: number[] = [];
  for (let edit = 0; edit < 10_000; edit++) {
    saved.push(edit);
    if (saved.length > 100) saved.splice(indexOfRedundant(saved), 1);
  }
  assert.equal(saved.length, 100);
  assert.equal(saved[0], 0);
  assert.deepEqual(
    saved.slice(-50),
    Array.from({ length: 50 }, (_, i) => 9950 + i),
  );
  const older = saved.slice(0, 50);
  const widest = Math.max(...older.slice(1).map((at, i) => at - (older[i] as number)));
  assert.ok(widest < 1000, `a gap of ${widest} of 10000 saves`);
});

test('old versions give way to the limit of bytes, texts do not', async () => {
  const ann = await user('ann');
  const path = `/api/v2/drafts/${randomUUID()}`;
  (await ann.put(path, { sql: textOf(10_000, 'first') })).is(201);
  for (let i = 0; i < 10; i++) (await ann.patch(path, { sql: textOf(10_000, String(i)) })).is(200);
  const versions = (await ann.get(`${path}/versions`)).is(200).at<{ bytes: number; version: number }[]>('versions');
  assert.equal(versions[0]?.version, 11);
  const bytes = versions.reduce((sum, one) => sum + one.bytes, 0);
  assert.ok(bytes <= 64 * 1024 && versions.length > 3, `${versions.length} versions of ${bytes} bytes`);
  const refused = await ann.patch(path, { sql: textOf(70_000, 'too long') });
  refused.is(400, 'DRAFT_QUOTA_EXCEEDED', { principalDraftBytesMax: 64 * 1024 });
  const unchanged = (await ann.get(`${path}/versions`)).is(200).at<unknown[]>('versions');
  assert.equal(unchanged.length, versions.length, 'a refused change removes nothing');
  for (let i = 1; i < 20; i++) (await ann.post('/api/v2/drafts', { sql: 'SELECT 1' })).is(201);
  (await ann.post('/api/v2/drafts', { sql: 'SELECT 1' })).is(400, 'DRAFT_QUOTA_EXCEEDED', { principalDraftsMax: 20 });
});

test('the same id in two users names two drafts, and a deleted user leaves none', async () => {
  const [bea, cem] = [await user('bea'), await user('cem')];
  const path = `/api/v2/drafts/${randomUUID()}`;
  (await bea.put(path, { sql: 'of bea' })).is(201, '0', { created: true });
  (await cem.put(path, { sql: 'of cem' })).is(201, '0', { created: true, sql: 'of cem' });
  (await bea.get(path)).is(200, '0', { sql: 'of bea' });
  (await server.post(uri`/users/${'cem'}/rename`, { newName: 'cemal' })).is(200);
  (await cem.get(path)).is(200, '0', { sql: 'of cem' });
  (await server.get(path)).is(404, 'OBJECT_NOT_FOUND');
  (await server.delete(uri`/users/${'cemal'}`)).is(200, '0', { deleted: true });
  (await server.put(uri`/users/${'cemal'}`)).is(201);
  (await bea.get(path)).is(200);
  const body = { privilege: 'own', on: `/api/v2/users/bea${path.slice('/api/v2'.length)}` };
  (await server.post('/api/v2/users/cemal/grants', body)).is(400, 'INVALID_PARAMETER');
});

test('the saved queries of an owner have the limits of drafts, also those that it was given', async () => {
  const fay = await user('fay');
  (await server.post('/api/v2/users/fay/grants', { privilege: 'create', on: '/api/v2/saved_queries' })).is(201);
  (await fay.post('/api/v2/saved_queries', { name: 'fay 1', sql: textOf(10_000, 'first') })).is(201);
  const path = '/api/v2/saved_queries/fay%201';
  for (let i = 0; i < 10; i++) (await fay.patch(path, { sql: textOf(10_000, String(i)) })).is(200);
  const versions = (await fay.get(`${path}/versions`)).is(200).at<{ bytes: number; version: number }[]>('versions');
  assert.equal(versions[0]?.version, 11);
  const bytes = versions.reduce((sum, one) => sum + one.bytes, 0);
  assert.ok(bytes <= 64 * 1024 && versions.length > 3, `${versions.length} versions of ${bytes} bytes`);
  const tooLong = { sql: textOf(70_000, 'too long') };
  const bytesMax = { principalDraftBytesMax: 64 * 1024 };
  (await fay.patch(path, tooLong)).is(400, 'SAVED_QUERY_QUOTA_EXCEEDED', bytesMax);
  const properties = Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`p${i}`, 'x'.repeat(4000)]));
  (await fay.patch(path, { properties })).is(400, 'SAVED_QUERY_QUOTA_EXCEEDED', bytesMax);
  (await fay.post('/api/v2/saved_queries', { name: 'fay 2', ...tooLong })).is(
    400,
    'SAVED_QUERY_QUOTA_EXCEEDED',
    bytesMax,
  );
  for (let i = 2; i <= 20; i++) (await fay.post('/api/v2/saved_queries', { name: `fay ${i}`, sql: '' })).is(201);
  (await server.post('/api/v2/saved_queries', { name: 'gift', sql: '' })).is(201);
  const given = await server.patch('/api/v2/saved_queries/gift', { owner: 'fay' });
  given.is(400, 'SAVED_QUERY_QUOTA_EXCEEDED', { principalDraftsMax: 20 });
  // Whoever has more than the limits, here by the end of another owner, can still change what there is.
  (await server.delete('/api/v2/users/fay')).is(200);
  (await server.patch(path, { comment: 'of root now' })).is(200, '0', { owner: 'root' });
  (await server.patch(path, { sql: 'SELECT 1' })).is(200);
  (await server.post('/api/v2/saved_queries', { name: 'one more', sql: '' })).is(400, 'SAVED_QUERY_QUOTA_EXCEEDED');
  (await server.delete('/api/v2/saved_queries/gift')).is(200);
  for (let i = 1; i <= 20; i++) (await server.delete(`/api/v2/saved_queries/fay%20${i}`)).is(200);
});

test('saved queries are shared by grants, searched by folder and text, and keep their owner', async () => {
  const dan = await user('dan');
  const eve = await user('eve');
  (await server.post('/api/v2/users/dan/grants', { privilege: 'create', on: '/api/v2/saved_queries' })).is(201);
  const chart = { kind: 'bar', x: 'a', y: ['b'] };
  const body = { name: 'revenue', folder: 'finance/monthly', sql: 'SELECT sum(a) FROM Orders', chart };
  (await dan.post('/api/v2/saved_queries', body)).is(201, '0', { owner: 'dan', chart, folder: 'finance/monthly' });
  (await dan.post('/api/v2/saved_queries', { name: 'other', folder: 'finances', sql: 'SELECT 1' })).is(201);
  (await eve.get('/api/v2/saved_queries/revenue')).is(403, 'FORBIDDEN');
  assert.deepEqual((await eve.get('/api/v2/saved_queries')).is(200).at('savedQueries'), []);
  (await dan.post('/api/v2/users/eve/grants', { privilege: 'read', on: '/api/v2/saved_queries/revenue' })).is(
    403,
    'FORBIDDEN',
  );
  (await server.post('/api/v2/users/dan/grants', { privilege: 'read', on: '/api/v2/users/eve' })).is(201);
  (await dan.post('/api/v2/users/eve/grants', { privilege: 'read', on: '/api/v2/saved_queries/revenue' })).is(201);
  (await eve.get('/api/v2/saved_queries/revenue/versions/1')).is(200, '0', { chart, sql: body.sql });
  (await eve.patch('/api/v2/saved_queries/revenue', { sql: 'DROP' })).is(403, 'FORBIDDEN');
  const names = async (searcher: TestServer, filter: object) =>
    (await searcher.post('/api/v2/saved_queries/search', filter))
      .is(200)
      .at<{ name: string }[]>('savedQueries')
      .map(({ name }) => name);
  assert.deepEqual(await names(dan, { folder: 'finance' }), ['revenue']);
  assert.deepEqual(await names(dan, { sql: 'FROM orders' }), ['revenue']);
  assert.deepEqual(await names(dan, { namePattern: '%' }), ['other', 'revenue']);
  assert.deepEqual(await names(eve, {}), ['revenue']);
  (await dan.patch('/api/v2/saved_queries/revenue', { chart: { kind: 'x'.repeat(70_000) } })).is(
    400,
    'INVALID_PARAMETER',
  );
  (await dan.patch('/api/v2/saved_queries/revenue', { folder: null, chart: null })).is(200, '0', { chart: null });
  (await dan.patch('/api/v2/saved_queries/revenue', { folder: '/a/' })).is(400, 'INVALID_PARAMETER');
  (await server.delete('/api/v2/users/dan')).is(200);
  (await server.get('/api/v2/saved_queries/revenue')).is(200, '0', { owner: 'root' });
});
