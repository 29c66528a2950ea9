// Limits by connection and by address: how many connections one address has, how many requests a connection, how many
// headers a request.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Session } from '../../../src/access/authentication/authenticator.ts';
import type { RequestAuthorizer } from '../../../src/http/request_pipeline.ts';
import { deadlineMs } from '../../deadline.ts';
import { start, type TestServer } from '../../server.ts';
import { isFailure, requestHead, Wire } from './wire.ts';

const options = { logLevel: 'silent' } as const;

async function connectAndRequest(server: TestServer): Promise<Wire> {
  const wire = new Wire(server.port);
  wire.write(requestHead(server.token, 'GET /livez'));
  assert.equal((await wire.answer()).status, 200);
  return wire;
}

test('connections of one address over its limit are closed at once and counted; closing others makes room', async (t) => {
  const server = await start({ ...options, connectionsPerAddressMax: 3 });
  t.after(() => server.close());
  const wires = [await connectAndRequest(server), await connectAndRequest(server), await connectAndRequest(server)];
  for (let i = 0; i < 5; i++) {
    const wire = new Wire(server.port);
    wire.write(requestHead(server.token, 'GET /livez'));
    assert.equal(await wire.rest(), '');
  }
  wires[1]?.write(requestHead(server.token, 'GET /metrics'));
  const { body = '' } = (await wires[1]?.answer()) ?? {};
  assert.match(body, /^tabularium_connections_refused_total\{limit="connectionsPerAddressMax"\} 5$/m);
  wires[0]?.close();
  for (const deadline = Date.now() + deadlineMs(10_000); ; await sleep(20)) {
    const wire = new Wire(server.port);
    wire.write(requestHead(server.token, 'GET /livez'));
    const answer = await wire.answer().catch(() => undefined);
    wire.close();
    if (answer?.status === 200) break;
    assert.ok(Date.now() < deadline, 'there is no room again');
  }
  for (const wire of wires) wire.close();
});

test('a trusted proxy has no limit, nor has any address if the setting is 0', async (t) => {
  for (const settings of [
    { connectionsPerAddressMax: 1, trustedProxies: '127.0.0.0/8' },
    { connectionsPerAddressMax: 0 },
  ]) {
    const server = await start({ ...options, ...settings });
    t.after(() => server.close());
    const wires = await Promise.all(Array.from({ length: 5 }, () => connectAndRequest(server)));
    for (const wire of wires) wire.close();
  }
});

test('a connection ends after its last allowed request; requests sent after it are not executed', async (t) => {
  const server = await start({ ...options, requestsPerConnectionMax: 3 });
  t.after(() => server.close());
  const body = '{"comment":"too late"}';
  const lines = ['Content-Type: application/json', `Content-Length: ${body.length}`];
  const change = requestHead(server.token, 'PATCH /api/v2/databases/kept', ...lines) + body;
  (await server.put('/api/v2/databases/kept', { comment: 'in time' })).is(201);
  for (const last of ['GET /api/v2/catalogs', 'GET /livez']) {
    const wire = new Wire(server.port);
    const two = requestHead(server.token, 'GET /api/v2/catalogs').repeat(2);
    wire.write(two + requestHead(server.token, last) + change);
    const closing: (string | undefined)[] = [];
    for (let i = 0; i < 3; i++) closing.push((await wire.answer()).headers.connection);
    assert.deepEqual(closing, ['keep-alive', 'keep-alive', 'close'], last);
    assert.equal(await wire.rest(), '');
  }
  await sleep(100); // in which it would be done
  (await server.get('/api/v2/databases/kept')).is(200, '0', { comment: 'in time' });
});

test('a refusal leaves the connection open if the body has come, whether or not anything was waited for', async (t) => {
  let isWaiting = false;
  const wrapAuthorizer = (authorizer: RequestAuthorizer): RequestAuthorizer =>
    Object.assign(Object.create(authorizer) as RequestAuthorizer, {
      async authenticate(authorization: string | undefined, address: string) {
        if (isWaiting) await sleep(1);
        return authorizer.authenticate(authorization, address);
      },
      isValid: (session: Session) => authorizer.isValid(session),
    });
  const server = await start(options, { wrapAuthorizer });
  t.after(() => server.close());
  (await server.post('/api/v2/users', { name: 'ann' })).is(201);
  const token = (await server.post('/api/v2/users/ann/tokens', { name: 'laptop' })).is(201).at<string>('secret');
  const wire = new Wire(server.port);
  const body = '{"name":"d"}';
  const lines = ['Content-Type: application/json', `Content-Length: ${body.length}`];
  for (isWaiting of [false, true, false]) {
    wire.write(requestHead(token, 'POST /api/v2/databases', ...lines) + body);
    const answer = await wire.answer();
    isFailure(answer, 403, 'FORBIDDEN');
    assert.equal(answer.headers.connection, 'keep-alive');
  }
  wire.close();
});

test('too many headers: 400 HEADERS_TOO_LARGE, and none is silently dropped', async (t) => {
  const server = await start({ ...options, headersCountMax: 100 });
  t.after(() => server.close());
  const wire = new Wire(server.port);
  const headerLines = (count: number) => Array.from({ length: count }, (_, i) => `a${i}: b`);
  // `head` has two of its own.
  wire.write(requestHead(server.token, 'GET /api/v2/catalogs', ...headerLines(98)));
  assert.equal((await wire.answer()).status, 200);
  wire.write(requestHead(server.token, 'GET /api/v2/catalogs', ...headerLines(99)));
  isFailure(await wire.answer(), 400, 'HEADERS_TOO_LARGE');
  wire.write(requestHead(server.token, 'GET /livez', ...headerLines(2500)));
  isFailure(await wire.answer(), 400, 'HEADERS_TOO_LARGE');
  wire.close();
  const wide = await start({ ...options, headersCountMax: 2000 });
  t.after(() => wide.close());
  const last = new Wire(wide.port);
  const lines = [
    'GET /api/v2/catalogs HTTP/1.1',
    'Host: a',
    ...headerLines(1990),
    `Authorization: Bearer ${wide.token}`,
  ];
  last.write([...lines, '', ''].join('\r\n'));
  assert.equal((await last.answer()).status, 200, 'the last header is read');
  last.close();
});
