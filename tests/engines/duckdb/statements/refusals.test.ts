// What no statement may do, on a real engine process: other statements, files, settings, the engine's catalogs, hidden functions;
// and text that is no statement.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { DuckDBInstance } from '@duckdb/node-api';
import { allowedTableFunctions, unboundFunctions } from '../../../../src/engines/duckdb/sql/function_allowlist.ts';
import { failureOf, openEngine } from '../../../conformance/engine/engine_world.ts';

const world = await openEngine();
const { run } = world;
after(() => world.close());
await world.table('t', { id: 'BIGINT', name: 'STRING', v: 'DOUBLE' }, { primaryKey: ['id'] });
await run(`INSERT INTO t SELECT range, 'n' || range, range / 2 FROM range(10)`);

async function rowsOf(sql: string): Promise<unknown[]> {
  const { rows } = await run(sql);
  return JSON.parse(`[${rows.kind === 'text' ? rows.text : ''}]`) as unknown[];
}

test('other statements are refused, and the message names the endpoint to use', async () => {
  const cases: [string, RegExp][] = [
    ['CREATE TABLE x AS SELECT 1', /tables\/create/],
    ['create or replace temp table x (a INT)', /tables\/create/],
    ['CREATE SCHEMA x', /POST .*databases/],
    ['ALTER TABLE t ADD COLUMN x INT', /PATCH/],
    ['DROP TABLE t', /DELETE/],
    ['DROP SCHEMA main CASCADE', /DELETE/],
    ['TRUNCATE t', /truncate/],
    ['/* a /* b */ */ EXPLAIN SELECT 1', /explain/],
    ['SHOW TABLES', /GET/],
    ['DESCRIBE t', /GET/],
    ['USE memory', /path/],
    ['BEGIN', /transaction/],
    [`COPY t TO '/tmp/x'`, /export/],
  ];
  for (const [sql, message] of cases) {
    const failure = await failureOf(run(sql));
    assert.equal(failure.code, 'SQL_NOT_SUPPORTED', sql);
    assert.match(failure.message, message);
  }
  const rest = `CREATE VIEW x AS SELECT 1|CREATE MACRO m(x) AS x + 1|CREATE SEQUENCE s|CREATE TYPE x AS ENUM ('a')|CREATE INDEX i ON t(v)|CREATE SECRET x (TYPE s3)
ATTACH ':memory:' AS x|DETACH memory|SET threads = 1|SET VARIABLE x = 1|RESET threads|PRAGMA database_list|PRAGMA enable_profiling|CALL pragma_version()
INSTALL httpfs|LOAD json|CHECKPOINT|FORCE CHECKPOINT|VACUUM|ANALYZE|COMMIT|ROLLBACK|PREPARE p AS SELECT 1|EXECUTE p(1)|DEALLOCATE p|EXPORT DATABASE '/tmp/x'
IMPORT DATABASE '/tmp/x'|COPY FROM DATABASE memory TO x|COMMENT ON TABLE t IS 'x'|EXPLAIN ANALYZE DELETE FROM t|SELECT 1; SELECT 2|SELECT 1; DROP TABLE t|FROM (DESCRIBE t)`;
  for (const sql of rest.split(/[|\n]/)) assert.equal((await failureOf(run(sql))).code, 'SQL_NOT_SUPPORTED', sql);
});

test('a name of more than three parts is refused in plain words', async () => {
  for (const sql of ['SELECT * FROM a.b.c.d', 'SELECT 1; SELECT * FROM a.b.c.d', 'INSERT INTO a.b.c.d VALUES (1)']) {
    const { code, message } = await failureOf(run(sql));
    assert.doesNotMatch(message, /NOT IMPLEMENTED/, sql);
    if (!sql.includes(';'))
      assert.deepEqual([code, /at most three parts/.test(message)], ['SQL_INVALID', true], message);
  }
});

const f = join(world.spool, 'secret.csv');
const quoted = f.replaceAll("'", "''");
writeFileSync(f, 'hidden,b\n1,2\n');

