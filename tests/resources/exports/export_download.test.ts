// Exports to be downloaded from the server: the linked files contain what was inserted; links are renewed; files are deleted with their
// task, count towards a quota, and nothing is left of exports that failed, were cancelled or were killed.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { rmSync } from 'node:fs';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, test } from 'node:test';
import { DuckDBInstance } from '@duckdb/node-api';
import { tableFromIPC } from 'apache-arrow';
import type { Services } from '../../../src/resources/records/handler_context.ts';
import { storeFileName } from '../../../src/store/sqlite/sqlite_store.ts';
import { newPerson } from '../../access/people.ts';
import { fileStoreOf } from '../../file_stores.ts';
import { endOfTask, type Reply, start, startProcess, type TestServer } from '../../server.ts';

interface ExportedFile {
  readonly name: string;
  readonly bytes: number;
  readonly rows: number;
  readonly sha256: string;
  readonly link: string;
  readonly fileId: string;
}

const fileStore = fileStoreOf(import.meta.url);
let server: TestServer;
let services: Services;
let directory: string;
const database = '/api/v2/databases/shop';
const mebibyte = 1024 * 1024;
const rows = 150_000;
const manyRowsSql = `SELECT range AS n, md5(range::VARCHAR) AS t FROM range(${rows})`;

before(async () => {
  directory = await mkdtemp(join(tmpdir(), 'tabularium-download-'));
  const assembled = (assembledServices: Services) => {
    services = assembledServices;
  };
  server = await start({ principalFileBytesMax: 16 * mebibyte, ...(await fileStore.settings()) }, { assembled });
  (await server.put(database)).is(201);
  (await server.post(`${database}/tables`, { sql: 'CREATE TABLE facts (n BIGINT, t TEXT)' })).is(201);
  (await server.query('shop', `INSERT INTO facts ${manyRowsSql}`)).is(200);
});
after(async () => {
  await server.close();
  await rm(directory, { recursive: true });
});

const storedFiles = (instance = server) => fileStore.stored(instance.dataDirectory, 'files');
const spooledFiles = async (instance = server) =>
  (await readdir(join(instance.dataDirectory, 'spool'))).filter((name) => name !== 'spill');

async function runExport(body: object, path = `${database}/tables/facts`, instance = server): Promise<Reply> {
  return (await instance.ended(await instance.post(`${path}/export`, body))).is(200, '0', { state: 'succeeded' });
}

async function download(link: string, headers: Record<string, string> = {}, instance = server) {
  const response = await fetch(new URL(link, instance.url), { headers });
  return { response, content: Buffer.from(await response.arrayBuffer()) };
}

/** Downloads all files of a task to a directory, and checks them against the task and the manifest. */
async function downloadAll(task: Reply): Promise<string> {
  const folder = await mkdtemp(join(directory, 'fetched-'));
  const files = task.at<ExportedFile[]>('result', 'files');
  for (const { name, link, bytes, sha256 } of files) {
    const { response, content } = await download(link);
    assert.equal(response.status, 200);
    assert.ok(response.headers.get('content-disposition')?.includes(name));
    assert.equal(content.length, bytes);
    assert.equal(createHash('sha256').update(content).digest('hex'), sha256);
    assert.equal(response.headers.get('etag'), `"${sha256}"`);
    await writeFile(join(folder, name), content);
  }
  const manifest = JSON.parse((await download(task.at('result', 'manifestLink'))).content.toString());
  const plain = files.map(({ link: _link, fileId: _id, ...file }) => file);
  const { manifestLink: _l, manifestFileId: _m, expiresAt: _e, ...rest } = task.at<Record<string, unknown>>('result');
  assert.deepEqual(manifest, { ...rest, files: plain });
  assert.equal(
    files.reduce((sum, file) => sum + file.rows, 0),
    task.at('result', 'rowCount'),
  );
  return folder;
}

const remove = async (task: Reply) => (await server.delete(task.at('uri'))).is(200, '0', { deleted: true });

test('each format is downloaded through its links unchanged, in one file or in parts', async () => {
  const duck = await (await DuckDBInstance.create(':memory:')).connect();
  const checksum = async (from: string) => {
    const text = `SELECT count(*), bit_xor(hash(n::BIGINT)), bit_xor(hash(t::VARCHAR)) FROM ${from}`;
    return JSON.stringify((await duck.runAndReadAll(text)).getRowsJson());
  };
  const expected = await checksum(`(${manyRowsSql})`);
  const readers = {
    parquet: (folder: string) => `read_parquet('${folder}/part-*')`,
    csv: (folder: string) => `read_csv('${folder}/part-*', header = true)`,
    ndjson: (folder: string) => `read_json('${folder}/part-*', format = 'newline_delimited')`,
  };
  for (const more of [{}, { fileBytesMax: mebibyte }]) {
    for (const format of ['parquet', 'csv', 'ndjson'] as const) {
      const task = await runExport({ format, to: { download: true }, ...more });
      assert.equal(task.at<number>('result', 'fileCount') > 1, 'fileBytesMax' in more, format);
      assert.equal(await checksum(readers[format](await downloadAll(task))), expected, format);
      await remove(task);
    }
    const task = await runExport({ format: 'arrow', to: { download: true }, ...more });
    await downloadAll(task);
    const contents = task.at<ExportedFile[]>('result', 'files').map(async ({ link }) => (await download(link)).content);
    const read = (await Promise.all(contents)).map((content) => tableFromIPC(content).numRows);
    assert.equal(
      read.reduce((sum, size) => sum + size, 0),
      rows,
    );
    await remove(task);
  }
  assert.deepEqual(await storedFiles(), []);
});

