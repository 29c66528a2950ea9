// Responses of more than 1 KiB are compressed if Accept-Encoding allows it (rest-standard B8), and are otherwise the same.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readdirSync, readlinkSync } from 'node:fs';
import type { IncomingHttpHeaders } from 'node:http';
import { after, before, test } from 'node:test';
import { brotliDecompressSync, gunzipSync, zstdDecompressSync } from 'node:zlib';
import { preferenceOf } from '../../../src/http/content_coding.ts';
import { eventually } from '../../deadline.ts';
import type { RawReply } from '../../raw_http.ts';
import { start, type TestServer } from '../../server.ts';
import { requestHead, Wire } from '../connection/wire.ts';

let server: TestServer;
before(async () => {
  server = await start();
});
after(() => server.close());

const decoders = { zstd: zstdDecompressSync, br: brotliDecompressSync, gzip: gunzipSync } as const;

function decodedText({ bytes, headers }: RawReply): string {
  const coding = headers['content-encoding'] as keyof typeof decoders | undefined;
  return (coding === undefined ? bytes : decoders[coding](bytes)).toString();
}

const query = '/api/v2/catalogs/default/query';
const accepting = (coding: string | undefined) => ({ 'accept-encoding': coding });
const run = (sql: string, coding: string | undefined) =>
  server.send('POST', query, { body: { sql }, headers: accepting(coding) });

/** The duration of a query differs in each response. */
const withoutVolatileFields = (text: string) =>
  text.replace(/"(?:queryId|startedAt|endedAt)":"[^"]*"|"\w*Ms":[\d.]+/g, '');
const ownOf = ({ 'x-service-request-id': _id, date: _date, ...rest }: IncomingHttpHeaders) => rest;

for (const [description, sql] of [
  ['one packet or two', "SELECT repeat('é😀', 500) AS a"],
  ['some 100 KiB', "SELECT i, 'row ' || i AS a FROM range(5000) t(i)"],
  ['several MiB, sent while they are compressed', "SELECT i, 'é😀 row ' || i AS a FROM range(120000) t(i)"],
] as const)
  for (const coding of ['zstd', 'br', 'gzip'] as const)
    test(`${description}: ${coding}`, async () => {
      const plain = await run(sql, undefined);
      assert.equal(plain.status, 200, plain.text);
      assert.equal(plain.headers.vary, 'Accept-Encoding');
      assert.equal(plain.headers['content-encoding'], undefined);
      assert.equal(plain.headers['content-length'], String(plain.bytes.length));
      const coded = await run(sql, coding);
      assert.equal(coded.headers['content-encoding'], coding);
      assert.ok(coded.bytes.length < plain.bytes.length, `${coded.bytes.length} of ${plain.bytes.length} bytes`);
      assert.equal(withoutVolatileFields(decodedText(coded)), withoutVolatileFields(plain.text));
      const {
        'content-encoding': _coding,
        'content-length': _coded,
        'transfer-encoding': _chunked,
        ...others
      } = ownOf(coded.headers);
      const { 'content-length': _plain, ...same } = ownOf(plain.headers);
      assert.deepEqual(others, same);
    });

test('small responses, and those to requests that do not ask for compression, are sent uncompressed', async () => {
  for (const coding of ['gzip', 'zstd, br, gzip', '*']) {
    const { headers, text } = await run('SELECT 1', coding);
    assert.deepEqual([headers['content-encoding'], headers.vary], [undefined, undefined]);
    assert.equal(headers['content-length'], String(text.length));
  }
});

test('a small response is compressed if it may not be sent uncompressed', async () => {
  const reply = await run('SELECT 1', 'gzip, identity;q=0');
  assert.equal(reply.headers['content-encoding'], 'gzip');
  assert.equal(JSON.parse(decodedText(reply)).code, '0');
});

