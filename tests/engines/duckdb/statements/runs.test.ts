// Statements on DuckDB through the port: results and positions of errors. See reach.test.ts for refusals.
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { StaleAnalysis, type StatementParameters } from '../../../../src/engines/port/statements.ts';
import { Failure } from '../../../../src/standard/failure.ts';
import { admissionRequest } from '../../../admission_request.ts';
import { plain } from '../../../table_definition.ts';
import { codeOf, openWarehouse, type TestWarehouse, textOf } from '../engine_process.ts';

let warehouse: TestWarehouse;
before(async () => {
  warehouse = await openWarehouse();
  await warehouse.createTable('t', { id: 'INT', name: 'STRING', doc: 'JSON', amount: 'DECIMAL(18,2)' }, ['id']);
  await warehouse.run(`INSERT INTO t VALUES (1, 'a', '{"x":[1,2]}', 1.50), (2, 'b', NULL, 2)`);
});
after(() => warehouse.close());

test('a select returns names, logical types and rows, the same at the first run and later', async () => {
  const columns = [
    { name: 'id', type: 'INT' },
    { name: 'name', type: 'STRING' },
    { name: 'doc', type: 'JSON' },
    { name: 'amount', type: 'DECIMAL(18,2)' },
  ];
  for (let run = 0; run < 3; run++) {
    const result = await warehouse.run('SELECT * FROM t ORDER BY id');
    assert.deepEqual(result.columns, columns);
    assert.equal(textOf(result), '[1,"a",{"x":[1,2]},1.50],\n[2,"b",null,2.00]');
    assert.equal(result.rowCount, 2);
    assert.equal(result.truncated, false);
  }
});

test('values of every type have the same text from a file and from memory', async () => {
  const values = [
    `true, 1::TINYINT, -2::SMALLINT, 3::INTEGER, 9007199254740993::BIGINT, 170141183460469231731687303715884105727::HUGEINT`,
    `0.1::FLOAT, 1.0::DOUBLE, -0.0::DOUBLE, 1e16::DOUBLE, 1e300::DOUBLE, 5e-324::DOUBLE, 'nan'::DOUBLE, '-inf'::DOUBLE, 1.50::DECIMAL(38,2)`,
    `'2026-01-31'::DATE, '0044-03-15 (BC)'::DATE, '2026-01-31 10:00:00.123456'::TIMESTAMP, '1969-12-31 23:59:59.5'::TIMESTAMP`,
    `'infinity'::TIMESTAMP, '-infinity'::TIMESTAMPTZ, '2026-01-31 10:00:00+02'::TIMESTAMPTZ, uuid '00000000-0000-0000-0000-000000000001'`,
    `'a"b\\c' || chr(10) || chr(1) || '🦆', 'x'::BLOB, '{"a": 1}'::JSON, [1, NULL], {'a': 1.5, 'b': [true]}, map {'k': 1}`,
    `'x'::ENUM('x', 'y'), INTERVAL 1 DAY, 7::UTINYINT, TIME '10:00', NULL`,
  ];
  for (const list of values) {
    const sql = `SELECT ${list} FROM range(3)`;
    const [first, second, third] = [await warehouse.run(sql), await warehouse.run(sql), await warehouse.run(sql)];
    assert.equal(textOf(second), textOf(first), list);
    assert.equal(textOf(third), textOf(first), list);
    assert.deepEqual(second.columns, first.columns);
    assert.equal(JSON.parse(`[${textOf(first)}]`).length, 3);
    const asStrings = [
      await warehouse.run(sql, { numbers: 'string' }),
      await warehouse.run(sql, { numbers: 'string' }),
    ];
    assert.equal(textOf(asStrings[1]!), textOf(asStrings[0]!), list);
  }
  assert.equal(
    textOf(await warehouse.run('SELECT 9007199254740993, 1.50', { numbers: 'string' })),
    '["9007199254740993","1.50"]',
  );
});

test('the text can end with a semicolon or a comment, and columns can share a name', async () => {
  for (const end of ['', ';', ' ; ', ' -- c', '; -- c', ' /* ; */', ';/* a /* b */ ; */', '\u00a0']) {
    assert.equal(textOf(await warehouse.run(`SELECT 1 AS a, 2 AS a${end}`)), '[1,2]', JSON.stringify(end));
  }
  assert.deepEqual(
    (await warehouse.run('SELECT 1 AS a, 2 AS a')).columns.map((column) => column.name),
    ['a', 'a'],
  );
  for (const sql of [
    'FROM t SELECT id ORDER BY id',
    'VALUES (1), (2)',
    '(SELECT 1 AS x) UNION ALL (SELECT 2) ORDER BY x',
    'WITH q AS (SELECT id FROM t) TABLE q ORDER BY 1',
  ]) {
    assert.equal(textOf(await warehouse.run(sql)), '[1],\n[2]', sql);
  }
  assert.equal(
    textOf(await warehouse.run(`SELECT $$;--'$$, 'it''s', E'\\'', "id" FROM t WHERE id = 1`)),
    `[";--'","it's","'",1]`,
  );
});

