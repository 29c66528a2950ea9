// `import` of a DuckDB file: every type, nulls, empty tables, odd names, keys, views, and what does not carry over; and wrong files.
import assert from 'node:assert/strict';
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { DuckDBInstance } from '@duckdb/node-api';
import { openDuckdbSource } from '../../../../src/engines/duckdb/import_source/duckdb_source.ts';
import { OperatorError } from '../../../../src/operator/operator_error.ts';
import { becomesText, exact, typesStatements, writeDuckdbFile } from './duckdb_files.ts';
import { type ImportTest, lost, startImports } from './imports.ts';

let world: ImportTest;

before(async () => {
  world = await startImports();
  await writeDuckdbFile(world.path('all.duckdb'), [
    ...typesStatements(),
    'CREATE SEQUENCE numbers',
    'CREATE MACRO twice(x) AS 2 * x',
    `CREATE TABLE customers (id INTEGER PRIMARY KEY, code VARCHAR UNIQUE, mail VARCHAR UNIQUE, age INTEGER CHECK (age >= 0), state VARCHAR DEFAULT 'new', n BIGINT DEFAULT nextval('numbers'))`,
    `INSERT INTO customers (id, code, mail, age) SELECT i, 'c' || i, 'm' || i, i % 90 FROM range(5000) AS r(i)`,
    'CREATE TABLE orders (id BIGINT NOT NULL, customer INTEGER REFERENCES customers (id))',
    'CREATE INDEX by_customer ON orders (customer)',
    'CREATE TABLE "odd, ""name"".csv" ("a ""b"", c" INTEGER, "é😀" VARCHAR)',
    `INSERT INTO "odd, ""name"".csv" VALUES (1, 'x'), (NULL, NULL)`,
    'CREATE TABLE one (only_null VARCHAR)',
    `INSERT INTO one VALUES (NULL), (''), ('a')`,
    'CREATE VIEW grown AS SELECT * FROM customers WHERE id > 10',
    'CREATE VIEW adults(number, years) AS SELECT id, age FROM grown WHERE age > 17',
    'CREATE VIEW foreign_function AS SELECT twice(id) AS n FROM customers',
    `COMMENT ON TABLE customers IS 'Who buys'`,
    'CREATE SCHEMA archive',
    'CREATE TABLE archive.old AS SELECT 1 AS n',
  ]);
});
after(() => world.close());

test('a dry run lists tables, types and what does not carry over, and changes nothing', async () => {
  const plan = await world.run(['all.duckdb', '-d', 'dry', '--dry-run']);
  assert.equal(plan.code, 0, plan.stderr);
  assert.match(plan.stdout, /customers +5000 rows +primary key \(id\)/);
  assert.match(plan.stdout, /types\.iv +type +INTERVAL becomes STRING/);
  assert.equal(
    (await world.server.client.databases.list().all()).some(({ name }) => name === 'dry'),
    false,
  );
});

test('every type arrives exactly, with keys, views and comments; what does not is listed', async () => {
  const report = await world.imported(['all.duckdb', '-d', 'all']);
  assert.deepEqual(
    report.tables.map(({ name, state }) => `${name} ${state}`),
    ['customers', 'odd, "name".csv', 'one', 'orders', 'types'].map((name) => `${name} loaded`),
  );
  assert.deepEqual(report.views.map(({ name, state }) => `${name} ${state}`).sort(), [
    'adults created',
    'foreign_function refused',
    'grown created',
  ]);
  assert.deepEqual(
    await world.types('all', 'types'),
    Object.fromEntries([
      ...exact.map(([name, , logical]) => [name, logical]),
      ...becomesText.map(([name]) => [name, 'STRING']),
    ]),
  );
  const { client } = world.server;
  const texts = await client
    .query(`SELECT ${becomesText.map(([name]) => name).join(', ')} FROM types WHERE t IS NOT NULL`, { database: 'all' })
    .all();
  assert.deepEqual(texts, [Object.fromEntries(becomesText.map(([name, , , text]) => [name, text]))]);
  const [values] = await client.query('SELECT s, j, tz FROM types WHERE i1 = -128', { database: 'all' }).all();
  assert.deepEqual(values, { s: '', j: { a: [1, 2.5, 12345678901234567890n] }, tz: '2026-01-31T08:00:00.25Z' });
  const customers = await client.databases('all').tables('customers').get();
  assert.deepEqual(
    [customers.primaryKey, customers.unique_key_constraints, customers.comment],
    [['id'], ['code'], 'Who buys'],
  );
  assert.equal(customers.columns.find(({ name }) => name === 'state')?.defaultValue, "'new'");
  assert.deepEqual(lost(report), [
    'customers.n: default',
    'customers: unique key',
    'customers: check',
    'orders: foreign key',
    ...becomesText.map(([name]) => `types.${name}: type`),
    'orders.by_customer: index',
    'numbers: sequence',
    'twice: macro',
    'archive: schema',
  ]);
});

