// The parser and the canonical text of types; which changes of type are lossless; the types' names in DuckDB.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { duckdbType, logicalTypeOf } from '../../src/engines/duckdb/types/type_mapping.ts';
import {
  formatType,
  jsonForms,
  type LogicalType,
  parseType,
  type ScalarKind,
  TypeSyntaxError,
  typeDepthMax,
  widens,
} from '../../src/model/types.ts';

test('aliases, cases and spaces are converted to the canonical text', () => {
  const cases: Record<string, string> = {
    int: 'INT',
    ' Integer ': 'INT',
    INT8: 'BIGINT',
    long: 'BIGINT',
    hugeint: 'LARGEINT',
    bool: 'BOOLEAN',
    real: 'FLOAT',
    'double   precision': 'DOUBLE',
    DOUBLE: 'DOUBLE',
    'decimal(18, 2)': 'DECIMAL(18,2)',
    'NUMERIC(5)': 'DECIMAL(5,0)',
    decimal: 'DECIMAL(18,3)',
    timestamp: 'DATETIME',
    'timestamp with time zone': 'TIMESTAMPTZ',
    'timestamp without time zone': 'DATETIME',
    text: 'STRING',
    varchar: 'STRING',
    'varchar(10)': 'VARCHAR(10)',
    'character varying ( 10 )': 'VARCHAR(10)',
    char: 'CHAR(1)',
    'CHARACTER(3)': 'CHAR(3)',
    bytea: 'BINARY',
    jsonb: 'JSON',
    'int[]': 'ARRAY<INT>',
    'int [ ] []': 'ARRAY<ARRAY<INT>>',
    'list(text)': 'ARRAY<STRING>',
    'map<string,array<int>>': 'MAP<STRING, ARRAY<INT>>',
    'struct(a int, "b c" text)': 'STRUCT<a: INT, "b c": STRING>',
    'struct<`x``: int': '',
    'STRUCT<a:STRUCT<b:INT>[]>': 'STRUCT<a: ARRAY<STRUCT<b: INT>>>',
    'struct<"a ""q""": int, é: int, `b``: text>': '',
    'struct<"a ""q""": int, é: int, `b""`: text>': 'STRUCT<"a ""q""": INT, "é": INT, "b""""": STRING>',
    'map(char(2), decimal(3,3))': 'MAP<CHAR(2), DECIMAL(3,3)>',
  };
  for (const [text, canonical] of Object.entries(cases)) {
    if (canonical === '') assert.throws(() => parseType(text), TypeSyntaxError, text);
    else assert.equal(formatType(parseType(text)), canonical, text);
  }
});

test('an invalid type is refused with a message', () => {
  const invalidTypes = [
    '', ' ', 'nosuch', 'INT INT', 'INT(5)', 'INT[', 'INT]', 'INT[3]', 'DECIMAL(0)', 'DECIMAL(39,2)', 'DECIMAL(5,6)', 'DECIMAL()', 'DECIMAL(5,2,1)', 'DECIMAL(-1)', 'DECIMAL(1e3)',
    'VARCHAR(0)', 'VARCHAR(1048577)', 'VARCHAR(99999999999999)', 'CHAR(x)', 'ARRAY', 'ARRAY<>', 'ARRAY<INT', 'ARRAY<INT)', 'ARRAY<INT, INT>', 'MAP<INT>', 'MAP<INT, INT, INT>', 'STRUCT<>',
    'STRUCT<a>', 'STRUCT<a: INT, A: INT>', 'STRUCT<1: INT>', 'STRUCT<"": INT>', 'STRUCT<a: INT,>', 'STRUCT<"a\u0001": INT>', 'STRUCT<"\ud800": INT>', `STRUCT<"${'x'.repeat(129)}": INT>`,
    'TIMESTAMP WITH', 'DOUBLE FLOAT', "INT'", 'constructor', '__proto__', 'toString', 'INT; DROP TABLE t', 'INT -- x', 'x'.repeat(70_000), '<'.repeat(60_000),
    `${'ARRAY<'.repeat(typeDepthMax + 1)}INT${'>'.repeat(typeDepthMax + 1)}`, `INT${'[]'.repeat(typeDepthMax + 1)}`, 'ARRAY<'.repeat(10_000),
  ]; // biome-ignore format: a list
  for (const text of invalidTypes) assert.throws(() => parseType(text), TypeSyntaxError, text.slice(0, 80));
  for (const digits of ['1048577', '99999999999', '9'.repeat(400)])
    assert.throws(() => parseType(`VARCHAR(${digits})`), /VARCHAR\(n\) requires 1 <= n <= 1048576/);
  assert.throws(() => parseType('DECIMAL(99999999999,2)'), /DECIMAL\(p,s\) requires 1 <= p <= 38/);
});

const scalars = Object.keys(jsonForms).filter(
  (kind) => !['DECIMAL', 'CHAR', 'VARCHAR', 'ARRAY', 'MAP', 'STRUCT'].includes(kind),
) as ScalarKind[];

const fieldName = fc.oneof(
  fc.constantFrom('a', '_b1', 'a b', 'a"b', '>', 'select', '😀', "it's", 'INTEGER', 'WITH', 'x, y INT'),
  fc
    .string({ minLength: 1, maxLength: 20, unit: 'grapheme' })
    .filter((s) => !/\p{Cc}/u.test(s) && s !== '.' && s !== '..'),
);

