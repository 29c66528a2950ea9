// Invalid files, loaded into an existing table and into one that would be created: each fails its task with the reason and,
// if a row is invalid, the row; the existing table is unchanged, and no table is created.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { DuckDBInstance } from '@duckdb/node-api';
import { start, type TestServer, uri } from '../../server.ts';

const directory = realpathSync(mkdtempSync(join(tmpdir(), 'bad ')));
const fileBytesMax = 45_000_000;
let server: TestServer;

const csv = 'id,name\n1,ann\n2,bob\n';
const ndjson = '{"id":1,"name":"ann"}\n{"id":2,"name":"bob"}\n';
const json = '[{"id":1,"name":"ann"},{"id":2,"name":"bob"}';
const latin1 = (text: string) => Buffer.from(text, 'latin1');

/** Written by DuckDB in this process. */
async function parquet(select: string): Promise<Buffer> {
  const path = join(directory, 'made.parquet');
  const connection = await (await DuckDBInstance.create(':memory:')).connect();
  await connection.run(`COPY (${select}) TO '${path}' (FORMAT parquet)`);
  connection.closeSync();
  return readFileSync(path);
}
const validBytes = await parquet(`SELECT range AS id, 'n' || range AS name FROM range(5000)`);
const typed = await parquet(
  `SELECT CASE WHEN range = 3 THEN 'x' ELSE range::VARCHAR END AS id, 'n' AS name FROM range(5)`,
);

type Case = readonly [name: string, bytes: string | Uint8Array, result: object, message: RegExp];
const row = (rowNumber: number, column: string | null) => ({ row: rowNumber, column });
const notWhole = /incomplete, or not of this format/;
const notPacked = /truncated, or not compressed in the stated format/;
const tooLarge = /exceeds 45000000 bytes/;

const cases: Readonly<Record<string, readonly Case[]>> = {
  ragged: [
    ['short.csv', `${csv}3\n`, row(3, 'name'), /Expected Number of Columns: 2 Found: 1/],
    ['long.csv', `${csv}3,c,d\n`, row(3, null), /Expected Number of Columns: 2 Found: 3/],
    ['ragged.json', `${json},[3,"c"]]`, row(3, null), /no JSON object/],
    ['ragged.ndjson', `${ndjson}[3,"c"]\n`, row(3, null), /no JSON object/],
  ],
  'mis-encoded': [
    ['latin.csv', latin1(`${csv}3,\xe9t\xe9\n`), row(3, 'name'), /not utf-8/],
    ['header.csv', latin1('id,n\xe9\n1,a\n'), { line: 1 }, /not utf-8/],
    ['utf16.csv', Buffer.from(csv, 'utf16le'), { line: 1 }, /UTF-16/],
    ['latin.ndjson', latin1(`${ndjson}{"id":3,"name":"\xe9"}\n`), row(3, null), /UTF-8/],
    ['latin.json', latin1(`${json},{"id":3,"name":"\xe9"}]`), row(3, null), /UTF-8/],
  ],
  'with a huge field': [
    ['huge.csv', `${csv}3,${'x'.repeat(3_000_000)}\n`, row(3, 'name'), /Maximum line size of 2000000 bytes/],
    ['huge.ndjson', `${ndjson}{"id":3,"name":"${'x'.repeat(40_000_000)}"}\n`, row(3, null), /more than 16777216 bytes/],
    ['huge.json', `${json},{"id":"${'x'.repeat(40_000_000)}"}]`, { bytesMax: 16_777_216 }, /more than 16777216 bytes/],
  ],
  'of a wrong type': [
    ['type.csv', `${csv}x,c\n`, { ...row(3, 'id'), text: 'x,c' }, /'BIGINT'/],
    ['type.ndjson', `${ndjson}{"id":"x"}\n`, row(3, 'id'), /none of BIGINT/],
    ['type.json', `${json},{"id":"x"}]`, row(3, 'id'), /none of BIGINT/],
    ['type.parquet', typed, row(4, 'id'), /none of BIGINT/],
  ],
  empty: [
    ['empty.csv', '', {}, /is empty/],
    ['empty.json', '', {}, /no JSON objects/],
    ['none.json', '[]', {}, /no JSON objects/],
    ['empty.ndjson', '', {}, /no JSON objects/],
    ['empty.parquet', '', {}, notWhole],
    ['empty.csv.gz', gzipSync(''), {}, /is empty/],
    ['nothing.csv.gz', '', {}, notPacked],
  ],
  truncated: [
    ['cut.csv', `${csv}3,"c`, row(3, 'name'), /unterminated quote/],
    ['cut.json', `${json},{"id":3,"na`, row(3, null), /end of data/],
    ['cut.ndjson', `${ndjson}{"id":3,"na`, row(3, null), /no JSON object/],
    ['cut.parquet', validBytes.subarray(0, validBytes.length - 200), {}, notWhole],
    ['begun.parquet', validBytes.subarray(0, 300), {}, notWhole],
    ['cut.csv.gz', gzipSync(csv.repeat(2000)).subarray(0, 60), {}, notPacked],
    ['cut.csv.zst', zstdCompressSync(Buffer.from(csv.repeat(2000))).subarray(0, 30), {}, notPacked],
  ],
  'that is a zip bomb': [
    ['bomb.csv.gz', gzipSync(`id,name\n${'1,a\n'.repeat(15_000_000)}`), { bytesMax: fileBytesMax }, tooLarge],
    ['bomb.json.zst', zstdCompressSync(Buffer.alloc(60_000_000)), { bytesMax: fileBytesMax }, tooLarge],
  ],
  'with a wrong extension': [
    ['csv.parquet', csv, {}, notWhole],
    ['csv.json', csv, row(1, null), /unexpected character/],
    ['csv.ndjson', csv, row(1, null), /no JSON object/],
    ['json.csv', `${json}]`, {}, /is JSON: set `format`/],
    ['ndjson.csv', ndjson, {}, /is JSON: set `format`/],
    ['parquet.csv', validBytes, {}, /is Parquet: set `format`/],
    ['parquet.json', validBytes, {}, /is Parquet: set `format`/],
    ['plain.csv.gz', csv, {}, notPacked],
    ['gzip.csv', gzipSync(csv), {}, /compressed with gzip: set `compression`/],
    ['zstd.ndjson', zstdCompressSync(Buffer.from(ndjson)), {}, /compressed with zstd: set `compression`/],
    ['gzip.csv.zst', gzipSync(csv), {}, notPacked],
    ['zip.csv', Buffer.from('PK\u0003\u0004 and so on'), {}, /is a ZIP archive/],
  ],
};