test('files, settings, catalogs of the engine and hidden functions are inaccessible', async () => {
  const files =
    'read_csv read_csv_auto read_json read_json_auto read_json_objects read_ndjson read_ndjson_objects read_parquet parquet_scan parquet_metadata parquet_schema read_text read_blob read_duckdb sniff_csv glob';
  const secret = `current_setting('threads')`;
  const statements = [
    ...files.split(' ').map((name) => `SELECT nope FROM ${name}('${quoted}')`),
    ...[
      `'${quoted}'`,
      `"${f}"`,
      `$$${f}$$`,
      `E'${quoted.replace('/', '\\x2f')}'`,
      `'file://${quoted}'`,
      `'/..${quoted}'`,
      `'/etc/passwd'`,
    ].map((from) => `SELECT nope FROM ${from}`),
    ..."duckdb_tables() duckdb_settings() duckdb_tables information_schema.tables pg_catalog.pg_class sqlite_master system.main.duckdb_tables pragma_table_info('t') query('SELECT 1')"
      .split(/ (?!1)/)
      .map((from) => `SELECT * FROM ${from}`),
    ..."query_table('t')|json_execute_serialized_sql('{}')|__tabularium.steps|temp.main.returned|memory.main.x|\"QUERY\"('SELECT 1')|enable_logging()|force_checkpoint()|which_secret('x', 's3')|sql_auto_complete('s')|test_all_types()"
      .split('|')
      .map((from) => `SELECT * FROM ${from}`),
    ...[
      "getenv('HOME')",
      "json_serialize_plan('SELECT 1')",
      "json_serialize_sql('SELECT 1')",
      "nextval('s')",
      "write_log('x')",
      'sleep_ms(1)',
      "getvariable('x')",
      'txid_current()',
      secret,
      `"current_setting" /* */ ('threads')`,
      `pg_catalog.current_setting('threads')`,
      `list_transform([1], lambda x: ${secret})`,
      `[${secret} FOR x IN [1]]`,
      `(SELECT ${secret})`,
      `CASE WHEN ${secret} = 1 THEN 1 END`,
    ].map((value) => `SELECT ${value}`),
    ...[
      `ORDER BY ${secret}`,
      `GROUP BY ALL HAVING ${secret} = 1`,
      `QUALIFY row_number() OVER (ORDER BY ${secret}) = 1`,
      `LIMIT ${secret}`,
      `WHERE id = ${secret}`,
      `JOIN t b ON b.id = ${secret}`,
      `, range(${secret})`,
      `WHERE EXISTS (FROM duckdb_settings())`,
    ].map((end) => `SELECT t.id FROM t ${end}`),
    `SELECT sum(id) FILTER (${secret} = 1) FROM t`,
    `SELECT sum(id ORDER BY ${secret}) FROM t`,
    `SELECT sum(id) OVER (PARTITION BY ${secret}) FROM t`,
    `WITH x AS MATERIALIZED (SELECT ${secret}) SELECT * FROM x`,
    `VALUES (${secret})`,
    `INSERT INTO t VALUES (500, ${secret}, 1)`,
    `INSERT INTO t VALUES (1, 'x', 1) ON CONFLICT DO UPDATE SET name = ${secret}`,
    `INSERT INTO t VALUES (500, 'x', 1) RETURNING ${secret}`,
    `UPDATE t SET name = (SELECT value FROM duckdb_settings() LIMIT 1)`,
    `UPDATE t SET name = 'x' RETURNING ${secret}`,
    `DELETE FROM t WHERE name IN (SELECT value FROM duckdb_settings())`,
    `DELETE FROM t USING duckdb_settings() s`,
    `MERGE INTO t USING duckdb_settings() s ON t.name = s.name WHEN MATCHED THEN DELETE`,
    `MERGE INTO t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED AND ${secret} = 1 THEN DELETE`,
    `MERGE INTO t USING (SELECT 500 AS id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT VALUES (500, ${secret}, 1)`,
    `DELETE FROM __tabularium.steps`,
    `INSERT INTO __tabularium.steps VALUES ('x', now())`,
    'SELECT \0 1',
    'SELECT \ud800',
  ];
  for (const sql of statements) {
    const { code, message, result } = await failureOf(run(sql));
    assert.match(code, /^SQL_(?:INVALID|NOT_SUPPORTED|FORBIDDEN_FUNCTION)$/, sql);
    assert.doesNotMatch(JSON.stringify([message, result]), /hidden|tabularium-|catalogs/, sql);
  }
  assert.deepEqual(await rowsOf('SELECT count(*), max(id) FROM t'), [[10, 9]]);
  assert.deepEqual(
    world.events.map(({ kind }) => kind),
    ['engineStarted'],
  );
  // Looks like one of those but is not.
  await world.table('query', { a: 'INT', 'x/y.csv': 'INT' });
  await run('INSERT INTO query (a) VALUES (1)');
  assert.deepEqual(
    await rowsOf(`WITH version (b) AS (SELECT a FROM query) SELECT *, 'x' GLOB ('*') FROM version AS summary (b)`),
    [[1, true]],
  );
  assert.deepEqual(await rowsOf(`SELECT '{"a":{"b":1}}'::JSON -> 'a' -> 'b', list_transform([1, 2], x -> x + 1)`), [
    [1, [2, 3]],
  ]);
});

test('every table function that is not allowed is refused before binding', async () => {
  const instance = await DuckDBInstance.create(':memory:');
  const connection = await instance.connect();
  const rows = (
    await connection.runAndReadAll(
      `SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type = 'table'`,
    )
  ).getRows();
  connection.closeSync();
  instance.closeSync();
  const names = rows
    .map(([name]) => String(name))
    .filter((name) => name !== 'glob' && !allowedTableFunctions.has(name));
  assert.deepEqual(
    names.filter((name) => !unboundFunctions(name)),
    [],
  );
});

test('random tokens are answered, and the process survives', async () => {
  const words =
    `SELECT FROM t id ( ) , ; ' " $1 -> :: INT * 'a' WHERE GROUP BY ORDER LIMIT 1 + - / JOIN ON AS x [ ] { } CASE WHEN END NULL WITH VALUES INSERT INTO UNION
    OVER list_transform lambda : DISTINCT HAVING COLUMNS EXCLUDE PIVOT USING count $$ -- /* */ E' \n é 😀 1e999 . , 0x UPDATE SET DELETE MERGE`.split(
      / +/,
    );
  let seed = 20260131;
  const random = (end: number) => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return Math.floor((seed / 2 ** 32) * end);
  };
  for (let i = 0; i < 400; i++) {
    const sql = `${['SELECT', 'FROM t', 'WITH x AS', 'VALUES', 'SELECT * FROM t'][i % 5]} ${Array.from({ length: 1 + random(12) }, () => words[random(words.length)]).join(' ')}`;
    const { code } = await failureOf(run(sql, { parameters: [1] }));
    assert.match(code, /^(?:0|SQL_\w+|PARAMETERS_INVALID)$/, sql);
  }
  assert.deepEqual(
    world.events.map(({ kind }) => kind),
    ['engineStarted'],
  );
});
