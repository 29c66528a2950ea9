// Values of the engine's vectors in Arrow, compared with the same values as JSON from the engine: every width, texts of every
// length, and values in lists, arrays, structs and maps, with nulls at each level; many batches of rows.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { DuckDBInstance } from '@duckdb/node-api';
import { type Data, type Table, tableFromIPC } from 'apache-arrow';
import { writeArrow } from '../../src/engines/duckdb/export/arrow_files.ts';
import { arrowable } from '../../src/engines/duckdb/export/arrow_types.ts';

let duck: Awaited<ReturnType<DuckDBInstance['connect']>>;
let directory: string;
before(async () => {
  duck = await (await DuckDBInstance.create(':memory:')).connect();
  directory = mkdtempSync(join(tmpdir(), 'tabularium-arrow-'));
});
after(() => rmSync(directory, { recursive: true }));

/** About a third of them are null; `seed` determines which ones. */
const nullable = (value: string, seed: number): string => `CASE WHEN hash(i, ${seed}) % 3 > 0 THEN ${value} END`;
const text = (seed: number): string => nullable(`left('é quite long text ' || i, (hash(i, ${seed}) % 26)::INT)`, seed);
const columns: Readonly<Record<string, string>> = {
  id: 'i',
  tiny: nullable('(i % 100)::TINYINT', 1),
  unsigned: nullable('(i * 300)::UINTEGER', 2),
  single: nullable('(i / 2)::FLOAT', 3),
  flag: nullable('hash(i, 5) % 2 = 0', 4),
  note: text(6),
  bytes: nullable(`encode('bytes ' || i)`, 7),
  texts: nullable(`[${text(8)}, ${text(9)}][1:(i % 3)::INT]`, 10),
  pair: nullable(`{'a': ${text(11)}, 'b': ${nullable('i', 12)}, 'c': ${nullable('[i, NULL]', 13)}}`, 14),
  numbers: `(${nullable('[i, NULL, i + 2]', 15)})::BIGINT[3]`,
  map: nullable(`MAP {'k' || i: ${text(16)}, 'other': NULL}`, 17),
  deep: nullable(`[[{'x': ${nullable('i::INT', 18)}}], NULL, []]`, 19),
  times: nullable(`[TIME '10:00:00', NULL]`, 20),
  kinds: nullable(`{'k': 'b'::ENUM('a', 'b'), 'big name "x"': TIME '10:00:00'}`, 21),
  either: nullable(`union_value(n := i)`, 22),
  // Far from each other in memory, of all sizes, and many items with the same address.
  distant: `CASE WHEN i % 40 = 0 THEN repeat('ü' || i, (hash(i, 23) % 1500)::INT) WHEN i % 3 = 0 THEN 'between ' || i END`,
  same: `['a text of two rows or more', 'another, of every second row'][1 + i % 2]`,
};
/** 3,000 rows are filtered out, so that vectors differ from those of the table. */
const rowsOf = (select: string): string =>
  `SELECT ${select} FROM range(23_000) AS r(i) WHERE i NOT BETWEEN 500 AND 3499`;

async function rowsAsArrow(sql: string, names: readonly string[]): Promise<Table> {
  const prepared = await duck.prepare(sql);
  const fileDirectory = mkdtempSync(join(directory, 'files-'));
  const target = {
    directory: fileDirectory,
    layout: 'file',
    compression: 'none',
    fileBytesMax: undefined,
    requireCurrent: () => undefined,
  } as const;
  const [file] = await writeArrow(prepared, names, target);
  return tableFromIPC(readFileSync(file?.path as string));
}

/** As in JSON: integers as strings, maps as objects. */
const plain = (value: unknown): unknown =>
  JSON.parse(
    JSON.stringify(value, (_, fieldValue) => {
      if (typeof fieldValue === 'bigint') return String(fieldValue);
      if (fieldValue instanceof Uint8Array) return Buffer.from(fieldValue).toString();
      return fieldValue;
    }) ?? 'null',
  );

/** 64-bit numbers of Arrow are strings in `plain`. */
const comparable = (value: unknown): unknown =>
  JSON.parse(JSON.stringify(value), (_, fieldValue) =>
    typeof fieldValue === 'number' ? String(fieldValue) : fieldValue,
  );

for (const [name, expression] of Object.entries(columns)) {
  test(`${name}: the values in Arrow are those of the engine`, async () => {
    const [[type]] = (
      await duck.runAndReadAll(`SELECT typeof(x) FROM (${rowsOf(`${expression} AS x`)}) LIMIT 1`)
    ).getRows() as [[string]];
    const castTo = arrowable(type);
    const table = await rowsAsArrow(rowsOf(`(${expression})::${castTo} AS x`), ['x']);
    const json = name === 'bytes' ? `to_json(decode(${expression}))` : `to_json((${expression})::${castTo})`;
    const expected = (await duck.runAndReadAll(rowsOf(`${json}::VARCHAR`))).getColumns()[0] as (string | null)[];
    const vector = table.getChild('x');
    assert.equal(vector?.length, 20_000);
    assert.ok(table.batches.length > 1);
    for (const [row, value] of [...(vector ?? [])].entries()) {
      const want = expected[row];
      assert.deepEqual(comparable(plain(value)), comparable(JSON.parse(want ?? 'null')), `row ${row}`);
    }
  });
}

/** Every part of a column that has its own values. */
const leafVectors = (data: Data): Data[] => (data.children.length === 0 ? [data] : data.children.flatMap(leafVectors));

test('bytes under a null are zero', async () => {
  const names = ['tiny', 'unsigned', 'single', 'pair', 'deep', 'numbers'];
  const table = await rowsAsArrow(rowsOf(names.map((name) => columns[name]).join(', ')), names);
  let nulls = 0;
  for (const name of names)
    for (const leaf of (table.getChild(name)?.data ?? []).flatMap(leafVectors)) {
      if (leaf.valueOffsets) continue;
      for (let i = 0; i < leaf.length; i++) {
        if (leaf.getValid(i)) continue;
        nulls++;
        assert.equal(Number(leaf.values[leaf.offset + i]), 0, `${name} ${i}`);
      }
    }
  assert.ok(nulls > 10_000);
});

test('the size of a batch follows from the size of its rows', async () => {
  const large = await rowsAsArrow(`SELECT repeat('x', 100_000) FROM range(3000)`, ['x']);
  assert.ok(large.batches.length >= 2);
  const small = await rowsAsArrow('SELECT i FROM range(1_000_000) AS r(i)', ['x']);
  assert.ok(small.batches.length < 30, `${small.batches.length} batches`);
  assert.equal(small.numRows, 1_000_000);
});
