// Malformed HTTP, and HTTP that clients seldom send: one response in the envelope, then the connection ends; or the normal response
// if the request was valid (rest-standard B2).
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { spentMs } from '../../deadline.ts';
import { start, type TestServer } from '../../server.ts';
import { isFailure, requestHead, Wire } from './wire.ts';

let server: TestServer;
before(async () => {
  server = await start({ headersTimeoutMs: spentMs(2000), requestTimeoutMs: spentMs(2000) });
});
after(() => server.close());

const post = (...lines: readonly string[]) =>
  requestHead(server.token, 'POST /api/v2/catalogs/default/query', 'Content-Type: application/json', ...lines);

const malformedRequests: Readonly<Record<string, () => string | Uint8Array>> = {
  'no request at all': () => 'GARBAGE\r\n\r\n',
  'a request line of one word': () => 'GET\r\n\r\n',
  'HTTP/0.9': () => 'GET /api/v2/catalogs\r\n\r\n',
  'HTTP/3.0': () => 'GET /api/v2/catalogs HTTP/3.0\r\nHost: a\r\n\r\n',
  'another protocol': () => 'GET /api/v2/catalogs SIP/2.0\r\nHost: a\r\n\r\n',
  'an unknown method in an incomplete request line': () => 'BREW /api/v2/cata',
  'an unknown method of another version': () => 'BREW /api/v2/catalogs HTTP/3.0\r\nHost: a\r\n\r\n',
  'the beginning of HTTP/2': () => 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
  'the beginning of TLS': () => Buffer.from('16030100a5010000a10303000102030405', 'hex'),
  'a space in the path': () => 'GET /api/v2/a b HTTP/1.1\r\nHost: a\r\n\r\n',
  'raw UTF-8 in the path': () => 'GET /api/v2/catalogs/\u00c3\u00a9 HTTP/1.1\r\nHost: a\r\n\r\n',
  'a header without a colon': () => 'GET /api/v2/catalogs HTTP/1.1\r\nHost: a\r\nnonsense\r\n\r\n',
  'a header without a name': () => 'GET /api/v2/catalogs HTTP/1.1\r\nHost: a\r\n: x\r\n\r\n',
  'a space before the colon': () => 'GET /api/v2/catalogs HTTP/1.1\r\nHost : a\r\n\r\n',
  'a NUL in a header': () => 'GET /api/v2/catalogs HTTP/1.1\r\nHost: a\r\nX: \u0000\r\n\r\n',
  'no Host': () => 'GET /api/v2/catalogs HTTP/1.1\r\n\r\n',
  'two Hosts': () => 'GET /api/v2/catalogs HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n',
  'a negative length': () => post('Content-Length: -1'),
  'a length that is no number': () => post('Content-Length: ten'),
  'two lengths': () => `${post('Content-Length: 2', 'Content-Length: 3')}{} `,
  'a length and chunks': () => `${post('Content-Length: 2', 'Transfer-Encoding: chunked')}0\r\n\r\n`,
  'a coding that is no chunks': () => `${post('Transfer-Encoding: gzip')}{}`,
  'chunks that are not last': () => `${post('Transfer-Encoding: chunked, gzip')}0\r\n\r\n`,
  'a chunk without a length': () => `${post('Transfer-Encoding: chunked')}xyz\r\n{}\r\n0\r\n\r\n`,
  'a chunk longer than it says': () => `${post('Transfer-Encoding: chunked')}1\r\n{}}}\r\n0\r\n\r\n`,
};

for (const [description, bytes] of Object.entries(malformedRequests)) {
  test(`${description}: one 400 in the envelope, and the connection ends`, async () => {
    const wire = new Wire(server.port);
    wire.write(bytes());
    const answer = await wire.answer();
    isFailure(answer, 400, 'MALFORMED_HTTP', description);
    assert.match(answer.headers['x-service-request-id'] ?? '', /^[\w-]{36}$/, description);
    if (description.endsWith('Host') || description.endsWith('Hosts')) return wire.close();
    assert.equal(await wire.rest(), '', 'nothing comes after the answer');
  });
}

