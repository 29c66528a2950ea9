// `import` of a PostgreSQL database: every type, domains, enumerations, partitions, views, keys, what does not carry over, a wrong password, and
// servers that are lost in the middle.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Client } from 'pg';
import { toOperatorError } from '../../../../src/cli/remote/import/postgresql_source.ts';
import type { PostgresqlLocation } from '../../../../src/store/postgresql/postgresql_url.ts';
import { eventually } from '../../../deadline.ts';
import { missingPostgresql, newDatabase, runInCluster, urlOfDatabase, userWithPassword } from '../../../postgresql.ts';
import { type ImportTest, lost, startImports } from './imports.ts';

const skip = missingPostgresql;
let world: ImportTest;
let location: PostgresqlLocation;
let client: Client;
let from: string[];

/** Name, type, values, the type on the server, and of a text the one that the first value becomes. */
const columns: readonly (readonly [string, string, readonly string[], string, string?])[] = [
  ['b', 'boolean', ['true', 'false'], 'BOOLEAN'],
  ['i2', 'smallint', ['-32768', '32767'], 'SMALLINT'],
  ['i4', 'integer', ['-2147483648', '2147483647'], 'INT'],
  ['i8', 'bigint', ['-9223372036854775808', '9223372036854775807'], 'BIGINT'],
  ['o', 'oid', ['4294967295'], 'BIGINT'],
  ['f4', 'real', ["'NaN'", '0.1', "'-Infinity'"], 'FLOAT'],
  ['f8', 'double precision', ["'Infinity'", '5e-324', '-0.1'], 'DOUBLE'],
  ['n', 'numeric(38,10)', ['-9999999999999999999999999999.9999999999', '0'], 'DECIMAL(38,10)'],
  ['free', 'numeric', ['12345678901234567890.125', '1'], 'DECIMAL(23,3)'],
  ['huge', 'numeric', ['1e50'], 'STRING', `1${'0'.repeat(50)}`],
  ['nan', 'numeric(10,2)', ["'NaN'"], 'STRING', 'NaN'],
  ['c', 'char(5)', ["'ab'"], 'VARCHAR(5)'],
  ['v', 'varchar(20)', ["'é😀'", "''"], 'VARCHAR(20)'],
  ['t', 'text', ["E'a\"b,c\\nd\\\\N'", "'\\N'", "' '"], 'STRING'],
  ['bin', 'bytea', [`'\\x${'00ff'.repeat(60)}'`, "'\\x'"], 'BINARY'],
  ['d', 'date', ["'0001-01-01'", "'9999-12-31'"], 'DATE'],
  ['far', 'date', ["'infinity'", "'2026-01-01'"], 'STRING', 'infinity'],
  ['ts', 'timestamp', ["'1969-12-31 23:59:59.999999'", "'2026-01-31 10:00:00'"], 'DATETIME'],
  ['tz', 'timestamptz(3)', ["'2026-01-31 10:00:00.25+02'", "'0500-01-01 00:00:00+00'"], 'TIMESTAMPTZ'],
  ['bc', 'timestamptz', ["'0044-03-15 12:00:00+00 BC'"], 'STRING', '0044-03-15 12:00:00+00 BC'],
  ['tm', 'time', ["'10:00:00.5'"], 'STRING', '10:00:00.5'],
  ['tmz', 'timetz', ["'10:00:00+02'"], 'STRING', '10:00:00+02'],
  ['iv', 'interval', ["'1 month 2 days'"], 'STRING', 'P1M2D'],
  ['u', 'uuid', ["'550E8400-e29b-41d4-a716-446655440000'"], 'UUID'],
  ['j', 'json', [`E'{"a" : [1, 2.50,\\n12345678901234567890]}'`], 'JSON'],
  ['jb', 'jsonb', [`'{"b": 1.10, "a": null}'`, `'null'`], 'JSON'],
  ['ia', 'bigint[]', ["'{1,NULL,9223372036854775807}'", "'{}'"], 'ARRAY<BIGINT>'],
  ['na', 'numeric(20,2)[]', ["'{1.50,123456789012345678.25}'"], 'ARRAY<DECIMAL(20,2)>'],
  ['ta', 'text[]', [`'{"a,\\"b",NULL,""}'`], 'ARRAY<STRING>'],
  ['tza', 'timestamptz[]', ["'{2026-01-31 10:00:00.5+00}'"], 'ARRAY<TIMESTAMPTZ>'],
  ['fa', 'double precision[]', ["'{NaN,0.1}'"], 'ARRAY<DOUBLE>'],
  ['ma', 'int[]', ["'{{1,2},{3,4}}'"], 'STRING', '{{1,2},{3,4}}'],
  ['ba', 'bytea[]', [`'{"\\\\x00"}'`], 'STRING', '{"\\\\x00"}'],
  ['mood', 'mood', ["'happy'"], 'STRING', 'happy'],
  ['age', 'age', ['41'], 'INT'],
  ['pair', 'pair', ["ROW(1, 'x')"], 'STRING', '(1,x)'],
  ['r', 'int4range', ["'[1,5)'"], 'STRING', '[1,5)'],
  ['ip', 'inet', ["'10.0.0.1/8'"], 'STRING', '10.0.0.1/8'],
  ['pt', 'point', ["'(1,2.5)'"], 'STRING', '(1,2.5)'],
  ['bits', 'bit varying', ["B'0101'"], 'STRING', '0101'],
  ['x', 'xml', ["'<a/>'"], 'STRING', '<a/>'],
  ['ltxt', 'tsvector', ["'a b'"], 'STRING', "'a' 'b'"],
];

