// Exports to a real S3-compatible server: the files of each format contain what was inserted, by row count and by a checksum of each
// column; exports that fail, are refused or are cancelled leave nothing, neither in the store nor in the spool.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, test } from 'node:test';
import { DuckDBInstance } from '@duckdb/node-api';
import { type Table, tableFromIPC } from 'apache-arrow';
import { HostAllowlist } from '../../../src/outbound/host_allowlist.ts';
import { type ObjectStore, openObjectStore } from '../../../src/outbound/object_store.ts';
import type { Manifest } from '../../../src/query/exports/export_targets.ts';
import { storeFileName } from '../../../src/store/sqlite/sqlite_store.ts';
import { grant, newPerson } from '../../access/people.ts';
import { deadlineMs } from '../../deadline.ts';
import { type ObjectStoreServer, startObjectStore } from '../../outbound/object_store_server.ts';
import { endOfTask, type Reply, start, startProcess, type TestServer } from '../../server.ts';

let server: TestServer;
let s3: ObjectStoreServer;
let store: ObjectStore;
let directory: string;
let duck: Awaited<ReturnType<DuckDBInstance['connect']>>;

const database = '/api/v2/databases/shop';
const table = `${database}/tables/facts`;
const rows = 60_000;
/** Nulls, quotes, line ends, delimiters, empty strings, wide numbers; and a column whose name needs quotes. */
const sourceSql = `SELECT range AS id,
  CASE WHEN range % 7 = 0 THEN NULL WHEN range % 7 = 1 THEN '' ELSE concat('v;,"', range, chr(10), 'é') END AS note,
  (range * 1.25)::DOUBLE AS size, (range::DECIMAL(38,10) / 8)::DECIMAL(30,5) AS price, range % 2 = 0 AS even,
  DATE '2020-01-01' + (range % 1000)::INT AS day, TIMESTAMP '2020-01-01' + to_microseconds(range * 1001) AS "at",
  CASE WHEN range % 5 = 0 THEN NULL ELSE range::HUGEINT * 10000000000000000000000 END AS wide FROM range(${rows})`;
const columnNames = ['id', 'note', 'size', 'price', 'even', 'day', 'at', 'wide "x"'];

before(async () => {
  s3 = await startObjectStore();
  server = await start({ exportHosts: '127.0.0.1' });
  directory = await mkdtemp(join(tmpdir(), 'tabularium-export-'));
  const location = { endpoint: s3.endpoint, region: 'us-east-1', bucket: s3.bucket, pathStyle: true };
  store = await openObjectStore(location, s3, new HostAllowlist(['127.0.0.1']));
  duck = await (await DuckDBInstance.create(':memory:')).connect();
  await duck.run(`SET TimeZone = 'UTC'; CREATE TABLE made AS ${sourceSql}`);
  (await server.put(database)).is(201);
  const types = ['BIGINT', 'STRING', 'DOUBLE', 'DECIMAL(30,5)', 'BOOLEAN', 'DATE', 'DATETIME', 'LARGEINT'];
  const columns = columnNames.map((name, i) => ({ name, type: types[i] }));
  (await server.post(`${database}/tables`, { name: 'facts', columns })).is(201);
  (await server.query('shop', `INSERT INTO facts ${sourceSql}`)).is(200);
});
after(async () => {
  store.close();
  await server.close();
  await s3.close();
  await rm(directory, { recursive: true });
});

const target = (more: object = {}) => ({
  s3: {
    endpoint: s3.endpoint,
    bucket: s3.bucket,
    prefix: 'out',
    accessKeyId: s3.accessKeyId,
    secretAccessKey: s3.secretAccessKey,
    ...more,
  },
});

async function keysOf(prefix: string): Promise<string[]> {
  return (await Array.fromAsync(store.list(prefix))).map(({ key }) => key);
}

