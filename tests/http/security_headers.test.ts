// The headers of every response, however it is sent; those of responses outside the API; and the URLs in the log.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { connect as connectPlain, type Socket } from 'node:net';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { connect as connectSecurely } from 'node:tls';
import { fileURLToPath } from 'node:url';
import { spentMs } from '../deadline.ts';
import { start, type TestServer } from '../server.ts';
import { directoryOf, makePair } from './connection/certificates.ts';
import { requestHead } from './connection/wire.ts';

let plain: TestServer;
before(async () => {
  plain = await start({ requestBodyBytesMax: 1024, headersTimeoutMs: spentMs(1500) });
});
after(() => plain.close());

/** Sends, and returns everything received until the connection ends. */
async function exchange(socket: Socket, bytes: string): Promise<string> {
  let output = '';
  socket.on('data', (chunk: Buffer) => (output += chunk));
  socket.on('error', () => undefined);
  socket.write(bytes);
  await new Promise((resolve) => socket.once('close', resolve));
  return output;
}

/** Every way in which the server responds: through node, bypassing it, and after errors of the parser. */
function everyKind(token: string): readonly [string, string, number][] {
  const close = 'Connection: close';
  const json = 'Content-Type: application/json';
  return [
    ['a success', requestHead(token, 'GET /api/v2/catalogs', close), 200],
    ['HEAD', requestHead(token, 'HEAD /api/v2/catalogs', close), 200],
    ['OPTIONS', requestHead(token, 'OPTIONS /api/v2/catalogs', close), 200],
    ['a stranger', requestHead('wrong', 'GET /api/v2/catalogs', close), 401],
    ['no object', requestHead(token, 'GET /api/v2/catalogs/nothing', close), 404],
    ['no method', requestHead(token, 'POST /livez', close), 405],
    ['no path', requestHead(token, 'GET /nothing', close), 404],
    ['two hosts', requestHead(token, 'GET /api/v2/catalogs', 'Host: other', close), 400],
    ['a body refused', requestHead(token, 'POST /api/v2/catalogs', json, 'Content-Length: 99999'), 400],
    ['an expectation', requestHead(token, 'GET /api/v2/catalogs', 'Expect: more', close), 400],
    ['CONNECT', 'CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n', 405],
    ['no HTTP', 'nonsense\r\n\r\n', 400],
    ['too slow', 'GET /api', 400],
    ['an operation', requestHead(token, 'GET /livez', close), 200],
    ['a closed one', requestHead(token, 'GET /metrics', close), 200],
  ];
}

const nosniff = /\r\nX-Content-Type-Options: nosniff\r\n/;
const strictTransport = /\r\nStrict-Transport-Security: (.*)\r\n/;

test('every response forbids content sniffing; without TLS it has no HSTS header', async () => {
  await Promise.all(
    everyKind(plain.token).map(async ([description, bytes, status]) => {
      const received = await exchange(connectPlain(plain.port, '127.0.0.1'), bytes);
      assert.ok(received.startsWith(`HTTP/1.1 ${status} `), `${description}: ${received}`);
      assert.match(received, nosniff, description);
      assert.doesNotMatch(received, strictTransport, description);
    }),
  );
});

test('with TLS, every response has an HSTS header with the configured age', async (t) => {
  const files = makePair(directoryOf(t), 'strict');
  const server = await start({
    ...files,
    requestBodyBytesMax: 1024,
    headersTimeoutMs: spentMs(1500),
    hstsMaxAgeSeconds: 86_400,
  });
  t.after(() => server.close());
  const socket = () => connectSecurely({ port: server.port, host: '127.0.0.1', rejectUnauthorized: false });
  await Promise.all(
    everyKind(server.token).map(async ([description, bytes, status]) => {
      const received = await exchange(socket(), bytes);
      assert.ok(received.startsWith(`HTTP/1.1 ${status} `), `${description}: ${received}`);
      assert.match(received, nosniff, description);
      assert.equal(strictTransport.exec(received)?.[1], 'max-age=86400', description);
    }),
  );
});

test('with 0, there is no HSTS header', async (t) => {
  const server = await start({ ...makePair(directoryOf(t), 'lax'), hstsMaxAgeSeconds: 0 });
  t.after(() => server.close());
  const socket = connectSecurely({ port: server.port, host: '127.0.0.1', rejectUnauthorized: false });
  const received = await exchange(socket, requestHead(server.token, 'GET /livez', 'Connection: close'));
  assert.match(received, nosniff);
  assert.doesNotMatch(received, strictTransport);
});

test('responses outside the API have the headers of a page', async () => {
  for (const path of ['/livez', '/readyz', '/metrics', '/openapi.json']) {
    const { status, headers } = await plain.send('GET', path);
    assert.equal(status, 200);
    assert.match(String(headers['content-security-policy']), /default-src 'self'.*frame-ancestors 'none'/);
    assert.equal(headers['x-frame-options'], 'DENY');
    assert.equal(headers['referrer-policy'], 'no-referrer');
    assert.equal(headers['cross-origin-opener-policy'], 'same-origin');
    assert.match(String(headers['permissions-policy']), /camera=\(\)/);
  }
});

test('the log has the path of a request without its query', async (t) => {
  const secret = 'tbl_planted_in_a_query';
  const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
  const dataDir = join(directoryOf(t), 'data');
  const child = spawn(process.execPath, [main, '--port=0', `--data-dir=${dataDir}`, '--log-level=trace'], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  t.after(() => child.kill('SIGKILL'));
  let log = '';
  child.stderr.on('data', (chunk: Buffer) => (log += chunk));
  let received = '';
  const port = await new Promise<number>((resolve, reject) => {
    child.stdout.on('data', (chunk: Buffer) => {
      received += chunk;
      const port = /URL +http:\S+:(\d+)\n/.exec(received)?.[1];
      if (port !== undefined) resolve(Number(port));
    });
    child.once('exit', () => reject(new Error(`the server ended: ${received}${log}`)));
  });
  const token = (await readFile(join(dataDir, 'root.token'), 'utf8')).trim();
  for (const target of ['/api/v2/catalogs', 'http://test/api/v2/catalogs', '/api/v2/nothing', '/nothing', '/livez']) {
    const bytes = requestHead(token, `GET ${target}?access_token=${secret}`, 'Connection: close');
    assert.match(await exchange(connectPlain(port, '127.0.0.1'), bytes), /^HTTP\/1\.1 /);
  }
  const ended = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGTERM');
  await ended;
  assert.match(log, /"path":"\/api\/v2\/catalogs"/);
  assert.doesNotMatch(log, new RegExp(`${secret}|access_token`));
});
