// Statements that require more stack, time or memory than an engine process has: each is refused in time, whether its size is a
// constant, a parameter or a value of a row. Statements within the limits have the same results as without them.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { statementLimits as limits } from '../../../../src/engines/duckdb/sql/statement_limits.ts';
import type { StatementParameters } from '../../../../src/engines/port/statements.ts';
import { codeOf, openWarehouse, type TestWarehouse } from '../engine_process.ts';

let warehouse: TestWarehouse;
before(async () => {
  warehouse = await openWarehouse();
  await warehouse.createTable('t', { id: 'INT', deep: 'STRING', n: 'BIGINT' });
  await warehouse.run(
    `INSERT INTO t SELECT range, repeat('{"a":', 100000) || '1' || repeat('}', 100000), 2000000000 FROM range(2)`,
  );
});
after(() => warehouse.close());

const nested = (open: string, content: string, close: string, depth: number) =>
  open.repeat(depth) + content + close.repeat(depth);
const repeatText = (count: number, text: (i: number) => string, separator = ', ') =>
  Array.from({ length: count }, (_, i) => text(i)).join(separator);
const brackets = `repeat('[',100000)||repeat(']',100000)`;

async function requireRefused(statements: readonly (readonly [string, StatementParameters?])[]): Promise<void> {
  const before = warehouse.pid();
  for (const [sql, parameters] of statements) {
    const code = await codeOf(warehouse.run(sql, { parameters }));
    assert.match(code, /^SQL_(?:INVALID|NOT_SUPPORTED|FORBIDDEN_FUNCTION)$/, `${sql.slice(0, 120)}: ${code}`);
  }
  await warehouse.run('SELECT 1');
  assert.equal(warehouse.pid(), before, 'the process is the same');
}

test('very deeply nested JSON does not overflow the stack of the engine', () =>
  requireRefused([
    [`SELECT from_json('{}', ${brackets})`],
    [`SELECT json_transform_strict('{}', ${brackets})`],
    [`SELECT json_structure(${brackets})`],
    [`SELECT json_structure('${nested('[', '1', ']', 100_000)}')`],
    ['SELECT json_structure($1)', [nested('{"a":', '1', '}', 100_000)]],
    ['SELECT json_structure(deep) FROM t'],
    ['SELECT json_structure(deep::JSON) FROM t'],
    ['SELECT json_group_structure(deep::JSON) FROM t'],
    ['SELECT json_merge_patch(deep, deep) FROM t'],
    [`SELECT json_merge_patch('{}', '{}', '{}', ${brackets})`],
    ['SELECT json_pretty(deep) FROM t'],
    ['SELECT deep::JSON::VARIANT FROM t'],
    ['SELECT {a: [deep::JSON]}::VARIANT FROM t'],
    ['SELECT list_transform([deep], lambda x: json_structure(x)) FROM t'],
  ]));

test('sizes in the arguments of functions are limited, whether they are constants, parameters or values', () =>
  requireRefused([
    [`SELECT rpad('x', 2e9::INT, 'y')`],
    [`SELECT lpad('x', $1, 'y')`, [2_000_000_000]],
    [`SELECT max(rpad('x', n::INT, 'y')) FROM t`],
    [`SELECT bitstring('1', 1000000 * 2000)`],
    [`SELECT bitstring('1', n::INT) FROM t`],
    ['SELECT list_resize([1], 2000000000)'],
    ['SELECT array_resize([1], n, 7) FROM t'],
    [`SELECT repeat('x', n * 10) FROM t`],
    ['SELECT repeat([1], 2000000000)'],
    ['SELECT len(range(n)) FROM t'],
    ['SELECT len(generate_series(1, 10000000000))'],
    ['SELECT len(range(0, 100000000, 2))'],
    [`SELECT generate_series(TIMESTAMP '2000-01-01', TIMESTAMP '2020-01-01', INTERVAL 1 SECOND)`],
    [`SELECT levenshtein(repeat('ab', 1000000), repeat('ba', 1000000))`],
    [`SELECT format('{:2000000000}', 'x')`],
    [`SELECT format('{:.2000000000f}', 1.5)`],
    [`SELECT format('{{{0:>02000000000}}}', 1)`],
    [`SELECT format('{:{}}', 'x', 2000000000)`],
    [`SELECT format($1, n) FROM t`, ['{:2000000000}']],
    [`SELECT format('{:' || n || '}', id) FROM t`],
    [`SELECT format(repeat('{0:9999}', 100000), 1)`],
    [`SELECT printf('%2000000000d', 1)`],
    [`SELECT printf('%% %-+2000000000d', 1)`],
    [`SELECT printf('%1$.2000000000f', 1.5::DOUBLE)`],
    [`SELECT printf('%*d', 2000000000, 1)`],
    [`SELECT printf('%.*f', 2000000000, 1.5::DOUBLE)`],
    [`SELECT damerau_levenshtein(deep, deep) FROM t`],
  ]));