/** Runs an export that must succeed, downloads its files to a directory, and checks everything that the manifest states about them. */
async function runExport(body: object, path = table): Promise<{ manifest: Manifest; folder: string; names: string[] }> {
  const task = await server.ended(await server.post(`${path}/export`, { to: target(), ...body }));
  task.is(200, '0', { state: 'succeeded' });
  const manifest = task.at<Manifest>('result');
  const taskId = task.at<string>('taskId');
  const folder = join(directory, taskId);
  await mkdir(folder);
  const expectedNames = [...manifest.files.map(({ name }) => name), 'manifest.json'].map(
    (name) => `out/${taskId}/${name}`,
  );
  assert.deepEqual(await keysOf(`out/${taskId}/`), expectedNames.sort());
  for (const { name, bytes, sha256, link } of manifest.files) {
    assert.equal(link, `s3://${s3.bucket}/out/${taskId}/${name}`);
    const content = await store.readSmall(`out/${taskId}/${name}`, 1e9);
    assert.equal(content.length, bytes);
    assert.equal(createHash('sha256').update(content).digest('hex'), sha256);
    await writeFile(join(folder, name), content);
  }
  const storedManifest = JSON.parse((await store.readSmall(`out/${taskId}/manifest.json`, 1e7)).toString());
  assert.deepEqual(storedManifest, manifest);
  assert.equal(manifest.files.length, manifest.fileCount);
  assert.equal(
    manifest.files.reduce((sum, file) => sum + file.rows, 0),
    manifest.rowCount,
  );
  return { manifest, folder, names: manifest.files.map(({ name }) => name) };
}

const sums = columnNames.map((_, i) => `bit_xor(hash(c${i})), count(c${i})`).join(', ');
async function checksum(from: string): Promise<string> {
  const supportedTypes = ['BIGINT', 'VARCHAR', 'DOUBLE', 'DECIMAL(30,5)', 'BOOLEAN', 'DATE', 'TIMESTAMP', 'HUGEINT'];
  const castColumns = supportedTypes.map((type, i) => `c${i}::${type} AS c${i}`).join(', ');
  const names = supportedTypes.map((_, i) => `c${i}`).join(', ');
  const text = `SELECT count(*), ${sums} FROM (SELECT ${castColumns} FROM (SELECT * FROM ${from}) AS q(${names}))`;
  return JSON.stringify((await duck.runAndReadAll(text)).getRowsJson());
}

const csvTypes = `{${['BIGINT', 'VARCHAR', 'DOUBLE', 'DECIMAL(30,5)', 'BOOLEAN', 'DATE', 'TIMESTAMP', 'HUGEINT']
  .map((type, i) => `'c${i}': '${type}'`)
  .join(', ')}}`;
const csv = (folder: string, extension: string, more: string) =>
  `read_csv('${folder}/*.${extension}', auto_detect = false, quote = '"', escape = '"', columns = ${csvTypes}, ${more})`;
const ndjsonTypes = `{${columnNames.map((name) => `'${name}': 'VARCHAR'`).join(', ')}}`;

for (const [name, body, from] of [
  ['Parquet', { format: 'parquet' }, (folder: string) => `read_parquet('${folder}/*.parquet')`],
  [
    'Parquet, zstd',
    { format: 'parquet', compression: 'zstd' },
    (folder: string) => `read_parquet('${folder}/*.parquet')`,
  ],
  [
    'CSV',
    { format: 'csv', csv: { nullText: '\\N' } },
    (folder: string) => csv(folder, 'csv', String.raw`header = true, delim = ',', nullstr = '\N'`),
  ],
  [
    'CSV with other signs, gzip, in parts',
    {
      format: 'csv',
      compression: 'gzip',
      fileBytesMax: 1_048_576,
      csv: { delimiter: ';', header: false, nullText: 'NULL' },
    },
    (folder: string) => csv(folder, 'csv.gz', `header = false, delim = ';', nullstr = 'NULL'`),
  ],
  [
    'NDJSON, in parts',
    { format: 'ndjson', fileBytesMax: 1_048_576 },
    (folder: string) => `read_json('${folder}/*.ndjson', format = 'newline_delimited', columns = ${ndjsonTypes})`,
  ],
  [
    'NDJSON, zstd',
    { format: 'ndjson', compression: 'zstd' },
    (folder: string) => `read_json('${folder}/*.ndjson.zst', format = 'newline_delimited', columns = ${ndjsonTypes})`,
  ],
] as const) {
  test(`${name}: exported values are equal to the stored ones`, async () => {
    const { manifest, folder } = await runExport(body);
    assert.equal(manifest.rowCount, rows);
    assert.equal(manifest.fileCount > 1, 'fileBytesMax' in body, String(manifest.fileCount));
    assert.deepEqual(
      manifest.columns.map((column) => column.name),
      columnNames,
    );
    assert.equal(await checksum(from(folder)), await checksum('made'));
  });
}