for (const method of ['BREW', 'get', 'Post', 'GETS', 'X', 'x-y', 'PROPFINDER']) {
  test(`the unknown method ${method}: 405 with the methods of the path, and the connection ends`, async () => {
    for (const [path, allow] of [
      ['/api/v2/catalogs', 'GET, HEAD, OPTIONS, POST, PUT'],
      ['/api/v2/catalogs/default', 'DELETE, GET, HEAD, OPTIONS, PATCH, PUT'],
      ['http://a/api/v2/catalogs/default/rename?a=b', 'OPTIONS, POST'],
      ['/livez', 'GET, HEAD'],
    ] as const) {
      const wire = new Wire(server.port);
      wire.write(`${method} ${path} HTTP/1.1\r\nHost: a\r\n\r\n`);
      const answer = await wire.answer();
      isFailure(answer, 405, 'METHOD_NOT_ALLOWED', path);
      assert.equal(answer.headers.allow, allow, path);
      assert.match(answer.headers['x-service-request-id'] ?? '', /^[\w-]{36}$/);
      assert.equal(await wire.rest(), '');
    }
    const wire = new Wire(server.port);
    wire.write(`${method} /api/v2/nothing/at/all HTTP/1.1\r\nHost: a\r\n\r\n`);
    isFailure(await wire.answer(), 404, 'API_NOT_FOUND');
  });
}

test('after a request in the same packet, an unknown method is refused with the methods of its own path', async () => {
  const wire = new Wire(server.port);
  const last = 'BREW /api/v2/catalogs/default HTTP/1.1\r\nHost: a\r\n\r\n';
  wire.write(`${requestHead(server.token, 'GET /api/v2/catalogs')}${last}`);
  assert.equal((await wire.answer()).status, 200);
  const answer = await wire.answer();
  isFailure(answer, 405, 'METHOD_NOT_ALLOWED');
  assert.match(answer.headers.allow ?? '', /PATCH/);
});

test('CONNECT: 405 with the supported methods', async () => {
  const wire = new Wire(server.port);
  wire.write('CONNECT example.org:443 HTTP/1.1\r\nHost: example.org\r\n\r\n');
  const answer = await wire.answer();
  isFailure(answer, 405, 'METHOD_NOT_ALLOWED');
  assert.match(answer.headers.allow ?? '', /GET/);
  assert.equal(await wire.rest(), '');
});

test('an offered upgrade is ignored, as RFC 9110 allows: Java’s client and curl --http2 offer one', async () => {
  const wire = new Wire(server.port);
  const upgrade = ['Connection: Upgrade, HTTP2-Settings', 'Upgrade: h2c', 'HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA'];
  wire.write(requestHead(server.token, 'GET /api/v2/catalogs', ...upgrade));
  assert.equal((await wire.answer()).status, 200);
  const body = JSON.stringify({ sql: 'SELECT 1 AS one' });
  wire.write(`${post(...upgrade, `Content-Length: ${body.length}`)}${body}`);
  const answer = await wire.answer();
  assert.deepEqual([answer.status, JSON.parse(answer.body).result.rows], [200, [[1]]]);
  wire.close();
});

test('Expect: 100-continue is answered with 100, anything else with 400', async () => {
  const wire = new Wire(server.port);
  const body = JSON.stringify({ sql: 'SELECT 1 AS one' });
  wire.write(post('Expect: 100-continue', `Content-Length: ${body.length}`));
  assert.equal((await wire.answer()).status, 100);
  wire.write(body);
  assert.equal((await wire.answer()).status, 200);
  wire.write(post('Expect: a-miracle', 'Content-Length: 0'));
  isFailure(await wire.answer(), 400, 'EXPECTATION_FAILED');
  wire.close();
});

