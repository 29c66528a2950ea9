// Loads by REST: a file of the server into a table, by a task; immediate refusals; each label is loaded once; real data sets
// are equal in every format; and nobody reads a file outside the allowed directories.
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { type Reply, start, type TestServer, uri } from '../server.ts';

const sets = realpathSync(join(fileURLToPath(new URL('../../node_modules/vega-datasets', import.meta.url)), 'data'));
const directory = realpathSync(mkdtempSync(join(tmpdir(), 'load [é] ')));
const outside = realpathSync(mkdtempSync(join(tmpdir(), 'outside ')));
let server: TestServer;
let tableCount = 0;

before(async () => {
  server = await start({ loadDirectories: `${directory}:${sets}`, loadFileBytesMax: 50_000_000 });
  (await server.put(uri`/databases/${'d'}`)).is(201);
});
after(async () => {
  await server.close();
  for (const path of [directory, outside]) rmSync(path, { recursive: true, force: true });
});

function put(name: string, bytes: string | Uint8Array): string {
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

async function loaded(name: string, body: object): Promise<Record<string, unknown>> {
  const reply = await load(name, body);
  assert.equal(reply.at('state'), 'succeeded', JSON.stringify(reply.at('error')));
  return reply.at('result');
}

const csv = 'id,name\n1,ann\n2,bob\n';

test('a file is loaded by its name, compressed or not, and the record of the task contains the counts', async () => {
  const name = await table({ id: 'BIGINT', name: 'STRING' });
  const result = await loaded(name, { source: { path: put('a.csv', csv) } });
  const done = {
    rowsLoaded: 2,
    rowsRejected: 0,
    bytes: csv.length,
    dryRun: false,
    repeated: false,
    rejectedRows: [],
    rejectsFileId: null,
  };
  assert.deepEqual(result, done);
  assert.deepEqual(await loaded(name, { source: { path: put('a*?.csv.gz', gzipSync(csv)) }, mode: 'replace' }), done);
  assert.deepEqual(await loaded(name, { source: { path: put('a.csv.zst', zstdCompressSync(csv)) } }), done);
  assert.deepEqual(await server.rows('d', `SELECT id, count(*) FROM ${name} GROUP BY id ORDER BY id`), [
    [1, 2],
    [2, 2],
  ]);
  // Characters of glob patterns are literal.
  put('x1.csv', csv);
  assert.equal((await loaded(name, { source: { path: put('x[1].csv', `${csv}3,c\n`) } })).rowsLoaded, 3);
});

test('requests that are refused at once', async () => {
  const name = await table({ id: 'BIGINT', name: 'STRING' });
  const good = put('b.csv', csv);
  writeFileSync(join(outside, 'secret.csv'), csv);
  symlinkSync(join(outside, 'secret.csv'), join(directory, 'link.csv'));
  symlinkSync(outside, join(directory, 'way'));
  mkdirSync(join(directory, 'sub.csv'));
  const refused = [
    { source: { path: join(outside, 'secret.csv') } },
    { source: { path: `${directory}/../${outside.split('/').at(-1)}/secret.csv` } },
    { source: { path: join(directory, 'link.csv') } },
    { source: { path: join(directory, 'way/secret.csv') } },
    { source: { path: join(directory, 'sub.csv') } },
    { source: { path: join(directory, '*.csv') } },
    { source: { path: join(directory, 'missing.csv') } },
    { source: { path: join(server.dataDirectory, 'root.token') }, format: 'csv' },
    { source: { path: '/etc/passwd' }, format: 'csv' },
    { source: { path: 'b.csv' } },
    { source: {} },
    { source: { path: put('noending', csv) } },
    { source: { path: good }, format: 'parquet', compression: 'gzip' },
    { source: { path: good }, format: 'json', csv: { delimiter: ',' } },
    { source: { path: good }, columns: [{ name: 'id', source: 'id', expression: '1' }] },
    { source: { path: good }, csv: { quote: '""' } },
  ];
  for (const body of refused) {
    const reply = await server.post(uri`/databases/${'d'}/tables/${name}/load`, body);
    reply.is(400, 'INVALID_PARAMETER');
  }
  const other = await server.post(uri`/databases/${'d'}/tables/${'none'}/load`, { source: { path: good } });
  other.is(404, 'OBJECT_NOT_FOUND');
});

test('a malformed file fails the task with row and column, and the table is unchanged', async () => {
  const name = await table({ id: 'BIGINT', name: 'STRING' });
  await loaded(name, { source: { path: put('c.csv', csv) } });
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
    const reply = await load(name, { source: { path: put(file, bytes) }, mode: 'replace' });
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
  const body = { source: { path: put('r.csv', `${csv}x,c\n4\n5,e\n`) }, errorsMax: 2 };
  const result = await loaded(name, body);
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
  const body = { source: { path: put('l.csv', csv) }, label: 'day 1' };
  assert.equal((await loaded(name, { ...body, dryRun: true })).rowsLoaded, 2);
  assert.deepEqual(await server.rows('d', `SELECT count(*) FROM ${name}`), [[0]]);
  const first = await loaded(name, body);
  const [again, beside] = await Promise.all([loaded(name, body), loaded(name, { ...body, mode: 'replace' })]);
  assert.deepEqual(again, { ...first, repeated: true });
  assert.deepEqual(beside, { ...first, repeated: true });
  await loaded(name, { ...body, label: 'day 2' });
  assert.deepEqual(await server.rows('d', `SELECT count(*) FROM ${name}`), [[4]]);
  const other = await table({ id: 'BIGINT', name: 'STRING' });
  assert.equal((await loaded(other, body)).repeated, false);
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
  assert.equal((await loaded(short, flown)).rowsLoaded, rows.length);
  const sum = (of: 'delay' | 'distance') => rows.reduce((all, row) => all + row[of], 0);
  assert.deepEqual(await server.rows('d', `SELECT sum(delay), sum(distance) FROM ${short}`), [
    [sum('delay'), sum('distance')],
  ]);
  const parquet = await loaded(flights, { source: { path: join(sets, 'flights-3m.parquet') } });
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
  assert.equal((await loaded(airports, { source: { path } })).rowsLoaded, lines.length - 1);
  const north = lines.slice(1).reduce((all, line) => all + Number(line.split(',').at(-2)), 0);
  const [[got]] = (await server.rows('d', `SELECT sum(latitude) FROM ${airports}`)) as [[number]];
  assert.ok(Math.abs(got - north) < 1e-6, `${got} ${north}`);
});
