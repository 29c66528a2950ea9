// A statement can use the tables that its text names, as the analysis reports them, and nothing else of the file.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { admissionRequest } from '../../admission_request.ts';
import { failureOf, openEngine } from '../../conformance/engine/engine_world.ts';
import { newSqliteEngine } from './sqlite.ts';

const world = await openEngine({}, newSqliteEngine());
after(() => world.close());
await world.table('t', { a: 'INT', b: 'STRING' });
await world.table('u', { a: 'INT' });

const analyze = async (sql: string) => {
  const { kind, reads, writes } = await world.engine.analyze(world.statement(sql), admissionRequest);
  const namesOf = (names: typeof reads) => names.map(({ table }) => table).sort();
  return [kind, namesOf(reads), namesOf(writes)];
};

for (const [sql, ...expected] of [
  ['SELECT count(*) FROM t', 'select', ['t'], []],
  ['SELECT t.a FROM t JOIN u ON t.a = u.a', 'select', ['t', 'u'], []],
  ['SELECT x.a FROM t AS x, u', 'select', ['t', 'u'], []],
  ['WITH u AS (SELECT a FROM t) SELECT a FROM u', 'select', ['t'], []],
  ['SELECT a FROM t WHERE a IN (SELECT a FROM u) ORDER BY (SELECT max(a) FROM u)', 'select', ['t', 'u'], []],
  ['DELETE FROM t WHERE a = (SELECT max(a) FROM u)', 'delete', ['t', 'u'], ['t']],
  ['UPDATE t SET a = u.a FROM u WHERE t.a = u.a', 'update', ['t', 'u'], ['t']],
  ['INSERT INTO t (a) SELECT a FROM u WHERE true ON CONFLICT DO NOTHING', 'insert', ['u'], ['t']],
] as const)
  test(sql, async () => assert.deepEqual(await analyze(sql), expected));

for (const [sql, code] of [
  ['SELECT * FROM sqlite_master', 'SQL_INVALID'],
  ['SELECT a FROM t WHERE a IN sqlite_master', 'SQL_INVALID'],
  ['SELECT a FROM t WHERE a IN steps', 'SQL_INVALID'],
  ['SELECT a FROM t WHERE a IN t_2', 'SQL_INVALID'],
  ['SELECT * FROM tables', 'SQL_INVALID'],
  ['SELECT * FROM pragma_table_list', 'SQL_INVALID'],
  ["SELECT * FROM pragma_table_info('tables')", 'SQL_INVALID'],
  ["SELECT load_extension('x')", 'SQL_FORBIDDEN_FUNCTION'],
  ['SELECT a FROM t; DELETE FROM t', 'SQL_INVALID'],
  ['DROP TABLE t', 'SQL_NOT_SUPPORTED'],
  ["ATTACH 'x' AS y", 'SQL_NOT_SUPPORTED'],
  ['PRAGMA writable_schema = 1', 'SQL_NOT_SUPPORTED'],
] as const)
  test(`${sql} is refused`, async () => assert.equal((await failureOf(world.run(sql))).code, code));