test('a second import does nothing, a changed table is found, and one schema or table is imported alone', async () => {
  const again = await world.imported(['all.duckdb', '-d', 'all']);
  assert.deepEqual(new Set(again.tables.map(({ state }) => state)), new Set(['present']));
  const { client } = world.server;
  await client.query('UPDATE customers SET age = 41 WHERE id = 7', { database: 'all' }).summary();
  const changed = await world.imported(['all.duckdb', '-d', 'all', '--table', 'customers'], 6);
  assert.match(changed.tables[0]?.reason ?? '', /its column age are others than those of the source/);
  const archived = await world.imported(['all.duckdb', '-d', 'archived', '--schema', 'archive']);
  assert.deepEqual(archived.tables, [{ name: 'old', state: 'loaded', rows: 1 }]);
});

test('a table that exists with other columns is not touched', async () => {
  await world.server.client.databases.create({ name: 'taken' });
  const columns = [{ name: 'other', type: 'INT' }];
  await world.server.client.databases('taken').tables.create({ name: 'one', columns }).done();
  const { code, stderr } = await world.run(['all.duckdb', '-d', 'taken', '--table', 'one']);
  assert.equal(code, 1);
  assert.match(stderr, /the table one exists with other columns; drop it/);
});

test('files that cannot be read are named with what to do, and nothing is created', async () => {
  const bytes = readFileSync(world.path('all.duckdb'));
  writeFileSync(world.path('cut.duckdb'), bytes.subarray(0, 8192));
  const broken = Buffer.from(bytes);
  broken.fill(0x5a, 12_288, bytes.length - 1000);
  writeFileSync(world.path('broken.duckdb'), broken);
  writeFileSync(world.path('text.duckdb'), 'no database at all, but long enough to be one');
  await writeDuckdbFile(world.path('secret.duckdb'), [
    `SET force_mbedtls_unsafe = 'true'`,
    `ATTACH '${world.path('encrypted.duckdb')}' AS e (ENCRYPTION_KEY 'a key')`,
    'CREATE TABLE e.t AS SELECT 1 AS n',
    'DETACH e',
  ]);
  copyFileSync(world.path('all.duckdb'), world.path('used.duckdb'));
  const used = await DuckDBInstance.create(world.path('used.duckdb'));
  const cases: readonly (readonly [string, RegExp])[] = [
    ['cut.duckdb', /cut\.duckdb cannot be read, it may be damaged/],
    ['broken.duckdb', /broken\.duckdb (cannot be read, it may be|is) damaged/],
    ['encrypted.duckdb', /is encrypted: copy its tables into a file without encryption first/],
  ];
  for (const [file, message] of cases) {
    const read = openDuckdbSource(world.path(file), {}).then((source) => source.read(new AbortController().signal));
    await assert.rejects(read, (error) => error instanceof OperatorError && message.test(error.message), file);
  }
  const missing = await world.run(['missing.duckdb', '-d', 'none']);
  assert.deepEqual(
    [missing.code, /cannot be read \(it does not exist: check the path/.test(missing.stderr)],
    [2, true],
  );
  const damaged = await world.run(['cut.duckdb', '-d', 'none']);
  assert.deepEqual([damaged.code, /may be damaged/.test(damaged.stderr)], [1, true]);
  const unknown = await world.run(['text.duckdb', '-d', 'none']);
  assert.deepEqual([unknown.code, /neither a DuckDB file nor a SQLite file/.test(unknown.stderr)], [2, true]);
  const inUse = await world.run(['used.duckdb', '-d', 'none']);
  assert.deepEqual([inUse.code, /is open in another process for writing/.test(inUse.stderr)], [1, true], inUse.stderr);
  used.closeSync();
  const neither = await world.run(['-d', 'none']);
  assert.deepEqual([neither.code, /give a file, or --from/.test(neither.stderr)], [2, true]);
  assert.equal(
    (await world.server.client.databases.list().all()).some(({ name }) => name === 'none'),
    false,
  );
});
