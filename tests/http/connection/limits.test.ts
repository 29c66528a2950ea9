// What a client may send and how slowly: beyond each limit one response in the envelope, then the connection ends; the memory of
// the server does not grow with what is sent (rest-standard B2).
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { deadlineMs, spentMs } from '../../deadline.ts';
import { type ServerProcess, startProcess } from '../../server.ts';
import { isFailure, requestHead, Wire } from './wire.ts';

const headersBytesMax = 16 * 1024;
const requestTimeoutMs = spentMs(2000);
/** Node checks for late requests once a second. */
const lateMs = deadlineMs(requestTimeoutMs + 2500);
let server: ServerProcess;
before(async () => {
  server = await startProcess([
    `--headers-bytes-max=${headersBytesMax}`,
    `--headers-timeout-ms=${spentMs(1200)}`,
    `--request-timeout-ms=${requestTimeoutMs}`,
    '--request-body-bytes-max=262144',
  ]);
});
after(() => server.close());

const post = (...lines: readonly string[]) =>
  requestHead(server.token, 'POST /api/v2/catalogs/default/query', 'Content-Type: application/json', ...lines);

async function residentBytes(): Promise<number> {
  const status = await readFile(`/proc/${server.child.pid}/status`, 'utf8');
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1]) * 1024;
}

test('a head that is too large: 400 HEADERS_TOO_LARGE, whichever part of it is', async () => {
  const large = 'x'.repeat(headersBytesMax);
  for (const bytes of [
    requestHead(server.token, 'GET /api/v2/catalogs', `X-Large: ${large}`),
    requestHead(server.token, `GET /api/v2/catalogs/${large}`),
    requestHead(server.token, `GET /api/v2/catalogs?${large}`),
    requestHead(server.token, 'GET /api/v2/catalogs', ...Array.from({ length: 3000 }, (_, i) => `X-${i}: y`)),
  ]) {
    const wire = new Wire(server.port);
    wire.write(bytes);
    isFailure(await wire.answer(), 400, 'HEADERS_TOO_LARGE');
    assert.equal(await wire.rest(), '');
  }
});

test('an endless head: 400, however long the client sends', async () => {
  const wire = new Wire(server.port);
  wire.write('GET /api/v2/catalogs HTTP/1.1\r\nHost: a\r\n');
  const flooding = sendUntilRefused(wire, `X: ${'y'.repeat(60_000)}`, 4 * 1024 ** 3);
  isFailure(await wire.answer(), 400, 'HEADERS_TOO_LARGE');
  await flooding;
  assert.ok(wire.endKind !== undefined);
});

test('a head just below the limit is accepted', async () => {
  const wire = new Wire(server.port);
  wire.write(requestHead(server.token, 'GET /api/v2/catalogs', `X-Large: ${'x'.repeat(headersBytesMax - 400)}`));
  assert.equal((await wire.answer()).status, 200);
  wire.close();
});

/** Sends the same bytes until the connection ends, as fast as they are accepted; returns how many were sent. */
async function sendUntilRefused(wire: Wire, chunk: string, bytesMax: number): Promise<number> {
  const bytes = Buffer.from(chunk, 'latin1');
  let sent = 0;
  while (wire.endKind === undefined && sent < bytesMax) {
    sent += bytes.length;
    if (!wire.write(bytes))
      await Promise.race([new Promise((resolve) => wire.socket.once('drain', resolve)), sleep(200)]);
    else await new Promise(setImmediate);
  }
  return sent;
}

const chunk = `10000\r\n${' '.repeat(0x10000)}\r\n`;
const chunked = 'Transfer-Encoding: chunked';
const endless: readonly [what: string, head: () => string, status: number, code: string][] = [
  ['to an endpoint that takes a body', () => post(chunked), 400, 'BODY_TOO_LARGE'],
  ['to one that takes none', () => requestHead(server.token, 'GET /api/v2/catalogs', chunked), 400, 'BODY_NOT_ALLOWED'],
  ['to a path that is none', () => requestHead(server.token, 'POST /api/v2/nothing', chunked), 404, 'API_NOT_FOUND'],
  ['beside the API', () => requestHead(server.token, 'POST /nothing', chunked), 404, 'API_NOT_FOUND'],
  ['from a stranger', () => requestHead('wrong', 'POST /api/v2/catalogs', chunked), 401, 'UNAUTHENTICATED'],
];