test('a download is the default; the query and its history refer to its files', async () => {
  const body = { sql: 'SELECT n FROM facts WHERE n < $1 ORDER BY n', parameters: [3], format: 'csv' };
  const task = await runExport(body, database);
  task.is(200, '0', { request: { to: { download: true } } });
  const { content } = await download(task.at('result', 'files', 0, 'link'));
  assert.equal(content.toString(), 'n\n0\n1\n2\n');
  const query = await server.get(`/api/v2/queries/${task.at<string>('result', 'queryId')}`);
  query.is(200, '0', { task: task.at('uri'), rowCount: 3, resultBytes: content.length });
  await remove(task);
});

test('a range of a file, a conditional request, a modified link', async () => {
  const task = await runExport({ format: 'csv' });
  const { link, bytes, sha256, fileId } = task.at<ExportedFile>('result', 'files', 0);
  const complete = (await download(link)).content;
  const part = await download(link, { range: 'bytes=10-19' });
  assert.deepEqual([part.response.status, part.content], [206, complete.subarray(10, 20)]);
  assert.equal(part.response.headers.get('content-range'), `bytes 10-19/${bytes}`);
  assert.equal((await download(link, { 'if-none-match': `"${sha256}"` })).response.status, 304);
  const other = new URL(task.at<string>('result', 'manifestLink'), server.url).search;
  assert.equal((await download(`/files/${fileId}${other}`)).response.status, 403);
  const renewed = (await server.get(task.at('uri'))).is(200).at<ExportedFile>('result', 'files', 0);
  assert.deepEqual((await download(renewed.link)).content, complete);
  // A list may contain many thousands of files, so it contains no links.
  const listed = (await server.get('/api/v2/tasks')).at<{ taskId: string; result: { files: ExportedFile[] } }[]>(
    'tasks',
  );
  const inList = listed.find((candidate) => candidate.taskId === task.at('taskId'))?.result.files[0];
  assert.deepEqual([inList?.fileId, inList?.link], [fileId, undefined]);
  await remove(task);
  assert.equal((await download(renewed.link)).response.status, 404);
});

test('files are retained as long as their task, and deleted with it', async () => {
  const task = await runExport({ format: 'csv' });
  const expiresAt = Date.parse(task.at('result', 'expiresAt'));
  assert.ok(Math.abs(expiresAt - Date.parse(task.at('endedAt')) - 7 * 86_400_000) < 60_000);
  assert.equal((await storedFiles()).length, 2);
  await remove(task);
  assert.deepEqual(await storedFiles(), []);
  assert.equal((await download(task.at('result', 'files', 0, 'link'))).response.status, 404);
});

test('the quota counts all files together: it is checked at submission, while writing, and at the end', async () => {
  const failing = async (sql: string, format: string) => {
    const accepted = await server.post(`${database}/export`, { sql, format });
    const task = await server.ended(accepted);
    task.is(200, '0', { state: 'failed', error: { code: 'FILE_QUOTA_EXCEEDED' } });
    assert.deepEqual([await storedFiles(), await spooledFiles()], [[], []], format);
    return task;
  };
  // It would write for days if it were not stopped.
  const endless = 'SELECT a.range AS n, b.range AS m FROM range(1000000) AS a, range(1000000) AS b';
  for (const format of ['csv', 'ndjson', 'parquet', 'arrow']) await failing(endless, format);
  const half = 'SELECT repeat(range::VARCHAR, 1000) AS t FROM range(2500)';
  const first = await runExport({ sql: half, format: 'csv' }, database);
  const second = await server.ended(await server.post(`${database}/export`, { sql: half, format: 'csv' }));
  second.is(200, '0', { state: 'failed', error: { code: 'FILE_QUOTA_EXCEEDED' } });
  assert.equal((await storedFiles()).length, 2);
  await remove(first);
  const upload = await server.post('/api/v2/uploads', { name: 'fills', bytes: 16 * mebibyte });
  (await server.post(`${database}/export`, { sql: 'SELECT 1', format: 'csv' })).is(400, 'FILE_QUOTA_EXCEEDED');
  (await server.delete(upload.at('uri'))).is(200);
});

