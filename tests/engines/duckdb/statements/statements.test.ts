// Statements through the port on a real engine process: results of each kind, values and pages, parameters, positions of errors,
// steps. See refusals.test.ts for refusals.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { after, test } from 'node:test';
import { StaleAnalysis, type StatementResult } from '../../../../src/engines/port/statements.ts';
import { parseJson } from '../../../../src/standard/json/parse_json.ts';
import { admissionRequest } from '../../../admission_request.ts';
import { failureOf, openEngine, type RunOptions } from '../../../conformance/engine/engine_world.ts';

const world = await openEngine();
const { run, engine, catalog, database } = world;
after(() => world.close());
const table = { catalog, database, table: 't' };
const definition = await world.table('t', { id: 'BIGINT', name: 'STRING', v: 'DOUBLE' }, { primaryKey: ['id'] });
await run(`INSERT INTO t SELECT range, 'n' || range, range / 2 FROM range(10)`);

function textOf({ rows }: StatementResult): string {
  if (rows.kind === 'text') return rows.text;
  const content = readFileSync(rows.path);
  assert.equal(rows.offsets.at(-1), content.length);
  const pages = rows.offsets.slice(0, -1).map((from, i) => content.subarray(from, rows.offsets[i + 1]).toString());
  const { firstRows } = rows;
  for (const [i, page] of pages.entries()) {
    const parsed = JSON.parse(`[${page.replace(/,\s*$/, '')}]`) as unknown[];
    assert.equal(parsed.length, (firstRows[i + 1] ?? 0) - (firstRows[i] ?? 0));
  }
  return pages.join('').replace(/,\n$/, '');
}
async function rowsOf(sql: string, options: RunOptions = {}): Promise<unknown[]> {
  return parseJson(`[${textOf(await run(sql, options))}]`) as unknown[];
}

test('each kind of statement returns its rows or the number of changed rows', async () => {
  const cases: [string, string, number][] = [
    ['SELECT id, name FROM t WHERE id < 2 ORDER BY id DESC', '[1,"n1"],\n[0,"n0"]', 2],
    ['SELECT id FROM t WHERE false', '', 0],
    ['VALUES (1, NULL), (2, true)', '[1,null],\n[2,true]', 2],
    ['FROM t SELECT count(*)', '[10]', 1],
    ['WITH x AS (SELECT 1 AS a) SELECT * FROM x', '[1]', 1],
    ['INSERT INTO t VALUES (100, NULL, 1), (101, NULL, 2)', '[2]', 2],
    ['INSERT INTO t VALUES (100, NULL, 7) ON CONFLICT DO UPDATE SET v = 7', '[1]', 1],
    ['UPDATE t SET v = v + 1 WHERE id >= 100 RETURNING id, v', '[100,8.0],\n[101,3.0]', 2],
    ['MERGE INTO t USING (SELECT 100 AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = 9', '[1]', 1],
    [
      'MERGE INTO t USING (SELECT 101 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE RETURNING merge_action',
      '["DELETE"]',
      1,
    ],
    ['WITH x AS (SELECT 102 AS a) INSERT INTO t SELECT a, NULL, 1 FROM x', '[1]', 1],
    ['DELETE FROM t WHERE id = 5000 RETURNING *', '', 0],
    ['DELETE FROM t WHERE id >= 100', '[2]', 2],
    ['DELETE FROM t WHERE id >= 100', '[0]', 0],
  ];
  for (const [sql, text, rowCount] of cases) {
    const result = await run(sql);
    assert.deepEqual([textOf(result), result.rowCount, result.truncated], [text, rowCount, false], sql);
    if (!/^(?:SELECT|VALUES|FROM|DELETE FROM t WHERE id = )/.test(sql)) continue;
    assert.deepEqual(await run(sql), result, 'the second time from memory, the same');
  }
  assert.deepEqual(
    (await run('SELECT 1 AS a, 2 AS a, 3 AS "A"')).columns.map(({ name }) => name),
    ['a', 'a', 'A'],
  );
});