for (const [description, first, status, code] of endless) {
  test(`an endless body ${description}: ${status}, and the connection ends`, async () => {
    const before = await residentBytes();
    const wire = new Wire(server.port);
    wire.write(first());
    const flooding = sendUntilRefused(wire, chunk, 4 * 1024 ** 3);
    const answer = await wire.answer();
    isFailure(answer, status, code);
    assert.equal(answer.headers.connection, 'close');
    await flooding;
    assert.ok(wire.endKind !== undefined);
    const growthBytes = (await residentBytes()) - before;
    assert.ok(growthBytes < 64 * 1024 ** 2, `the server grew by ${growthBytes} bytes`);
  });
}

test('a length over the limit is refused before the body comes', async () => {
  const wire = new Wire(server.port);
  wire.write(post('Content-Length: 999999999999'));
  isFailure(await wire.answer(), 400, 'BODY_TOO_LARGE');
  assert.equal(await wire.rest(), '');
});

test('a body shorter than its length: 400 REQUEST_TIMEOUT, and the connection ends', async () => {
  const wire = new Wire(server.port);
  const started = Date.now();
  wire.write(`${post('Content-Length: 100')}{"sql":`);
  isFailure(await wire.answer(), 400, 'REQUEST_TIMEOUT');
  assert.ok(Date.now() - started < lateMs);
  assert.equal(await wire.rest(), '');
});

test('a body shorter than its length, after which the client closes: 400 and the connection ends', async () => {
  const wire = new Wire(server.port);
  wire.socket.end(`${post('Content-Length: 100')}{"sql":`);
  isFailure(await wire.answer(), 400, 'MALFORMED_HTTP');
  assert.equal(await wire.rest(), '');
});

test('a body longer than its length: the request is answered, and the excess is not taken as a request', async () => {
  const wire = new Wire(server.port);
  const body = '{"sql":"SELECT 1"}';
  wire.write(`${post(`Content-Length: ${body.length}`)}${body}${body}`);
  assert.equal((await wire.answer()).status, 200);
  isFailure(await wire.answer(), 400, 'MALFORMED_HTTP');
  assert.equal(await wire.rest(), '');
});

test('half a head: 400 REQUEST_TIMEOUT, and the connection ends', async () => {
  const sendHalf = async (bytes: string) => {
    const wire = new Wire(server.port);
    wire.write(bytes);
    isFailure(await wire.answer(), 400, 'REQUEST_TIMEOUT', JSON.stringify(bytes));
    assert.equal(await wire.rest(), '');
  };
  await Promise.all(['G', 'GET /api', 'GET /api/v2/catalogs HTTP/1.1\r\nHost: a\r\nX: '].map(sendHalf));
});

test('a connection on which nothing is sent ends without a response, which its next request would take for its own', async () => {
  const unused = new Wire(server.port);
  assert.equal(await unused.rest(), '');
  const used = new Wire(server.port);
  used.write('GET /livez HTTP/1.1\r\nHost: a\r\n\r\n');
  assert.equal((await used.answer()).status, 200);
  used.write('GET /livez');
  isFailure(await used.answer(), 400, 'REQUEST_TIMEOUT');
});

test('a head or a body sent byte by byte does not extend the timeout', async () => {
  const sendSlowly = async (first: string, text: string) => {
    const wire = new Wire(server.port);
    const started = Date.now();
    wire.write(first);
    const drip = setInterval(() => wire.write(text), 50);
    isFailure(await wire.answer(), 400, 'REQUEST_TIMEOUT');
    clearInterval(drip);
    assert.ok(Date.now() - started < lateMs, `${Date.now() - started} ms`);
    await wire.rest();
  };
  await Promise.all([
    sendSlowly('GET /api/v2/catalogs HTTP/1.1\r\nHost: a\r\nX: ', 'y'),
    sendSlowly('GET /api/v2/catalogs HTTP/1.1\r\n', 'X: y\r\n'),
    sendSlowly(post('Content-Length: 100000'), ' '),
    sendSlowly(post(chunked), '1\r\n \r\n'),
  ]);
});

test('afterwards the server responds as before', async () => {
  assert.deepEqual((await server.post('/api/v2/catalogs/default/query', { sql: 'SELECT 1' })).is(200).at('rows'), [
    [1],
  ]);
});
