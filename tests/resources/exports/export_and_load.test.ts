// Exported files can be loaded: each text format and Parquet, values of each type, nulls, empty strings; and in the order of the
// query, in any number of files.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { DuckDBInstance } from '@duckdb/node-api';
import type { Reply, TestServer } from '../../server.ts';
import { type LoadingServer, startLoading } from '../loads/loading_server.ts';

let world: LoadingServer;
let server: TestServer;
before(async () => {
  world = await startLoading();
  ({ server } = world);
});
after(() => world.close());

const tables = '/api/v2/databases/d/tables';
const columns = Object.entries({
  id: 'INT',
  wide: 'LARGEINT',
  exact: 'DECIMAL(38,10)',
  real: 'DOUBLE',
  text: 'STRING',
  bytes: 'BINARY',
  day: 'DATE',
  at: 'DATETIME',
  instant: 'TIMESTAMPTZ',
  json: 'JSON',
  list: 'ARRAY<STRING>',
  map: 'MAP<STRING, INT>',
  struct: 'STRUCT<a: INT, "b c": ARRAY<DATE>>',
  uuid: 'UUID',
}).map(([name, type]) => ({ name, type }));
const rows = `
  [1, 12345678901234567890123456789012345678, 1234567890123456789012345678.0123456789, 0.1, "", "AP8iLA==", "2026-01-31",
   "2026-01-31T10:00:00.123456", "2026-01-31T10:00:00.5Z", {"a": [1, "x, \\"y\\""]}, ["", "a,b", "NULL", null], [{"key": "k", "value": 1}],
   {"a": 1, "b c": ["2026-02-01", null]}, "01a1fe1d-432e-71f3-902e-8ed9f83632ae"],
  [2, null, null, null, null, null, null, null, null, null, null, null, null, null],
  [3, -1, -0.5, "NaN", "NULL", "", "0001-01-01", "1969-12-31T23:59:59.999999", "1969-12-31T23:59:59Z", "null", [], [], {"a": null, "b c": []}, null]`;

async function exportAndDownload(path: string, body: object): Promise<{ name: string; content: Buffer }[]> {
  const task = await server.ended(await server.post(path, body));
  assert.equal(task.at('state'), 'succeeded', task.text);
  const files = task.at<{ name: string; link: string }[]>('result', 'files');
  return Promise.all(
    files.map(async ({ name, link }) => {
      const answer = await fetch(new URL(link, server.url));
      return { name, content: Buffer.from(await answer.arrayBuffer()) };
    }),
  );
}

async function load(table: string, body: object): Promise<Reply> {
  const task = await server.ended(await server.post(`${tables}/${table}/load`, body));
  assert.equal(task.at('state'), 'succeeded', task.text);
  return task;
}

const formats: readonly (readonly [string, object, object])[] = [
  ['CSV', { format: 'csv' }, { csv: { quotedNulls: false } }],
  [
    'CSV with a word for null',
    { format: 'csv', csv: { nullText: 'NULL' } },
    { csv: { nullText: 'NULL', quotedNulls: false } },
  ],
  [
    'CSV by a semicolon, zstd',
    { format: 'csv', compression: 'zstd', csv: { delimiter: ';' } },
    { csv: { quotedNulls: false } },
  ],
  ['NDJSON', { format: 'ndjson', numbers: 'string' }, {}],
  ['NDJSON, gzip', { format: 'ndjson', numbers: 'string', compression: 'gzip' }, {}],
  ['Parquet', { format: 'parquet' }, {}],
];

for (const [i, [name, options, read]] of formats.entries()) {
  test(`${name} is loaded as it was exported`, async () => {
    const [from, to] = [`from_${i}`, `to_${i}`];
    for (const table of [from, to]) (await server.post(tables, { name: table, columns })).is(201);
    (await server.post(`${tables}/${from}/rows`, `{"rows": [${rows}]}`)).is(201);
    const [file] = await exportAndDownload(`${tables}/${from}/export`, options);
    const path = world.writeFile(`${i}-${file?.name}`, file?.content as Buffer);
    // With `errorsMax`, rows are read in another way, with the same meaning.
    for (const more of [{}, { errorsMax: 5 }]) {
      const loaded = await load(to, { source: { path }, mode: 'replace', ...more, ...read });
      assert.deepEqual([loaded.at('result', 'rowsLoaded'), loaded.at('result', 'rowsRejected')], [3, 0]);
      const rowsOf = async (table: string) => (await server.query('d', `SELECT * FROM ${table} ORDER BY id`)).is(200);
      assert.deepEqual((await rowsOf(to)).at('rows'), (await rowsOf(from)).at('rows'), JSON.stringify(more));
      const text = (reply: Reply) => /"rows":.*?\],"/s.exec(reply.text)?.[0];
      assert.equal(text(await rowsOf(to)), text(await rowsOf(from)));
    }
  });
}

test('files have the order of the query, each with the next rows', async () => {
  const duck = await (await DuckDBInstance.create(':memory:')).connect();
  const sql = 'SELECT i, hash(i) AS h FROM range($1::BIGINT) AS r(i) ORDER BY h DESC';
  for (const format of ['csv', 'ndjson', 'parquet', 'arrow']) {
    const body = { sql, parameters: [400_000], format, fileBytesMax: 1_048_576 };
    const files = await exportAndDownload('/api/v2/databases/d/export', body);
    assert.ok(files.length > 2, `${format}: ${files.length}`);
    if (format === 'arrow') continue;
    let last: bigint | undefined;
    let count = 0;
    for (const { name, content } of files) {
      const path = world.writeFile(name, content);
      const reader = { csv: 'read_csv', ndjson: 'read_json', parquet: 'read_parquet' }[format];
      const text = `SELECT count(*), max(h::UBIGINT), min(h::UBIGINT), bool_and(before IS NULL OR before > h::UBIGINT)
        FROM (SELECT h, lag(h::UBIGINT) OVER () AS before FROM ${reader}('${path}'))`;
      const [[rowCount, max, min, isOrdered] = []] = (await duck.runAndReadAll(text)).getRows();
      assert.equal(isOrdered, true, `${format} ${name}`);
      assert.ok(last === undefined || last > (max as bigint), `${format} ${name}`);
      last = min as bigint;
      count += Number(rowCount);
    }
    assert.equal(count, 400_000, format);
  }
});