test('text around a statement, such as comments, does not matter', async () => {
  for (const sql of [
    'SELECT 1;',
    'SELECT 1 ;; -- end',
    '/* a /* b; */ c; */ SELECT 1 -- x;',
    'SELECT 1\u00a0;',
    '(SELECT 1)',
    'SELECT $é$;$é$ = $$;$$ OR 1;',
    "SELECT E'\\';' = ''';' ;",
    'SELECT 1 AS "a;""b";',
  ])
    assert.match(textOf(await run(sql)), /^\[(?:1|true)\]$/, sql);
});

test('values of every type, with wide numbers in the requested form', async () => {
  const sql = `SELECT true, 1::TINYINT, 9007199254740993, 170141183460469231731687303715884105727::HUGEINT, 1.50, 'NaN'::DOUBLE, 0.1::FLOAT,
    DATE '2026-01-31', TIMESTAMP '2026-01-31 10:00:00.5', TIMESTAMPTZ '2026-01-31 10:00:00+02', 'a"\n\u2028😀', '\\xAA'::BLOB, '{"a": [1,2]}'::JSON,
    [1, NULL], {'a': 1::BIGINT}, MAP {'k': 1}, uuid 'f81d4fae-7dec-11d0-a765-00a0c91e6bf6', INTERVAL 1 DAY, NULL`;
  const shared = `"2026-01-31","2026-01-31T10:00:00.5","2026-01-31T08:00:00Z","a\\"\\n\u2028😀","qg==",{"a": [1,2]},[1,null]`;
  const rest = `[{"key":"k","value":1}],"f81d4fae-7dec-11d0-a765-00a0c91e6bf6","1 day",null]`;
  for (const _ of [1, 2]) {
    assert.equal(
      textOf(await run(sql)),
      `[true,1,9007199254740993,170141183460469231731687303715884105727,1.50,"NaN",0.1,${shared},{"a":1},${rest}`,
    );
    assert.equal(
      textOf(await run(sql, { numbers: 'string' })),
      `[true,1,"9007199254740993","170141183460469231731687303715884105727","1.50","NaN",0.1,${shared},{"a":"1"},${rest}`,
    );
  }
});

test('the pages together are the whole result, in its order', async () => {
  const sql = `SELECT range AS a, 'é' || chr(10) || repeat('x', range % 50) AS b FROM range(60000) ORDER BY a DESC`;
  for (const pageBytesMax of [1000, 65_536, 400_000]) {
    const result = await run(sql, { pageBytesMax });
    assert.equal(result.rowCount, 60_000);
    const rows = parseJson(`[${textOf(result)}]`) as [number, string][];
    assert.ok(rows.every(([a], i) => a === 59_999 - i));
  }
  // A row larger than a page is a page of its own; a result that was small can be large with other parameters.
  const large = await run(`SELECT repeat('a', 300000) FROM range(3)`, { pageBytesMax: 100_000 });
  assert.deepEqual(large.rows.kind === 'file' && large.rows.offsets, [0, 300_006, 600_012, 900_018]);
  assert.deepEqual(large.rows.kind === 'file' && large.rows.firstRows, [0, 1, 2, 3]);
  const growingQuery = 'SELECT range FROM range(100000) LIMIT $1';
  assert.equal((await run(growingQuery, { parameters: [1] })).rowCount, 1);
  assert.equal((await rowsOf(growingQuery, { parameters: [90_000] })).length, 90_000);
  const wide = await run(`SELECT ${Array.from({ length: 2000 }, (_, i) => `${i} AS c${i}`)}`);
  assert.equal((JSON.parse(textOf(wide)) as unknown[]).length, wide.columns.length);
});

test('rowsMax truncates the result and reports that', async () => {
  for (const _ of [1, 2]) {
    for (const [rowsMax, count, truncated] of [
      [0, 0, true],
      [3, 3, true],
      [10, 10, false],
      [11, 10, false],
    ] as const) {
      const result = await run('SELECT id FROM t ORDER BY id', { rowsMax });
      assert.deepEqual([result.rowCount, result.truncated], [count, truncated]);
      assert.deepEqual(
        parseJson(`[${textOf(result)}]`),
        Array.from({ length: count }, (_, i) => [i]),
      );
    }
  }
  const result = await run('SELECT range FROM range(50000)', { rowsMax: 40_000, pageBytesMax: 1000 });
  assert.deepEqual(
    [result.rowCount, result.truncated, Array.isArray(parseJson(`[${textOf(result)}]`))],
    [40_000, true, true],
  );
});

