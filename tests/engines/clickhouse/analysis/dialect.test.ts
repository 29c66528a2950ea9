// Statements of callers as they run: parameters and constants keep their exact values, names and functions have the meaning of the
// dialect, and errors are about the caller's text.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { isSameStatement } from '../../../../src/engines/clickhouse/analysis/shown_definition.ts';
import { StaleAnalysis, type Statement, type StatementParameters } from '../../../../src/engines/port/statements.ts';
import type { ColumnDefinition } from '../../../../src/model/records.ts';
import { parseType } from '../../../../src/model/types.ts';
import { Failure } from '../../../../src/standard/failure.ts';
import { parseJson } from '../../../../src/standard/json/parse_json.ts';
import { plain } from '../../../table_definition.ts';
import { missingRing } from '../ring/ring.ts';
import { catalog, openSqlWorld, type SqlWorld } from './sql_world.ts';

let world: SqlWorld;
const spool = mkdtempSync(join(tmpdir(), 'tabularium-clickhouse-dialect-'));
const signal = new AbortController().signal;
const table = { catalog, database: 'main', table: 'kept' };
const columns: readonly ColumnDefinition[] = [
  { name: 'id', type: parseType('BIGINT'), nullable: false },
  { name: 'x', type: parseType('DECIMAL(9,2)'), nullable: true },
  { name: 'big', type: parseType('DECIMAL(38,10)'), nullable: true },
  { name: 'at', type: parseType('DATETIME'), nullable: true },
  { name: 'day', type: parseType('DATE'), nullable: true },
  { name: 'ok', type: parseType('BOOLEAN'), nullable: true },
  { name: 'v', type: parseType('STRING'), nullable: true },
];
before(async () => {
  if (missingRing) return;
  world = await openSqlWorld();
  await world.engine.apply(
    { kind: 'createTable', table, definition: { ...plain, columns } },
    { signal, step: 'create kept' },
  );
});
after(async () => {
  await world?.close();
  rmSync(spool, { recursive: true, force: true });
});

async function run(sql: string, parameters?: StatementParameters, more: Partial<Statement> = {}): Promise<string> {
  const statement = world.statement(sql, { parameters, ...more });
  const analysis = await world.analyze(sql, { parameters, ...more });
  const options = {
    analysis,
    numbers: 'number',
    timeoutMs: 30_000,
    resultPath: join(spool, randomUUID()),
    pageBytesMax: 1_000_000,
    signal,
  } as const;
  const { rows } = await world.engine.execute(statement, options);
  return rows.kind === 'text' ? rows.text : '';
}

async function failureOf(work: Promise<unknown>, what = 'it ran'): Promise<Failure> {
  const error = await work.then(
    () => assert.fail(what),
    (reason: unknown) => reason,
  );
  if (error instanceof assert.AssertionError) throw error;
  assert.ok(error instanceof Failure, String(error));
  return error;
}

const parameters = (json: string) => parseJson(json) as StatementParameters;

describe('parameters', { skip: missingRing }, () => {
  test('keep their exact values', async () => {
    for (const json of [
      '[1]', '[-2147483649]', '[9007199254740993]', '[170141183460469231731687303715884105727]', '[-170141183460469231731687303715884105728]',
      '[0.1]', '[-1.5e300]', '[12345678901234567890.123456789012345678]', '[null]', '[true]', '[false]', '["it\'s \\\\ \\t \\n \\"x\\" {p:Int32} 😀"]', '[""]',
      '[[1,2,null]]', '[[1,5000000000]]', '[["a","b\'c\\\\"]]', '[[]]', '[[true]]',
    ]) // biome-ignore format: a list
      assert.equal(await run('SELECT $1', parameters(json)), json, json);
    assert.equal(await run('SELECT tupleElement($p, 1)', parameters('{"p": {"a": 7}}')), '[7]');
  });

  test('are numbered, named or marked by ?', async () => {
    assert.equal(await run('SELECT $2, $1, $2', parameters('[1, "b"]')), '["b",1,"b"]');
    assert.equal(await run('SELECT ?, ?', parameters('["a", 2]')), '["a",2]');
    assert.equal(await run('SELECT $least, $LEAST, $Name', parameters('{"least": 1, "name": "x"}')), '[1,1,"x"]');
    assert.equal(await run('SELECT \'$1\', "?" FROM (SELECT 1 AS "?") AS q', undefined), '["$1",1]');
  });

  test('that do not fit are refused', async () => {
    for (const [sql, given] of [
      ['SELECT $1', undefined],
      ['SELECT $1', '[]'],
      ['SELECT $1', '[1, 2]'],
      ['SELECT $2', '[1]'],
      ['SELECT $a', '[1]'],
      ['SELECT $a', '{}'],
      ['SELECT $a', '{"a": 1, "b": 2}'],
      ['SELECT 1', '[1]'],
      ['SELECT ?, $1', '[1, 2]'],
      ['SELECT $1', '[1e999]'],
      ['SELECT $1', '[{}]'],
      ['SELECT $1', '[170141183460469231731687303715884105728]'],
      ['SELECT $1', '[[1, "a"]]'],
    ] as const) {
      // biome-ignore format: a list
      const { code } = await failureOf(run(sql, given === undefined ? undefined : parameters(given)), `${sql} ${given}`);
      assert.equal(code, 'PARAMETERS_INVALID', `${sql} ${given}`);
    }
  });

  test('never become a part of the text', async () => {
    const text = "' OR 1 = 1; DROP TABLE t -- $1 {p:Identifier}";
    assert.equal(await run('SELECT $1', [text]), JSON.stringify([text]));
  });
});

