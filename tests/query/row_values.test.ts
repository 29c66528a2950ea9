// Which rows are accepted and refused, type by type; the violations; and what is passed to the engine.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { RowsBatch } from '../../src/engines/port/rows.ts';
import type { ColumnDefinition } from '../../src/model/records.ts';
import { parseType } from '../../src/model/types.ts';
import { formatDecimal, parseDecimal } from '../../src/model/values/decimal_text.ts';
import { rowReader } from '../../src/query/rows/row_validation.ts';
import { Failure, type Violation } from '../../src/standard/failure.ts';
import { parseJson } from '../../src/standard/json/parse_json.ts';

function column(name: string, type: string, options: Partial<ColumnDefinition> = {}): ColumnDefinition {
  return { name, type: parseType(type), nullable: true, ...options };
}

function violationsOf(work: () => unknown): { violations: Violation[]; violationCount?: number } {
  try {
    work();
  } catch (error) {
    assert.ok(error instanceof Failure, String(error));
    assert.equal(error.code, 'ROWS_INVALID');
    return error.result as unknown as { violations: Violation[]; violationCount?: number };
  }
  throw new assert.AssertionError({ message: 'the rows were taken' });
}

/** One value, as JSON text, in one column; the value passed on, as JSON text. */
function rowText(type: string, value: string): string {
  const batch = rowReader([column('c', type)]).read(parseJson(`[[${value}]]`) as unknown[]);
  return batch.json.slice(2, -2);
}

const literalCases: Record<string, readonly (readonly [string, string])[]> = {
  BOOLEAN: [['true', 'true'], ['false', 'false'], ['null', 'null']],
  TINYINT: [['-128', '-128'], ['127', '127'], ['1.0', '1'], ['"5"', '"5"'], ['1e2', '100']],
  INT: [['-2147483648', '-2147483648'], ['2147483647', '2147483647']],
  BIGINT: [['9223372036854775807', '"9223372036854775807"'], ['-9223372036854775808', '"-9223372036854775808"'], ['9007199254740992', '"9007199254740992"'], ['"42"', '"42"']],
  LARGEINT: [['170141183460469231731687303715884105727', '"170141183460469231731687303715884105727"'], ['-170141183460469231731687303715884105728', '"-170141183460469231731687303715884105728"'], ['1e30', '"1000000000000000000000000000000"']],
  FLOAT: [['0.1', '0.1'], ['"NaN"', '"NaN"'], ['3.4028234663852886e38', '3.4028234663852886e+38'], ['3.4028235e38', '3.4028234663852886e+38'], ['-3.4028235e38', '-3.4028234663852886e+38'], ['-0', '"-0.0"']],
  DOUBLE: [['1e308', '1e+308'], ['"-Infinity"', '"-Infinity"'], ['0.12345678901234567890', '0.12345678901234568']],
  'DECIMAL(5,2)': [['999.99', '"999.99"'], ['-1.5', '"-1.5"'], ['1.500', '"1.5"'], ['12', '12'], ['"1.25"', '"1.25"'], ['1e-2', '"0.01"'], ['-0.00', '0'], ['0.5', '"0.5"'], ['-0.05', '"-0.05"']],
  'DECIMAL(38,10)': [['1234567890123456789012345678.0123456789', '"1234567890123456789012345678.0123456789"'], ['1e-10', '"0.0000000001"'], ['1e27', '"1000000000000000000000000000"'], ['0.00000015', '"0.00000015"'], ['1E-7', '"0.0000001"']],
  DATE: [['"2024-02-29"', '"2024-02-29"'], ['"0001-01-01"', '"0001-01-01"'], ['"9999-12-31"', '"9999-12-31"']],
  DATETIME: [['"2026-01-31T10:00:00.123456"', '"2026-01-31T10:00:00.123456"'], ['"2026-01-31T23:59:59"', '"2026-01-31T23:59:59"'], ['"2026-01-31T10:00:00.123456000"', '"2026-01-31T10:00:00.123456000"']],
  TIMESTAMPTZ: [['"2026-01-31T10:00:00Z"', '"2026-01-31T10:00:00Z"'], ['"2026-01-31T10:00:00.5+02:00"', '"2026-01-31T10:00:00.5+02:00"']],
  'VARCHAR(3)': [['"abc"', '"abc"'], ['"😀😀😀"', '"😀😀😀"'], ['""', '""']],
  'CHAR(2)': [['"ab"', '"ab"'], ['"a"', '"a"']],
  STRING: [['"a\\u0000\\n\\"b"', '"a\\u0000\\n\\"b"']],
  BINARY: [['""', '""'], ['"AP8="', '"AP8="'], ['"YQ=="', '"YQ=="']],
  JSON: [['{"a": 1.10, "b": [null, 123456789012345678901234567890]}', '"{\\"a\\":1.1,\\"b\\":[null,123456789012345678901234567890]}"'], ['"x"', '"\\"x\\""'], ['"\\\\ud800"', '"\\"\\\\\\\\ud800\\""']],
  UUID: [['"F81D4FAE-7dec-11d0-a765-00a0c91e6bf6"', '"F81D4FAE-7dec-11d0-a765-00a0c91e6bf6"']],
  'ARRAY<BIGINT>': [['[1, null, 9223372036854775807]', '[1,null,"9223372036854775807"]'], ['[]', '[]']],
  'MAP<STRING, ARRAY<INT>>': [['[{"key": "a", "value": [1]}, {"key": "b"}]', '[{"key":"a","value":[1]},{"key":"b","value":null}]']],
  'STRUCT<a: INT, "__proto__": STRING>': [['{"__proto__": "x"}', '{"a":null,"__proto__":"x"}'], ['{}', '{"a":null,"__proto__":null}']],
}; // biome-ignore format: one line for each type