test('a target in absolute form is equivalent to its path (RFC 9112, 3.2.2)', async () => {
  const wire = new Wire(server.port);
  wire.write(requestHead(server.token, 'GET http://somewhere:1234/api/v2/catalogs/default?'));
  const answer = await wire.answer();
  assert.deepEqual([answer.status, JSON.parse(answer.body).result.name], [200, 'default']);
  wire.write('GET http://somewhere/livez HTTP/1.1\r\nHost: a\r\n\r\n');
  assert.equal((await wire.answer()).body, 'alive\n');
  wire.write(requestHead(server.token, 'GET http://somewhere/nothing'));
  isFailure(await wire.answer(), 404, 'API_NOT_FOUND');
  wire.close();
});

const missingTargets = [
  '*',
  '/api',
  '/api/',
  '/api/v2',
  '//api/v2/catalogs',
  '/API/v2/catalogs',
  '/index.html',
  '/livez/',
  '/%',
];

test('targets that do not exist: 404 in the envelope', async () => {
  const wire = new Wire(server.port);
  for (const target of missingTargets) {
    wire.write(requestHead(server.token, `GET ${target}`));
    isFailure(await wire.answer(), 404, 'API_NOT_FOUND', target);
  }
  wire.write(requestHead(server.token, 'OPTIONS *'));
  isFailure(await wire.answer(), 404, 'API_NOT_FOUND');
  wire.close();
});

test('HTTP/1.0 is answered and the connection ends; no Host is needed', async () => {
  const wire = new Wire(server.port);
  wire.write(`GET /api/v2/catalogs HTTP/1.0\r\nAuthorization: Bearer ${server.token}\r\n\r\n`);
  const answer = await wire.answer();
  assert.equal(answer.status, 200);
  assert.equal(await wire.rest(), '');
});

test('HEAD and OPTIONS have no body on the wire, failures included', async () => {
  const wire = new Wire(server.port);
  for (const target of ['/api/v2/catalogs', '/api/v2/nothing', '/api/v2/catalogs/nothing', '/livez']) {
    wire.write(requestHead(server.token, `HEAD ${target}`));
    const answer = await wire.answer({ head: true });
    assert.ok(Number(answer.headers['content-length']) > 0, target);
  }
  wire.write('HEAD /api/v2/catalogs HTTP/1.1\r\nHost: a\r\n\r\n');
  assert.equal((await wire.answer({ head: true })).status, 401);
  wire.write(requestHead(server.token, 'OPTIONS /api/v2/catalogs'));
  assert.deepEqual((await wire.answer()).body, '');
  wire.write(requestHead(server.token, 'GET /api/v2/catalogs/default'));
  assert.equal((await wire.answer()).status, 200, 'the connection is still in step');
  wire.close();
});

test('pipelined requests are answered in their order', async () => {
  const wire = new Wire(server.port);
  const count = 300;
  let bytes = '';
  for (let i = 0; i < count; i++)
    bytes += requestHead(
      server.token,
      `GET /api/v2/catalogs/${i % 3 === 0 ? 'default' : `no${i}`}`,
      `x-service-request-id: r${i}`,
    );
  wire.write(bytes);
  for (let i = 0; i < count; i++) {
    const answer = await wire.answer();
    assert.equal(answer.headers['x-service-request-id'], `r${i}`);
    assert.equal(answer.status, i % 3 === 0 ? 200 : 404);
  }
  wire.close();
});

test('a request that follows a failure on the same connection is answered', async () => {
  const wire = new Wire(server.port);
  wire.write(`${post('Content-Length: 9')}{"a": no}`);
  isFailure(await wire.answer(), 400, 'MALFORMED_JSON');
  wire.write(requestHead(server.token, 'GET /api/v2/catalogs'));
  assert.equal((await wire.answer()).status, 200);
  wire.close();
});
