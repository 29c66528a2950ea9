// Values of all types are stored exactly, at their limits and nested, and a statement cannot store a value of another type.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import type { TypeKind } from '../../../src/model/types.ts';
import { rowReader } from '../../../src/query/rows/row_validation.ts';
import { parseJson } from '../../../src/standard/json/parse_json.ts';
import { failureOf, openEngine } from '../../conformance/engine/engine_world.ts';
import { newSqliteEngine } from './sqlite.ts';

const world = await openEngine({}, newSqliteEngine());
after(() => world.close());

/** By type: the JSON texts of values, as they are inserted and as they are read. */
const values: Readonly<Record<TypeKind, readonly [type: string, ...values: (string | readonly [string, string])[]]>> = {
  BOOLEAN: ['BOOLEAN', 'true', 'false'],
  TINYINT: ['TINYINT', '-128', '127'],
  SMALLINT: ['SMALLINT', '-32768', '32767'],
  INT: ['INT', '-2147483648', '2147483647'],
  BIGINT: ['BIGINT', '-9223372036854775808', '9223372036854775807'],
  LARGEINT: [
    'LARGEINT',
    '-170141183460469231731687303715884105728',
    '170141183460469231731687303715884105727',
    '9007199254740993',
  ],
  FLOAT: ['FLOAT', '0.1', '"NaN"', '"-Infinity"', '-0.0', ['3.4028234663852886e+38', '3.4028235e+38']],
  DOUBLE: ['DOUBLE', '0.1', '"NaN"', '"Infinity"', '-0.0', '5e-324', '1.7976931348623157e+308'],
  DECIMAL: ['DECIMAL(38,2)', '-999999999999999999999999999999999999.99', ['0.1', '0.10'], ['7', '7.00']],
  DATE: ['DATE', '"0001-01-01"', '"9999-12-31"'],
  DATETIME: ['DATETIME', '"2026-01-31T10:00:00.123456"', ['"2026-01-31 10:00:00.500000"', '"2026-01-31T10:00:00.5"']],
  TIMESTAMPTZ: ['TIMESTAMPTZ', ['"2026-01-31T10:00:00.25+02:00"', '"2026-01-31T08:00:00.25Z"']],
  CHAR: ['CHAR(3)', '"a"', '"😀é "'],
  VARCHAR: ['VARCHAR(3)', '""', '"1.0"'],
  STRING: ['STRING', '"1"', '"line\\nnext \\"x\\""', '"\\u0000"'],
  BINARY: ['BINARY', '"AP8="', '""'],
  JSON: ['JSON', '{"q":[1,"z",null]}', '"text"', '12345678901234567890123'],
  UUID: ['UUID', ['"00112233-4455-6677-8899-AABBCCDDEEFF"', '"00112233-4455-6677-8899-aabbccddeeff"']],
  ARRAY: ['ARRAY<DECIMAL(5,1)>', ['[1,null,2.5]', '[1.0,null,2.5]'], '[]'],
  MAP: ['MAP<STRING, BIGINT>', '[{"key":"a","value":9223372036854775807}]'],
  STRUCT: ['STRUCT<x: INT, y: ARRAY<STRING>>', ['{"y":["é"]}', '{"x":null,"y":["é"]}']],
};

for (const [kind, [type, ...pairs]] of Object.entries(values))
  test(`values of ${kind}`, async () => {
    const table = `of_${kind}`;
    const definition = await world.table(table, { n: 'INT', v: type });
    const inserted = pairs.map((pair, n) => [n, parseJson(typeof pair === 'string' ? pair : pair[0])]);
    const batch = rowReader(definition.columns).read([...inserted, [pairs.length, null]]);
    const ref = { catalog: world.catalog, database: world.database, table };
    await world.engine.insertRows(ref, batch, { signal: new AbortController().signal, definition });
    const { rows } = await world.run(`SELECT v FROM ${table} ORDER BY n`);
    const expected = [...pairs.map((pair) => (typeof pair === 'string' ? pair : pair[1])), 'null'];
    assert.deepEqual(rows, { kind: 'text', text: expected.map((text) => `[${text}]`).join(',\n') });
  });

test('64-bit and wider numbers are strings on request, also within other values', async () => {
  const { rows } = await world.run('SELECT v FROM of_MAP WHERE v IS NOT NULL', { numbers: 'string' });
  assert.deepEqual(rows, { kind: 'text', text: '[[{"key":"a","value":"9223372036854775807"}]]' });
});

test('a statement that stores a value of another type is refused', async () => {
  for (const [table, value] of [
    ['of_INT', `'x'`],
    ['of_TINYINT', '128'],
    ['of_DATE', `'2026-02-30'`],
    ['of_VARCHAR', `'abcd'`],
    ['of_UUID', `'x'`],
    ['of_ARRAY', `'{}'`],
    ['of_BOOLEAN', '2'],
  ] as const)
    assert.equal(
      (await failureOf(world.run(`INSERT INTO ${table} (n, v) VALUES (9, ${value})`))).code,
      'CONSTRAINT_VIOLATED',
      table,
    );
});
