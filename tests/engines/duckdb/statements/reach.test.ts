// What the DuckDB adapter refuses: statements other than queries, and functions that access more than values and tables, in any
// notation.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { DuckDBInstance } from '@duckdb/node-api';
import { reviewedFunctions } from '../../../../src/engines/duckdb/sql/function_allowlist.ts';
import type { Code } from '../../../../src/standard/codes.ts';
import type { Failure } from '../../../../src/standard/failure.ts';
import { codeOf, openWarehouse, type TestWarehouse } from '../engine_process.ts';

let warehouse: TestWarehouse;
before(async () => {
  warehouse = await openWarehouse();
  await warehouse.createTable('t', { id: 'INT', name: 'STRING', doc: 'JSON', amount: 'DECIMAL(18,2)' }, ['id']);
  await warehouse.run(`INSERT INTO t VALUES (1, 'a', '{"x":[1,2]}', 1.50), (2, 'b', NULL, 2)`);
});
after(() => warehouse.close());

test('statements other than queries are refused, whatever they would do', async () => {
  for (const sql of [
    'CREATE TABLE x (a INT)',
    '/* c */ CREATE OR REPLACE TABLE t AS SELECT 1',
    'CREATE VIEW v AS SELECT 1',
    'CREATE SECRET (TYPE s3)',
    'DROP TABLE t',
    'drop table nosuch',
    'ALTER TABLE t ADD COLUMN b INT',
    'TRUNCATE t',
    `COPY t TO '/tmp/x.csv'`,
    `COPY t FROM '/etc/passwd'`,
    `ATTACH '/tmp/x.db'`,
    'DETACH lake',
    'SET threads = 1',
    'RESET threads',
    'PRAGMA database_list',
    'PRAGMA enable_profiling',
    'CALL pragma_version()',
    'LOAD httpfs',
    'INSTALL httpfs',
    'CHECKPOINT',
    'FORCE CHECKPOINT',
    'BEGIN',
    'COMMIT',
    'ROLLBACK',
    'PREPARE p AS SELECT 1',
    'EXECUTE p',
    `EXPORT DATABASE '/tmp/x'`,
    `IMPORT DATABASE '/tmp/x'`,
    'VACUUM',
    'ANALYZE',
    'USE lake',
    'DESCRIBE t',
    'SHOW TABLES',
    'SHOW ALL TABLES',
    'EXPLAIN SELECT 1',
    'EXPLAIN ANALYZE DELETE FROM t',
    `COMMENT ON TABLE t IS 'x'`,
    'SELECT * FROM (DESCRIBE t)',
    'SELECT * FROM (SHOW ALL TABLES)',
    'PIVOT t ON name USING sum(id)',
    'SET VARIABLE x = 1',
  ]) {
    const code = await codeOf(warehouse.run(sql));
    assert.ok(code === 'SQL_NOT_SUPPORTED' || code === 'SQL_FORBIDDEN_FUNCTION', `${sql}: ${code}`);
  }
  for (const [sql, endpoint] of [
    ['CREATE TABLE x (a INT)', 'tables/create'],
    ['ALTER TABLE t RENAME TO u', 'PATCH'],
    ['DROP TABLE t', 'DELETE'],
  ] as const) {
    await assert.rejects(warehouse.run(sql), (error: Failure) => error.message.includes(endpoint));
  }
  for (const sql of [
    'SELECT 1; SELECT 2',
    'SELECT 1; DROP TABLE t',
    'DELETE FROM t; SELECT 1',
    '',
    ';',
    '-- nothing',
    'SELECT 1\0; DROP TABLE t',
  ]) {
    assert.match(await codeOf(warehouse.run(sql)), /^SQL_(?:INVALID|NOT_SUPPORTED)$/, JSON.stringify(sql));
  }
  assert.deepEqual(await warehouse.rows('SELECT count(*) FROM t'), [[2]]);
});

