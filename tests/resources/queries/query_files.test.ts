// The field `format` of a query: its rows as files with signed links, which are complete when the response is sent; with the privileges,
// quota and the retention of stored results.
import assert from 'node:assert/strict';
import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { gunzipSync, zstdDecompressSync } from 'node:zlib';
import { DuckDBInstance } from '@duckdb/node-api';
import { CompressionType, compressionRegistry, tableFromIPC } from 'apache-arrow';
import { newPerson } from '../../access/people.ts';
import { fileStoreOf } from '../../file_stores.ts';
import { endOfTask, type Reply, start, statementRuns, type TestServer } from '../../server.ts';

const fileStore = fileStoreOf(import.meta.url);
let server: TestServer;
const shop = '/api/v2/databases/shop';
const mebibyte = 1024 * 1024;
const rowCount = 50_000;
const manyRowsSql = 'SELECT n, t FROM facts ORDER BY n';

interface ResultFile {
  readonly uri: string;
  readonly fileId: string;
  readonly format: string;
  readonly bytes: number;
  readonly rowCount: number;
}

compressionRegistry.set(CompressionType.ZSTD, { decode: (bytes) => zstdDecompressSync(bytes) });

before(async () => {
  server = await start({
    pageBytesMax: 64 * 1024,
    principalFileBytesMax: 16 * mebibyte,
    ...(await fileStore.settings()),
  });
  (await server.put(shop)).is(201);
  (await server.post(`${shop}/tables`, { sql: 'CREATE TABLE facts (n BIGINT, t TEXT)' })).is(201);
  const insert = `INSERT INTO facts SELECT range, md5(range::VARCHAR) FROM range(${rowCount})`;
  (await server.query('shop', insert)).is(200);
});
after(() => server.close());

const query = (body: object, instance: Pick<TestServer, 'post'> = server) => instance.post(`${shop}/query`, body);
const filesOf = (reply: Reply) => reply.at<ResultFile[]>('files');
const storedFiles = () => fileStore.stored(server.dataDirectory, 'files');
const spooledFiles = async () =>
  (await readdir(join(server.dataDirectory, 'spool'))).filter((name) => name !== 'spill');

async function downloadResult(reply: Reply): Promise<Buffer> {
  const [file, ...others] = filesOf(reply);
  assert.deepEqual(others, []);
  const response = await fetch(new URL(file?.uri as string, server.url));
  assert.equal(response.status, 200);
  const content = Buffer.from(await response.arrayBuffer());
  assert.equal(content.length, file?.bytes);
  return content;
}

const forget = async (reply: Reply) => {
  (await server.delete(reply.at('task'))).is(200, '0', { deleted: true });
  assert.deepEqual([await storedFiles(), await spooledFiles()], [[], []]);
};

const lines = (content: Buffer) => content.toString().trimEnd().split('\n');

async function parquetRows(content: Buffer): Promise<number> {
  const file = join(server.dataDirectory, 'fetched.parquet');
  await writeFile(file, content);
  const duck = await (await DuckDBInstance.create(':memory:')).connect();
  return Number((await duck.runAndReadAll(`SELECT count(DISTINCT n) FROM read_parquet('${file}')`)).getRows()[0]?.[0]);
}

const formats: readonly (readonly [object, (content: Buffer) => number | Promise<number>])[] = [
  [{ format: 'arrow' }, (content) => tableFromIPC(content).numRows],
  [{ format: 'arrow', compression: 'zstd' }, (content) => tableFromIPC(content).numRows],
  [{ format: 'csv' }, (content) => lines(content).length - 1],
  [{ format: 'csv', compression: 'gzip' }, (content) => lines(gunzipSync(content)).length - 1],
  [{ format: 'ndjson' }, (content) => lines(content).length],
  [{ format: 'parquet', compression: 'zstd' }, parquetRows],
];

for (const [options, count] of formats) {
  test(`${JSON.stringify(options)}: the link serves all rows when the answer is there`, async () => {
    const reply = (await query({ sql: manyRowsSql, ...options })).is(200, '0', {
      rowCount,
      pageCount: 0,
      truncated: false,
      columns: [
        { name: 'n', type: 'BIGINT' },
        { name: 't', type: 'STRING' },
      ],
    });
    assert.equal(reply.at('rows'), undefined);
    assert.partialDeepStrictEqual(filesOf(reply), [{ format: (options as ResultFile).format, rowCount }]);
    assert.equal(await count(await downloadResult(reply)), rowCount);
    await forget(reply);
  });
}

