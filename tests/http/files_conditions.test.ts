// Reading a file by its link, according to RFC 9110: ranges (14), conditions and their precedence (13), HEAD (9.3.2); and that
// these requests are charged, logged and counted like all others.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { conditionOf, isRangeOfSame } from '../../src/http/conditions.ts';
import { rangeOf } from '../../src/http/ranges.ts';
import { eventually } from '../deadline.ts';
import { start, startProcess, type TestServer } from '../server.ts';

const text = '0123456789';
let server: TestServer;
let link: string;
let etag: string;
let modified: string;

async function uploadContent(instance: TestServer, content: string): Promise<string> {
  const { link: to, uri: upload } = (await instance.post('/api/v2/uploads', { name: 'x.csv' })).is(201).result;
  const body = Buffer.from(content);
  assert.equal((await instance.send('PUT', to as string, { body, headers: { authorization: undefined } })).status, 200);
  return (await instance.get(upload as string)).is(200).at('link');
}

const requestFile = async (headers: Record<string, string> = {}, method = 'GET', target = link) => {
  const reply = await fetch(`${server.url}${target}`, { method, headers });
  return { status: reply.status, headers: reply.headers, text: await reply.text() };
};

before(async () => {
  server = await start();
  link = await uploadContent(server, text);
  const { headers } = await requestFile();
  etag = headers.get('etag') as string;
  modified = headers.get('last-modified') as string;
  assert.match(etag, /^"[0-9a-f]{64}"$/);
});
after(() => server.close());

test('a single range is sent as 206 with its position; others are 416 or the whole content', async () => {
  const table: [range: string, status: number, body: string, contentRange: string | null][] = [
    ['bytes=0-0', 206, '0', 'bytes 0-0/10'],
    ['bytes=2-4', 206, '234', 'bytes 2-4/10'],
    ['Bytes=2-4', 206, '234', 'bytes 2-4/10'],
    ['bytes=7-', 206, '789', 'bytes 7-9/10'],
    ['bytes=7-99', 206, '789', 'bytes 7-9/10'],
    ['bytes=7-99999999999999999999999999', 206, '789', 'bytes 7-9/10'],
    ['bytes=-3', 206, '789', 'bytes 7-9/10'],
    ['bytes=-99', 206, text, 'bytes 0-9/10'],
    ['bytes=10-', 416, '', 'bytes */10'],
    ['bytes=10-12', 416, '', 'bytes */10'],
    ['bytes=99999999999999999999999999-', 416, '', 'bytes */10'],
    ['bytes=-0', 416, '', 'bytes */10'],
    ['bytes=4-2', 200, text, null],
    ['bytes=a-b', 200, text, null],
    ['bytes=-', 200, text, null],
    ['bytes=0-1,3-4', 200, text, null],
    ['lines=0-1', 200, text, null],
    ['0-1', 200, text, null],
  ];
  for (const [range, status, body, contentRange] of table) {
    const reply = await requestFile({ range });
    assert.deepEqual(
      [reply.status, reply.text, reply.headers.get('content-range')],
      [status, body, contentRange],
      range,
    );
    assert.equal(reply.headers.get('content-length'), String(body.length), range);
    assert.equal(reply.headers.get('etag'), etag, range);
    assert.equal(reply.headers.get('accept-ranges'), 'bytes', range);
    assert.equal(reply.headers.get('cache-control'), 'private, no-cache', range);
  }
});

test('an empty file has no ranges', async () => {
  const empty = await uploadContent(server, '');
  for (const [range, status] of [
    ['bytes=0-', 416],
    ['bytes=-1', 200],
    ['bytes=-0', 416],
  ] as const) {
    const reply = await requestFile({ range }, 'GET', empty);
    assert.deepEqual([reply.status, reply.text], [status, ''], range);
  }
  assert.deepEqual(rangeOf('bytes=-5', 0), undefined);
});

