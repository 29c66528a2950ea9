// Three defects of responses before the body was read: a 404 to a request without a body closed the connection; a refusal
// while the client was still sending was lost in a reset; a valid request followed by an invalid one was answered as invalid.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { isFailure, requestHead, Wire } from '../../http/connection/wire.ts';
import { start, type TestServer } from '../../server.ts';

let server: TestServer;
before(async () => {
  server = await start();
});
after(() => server.close());

test('a connection stays open after a 404 to a request without a body', async () => {
  const wire = new Wire(server.port);
  for (let i = 0; i < 3; i++) {
    wire.write(requestHead(server.token, 'GET /nothing'));
    const answer = await wire.answer();
    assert.deepEqual([answer.status, answer.headers.connection], [404, 'keep-alive']);
  }
  wire.close();
});

test('a client that is still sending receives the refusal', async () => {
  for (let i = 0; i < 20; i++) {
    const wire = new Wire(server.port);
    wire.write(requestHead('wrong', 'POST /api/v2/catalogs', 'Content-Length: 100000000'));
    const sending = setInterval(() => wire.write(' '.repeat(100_000)), 1);
    isFailure(await wire.answer(), 401, 'UNAUTHENTICATED');
    clearInterval(sending);
    wire.close();
  }
});

test('a valid request before a malformed one is answered as valid', async () => {
  const wire = new Wire(server.port);
  wire.write(`${requestHead(server.token, 'GET /api/v2/catalogs')}NONSENSE\r\n\r\n`);
  assert.equal((await wire.answer()).status, 200);
  isFailure(await wire.answer(), 400, 'MALFORMED_HTTP');
  assert.equal(await wire.rest(), '');
});
