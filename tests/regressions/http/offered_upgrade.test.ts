// Java's HTTP client and `curl --http2` offer an upgrade to HTTP/2 with each first request. They got 400 instead of
// a response: RFC 9110, 7.8 lets a server ignore the offer.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { start } from '../../server.ts';

test('a request that offers an upgrade is answered like any other', async (t) => {
  const server = await start();
  t.after(() => server.close());
  const headers = {
    connection: 'Upgrade, HTTP2-Settings',
    upgrade: 'h2c',
    'http2-settings': 'AAMAAABkAAQAoAAAAAIAAAAA',
  };
  (await server.request('GET', '/api/v2/catalogs', { headers })).is(200);
  (await server.request('POST', '/api/v2/databases', { headers, body: { name: 'd' } })).is(201);
  assert.equal((await server.get('/api/v2/databases/d')).status, 200);
});