/** The column of an Arrow table, batch after batch; null for missing values. */
function values(exportedTable: Table, name: string, words = 1): (string | null)[] {
  const column = exportedTable.getChild(name);
  assert.ok(column, name);
  return column.data.flatMap((part) =>
    Array.from({ length: part.length }, (_, i) => {
      if (!part.getValid(i)) return null;
      if (words === 1) return String(part.values[i]);
      const [low = 0n, high = 0n] = new BigInt64Array(part.values.slice(i * 4, i * 4 + 4).buffer);
      return String((high << 64n) + BigInt.asUintN(64, low));
    }),
  );
}

for (const [name, more] of [
  ['file', {}],
  ['stream', { arrowLayout: 'stream' }],
  ['file, in parts', { fileBytesMax: 1_048_576 }],
] as const) {
  test(`Arrow, ${name}: exported values are equal to the stored ones`, async () => {
    const { manifest, folder, names } = await runExport({ format: 'arrow', ...more });
    assert.equal(manifest.fileCount > 1, 'fileBytesMax' in more);
    const tables = await Promise.all(
      names.map(async (candidate) => tableFromIPC(await readFile(join(folder, candidate)))),
    );
    const all = (column: string, words?: number) => tables.flatMap((table) => values(table, column, words));
    const texts = tables.flatMap((table) => [...(table.getChild('note') ?? [])]);
    const even = tables.flatMap((table) => [...(table.getChild('even') ?? [])]);
    const raw = `SELECT id, note, size, (price * 100000)::HUGEINT, even, day - DATE '1970-01-01', epoch_us("at"), wide FROM made`;
    const expected = (await duck.runAndReadAll(raw)).getColumns();
    const text = (column: number) => expected[column]?.map((value) => (value === null ? null : String(value)));
    assert.deepEqual(all('id'), text(0));
    assert.deepEqual(texts, expected[1]);
    assert.deepEqual(all('size'), text(2));
    assert.deepEqual(all('price', 4), text(3));
    assert.deepEqual(even, expected[4]);
    assert.deepEqual(all('day'), text(5));
    assert.deepEqual(all('at'), text(6));
    assert.deepEqual(all('wide "x"', 4), text(7));
  });
}

test('Arrow: values in lists, structs and maps', async () => {
  const sql = `SELECT [1, NULL, 3] AS l, {'a': 'x', 'b': [true]} AS s, MAP {'k': 1.5::DOUBLE} AS m, 'ab'::BLOB AS b,
    TIME '10:00:00' AS t, uuid '00000000-0000-0000-0000-000000000001' AS u, [2::HUGEINT] AS h UNION ALL
    SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL`;
  const { folder, names } = await runExport({ sql, format: 'arrow' }, database);
  const [first, second] = tableFromIPC(await readFile(join(folder, names[0] as string))).toArray();
  const manifest = JSON.parse(
    JSON.stringify(first, (_, value) => (typeof value === 'bigint' ? String(value) : value)),
  ) as Record<string, unknown>;
  assert.deepEqual([manifest.l, manifest.s, manifest.m], [[1, null, 3], { a: 'x', b: [true] }, { k: 1.5 }]);
  assert.deepEqual([manifest.t, manifest.u], ['10:00:00', '00000000-0000-0000-0000-000000000001']);
  assert.deepEqual([...first.b], [97, 98]);
  assert.deepEqual(Object.values(second.toJSON()), Array(7).fill(null));
});

test('a query with parameters, with equal column names, without rows', async () => {
  const body = { sql: 'SELECT id AS a, note AS A FROM facts WHERE id < $1', format: 'csv' };
  const someRows = await runExport({ ...body, parameters: [2] }, database);
  assert.deepEqual(
    someRows.manifest.columns.map(({ name }) => name),
    ['a', 'A_1'],
  );
  assert.equal(await readFile(join(someRows.folder, 'part-00000.csv'), 'utf8'), 'a,A_1\n0,\n1,""\n');
  for (const format of ['csv', 'parquet', 'ndjson', 'arrow'])
    for (const more of [{}, { fileBytesMax: 1_048_576 }]) {
      const emptyExport = await runExport({ ...body, parameters: [-1], format, ...more }, database);
      assert.deepEqual([emptyExport.manifest.rowCount, emptyExport.manifest.fileCount], [0, 1], format);
    }
  const namedExport = await runExport({ columns: ['wide "x"', 'id'], format: 'csv' });
  assert.equal((await readFile(join(namedExport.folder, 'part-00000.csv'), 'utf8')).split('\n')[0], '"wide ""x""",id');
});