const largeTexts: StatementParameters = ['a'.repeat(1_000_000), 'b'.repeat(100_000)];
test('functions whose result is many times as large as their arguments are limited, whether they are constants, parameters or values', () =>
  requireRefused([
    [`SELECT replace(repeat('a', 1000000), 'a', repeat('b', 100000))`],
    [`SELECT replace($1, 'a', $2)`, largeTexts],
    [`SELECT length(replace(x, 'a', y)) FROM (SELECT $1 || id AS x, $2 || id AS y FROM t)`, largeTexts],
    [`SELECT list_transform([deep], lambda x: length(replace(x, '{', x))) FROM t`],
    [`SELECT regexp_replace($1, 'a', $2, 'g')`, largeTexts],
    [`SELECT regexp_replace(repeat('a', 1000000), '(a)', repeat('\\1', 100000), 'g')`],
    [`SELECT regexp_replace(deep, 'a', deep) FROM t`],
    [`SELECT repeat(repeat('x', 100000), 100000)`],
    ['SELECT repeat($1, n) FROM t', [largeTexts[0]]],
    ['SELECT repeat(range(1000000 + id), 100000) FROM t'],
    ['SELECT repeat([$1], 1000)', [largeTexts[0]]],
    ['SELECT list_select([deep], repeat([1], 1000000)) FROM t'],
    ['SELECT regexp_extract_all(deep, deep[1:2000]) FROM t'],
    ['SELECT string_split_regex($1, $2[1:5000])', largeTexts],
    [`SELECT timezone($1, now())`, [largeTexts[0]]],
    [`SELECT TIMESTAMP '2020-01-01' AT TIME ZONE deep FROM t`],
    ['SELECT make_timestamptz(2020, 1, 1, 1, 1, 1, deep) FROM t'],
  ]));

test('the original of a guarded function cannot be called', async () => {
  await requireRefused([
    [`SELECT system.main.rpad('x', 2000000000, 'y')`],
    [`SELECT system.rpad('x', 2000000000, 'y')`],
    [`SELECT "SYSTEM" /* */ . main . "rpad" ('x', 2000000000, 'y')`],
    [`SELECT main.rpad('x', 2000000000, 'y')`],
    [`SELECT temp.main.rpad('x', 2000000000, 'y')`],
  ]);
  const view = { catalog: warehouse.catalog, database: 'd', view: 'padded' };
  await warehouse.apply({ kind: 'createView', view, sql: `SELECT rpad('x', n::INT, 'y') AS p FROM t` });
  await requireRefused([['SELECT max(p) FROM padded']]);
});

test('without a caller, as in a view, functions about the caller are refused; columns of the same names can be read', async () => {
  for (const name of ['current_user', 'session_user', 'current_role', 'user', '"user"', 'USER', 'current_user()'])
    for (const sql of [
      `SELECT ${name}`,
      `SELECT id FROM t WHERE false AND ${name} = 'x'`,
      `SELECT list_transform([1], lambda x: ${name})`,
      `INSERT INTO t VALUES (9, ${name}, 1)`,
      `UPDATE t SET deep = ${name} || id`,
      `DELETE FROM t WHERE deep = (SELECT ${name})`,
    ])
      assert.equal(await codeOf(warehouse.run(sql)), 'SQL_FORBIDDEN_FUNCTION', sql);
  const from = `FROM (SELECT 'a' AS "user", 'b' AS current_user) GROUP BY ALL ORDER BY user`;
  assert.deepEqual(await warehouse.rows(`SELECT user, current_user ${from}`), [['a', 'b']]);
  assert.equal(await codeOf(warehouse.run(`SELECT error('the function "x" is not allowed')`)), 'SQL_INVALID');
});

test('statements that are disproportionately expensive to bind are refused before that', () =>
  requireRefused([
    [`SELECT ${'lambda x: '.repeat(64)} 1`],
    [`SELECT list_transform([1], ${'lambda x: '.repeat(64)} 1)`],
    [`SELECT ${nested('list_transform([1], lambda x: ', 'x', ')', 40)}`],
    [`SELECT ${nested('[', 'x', ' for x in [1]]', 40)}`],
    [`SELECT ${nested('list_transform([1], x -> ', 'x', ')', 40)}`],
    [`SELECT ${repeatText(60_000, () => '?')}`, Array.from({ length: 60_000 }, () => 1)],
    [`SELECT ${repeatText(50_000, String)}`],
    [`SELECT ${repeatText(4_000, () => '*')} FROM t`],
    [`SELECT count(*) FROM ${repeatText(2_000, (i) => `t t${i}`, ' JOIN ')}`],
    [`WITH ${repeatText(5_000, (i) => `c${i} AS (SELECT ${i})`)} SELECT 1`],
    [`SELECT count(*) FROM (VALUES ${repeatText(150_000, (i) => `(${i})`)})`],
    [`SELECT ${nested('(', '1', ')', 100_000)}`],
  ]));