describe('constants', { skip: missingRing }, () => {
  test('in VALUES are exact, whatever stands beside them', async () => {
    await run(
      `INSERT INTO kept (id, x, big, at, day, ok, v) VALUES
        (1, 1.15, 12345678901234567890.1234567891, '2026-01-31 10:00:00.123456', '1901-02-03', true, 'it''s \\\\ x'),
        (2, -1.15, NULL, NULL, NULL, FALSE, NULL)`,
    );
    await run(`INSERT INTO kept (id, x, v) VALUES (1 + 2, 2.15, lower('ABC')), (4, 7.5 + 0.5, $1)`, ['p']);
    assert.equal(
      await run('SELECT id, x, big, at, day, ok, v FROM kept ORDER BY id'),
      [
        '[1,1.15,12345678901234567890.1234567891,"2026-01-31T10:00:00.123456","1901-02-03",true,"it\'s \\\\ x"]',
        '[2,-1.15,null,null,null,false,null]',
        '[3,2.15,null,null,null,null,"abc"]',
        '[4,8.00,null,null,null,null,"p"]',
      ].join(',\n'),
    );
    await run('UPDATE kept SET v = upper(v), x = $1 WHERE id = $2', [5, 3]);
    assert.equal(await run('SELECT v, x FROM kept WHERE id = 3'), '["ABC",5.00]');
    await run('DELETE FROM kept WHERE id > (SELECT 3)');
    assert.equal(await run('SELECT count() FROM kept'), '[3]');
  });

  test('have the types of the dialect', async () => {
    assert.equal(
      await run(
        "SELECT '1901-02-03'::DATE, CAST('2026-01-31 10:00:00' AS TIMESTAMP), 5::bigint, CAST(NULL AS INT), DATE '2026-01-31'",
      ),
      '["1901-02-03","2026-01-31T10:00:00",5,null,"2026-01-31"]',
    );
    const described = await world.engine.describe(
      world.statement(
        "SELECT 1::LARGEINT AS a, 'x'::VARCHAR(3) AS b, [1]::ARRAY<INT> AS c, 1.5::DECIMAL(9,2) AS d, current_timestamp AS e",
      ),
    );
    assert.deepEqual(
      described.map(({ name, type }) => `${name} ${type}`),
      ['a LARGEINT', 'b STRING', 'c ARRAY<INT>', 'd DECIMAL(9,2)', 'e DATETIME'],
    );
  });
});

test('functions about the caller and the namespace', { skip: missingRing }, async () => {
  assert.equal(
    await run('SELECT current_user, session_user, user(), current_catalog(), current_schema()'),
    '["ada","ada","ada","shop","main"]',
  );
  assert.match(
    await run('SELECT version(), current_schema()', undefined, { database: undefined }),
    /^\["Tabularium [^"]+",null\]$/,
  );
  assert.equal(
    await run('SELECT a.user, a.current_user AS user FROM (SELECT 1 AS user, 2 AS "current_user") AS a'),
    '[1,2]',
  );
});

