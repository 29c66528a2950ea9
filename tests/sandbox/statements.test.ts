// Statements that are not queries, in many notations: none is run. Also what a text may contain besides its statement.
import { after, before, test } from 'node:test';
import { openSandbox, type Sandbox } from './sandbox_world.ts';

let sandbox: Sandbox;
before(async () => {
  sandbox = await openSandbox();
});
after(() => sandbox.close());

/** One per line. `OUT` is a directory outside, `DATA` the server's own, `URL` a listening server. */
const themes: Readonly<Record<string, string>> = {
  'attach, detach, use': `
ATTACH 'OUT/escaped.duckdb' AS e
ATTACH 'OUT/secret.duckdb' AS e (READ_ONLY)
ATTACH IF NOT EXISTS 'OUT/secret.duckdb'
ATTACH OR REPLACE 'OUT/secret.duckdb' AS "default"
ATTACH 'DATA/catalogs/secret.duckdb' AS e
ATTACH 'DATA/metadata.sqlite' AS e (TYPE sqlite)
ATTACH ':memory:' AS e
ATTACH 'URL/secret.duckdb' AS e
ATTACH 'host=127.0.0.1' AS e (TYPE postgres)
DETACH "default"
DETACH DATABASE IF EXISTS hidden_catalog
USE memory
USE hidden_catalog.hidden_database
USE system.main`,
  'install and load': `
INSTALL httpfs
INSTALL httpfs FROM community
INSTALL 'URL/x.duckdb_extension'
FORCE INSTALL json
LOAD json
LOAD 'OUT/escaped.duckdb_extension'
LOAD '/proc/self/fd/3'
UPDATE EXTENSIONS
UPDATE EXTENSIONS (httpfs)`,
  'copy, export, import': `
COPY t TO 'OUT/escaped.csv'
COPY t TO 'escaped.csv'
COPY t TO 'DATA/catalogs/escaped.csv'
COPY (SELECT * FROM hidden_table) TO 'OUT/escaped.parquet' (FORMAT parquet)
COPY t TO '/dev/stdout'
COPY t TO '/proc/self/fd/3'
COPY t TO PROGRAM 'touch OUT/escaped'
COPY t FROM 'OUT/secret.csv'
COPY t FROM PROGRAM 'cat OUT/secret.csv'
COPY t FROM '/dev/stdin'
COPY t FROM STDIN
COPY t TO STDOUT
COPY t TO 'URL/escaped.csv'
COPY t TO 'OUT/escaped' (PARTITION_BY (id))
COPY FROM DATABASE hidden_catalog TO "default"
copy/**/t/**/to/**/'OUT/escaped.csv'
(COPY t TO 'OUT/escaped.csv')
WITH x AS (SELECT 1) COPY (FROM x) TO 'OUT/escaped.csv'
EXPORT DATABASE 'OUT/escaped'
EXPORT DATABASE "default" TO 'OUT/escaped' (FORMAT parquet)
IMPORT DATABASE 'OUT'`,
  'settings and variables': `
SET threads = 1
SET GLOBAL memory_limit = '1TB'
SET SESSION enable_external_access = true
SET enable_external_access TO true
SET allowed_directories = ['/']
SET lock_configuration = false
SET temp_directory = 'OUT'
SET search_path = 'hidden_catalog.hidden_database'
SET schema = 'main'
SET VARIABLE x = (SELECT min(hidden_column) FROM hidden_table)
SET log_query_path = 'OUT/escaped.log'
SET home_directory = 'OUT'
SET extension_directory = 'OUT'
SET profiling_output = 'OUT/escaped.json'
SET TimeZone = 'Asia/Tokyo'
SET s3_endpoint = '127.0.0.1'
set/**/threads=1
RESET threads
RESET ALL
RESET VARIABLE x
PRAGMA threads = 1
PRAGMA enable_external_access
PRAGMA database_list
PRAGMA show_tables
PRAGMA show_tables_expanded
PRAGMA table_info('hidden_table')
PRAGMA storage_info('hidden_table')
PRAGMA enable_profiling = 'json'
PRAGMA enable_verification
PRAGMA version
PRAGMA user_agent
PRAGMA import_database('OUT')
PRAGMA disable_checkpoint_on_shutdown
pragma/**/database_size`,
  'logging and upkeep': `
CALL enable_logging()
CALL enable_logging('QueryLog', storage_path = 'OUT/escaped')
CALL disable_logging()
CALL truncate_duckdb_logs()
CALL enable_profiling()
CALL force_checkpoint()
CALL duckdb_tables()
CALL pragma_version()
CALL query('SELECT 1')
CHECKPOINT
CHECKPOINT hidden_catalog
FORCE CHECKPOINT
VACUUM
VACUUM ANALYZE t
VACUUM FULL
ANALYZE
ANALYZE t
KILL 1`,
  definitions: `
CREATE TABLE x (a INT)
CREATE TEMP TABLE x AS SELECT * FROM hidden_table
CREATE OR REPLACE TABLE t AS SELECT 1 AS id
CREATE TABLE IF NOT EXISTS memory.main.x (a INT)
CREATE VIEW v AS SELECT * FROM hidden_table
CREATE OR REPLACE TEMPORARY VIEW t AS SELECT * FROM hidden_table
CREATE RECURSIVE VIEW v(a) AS SELECT 1
CREATE MACRO m() AS TABLE SELECT * FROM hidden_table
CREATE OR REPLACE MACRO abs(x) AS (SELECT min(hidden_column) FROM hidden_table)
CREATE TEMP MACRO m(x) AS getvariable(x)
CREATE FUNCTION f(x) AS x + 1
CREATE FUNCTION f() RETURNS INT LANGUAGE c AS 'OUT/secret.txt'
CREATE TYPE x AS ENUM (SELECT hidden_column FROM hidden_table)
CREATE TYPE x AS STRUCT(a INT)
CREATE SECRET x (TYPE s3, KEY_ID 'a', SECRET 'b')
CREATE PERSISTENT SECRET x IN local_file (TYPE s3)
DROP SECRET x
CREATE SCHEMA x
CREATE SCHEMA memory.x
CREATE SEQUENCE s
CREATE INDEX i ON t(v)
CREATE UNIQUE INDEX i ON hidden_table(hidden_column)
CREATE DATABASE x
CREATE TRIGGER x AFTER INSERT ON t EXECUTE FUNCTION f()
DROP TABLE t
DROP TABLE IF EXISTS hidden_table CASCADE
DROP SCHEMA d CASCADE
DROP DATABASE hidden_catalog
DROP FUNCTION abs
DROP MACRO m
DROP TYPE x
ALTER TABLE t ADD COLUMN x INT
ALTER TABLE t RENAME TO hidden
ALTER TABLE t ALTER v SET DEFAULT getvariable('x')
ALTER DATABASE "default" SET ALIAS TO x
ALTER VIEW v RENAME TO w
TRUNCATE t
TRUNCATE TABLE hidden_table
COMMENT ON TABLE t IS 'x'
COMMENT ON COLUMN t.v IS 'x'
GRANT ALL ON t TO x
REVOKE ALL ON t FROM x
CREATE ROLE x
CREATE USER x`,
  'prepared, explained, described': `
PREPARE p AS SELECT * FROM hidden_table
PREPARE p(INT) AS SELECT $1
EXECUTE p
EXECUTE p(1)
DEALLOCATE p
DEALLOCATE ALL
EXPLAIN SELECT * FROM hidden_table
EXPLAIN ANALYZE DELETE FROM t
EXPLAIN (FORMAT json) SELECT 1
EXPLAIN ANALYZE COPY t TO 'OUT/escaped.csv'
FROM (EXPLAIN SELECT 1)
DESCRIBE hidden_table
DESC t
DESCRIBE SELECT * FROM hidden_table
SHOW TABLES
SHOW ALL TABLES
SHOW DATABASES
SHOW hidden_table
SHOW threads
SHOW TABLES FROM hidden_catalog
SELECT * FROM (DESCRIBE hidden_table)
SELECT * FROM (SHOW TABLES)
SELECT * FROM (SHOW ALL TABLES)
SELECT * FROM (SHOW DATABASES)
SELECT * FROM (DESCRIBE)
WITH x AS (DESCRIBE hidden_table) FROM x
FROM (PIVOT t ON v)`,
  transactions: `
BEGIN
BEGIN TRANSACTION READ ONLY
START TRANSACTION
COMMIT
END
ROLLBACK
ABORT`,
  'several statements in one text': `
SELECT 1; SELECT 2
SELECT 1; DROP TABLE t
SELECT 1;; DROP TABLE t
SELECT 1;/*;*/DROP TABLE t;--
SELECT ';'; ATTACH 'OUT/escaped.duckdb'
DELETE FROM t; SELECT 1
BEGIN; DELETE FROM t; COMMIT
SELECT $$;$$; SET threads = 1
SELECT 1 -- ;\\n; COPY t TO 'OUT/escaped.csv'
SELECT e'\\\\''; COPY t TO 'OUT/escaped.csv' --'
SELECT 1\\u2028; COPY t TO 'OUT/escaped.csv'
INSERT INTO t VALUES (9, 'x'); SET threads = 1
SELECT 1) TO 'OUT/escaped.csv'; --
SELECT 1) AS q(a); DROP TABLE t; --
SELECT 1) TO 'OUT/escaped.csv' (FORMAT csv) --
SELECT 1\\n) AS q(c0) UNION ALL SELECT hidden_column FROM (FROM hidden_table`,
  'comments and quotes': `
/* SELECT 1 */ DROP TABLE t
/* /* */ SELECT 1 */ DROP TABLE t
-- SELECT 1\\nDROP TABLE t
--\\rDROP TABLE t
/**/DROP/**/TABLE/**/t
\\ufeffDROP TABLE t
\\u00a0DROP\\u2003TABLE t
\\u200bSET threads = 1
drop\\ttable t
;DROP TABLE t
;;;SET threads = 1
( DROP TABLE t )
(((SET threads = 1)))
/*
'
"
$$
$a$ SELECT 1 $b$
SELECT 1 /*
SELECT 'a
SELECT E'\\\\
SELECT U&'\\\\0061'
SELECT "
DR\\u004fP TABLE t
ＤＲＯＰ TABLE t
\\\\! touch OUT/escaped
.shell touch OUT/escaped
.open OUT/secret.duckdb
.read OUT/secret.txt
@OUT/secret.txt
SELECT \\u0000 1
SELECT 1\\u0000; DROP TABLE t
SELECT \\ud800
--
;
 `,
};