test('parameters are bound by position and by name, exactly', async () => {
  const raw = (text: string) => JSON.rawJSON(text);
  const cases: [string, StatementParameters, string][] = [
    ['SELECT $1', [1], '[1]'],
    ['SELECT $1, $2, $1', ['x', null], '["x",null,"x"]'],
    ['SELECT ?, ?', [true, 1.5], '[true,1.5]'],
    ['SELECT $b, $a', { a: 1, b: 'two' }, '["two",1]'],
    ['SELECT $1 + 1', [2], '[3]'],
    ['SELECT $1', [raw('9007199254740993')], '[9007199254740993]'],
    ['SELECT $1', [raw('170141183460469231731687303715884105727')], '[170141183460469231731687303715884105727]'],
    [
      'SELECT $1::DECIMAL(38,20)',
      [raw('12345678901234567.12345678901234567890')],
      '[12345678901234567.12345678901234567890]',
    ],
    ['SELECT name FROM t WHERE id = $1', [2], '["b"]'],
    ['SELECT name FROM t WHERE id = $1', [5_000_000_000], ''],
    ['SELECT $1::DATE + 1', ['2026-01-31'], '["2026-02-01"]'],
    ['SELECT $1', ["'; DROP TABLE t; --"], `["'; DROP TABLE t; --"]`],
    ['SELECT len($1::INTEGER[])', [[1, 2, 3]], '[3]'],
    ['SELECT id FROM t ORDER BY id LIMIT $1', [1], '[1]'],
  ];
  for (const [sql, parameters, expected] of cases) {
    for (let run = 0; run < 2; run++) assert.equal(textOf(await warehouse.run(sql, { parameters })), expected, sql);
  }
  // The type of a column can depend on that of a parameter.
  assert.equal(textOf(await warehouse.run('SELECT $1', { parameters: ['now a text'] })), '["now a text"]');
  for (const parameters of [undefined, [], [1, 2], { a: 1 }, { '1': 1, b: 2 }] as (StatementParameters | undefined)[]) {
    assert.equal(await codeOf(warehouse.run('SELECT name FROM t WHERE id = $1', { parameters })), 'PARAMETERS_INVALID');
  }
  assert.equal(await codeOf(warehouse.run('SELECT $a::INT', { parameters: { b: 1 } })), 'PARAMETERS_INVALID');
});

test('an analysis reports the tables that a statement reads and writes', async () => {
  const t = { catalog: 'lake', database: 'd', table: 't' };
  const columnsOf = async (sql: string) => {
    const { kind, reads, writes } = await warehouse.engine.analyze(warehouse.statement(sql), admissionRequest);
    return { kind, reads, writes };
  };
  assert.deepEqual(await columnsOf('SELECT 1'), { kind: 'select', reads: [], writes: [] });
  assert.deepEqual(await columnsOf('SELECT (SELECT max(id) FROM lake.d.t) WHERE EXISTS (FROM t)'), {
    kind: 'select',
    reads: [t],
    writes: [],
  });
  assert.deepEqual(await columnsOf('INSERT INTO t (id) VALUES (7)'), { kind: 'insert', reads: [], writes: [t] });
  const upsert = await columnsOf(`INSERT INTO t (id) VALUES (7) ON CONFLICT (id) DO UPDATE SET name = 'x'`);
  assert.deepEqual([upsert.kind, upsert.writes], ['insert', [t]]);
  assert.deepEqual(await columnsOf('UPDATE t SET name = $1'), { kind: 'update', reads: [t], writes: [t] });
  assert.deepEqual(await columnsOf('WITH x AS (SELECT 1) DELETE FROM t WHERE id IN (FROM x)'), {
    kind: 'delete',
    reads: [t],
    writes: [t],
  });
  assert.equal(
    (await columnsOf('MERGE INTO t USING (SELECT 1 AS id) u ON t.id = u.id WHEN MATCHED THEN DELETE')).kind,
    'merge',
  );
  // A common table expression can be named like a keyword of another statement.
  for (const [kind, sql] of [
    ['merge', 'WITH insert AS (SELECT 1 AS id) MERGE INTO t USING insert i ON t.id = i.id WHEN MATCHED THEN DELETE'],
    [
      'merge',
      'WITH a AS (SELECT 1 AS id), insert (id) AS (FROM a) MERGE INTO t USING a ON t.id = a.id WHEN MATCHED THEN DELETE',
    ],
    ['insert', 'WITH delete AS (SELECT 7 AS id) INSERT INTO t (id) SELECT id FROM delete ON CONFLICT DO NOTHING'],
    ['insert', 'WITH RECURSIVE delete(id) AS MATERIALIZED (SELECT 7) /* x */ INSERT OR IGNORE INTO t (id) FROM delete'],
    ['insert', ';INSERT OR IGNORE INTO t (id) VALUES (7)'],
  ] as const)
    assert.equal((await columnsOf(sql)).kind, kind, sql);
});

