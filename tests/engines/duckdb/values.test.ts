// Rows inserted into a real DuckDB and its values as JSON: values inserted by REST are returned by SQL as the same JSON, for every
// type; types that only SQL can create are valid JSON too; rows that violate keys are identified.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import { applyChange } from '../../../src/engines/duckdb/ddl/apply_change.ts';
import { tableStatistics } from '../../../src/engines/duckdb/ddl/table_statistics.ts';
import { insertRows } from '../../../src/engines/duckdb/query/insert_rows.ts';
import { qualifiedTable } from '../../../src/engines/duckdb/sql/identifiers.ts';
import {
  duckdbType,
  jsonExpression,
  logicalTypeOf,
  resultTypeText,
} from '../../../src/engines/duckdb/types/type_mapping.ts';
import type { TableRef } from '../../../src/engines/port/refs.ts';
import type { ColumnDefinition, TableDefinition } from '../../../src/model/records.ts';
import { formatType, parseType } from '../../../src/model/types.ts';
import { rowReader } from '../../../src/query/rows/row_validation.ts';
import { Failure } from '../../../src/standard/failure.ts';
import { parseJson } from '../../../src/standard/json/parse_json.ts';
import { plain } from '../../table_definition.ts';

const root = mkdtempSync(join(tmpdir(), 'tabularium-values-'));
mkdirSync(join(root, 'catalogs'));
const instance = await DuckDBInstance.create(':memory:', { threads: '2' });
const connection = await instance.connect();
// No expression may depend on the time zone of the session.
await connection.run(`SET TimeZone = 'America/New_York'`);
const catalog = { id: randomUUID(), name: 'c "1"' };
const database = { catalog, database: 'd' };
const plainDatabase = { catalog: { id: randomUUID(), name: 'plain %/ name' }, database: "it's. a database" };
const options = { dataDirectory: root, step: 's' };
await applyChange(connection, { kind: 'createCatalog', catalog }, options);
await applyChange(connection, { kind: 'createCatalog', catalog: plainDatabase.catalog }, options);
for (const ref of [database, plainDatabase]) {
  await applyChange(connection, { kind: 'createDatabase', database: ref }, options);
}
after(() => {
  connection.closeSync();
  instance.closeSync();
  rmSync(root, { recursive: true, force: true });
});

function column(name: string, type: string, options: Partial<ColumnDefinition> = {}): ColumnDefinition {
  return { name, type: parseType(type), nullable: true, ...options };
}

let tableCount = 0;
async function makeTable(columns: ColumnDefinition[], keys: Partial<TableDefinition> = {}, parent = database) {
  const table: TableRef = { ...parent, table: `t ${++tableCount}` };
  const definition: TableDefinition = { columns, ...plain, ...keys };
  await applyChange(connection, { kind: 'createTable', table, definition }, options);
  const insert = (rowsText: string): Promise<number> =>
    insertRows(connection, table, rowReader(columns).read(parseJson(rowsText) as unknown[]), definition);
  return { table, definition, insert };
}

async function jsonOf(from: DuckDBConnection, sql: string, numbers: 'number' | 'string' = 'number'): Promise<string[]> {
  const columnTypes = (await from.runAndReadAll(`DESCRIBE ${sql}`)).getRowsJson();
  const [name, type] = columnTypes[0] as [string, string];
  const value = jsonExpression(type, `"${name.replaceAll('"', '""')}"`, numbers);
  return (await from.runAndReadAll(`SELECT ${value} FROM (${sql})`)).getRows().map(([text]) => String(text));
}

