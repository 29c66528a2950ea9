// Endpoints outside the API (rest-standard B9): their access, methods and types, without an envelope.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { start, type TestServer } from '../server.ts';

let server: TestServer;
before(async () => {
  server = await start();
});
after(() => server.close());

const stranger = { headers: { authorization: undefined } };

test('liveness and readiness need no credentials', async () => {
  for (const [path, text] of [
    ['/livez', 'alive\n'],
    ['/readyz', 'ready\n'],
    ['/livez?x=1', 'alive\n'],
  ] as const) {
    const reply = await server.send('GET', path, stranger);
    assert.deepEqual([reply.status, reply.text], [200, text]);
    assert.match(reply.headers['content-type'] ?? '', /^text\/plain/);
    const head = await server.send('HEAD', path, stranger);
    assert.deepEqual([head.status, head.text, head.headers['content-length']], [200, '', String(text.length)]);
  }
});

async function requireClosed(target: TestServer, path: string): Promise<void> {
  const reply = await target.request('GET', path, stranger);
  assert.ok(reply.is(401, 'UNAUTHENTICATED').headers['www-authenticate']);
  (await target.request('GET', path, { headers: { authorization: 'Bearer wrong' } })).is(401, 'UNAUTHENTICATED');
}

test('metrics need credentials', () => requireClosed(server, '/metrics'));

test('the document is open to everyone, unless a setting says otherwise', async (t) => {
  assert.equal((await server.send('GET', '/openapi.json', stranger)).status, 200);
  const restricted = await start({ openApiNeedsCredentials: true });
  t.after(() => restricted.close());
  await requireClosed(restricted, '/openapi.json');
  assert.equal((await restricted.send('GET', '/openapi.json')).status, 200);
});

test('metrics count requests and statements', async () => {
  (await server.get('/api/v2/catalogs')).is(200);
  (await server.post('/api/v2/catalogs/default/query', { sql: 'SELECT 1' })).is(200);
  const { status, headers, text } = await server.send('GET', '/metrics');
  assert.equal(status, 200);
  assert.match(headers['content-type'] ?? '', /^text\/plain/);
  for (const line of text.split('\n').filter((candidate) => candidate !== ''))
    assert.match(line, /^(# (HELP|TYPE) \w+ .+|\w+(\{.*\})? \S+)$/, line);
  assert.match(text, /^tabularium_\w*requests?\w*\{.*catalogs\.list.*\} [1-9]/m);
  assert.match(text, /^tabularium_queries\{.*warehouse="default".*\} 0$/m);
  assert.match(text, /^tabularium_backend_up\{warehouse="default",backend="[^"]+"\} 1$/m);
});

test('the document describes these declarations, with the paths that are served', async () => {
  const { status, headers, text } = await server.send('GET', '/openapi.json');
  assert.deepEqual([status, headers['content-type']], [200, 'application/json']);
  const { openapi, paths } = JSON.parse(text) as { openapi: string; paths: Record<string, object> };
  assert.match(openapi, /^3\.1\./);
  assert.ok('post' in (paths['/api/v2/catalogs/{catalog}/databases/{database}/tables/create'] ?? {}));
});

test('the document has an ETag for each content coding, for conditional requests', async () => {
  const tags = new Set<string>();
  for (const coding of ['identity', 'zstd', 'br', 'gzip']) {
    const get = (more: Record<string, string>) =>
      server.send('GET', '/openapi.json', { headers: { 'accept-encoding': coding, ...more } });
    const { status, headers } = await get({});
    assert.equal(status, 200);
    assert.equal(headers['content-encoding'] ?? 'identity', coding);
    assert.equal(headers.vary, 'Accept-Encoding');
    const tag = headers.etag as string;
    assert.match(tag, /^"[\w-]+"$/);
    assert.equal((await get({})).headers.etag, tag);
    for (const ifNoneMatch of [tag, `W/${tag}`, `"other", ${tag}`, '*']) {
      const revalidated = await get({ 'if-none-match': ifNoneMatch });
      assert.deepEqual([revalidated.status, revalidated.text, revalidated.headers.etag], [304, '', tag], ifNoneMatch);
    }
    assert.equal((await get({ 'if-none-match': '"other"' })).status, 200);
    tags.add(tag);
  }
  assert.equal(tags.size, 4);
});

test('other methods: 405', async () => {
  for (const path of ['/livez', '/metrics'])
    for (const method of ['POST', 'DELETE', 'OPTIONS']) {
      const reply = await server.request(method, path, stranger);
      assert.equal(reply.is(405, 'METHOD_NOT_ALLOWED').headers.allow, 'GET, HEAD');
    }
});