test('functions that access more than values and tables are refused, also where binding evaluates them', async () => {
  const forbidden: Code = 'SQL_FORBIDDEN_FUNCTION';
  for (const sql of [
    `SELECT * FROM read_csv('/etc/passwd')`,
    `SELECT * FROM read_text('/etc/passwd')`,
    `FROM read_blob('${warehouse.root}/**')`,
    `FROM glob('*')`,
    `FROM parquet_scan('x')`,
    `FROM sniff_csv('x')`,
    `FROM query('SELECT 1')`,
    `FROM query_table('t')`,
    'FROM duckdb_tables()',
    'FROM duckdb_settings()',
    'FROM duckdb_secrets()',
    'FROM pragma_version()',
    'FROM checkpoint()',
    'FROM enable_logging()',
    'SELECT * FROM information_schema.tables',
    'SELECT * FROM pg_catalog.pg_class',
    'SELECT * FROM duckdb_columns',
    'SELECT * FROM sqlite_master',
    `SELECT current_setting('threads')`,
    `SELECT getvariable('x')`,
    `SELECT current_query()`,
    'SELECT pg_sleep(1)',
    'SELECT sleep_ms(1)',
    `SELECT json_execute_serialized_sql('x')`,
    `SELECT json_serialize_plan('SELECT 1')`,
    `SELECT setseed(0.5)`,
    `SELECT write_log('x')`,
    `SELECT * FROM range(current_setting('threads')::INT)`,
    `SELECT 1 LIMIT current_setting('threads')::INT`,
    `SELECT 1 LIMIT "current_setting" /* c */ ('threads')::INT`,
    `SELECT 1 LIMIT CURRENT_SETTING\u00a0('threads')::INT`,
    `SELECT 1 LIMIT system.main.current_setting('threads')::INT`,
    `SELECT 1 LIMIT 'threads'.current_setting()::INT`,
    `SELECT list_transform([1], lambda x: current_setting('threads'))`,
    `SELECT sum(id) FILTER (current_setting('threads') = '1') FROM t`,
    `WITH q AS (SELECT 1 FROM t LIMIT current_setting('threads')::INT) SELECT 1 FROM q`,
    `INSERT INTO t (id) SELECT range + 100 FROM range(current_setting('threads')::INT)`,
    `INSERT INTO t (id) SELECT 100 LIMIT current_setting -- c\n ('threads')::INT`,
    `DELETE FROM t WHERE id IN (SELECT 1 LIMIT getvariable('x')::INT)`,
    `UPDATE t SET name = current_setting('threads')`,
    `INSERT INTO t (id) SELECT 100 LIMIT system.main.current_setting('threads')::INT`,
    `INSERT INTO t (id) SELECT 100 LIMIT CURRENT_SETTING\u00a0('threads')::INT`,
    `INSERT INTO t (id) SELECT 100 LIMIT 1.0 + "system"."main"."current_setting"('threads')::INT`,
    `DELETE FROM t RETURNING current_setting('threads')`,
    `INSERT INTO t (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET name = current_setting('threads')`,
    `MERGE INTO t USING (SELECT 1 AS id) u ON t.id = u.id WHEN MATCHED THEN UPDATE SET name = current_setting('threads')`,
  ]) {
    const code = await codeOf(warehouse.run(sql));
    assert.ok(code === forbidden || code === 'SQL_INVALID' || code === 'SQL_NOT_SUPPORTED', `${sql}: ${code}`);
    if (/current_setting|getvariable/i.test(sql) && !sql.includes(`'threads'.current`))
      assert.equal(code, forbidden, sql);
  }
  for (const sql of [
    'FROM lake.__tabularium.steps',
    'FROM lake."__TABULARIUM".steps',
    'DELETE FROM __tabularium.steps',
    'FROM temp.t',
    'FROM system.main.t',
  ]) {
    assert.match(await codeOf(warehouse.run(sql)), /^SQL_/, sql);
  }
  // The words alone are not calls.
  await warehouse.createTable('query', { glob: 'STRING', checkpoint: 'INT' });
  await warehouse.run(`INSERT INTO query VALUES ('current_setting(1)', 1)`);
  assert.deepEqual(await warehouse.rows(`SELECT "glob", 'read_csv(x)' FROM query WHERE checkpoint IN (1) -- glob(x)`), [
    ['current_setting(1)', 'read_csv(x)'],
  ]);
});

test('every function of the engine has been reviewed', async () => {
  const instance = await DuckDBInstance.create(':memory:');
  const connection = await instance.connect();
  const result = await connection.runAndReadAll(
    `SELECT DISTINCT lower(function_name) FROM duckdb_functions() WHERE function_type <> 'pragma' ORDER BY 1`,
  );
  const unknown = result
    .getRows()
    .map(([name]) => String(name))
    .filter((name) => !reviewedFunctions.has(name) && !/^icu_collate_/.test(name));
  connection.closeSync();
  instance.closeSync();
  assert.deepEqual(unknown, [], 'add each to one of the lists of function_allowlist.ts');
});