/** Checks that a task that did not succeed left nothing. */
async function requireNothingLeft(taskId: string): Promise<void> {
  assert.deepEqual(await keysOf(`out/${taskId}/`), []);
  const spool = await readdir(join(server.dataDirectory, 'spool'));
  assert.deepEqual(
    spool.filter((name) => name !== 'spill'),
    [],
  );
}

async function failing(body: object, code: string, path = database): Promise<Reply> {
  const task = await server.ended(await server.post(`${path}/export`, { format: 'csv', to: target(), ...body }));
  task.is(200, '0', { state: 'failed', error: { code } });
  await requireNothingLeft(task.at('taskId'));
  return task;
}

test('an export that is not possible fails with its reason, and leaves nothing', async () => {
  const sql = 'SELECT 1';
  await failing({ sql: 'SELECT nothing' }, 'SQL_INVALID');
  await failing({ sql: 'DELETE FROM facts' }, 'SQL_NOT_SUPPORTED');
  await failing({ sql: "SELECT * FROM read_csv('/etc/passwd')" }, 'SQL_FORBIDDEN_FUNCTION');
  // In the middle of the work: the first rows have been written by then.
  await failing({ sql: "SELECT CASE WHEN id > 55000 THEN error('late') END FROM facts" }, 'SQL_INVALID');
  const lateFailure = "SELECT CASE WHEN range = 1500000 THEN error('late') END FROM range(2000000)";
  for (const format of ['arrow', 'ndjson']) {
    const task = await failing({ sql: lateFailure, format }, 'SQL_INVALID');
    assert.match(task.text, /late/);
  }
  await failing(
    { sql: 'SELECT 170141183460469231731687303715884105727::HUGEINT AS n', format: 'parquet' },
    'SQL_INVALID',
  );
  await failing({ sql, to: target({ bucket: 'no-such-bucket' }) }, 'REMOTE_REFUSED');
  const refused = await failing({ sql, to: target({ accessKeyId: 'planted-wrong-secret' }) }, 'REMOTE_REFUSED');
  assert.ok(!refused.text.includes('planted-wrong-secret'));
  assert.equal((await server.rows('shop', 'SELECT count(*) FROM facts'))[0]?.[0], rows);
});

test('meaningless bodies are refused before a task is submitted', async () => {
  const post = (body: object, path = database) => server.post(`${path}/export`, body);
  const validExport = { sql: 'SELECT 1', format: 'csv', to: target() };
  for (const [more, pointer] of [
    [{ compression: 'snappy' }, '/compression'],
    [{ format: 'arrow', compression: 'gzip' }, '/compression'],
    [{ format: 'parquet', csv: {} }, '/csv'],
    [{ arrowLayout: 'file' }, '/arrowLayout'],
    [{ numbers: 'string' }, '/numbers'],
    [{ fileBytesMax: 1 }, '/fileBytesMax'],
    [{ csv: { delimiter: '"' } }, '/csv/delimiter'],
    [{ to: {} }, '/to'],
    [{ to: { download: false } }, '/to/download'],
    [{ to: { download: true, ...target() } }, '/to'],
    [{ to: target({ bucket: 'a/../b' }) }, '/to/s3/bucket'],
    [{ to: target({ endpoint: 'file:///etc' }) }, '/to/s3/endpoint'],
  ] as const)
    (await post({ ...validExport, ...more })).is(400, 'INVALID_PARAMETER', { violations: [{ pointer }] });
  (await post({ columns: ['none'], format: 'csv', to: target() }, table)).is(400, 'INVALID_PARAMETER');
  for (const endpoint of ['http://169.254.169.254', 'http://localhost:1', 'https://s3.amazonaws.com'])
    (await post({ ...validExport, to: target({ endpoint }) })).is(400, 'HOST_NOT_ALLOWED');
});

