// Texts that become parts of definitions and statements: expressions, defaults, CREATE TABLE and CREATE VIEW.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { TableWrite } from '../../../../src/engines/port/statements.ts';
import type { ColumnDefinition } from '../../../../src/model/records.ts';
import { formatType, parseType } from '../../../../src/model/types.ts';
import { Failure } from '../../../../src/standard/failure.ts';
import { missingRing } from '../ring/ring.ts';
import { catalog, openSqlWorld, type SqlWorld } from './sql_world.ts';

let world: SqlWorld;
before(async () => {
  if (!missingRing) world = await openSqlWorld();
});
after(() => world?.close());

async function failureOf(work: Promise<unknown>, what: string): Promise<Failure> {
  try {
    await work;
  } catch (error) {
    assert.ok(error instanceof Failure, `${what}: ${error instanceof Error ? error.stack : String(error)}`);
    return error;
  }
  throw new assert.AssertionError({ message: `it was taken: ${what}` });
}

const describeColumn = (c: ColumnDefinition): string =>
  `${c.name} ${formatType(c.type)}${c.nullable ? '' : ' NOT NULL'}${c.defaultValue === undefined ? '' : ` = ${c.defaultValue}`}`;

describe('CREATE TABLE', { skip: missingRing }, () => {
  test('columns, keys, lengths and defaults are parsed', async () => {
    const { definition, ...rest } = await world.engine.parseCreateTable(
      `-- VARCHAR(99)
      CREATE TABLE IF NOT EXISTS ssb."line order 😀" (
        id BIGINT, "VARCHAR(9)" VARCHAR /* CHAR(3) */ NOT NULL, s VARCHAR(25) DEFAULT 'CHAR(7)', c CHAR ( 10 )[],
        st STRUCT(x VARCHAR(3), y DECIMAL(5,2)), m MAP<character varying(4), ARRAY<TEXT>>, e DECIMAL(10,2) DEFAULT -1.5,
        ts TIMESTAMP WITH TIME ZONE DEFAULT now(), d DATE DEFAULT current_date NOT NULL, u UUID DEFAULT uuid() UNIQUE, l INT[] DEFAULT [1,2],
        n INT NULL DEFAULT NULL, b BOOLEAN DEFAULT 1 IS NOT NULL, PRIMARY KEY (ID, s)
      );`,
    );
    assert.deepEqual(rest, { database: 'ssb', table: 'line order 😀', ifNotExists: true });
    assert.deepEqual(definition.primaryKey, ['id', 's']);
    assert.deepEqual(definition.uniqueKey, ['u']);
    assert.deepEqual(definition.columns.map(describeColumn), [
      'id BIGINT NOT NULL',
      'VARCHAR(9) STRING NOT NULL',
      `s VARCHAR(25) NOT NULL = 'CHAR(7)'`,
      'c ARRAY<CHAR(10)>',
      'st STRUCT<x: VARCHAR(3), y: DECIMAL(5,2)>',
      'm MAP<VARCHAR(4), ARRAY<STRING>>',
      'e DECIMAL(10,2) = -1.5',
      'ts TIMESTAMPTZ = now()',
      'd DATE NOT NULL = current_date',
      'u UUID = uuid()',
      'l ARRAY<INT> = [1,2]',
      'n INT',
      'b BOOLEAN = 1 IS NOT NULL',
    ]);
  });

  test('anything but a plain CREATE TABLE is refused, with the reason and the place', async () => {
    for (const sql of [
      'create table t(a int check (a > 1))',
      'create table p(a int primary key, b int references p(a))',
      'create table p(a int, foreign key (a) references p(a))',
      'create table t(a varchar collate nocase)',
      'create temp table t(a int)',
      'create table t as select 1 a',
      'create or replace table t(a int)',
      'create table t(a int) partitioned by (a)',
      'create table t(a int) engine = MergeTree order by a',
      'create table t(a int, b int generated always as (a + 1))',
      'create table t(a int unique, b int unique)',
      'create table t(a int codec(ZSTD))',
      'create table t(a int, index i a type minmax)',
      'create table t(a time)',
      'create table t(a AggregateFunction(sum, Int32))',
      'create table t(a int); create table s(a int)',
      'create view v as select 1',
      'select 1',
      'set threads = 4',
    ])
      assert.equal((await failureOf(world.engine.parseCreateTable(sql), sql)).code, 'SQL_NOT_SUPPORTED', sql);
    const invalid: Record<string, readonly [number, number]> = {
      '': [1, 1],
      'create table t(a int,\n b int\n c int)': [2, 4],
      'create table "😀é" (a nosuch)': [1, 22],
      'create table t(a int, A int)': [1, 23],
      'create table t(a int default (select 1))': [1, 30],
      'create table t(a int default b, b int)': [1, 30],
      'create table t(a int default $1)': [1, 30],
      "create table t(a varchar default file('/etc/passwd'))": [1, 34],
      'create table t(a varchar default hostName())': [1, 34],
      "create table t(a int default 'x')": [1, 30],
      "create table t(a varchar(3) default 'abcd')": [1, 37],
      'create table t(a varchar(0))': [1, 18],
      'create table t(primary key (a))': [1, 1],
      'create table t(a int, primary key (b))': [1, 1],
      'create table t(a int': [1, 15],
      'create table a.b.c.d(a int)': [1, 21],
    };
    for (const [sql, [line, column]] of Object.entries(invalid)) {
      const { code, result, message } = await failureOf(world.engine.parseCreateTable(sql), sql);
      assert.equal(code, 'SQL_INVALID', `${sql}: ${message}`);
      assert.deepEqual([result.line, result.column], [line, column], `${sql}: ${message}`);
    }
  });

  test('ten thousand columns with lengths and defaults are parsed', async () => {
    const columns = Array.from({ length: 10_000 }, (_, i) => `c${i} varchar(${(i % 8) + 1}) default 'x'`);
    const { definition } = await world.engine.parseCreateTable(`create table big(${columns.join(',')})`);
    assert.equal(definition.columns.length, 10_000);
  });
});