test('values of every type are accepted, and passed on exactly', () => {
  for (const [type, cases] of Object.entries(literalCases)) {
    for (const [value, expected] of cases) assert.equal(rowText(type, value), expected, `${type} ${value}`);
  }
});

const refused: Record<string, readonly (readonly [string, string])[]> = {
  BOOLEAN: [['1', 'type'], ['"true"', 'type'], ['[]', 'type']],
  TINYINT: [['128', 'range'], ['-129', 'range'], ['1.5', 'type'], ['"x"', 'type'], ['true', 'type'], ['"1e2"', 'type'], ['1e400', 'range'], ['1e-400', 'type']],
  BIGINT: [['9223372036854775808', 'range'], ['1e19', 'range'], ['9007199254740993.5', 'type'], ['""', 'type']],
  LARGEINT: [['170141183460469231731687303715884105728', 'range'], ['1e999999999', 'range']],
  FLOAT: [['1e39', 'range'], ['3.4028236e38', 'range'], ['"nan"', 'type'], ['"1"', 'type'], ['null0', '']],
  DOUBLE: [['1e400', 'range'], ['-1e309', 'range'], ['{}', 'type']],
  'DECIMAL(5,2)': [['1000', 'range'], ['1.234', 'scale'], ['"1.234"', 'scale'], ['"abc"', 'type'], ['"NaN"', 'type'], ['1e5', 'range'], ['-1000.5', 'range'], ['999.999', 'scale'], ['1e-3', 'scale'], ['1e-999999', 'range']],
  DATE: [['"2026-02-29"', 'format'], ['"2026-13-01"', 'format'], ['"2026-1-1"', 'format'], ['"0000-01-01"', 'format'], ['"2026-01-31T00:00:00"', 'format'], ['20260131', 'type'], ['"infinity"', 'format'], ['"1900-02-29"', 'format']],
  DATETIME: [['"2026-01-31T10:00:00Z"', 'format'], ['"2026-01-31T24:00:00"', 'format'], ['"2026-01-31T10:60:00"', 'format'], ['"2026-01-31"', 'format'], ['"2026-01-31T10:00:00.1234567"', 'format'], ['"2026-01-31x10:00:00"', 'format'], ['"2026-01-31T10:00:00.1x"', 'format'], ['"2026-01-31T10:00:00\\n"', 'format'], ['1', 'type']],
  TIMESTAMPTZ: [['"2026-01-31T10:00:00"', 'format'], ['"2026-01-31T10:00:00+2"', 'format'], ['"2026-02-30T10:00:00Z"', 'format']],
  'VARCHAR(3)': [['"abcd"', 'length'], ['"😀😀😀😀"', 'length'], ['1', 'type'], ['"\\ud800"', 'unicode']],
  STRING: [['1', 'type'], ['"\\udc00x"', 'unicode']],
  BINARY: [['"AP8"', 'format'], ['"A==="', 'format'], ['"A-_="', 'format'], ['"AP 8="', 'format'], ['1', 'type']],
  JSON: [['{"a": "\\ud800"}', 'unicode'], ['{"\\ud800": 1}', 'unicode']],
  UUID: [['"f81d4fae7dec11d0a76500a0c91e6bf6"', 'type'], ['1', 'type']],
  'ARRAY<INT>': [['[1, "x"]', 'type'], ['{}', 'type'], ['"[1]"', 'type']],
  'MAP<INT, INT>': [['{"1": 2}', 'type'], ['[{"key": null, "value": 1}]', 'required'], ['[{"key": 1, "value": 1}, {"key": 1, "value": 2}]', 'unique'], ['[{"key": 1, "v": 1}]', 'unknownField'], ['[1]', 'type']],
  'STRUCT<a: INT>': [['{"b": 1}', 'unknownField'], ['[1]', 'type'], ['{"a": 1.5}', 'type']],
}; // biome-ignore format: one line for each type

test('invalid values of every type are refused with the name of the rule', () => {
  for (const [type, cases] of Object.entries(refused)) {
    for (const [value, rule] of cases) {
      if (rule === '') continue;
      const { violations } = violationsOf(() => rowText(type, value));
      assert.equal(violations.length, 1, `${type} ${value}`);
      assert.equal(violations[0]!.rule, rule, `${type} ${value}: ${violations[0]!.message}`);
    }
  }
});