test('a small result, an empty one, parameters, and rowsMax', async () => {
  const csv = { format: 'csv' };
  const first = await query({ sql: 'SELECT n FROM facts WHERE n < $1 ORDER BY n', parameters: [2], ...csv });
  assert.equal((await downloadResult(first)).toString(), 'n\n0\n1\n');
  await forget(first);
  const emptyResult = await query({ sql: 'SELECT n FROM facts WHERE n < 0', ...csv });
  assert.equal((await downloadResult(emptyResult.is(200, '0', { rowCount: 0 }))).toString(), 'n\n');
  await forget(emptyResult);
  for (const format of ['csv', 'arrow']) {
    const limited = await query({ sql: manyRowsSql, rowsMax: 3, format });
    assert.equal(filesOf(limited.is(200, '0', { rowCount: 3, truncated: true }))[0]?.rowCount, 3);
    await forget(limited);
    const complete = await query({ sql: manyRowsSql, rowsMax: rowCount, format });
    await forget(complete.is(200, '0', { rowCount, truncated: false }));
  }
});

test('as a task: the task has links, its request the format, and no pages', async () => {
  const accepted = (await query({ sql: manyRowsSql, format: 'arrow', waitSeconds: 0 })).is(202);
  const task = await endOfTask(server, accepted.at('uri'));
  task.is(200, '0', { state: 'succeeded', request: { format: 'arrow', compression: 'none' }, result: { rowCount } });
  assert.equal(task.at('firstPage'), undefined);
  const [file] = task.at<ResultFile[]>('result', 'files');
  const content = await (await fetch(new URL(file?.uri as string, server.url))).arrayBuffer();
  assert.equal(tableFromIPC(content).numRows, rowCount);
  const listed = (await server.get('/api/v2/tasks')).at<{ result: { files: ResultFile[] } }[]>('tasks')[0]?.result
    .files[0];
  assert.deepEqual([listed?.fileId, listed?.uri], [file?.fileId, undefined]);
  (await server.get(`${accepted.at<string>('uri')}/pages/0`)).is(404, 'OBJECT_NOT_FOUND');
  (await server.delete(accepted.at('uri'))).is(200);
  assert.deepEqual(await storedFiles(), []);
});

test('refused: statements that write, compressions of other formats, a format that does not exist', async () => {
  (await query({ sql: 'DELETE FROM facts', format: 'csv' })).is(400, 'SQL_NOT_SUPPORTED');
  assert.deepEqual(await server.rows('shop', 'SELECT count(*) FROM facts'), [[rowCount]]);
  for (const body of [{ compression: 'zstd' }, { format: 'csv', compression: 'snappy' }, { format: 'xml' }])
    (await query({ sql: 'SELECT 1', ...body })).is(400, 'INVALID_PARAMETER');
});

test('the right to read the source is checked at each use of a link', async () => {
  const reader = await newPerson(server, 'reader', [
    ['use', '/warehouses/default'],
    ['read', '/databases/shop/tables/facts'],
  ]);
  const reply = (await query({ sql: manyRowsSql, format: 'csv' }, reader)).is(200);
  const uri = filesOf(reply)[0]?.uri as string;
  const status = async () => (await fetch(new URL(uri, server.url))).status;
  assert.equal(await status(), 200);
  const grants = (await server.get('/api/v2/users/reader/grants')).at<{ uri: string; on: string }[]>('grants');
  (await server.delete(grants.find(({ on }) => on.includes('facts'))?.uri as string)).is(200);
  assert.equal(await status(), 403);
  (await query({ sql: manyRowsSql, format: 'csv' }, reader)).is(403, 'FORBIDDEN');
  const record = (await reader.get(reply.at('task'))).is(200);
  assert.equal(record.at<ResultFile[]>('result', 'files')[0]?.uri, undefined);
  await forget(reply);
});

test('files count towards the quota, and a statement that exceeds it leaves nothing', async () => {
  const endless = 'SELECT a.range AS n, b.range AS m FROM range(1000000) AS a, range(1000000) AS b';
  for (const format of ['csv', 'arrow']) {
    (await query({ sql: endless, format })).is(400, 'FILE_QUOTA_EXCEEDED');
    assert.deepEqual([await storedFiles(), await spooledFiles()], [[], []], format);
  }
  const upload = await server.post('/api/v2/uploads', { name: 'fills', bytes: 16 * mebibyte });
  for (const waitSeconds of [0, 30])
    (await query({ sql: 'SELECT 1', format: 'csv', waitSeconds })).is(400, 'FILE_QUOTA_EXCEEDED');
  (await server.delete(upload.at('uri'))).is(200);
});

test('a client that disconnects leaves nothing', async () => {
  const slow =
    'SELECT a.range * b.range AS x FROM range(1000000) AS a, range(1000000) AS b WHERE (a.range * b.range) % 1000003 = 1';
  const abandoned = new AbortController();
  const body = { sql: slow, format: 'arrow' };
  const sent = server.send('POST', `${shop}/query`, { body, signal: abandoned.signal });
  await statementRuns(server);
  abandoned.abort();
  await assert.rejects(sent);
  for (let running = 1; running > 0; )
    running = (await server.post('/api/v2/queries/search', { state: 'running' })).at<unknown[]>('queries').length;
  assert.deepEqual([await storedFiles(), await spooledFiles()], [[], []]);
});