/** The text between the lines, with escapes for characters that a line cannot contain. */
function statementsOf(text: string): string[] {
  const { outside, server, port } = sandbox;
  const written = text
    .replace(/\\u([0-9a-f]{4})/g, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16)))
    .replaceAll('OUT', outside)
    .replaceAll('DATA/', `${server.dataDirectory}/`)
    .replaceAll('URL', `http://127.0.0.1:${port}`);
  return written
    .split('\n')
    .slice(1)
    .map((line) =>
      line.replace(/\\([nrt\\])/g, (_, letter: string) => ({ n: '\n', r: '\r', t: '\t' })[letter] ?? '\\'),
    );
}

for (const [theme, text] of Object.entries(themes)) {
  test(`${theme}: refused`, async () => {
    for (const sql of statementsOf(text)) await sandbox.refuses(sql);
    await sandbox.isUnharmed();
  });
}

test('a statement in a parameter stays a value', async () => {
  const { server } = sandbox;
  for (const value of [`'; DROP TABLE t; --`, 'hidden_table', `$$; SET threads = 1; --`, '$1', '?', `{"a": "'"}`]) {
    for (const sql of ['SELECT $1 AS a', 'SELECT ?::STRING AS a', "SELECT concat($1, '') AS a"]) {
      const reply = await server.query('d', sql, { parameters: [value] });
      if (reply.status !== 200 || reply.at('rows', 0, 0) !== value) throw new Error(`${sql}: ${reply.text}`);
    }
  }
  for (const [sql, parameters] of [
    ['SELECT $1', []],
    ['SELECT 1', ['x']],
    ['SELECT $a', { b: 1 }],
    ['SELECT * FROM $1', ['t']],
    ['SELECT $1.v FROM t', ['t']],
    ['SELECT * FROM t ORDER BY id $1', ['; DROP TABLE t']],
    ['INSERT INTO $1 VALUES (1)', ['hidden_table']],
    ['$1', ['DROP TABLE t']],
    ['SELECT CAST(1 AS $1)', ['INT']],
  ] as const) {
    await sandbox.refuses(sql, { parameters });
  }
  await sandbox.isUnharmed();
});

test('explain and profile accept no more than query does', async () => {
  for (const theme of ['copy, export, import', 'definitions', 'settings and variables']) {
    for (const sql of statementsOf(themes[theme] as string)) {
      for (const action of ['explain', 'profile']) {
        const reply = await sandbox.server.post(`/api/v2/databases/d/${action}`, { sql });
        if (reply.status !== 400) throw new Error(`${action}: ${sql}: ${reply.text}`);
      }
    }
  }
  await sandbox.isUnharmed();
});