test('an export requires the privilege to read', async () => {
  const person = await newPerson(server, 'reader', [['use', '/warehouses']]);
  const body = { format: 'csv', to: target() };
  (await person.post(`${table}/export`, body)).is(403, 'FORBIDDEN');
  await grant(server, 'users/reader', [['create', '/catalogs/default/databases/shop']]);
  (await server.post(`${database}/tables`, { name: 'other', columns: [{ name: 'n', type: 'INT' }] })).is(201);
  await grant(server, 'users/reader', [['read', '/catalogs/default/databases/shop/tables/other']]);
  (await person.post(`${table}/export`, body)).is(403, 'FORBIDDEN');
  const may = await person.post(`${database}/export`, { ...body, sql: 'SELECT * FROM other' });
  (await server.ended(may)).is(200, '0', { state: 'succeeded' });
  const mayNot = await server.ended(await person.post(`${database}/export`, { ...body, sql: 'SELECT * FROM facts' }));
  mayNot.is(200, '0', { state: 'failed', error: { code: 'FORBIDDEN' } });
  await requireNothingLeft(mayNot.at('taskId'));
});

test('a cancelled export ends within a second and leaves nothing', async () => {
  const sql = 'SELECT a.range * b.range AS n FROM range(1000000) AS a, range(1000000) AS b';
  for (const format of ['csv', 'parquet', 'arrow']) {
    const accepted = await server.post(`${database}/export`, { sql, format, to: target() });
    const uri = accepted.is(202).at<string>('uri');
    await running(uri);
    const since = performance.now();
    (await server.post(`${uri}/cancel`)).is(200);
    (await endOfTask(server, uri)).is(200, '0', { state: 'cancelled' });
    const ms = performance.now() - since;
    assert.ok(ms < deadlineMs(1500), `${format}: ${ms} ms`);
    await requireNothingLeft(accepted.at('taskId'));
  }
});

async function running(uri: string): Promise<void> {
  for (;;) {
    const { queries } = (await server.post('/api/v2/queries/search', { state: 'running', text: 'a.range' })).result;
    const state = (await server.get(uri)).at<string>('state');
    if ((queries as unknown[]).length > 0) return;
    assert.ok(state === 'running' || state === 'pending', state);
  }
}

async function requireExportResumed(signal: 'SIGKILL' | 'SIGTERM', attempt: number): Promise<void> {
  const flags = ['--export-hosts=127.0.0.1'];
  const directory = await mkdtemp(join(tmpdir(), 'tabularium-export-'));
  const first = await startProcess(flags, directory);
  const sql = `SELECT range AS n, md5(range::VARCHAR) AS t FROM range(400000)`;
  const accepted = await first.post('/api/v2/catalogs/default/export', { sql, format: 'csv', to: target() });
  const taskId = accepted.is(202).at<string>('taskId');
  while ((await first.get(accepted.at('uri'))).at('state') === 'pending');
  first.child.kill(signal);
  await first.exited;
  await store.writeSmall(`out/${taskId}/part-00099.csv`, 'left behind');
  const second = await startProcess(flags, directory);
  try {
    const ended = (await endOfTask(second, accepted.at<string>('uri'))).is(200, '0', {
      state: 'succeeded',
      attempt,
    });
    assert.equal(ended.at('result', 'rowCount'), 400_000);
    assert.deepEqual(await keysOf(`out/${taskId}/`), [`out/${taskId}/manifest.json`, `out/${taskId}/part-00000.csv`]);
    assert.ok(!ended.text.includes(s3.secretAccessKey));
  } finally {
    await second.close();
  }
  // The credentials are deleted with the end of the task.
  const file = new DatabaseSync(join(directory, storeFileName));
  try {
    assert.deepEqual(
      { ...file.prepare("SELECT count(*) AS n FROM secrets WHERE name LIKE 'export %'").get() },
      { n: 0 },
    );
  } finally {
    file.close();
    await rm(directory, { recursive: true });
  }
}

test('killed in the middle: the export is complete once, without files of the first attempt', () =>
  requireExportResumed('SIGKILL', 2));

test('stopped in the middle: the same, and the run does not count as an attempt', () =>
  requireExportResumed('SIGTERM', 1));
