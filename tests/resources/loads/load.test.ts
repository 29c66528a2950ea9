// Loads by REST: a file of the server into a table, by a task; immediate refusals; each label is loaded once; real data sets
// are equal in every format; and nobody reads a file outside the allowed directories.
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { fileStoreOf } from '../../file_stores.ts';
import { type Reply, start, type TestServer, uri } from '../../server.ts';

const sets = realpathSync(join(fileURLToPath(new URL('../../../node_modules/vega-datasets', import.meta.url)), 'data'));
const directory = realpathSync(mkdtempSync(join(tmpdir(), 'load [é] ')));
const outsideDirectory = realpathSync(mkdtempSync(join(tmpdir(), 'outside ')));
let server: TestServer;
let tableCount = 0;

before(async () => {
  server = await start({
    loadDirectories: `${directory}:${sets}`,
    loadFileBytesMax: 50_000_000,
    ...(await fileStoreOf(import.meta.url).settings()),
  });
  (await server.put(uri`/databases/${'d'}`)).is(201);
});
after(async () => {
  await server.close();
  for (const path of [directory, outsideDirectory]) rmSync(path, { recursive: true, force: true });
});

function writeSource(name: string, bytes: string | Uint8Array): string {
  const path = join(directory, name);
  writeFileSync(path, bytes);
  return path;
}

async function table(columns: Readonly<Record<string, string>>, more: object = {}): Promise<string> {
  const name = `t${++tableCount}`;
  const body = { columns: Object.entries(columns).map(([column, type]) => ({ name: column, type })), ...more };
  (await server.put(uri`/databases/${'d'}/tables/${name}`, body)).is(201);
  return name;
}

const load = async (name: string, body: object): Promise<Reply> =>
  server.ended(await server.post(uri`/databases/${'d'}/tables/${name}/load`, body));

async function loadInto(name: string, body: object): Promise<Record<string, unknown>> {
  const reply = await load(name, body);
  assert.equal(reply.at('state'), 'succeeded', JSON.stringify(reply.at('error')));
  return reply.at('result');
}

const csv = 'id,name\n1,ann\n2,bob\n';

test('a file is loaded by its name, compressed or not, and the record of the task contains the counts', async () => {
  const name = await table({ id: 'BIGINT', name: 'STRING' });
  const result = await loadInto(name, { source: { path: writeSource('a.csv', csv) } });
  const expectedCounts = {
    rowsLoaded: 2,
    rowsRejected: 0,
    bytes: csv.length,
    dryRun: false,
    repeated: false,
    rejectedRows: [],
    rejectsFileId: null,
  };
  assert.deepEqual(result, expectedCounts);
  assert.deepEqual(
    await loadInto(name, { source: { path: writeSource('a*?.csv.gz', gzipSync(csv)) }, mode: 'replace' }),
    expectedCounts,
  );
  assert.deepEqual(
    await loadInto(name, { source: { path: writeSource('a.csv.zst', zstdCompressSync(csv)) } }),
    expectedCounts,
  );
  assert.deepEqual(await server.rows('d', `SELECT id, count(*) FROM ${name} GROUP BY id ORDER BY id`), [
    [1, 2],
    [2, 2],
  ]);
  // Characters of glob patterns are literal.
  writeSource('x1.csv', csv);
  assert.equal((await loadInto(name, { source: { path: writeSource('x[1].csv', `${csv}3,c\n`) } })).rowsLoaded, 3);
});

test('requests that are refused at once', async () => {
  const name = await table({ id: 'BIGINT', name: 'STRING' });
  const validPath = writeSource('b.csv', csv);
  writeFileSync(join(outsideDirectory, 'secret.csv'), csv);
  symlinkSync(join(outsideDirectory, 'secret.csv'), join(directory, 'link.csv'));
  symlinkSync(outsideDirectory, join(directory, 'way'));
  mkdirSync(join(directory, 'sub.csv'));
  const refused = [
    { source: { path: join(outsideDirectory, 'secret.csv') } },
    { source: { path: `${directory}/../${outsideDirectory.split('/').at(-1)}/secret.csv` } },
    { source: { path: join(directory, 'link.csv') } },
    { source: { path: join(directory, 'way/secret.csv') } },
    { source: { path: join(directory, 'sub.csv') } },
    { source: { path: join(directory, '*.csv') } },
    { source: { path: join(directory, 'missing.csv') } },
    { source: { path: join(server.dataDirectory, 'root.token') }, format: 'csv' },
    { source: { path: '/etc/passwd' }, format: 'csv' },
    { source: { path: 'b.csv' } },
    { source: {} },
    { source: { path: writeSource('noending', csv) } },
    { source: { path: validPath }, format: 'parquet', compression: 'gzip' },
    { source: { path: validPath }, format: 'json', csv: { delimiter: ',' } },
    { source: { path: validPath }, columns: [{ name: 'id', source: 'id', expression: '1' }] },
    { source: { path: validPath }, csv: { quote: '""' } },
  ];
  for (const body of refused) {
    const reply = await server.post(uri`/databases/${'d'}/tables/${name}/load`, body);
    reply.is(400, 'INVALID_PARAMETER');
  }
  const other = await server.post(uri`/databases/${'d'}/tables/${'none'}/load`, { source: { path: validPath } });
  other.is(404, 'OBJECT_NOT_FOUND');
});