test('cancelled in the middle: no files are left', async () => {
  const sql =
    'SELECT a.range * b.range AS cancelled FROM range(1000000) AS a, range(1000000) AS b WHERE (a.range * b.range) % 1000003 = 1';
  for (const format of ['csv', 'parquet', 'arrow']) {
    const uri = (await server.post(`${database}/export`, { sql, format })).is(202).at<string>('uri');
    for (let running = 0; running === 0; ) {
      const runningQueries = await server.post('/api/v2/queries/search', { state: 'running', text: 'AS cancelled' });
      running = runningQueries.at<unknown[]>('queries').length;
    }
    (await server.post(`${uri}/cancel`)).is(200);
    (await endOfTask(server, uri)).is(200, '0', { state: 'cancelled' });
    assert.deepEqual([await storedFiles(), await spooledFiles()], [[], []], format);
  }
});

test('files that a crash left behind are removed; files of a successful task stay', async () => {
  const task = await runExport({ format: 'csv' });
  const before = await storedFiles();
  const failed = await server.ended(await server.post(`${database}/export`, { sql: 'SELECT nothing', format: 'csv' }));
  for (const taskId of [failed.at<string>('taskId'), '00000000-0000-7000-8000-000000000000']) {
    const path = join(directory, 'left');
    await writeFile(path, 'left');
    const leftoverEntry = { kind: 'export', owner: 'root', name: 'left', expiresInMs: 60_000, taskId } as const;
    await services.files.adopt(path, leftoverEntry);
  }
  assert.equal((await storedFiles()).length, before.length + 2);
  await services.exports.sweep();
  assert.deepEqual(await storedFiles(), before);
  await remove(task);
});

test('a principal that may not read the task gets no link to its files', async () => {
  const task = await runExport({ format: 'csv' });
  const person = await newPerson(server, 'curious', [['use', '/warehouses']]);
  (await person.get(task.at('uri'))).is(403, 'FORBIDDEN');
  await remove(task);
});

/** Simulates an attempt that is killed a moment later: a file that it had already moved to its destination. */
async function simulateAbandonedFiles(dataDirectory: string, taskId: string, number: number): Promise<void> {
  const fileId = `00000000-0000-7000-8000-00000000000${number}`;
  await writeFile(join(dataDirectory, 'files', fileId), 'left');
  const file = new DatabaseSync(join(dataDirectory, storeFileName));
  try {
    const values = [fileId, 'export', 'root', 'left', 'ready', 4, 4, 4, 0, 'root', 0, Date.now() + 3_600_000, taskId];
    file
      .prepare(
        `INSERT INTO files (file_id, kind, owner, name, state, bytes, received_bytes, reserved_bytes, created_at, created_by,
          updated_at, expires_at, task_id) VALUES (${values.map(() => '?').join(', ')})`,
      )
      .run(...values);
  } finally {
    file.close();
  }
  // The checksums are those of the files that the server wrote.
  rmSync(join(dataDirectory, `${storeFileName}-sums`));
}

const seed = Number(process.env.TEST_SEED ?? Date.now() % 1_000_000);
test(`killed repeatedly: the files exist once, TEST_SEED=${seed}`, async () => {
  const copy = await mkdtemp(join(directory, 'killed-'));
  let running = await startProcess(await fileStore.flags(), copy);
  const sql = 'SELECT range AS n, md5(range::VARCHAR) AS t FROM range(1500000)';
  const body = { sql, format: 'csv', fileBytesMax: 4 * mebibyte };
  const uri = (await running.post('/api/v2/catalogs/default/export', body)).is(202).at<string>('uri');
  for (let kill = 1; kill <= 3; kill++) {
    while ((await running.get(uri)).at('state') === 'pending');
    await new Promise((resolve) => setTimeout(resolve, (seed * kill * 7919) % 900));
    running.child.kill('SIGKILL');
    await running.exited;
    await simulateAbandonedFiles(copy, uri.split('/').at(-1) as string, kill);
    running = await startProcess(await fileStore.flags(), copy);
  }
  try {
    const task = (await endOfTask(running, uri)).is(200, '0', { state: 'succeeded' });
    const files = task.at<ExportedFile[]>('result', 'files');
    assert.ok(files.length > 1 && task.at('result', 'rowCount') === 1_500_000);
    const ids = [...files.map(({ fileId }) => fileId), task.at<string>('result', 'manifestFileId')];
    const leftIds = (stored: readonly string[]) => stored.map((key) => key.split('/')[0]);
    const stored = leftIds(await storedFiles(running));
    // A bucket keeps what a kill left behind for a day: another server might be about to record it.
    assert.deepEqual(fileStore.isBucket ? stored.filter((id) => ids.includes(id as string)) : stored, ids.sort());
    assert.deepEqual(await spooledFiles(running), []);
    (await running.delete(uri)).is(200, '0', { deleted: true });
    const left = leftIds(await storedFiles(running));
    assert.deepEqual(fileStore.isBucket ? left.filter((id) => ids.includes(id as string)) : left, []);
  } finally {
    await running.close();
  }
  const file = new DatabaseSync(join(copy, storeFileName));
  try {
    assert.deepEqual({ ...file.prepare('SELECT count(*) AS n FROM files').get() }, { n: 0 });
  } finally {
    file.close();
  }
});
