// Backups of every logical type in every nesting: what a snapshot writes, a restore reads as the same values, at the limits of each type.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { after } from 'node:test';
import type { ColumnDefinition } from '../../../src/model/records.ts';
import { jsonForms, parseType } from '../../../src/model/types.ts';
import { rowReader } from '../../../src/query/rows/row_validation.ts';
import { parseJson } from '../../../src/standard/json/parse_json.ts';
import { engineOf } from '../../engines/engine_under_test.ts';
import { plain } from '../../table_definition.ts';
import { openEngine } from './engine_world.ts';

const { engine: testedEngine, testOf } = engineOf(import.meta.url);
const world = await openEngine({}, testedEngine);
after(() => world.close());
const { engine, catalog, database } = world;
const { signal } = new AbortController();

const texts = [
  '""',
  String.raw`"\u0000"`,
  String.raw`"a\n\r\tb"`,
  String.raw`"'\"\\N;"`,
  '"NULL"',
  '"null"',
  '"ä😀,[]{}()"',
];
/** JSON texts of values at the limits of each type, and of texts that have a meaning within the texts of others. */
const values: Readonly<Record<string, readonly string[]>> = {
  BOOLEAN: ['true', 'false'],
  TINYINT: ['-128', '127'],
  SMALLINT: ['-32768', '32767'],
  INT: ['-2147483648', '2147483647'],
  BIGINT: ['-9223372036854775808', '9223372036854775807'],
  LARGEINT: ['-170141183460469231731687303715884105728', '170141183460469231731687303715884105727'],
  FLOAT: ['"NaN"', '"Infinity"', '"-Infinity"', '-0.0', '1e-45', '3.4028234663852886e38', '-3.4028235e38', '0.1'],
  DOUBLE: ['"NaN"', '"Infinity"', '"-Infinity"', '-0.0', '5e-324', '1.7976931348623157e308', '0.1'],
  'DECIMAL(4,2)': ['-99.99', '99.99', '0.01'],
  'DECIMAL(18,3)': ['-999999999999999.999', '999999999999999.999', '0'],
  'DECIMAL(38,0)': [`-${'9'.repeat(38)}`, '9'.repeat(38)],
  'DECIMAL(38,38)': [`-0.${'9'.repeat(38)}`, `0.${'0'.repeat(37)}1`],
  DATE: ['"1900-01-01"', '"2299-12-31"', '"1969-12-31"'],
  DATETIME: ['"1900-01-01T00:00:00"', '"2299-12-31T23:59:59.999999"', '"1969-12-31T23:59:59.999999"'],
  TIMESTAMPTZ: ['"1900-01-01T00:00:00Z"', '"2299-12-31T23:59:59.999999Z"'],
  'CHAR(12)': texts,
  'VARCHAR(12)': texts,
  STRING: texts,
  BINARY: ['""', '"AP8="', '"IlwKDQA="', '"J1xOLF0p"'],
  JSON: [...texts, '{"a":1.0,"b":[null,"\'\\n"]}', '12345678901234567890123', 'true', '[]'],
  UUID: ['"00000000-0000-0000-0000-000000000000"', '"ffffffff-ffff-ffff-ffff-ffffffffffff"'],
};
const nestings: Readonly<Record<string, readonly [(type: string) => string, (json: string) => string]>> = {
  plain: [(t) => t, (v) => v],
  ARRAY: [(t) => `ARRAY<${t}>`, (v) => `[${v},null,${v}]`],
  'MAP value': [(t) => `MAP<STRING, ${t}>`, (v) => `[{"key":"k'\\n","value":${v}},{"key":"","value":null}]`],
  'MAP key': [(t) => `MAP<${t}, INT>`, (v) => `[{"key":${v},"value":1}]`],
  STRUCT: [(t) => `STRUCT<"f ""'": ${t}, g: ${t}>`, (v) => `{"f \\"'":${v},"g":null}`],
  'MAP of ARRAY': [(t) => `MAP<INT, ARRAY<${t}>>`, (v) => `[{"key":1,"value":[${v},null]},{"key":2,"value":null}]`],
  'STRUCT of ARRAY and MAP': [
    (t) => `STRUCT<a: ARRAY<ARRAY<${t}>>, m: MAP<${t}, STRUCT<x: ${t}>>>`,
    (v) => `{"a":[[${v}],null,[]],"m":[{"key":${v},"value":{"x":${v}}}]}`,
  ],
};

const allColumns = (typeOf: (type: string) => string): ColumnDefinition[] => [
  { name: 'n', type: parseType('INT'), nullable: false },
  ...[true, false].flatMap((nullable) =>
    Object.keys(values).map((type, i) => ({ name: `c${i} ${nullable}`, type: parseType(typeOf(type)), nullable })),
  ),
];
const longest = Math.max(...Object.values(values).map(({ length }) => length));

/** A table for each nesting, with a column for each type, that can be null and that cannot, and a row for each value. */
async function fill(name: string, columns: readonly ColumnDefinition[], jsonOf: (json: string) => string) {
  const definition = { columns, ...plain };
  const table = { catalog, database, table: name };
  await world.change({ kind: 'createTable', table, definition });
  const row = (n: number) => {
    const of = Object.values(values).map((all) => jsonOf(all[n % all.length] as string));
    return [n, ...(n < longest ? of : of.map(() => 'null')), ...of];
  };
  const rows = Array.from({ length: longest + 1 }, (_, n) => `[${row(n).join()}]`);
  const batch = rowReader(columns).read(parseJson(`[${rows.join()}]`) as unknown[]);
  await engine.insertRows(table, batch, { signal, definition });
}

testOf('backups')('values of all types in all nestings are the same in a backup', async () => {
  const kinds = new Set(Object.keys(values).map((type) => parseType(type).kind));
  assert.deepEqual([...kinds, 'ARRAY', 'MAP', 'STRUCT'].sort(), Object.keys(jsonForms).sort());
  for (const [nesting, [typeOf, jsonOf]] of Object.entries(nestings)) await fill(nesting, allColumns(typeOf), jsonOf);
  const snapshot = await engine.snapshot(catalog, { signal });
  try {
    for (const [nesting, [typeOf]] of Object.entries(nestings)) {
      const columns = allColumns(typeOf);
      const restored = { catalog, database, table: `${nesting} restored` };
      await world.change({ kind: 'createTable', table: restored, definition: { columns, ...plain } });
      const from = { database, table: nesting, columns };
      let rowsBefore = 0;
      for (const { part, rows } of await snapshot.parts(from, signal)) {
        const path = join(world.spool, randomUUID());
        assert.equal(await snapshot.write(from, part, path, signal), rows);
        await engine.restorePart({ table: restored, columns, path, rowsBefore, rows, step: randomUUID() }, { signal });
        rowsBefore += rows;
      }
      const read = async (table: string) => (await world.run(`SELECT * FROM "${table}" ORDER BY n`)).rows;
      const before = await read(nesting);
      assert.ok(before.kind === 'text' && before.text.split(',\n').length === longest + 1);
      assert.deepEqual(await read(restored.table), before);
    }
  } finally {
    await snapshot.close();
  }
});
