// Bodies over 256 KiB are parsed and checked by threads: with the same responses as small ones, and within their limits.
import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { newPerson } from '../../access/people.ts';
import { deadlineMs, eventually } from '../../deadline.ts';
import { start, type TestServer, uri } from '../../server.ts';

let server: TestServer;
let table = 0;
const rowsOf = (name: string) => uri`/databases/large/tables/${name}/rows`;
before(async () => {
  server = await start({ largeBodiesBytesMax: 2 * 1024 * 1024, rowsBodyValuesMax: 200_000, queueWaitMs: 600_000 });
  (await server.put('/api/v2/databases/large')).is(201);
});
after(() => server.close());

async function newTable(): Promise<string> {
  const name = `t${table++}`;
  const columns = [
    { name: 'id', type: 'BIGINT', nullable: false },
    { name: 'note', type: 'STRING', defaultValue: "'none'" },
    { name: 'amount', type: 'DECIMAL(38,10)' },
  ];
  (await server.put(uri`/databases/large/tables/${name}`, { columns })).is(201);
  return name;
}

const wide = '1234567890123456789012345678.0123456789';
const note = 'é😀 "\\\n'.repeat(10);

/** `count` rows of about 140 bytes; every third omits the column with a default. */
const rowsText = (count: number, from = 0) =>
  `{"rows":[${Array.from({ length: count }, (_, i) => {
    const noteField = (from + i) % 3 === 0 ? '' : `"note":${JSON.stringify(note)},`;
    return `{"id":${from + i},${noteField}"amount":${wide}}`;
  }).join()}]}`;

test('rows of a large body are the same as in small ones, to the last digit', async () => {
  const [small, large] = [await newTable(), await newTable()];
  for (let from = 0; from < 6000; from += 1000)
    (await server.post(rowsOf(small), rowsText(1000, from))).is(201, '0', { rowCount: 1000 });
  const text = rowsText(6000);
  assert.ok(text.length > 600_000);
  (await server.post(rowsOf(large), text)).is(201, '0', { rowCount: 6000 });
  const differing = `SELECT count(*) FROM (SELECT * FROM "${small}" EXCEPT SELECT * FROM "${large}")`;
  assert.deepEqual(await server.rows('large', differing), [[0]]);
  const stored = await server.rows(
    'large',
    `SELECT count(*), count(*) FILTER (note = 'none'), count(DISTINCT amount) FROM "${large}"`,
  );
  assert.deepEqual(stored, [[6000, 2000, 1]]);
});

test('no files of inserted or refused rows are left', async () => {
  const name = await newTable();
  (await server.post(rowsOf(name), rowsText(6000))).is(201);
  (await server.post(rowsOf(name), rowsText(6000).replace('"id":5999', '"id":null'))).is(400, 'ROWS_INVALID');
  const remainingFiles = async () =>
    (await readdir(join(server.dataDirectory, 'spool'))).filter((file) => file.startsWith('rows-'));
  await eventually('the spool is empty', async () => (await remainingFiles()).length === 0);
});

test('errors are reported in the same way, by row and column, and nothing is inserted', async () => {
  const name = await newTable();
  const invalidRows = (count: number) => rowsText(count).replaceAll('"id":', '"other":');
  const [small, large] = [
    await server.post(rowsOf(name), invalidRows(200)),
    await server.post(rowsOf(name), invalidRows(6000)),
  ];
  small.is(400, 'ROWS_INVALID');
  large.is(400, 'ROWS_INVALID', { violations: small.at('violations'), violationCount: 12000 });
  assert.equal(large.at<unknown[]>('violations').length, 100);
  const filler = ' '.repeat(300_000);
  for (const [body, code] of [
    [`{"rows":[[1,"a",1]],"rows":[]${filler}}`, 'MALFORMED_JSON'],
    [`{"rows":[[1,"a",1]]${filler}`, 'MALFORMED_JSON'],
    [`{"rows":[[1,"a",1]],"other":1${filler}}`, 'UNKNOWN_FIELD'],
    [`{${filler}}`, 'EMPTY_BODY'],
    [`x${filler}`, 'UNSUPPORTED_MEDIA_TYPE'],
    [`{"rows":[${'[],'.repeat(250_000)}[]]}`, 'BODY_TOO_LARGE'],
  ] as const)
    assert.equal((await server.post(rowsOf(name), body)).code, code, body.slice(0, 30));
  assert.deepEqual(await server.rows('large', `SELECT count(*) FROM "${name}"`), [[0]]);
});