/** The input, and the output if it is another text. */
const roundTrips: Record<string, readonly (string | readonly [string, string])[]> = {
  BOOLEAN: ['true', 'false', 'null'],
  TINYINT: ['-128', '127'],
  SMALLINT: ['-32768', '32767'],
  INT: ['-2147483648', '2147483647'],
  BIGINT: ['-9223372036854775808', '9223372036854775807', '9007199254740993'],
  LARGEINT: ['-170141183460469231731687303715884105728', '170141183460469231731687303715884105727', ['1e30', '1000000000000000000000000000000']],
  FLOAT: ['0.1', '"NaN"', '"Infinity"', '"-Infinity"', ['3.4028234663852886e38', '3.4028235e+38'], '-0.0', 'null'],
  DOUBLE: ['0.1', '0.30000000000000004', '"NaN"', '"-Infinity"', '1e300', '5e-324', '-0.0', ['3', '3.0']],
  'DECIMAL(4,1)': ['999.9', '-0.5', ['2', '2.0'], ['2e1', '20.0']],
  'DECIMAL(38,10)': ['1234567890123456789012345678.0123456789', '-9999999999999999999999999999.9999999999', ['1e-10', '0.0000000001']],
  DATE: ['"2026-01-31"', '"0001-01-01"', '"9999-12-31"'],
  DATETIME: ['"2026-01-31T10:00:00.123456"', '"0001-01-01T00:00:00"', '"9999-12-31T23:59:59.999999"', ['"2026-01-31T10:00:00.120000000"', '"2026-01-31T10:00:00.12"'], ['"2026-03-08 02:30:00"', '"2026-03-08T02:30:00"']],
  TIMESTAMPTZ: ['"2026-01-31T10:00:00.123456Z"', ['"2026-03-08T02:30:00-05:00"', '"2026-03-08T07:30:00Z"'], ['"2026-01-31T10:00:00+14:00"', '"2026-01-30T20:00:00Z"']],
  'CHAR(2)': ['"ab"', '"a"'],
  'VARCHAR(3)': ['"😀é\\n"'],
  STRING: ['""', '"a\\u0000b\\"\\\\/"', '"null"', '"[1, 2]"', '"😀"', 'null'],
  BINARY: ['""', '"AP8="', '"+/+/"'],
  JSON: ['{"a":1.5,"b":[null,{"c":"x\\"y"}]}', '"text"', '[]', '12345678901234567890123.5', 'true', ['{"a":  1}', '{"a":1}'], '["nan, inf ,]"]'],
  UUID: ['"f81d4fae-7dec-11d0-a765-00a0c91e6bf6"', ['"F81D4FAE-7DEC-11D0-A765-00A0C91E6BF6"', '"f81d4fae-7dec-11d0-a765-00a0c91e6bf6"']],
  'ARRAY<INT>': ['[]', '[1,null,3]', 'null'],
  'ARRAY<DECIMAL(38,10)>': ['[1234567890123456789012345678.0123456789,null]'],
  'ARRAY<ARRAY<DOUBLE>>': ['[["NaN",1.5],[],null]'],
  'ARRAY<BINARY>': ['["AP8=",null,""]'],
  'ARRAY<STRING>': ['["a, b","[","NULL","null","",null]'],
  'MAP<STRING, INT>': ['[]', '[{"key":"a\\"","value":1},{"key":"","value":null}]', 'null'],
  'MAP<DATE, ARRAY<TIMESTAMPTZ>>': ['[{"key":"2026-01-31","value":["2026-01-31T10:00:00Z"]}]'],
  'MAP<LARGEINT, MAP<STRING, BINARY>>': ['[{"key":170141183460469231731687303715884105727,"value":[{"key":"k","value":"AP8="}]}]'],
  'STRUCT<a: INT, "b \'c\' ""d""": JSON>': ['{"a":1,"b \'c\' \\"d\\"":{"x":[1]}}', '{"a":null,"b \'c\' \\"d\\"":null}', 'null'],
  'STRUCT<m: MAP<INT, STRUCT<x: BINARY>>, l: ARRAY<STRUCT<u: UUID>>>': ['{"m":[{"key":1,"value":{"x":"AP8="}},{"key":2,"value":null}],"l":[{"u":null},null]}', '{"m":null,"l":null}'],
}; // biome-ignore format: one line for each type

