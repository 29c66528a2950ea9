// Headers that node:http accepts but callers did not intend: repeated credentials, misspelled headers of the service, and the
// Accept header of old clients.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { start, type TestServer } from '../server.ts';
import { isFailure, requestHead, Wire } from './connection/wire.ts';

let server: TestServer;
before(async () => {
  server = await start();
});
after(() => server.close());

const misspelt = [
  'x_service_idempotency_key',
  'x-service_request-id',
  'idempotency-key',
  'Request-Id',
  'idempotency_key',
  'x-service-idempotency-keys',
  'x-service-idempotncy-ke',
  'x-servce-request-id',
  'x-service-request-ids1',
];
const headerCases = [
  'x-service-team',
  'x-service-request',
  'x-service-idempotent',
  'x-request-id',
  'x-service-key',
  'x-service-trace-id',
];

test('a header that resembles one of the service is refused on requests that change something', async () => {
  for (const name of misspelt) {
    const headers = { [name]: 'a' };
    const refused = await server.request('PUT', '/api/v2/databases/x', { body: {}, headers });
    refused.is(400, 'INVALID_PARAMETER', { violations: [{ pointer: `header:${name.toLowerCase()}` }] });
    (await server.request('DELETE', '/api/v2/databases/x', { headers })).is(400, 'INVALID_PARAMETER');
    (await server.request('GET', '/api/v2/catalogs', { headers })).is(200);
  }
});

test('any other x-service header belongs to the caller', async () => {
  for (const name of headerCases)
    (await server.request('PUT', '/api/v2/databases/own', { body: {}, headers: { [name]: 'a' } })).is(201);
});

test('two Authorization headers are 401, even if one is valid', async () => {
  const wrong = 'Authorization: Bearer nothing';
  const validHeader = `authorization: Bearer ${server.token}`;
  for (const [first, second] of [
    [wrong, validHeader],
    [validHeader, wrong],
    [validHeader, validHeader],
  ]) {
    const wire = new Wire(server.port);
    wire.write(`GET /api/v2/catalogs HTTP/1.1\r\nHost: a\r\n${first}\r\n${second}\r\n\r\n`);
    isFailure(await wire.answer(), 401, 'UNAUTHENTICATED');
    wire.close();
  }
  const wire = new Wire(server.port);
  wire.write(requestHead(server.token, 'GET /api/v2/catalogs'));
  assert.equal((await wire.answer()).status, 200);
  wire.close();
});

test('every response has a request id', async () => {
  for (const path of ['/livez', '/readyz', '/metrics', '/openapi.json', '/nothing', '/files/x', '/api/v2/catalogs'])
    assert.match(String((await server.send('GET', path)).headers['x-service-request-id']), /^[\w-]{36}$/, path);
});

test('the Accept header of old Java clients accepts JSON', async () => {
  const accept = 'text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2';
  (await server.request('GET', '/api/v2/catalogs', { headers: { accept } })).is(200);
  for (const unacceptable of ['*; q=0, text/html', '*/*; q=.0', 'text/html; q=.2', '*; q=.'])
    (await server.request('GET', '/api/v2/catalogs', { headers: { accept: unacceptable } })).is(406, 'NOT_ACCEPTABLE');
});
