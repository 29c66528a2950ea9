// Exports from a catalog on a cluster through the API: files to download and in an object store have the rows once, also if the server is
// killed in the middle; exports that fail leave nothing.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import type { Manifest } from '../../../src/query/exports/export_targets.ts';
import { clusters, missingRing, type Ring, startRing } from '../../engines/clickhouse/ring/ring.ts';
import { fileStoreOf, openTestBucket } from '../../file_stores.ts';
import { type ObjectStoreServer, startObjectStore } from '../../outbound/object_store_server.ts';
import { endOfTask, type Reply, start, startProcess, type TestServer } from '../../server.ts';
import { clusterSettings, registerAll } from './cluster_server.ts';

interface LinkedFile {
  readonly name: string;
  /** Not of the files of a statement. */
  readonly sha256?: string;
  readonly link: string;
  readonly fileId: string;
}

const fileStore = fileStoreOf(import.meta.url);
const rows = 60_000;
const sql = `SELECT number AS n, hex(sipHash128(number)) AS t FROM numbers(${rows}) ORDER BY n`;
/** What the rows of `sql` are together. */
const whole = [[String(rows), String((rows * (rows - 1)) / 2), String(rows)]];
const shop = '/api/v2/catalogs/sales/databases/shop';

describe('exports from a cluster', { skip: missingRing }, () => {
  if (missingRing !== false) return;
  let ring: Ring;
  let server: TestServer;
  let s3: ObjectStoreServer;
  let directory: string;
  let reader: DuckDBConnection;
  before(async () => {
    directory = await mkdtemp(join(tmpdir(), 'tabularium-export-'));
    const settings = { ...clusterSettings, exportHosts: '127.0.0.1', ...(await fileStore.settings()) };
    [ring, server, s3] = await Promise.all([startRing(2), start(settings), startObjectStore()]);
    reader = await (await DuckDBInstance.create(':memory:')).connect();
    await registerAll(server, 'cluster', ring, clusters.shards);
    await server.post('/api/v2/catalogs', { name: 'sales', warehouse: 'cluster' });
    (await server.put(shop)).is(201);
    const columns = [
      { name: 'n', type: 'BIGINT' },
      { name: 't', type: 'STRING' },
    ];
    (await server.post(`${shop}/tables`, { name: 'facts', columns })).is(201);
    (await server.post(`${shop}/query`, { sql: `INSERT INTO facts ${sql}` })).is(200);
  });
  after(async () => {
    reader?.closeSync();
    await server?.close();
    await s3?.close();
    await ring?.close();
    await rm(directory, { recursive: true, force: true });
  });

  const ended = async (path: string, body: object): Promise<Reply> =>
    (await server.ended(await server.post(path, body))).is(200);
  const storedFiles = () => fileStore.stored(server.dataDirectory, 'files');
  const spooledFiles = async () =>
    (await readdir(join(server.dataDirectory, 'spool'))).filter((name) => name !== 'spill');
  const target = () => {
    const { endpoint, bucket, accessKeyId, secretAccessKey } = s3;
    return { s3: { endpoint, bucket, prefix: 'out', accessKeyId, secretAccessKey } };
  };

  /** What the rows in files are together. */
  async function summary(files: readonly (readonly [name: string, content: Buffer])[]): Promise<unknown> {
    const folder = await mkdtemp(join(directory, 'read-'));
    for (const [name, content] of files) await writeFile(join(folder, name), content);
    const functions = { parquet: 'read_parquet', csv: 'read_csv', ndjson: 'read_json' };
    const [, extension = ''] = files[0]?.[0].split('.') ?? [];
    const from = `${functions[extension as keyof typeof functions]}('${folder}/*')`;
    const found = await reader.runAndReadAll(`SELECT count(*), sum(n)::BIGINT, count(DISTINCT t) FROM ${from}`);
    return found.getRowsJson();
  }

  async function downloaded(files: readonly Omit<LinkedFile, 'fileId'>[]): Promise<(readonly [string, Buffer])[]> {
    return Promise.all(
      files.map(async ({ name, link, sha256 }) => {
        const content = Buffer.from(await (await fetch(new URL(link, server.url))).arrayBuffer());
        if (sha256 !== undefined) assert.equal(createHash('sha256').update(content).digest('hex'), sha256);
        return [name, content] as const;
      }),
    );
  }

  test('a table to files to download, of each format', async () => {
    for (const body of [
      { format: 'parquet', fileBytesMax: 1_048_576 },
      { format: 'csv', compression: 'gzip' },
      { format: 'ndjson', compression: 'zstd' },
    ]) {
      const task = (await ended(`${shop}/tables/facts/export`, body)).is(200, '0', { state: 'succeeded' });
      const files = task.at<LinkedFile[]>('result', 'files');
      assert.equal(files.length > 1, 'fileBytesMax' in body, body.format);
      assert.deepEqual(await summary(await downloaded(files)), whole, body.format);
      (await server.delete(task.at('uri'))).is(200);
      assert.deepEqual([await storedFiles(), await spooledFiles()], [[], []]);
    }
  });

  test('a query to an object store', async () => {
    const body = { sql, format: 'parquet', to: target() };
    const task = (await ended(`${shop}/export`, body)).is(200, '0', { state: 'succeeded' });
    const { files, rowCount } = task.at<Manifest>('result');
    assert.equal(rowCount, rows);
    const store = await openTestBucket(s3);
    try {
      const folder = `out/${task.at('taskId')}`;
      const contents = await Promise.all(
        files.map(async ({ name }) => [name, await store.readSmall(`${folder}/${name}`, 1e9)] as const),
      );
      assert.deepEqual(await summary(contents), whole);
    } finally {
      store.close();
    }
    assert.deepEqual(await spooledFiles(), []);
  });

  test('the result of a statement as files', async () => {
    const reply = (await server.post(`${shop}/query`, { sql: 'SELECT n, t FROM facts', format: 'parquet' })).is(200);
    const links = reply.at<{ readonly uri: string }[]>('files').map(({ uri }) => ({ name: 'all.parquet', link: uri }));
    assert.deepEqual(await summary(await downloaded(links)), whole);
    (await server.delete(reply.at('task'))).is(200);
  });

  test('an export that fails leaves nothing', async () => {
    for (const [failing, code] of [
      [`SELECT intDiv(1, ${rows} - number) AS n FROM numbers(${2 * rows})`, 'SQL_INVALID'],
      [`SELECT unhex('ff') AS wrong`, 'SQL_INVALID'],
      ['SELECT nothing FROM facts', 'SQL_INVALID'],
    ] as const) {
      const failed = { state: 'failed', error: { code } };
      (await ended(`${shop}/export`, { sql: failing, format: 'csv' })).is(200, '0', failed);
      const task = (await ended(`${shop}/export`, { sql: failing, format: 'parquet', to: target() })).is(
        200,
        '0',
        failed,
      );
      assert.ok(!task.text.includes(s3.secretAccessKey));
      const store = await openTestBucket(s3);
      assert.deepEqual(await Array.fromAsync(store.list(`out/${task.at('taskId')}/`)), []);
      store.close();
      assert.deepEqual([await storedFiles(), await spooledFiles()], [[], []], failing);
    }
  });

  const seed = Number(process.env.TEST_SEED ?? Date.now() % 1_000_000);
  test(`killed in the middle: the files exist once, TEST_SEED=${seed}`, async () => {
    const dataDirectory = await mkdtemp(join(directory, 'killed-'));
    const flags = [`--cluster-hosts=${clusterSettings.clusterHosts}`, ...(await fileStore.flags())];
    const count = 300_000;
    const body = {
      sql: `SELECT number AS n, hex(sipHash128(number)) AS t FROM numbers(${count}) ORDER BY n`,
      format: 'parquet',
      fileBytesMax: 2_097_152,
    };
    const killed = await startProcess(flags, dataDirectory);
    await registerAll(killed, 'cluster', ring, clusters.shards);
    (await killed.post('/api/v2/catalogs', { name: 'lake', warehouse: 'cluster' })).is(201);
    const accepted = (await killed.post('/api/v2/catalogs/lake/export', body)).is(202);
    const uri = accepted.at<string>('uri');
    while ((await killed.get(uri)).at('state') === 'pending');
    await new Promise((resolve) => setTimeout(resolve, seed % 400));
    killed.child.kill('SIGKILL');
    await killed.exited;
    const again = await startProcess(flags, dataDirectory);
    try {
      const task = (await endOfTask(again, uri)).is(200, '0', { state: 'succeeded' });
      assert.equal(task.at('result', 'rowCount'), count);
      const ids = [
        ...task.at<LinkedFile[]>('result', 'files'),
        { fileId: task.at<string>('result', 'manifestFileId') },
      ];
      const stored = (await fileStore.stored(dataDirectory, 'files')).map((key) => key.split('/')[0] as string);
      const expected = ids.map(({ fileId }) => fileId).sort();
      // A bucket keeps what a kill left behind for a day: another server might be about to record it.
      assert.deepEqual(fileStore.isBucket ? stored.filter((id) => expected.includes(id)) : stored, expected);
      const spooled = (await readdir(join(dataDirectory, 'spool'))).filter((name) => name !== 'spill');
      assert.deepEqual(spooled, []);
    } finally {
      await again.close();
    }
  });
});