test('values inserted as JSON are returned as the same JSON', async () => {
  for (const [type, cases] of Object.entries(roundTrips)) {
    const { table, insert } = await makeTable([column('n', 'INT'), column('v', type)]);
    const values = cases.map((typeCase) => (typeof typeCase === 'string' ? typeCase : typeCase[0]));
    assert.equal(await insert(`[${values.map((value, i) => `{"n":${i},"v":${value}}`).join(',')}]`), cases.length);
    const sql = `SELECT v FROM ${qualifiedTable(table)} ORDER BY n`;
    const expected = cases.map((typeCase) => (typeof typeCase === 'string' ? typeCase : typeCase[1]));
    assert.deepEqual(await jsonOf(connection, sql), expected, type);
    const [columnType] = (await connection.runAndReadAll(`DESCRIBE ${sql}`)).getRowsJson() as string[][];
    const parsed = parseType(type);
    const readableType = parsed.kind === 'CHAR' || parsed.kind === 'VARCHAR' ? 'STRING' : formatType(parsed);
    assert.equal(resultTypeText(columnType![1]!), readableType);
    assert.equal(duckdbType(parsed), columnType![1]!.replace(/\b(?<!")([am]|l|u|x) (?=[A-Z])/g, '"$1" '), type);
  }
});

test('wide numbers are strings on request', async () => {
  const cases: Record<string, string> = {
    '1::BIGINT': '"1"',
    '1::UBIGINT': '"1"',
    '1::HUGEINT': '"1"',
    '1::INTEGER': '1',
    '1::UINTEGER': '1',
    '1.50::DECIMAL(4,2)': '"1.50"',
    '1.5::DOUBLE': '1.5',
    '[1::BIGINT, NULL]': '["1",null]',
    "{'a': 1.5::DECIMAL(2,1), 'b': 1}": '{"a":"1.5","b":1}',
    "MAP {1::HUGEINT: 'x'}": '[{"key":"1","value":"x"}]',
  };
  for (const [sql, expected] of Object.entries(cases)) {
    assert.deepEqual(await jsonOf(connection, `SELECT ${sql} AS "a ""v"""`, 'string'), [expected], sql);
  }
});

const sqlOnly: readonly (readonly [string, string, string])[] = [
  [`'infinity'::DATE`, 'DATE', '"infinity"'],
  [`'-infinity'::TIMESTAMP`, 'DATETIME', '"-infinity"'],
  [`'infinity'::TIMESTAMPTZ`, 'TIMESTAMPTZ', '"infinity"'],
  [`'-0044-03-15'::DATE`, 'DATE', '"0045-03-15 (BC)"'],
  [`'-0044-03-15 10:00:00'::TIMESTAMP`, 'DATETIME', '"0045-03-15 (BC)T10:00:00"'],
  [`'294247-01-10 04:00:54.775806'::TIMESTAMP`, 'DATETIME', '"294247-01-10T04:00:54.775806"'],
  [`'2026-01-31 10:00:00.123456789'::TIMESTAMP_NS`, 'TIMESTAMP_NS', '"2026-01-31T10:00:00.123456789"'],
  [`'2026-01-31 10:00:00'::TIMESTAMP_S`, 'DATETIME', '"2026-01-31T10:00:00"'],
  [`'2026-01-31 10:00:00.5'::TIMESTAMP_MS`, 'DATETIME', '"2026-01-31T10:00:00.5"'],
  [`TIME '10:00:00.5'`, 'TIME', '"10:00:00.5"'],
  [`'10:00:00+02:30'::TIMETZ`, 'TIME WITH TIME ZONE', '"10:00:00+02:30"'],
  [`INTERVAL '1 month 3 days'`, 'INTERVAL', '"1 month 3 days"'],
  [`'b'::ENUM('a', 'b''c', 'b')`, `ENUM('a', 'b''c', 'b')`, '"b"'],
  [`'101'::BIT`, 'BIT', '"101"'],
  [`340282366920938463463374607431768211455::UHUGEINT`, 'UHUGEINT', '340282366920938463463374607431768211455'],
  [`18446744073709551615::UBIGINT`, 'LARGEINT', '18446744073709551615'],
  [`255::UTINYINT`, 'SMALLINT', '255'],
  [`union_value(a := 'nan'::DOUBLE)`, 'UNION(a DOUBLE)', '"NaN"'],
  [`NULL::UNION(a INT, b VARCHAR)`, 'UNION(a INTEGER, b VARCHAR)', 'null'],
  [`row(1, 'x', TIMESTAMP '2026-01-31 00:00:00')`, 'STRUCT(INTEGER, VARCHAR, TIMESTAMP)', '[1,"x","2026-01-31T00:00:00"]'],
  [`[1.5, 2]::DOUBLE[2]`, 'ARRAY<DOUBLE>', '[1.5,2.0]'],
  [`[INTERVAL 1 DAY, NULL]`, 'INTERVAL[]', '["1 day",null]'],
  [`{'a': [1, 2]}::VARIANT`, 'VARIANT', '{"a":[1,2]}'],
  [`['nan'::DOUBLE]::VARIANT`, 'VARIANT', '"[NaN]"'],
  [`'{"a" : 1.10,\r\n "b":"financial info, ]"}'::JSON`, 'JSON', '{"a" : 1.10,   "b":"financial info, ]"}'],
  [`'[1.10,]'::JSON`, 'JSON', '[1.1]'],
  [`'[NaN, -Infinity]'::JSON`, 'JSON', '"[NaN, -Infinity]"'],
  ['NULL', 'INT', 'null'],
  [`[]::INTEGER[]`, 'ARRAY<INT>', '[]'],
  [`MAP {[1]: MAP {'a': {'x': 'inf'::FLOAT}}}`, 'MAP<ARRAY<INT>, MAP<STRING, STRUCT<x: FLOAT>>>', '[{"key":[1],"value":[{"key":"a","value":{"x":"Infinity"}}]}]'],
]; // biome-ignore format: one line for each

test('values that only SQL can create are JSON on one line as well', async () => {
  for (const [sql, type, expected] of sqlOnly) {
    const select = `SELECT ${sql} AS v`;
    const [text] = await jsonOf(connection, select);
    assert.equal(text, expected, sql);
    JSON.parse(text!);
    const [columnType] = (await connection.runAndReadAll(`DESCRIBE ${select}`)).getRowsJson() as string[][];
    assert.equal(resultTypeText(columnType![1]!), type);
  }
  for (const emptyValue of [
    'TIME',
    'INTERVAL',
    `ENUM('a, b', 'c)')`,
    'UNION(a INTEGER)',
    'STRUCT(INTEGER)',
    'nonsense(',
    'INTEGER[',
    '',
  ]) {
    assert.equal(logicalTypeOf(emptyValue), undefined, emptyValue);
  }
});

test('missing fields get the default as the engine evaluates it', async () => {
  const { table, insert } = await makeTable([
    column('id', 'INT'),
    column('u', 'UUID', { nullable: false, defaultValue: 'uuid()' }),
    column('s', 'VARCHAR(5)', { defaultValue: `'a' || 'b'` }),
    column('t', 'TIMESTAMPTZ', { nullable: false, defaultValue: 'current_timestamp' }),
  ]);
  await insert('[{"id":1},{"id":2}]');
  await insert('[{"id":3,"s":"x"},{"id":4},{"s":null,"u":"f81d4fae-7dec-11d0-a765-00a0c91e6bf6"},{}]');
  await insert('[{},{}]');
  const rows = (await connection.runAndReadAll(`SELECT id, s FROM ${qualifiedTable(table)}`)).getRowsJson();
  assert.deepEqual(rows, [[1, 'ab'], [2, 'ab'], [3, 'x'], [4, 'ab'], [null, null], [null, 'ab'], [null, 'ab'], [null, 'ab']]); // biome-ignore format: rows
  const [different] = (
    await connection.runAndReadAll(`SELECT count(DISTINCT u), count(t) FROM ${qualifiedTable(table)}`)
  ).getRows();
  assert.deepEqual(different, [8n, 8n]);
});

async function violationsOf(work: Promise<unknown>): Promise<string[]> {
  try {
    await work;
  } catch (error) {
    assert.ok(error instanceof Failure, String(error));
    assert.equal(error.code, 'CONSTRAINT_VIOLATED');
    const violations = (error.result.violations ?? []) as { pointer: string; rule: string; message: string }[];
    return violations.map((v) => `${v.pointer} ${v.rule} ${v.message}`);
  }
  throw new assert.AssertionError({ message: 'the rows were inserted' });
}

test('rows that violate a key are reported, and none is inserted', async () => {
  const { table, insert } = await makeTable(
    [
      column('a "q"', 'LARGEINT', { nullable: false }),
      column('b', 'STRING'),
      column('c', 'DATE'),
      column('d', 'INT', { defaultValue: '7' }),
    ],
    { primaryKey: ['a "q"'], uniqueKey: ['b', 'd'] },
  );
  await insert('[[12345678901234567890, "x", null, 1], [2, "x", null, null], [3, "x", null, null]]');
  assert.deepEqual(
    await violationsOf(
      insert('[[5, "y", null, 1], [2, "z", null, 1], [5, "w", null, 1], [12345678901234567890, "v", null, 1]]'),
    ),
    [
      '/rows/1 primaryKey the key {"a \\"q\\"":2} already exists',
      '/rows/2 primaryKey row 0 has the same key {"a \\"q\\"":5}',
      '/rows/3 primaryKey the key {"a \\"q\\"":12345678901234567890} already exists',
    ],
  );
  assert.deepEqual(
    await violationsOf(insert('[{"a \\"q\\"":10,"b":"n"},{"a \\"q\\"":11,"b":"n"},{"a \\"q\\"":12,"b":"x","d":1}]')),
    [
      '/rows/1 uniqueKey row 0 has the same key {"b":"n","d":7}',
      '/rows/2 uniqueKey the key {"b":"x","d":1} already exists',
    ],
  );
  assert.deepEqual(await violationsOf(insert('[{"a \\"q\\"":20,"b":"n"},{"a \\"q\\"":21,"b":"n"}]')), [
    '/rows/1 uniqueKey row 0 has the same key {"b":"n","d":7}',
  ]);
  const [count] = (await connection.runAndReadAll(`SELECT count(*) FROM ${qualifiedTable(table)}`)).getRows();
  assert.deepEqual(count, [3n]);
});

test('a default that violates a constraint is reported as such', async () => {
  const { insert } = await makeTable([column('a', 'INT'), column('s', 'VARCHAR(2)', { defaultValue: `'long'` })]);
  assert.deepEqual(await violationsOf(insert('[{"a":1}]')), []);
});

test('a cancelled insert inserts nothing', async () => {
  const { table, definition } = await makeTable([column('a', 'INT')]);
  const work = insertRows(connection, table, rowReader(definition.columns).read([[1]]), definition, {
    signal: AbortSignal.abort(),
  });
  await assert.rejects(work, (error) => error instanceof Failure && error.code === 'STATEMENT_CANCELLED');
});

test('a prepared statement follows changes of its table', async () => {
  const { table, insert } = await makeTable([column('a', 'INT')]);
  await insert('[[1]]');
  await connection.run(`DROP TABLE ${qualifiedTable(table)}`);
  await assert.rejects(insert('[[2]]'), /does not exist/);
  await connection.run(`CREATE TABLE ${qualifiedTable(table)} (b STRING, a BIGINT)`);
  await insert('[[3]]');
  assert.deepEqual(await jsonOf(connection, `SELECT a FROM ${qualifiedTable(table)}`), ['3']);
});

test('a table of 3,000 columns accepts rows', async () => {
  const wide = Array.from({ length: 3000 }, (_, i) => column(`c${i}`, i % 2 === 0 ? 'INT' : 'STRING'));
  const { table, insert } = await makeTable(wide, {}, plainDatabase);
  const row = wide.map((_, i) => (i % 2 === 0 ? i : `"${i}"`)).join(',');
  await insert(`[[${row}],[${row}]]`);
  assert.deepEqual(await jsonOf(connection, `SELECT c2999 FROM ${qualifiedTable(table)}`), ['"2999"', '"2999"']);
  const { rowCount, dataBytes } = await tableStatistics(connection, table);
  assert.equal(rowCount, 2);
  assert.ok(dataBytes > 0);
});

test('statistics of a table whose name contains a quote are an estimate', async () => {
  const quoted: TableRef = { ...plainDatabase, table: 'a "b"' };
  await connection.run(`CREATE TABLE ${qualifiedTable(quoted)} AS SELECT range FROM range(1000)`);
  assert.deepEqual(await tableStatistics(connection, quoted), { rowCount: 1000, dataBytes: 5000 });
});

test('statistics count exactly and grow with the data', async () => {
  const { table } = await makeTable([column('a', 'INT'), column('s', 'STRING')], {}, plainDatabase);
  assert.deepEqual(await tableStatistics(connection, table), { rowCount: 0, dataBytes: 0 });
  await connection.run(`INSERT INTO ${qualifiedTable(table)} SELECT range, md5(range::VARCHAR) FROM range(300_000)`);
  for (const moment of ['before', 'after']) {
    const { rowCount, dataBytes } = await tableStatistics(connection, table);
    assert.equal(rowCount, 300_000);
    assert.ok(dataBytes > 5_000_000 && dataBytes < 30_000_000, `${dataBytes} bytes ${moment} a checkpoint`);
    await connection.run(`CHECKPOINT "${plainDatabase.catalog.name}"`);
  }
});
