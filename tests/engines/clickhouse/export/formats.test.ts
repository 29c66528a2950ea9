// Exports have the types and the values that DuckDB's adapter exports for the same rows: every type, at its limits and nested, in each format
// and compression. The files are read with DuckDB and with Arrow's library.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { gunzipSync, zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import * as arrow from 'apache-arrow';
import type { ExportedFiles, ExportFormat } from '../../../../src/engines/port/export.ts';
import { arrowCompressions, parquetCompressions, textCompressions } from '../../../../src/model/export_formats.ts';
import type { TypeKind } from '../../../../src/model/types.ts';
import { rowReader } from '../../../../src/query/rows/row_validation.ts';
import { parseJson } from '../../../../src/standard/json/parse_json.ts';
import { type EngineWorld, openEngine } from '../../../conformance/engine/engine_world.ts';
import { newClusterEngine } from '../engine.ts';
import { missingRing } from '../ring/ring.ts';

arrow.compressionRegistry.set(arrow.CompressionType.ZSTD, {
  encode: (buffer) => zstdCompressSync(buffer),
  decode: (buffer) => zstdDecompressSync(buffer),
});

/** The type and three values of each kind; the fourth row has nulls. */
const columns: Readonly<Record<TypeKind, readonly [type: string, ...values: readonly [string, string, string]]>> = {
  BOOLEAN: ['BOOLEAN', 'true', 'false', 'true'],
  TINYINT: ['TINYINT', '-128', '127', '0'],
  SMALLINT: ['SMALLINT', '-32768', '32767', '0'],
  INT: ['INT', '-2147483648', '2147483647', '0'],
  BIGINT: ['BIGINT', '-9223372036854775808', '9223372036854775807', '9007199254740993'],
  LARGEINT: [
    'LARGEINT',
    '-99999999999999999999999999999999999999',
    '99999999999999999999999999999999999999',
    '9007199254740993',
  ],
  FLOAT: ['FLOAT', '0.1', '"-Infinity"', '-0.0'],
  DOUBLE: ['DOUBLE', '"NaN"', '5e-324', '1.7976931348623157e+308'],
  DECIMAL: [
    'DECIMAL(38,2)',
    '-999999999999999999999999999999999999.99',
    '999999999999999999999999999999999999.99',
    '-0.10',
  ],
  DATE: ['DATE', '"1900-01-01"', '"2299-12-31"', '"1969-12-31"'],
  DATETIME: ['DATETIME', '"1900-01-01T00:00:00"', '"2299-12-31T23:59:59.999999"', '"1969-12-31T23:59:59.5"'],
  TIMESTAMPTZ: ['TIMESTAMPTZ', '"1900-01-01T00:00:00Z"', '"2299-12-31T23:59:59.999999Z"', '"2026-01-31T08:00:00.25Z"'],
  CHAR: ['CHAR(3)', '"a"', '"😀é "', '""'],
  VARCHAR: ['VARCHAR(3)', '""', '"1.0"', '","'],
  STRING: ['STRING', String.raw`"line\nnext \"x\" \\ \\N"`, String.raw`"\u0000\u0001\t\r"`, '"null"'],
  BINARY: ['BINARY', '"AP8="', '""', '"IlwKDQA="'],
  JSON: ['JSON', '{"q":[1,"z",null]}', '"te\\"xt"', '12345678901234567890123'],
  UUID: [
    'UUID',
    '"00112233-4455-6677-8899-aabbccddeeff"',
    '"ffffffff-ffff-ffff-ffff-ffffffffffff"',
    '"00000000-0000-0000-0000-000000000000"',
  ],
  ARRAY: ['ARRAY<ARRAY<DECIMAL(5,1)>>', '[[1.0,null,2.5],null,[]]', '[]', '[null]'],
  MAP: [
    'MAP<TIMESTAMPTZ, MAP<BIGINT, BINARY>>',
    '[{"key":"2026-01-31T08:00:00Z","value":[{"key":9007199254740993,"value":"AP8="}]}]',
    '[{"key":"2026-01-31T08:00:00.000001Z","value":null}]',
    '[]',
  ],
  STRUCT: [
    `STRUCT<x: INT, "y ""'z": ARRAY<STRUCT<j: JSON, f: DOUBLE>>>`,
    String.raw`{"x":null,"y \"'z":[{"j":{"a":[1]},"f":1.5},null]}`,
    String.raw`{"x":1,"y \"'z":null}`,
    String.raw`{"x":2,"y \"'z":[]}`,
  ],
};
const kinds = Object.keys(columns) as TypeKind[];
const nameOf = (kind: TypeKind): string => `of ${kind.toLowerCase()} é"`;
const sql = `SELECT n, ${kinds.map((kind) => `"${nameOf(kind).replaceAll('"', '""')}"`).join(', ')} FROM t ORDER BY n`;