test('CREATE VIEW is split into its name and its query', { skip: missingRing }, async () => {
  const parse = (sql: string) => world.engine.parseCreateView(sql);
  assert.deepEqual(await parse('CREATE VIEW IF NOT EXISTS c."D d".v AS SELECT 1 ;'), {
    catalog: 'c',
    database: 'D d',
    view: 'v',
    sql: 'SELECT 1',
  });
  assert.deepEqual(await parse('-- x\ncreate view v (a, "b c") as select 1, 2'), {
    view: 'v',
    sql: 'SELECT * FROM (\nselect 1, 2\n) AS `v`(`a`, `b c`)',
  });
  for (const sql of ['SELECT 1', 'CREATE TABLE t (a INT)', '', 'CREATED VIEW'])
    assert.equal(await parse(sql), undefined);
  for (const sql of ['CREATE MATERIALIZED VIEW v AS SELECT 1', 'CREATE OR REPLACE VIEW v AS SELECT 1'])
    assert.equal((await failureOf(parse(sql), sql)).code, 'SQL_NOT_SUPPORTED');
  for (const sql of [
    'CREATE VIEW v',
    'CREATE VIEW AS SELECT 1',
    'CREATE VIEW v (a AS SELECT 1',
    'CREATE VIEW v TO t AS SELECT 1',
    'CREATE VIEW a.b.c.d AS SELECT 1',
  ])
    assert.equal((await failureOf(parse(sql), sql)).code, 'SQL_INVALID', sql);
});

test('the columns and sources of a view are read', { skip: missingRing }, async () => {
  const sql = 'SELECT t.id, v1.k AS other FROM t JOIN v1 ON t.id = v1.id WHERE t.id IN (SELECT id FROM main.T)';
  const reading = await world.engine.readView({ ...world.statement(sql), database: 'main' });
  assert.deepEqual(reading.columns, [
    { name: 'id', type: 'BIGINT' },
    { name: 'other', type: 'INT' },
  ]);
  assert.deepEqual(reading.sources, [
    { name: { catalog: 'shop', database: 'main', table: 't' }, isView: false, uses: 2 },
    { name: { catalog: 'shop', database: 'main', table: 'v1' }, isView: true, uses: 1 },
  ]);
  const caller = { ...world.statement('SELECT current_user AS me'), database: 'main' };
  assert.equal((await failureOf(world.engine.readView(caller), 'caller')).code, 'SQL_FORBIDDEN_FUNCTION');
});

