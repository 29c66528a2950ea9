// What is served beside the API (rest-standard B8): open or not, its methods, its types, and no envelope where it is not an API.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { start, type TestServer } from '../server.ts';

let server: TestServer;
before(async () => {
  server = await start();
});
after(() => server.close());

const stranger = { headers: { authorization: undefined } };

test('alive and ready are open to all', async () => {
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

test('metrics and the document are not', async () => {
  for (const path of ['/metrics', '/openapi.json']) {
    const reply = await server.request('GET', path, stranger);
    assert.ok(reply.is(401, 'UNAUTHENTICATED').headers['www-authenticate']);
    (await server.request('GET', path, { headers: { authorization: 'Bearer wrong' } })).is(401, 'UNAUTHENTICATED');
  }
});

test('metrics tell of requests and statements', async () => {
  (await server.get('/api/v2/catalogs')).is(200);
  (await server.post('/api/v2/catalogs/default/query', { sql: 'SELECT 1' })).is(200);
  const { status, headers, text } = await server.send('GET', '/metrics');
  assert.equal(status, 200);
  assert.match(headers['content-type'] ?? '', /^text\/plain/);
  for (const line of text.split('\n').filter((one) => one !== ''))
    assert.match(line, /^(# (HELP|TYPE) \w+ .+|\w+(\{.*\})? \S+)$/, line);
  assert.match(text, /^tabularium_\w*requests?\w*\{.*catalogs\.list.*\} [1-9]/m);
  assert.match(text, /^tabularium_queries\{.*warehouse="default".*\} 0$/m);
});

test('the document is the one of these declarations, with the paths that are served', async () => {
  const { status, headers, text } = await server.send('GET', '/openapi.json');
  assert.deepEqual([status, headers['content-type']], [200, 'application/json']);
  const { openapi, paths } = JSON.parse(text) as { openapi: string; paths: Record<string, object> };
  assert.match(openapi, /^3\.1\./);
  assert.ok('post' in (paths['/api/v2/catalogs/{catalog}/databases/{database}/tables/create'] ?? {}));
});

test('other methods: 405', async () => {
  for (const path of ['/livez', '/metrics'])
    for (const method of ['POST', 'DELETE', 'OPTIONS']) {
      const reply = await server.request(method, path, stranger);
      assert.equal(reply.is(405, 'METHOD_NOT_ALLOWED').headers.allow, 'GET, HEAD');
    }
});