test('a malformed file fails the task with row and column, and the table is unchanged', async () => {
  const name = await table({ id: 'BIGINT', name: 'STRING' });
  await loadInto(name, { source: { path: writeSource('c.csv', csv) } });
  const cases: Readonly<Record<string, readonly [Uint8Array | string, object]>> = {
    'c1.csv': [`${csv}x,c\n`, { row: 3, column: 'id', text: 'x,c' }],
    'c2.ndjson': ['{"id":1}\n{"id":"x"}\n', { row: 2, column: 'id' }],
    'c3.csv.gz': [gzipSync(csv.repeat(1000)).subarray(0, 60), {}],
    'c4.csv.zst': [zstdCompressSync(Buffer.from(csv.repeat(1000))).subarray(0, 30), {}],
    'c5.csv.gz': [csv, {}],
    'c6.csv.gz': [gzipSync(`id,name\n1,${'a'.repeat(40_000_000)}\n`), {}],
    'c7.csv.gz': [gzipSync(`id,name\n${'1,a\n'.repeat(15_000_000)}`), { bytesMax: 50_000_000 }],
    'c8.parquet': [csv, {}],
    'c9.json': [csv, {}],
  };
  for (const [file, [bytes, result]] of Object.entries(cases)) {
    const reply = await load(name, { source: { path: writeSource(file, bytes) }, mode: 'replace' });
    assert.equal(reply.at('state'), 'failed', file);
    assert.equal(reply.at('error', 'code'), 'DATA_INVALID', `${file}: ${reply.text}`);
    assert.partialDeepStrictEqual(reply.at('error', 'result') ?? {}, result, `${file}: ${reply.text}`);
    const { request: _, ...shown } = reply.result;
    assert.ok(!JSON.stringify(shown).includes(directory) && !JSON.stringify(shown).includes('spool'), reply.text);
  }
  assert.deepEqual(await server.rows('d', `SELECT count(*) FROM ${name}`), [[2]]);
});

test('rows that do not fit are rejected and shown', async () => {
  const name = await table({ id: 'BIGINT', name: 'STRING' });
  const body = { source: { path: writeSource('r.csv', `${csv}x,c\n4\n5,e\n`) }, errorsMax: 2 };
  const result = await loadInto(name, body);
  assert.partialDeepStrictEqual(result, {
    rowsLoaded: 3,
    rowsRejected: 2,
    rejectedRows: [
      { row: 3, column: 'id', text: 'x,c' },
      { row: 4, column: 'name', text: '4' },
    ],
  });
});

test('a label is loaded once into a table, a dry run never', async () => {
  const name = await table({ id: 'BIGINT', name: 'STRING' });
  const body = { source: { path: writeSource('l.csv', csv) }, label: 'day 1' };
  assert.equal((await loadInto(name, { ...body, dryRun: true })).rowsLoaded, 2);
  assert.deepEqual(await server.rows('d', `SELECT count(*) FROM ${name}`), [[0]]);
  const first = await loadInto(name, body);
  const [sameLabel, secondLabel] = await Promise.all([
    loadInto(name, body),
    loadInto(name, { ...body, mode: 'replace' }),
  ]);
  assert.deepEqual(sameLabel, { ...first, repeated: true });
  assert.deepEqual(secondLabel, { ...first, repeated: true });
  await loadInto(name, { ...body, label: 'day 2' });
  assert.deepEqual(await server.rows('d', `SELECT count(*) FROM ${name}`), [[4]]);
  const other = await table({ id: 'BIGINT', name: 'STRING' });
  assert.equal((await loadInto(other, body)).repeated, false);
});

test('public data sets are loaded completely from Parquet, CSV and JSON', async () => {
  const flights = await table({
    date: 'DATETIME',
    delay: 'SMALLINT',
    distance: 'SMALLINT',
    origin: 'STRING',
    destination: 'STRING',
  });
  const flown = { source: { path: join(sets, 'flights-200k.json') } };
  const rows = JSON.parse(readFileSync(flown.source.path, 'utf8')) as {
    delay: number;
    distance: number;
    time: number;
  }[];
  const short = await table({ delay: 'SMALLINT', distance: 'INT', time: 'DOUBLE' });
  assert.equal((await loadInto(short, flown)).rowsLoaded, rows.length);
  const sum = (field: 'delay' | 'distance') => rows.reduce((all, row) => all + row[field], 0);
  assert.deepEqual(await server.rows('d', `SELECT sum(delay), sum(distance) FROM ${short}`), [
    [sum('delay'), sum('distance')],
  ]);
  const parquet = await loadInto(flights, { source: { path: join(sets, 'flights-3m.parquet') } });
  assert.equal(parquet.rowsLoaded, 3_000_000);

  const airports = await table({
    iata: 'STRING',
    name: 'STRING',
    city: 'STRING',
    state: 'STRING',
    country: 'STRING',
    latitude: 'DOUBLE',
    longitude: 'DOUBLE',
  });
  const path = join(sets, 'airports.csv');
  const lines = readFileSync(path, 'utf8').trim().split('\n');
  assert.equal((await loadInto(airports, { source: { path } })).rowsLoaded, lines.length - 1);
  const north = lines.slice(1).reduce((all, line) => all + Number(line.split(',').at(-2)), 0);
  const [[latitudeSum]] = (await server.rows('d', `SELECT sum(latitude) FROM ${airports}`)) as [[number]];
  assert.ok(Math.abs(latitudeSum - north) < 1e-6, `${latitudeSum} ${north}`);
});