const raw = (text: string) => (JSON as unknown as { rawJSON: (text: string) => unknown }).rawJSON(text);

test('parameters are bound by position and by name, each to the expected type', async () => {
  const cases: [string, RunOptions['parameters'], string][] = [
    ['SELECT $2::INT - $1::INT', [1, 3], '[2]'],
    ['SELECT ?::INT - ?::INT', [1, 3], '[-2]'],
    ['SELECT $a::INT + $A::INT', { a: 2 }, '[4]'],
    ['SELECT name FROM t WHERE id = $1', [3], '["n3"]'],
    ['SELECT name FROM t WHERE id = $1', ['3'], '["n3"]'],
    ['SELECT count(*) FROM t WHERE id = $1', [null], '[0]'],
    ['SELECT count(*) FROM t WHERE list_contains($1::BIGINT[], id)', [[1, 2, null]], '[2]'],
    [`SELECT DATE '2026-02-01' > $1`, ['2026-01-31'], '[true]'],
    [
      'SELECT $1::HUGEINT',
      [raw('170141183460469231731687303715884105727')],
      '[170141183460469231731687303715884105727]',
    ],
    ['SELECT $1::DECIMAL(38,10)', [raw('1234567890123456789.5')], '[1234567890123456789.5000000000]'],
    ['SELECT $1::UBIGINT', [raw('18446744073709551615')], '[18446744073709551615]'],
    ['SELECT $1::DOUBLE', [1e50], '[1e50]'],
    ['SELECT $1::DOUBLE', [-2.5], '[-2.5]'],
    ['SELECT $1::BIGINT[]', [[null, 1, 99999999999]], '[[null,1,99999999999]]'],
    ['SELECT $1::DOUBLE[]', [[1, 2.5, null]], '[[1.0,2.5,null]]'],
    ['SELECT $1::INT[]', [[]], '[[]]'],
    ['SELECT $1::INT[]', [[null]], '[[null]]'],
    ['SELECT $1::VARCHAR[]', [['a', 'b']], '[["a","b"]]'],
    ['SELECT $1::BOOLEAN', [true], '[true]'],
    [`SELECT $1::VARCHAR`, [`'); DROP TABLE t; -- é😀`], `["'); DROP TABLE t; -- é😀"]`],
    ['SELECT 1', [], '[1]'],
    ['SELECT id FROM t ORDER BY id LIMIT $1 OFFSET $2', [1, 4], '[4]'],
  ];
  for (const [sql, parameters, text] of [...cases, ...cases])
    assert.equal(textOf(await run(sql, { parameters })), text, sql);
  const wrong: [string, RunOptions['parameters'] | undefined][] = [
    ['SELECT $1::INT', undefined],
    ['SELECT $1::INT', []],
    ['SELECT $1::INT', [1, 2]],
    ['SELECT 1', [1]],
    ['SELECT $a::INT', { b: 1 }],
    ['SELECT $a::INT', { a: 1, b: 1 }],
    ['SELECT $a::INT', [1]],
    ['SELECT $1::DOUBLE', [raw('1e400')]],
    ['SELECT $1::BIGINT[]', [[1, 'a']]],
  ];
  for (const [sql, parameters] of wrong)
    assert.equal(
      (await failureOf(run(sql, parameters === undefined ? {} : { parameters }))).code,
      'PARAMETERS_INVALID',
      sql,
    );
});