test('failures and responses outside the API are compressed too', async () => {
  const wrong = Object.fromEntries(Array.from({ length: 8 }, (_, i) => [`${'x'.repeat(200)}${i}`, i]));
  const failure = await server.send('POST', query, { body: wrong, headers: accepting('br') });
  assert.deepEqual([failure.status, failure.headers['content-encoding']], [400, 'br']);
  assert.equal(JSON.parse(decodedText(failure)).code, 'INVALID_PARAMETER');
  const metrics = await server.send('GET', '/metrics', { headers: accepting('gzip') });
  assert.equal(metrics.headers['content-encoding'], 'gzip');
  assert.match(decodedText(metrics), /^# HELP/);
});

test('a HEAD has the headers of its GET and no body; the connection stays open', async () => {
  const wire = new Wire(server.port);
  for (const coding of ['gzip', 'identity']) {
    wire.write(requestHead(server.token, 'HEAD /openapi.json', `Accept-Encoding: ${coding}`));
    const { status, headers } = await wire.answer({ head: true });
    assert.equal(status, 200);
    assert.ok(Number(headers['content-length']) > 1024);
  }
  wire.write(requestHead(server.token, 'GET /api/v2/catalogs'));
  assert.equal((await wire.answer()).status, 200);
  wire.close();
});

test('a client of HTTP/1.0 gets a large response completely', async () => {
  const wire = new Wire(server.port);
  const body = JSON.stringify({ sql: "SELECT i, 'row ' || i AS a FROM range(100000) t(i)" });
  const lines = ['Accept-Encoding: gzip', 'Content-Type: application/json', `Content-Length: ${body.length}`];
  wire.write(requestHead(server.token, `POST ${query}`, ...lines).replace('HTTP/1.1', 'HTTP/1.0') + body);
  const chunks: Buffer[] = [];
  wire.socket.on('data', (chunk) => chunks.push(chunk as Buffer));
  await wire.rest();
  const all = Buffer.concat(chunks);
  const text = gunzipSync(all.subarray(all.indexOf('\r\n\r\n') + 4)).toString();
  assert.equal(JSON.parse(text).result.rows.length, 100000);
});

test('a client that disconnects during a compressed response affects nobody', async () => {
  const controller = new AbortController();
  const bytesLeft = server
    .send('POST', query, {
      body: { sql: 'SELECT i, uuid() FROM range(150000) t(i)' },
      headers: accepting('br'),
      signal: controller.signal,
    })
    .catch((error: Error) => error.name);
  setTimeout(() => controller.abort(), 300);
  await bytesLeft;
  assert.equal((await run('SELECT 1', 'gzip')).status, 200);
});

/** Files of results that this process, which is the server, has open. */
const openResults = () =>
  readdirSync('/proc/self/fd').filter((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`).startsWith(`${server.dataDirectory}/results/`);
    } catch {
      return false;
    }
  }).length;

test('pages that are read while they are sent: exact in every coding and for a slow client, and closed when it disconnects', async () => {
  const first = (await run("SELECT i, 'é😀 row ' || i AS a FROM range(500000) t(i)", undefined)).text;
  const { rows, nextPage, pageCount } = JSON.parse(first).result;
  assert.ok(rows.length > 100_000);
  assert.notEqual(pageCount, 1);
  const path: string = nextPage;
  await eventually(
    'the result is complete',
    async () => JSON.parse((await server.send('GET', path)).text).result.pageCount !== null,
  );
  const plain = await server.send('GET', path);
  const page = JSON.parse(plain.text).result.rows as [number, string][];
  assert.ok(page.every(([i, text], row) => i === rows.length + row && text === `é😀 row ${i}`));
  for (const coding of ['zstd', 'br', 'gzip']) {
    const coded = await server.send('GET', path, { headers: accepting(coding) });
    assert.equal(coded.headers['content-encoding'], coding);
    assert.equal(decodedText(coded), plain.text);
  }
  const wire = new Wire(server.port);
  wire.socket.pause();
  wire.write(requestHead(server.token, `GET ${path}`) + requestHead(server.token, `GET ${path}`));
  await eventually('the page is being sent', async () => openResults() > 0);
  wire.socket.resume();
  for (const answer of [await wire.answer(), await wire.answer()]) assert.ok(answer.body === plain.text);
  wire.socket.pause();
  wire.write(requestHead(server.token, `GET ${path}`) + requestHead(server.token, `GET ${path}`));
  await eventually('the page is being sent', async () => openResults() > 0);
  wire.socket.destroy();
  await once(wire.socket, 'close');
  await eventually('its file is closed', async () => openResults() === 0);
});

test('the preferred coding of a header', () => {
  const codings: Readonly<Record<string, string | undefined>> = {
    '': undefined,
    gzip: 'gzip',
    'x-gzip': 'gzip',
    GZIP: 'gzip',
    'gzip, deflate, br, zstd': 'zstd',
    'gzip, deflate, br': 'br',
    'gzip;q=1, br;q=0.5': 'gzip',
    'gzip ; q=0.2 , br ; q=0.3': 'br',
    'zstd;q=0, *': 'br',
    'zstd;q=0, br;q=0, *;q=0.1': 'gzip',
    '*': 'zstd',
    '*;q=0': undefined,
    'gzip;q=0': undefined,
    'gzip;q=0.000': undefined,
    identity: undefined,
    'identity;q=1, gzip;q=0.5': undefined,
    'identity;q=0.5, gzip;q=1': 'gzip',
    'gzip;q=0.5': 'gzip',
    'identity;q=0': undefined,
    'deflate, compress': undefined,
    'gzip;q=2': undefined,
    'gzip;q=1.001': undefined,
    'gzip;q=': undefined,
    'gzip;q=x, br': 'br',
    'gzip;level=9': undefined,
    ';;;,,,=': undefined,
    'gz ip': undefined,
    'gzip, gzip;q=0': undefined,
  };
  for (const [header, coding] of Object.entries(codings))
    assert.equal(preferenceOf(header).coding, coding, JSON.stringify(header));
  assert.equal(preferenceOf('gzip, identity;q=0').mustCode, true);
  assert.equal(preferenceOf('gzip, *;q=0').mustCode, true);
  assert.equal(preferenceOf('gzip').mustCode, false);
});