test('written rows are counted and returned, and written once for a step', async () => {
  await warehouse.createTable('written', { id: 'INT', doc: 'JSON' }, ['id']);
  const inserted = await warehouse.run('INSERT INTO written SELECT range, NULL FROM range(5)');
  assert.deepEqual(inserted.columns, [{ name: 'Count', type: 'BIGINT' }]);
  assert.deepEqual([inserted.rowCount, textOf(inserted)], [5, '[5]']);
  const returned = await warehouse.run(
    `UPDATE written SET doc = '{"a": [1]}' WHERE id = 3 RETURNING id, doc, id * 1.5 AS x`,
  );
  assert.deepEqual(
    returned.columns.map((column) => column.type),
    ['INT', 'JSON', 'DECIMAL(12,1)'],
  );
  assert.equal(textOf(returned), '[3,{"a": [1]},4.5]');
  assert.equal(textOf(await warehouse.run('DELETE FROM written WHERE id > 100 RETURNING id')), '');
  assert.equal((await warehouse.run('INSERT INTO written (id) VALUES (50)', { step: 's1' })).repeated ?? false, false);
  assert.equal((await warehouse.run('INSERT INTO written (id) VALUES (51)', { step: 's1' })).repeated, true);
  assert.deepEqual(await warehouse.rows('SELECT id FROM written WHERE id >= 50'), [[50]]);
  assert.equal(
    await codeOf(warehouse.run('INSERT INTO written (id) VALUES (60), (1)', { step: 's2' })),
    'CONSTRAINT_VIOLATED',
  );
  assert.equal((await warehouse.run('INSERT INTO written (id) VALUES (60)', { step: 's2' })).rowCount, 1);
  const names = warehouse.engine.takeChangedTables().map(({ table }) => table);
  assert.ok(names.includes('written'), names.join());
  assert.deepEqual(warehouse.engine.takeChangedTables(), []);
});

test('writers of the same rows wait for each other', async () => {
  await warehouse.createTable('counter', { id: 'INT', n: 'INT' }, ['id']);
  await warehouse.run('INSERT INTO counter VALUES (1, 0)');
  await Promise.all(Array.from({ length: 8 }, () => warehouse.run('UPDATE counter SET n = n + 1 WHERE id = 1')));
  assert.deepEqual(await warehouse.rows('SELECT n FROM counter'), [[8]]);
});

test('pages are split between rows, and rows keep their order', async () => {
  const pageBytesMax = 100_000;
  const sql = `SELECT range AS n, repeat('x', (range % 50)::INT) AS s FROM range(30000) ORDER BY range DESC`;
  for (const rowsMax of [undefined, 20_000]) {
    const result = await warehouse.run(sql, { pageBytesMax, rowsMax });
    assert.equal(result.rows.kind, 'file');
    if (result.rows.kind !== 'file') return;
    const { path, offsets } = result.rows;
    const bytes = readFileSync(path);
    assert.equal(offsets[0], 0);
    assert.equal(offsets.at(-1), bytes.length);
    const values: number[] = [];
    for (let page = 0; page + 1 < offsets.length; page++) {
      const text = bytes.toString('utf8', offsets[page], offsets[page + 1]);
      assert.ok(text.length < pageBytesMax + 200, String(text.length));
      for (const [n] of JSON.parse(`[${text.replace(/,\n$/, '')}]`)) values.push(n);
    }
    const expected = Array.from({ length: rowsMax ?? 30_000 }, (_, i) => 29_999 - i);
    assert.deepEqual(values, expected);
    assert.equal(result.rowCount, expected.length);
    assert.equal(result.truncated, rowsMax !== undefined);
  }
  const small = 'SELECT range FROM range(10)';
  for (const rowsMax of [3, 3, 10, 11, 0]) {
    const result = await warehouse.run(small, { rowsMax });
    assert.deepEqual([result.rowCount, result.truncated], [Math.min(rowsMax, 10), rowsMax < 10], String(rowsMax));
  }
  const failed = await codeOf(
    warehouse.run(`SELECT 'x'::INT + range FROM range(5)`, { resultPath: `${warehouse.root}/spool/none` }),
  );
  assert.equal(failed, 'SQL_INVALID');
  assert.equal(existsSync(`${warehouse.root}/spool/none.rows`), false);
});