before(async () => {
  if (skip) return;
  [world, location] = await Promise.all([startImports(), newDatabase()]);
  from = ['--from', urlOfDatabase(location)];
  client = new Client({ ...location, password: undefined });
  client.on('error', () => undefined);
  await client.connect();
  const rows = [0, 1, 2].map(
    (i) =>
      `(${columns.map(([, type, values]) => (values[i] === undefined ? 'NULL' : `(${values[i]})::${type}`)).join(', ')})`,
  );
  await client.query(`
    CREATE TYPE mood AS ENUM ('sad', 'happy'); CREATE DOMAIN age AS int CHECK (VALUE >= 0); CREATE TYPE pair AS (a int, b text);
    CREATE TABLE types (${columns.map(([name, type]) => `"${name}" ${type}`).join(', ')});
    INSERT INTO types VALUES ${rows.join(', ')};
    CREATE TABLE customers (id serial PRIMARY KEY, "E Mail" text UNIQUE, code text UNIQUE DEFAULT 'new', n int GENERATED ALWAYS AS (1 + 1) STORED,
      made timestamptz DEFAULT now(), CHECK (code <> ''));
    COMMENT ON TABLE customers IS 'Who buys';
    INSERT INTO customers ("E Mail", code) SELECT 'm' || i, 'c' || i FROM generate_series(1, 30000) i;
    CREATE TABLE orders (day date NOT NULL, customer int REFERENCES customers, total numeric(12,2)) PARTITION BY RANGE (day);
    CREATE TABLE orders_2025 PARTITION OF orders FOR VALUES FROM ('2025-01-01') TO ('2026-01-01');
    CREATE TABLE orders_2026 PARTITION OF orders FOR VALUES FROM ('2026-01-01') TO ('2027-01-01');
    INSERT INTO orders SELECT date '2025-12-01' + i % 60, 1 + i, i * 1.25 FROM generate_series(0, 999) i;
    CREATE TABLE parent (n int); CREATE TABLE child (m int) INHERITS (parent);
    INSERT INTO parent VALUES (1); INSERT INTO child VALUES (2, 3);
    CREATE TABLE "Parent" (n int); CREATE TABLE no_columns ();
    CREATE INDEX by_customer ON orders (customer);
    CREATE VIEW sums AS SELECT customer, sum(total) AS total FROM orders GROUP BY customer;
    CREATE VIEW big AS SELECT * FROM sums WHERE total > 1000;
    CREATE MATERIALIZED VIEW counts AS SELECT count(*) AS n FROM orders;
    CREATE VIEW own AS SELECT pg_backend_pid() AS pid;
    CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
    CREATE TRIGGER watched BEFORE INSERT ON customers FOR EACH ROW EXECUTE FUNCTION f();
    CREATE SCHEMA archive; CREATE TABLE archive.old AS SELECT 1 AS n`);
});
after(async () => {
  if (skip) return;
  await client.end().catch(() => undefined);
  await world.close();
});

