// Files and addresses used as tables: however a path is written, nothing is read, and no response reveals whether it exists. Also the
// engine's catalogs: tables that are not in the plan are not shown.
import assert from 'node:assert/strict';
import { copyFileSync, readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { after, before, test } from 'node:test';
import { sampled } from '../budget.ts';
import { openSandbox, type Sandbox } from './sandbox_world.ts';

let sandbox: Sandbox;
before(async () => {
  sandbox = await openSandbox();
});
after(() => sandbox.close());

/** Notations of one path in SQL and in file systems. `path` begins with a slash. */
const disguises: readonly ((path: string) => string)[] = [
  (path) => `'${path}'`,
  (path) => `"${path}"`,
  (path) => `$$${path}$$`,
  (path) => `$x$${path}$x$`,
  (path) => `E'${path}'`,
  (path) => `E'${path.replaceAll('/', '\\x2f')}'`,
  (path) => `e'${path.replaceAll('.', '\\u002e').replaceAll('/', '\\057')}'`,
  (path) => `U&'${path.replaceAll('/', '\\002f')}'`,
  (path) => `'${path.slice(0, 9)}'\n'${path.slice(9)}'`,
  (path) => `'${path.slice(0, -5)}' -- on\n '${path.slice(-5)}'`,
  (path) => `E'${path.slice(0, -5)}'\n'${path.slice(-5).replace('.', '\\x2e')}'`,
  (path) => `"${path.slice(0, path.lastIndexOf('.'))}".${path.slice(path.lastIndexOf('.') + 1)}`,
  (path) => `"${path.slice(0, path.lastIndexOf('.'))}" /* */ . "${path.slice(path.lastIndexOf('.') + 1)}"`,
  (path) => `"."."/../..${path}"`,
  (path) => `'${path.slice(1)}'`,
  (path) => `'.${path}'`,
  (path) => `'..${path}'`,
  (path) => `'${'../'.repeat(12)}${path.slice(1)}'`,
  (path) => `'/..${path}'`,
  (path) => `'//${path.slice(1)}'`,
  (path) => `'/.${path}'`,
  (path) => `'${path.replaceAll('/', '//')}'`,
  (path) => `'/proc/self/root${path}'`,
  (path) => `'/proc/self/cwd${path}'`,
  (path) => `'/proc/1/root${path}'`,
  (path) => `'/proc/thread-self/root/../root${path}'`,
  (path) => `'~${path}'`,
  (path) => `'~/..${path}'`,
  (path) => `'file:${path}'`,
  (path) => `'file://${path}'`,
  (path) => `'file://localhost${path}'`,
  (path) => `'FILE:///..${path}'`,
  (path) => `'file:..${path}'`,
  (path) => `'\\${path}'`,
  (path) => `'\\\\?\\${path}'`,
  (path) => `'${path.replaceAll('/', '\\')}'`,
  (path) => `'${path}?x=1'`,
  (path) => `'${path}#x'`,
  (path) => `'${path.replace('secret', 's*t')}'`,
  (path) => `'${path.replace('secret', '[s]ecret')}'`,
  (path) => `'${path.replace(/\/[^/]+\/([^/]+)$/, '/*/$1')}'`,
  (path) => `'${path.replace(/\/[^/]+\/([^/]+)$/, '/**/$1')}'`,
  (path) => `'/**/${basename(path)}'`,
  (path) => `'${path.toUpperCase()}'`,
  (path) => `' ${path}'`,
  (path) => `'${path} '`,
  (path) => `'zip://${path}/x.csv'`,
  (path) => `'gzip://${path}'`,
];

const uses: readonly ((table: string) => string)[] = [
  (table) => `SELECT * FROM ${table}`,
  // The error for a missing object suggests existing ones.
  (table) => `SELECT nope FROM ${table}`,
  (table) => `FROM ${table} LIMIT 0`,
  (table) => `SELECT count(*) FROM t, ${table} AS x`,
  (table) => `INSERT INTO t SELECT * FROM ${table}`,
  (table) => `SUMMARIZE ${table}`,
  (table) => `WITH x AS (FROM ${table}) SELECT count(*) FROM x`,
  (table) => `SELECT EXISTS (FROM ${table})`,
  (table) => `UPDATE t SET v = (SELECT min(x) FROM ${table} AS q(x))`,
  (table) => `SELECT 1 WHERE 1 IN (FROM ${table})`,
  (table) => `TABLE ${table}`,
  (table) => `INSERT INTO ${table} VALUES (1)`,
  (table) => `DELETE FROM ${table}`,
];

test('no path is read, in any notation', async (t) => {
  let sent = 0;
  const { server } = sandbox;
  const open = readdirSync(join(server.dataDirectory, 'catalogs'))
    .filter((name) => !name.includes('secret'))
    .map((name) => join(server.dataDirectory, 'catalogs', name));
  const paths = [...sandbox.secrets, ...open, join(server.dataDirectory, 'root.token'), '/etc/passwd'];
  const cases = paths.flatMap((path) => disguises.map((disguise, index) => ({ path, disguise, index })));
  for (const { path, disguise, index } of sampled(t, 6, cases, (sampledCount) => sampledCount >= disguises.length)) {
    // Also where the columns are inferred, whose errors reveal most, and in one more position.
    for (const use of [uses[1], uses[(sent + index) % uses.length]]) {
      await sandbox.refuses((use as (table: string) => string)(disguise(path)));
      sent++;
    }
  }
  t.diagnostic(`${sent} statements`);
  await sandbox.isUnharmed();
});

test('existing and missing files are refused with the same message', async () => {
  for (const path of sandbox.secrets) {
    const existing = await sandbox.send(`SELECT nope FROM '${path}'`);
    const not = await sandbox.send(`SELECT nope FROM '${path.replace('secret', 'nosuch')}'`);
    assert.equal(existing.message, not.message);
    assert.equal(existing.code, not.code);
  }
});

test('no address is connected to', async () => {
  const { port } = sandbox;
  for (const address of [
    `http://127.0.0.1:${port}/x.csv`,
    `http://localhost:${port}/x.parquet`,
    `https://127.0.0.1:${port}/x.json`,
    `HTTP://127.0.0.1:${port}/x.csv`,
    `//127.0.0.1:${port}/x.csv`,
    `s3://127.0.0.1:${port}/x.parquet`,
    's3://bucket/x.parquet',
    's3a://bucket/x.csv',
    'gs://bucket/x.csv',
    'gcs://bucket/x.csv',
    'r2://bucket/x.csv',
    'az://bucket/x.csv',
    'abfss://bucket/x.csv',
    'hf://datasets/x/y.csv',
    `ftp://127.0.0.1:${port}/x.csv`,
    `postgres://127.0.0.1:${port}/x`,
    `mysql://127.0.0.1:${port}/x`,
    `ducklake:http://127.0.0.1:${port}/x`,
    `quack://127.0.0.1:${port}/x.csv`,
    'data:text/csv,a,b',
    'md:x',
    '\\\\127.0.0.1\\share\\x.csv',
    '/dev/tcp/127.0.0.1/80',
    '/dev/stdin',
    '/dev/fd/3',
    '/proc/self/environ',
    '/proc/self/fd/3',
    '-',
  ]) {
    for (const quote of ["'", '"'])
      for (const select of ['*', 'nope']) await sandbox.refuses(`SELECT ${select} FROM ${quote}${address}${quote}`);
  }
  await sandbox.isUnharmed();
});

test('a value can look like a path', async () => {
  for (const path of ['/etc/passwd', '/var/log/x.csv', 'http://127.0.0.1/x.parquet', '../x.json']) {
    const [[text] = []] = await sandbox.server.rows('d', `SELECT '${path}'`);
    assert.equal(text, path);
  }
});

const books = `information_schema.tables information_schema.columns information_schema.schemata information_schema.views
information_schema.table_constraints information_schema.key_column_usage pg_catalog.pg_class pg_catalog.pg_tables
pg_catalog.pg_attribute pg_catalog.pg_namespace pg_catalog.pg_settings pg_catalog.pg_database pg_catalog.pg_proc pg_catalog.pg_type
pg_catalog.pg_views pg_catalog.pg_indexes pg_catalog.pg_prepared_statements pg_tables pg_class sqlite_master sqlite_schema sqlite_temp_master
sqlite_temp_schema duckdb_tables duckdb_columns duckdb_databases duckdb_schemas duckdb_settings duckdb_secrets duckdb_views duckdb_logs
duckdb_indexes duckdb_constraints duckdb_types duckdb_functions duckdb_variables duckdb_prepared_statements pragma_database_list
__tabularium.steps hidden_catalog.__tabularium.steps`;

test('the catalogs of the engine are inaccessible', async () => {
  for (const book of books.split(/\s+/)) {
    const quoted = book.split('.').map((part) => `"${part}"`);
    for (const table of [
      book,
      book.toUpperCase(),
      quoted.join('.'),
      ['system', ...quoted].join('.'),
      ['system', 'main', quoted.at(-1)].join('.'),
      ['system', '"information_schema"', quoted.at(-1)].join('.'),
      ['temp', ...quoted].join('.'),
      ['memory', ...quoted].join('.'),
      ['"default"', ...quoted].join(' . '),
    ])
      await sandbox.refuses(`SELECT * FROM ${table}`);
    await sandbox.refuses(`SELECT nope FROM ${book}`);
    await sandbox.refuses(`SELECT 1 WHERE EXISTS (FROM ${book})`);
    await sandbox.refuses(`DELETE FROM ${book}`);
  }
  await sandbox.isUnharmed();
});

test('an error about a missing object does not mention existing ones', async () => {
  for (const sql of [
    'FROM hidden_tabl',
    'FROM d.hidden_tablee',
    'FROM "default".d.hidden',
    'FROM d2.hidden_table',
    'FROM hidden_catalogg.hidden_database.x',
    'FROM hidden.hidden_database.x',
    'FROM hidden_catalog.hidden_databas.x',
    'FROM hidden_catalog.hidden_database.x',
    'FROM temp.main.hidden_table',
    'FROM memory.main.hidden_table',
    'FROM system.main.hidden_table',
    'SELECT hidden_tabl.id FROM t',
    'SELECT id.x.y.z FROM t',
    'SELECT 1::hidden_tabl',
    `SELECT 'x'::regclass`,
    `SELECT nextval('hidden_tabl')`,
    'SELECT hidden_tabl(1)',
    `SELECT 'hidden_tabl'::hidden_catalog.hidden_database.x`,
    'SELECT * FROM t AT (VERSION => 1)',
    'SELECT * FROM t AT (TIMESTAMP => now())',
    'INSERT INTO hidden_tabl VALUES (1)',
    'UPDATE hidden_tabl SET a = 1',
    'DELETE FROM hidden_tabl',
    'MERGE INTO hidden_tabl USING t ON true WHEN MATCHED THEN DELETE',
  ]) {
    const reply = await sandbox.send(sql);
    assert.equal(reply.status, 400, `${sql}: ${reply.text}`);
    for (const [name] of reply.text.matchAll(/\bhidden_(?:table|catalog|database|column)\b/g))
      assert.ok(sql.includes(name), `${sql}: ${reply.text}`);
  }
});

test('the plan shows what is read, in any notation', async () => {
  // The tests of access check the authorization of what is in the plan; these check that nothing bypasses the plan.
  const { server } = sandbox;
  for (const sql of [
    'SELECT count(*) FROM HIDDEN_TABLE',
    'SELECT count(*) FROM "hidden_table"',
    'SELECT count(*) FROM "D"."Hidden_Table"',
    'SELECT count(*) FROM "default".d.hidden_table',
    'WITH x AS (FROM hidden_table) SELECT count(*) FROM x',
    'SELECT (SELECT count(*) FROM hidden_table)',
  ])
    assert.deepEqual(await server.rows('d', sql), [[1]], sql);
});

test('a catalog of a suspended warehouse cannot be used as a table either', async () => {
  const { server } = sandbox;
  // As another warehouse would refer to it: by an id that is not secret.
  const file = join(server.dataDirectory, 'catalogs', '01a1fccf-0000-7000-8000-00000000c0de.duckdb');
  copyFileSync(join(sandbox.outside, 'secret.duckdb'), file);
  for (const disguise of disguises) await sandbox.refuses(`SELECT nope FROM ${disguise(file)}`);
});
