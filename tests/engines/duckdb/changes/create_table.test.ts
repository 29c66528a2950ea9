// CREATE TABLE statements as DuckDB parses them in a scratch database, and which are refused; defaults and what they may contain.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { DuckDBInstance } from '@duckdb/node-api';
import { checkDefault } from '../../../../src/engines/duckdb/sql/default_expression.ts';
import { parseCreateTable } from '../../../../src/engines/duckdb/sql/parse_create_table.ts';
import type { ColumnDefinition } from '../../../../src/model/records.ts';
import { formatType, parseType } from '../../../../src/model/types.ts';
import { Failure } from '../../../../src/standard/failure.ts';

const instance = await DuckDBInstance.create(':memory:', { threads: '1' });
const connection = await instance.connect();
await connection.run('SET enable_external_access = false');
after(() => {
  connection.closeSync();
  instance.closeSync();
});

const describeColumn = (c: ColumnDefinition): string =>
  `${c.name} ${formatType(c.type)}${c.nullable ? '' : ' NOT NULL'}${c.defaultValue === undefined ? '' : ` = ${c.defaultValue}`}`;

async function failureOf(work: Promise<unknown>): Promise<Failure> {
  try {
    await work;
  } catch (error) {
    assert.ok(error instanceof Failure, String(error));
    return error;
  }
  throw new assert.AssertionError({ message: 'it was taken' });
}

test('columns, keys, lengths and defaults are parsed', async () => {
  const parsed = await parseCreateTable(
    connection,
    `-- VARCHAR(99)
    CREATE TABLE IF NOT EXISTS ssb."line order 😀" (
      id BIGINT, "VARCHAR(9)" VARCHAR /* CHAR(3) */ NOT NULL, s VARCHAR(25) DEFAULT 'CHAR(7)', c CHAR ( 10 )[],
      st STRUCT(x VARCHAR(3), y DECIMAL(5,2)), m MAP(character varying(4), TEXT), b UINTEGER, e DECIMAL(10,2) DEFAULT -1.5,
      ts TIMESTAMPTZ DEFAULT now(), d DATE DEFAULT current_date, u UUID DEFAULT uuid(), l INT[] DEFAULT [1,2], n INT DEFAULT NULL,
      PRIMARY KEY (ID, s), UNIQUE (U)
    );`,
  );
  const { definition, ...rest } = parsed;
  assert.deepEqual(rest, { database: 'ssb', table: 'line order 😀', ifNotExists: true });
  assert.deepEqual(definition.primaryKey, ['id', 's']);
  assert.deepEqual(definition.uniqueKey, ['u']);
  assert.deepEqual(definition.columns.map(describeColumn), [
    'id BIGINT NOT NULL',
    'VARCHAR(9) STRING NOT NULL',
    `s VARCHAR(25) NOT NULL = 'CHAR(7)'`,
    'c ARRAY<CHAR(10)>',
    'st STRUCT<x: VARCHAR(3), y: DECIMAL(5,2)>',
    'm MAP<VARCHAR(4), STRING>',
    'b BIGINT',
    'e DECIMAL(10,2) = -1.5',
    'ts TIMESTAMPTZ = now()',
    'd DATE = current_date',
    'u UUID = uuid()',
    'l ARRAY<INT> = main.list_value(1, 2)',
    'n INT',
  ]);
});

test('only the written parts of the name are returned, whatever they are', async () => {
  const cases: Record<string, object> = {
    t: { table: 't' },
    'd.t': { database: 'd', table: 't' },
    'c.d.t': { catalog: 'c', database: 'd', table: 't' },
    '"a ""b"" %/\'"."select"."😀"': { catalog: 'a "b" %/\'', database: 'select', table: '😀' },
    'main.t': { database: 'main', table: 't' },
  };
  for (let round = 0; round < 2; round++) {
    for (const [name, expected] of Object.entries(cases)) {
      const { definition, ifNotExists, ...parts } = await parseCreateTable(connection, `create table ${name} (a int)`);
      assert.deepEqual(parts, expected);
    }
  }
});

test('statements run one after the other, and leave nothing behind', async () => {
  const statements = Array.from({ length: 8 }, (_, i) => `create table c${i % 2}.d.t (a int default ${i})`);
  const parsed = await Promise.all(statements.map((sql) => parseCreateTable(connection, sql)));
  assert.deepEqual(parsed.map((p) => p.definition.columns[0]!.defaultValue), ['0', '1', '2', '3', '4', '5', '6', '7']); // biome-ignore format: one line
  const remaining = await connection.runAndReadAll(
    `SELECT database_name FROM duckdb_databases() WHERE database_name LIKE 'c%' UNION ALL SELECT table_name FROM duckdb_tables()`,
  );
  assert.deepEqual(remaining.getRows(), []);
});

const notSupported = [
  'create table t(a int check (a > 1))',
  'create table p(a int primary key, b int references p(a))',
  'create table t(a varchar collate nocase)',
  'create table t(a varchar[], b varchar collate de)',
  'create temp table t(a int)',
  'create table t as select 1 a',
  'create or replace table t(a int)',
  'create table t(a int) partitioned by (a)',
  'create table t(a int, b int generated always as (a + 1))',
  'create table t(a int unique, b int unique)',
  'create table t(a time)',
  `create table t(a enum('x'))`,
  'create table t(a int); create table s(a int)',
  'create table t(a int); drop table t',
  'drop table nothing',
  'insert into nothing values (1)',
  "copy (select 1) to 'x'",
  'create view v as select 1',
  'create schema s',
  'select 1',
  'set threads = 4',
  'begin',
];