test('a large body to any other endpoint has the response of a small one', async () => {
  const query = (text: string, numbers: string) => `{"sql":${JSON.stringify(text)},"parameters":[${numbers}]}`;
  const padded = `SELECT $1::DECIMAL(38,10), length($2) ${'-- é\n'.repeat(60_000)}`;
  const reply = await server.post('/api/v2/catalogs/default/query', query(padded, `${wide},"${'x'.repeat(100)}"`));
  assert.ok(reply.is(200).text.includes(`[${wide},100]`), reply.text);
  (await server.post('/api/v2/users/identify', `{"a":"${'x'.repeat(300_000)}"}`)).is(400, 'UNKNOWN_FIELD', {
    violations: [{ pointer: '/a', rule: 'unknownField', message: 'is not a field of this API' }],
  });
  const manyMembers = Array.from({ length: 350_000 }, (_, i) => `"k${i}":1`)
    .join()
    .slice(0, 4_000_000);
  (await server.post('/api/v2/users/identify', `{${manyMembers}}`)).is(400, 'BODY_TOO_LARGE');
});

test('the same key and rows are inserted once', async () => {
  const name = await newTable();
  const send = (text: string) =>
    server.request('POST', rowsOf(name), { body: text, headers: { 'x-service-idempotency-key': `key-${name}` } });
  const text = rowsText(3000);
  const replies = await Promise.all([send(text), send(text)]);
  for (const reply of [...replies, await send(text)]) reply.is(201, '0', { rowCount: 3000 });
  (await send(rowsText(3000, 1))).is(400, 'IDEMPOTENCY_KEY_REUSED');
  assert.deepEqual(await server.rows('large', `SELECT count(*) FROM "${name}"`), [[3000]]);
});

test('bodies beyond the memory limit are refused, those of one caller at half of it; all are accepted when retried', async () => {
  const name = await newTable();
  const text = rowsText(5000);
  const until = performance.now() + deadlineMs(60_000);
  let refused = 0;
  const requireCompletion = async () => {
    for (;;) {
      const reply = await server.post(rowsOf(name), text);
      if (reply.code === '0') return;
      reply.is(503, 'SERVER_BUSY');
      refused++;
      assert.ok(performance.now() < until);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  };
  await Promise.all(Array.from({ length: 6 }, requireCompletion));
  assert.ok(refused > 0);
  assert.deepEqual(await server.rows('large', `SELECT count(*) FROM "${name}"`), [[30_000]]);
});

test('a client that disconnects while its rows are read releases its thread', async () => {
  const name = await newTable();
  for (let i = 0; i < 6; i++) {
    const controller = new AbortController();
    const bytesLeft = server
      .request('POST', rowsOf(name), { body: rowsText(6000), signal: controller.signal })
      .catch(() => undefined);
    setTimeout(() => controller.abort(), 15 * i);
    await bytesLeft;
  }
  await eventually('a large body is read', async () => (await server.post(rowsOf(name), rowsText(6000))).code === '0');
});

test('requests that wait for the first one with their key hold no threads', async () => {
  const name = await newTable();
  const other = await newPerson(server, 'other');
  (await server.patch('/api/v2/warehouses/default', { queriesMax: 1 })).is(200);
  const load = (running: number, queued: number) =>
    eventually(`${running} run and ${queued} wait`, async () => {
      const { result } = (await server.get('/api/v2/warehouses/default')).is(200);
      return result.runningQueries === running && result.queuedQueries === queued;
    });
  const endless = new AbortController();
  const sql = 'SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b';
  const running = server
    .request('POST', uri`/databases/large/query`, { body: { sql, waitSeconds: 60 }, signal: endless.signal })
    .catch(() => undefined);
  const headers = { 'x-service-idempotency-key': 'waiting' };
  const send = () => server.request('POST', rowsOf(name), { body: rowsText(2000), headers });
  try {
    await load(1, 0);
    const first = send();
    await load(1, 1);
    const replies = [first, send(), send()];
    const large = `{"a":"${'x'.repeat(300_000)}"}`;
    (await other.post('/api/v2/users/identify', large)).is(400, 'UNKNOWN_FIELD');
    endless.abort();
    for (const reply of await Promise.all(replies)) reply.is(201, '0', { rowCount: 2000 });
  } finally {
    endless.abort();
    await running;
  }
  assert.deepEqual(await server.rows('large', `SELECT count(*) FROM "${name}"`), [[2000]]);
});