describe('errors', { skip: missingRing }, () => {
  test('name the line and column in the text of the caller', async () => {
    for (const [sql, line, column] of [
      ['SELECT 1 +\nFROM shop.main.t, other.s.p', 2, 6],
      ['SELECT\n\n  id id id FROM t', 3, 9],
      ["SELECT '😀😀', * FROM t GROUP LY id", 1, 29],
      ['SELECT id\nFROM nosuch', 2, 6],
      ['SELECT nosuch(1)', 1, 8],
      ['SELECT $1 FRM t x y', 1, 15],
      ['INSERT INTO t (id) SELECT 1 +', 1, 30],
      ['UPDATE t SET k = 1 + , v = 2', 1, 22],
    ] as const) {
      const { code, result, message } = await failureOf(
        world.analyze(sql, sql.includes('$1') ? { parameters: [1] } : {}),
      );
      assert.equal(code, 'SQL_INVALID', message);
      assert.deepEqual([result.line, result.column], [line, column], `${sql}: ${message}`);
    }
  });

  test('of the binding name columns and tables of the caller, and nothing else', async () => {
    for (const [sql, pattern] of [
      ['SELECT nosuch FROM t', /nosuch/],
      ['SELECT t.nosuch FROM t', /nosuch/],
      ['SELECT sum(v) FROM t', /sum/],
      ['SELECT id FROM t GROUP BY k', /aggregate|GROUP BY/i],
      ["SELECT 'x'::INT", /Int32/],
      ['SELECT id FROM t UNION ALL SELECT id, k FROM u', /column/i],
    ] as const) {
      const { code, message, result } = await failureOf(run(sql), sql);
      assert.equal(code, 'SQL_INVALID', message);
      assert.match(message, pattern);
      const text = `${message} ${JSON.stringify(result)}`;
      assert.doesNotMatch(text, /__|tabularium_|[Vv]ersion|127\.0|DB::|Maybe you meant|In scope/, text);
    }
  });
});

test('a statement whose tables changed since its analysis does not run', { skip: missingRing }, async () => {
  const sql = 'SELECT count() FROM v1, u';
  const analysis = await world.analyze(sql);
  assert.equal((await world.analyze(sql)).token, analysis.token);
  const execute = () =>
    world.engine.execute(world.statement(sql), {
      analysis,
      numbers: 'number',
      timeoutMs: 30_000,
      resultPath: join(spool, 'stale'),
      pageBytesMax: 1000,
      signal,
    });
  await execute();
  await world.raw('ALTER TABLE `shop__main`.`t` ADD COLUMN later Nullable(Int32)');
  await assert.rejects(execute, StaleAnalysis);
  const changed = await world.analyze(sql);
  await world.raw('CREATE OR REPLACE VIEW `shop__main`.`v1` AS SELECT id, v AS k FROM `shop__main`.`secret` AS secret');
  const replaced = await world.analyze(sql);
  assert.notEqual(replaced.token, changed.token);
  assert.deepEqual(replaced.reads.map(({ table: name }) => name).sort(), ['secret', 'u']);
});

test('a statement on one table does not run after any change of the definition', { skip: missingRing }, async () => {
  const stored = '`shop__main`.`one`';
  const sql = 'SELECT * FROM one';
  const create = (columns: string) =>
    world.raw(
      `CREATE OR REPLACE TABLE ${stored} (${columns}) ENGINE = MergeTree ORDER BY id COMMENT 'it''s (one,  two)'`,
    );
  await create('id Int64, n Nullable(Int32) DEFAULT 1 + 1');
  const analysis = await world.analyze(sql);
  const execute = () =>
    world.engine.execute(world.statement(sql), {
      analysis,
      numbers: 'number',
      timeoutMs: 30_000,
      resultPath: join(spool, 'one'),
      pageBytesMax: 1000,
      signal,
    });
  // The second confirmation compares texts that the first one has compared by their parts.
  for (let time = 0; time < 3; time++) assert.equal((await execute()).rowCount, 0);
  for (const change of [
    `ALTER TABLE ${stored} MODIFY COMMENT 'it''s (one, two)'`,
    `ALTER TABLE ${stored} MODIFY COLUMN n DEFAULT 1 + 2`,
    `RENAME TABLE ${stored} TO \`shop__main\`.\`other\``,
    `CREATE VIEW ${stored} AS SELECT * FROM \`shop__main\`.\`other\``,
  ]) {
    await world.raw(change);
    await assert.rejects(execute, StaleAnalysis, change);
  }
  await world.raw(`DROP VIEW ${stored}`);
  await create('id Int64, n Nullable(Int32) DEFAULT 1 + 1');
  assert.equal((await execute()).rowCount, 0);
});

test('definitions are the same if they differ only in white space', () => {
  const line = "CREATE TABLE a.b (`id` Int64 DEFAULT f('x  y', 1), `two words` String) ENGINE = MergeTree ORDER BY id";
  const lines =
    "CREATE TABLE a.b\n(\n    `id` Int64 DEFAULT f('x  y', 1),\n    `two words` String\n)\nENGINE = MergeTree\nORDER BY id\n";
  assert.ok(isSameStatement(line, lines));
  for (const [from, to] of [
    ['x  y', 'x y'],
    ['two words', 'two  words'],
    ['Int64', 'Int32'],
    ['ORDER BY id', 'ORDER BYid'],
    ["'x  y'", '`x  y`'],
    [', 1', ''],
  ] as const)
    assert.ok(!isSameStatement(line, lines.replace(from, to)), to);
});