test('every type arrives exactly, and what does not carry over is listed', { skip }, async () => {
  const report = await world.imported([...from, '-d', 'pg']);
  const states = Object.fromEntries(report.tables.map(({ name, state, rows }) => [name, `${state} ${rows}`]));
  assert.deepEqual(states, {
    Parent: 'loaded 0',
    child: 'loaded 1',
    customers: 'loaded 30000',
    orders: 'loaded 1000',
    types: 'loaded 3',
  });
  assert.deepEqual(
    await world.types('pg', 'types'),
    Object.fromEntries(columns.map(([name, , , type]) => [name, type])),
  );
  const server = world.server.client;
  const texts = columns.filter(([, , , type]) => type === 'STRING').filter(([, , , , text]) => text !== undefined);
  const sql = `SELECT ${texts.map(([name]) => name).join(', ')} FROM types WHERE i2 = -32768`;
  assert.deepEqual(await server.query(sql, { database: 'pg' }).all(), [
    Object.fromEntries(texts.map(([name, , , , text]) => [name, text])),
  ]);
  const [values] = await server.query('SELECT t, c, tz, free FROM types WHERE i2 < 0', { database: 'pg' }).all();
  assert.deepEqual(values, {
    t: 'a"b,c\nd\\N',
    c: 'ab',
    tz: '2026-01-31T08:00:00.25Z',
    free: '12345678901234567890.125',
  });
  const customers = await server.databases('pg').tables('customers').get();
  assert.deepEqual(
    [customers.primaryKey, customers.unique_key_constraints, customers.comment],
    [['id'], ['E Mail'], 'Who buys'],
  );
  assert.deepEqual(
    report.views.map(({ name, state }) => `${name} ${state}`),
    ['big created', 'counts created', 'own refused', 'sums created'],
  );
  const found = new Set(lost(report));
  for (const expected of [
    'customers.id: default',
    'customers: unique key',
    'customers: check',
    'customers.n: generated column',
    'customers.watched: trigger',
    'customers_id_seq: sequence',
    'orders: foreign key',
    'by_customer: index',
    'counts: materialized view',
    'f: function',
    'archive: schema',
    'parent: table',
    'no_columns: table',
    'types.age: domain',
    ...texts.map(([name]) => `types.${name}: type`),
  ])
    assert.ok(found.has(expected), `${expected} is not in ${[...found].join('; ')}`);
});

test('a wrong password, a database that does not exist and a server that does not answer are named', {
  skip,
}, async () => {
  await runInCluster(
    `do $$ begin create user ${userWithPassword} password 'right'; exception when duplicate_object then null; end $$`,
  );
  const { host, port, database } = location;
  const urlOf = (user: string, name: string, at = host) =>
    `postgres://${user}@${encodeURIComponent(at)}:${port}/${name}`;
  const cases: readonly (readonly [string, number, RegExp])[] = [
    [urlOf(`${userWithPassword}:wrong`, database), 1, /password authentication failed.*PGPASSWORD or ~\/\.pgpass/],
    [urlOf('tabularium', 'missing'), 1, /database "missing" does not exist/],
    ['postgres://127.0.0.1:9/x', 1, /the connection failed .*ECONNREFUSED/],
    ['mysql://host/x', 2, /--from must have the form postgres:/],
  ];
  for (const [url, code, message] of cases) {
    const ended = await world.run(['--from', url, '-d', 'none']);
    assert.equal(ended.code, code, ended.stderr);
    assert.match(ended.stderr, message);
    assert.doesNotMatch(ended.stderr, /wrong/);
  }
});

test('a connection that is lost while a statement is sent is said to be lost', () => {
  const lost = Object.assign(new Error('write EPIPE'), { code: 'EPIPE' });
  const error = toOperatorError('postgres:///source', lost);
  assert.match(String(error), /the connection failed \(write EPIPE\); run the import again/);
});

test('an import that is interrupted, or whose source is lost, is completed by the next one', { skip }, async () => {
  // More than a batch, so that the command is in the middle of the table when it ends.
  await client.query(
    `CREATE TABLE archive.wide AS SELECT i, repeat(md5(i::text), 8) AS text FROM generate_series(1, 60000) i`,
  );
  const words = [...from, '--schema', 'archive', '-d', 'archived'];
  const isReading = async () => {
    const { rows } = await client.query(
      `SELECT 1 FROM pg_stat_activity WHERE application_name = 'tabularium import' AND query LIKE 'FETCH%' AND datname = current_database()`,
    );
    return rows.length > 0;
  };
  const interrupted = await world.run(words, {
    started: (kill) => void eventually('it reads rows', isReading).then(() => kill('SIGINT')),
  });
  assert.deepEqual([interrupted.code, interrupted.stdout], [130, ''], interrupted.stderr);
  const cut = await world.run(words, {
    started: () =>
      void eventually('it reads rows', isReading).then(() =>
        client.query(
          `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tabularium import'`,
        ),
      ),
  });
  assert.equal(cut.code, 1, cut.stderr + cut.stdout);
  assert.match(cut.stderr, /run the import again, what is complete is not repeated/);
  const killed = await world.run(words, {
    started: (kill) => void eventually('it reads rows', isReading).then(() => kill('SIGKILL')),
  });
  assert.equal(killed.code, null);
  const report = await world.imported(words);
  assert.deepEqual(
    report.tables.map(({ name, rows }) => [name, rows]),
    [
      ['old', 1],
      ['wide', 60_000],
    ],
  );
  const [row] = await world.server.client.query('SELECT count(*) AS n FROM wide', { database: 'archived' }).all();
  assert.deepEqual(row, { n: 60_000n });
});