describe('defaults', { skip: missingRing }, () => {
  const good: Record<string, readonly string[]> = {
    INT: ['1', '-1', '(2 + 3) * 4', 'NULL', `'7'`, '1 -- one\n', 'CASE WHEN 1 < 2 THEN 3 END', 'coalesce(NULL, 1)'],
    'VARCHAR(3)': [`'abc'`, `'a' || 'b'`, `upper('abc')`, `'😀😀😀'`, 'NULL'],
    DATE: ['current_date', `DATE '2026-01-31'`, 'today()', `'2026-01-31'`],
    TIMESTAMPTZ: ['now()', 'current_timestamp', 'CURRENT_TIMESTAMP', 'now() + INTERVAL 1 DAY'],
    UUID: ['uuid()', 'gen_random_uuid()', 'generateUUIDv4()', `'00000000-0000-0000-0000-000000000000'`],
    'ARRAY<INT>': ['[1, 2]', '[]'],
    BOOLEAN: ['true', 'NOT false'],
    DOUBLE: ['1e5', 'pi()', 'random()'],
  };
  const bad: Record<string, readonly string[]> = {
    INT: [
      '', ' ', '1, 2', '1), (2', '1) FROM (SELECT 1', '1 /*', '1;', '1; DROP TABLE t', 'a', 't.a', '"current_date".x', '(SELECT 1)', 'sum(1)',
      'count(*)', 'row_number() OVER ()', '$1', '?', '*', 'x -> 1', `'x'`, '3000000000', 'EXISTS (SELECT 1)', 'DEFAULT', 'current_user', '1 ORDER BY 1',
      'hostName()', 'sleep(1)', `getSetting('x')`, `dictGet('d', 'a', 1)`, '1 AS a, a', 'arrayMap(x -> x, [1])[1]', '1 IN t', '1 SETTINGS x = 1',
      '1 FORMAT Null', '{a:Int32}', '1'.repeat(20_000), `${'('.repeat(2000)}1${')'.repeat(2000)}`, '-'.repeat(3000) + '1 -',
    ],
    'VARCHAR(3)': [`'abcd'`, `concat('ab', 'cd')`],
    DATE: [`'yesterday'`],
    BOOLEAN: [`'x'`],
    UUID: [`'x'`],
  }; // biome-ignore format: lists

  test('a constant or a simple function of the right type is one', async () => {
    for (const [type, expressions] of Object.entries(good))
      for (const expression of expressions)
        await assert.doesNotReject(world.engine.checkDefault(expression, parseType(type)), `${type}: ${expression}`);
  });

  test('anything else is not', async () => {
    for (const [type, expressions] of Object.entries(bad))
      for (const expression of expressions) {
        const what = `${type}: ${expression.slice(0, 80)}`;
        const { code, message } = await failureOf(world.engine.checkDefault(expression, parseType(type)), what);
        assert.equal(code, 'INVALID_PARAMETER', `${what}: ${message}`);
        assert.match(message, /^the default is invalid: ./);
      }
  });
});

describe('statements that are built of parts', { skip: missingRing }, () => {
  const table = { catalog, database: 'main', table: 'Mixed Case' };
  const remove = (text: string): TableWrite => ({ kind: 'delete', table, where: { text, pointer: '/where' } });
  const insert = (text: string): TableWrite => ({
    kind: 'insert',
    table,
    columns: ['id'],
    query: { text, pointer: '/query' },
  });

  test('are analyzed like others, and their lines are those of the parts', async () => {
    const built = await world.engine.buildStatement({
      kind: 'update',
      table,
      set: [{ column: 'k', value: { text: 'k +\n1 -- more', pointer: '/set/k' } }],
      where: { text: 'id IN (SELECT id FROM u)', pointer: '/where' },
    });
    assert.deepEqual(built.parts, [
      { pointer: '/set/k', line: 2 },
      { pointer: '/where', line: 5 },
    ]);
    const lines = built.sql.split('\n');
    assert.equal(lines[1], 'k +');
    assert.equal(lines[4], 'id IN (SELECT id FROM u)');
    assert.deepEqual(await world.uses(built.sql), ['>main.Mixed Case', 'main.Mixed Case', 'main.u']);
    assert.deepEqual(await world.uses((await world.engine.buildStatement(remove('k IS NULL'))).sql), [
      '>main.Mixed Case',
      'main.Mixed Case',
    ]);
    assert.deepEqual(await world.uses((await world.engine.buildStatement(insert('SELECT id FROM t;'))).sql), [
      '>main.Mixed Case',
      'main.t',
    ]);
  });

  test('take single expressions and single queries only', async () => {
    for (const text of [
      '', '1, 2', '1) OR (1', '1 FROM t', 'SELECT 1', '*', 't.*', '1 AS x', '1 ORDER BY 1', '1; DELETE FROM t', 'id = 1;', '1 -- x\n) FROM (SELECT 1', '1 SETTINGS a = 1',
      'id = 1 LIMIT 1', '1 UNION ALL SELECT 1', '1 FORMAT Null', "'", '(', '1 WHERE 1', 'k = {a:Int32}',
    ]) {
      const { code, message, result } = await failureOf(world.engine.buildStatement(remove(text)), text);
      assert.match(code, /^SQL_/, `${text}: ${message}`);
      assert.match(message, /^\/where: /);
      assert.equal(result.pointer, '/where');
    } // biome-ignore format: a list
    for (const text of [
      '',
      '1',
      'SELECT 1) UNION ALL (SELECT 2',
      'SELECT 1; SELECT 2',
      'DELETE FROM t',
      'SELECT 1 FORMAT Null',
      'VALUES (1)',
    ]) {
      const { code, message } = await failureOf(world.engine.buildStatement(insert(text)), text);
      assert.match(code, /^SQL_/, `${text}: ${message}`);
    }
  });

  test('name the line and column of an error in a part', async () => {
    const { code, result } = await failureOf(world.engine.buildStatement(remove('id = 1\nAND k = = 2')), 'x');
    assert.equal(code, 'SQL_INVALID');
    assert.deepEqual([result.line, result.column, result.pointer], [2, 9, '/where']);
  });
});