const anyType: fc.Arbitrary<LogicalType> = fc.letrec<{ type: LogicalType }>((recurse) => ({
  type: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    fc.constantFrom(...scalars).map((kind): LogicalType => ({ kind })),
    fc
      .tuple(fc.integer({ min: 1, max: 38 }), fc.integer({ min: 0, max: 38 }))
      .map(([precision, scale]): LogicalType => ({ kind: 'DECIMAL', precision, scale: Math.min(precision, scale) })),
    fc
      .tuple(fc.constantFrom('CHAR' as const, 'VARCHAR' as const), fc.integer({ min: 1, max: 1_048_576 }))
      .map(([kind, length]): LogicalType => ({ kind, length })),
    recurse('type').map((element): LogicalType => ({ kind: 'ARRAY', element })),
    fc.tuple(recurse('type'), recurse('type')).map(([key, value]): LogicalType => ({ kind: 'MAP', key, value })),
    fc
      .uniqueArray(
        fc.tuple(fieldName, recurse('type')).map(([name, type]) => ({ name, type })),
        {
          minLength: 1,
          maxLength: 4,
          selector: (field) => field.name.toLowerCase(),
        },
      )
      .map((fields): LogicalType => ({ kind: 'STRUCT', fields })),
  ),
})).type;

/** CHAR and VARCHAR are VARCHAR to DuckDB. */
function withoutLengths(type: LogicalType): LogicalType {
  switch (type.kind) {
    case 'CHAR':
    case 'VARCHAR':
      return { kind: 'STRING' };
    case 'ARRAY':
      return { kind: 'ARRAY', element: withoutLengths(type.element) };
    case 'MAP':
      return { kind: 'MAP', key: withoutLengths(type.key), value: withoutLengths(type.value) };
    case 'STRUCT':
      return { kind: 'STRUCT', fields: type.fields.map((f) => ({ name: f.name, type: withoutLengths(f.type) })) };
    default:
      return type;
  }
}

test('the canonical text of every type is parsed to that type', () => {
  fc.assert(
    fc.property(anyType, (type) => {
      assert.deepEqual(parseType(formatType(type)), type);
    }),
  );
});

test("every type's DuckDB text is parsed to that type, apart from lengths", () => {
  fc.assert(
    fc.property(anyType, (type) => {
      assert.deepEqual(logicalTypeOf(duckdbType(type)), withoutLengths(type));
    }),
  );
});

test('a type widens to types that hold all its values, and to no others', () => {
  const yes: [string, string][] = [
    ['TINYINT', 'SMALLINT'], ['INT', 'LARGEINT'], ['INT', 'DECIMAL(10,0)'], ['BIGINT', 'DECIMAL(21,2)'], ['INT', 'DOUBLE'], ['SMALLINT', 'FLOAT'], ['FLOAT', 'DOUBLE'],
    ['DECIMAL(5,2)', 'DECIMAL(6,2)'], ['DECIMAL(5,2)', 'DECIMAL(6,3)'], ['VARCHAR(5)', 'VARCHAR(6)'], ['CHAR(5)', 'VARCHAR(5)'], ['CHAR(5)', 'STRING'], ['DATE', 'DATETIME'], ['UUID', 'STRING'],
    ['BOOLEAN', 'STRING'], ['LARGEINT', 'STRING'], ['ARRAY<INT>', 'ARRAY<BIGINT>'], ['MAP<INT, DATE>', 'MAP<BIGINT, DATETIME>'], ['STRUCT<a: INT>', 'STRUCT<a: INT>'],
  ]; // biome-ignore format: pairs
  const rejectedPairs: [string, string][] = [
    ['SMALLINT', 'TINYINT'], ['BIGINT', 'DECIMAL(18,0)'], ['BIGINT', 'DOUBLE'], ['INT', 'FLOAT'], ['LARGEINT', 'DECIMAL(38,0)'], ['DECIMAL(5,2)', 'DECIMAL(5,3)'], ['DECIMAL(5,2)', 'DECIMAL(5,1)'],
    ['DOUBLE', 'FLOAT'], ['VARCHAR(6)', 'VARCHAR(5)'], ['STRING', 'VARCHAR(5)'], ['DATETIME', 'DATE'], ['DATETIME', 'TIMESTAMPTZ'], ['STRING', 'JSON'], ['STRING', 'INT'], ['INT', 'BOOLEAN'],
    ['ARRAY<BIGINT>', 'ARRAY<INT>'], ['STRUCT<a: INT>', 'STRUCT<a: BIGINT>'], ['ARRAY<INT>', 'STRING'], ['DOUBLE', 'DECIMAL(38,10)'],
  ]; // biome-ignore format: pairs
  for (const [from, to] of yes) assert.equal(widens(parseType(from), parseType(to)), true, `${from} to ${to}`);
  for (const [from, to] of rejectedPairs)
    assert.equal(widens(parseType(from), parseType(to)), false, `${from} to ${to}`);
  fc.assert(fc.property(anyType, (type) => widens(type, type)));
});