test('a result of many row groups is the same, and in order, when it is run again', async () => {
  const rowCount = 400_000;
  await warehouse.createTable('wide', { id: 'INT', filler: 'STRING' });
  await warehouse.run(`INSERT INTO wide SELECT range, repeat('x', 80) FROM range(${rowCount})`);
  const sql = `SELECT id, filler, CASE WHEN id = ? THEN error('stop') END FROM wide`;
  const run = async (failingId: number) => {
    const result = await warehouse.run(sql, { parameters: [failingId] });
    assert.ok(result.rows.kind === 'file');
    assert.deepEqual([result.rowCount, result.rows.firstRows.at(-1)], [rowCount, rowCount]);
    return readFileSync(result.rows.path, 'utf8');
  };
  const first = await run(-1);
  assert.ok(first.length > 36_000_000, 'it does not fit in the buffer of a stream');
  let id = 0;
  for (let at = 0; at < first.length; at = first.indexOf('\n', at) + 1, id++)
    assert.ok(first.startsWith(`[${id},`, at), `row ${id}`);
  assert.equal(id, rowCount);
  for (let again = 0; again < 2; again++) assert.ok((await run(-1)) === first, 'the same bytes');
  const failed = await codeOf(warehouse.run(sql, { parameters: [rowCount - 1000] }));
  assert.equal(failed, 'SQL_INVALID');
});

test('errors contain the position in characters, and no internals', async () => {
  const cases: [string, number, number][] = [
    ['selec 1', 1, 1],
    ['SELECT nosuch FROM t', 1, 8],
    [`SELECT 'é🦆', nosuch FROM t`, 1, 14],
    ['SELECT 1,\n  nosuch\nFROM t', 2, 3],
    [`SELECT 'abc`, 1, 8],
    [`SELECT id,\n  (name || 'x')::INT FROM t`, 2, 16],
  ];
  for (const [sql, line, column] of cases) {
    const failure = await warehouse.run(sql).then(
      () => assert.fail(sql),
      (error: Failure) => error,
    );
    assert.ok(failure instanceof Failure, String(failure));
    assert.deepEqual(
      [failure.code, failure.result.line, failure.result.column],
      ['SQL_INVALID', line, column],
      `${sql}: ${failure.message}`,
    );
    assert.doesNotMatch(failure.message, /LINE \d|\/tmp|\.duckdb|Did you mean/);
  }
  for (const sql of [
    `SELECT error('/etc/passwd.csv')`,
    'SELECT * FROM nosuch',
    `SELECT * FROM '${warehouse.root}/catalogs/${warehouse.catalog.id}.duckdb'`,
  ]) {
    await assert.rejects(
      warehouse.run(sql),
      (error: Failure) =>
        /^SQL_(?:INVALID|NOT_SUPPORTED)$/.test(error.code) && !/etc\/passwd|tmp\/tabularium|"t"/.test(error.message),
    );
  }
  await assert.rejects(warehouse.run(`SELECT '2020/13/45'::DATE`), /2020\/13\/45/);
});

test('after a change of definitions a select sees new columns, and a statement on a changed table is analyzed again', async () => {
  const { signal } = new AbortController();
  await warehouse.createTable('grows', { a: 'INT' });
  await warehouse.run('INSERT INTO grows VALUES (1)');
  const sql = 'SELECT * FROM grows';
  for (let run = 0; run < 2; run++) assert.equal(textOf(await warehouse.run(sql)), '[1]');
  const statement = warehouse.statement(sql);
  const options = {
    numbers: 'number' as const,
    timeoutMs: 10_000,
    signal,
    resultPath: `${warehouse.root}/spool/g`,
    pageBytesMax: 1e6,
  };
  const analysis = await warehouse.engine.analyze(statement, admissionRequest);
  await warehouse.createTable('another', { a: 'INT' });
  assert.equal(textOf(await warehouse.engine.execute(statement, { ...options, analysis })), '[1]');
  const from = {
    columns: [{ name: 'a', type: { kind: 'INT' as const }, nullable: true }],
    ...plain,
  };
  const to = { ...from, columns: [...from.columns, { name: 'b', type: { kind: 'STRING' as const }, nullable: true }] };
  await warehouse.apply({
    kind: 'alterTable',
    table: { catalog: warehouse.catalog, database: 'd', table: 'grows' },
    from,
    to,
    renamedColumns: {},
  });
  await assert.rejects(warehouse.engine.execute(statement, { ...options, analysis }), StaleAnalysis);
  for (let run = 0; run < 3; run++) assert.equal(textOf(await warehouse.run(sql)), '[1,null]');
});

test('explain shows the plan and runs nothing', async () => {
  assert.match(await warehouse.engine.explain(warehouse.statement('SELECT * FROM t WHERE id = $1', [1])), /SCAN/);
  assert.match(await warehouse.engine.explain(warehouse.statement('DELETE FROM t')), /DELETE/);
  assert.deepEqual(await warehouse.rows('SELECT count(*) FROM t'), [[2]]);
});