async function filled(world: EngineWorld): Promise<void> {
  const types = Object.fromEntries(kinds.map((kind) => [nameOf(kind), columns[kind][0]]));
  const definition = await world.table('t', { n: 'INT', ...types });
  const rows = [1, 2, 3].map((n) => [n, ...kinds.map((kind) => parseJson(columns[kind][n] as string))]);
  const batch = rowReader(definition.columns).read([...rows, [4, ...kinds.map(() => null)]]);
  const ref = { catalog: world.catalog, database: world.database, table: 't' };
  await world.engine.insertRows(ref, batch, { signal: new AbortController().signal, definition });
}

describe('exported files', { skip: missingRing }, () => {
  if (missingRing !== false) return;
  let cluster: EngineWorld;
  let duckdb: EngineWorld;
  let reader: DuckDBConnection;
  before(async () => {
    cluster = await openEngine({}, newClusterEngine(1, 'shards'));
    duckdb = await openEngine();
    await filled(cluster);
    await filled(duckdb);
    reader = await (await DuckDBInstance.create(':memory:')).connect();
    await reader.run(`SET TimeZone = 'UTC'`);
  });
  after(async () => {
    reader?.closeSync();
    await cluster?.close();
    await duckdb?.close();
  });

  /** The one file that each engine exports: ours first. */
  async function exported(format: ExportFormat): Promise<readonly [string, string]> {
    const paths: string[] = [];
    for (const world of [cluster, duckdb]) {
      const { files, rows, rowCount, truncated } = await world.run(sql, { into: { format } });
      assert.deepEqual(
        { rows, rowCount, truncated },
        { rows: { kind: 'text', text: '' }, rowCount: 4, truncated: false },
      );
      paths.push(onlyFile(files));
    }
    return paths as unknown as readonly [string, string];
  }

  function onlyFile(files: ExportedFiles | undefined): string {
    const [entry, ...more] = files?.entries ?? [];
    assert.ok(files && entry && more.length === 0);
    const path = join(files.directory, entry.name);
    const bytes = readFileSync(path);
    const sha256 = createHash('sha256').update(bytes).digest('hex');
    assert.deepEqual(entry, { name: entry.name, bytes: bytes.length, rows: 4, sha256 });
    return path;
  }

  const query = async (text: string) => (await reader.runAndReadAll(text)).getRowsJson();
  const literal = (path: string): string => `'${path.replaceAll("'", "''")}'`;

  for (const compression of parquetCompressions)
    test(`Parquet, ${compression}`, async () => {
      const [ours, theirs] = await exported({ kind: 'parquet', compression });
      const described = await Promise.all(
        [ours, theirs].map((path) =>
          query(`SELECT column_name, column_type FROM (DESCRIBE FROM read_parquet(${literal(path)}))`),
        ),
      );
      // UUID and JSON are texts here.
      const asText = described[1]?.map(([name, type]) => [name, String(type).replace(/\b(?:UUID|JSON)\b/g, 'VARCHAR')]);
      assert.deepEqual(described[0], asText);
      assert.deepEqual(
        await query(`FROM read_parquet(${literal(ours)})`),
        await query(`FROM read_parquet(${literal(theirs)})`),
      );
      const codecs = await query(`SELECT DISTINCT compression FROM parquet_metadata(${literal(ours)})`);
      assert.deepEqual(codecs, await query(`SELECT DISTINCT compression FROM parquet_metadata(${literal(theirs)})`));
    });

  for (const layout of ['file', 'stream'] as const)
    for (const compression of arrowCompressions)
      test(`Arrow ${layout}, ${compression}`, async () => {
        const paths = await exported({ kind: 'arrow', layout, compression });
        const [ours, theirs] = paths.map((path) => arrow.tableFromIPC(readFileSync(path)));
        assert.deepEqual(ours?.schema.fields.map(String), theirs?.schema.fields.map(String));
        for (const [i, field] of (ours?.schema.fields ?? []).entries())
          assert.deepEqual(
            valuesOf(ours, i).map((value) => arrowText(value)),
            valuesOf(theirs, i).map((value) => arrowText(value)),
            field.name,
          );
      });

  const plainBytes = (path: string): Buffer => {
    const bytes = readFileSync(path);
    return path.endsWith('.gz') ? gunzipSync(bytes) : path.endsWith('.zst') ? zstdDecompressSync(bytes) : bytes;
  };

  for (const compression of textCompressions) {
    test(`CSV, ${compression}`, async () => {
      for (const [delimiter, header, nullText] of [
        [',', true, ''],
        [';', false, 'null'],
      ] as const) {
        const paths = await exported({ kind: 'csv', compression, delimiter, header, nullText });
        const [ours, theirs] = paths.map((path) => csvRecords(plainBytes(path).toString(), delimiter));
        assert.deepEqual(normalized(ours, header), normalized(theirs, header));
      }
    });

    test(`NDJSON, ${compression}`, async () => {
      const paths = await exported({ kind: 'ndjson', compression });
      const [ours, theirs] = paths.map((path) =>
        plainBytes(path)
          .toString()
          .trimEnd()
          .split('\n')
          .map((line) => parseJson(line)),
      );
      assert.deepEqual(ours, theirs);
      assert.equal(ours?.length, 4);
    });
  }
});