const invalid: Record<string, readonly [number, number]> = {
  '': [1, 1],
  '-- nothing': [1, 1],
  'create table t(a int,\n b int\n c int)': [3, 2],
  'create table "😀é" (a nosuch)': [1, 23],
  'create table t(a int, A int)': [1, 1],
  'create table t(a int default (select 1))': [1, 1],
  'create table t(a int default b, b int)': [1, 30],
  'create table t(a int default $1)': [1, 1],
  "create table t(a int default nextval('s'))": [1, 1],
  "create table t(a int default read_text('/etc/passwd'))": [1, 30],
  "create table t(a varchar default getenv('HOME'))": [1, 34],
  'create table t(a varchar default version())': [1, 1],
  "create table t(a int default 'x')": [1, 1],
  "create table t(a varchar(3) default 'abcd')": [1, 1],
  'create table t(a varchar(0))': [1, 1],
  'create table t(a double default 1e400)': [1, 1],
  'create table t(a varchar(99999999))': [1, 1],
  'create table t(primary key (a))': [1, 1],
  'create table t(a int, primary key (b))': [1, 1],
  'create table temp.t(a int)': [1, 1],
  "create table t as from read_csv('/etc/passwd')": [1, 24],
  [`create table t(a ${'('.repeat(5000)})`]: [1, 18],
  [`create table t(a int default ${'-'.repeat(3000)}1)`]: [1, 3032],
};

test('anything but a plain CREATE TABLE is refused, with the reason', async () => {
  for (const sql of notSupported) {
    const failure = await failureOf(parseCreateTable(connection, sql));
    assert.equal(failure.code, 'SQL_NOT_SUPPORTED', `${sql}: ${failure.message}`);
  }
  for (const [sql, [line, column]] of Object.entries(invalid)) {
    const failure = await failureOf(parseCreateTable(connection, sql));
    assert.equal(failure.code, 'SQL_INVALID', `${sql}: ${failure.message}`);
    assert.deepEqual(failure.result, { line, column }, `${sql}: ${failure.message}`);
  }
});

test('ten thousand columns with lengths and defaults are parsed', async () => {
  const columns = Array.from({ length: 10_000 }, (_, i) => `c${i} varchar(${(i % 800) + 1}) default 'x'`);
  const { definition } = await parseCreateTable(connection, `create table big(${columns.join(',')})`);
  assert.deepEqual(definition.columns.map(describeColumn), columns.map((_, i) => `c${i} VARCHAR(${(i % 800) + 1}) = 'x'`)); // biome-ignore format: one line
});

const goodDefaults: Record<string, readonly string[]> = {
  INT: [
    '1',
    '-1',
    '(2 + 3) * 4',
    'NULL',
    `'7'`,
    '1 -- one\n',
    'CASE WHEN 1 < 2 THEN 3 END',
    'coalesce(NULL, 1)',
    '1.0',
  ],
  'VARCHAR(3)': [`'abc'`, `'a' || 'b'`, `upper('abc')`, `'😀😀😀'`],
  DATE: ['current_date', `DATE '2026-01-31'`, 'today()', `'2026-01-31'`],
  TIMESTAMPTZ: ['now()', 'current_timestamp', 'CURRENT_TIMESTAMP', 'now() + INTERVAL 1 DAY'],
  UUID: ['uuid()', 'gen_random_uuid()', 'uuidv7()'],
  'ARRAY<INT>': ['[1, 2]', '[]'],
  'MAP<STRING, INT>': [`MAP {'a': 1}`],
  'STRUCT<a: INT>': [`{'a': 1}`],
  JSON: [`'{"a": 1}'`],
  BINARY: [`'\\xAA'::BLOB`],
  BOOLEAN: ['true', 'NOT false'],
  DOUBLE: ['1e5', `'NaN'`, 'pi()'],
};

const badDefaults: Record<string, readonly string[]> = {
  INT: [
    '', ' ', '1, 2', '1), (2', '1) FROM (SELECT 1', '1 -- one', '1 /*', '1;', '1; DROP TABLE t', 'a', 't.a', '"current_date".x', '(SELECT 1)', 'sum(1)', 'count(*)',
    'row_number() OVER ()', '$1', '?', '*', `nextval('s')`, `getenv('HOME')`, `current_setting('threads')`, 'x -> 1', 'unnest([1])', `'x'`, '1.5e400', '3000000000',
    'random() FROM range(10)', 'EXISTS (SELECT 1)', `'x' COLLATE nocase`, 'DEFAULT', `repeat('x', 1000000000)`, '#1', 'current_user', '1 ORDER BY 1', `a.b.now()`,
    '1'.repeat(20_000), '('.repeat(2000) + '1' + ')'.repeat(1999),
  ],
  'VARCHAR(3)': [`'abcd'`, `concat('ab', 'cd')`],
  DATE: [`'yesterday'`, '1'],
  BOOLEAN: [`'x'`],
  UUID: [`'x'`],
}; // biome-ignore format: lists

test('a default is a constant or a simple function of the right type', async () => {
  for (const [type, expressions] of Object.entries(goodDefaults)) {
    for (const expression of expressions) {
      await assert.doesNotReject(checkDefault(connection, expression, parseType(type)), `${type}: ${expression}`);
    }
  }
  for (const [type, expressions] of Object.entries(badDefaults)) {
    for (const expression of expressions) {
      const failure = await failureOf(checkDefault(connection, expression, parseType(type)));
      assert.equal(failure.code, 'INVALID_PARAMETER', `${type}: ${expression.slice(0, 80)}`);
      assert.match(failure.message, /^the default is invalid: ./);
    }
  }
});