before(async () => {
  server = await start({ loadDirectories: directory, loadFileBytesMax: fileBytesMax });
  (await server.put(uri`/databases/${'d'}`)).is(201);
  const columns = [
    { name: 'id', type: 'BIGINT' },
    { name: 'name', type: 'STRING' },
  ];
  (await server.put(uri`/databases/${'d'}/tables/${'t'}`, { columns })).is(201);
  (await server.post(uri`/databases/${'d'}/tables/${'t'}/rows`, { rows: [[7, 'before']] })).is(201);
});
after(async () => {
  await server.close();
  rmSync(directory, { recursive: true, force: true });
});

async function requireLoadRefused(path: string, body: object, [name, , result, message]: Case): Promise<void> {
  const reply = await server.ended(await server.post(path, body));
  assert.equal(reply.at('state'), 'failed', `${name}: ${reply.text}`);
  assert.equal(reply.at('error', 'code'), 'DATA_INVALID', `${name}: ${reply.text}`);
  assert.partialDeepStrictEqual(reply.at('error', 'result') ?? {}, result, `${name}: ${reply.text.slice(0, 1000)}`);
  assert.match(reply.at('error', 'message'), message, name);
  assert.doesNotMatch(reply.at('error', 'message'), /[.]\s*;/, name);
  const { request: _, ...shown } = reply.result;
  assert.doesNotMatch(JSON.stringify(shown).slice(0, 10_000), /spool|data-[0-9a-f]|\/bad |read_csv|Try setting/, name);
}

for (const [kind, files] of Object.entries(cases)) {
  describe(`a file ${kind}`, () => {
    for (const file of files) {
      test(file[0], async () => {
        const path = join(directory, file[0]);
        writeFileSync(path, file[1]);
        const source = { path };
        await requireLoadRefused(uri`/databases/${'d'}/tables/${'t'}/load`, { source, mode: 'replace' }, file);
        assert.deepEqual(await server.rows('d', 'SELECT * FROM t'), [[7, 'before']]);
        const columns = [{ name: 'id', type: 'BIGINT' }, { name: 'name' }];
        // Types are needed for errors of values only, not for those of the file.
        const fields = kind === 'of a wrong type' ? { columns } : {};
        await requireLoadRefused(uri`/databases/${'d'}/load`, { source, table: 'n', ...fields }, file);
        (await server.get(uri`/databases/${'d'}/tables/${'n'}`)).is(404, 'OBJECT_NOT_FOUND');
        rmSync(path);
      });
    }
  });
}