test('HEAD has the headers of GET, and ignores ranges', async () => {
  const complete = await requestFile();
  for (const range of [undefined, 'bytes=2-4', 'bytes=99-']) {
    const head = await requestFile(range === undefined ? {} : { range }, 'HEAD');
    assert.deepEqual([head.status, head.text], [200, '']);
    for (const name of ['etag', 'last-modified', 'content-length', 'content-type', 'accept-ranges', 'cache-control'])
      assert.equal(head.headers.get(name), complete.headers.get(name), name);
    assert.equal(head.headers.get('content-range'), null);
  }
  assert.equal((await requestFile({ 'if-none-match': etag }, 'HEAD')).status, 304);
});

/** With a time later or earlier than that of the file. */
const timeShifted = (ms: number) => new Date(Date.parse(modified) + ms).toUTCString();
const hour = 3_600_000;

test('conditions are evaluated in their order', async () => {
  const other = '"other"';
  const table: [headers: Record<string, string>, status: number][] = [
    [{ 'if-none-match': etag }, 304],
    [{ 'if-none-match': `W/${etag}` }, 304],
    [{ 'if-none-match': '*' }, 304],
    [{ 'if-none-match': `${other}, "with, comma", ${etag}` }, 304],
    [{ 'if-none-match': other }, 200],
    [{ 'if-match': etag }, 200],
    [{ 'if-match': '*' }, 200],
    [{ 'if-match': `${other}, ${etag}` }, 200],
    [{ 'if-match': other }, 412],
    [{ 'if-match': `W/${etag}` }, 412],
    [{ 'if-modified-since': modified }, 304],
    [{ 'if-modified-since': timeShifted(hour) }, 304],
    [{ 'if-modified-since': timeShifted(-hour) }, 200],
    [{ 'if-modified-since': 'yesterday' }, 200],
    [{ 'if-unmodified-since': modified }, 200],
    [{ 'if-unmodified-since': timeShifted(-hour) }, 412],
    [{ 'if-unmodified-since': 'yesterday' }, 200],
    // A tag takes precedence over a time.
    [{ 'if-none-match': other, 'if-modified-since': modified }, 200],
    [{ 'if-match': etag, 'if-unmodified-since': timeShifted(-hour) }, 200],
    [{ 'if-match': other, 'if-none-match': etag }, 412],
    [{ 'if-match': etag, 'if-none-match': etag }, 304],
    // A range is evaluated last.
    [{ range: 'bytes=1-2', 'if-none-match': etag }, 304],
    [{ range: 'bytes=99-', 'if-match': other }, 412],
    [{ range: 'bytes=1-2', 'if-match': etag }, 206],
  ];
  for (const [headers, status] of table) {
    const reply = await requestFile(headers);
    assert.equal(reply.status, status, JSON.stringify(headers));
    assert.equal(reply.text, status === 200 ? text : status === 206 ? '12' : '', JSON.stringify(headers));
    assert.equal(reply.headers.get('etag'), etag);
    assert.equal(reply.headers.get('cache-control'), 'private, no-cache');
    if (status === 304) assert.equal(reply.headers.get('content-length'), null);
  }
});

test('If-Range: a part only if the client has another part of the same content', async () => {
  const table: [ifRange: string, status: number][] = [
    [etag, 206],
    [`W/${etag}`, 200],
    ['"other"', 200],
    [modified, 206],
    [timeShifted(-hour), 200],
    [timeShifted(hour), 200],
    ['yesterday', 200],
  ];
  for (const [ifRange, status] of table) {
    const reply = await requestFile({ range: 'bytes=1-2', 'if-range': ifRange });
    assert.deepEqual([reply.status, reply.text], [status, status === 206 ? '12' : text], ifRange);
  }
  assert.equal((await requestFile({ range: 'bytes=99-', 'if-range': '"other"' })).status, 200);
  assert.equal((await requestFile({ 'if-range': '"other"' })).status, 200);
});