const valuesOf = (table: arrow.Table | undefined, column: number): unknown[] => [...(table?.getChildAt(column) ?? [])];

/** Every value, with its bits, as a text. */
function arrowText(value: unknown): string {
  if (value instanceof Uint32Array || value instanceof Uint8Array) return `${value.constructor.name} ${[...value]}`;
  if (value instanceof arrow.Vector) return `[${[...value].map(arrowText)}]`;
  if (value instanceof arrow.MapRow) return `map ${[...value].map(([k, v]) => `${arrowText(k)}=${arrowText(v)}`)}`;
  if (value instanceof arrow.StructRow) return `struct ${[...value].map(([k, v]) => `${String(k)}=${arrowText(v)}`)}`;
  return Object.is(value, -0) ? '-0' : `${typeof value} ${String(value)}`;
}

/** Quoted fields keep their quotes: only they are never null. */
function csvRecords(text: string, delimiter: string): string[][] {
  const records: string[][] = [];
  let record: string[] = [];
  for (const [, field = '', end] of text.matchAll(
    new RegExp(`("(?:[^"]|"")*"|[^"\\n\\r${delimiter}]*)(${delimiter}|\\n)`, 'g'),
  )) {
    record.push(field);
    if (end !== '\n') continue;
    records.push(record);
    record = [];
  }
  assert.deepEqual(record, []);
  return records;
}

/** Texts and nulls; nested values and JSON as values, because only their spaces and the order of their members can differ. */
function normalized(records: string[][] | undefined, header: boolean): unknown[][] | undefined {
  return records?.map((record, r) =>
    record.map((field, i) => {
      if (!field.startsWith('"')) return { plain: field };
      const text = field.slice(1, -1).replaceAll('""', '"');
      const isNested = (!header || r > 0) && ['JSON', 'ARRAY', 'MAP', 'STRUCT'].includes(kinds[i - 1] ?? '');
      return isNested ? parseJson(text) : text;
    }),
  );
}