test('an error contains the position in the text', async () => {
  const cases: [string, number, number, RegExp][] = [
    ['SELEC 1', 1, 1, /syntax error/],
    ['', 1, 1, /no statement/],
    ['-- nothing', 1, 1, /no statement/],
    ['SELECT\n  1,\n  nope\nFROM t', 3, 3, /"nope" not found/],
    [`SELECT 'ééé', nope FROM t`, 1, 15, /nope/],
    [`SELECT 'é' AS x,\n 'éé' || nope FROM t`, 2, 10, /nope/],
    [`SELECT '😀' AS x,\n '😀' || nope FROM t`, 2, 9, /nope/],
    [`SELECT '😀', 'x'::INT`, 1, 16, /Could not convert/],
    ['SELECT * FROM\n\n nope', 3, 2, /nope does not exist/],
    [`SELECT 1,\n 'x'::INT`, 2, 5, /Could not convert/],
    ['SELECT 1,\n name::INT FROM t', 2, 6, /Could not convert/],
    [`INSERT INTO t (id)\nVALUES ('abc')`, 2, 9, /Could not convert/],
    ['UPDATE t SET\n v = name', 2, 6, /Could not convert/],
  ];
  for (const [sql, line, column, message] of cases) {
    const failure = await failureOf(run(sql));
    assert.deepEqual(
      [failure.code, failure.result.line, failure.result.column],
      ['SQL_INVALID', line, column],
      `${sql}: ${failure.message}`,
    );
    assert.match(String(failure.result.engineMessage), message);
  }
  assert.equal((await failureOf(run('INSERT INTO t VALUES (1, NULL, NULL)'))).code, 'CONSTRAINT_VIOLATED');
  assert.match((await failureOf(run('SELECT 9223372036854775807 + id FROM t'))).message, /Overflow/);
  assert.deepEqual(await rowsOf('SELECT count(*) FROM t'), [[10]]);
});

test('a write with a step is applied once', async () => {
  const sql = 'UPDATE t SET v = v + 1 WHERE id = 1 RETURNING v';
  const first = await run(sql, { step: 's1' });
  assert.equal(first.repeated ?? false, false);
  assert.equal((await run(sql, { step: 's1' })).repeated, true);
  assert.deepEqual(await rowsOf('SELECT v FROM t WHERE id = 1'), [[1.5]]);
  assert.equal((await failureOf(run('INSERT INTO t VALUES (1, NULL, 0)', { step: 's2' }))).code, 'CONSTRAINT_VIOLATED');
  assert.equal((await run(sql, { step: 's2' })).repeated ?? false, false, 'what failed was not done');
});

test('concurrent writes of the same rows run one after the other', async () => {
  await Promise.all(Array.from({ length: 8 }, () => run('UPDATE t SET v = v + 1 WHERE id = 2')));
  assert.deepEqual(await rowsOf('SELECT v FROM t WHERE id = 2'), [[9]]);
});

test('an analysis is stale after its table changed', async () => {
  const statement = world.statement('SELECT count(*) FROM t');
  const requireStale = async (change: () => Promise<unknown>) => {
    const analysis = await engine.analyze(statement, admissionRequest);
    await run(statement.sql, { analysis });
    await change();
    await assert.rejects(run(statement.sql, { analysis }), StaleAnalysis);
  };
  await requireStale(() => world.change({ kind: 'renameTable', table, newName: 'u', definition }));
  await world.change({ kind: 'renameTable', table: { ...table, table: 'u' }, newName: 't', definition });
  const to = {
    ...definition,
    columns: [...definition.columns, { name: 'w', type: { kind: 'INT' } as const, nullable: true }],
  };
  await requireStale(() => world.change({ kind: 'alterTable', table, from: definition, to, renamedColumns: {} }));
  assert.deepEqual(await rowsOf('SELECT w FROM t WHERE id = 1'), [[null]]);
  const analysis = await engine.analyze(world.statement('DELETE FROM t'), admissionRequest);
  await world.change({ kind: 'dropTable', table });
  await assert.rejects(run('DELETE FROM t', { analysis }), StaleAnalysis);
  assert.equal((await failureOf(run('SELECT 1 FROM t'))).code, 'SQL_INVALID');
});

test('failed statements leave no files', async () => {
  const before = readdirSync(world.spool).length;
  await failureOf(run(`SELECT CASE WHEN range = 900000 THEN error('x') ELSE repeat('a', 20) END FROM range(1000000)`));
  assert.equal(
    readdirSync(world.spool).filter((name) => name !== 'spill').length,
    before - (readdirSync(world.spool).includes('spill') ? 1 : 0),
  );
});