const columns = [
  column('id', 'INT', { nullable: false }),
  column('a/b~', 'STRUCT<x: ARRAY<INT>>'),
  column('d', 'STRING', { nullable: false, defaultValue: `'d'` }),
];

test('violations point to the field, the nested value or the position', () => {
  const rows = [
    { id: 1 },
    { id: null, 'a/b~': { x: [1, 'two'] }, extra: 1, 'ex/tra': 2 },
    [1, null],
    [1, null, null],
    'row',
    null,
    { 'a/b~': null },
    [1, { x: 1 }, 'd'],
  ];
  const { violations, violationCount } = violationsOf(() => rowReader(columns).read(rows));
  assert.equal(violationCount, undefined);
  assert.deepEqual(
    violations.map(({ pointer, rule }) => `${pointer} ${rule}`),
    [
      '/rows/1/id notNull',
      '/rows/1/a~1b~0/x/1 type',
      '/rows/1/extra unknownField',
      '/rows/1/ex~1tra unknownField',
      '/rows/2 length',
      '/rows/3/2 notNull',
      '/rows/4 type',
      '/rows/5 type',
      '/rows/6/id required',
      '/rows/7/1/x type',
    ],
  );
  assert.match(violations.at(-1)!.message, /^column "a\/b~": /);
});

test('at most 100 violations are listed, and the others are counted', () => {
  const result = violationsOf(() => rowReader(columns).read(new Array(5000).fill({})));
  assert.equal(result.violations.length, 100);
  assert.equal(result.violationCount, 5000);
});

test('a column that no row has is omitted; for one that some rows have the others are listed', () => {
  const names = (batch: RowsBatch): string[] => batch.columns.map((c) => c.name);
  const all = rowReader(columns).read([{ id: 1, 'a/b~': null, d: 'x' }]);
  assert.equal(all.columns, columns);
  assert.equal(all.omitted, undefined);
  const emptyResult = rowReader(columns).read([{ id: 1 }, { id: 2 }]);
  assert.deepEqual(names(emptyResult), ['id']);
  assert.equal(emptyResult.json, '[[1],[2]]');
  assert.equal(emptyResult.omitted, undefined);
  const partialRows = rowReader(columns).read([{ id: 1, d: 'x' }, { id: 2 }, [3, null, 'y']]);
  assert.deepEqual(names(partialRows), ['id', 'a/b~', 'd']);
  assert.deepEqual(partialRows.omitted, [{ column: 2, rows: [1] }]);
  const empty = rowReader([column('n', 'INT', { defaultValue: '1' }), column('m', 'INT')]).read([{}, {}]);
  assert.deepEqual(names(empty), ['n']);
  assert.equal(empty.json, '[[null],[null]]');
  assert.deepEqual(empty.omitted, [{ column: 0, rows: [0, 1] }]);
  assert.deepEqual(rowReader(columns).read([]), { columns, json: '[]', rowCount: 0 });
});

test('names of Object.prototype are ordinary names', () => {
  const odd = ['__proto__', 'constructor', 'toString'].map((name) => column(name, 'INT'));
  const reader = rowReader(odd);
  assert.equal(reader.read(parseJson('[{}]') as unknown[]).json, '[[null]]');
  assert.equal(reader.read(parseJson('[{"__proto__":1,"constructor":2,"toString":3}]') as unknown[]).json, '[[1,2,3]]');
  const { violations } = violationsOf(() =>
    rowReader([column('a', 'INT')]).read(parseJson('[{"__proto__":1}]') as unknown[]),
  );
  assert.equal(violations[0]!.pointer, '/rows/0/__proto__');
});

test('exact numbers: exponents are evaluated without a double', () => {
  const cases: Record<string, string> = { '1e3': '1000', '-1.50e1': '-15', '0.001E-2': '0.00001', '-0e9': '0', '12.30': '12.3', '00.1': '0.1', '0e999999': '0' };
  for (const [text, plain] of Object.entries(cases)) assert.equal(formatDecimal(parseDecimal(text)!), plain, text);
  for (const text of ['', '-', '1e', '.5', '1.', '0x1', '1e999999', 'NaN', ' 1']) assert.equal(parseDecimal(text), undefined, text);
}); // biome-ignore format: a table

test('every safe integer and every double in range is preserved', () => {
  fc.assert(
    fc.property(fc.bigInt({ min: -(2n ** 127n), max: 2n ** 127n - 1n }), (n) => {
      assert.equal(rowText('LARGEINT', String(n)).replaceAll('"', ''), String(n));
    }),
  );
  fc.assert(
    fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (n) => {
      const text = JSON.stringify(n);
      assert.equal(Number(JSON.parse(rowText('DOUBLE', text))), Number(text));
    }),
  );
});