test('a date can be in each of the three formats, all of them in UTC', () => {
  const validators = { etag: '"x"', modifiedAt: Date.parse('1994-11-06T08:49:37.900Z') };
  for (const form of ['Sun, 06 Nov 1994 08:49:37 GMT', 'Sunday, 06-Nov-94 08:49:37 GMT', 'Sun Nov  6 08:49:37 1994']) {
    assert.equal(conditionOf({ 'if-modified-since': form }, validators), 304, form);
    assert.equal(conditionOf({ 'if-unmodified-since': form }, validators), 'met', form);
    assert.equal(isRangeOfSame(form, validators), true, form);
  }
  assert.equal(conditionOf({ 'if-modified-since': 'Sun, 06 Nov 1994 08:49:36 GMT' }, validators), 'met');
});

test('requests are charged to their address and to the owner of the link; an invalid link costs its address more', async () => {
  const limits = { principalCostPerSecondMax: 0.001, principalCostBurstMax: 50, addressCostBurstMax: 1000 };
  const limited = await start({ ...limits, addressCostPerSecondMax: 0.001 });
  try {
    const read = await uploadContent(limited, text);
    const get = (target: string) => limited.send('GET', target, { headers: { authorization: undefined } });
    const codes: number[] = [];
    while (codes.at(-1) !== 503 && codes.length < 50) codes.push((await get(read)).status);
    assert.ok(codes.length > 2 && codes.length < 12, `${codes}`);
    assert.deepEqual([...new Set(codes)], [200, 503]);
    const refused = await get(read);
    assert.deepEqual([refused.status, JSON.parse(refused.text).result.limit], [503, 'principal']);
    assert.ok(Number(refused.headers['retry-after']) > 0);
    const forged = read.replace(/signature=.*/, 'signature=x');
    let last = await get(forged);
    assert.equal(last.status, 403);
    for (let i = 0; i < 200 && last.status === 403; i++) last = await get(forged);
    assert.deepEqual([last.status, JSON.parse(last.text).result.limit], [503, 'address']);
  } finally {
    await limited.close();
  }
});

test('requests are logged and counted, without the signatures of links', async () => {
  const logged = await startProcess(['--log-level=debug']);
  try {
    let lines = '';
    logged.child.stderr?.on('data', (chunk: Buffer) => {
      lines += chunk;
    });
    const read = await uploadContent(logged, text);
    const headers = { authorization: undefined, 'x-service-request-id': 'mine' };
    const reply = await logged.send('GET', read, { headers });
    assert.deepEqual([reply.status, reply.headers['x-service-request-id']], [200, 'mine']);
    const forged = read.replace(/signature=.*/, 'signature=forged');
    assert.equal((await logged.send('GET', forged, { headers: { authorization: undefined } })).status, 403);
    const metrics = (await logged.send('GET', '/metrics')).text;
    assert.match(metrics, /tabularium_request_seconds_count\{[^}]*endpoint="files\.read"[^}]*\} \d/);
    assert.match(metrics, /tabularium_request_seconds_count\{[^}]*endpoint="files\.write"[^}]*\} 1/);
    const path = read.slice(0, read.indexOf('?'));
    const entries = () =>
      lines
        .slice(0, lines.lastIndexOf('\n') + 1)
        .split('\n')
        .filter((line) => line.includes(path))
        .map((line) => JSON.parse(line) as Record<string, unknown>);
    // A download is logged when its connection accepted the last byte: its caller may have sent another request by then.
    await eventually('logged', () => entries().length >= 3);
    const endings = entries()
      .map(({ endpoint, method, status, code, principal }) => ({ endpoint, method, status, code, principal }))
      .toSorted((a, b) => Number(a.status) - Number(b.status) || String(b.method).localeCompare(String(a.method)));
    assert.deepEqual(endings, [
      { endpoint: 'files.write', method: 'PUT', status: 200, code: '0', principal: 'root' },
      { endpoint: 'files.read', method: 'GET', status: 200, code: '0', principal: 'root' },
      { endpoint: 'files.read', method: 'GET', status: 403, code: 'FORBIDDEN', principal: undefined },
    ]);
    assert.equal(entries().find(({ method, status }) => method === 'GET' && status === 200)?.requestId, 'mine');
    const signature = /signature=(.*)/.exec(read)?.[1] as string;
    assert.ok(!lines.includes(signature) && !lines.includes('forged'));
  } finally {
    await logged.close();
  }
});
