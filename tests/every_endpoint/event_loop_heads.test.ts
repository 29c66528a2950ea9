// Neither request heads nor large responses block the event loop: long paths and queries, page tokens, headers of every kind up to
// the maximum size, pages of results and of rows, compressed and not.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { ServerProcess } from '../server.ts';
import { requireLoopFree, startProbed } from './held_loop.ts';

/** Just below the maximum head size of Node.js, with room for the headers of the test's own client. */
const headBytes = 15_000;
const api = '/api/v2';
const rows = 40_000;

let server: ServerProcess;
let result: string;
before(async () => {
  server = await startProbed();
  (await server.put(`${api}/databases/loop`)).is(201);
  const columns = [
    { name: 'id', type: 'BIGINT' },
    { name: 'note', type: 'STRING' },
  ];
  (await server.put(`${api}/databases/loop/tables/t`, { columns })).is(201);
  // A page of 1,000 of them is 10 MB.
  (await server.query('loop', `INSERT INTO t SELECT range, repeat('note é ', 1250) FROM range(2000)`)).is(200);
  const sql = `SELECT range, repeat('text é ', 100) AS text FROM range(${rows})`;
  const task = await server.ended(await server.query('loop', sql, { waitSeconds: 0 }));
  task.is(200, '0', { state: 'succeeded' });
  result = task.at<string>('uri');
});
after(() => server.close());

const filled = (part: string) => part.repeat(Math.floor(headBytes / part.length));

const paths: Readonly<Record<string, string>> = {
  'a name of many bytes': `${api}/databases/${filled('%C3%A9')}`,
  'a name of bytes that fold': `${api}/databases/${filled('%C4%B0')}`,
  'a name that is no UTF-8': `${api}/databases/${filled('%FF')}`,
  'many segments': `${api}/${filled('databases/d/')}x`,
  'empty segments': `${api}/${filled('/')}`,
  'broken escapes': `${api}/databases/${filled('%')}`,
  'many parameters': `${api}/databases?${filled('a=1&')}`,
  'one parameter many times': `${api}/databases?${filled('pageSize=1&')}`,
  'a long parameter': `${api}/databases?pageSize=${filled('9')}`,
  'a token of a list': `${api}/databases?pageToken=${filled('abc_-9')}`,
  'a token of many parts': `${api}/databases?pageToken=${filled('eyJh.')}`,
  'a token as long as one may be': `${api}/databases?pageToken=${'WyJh'.repeat(1024)}`,
  'a token of rows as long as one may be': `${api}/databases/loop/tables/t/rows?pageToken=${'WyJh'.repeat(1024)}`,
  'a token of rows': `${api}/databases/loop/tables/t/rows?pageToken=${filled('WyJh')}`,
  'a link': `/files/${filled('abc_-9')}`,
  'a link of many parts': `/files/x?${filled('signature=a&')}`,
};

const headers: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'a long token': { authorization: `Bearer ${filled('a')}` },
  'a token of many parts': { authorization: `Bearer ${filled('eyJ.')}` },
  'a token with an unknown key': { authorization: `Bearer eyJhbGciOiJSUzI1NiJ9.${filled('e30')}.AA` },
  'a name and password': { authorization: `Basic ${btoa(`root:${filled('p').slice(0, 10_000)}`)}` },
  'many media types': { accept: filled('a/b;q=0.1,') },
  'media types of many parameters': { accept: `application/json${filled(';a=1')}` },
  'many codings': { 'accept-encoding': filled('br;q=0.1,') },
  'a long content type': { 'content-type': `application/json${filled('; a="b"')}` },
  'many tags': { 'if-match': filled('"a", ') },
  'tags that do not end': { 'if-match': filled('W/"') },
  'a long key': { 'x-service-idempotency-key': filled('k') },
  'a long id': { 'x-service-request-id': filled('i') },
  'many extensions': Object.fromEntries(Array.from({ length: 600 }, (_, i) => [`x-service-extension-${i}`, 'a'])),
  'names like those of the service': Object.fromEntries(
    Array.from({ length: 500 }, (_, i) => [`x-service-idempotency-ke${i}`, 'a']),
  ),
  'many addresses': { forwarded: filled('for=1.1.1.1, '), 'x-forwarded-for': '1.1.1.1' },
  'many ranges': { range: `bytes=${filled('0-1,')}` },
};

describe('request heads', () => {
  for (const [shape, path] of Object.entries(paths))
    test(shape, async () => {
      for (const method of ['GET', 'DELETE', 'OPTIONS'])
        await requireLoopFree(server, `${method} of ${shape}`, () => server.send(method, path));
    });
  for (const [shape, header] of Object.entries(headers))
    test(shape, async () => {
      for (const path of [`${api}/databases/loop`, '/openapi.json', '/files/x'])
        await requireLoopFree(server, `GET ${path} with ${shape}`, () => server.send('GET', path, { headers: header }));
      const patchDatabase = () =>
        server.send('PATCH', `${api}/databases/loop`, { body: { comment: 'c' }, headers: header });
      await requireLoopFree(server, `PATCH with ${shape}`, patchDatabase);
    });
});

for (const coding of ['identity', 'gzip', 'br', 'zstd']) {
  const get = (path: string) => server.send('GET', path, { headers: { 'accept-encoding': coding } });
  test(`pages of results and of rows, ${coding}`, async () => {
    const page = await requireLoopFree(server, 'a page of a result', () => get(`${result}/pages/0`));
    assert.equal(page.status, 200);
    const listed = await requireLoopFree(server, 'the pages of a result', () => get(`${result}/pages`));
    assert.equal(listed.status, 200);
    const table = await requireLoopFree(server, 'a page of rows', () =>
      get(`${api}/databases/loop/tables/t/rows?pageSize=1000`),
    );
    assert.equal(table.status, 200);
    assert.ok(table.bytes.length > 1000);
    const query = { sql: 'SELECT note FROM t LIMIT 700' };
    const headers = { 'accept-encoding': coding };
    const measuredReplies = await requireLoopFree(server, 'rows of a statement', () =>
      server.send('POST', `${api}/databases/loop/query`, { body: query, headers }),
    );
    assert.equal(measuredReplies.status, 200);
  });
}