test('statements within the limits have the same results as without guards', async () => {
  const rowsOf = (sql: string, parameters?: StatementParameters) => warehouse.rows(`SELECT ${sql}`, parameters);
  assert.deepEqual(
    await rowsOf(`rpad('x', 3, 'y'), lpad('x', $1, 'ab'), rpad(NULL, 3, 'y'), rpad('x', NULL, 'y')`, [4]),
    [['xyy', 'abax', null, null]],
  );
  assert.deepEqual(await rowsOf(`repeat('ab', 2), repeat([1], 2), repeat('a'::BLOB, 2)::VARCHAR, repeat(NULL, 2)`), [
    ['abab', [1, 1], 'aa', null],
  ]);
  assert.deepEqual(await rowsOf('range(2), range(1, 3), range(3, 0, -2), generate_series(1, 2)'), [
    [
      [0, 1],
      [1, 2],
      [3, 1],
      [1, 2],
    ],
  ]);
  assert.deepEqual(
    await rowsOf(
      `len(generate_series(DATE '2024-01-01', DATE '2024-03-01', INTERVAL 1 MONTH)), [x + 1 FOR x IN range(2)]`,
    ),
    [[3, [1, 2]]],
  );
  assert.deepEqual(await rowsOf(`list_resize([1], 2), list_resize([1], 2, 5), bitstring('1', 3)::VARCHAR`), [
    [[1, null], [1, 5], '001'],
  ]);
  assert.deepEqual(
    await rowsOf(`levenshtein('ab', 'b'), damerau_levenshtein('ab', 'ba'), round(jaro_similarity('a', 'a'))`),
    [[1, 1, 1]],
  );
  const json = nested('{"a":[', '"]]}}{{[["', ']}', limits.jsonDepth / 2);
  assert.deepEqual(
    await rowsOf('length(json_structure($1)) > 0, json_structure($2), json_merge_patch($2, $3)::VARCHAR', [
      json,
      '{"a": 1}',
      '{"b": 2}',
    ]),
    [[true, { a: 'UBIGINT' }, '{"a":1,"b":2}']],
  );
  assert.deepEqual(
    await rowsOf(`from_json('{"a": 1}', '{"a": "INT"}'), json_group_structure(j) FROM (SELECT '[1]'::JSON AS j)`),
    [[{ a: 1 }, ['UBIGINT']]],
  );
  assert.deepEqual(
    await rowsOf(
      `format('1234567 {0} {1:>4} {2:,} {1:.2f}', 'a', 2.5, 1234567), format('{{123456}} {}', $1), printf('100000%% %05d %-3s|', 42, $2)`,
      ['p', 'x'],
    ),
    [['1234567 a  2.5 1,234,567 2.50', '{123456} p', '100000% 00042 x  |']],
  );
  assert.deepEqual(await rowsOf(`format('x'), printf(NULL, 1), format('{}', ${repeatText(15, String)}, 15)`), [
    ['x', null, '0'],
  ]);
  assert.deepEqual(await warehouse.rows('SELECT count(*) FROM range(3), generate_series(1, 2)'), [[6]]);
  assert.deepEqual(
    await rowsOf(
      `replace('aba', 'a', $1), replace('ab', '', 'x'), replace(NULL, 'a', 'b'), ${nested('replace(', "'aa'", ", 'a', 'a')", 30)}`,
      ['xx'],
    ),
    [['xxbxx', 'ab', null, 'aa']],
  );
  assert.deepEqual(
    await warehouse.rows(
      `SELECT replace(max(deep)[1:5], min('a'), (SELECT 'z')), length(replace(max(deep), 'no such text', max(deep))) FROM t`,
    ),
    [['{"z":', 600_001]],
  );
  assert.deepEqual(
    await warehouse.rows(
      `SELECT replace(v, 'a', 'b') AS r, count(*) FROM (VALUES ('a'), ('b')) u(v) GROUP BY replace(v, 'a', 'b')`,
    ),
    [['b', 2]],
  );
  assert.deepEqual(
    await rowsOf(`regexp_replace('aba', 'a', 'x'), regexp_replace('aba', '(a)', '<\\1>', 'g'), regexp_extract_all('aba', 'a'),
      regexp_extract_all('aba', '(a)', 1, 'i'), string_split_regex('a1b', '[0-9]'), list_select(['a', 'b'], [2, 2])`),
    [['xba', '<a>b<a>', ['a', 'a'], ['a', 'a'], ['a', 'b'], ['b', 'b']]],
  );
  assert.deepEqual(
    await rowsOf(`(TIMESTAMPTZ '2020-01-01 00:00:00+00' AT TIME ZONE 'Europe/Berlin')::VARCHAR,
      left(timezone('UTC', TIMESTAMP '2020-01-01')::VARCHAR, 10), make_timestamptz(2020, 1, 1, 1, 1, 1, 'UTC') = make_timestamptz(1577840461000000)`),
    [['2020-01-01 01:00:00', '2020-01-01', true]],
  );
});
