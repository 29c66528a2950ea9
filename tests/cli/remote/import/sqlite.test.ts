// `import` of a SQLite file, whose columns may have values of any type: the types that are chosen, exact values, and files that are wrong.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { after, before, test } from 'node:test';
import { openSqliteSource } from '../../../../src/cli/remote/import/sqlite_source.ts';
import { OperatorError } from '../../../../src/operator/operator_error.ts';
import { type ImportTest, lost, startImports } from './imports.ts';

let world: ImportTest;
let locked: DatabaseSync | undefined;

/** Name, declared type, values, and the type on the server. */
const columns: readonly (readonly [string, string, readonly string[], string])[] = [
  ['whole', 'INTEGER', ['-9223372036854775808', '9223372036854775807'], 'BIGINT'],
  ['flag', 'BOOLEAN', ['0', '1'], 'BOOLEAN'],
  ['flags', 'BOOLEAN', ['0', '2'], 'BIGINT'],
  ['floating', 'REAL', ['0.1', '-9e999', '5e-324'], 'DOUBLE'],
  ['money', 'DECIMAL(10,2)', ['12.5', '-0.01', '99999999.99', '7'], 'DECIMAL(10,2)'],
  ['inexact', 'DECIMAL(10,2)', ['12.345'], 'DOUBLE'],
  ['numbers', '', ['1', '2.5'], 'DOUBLE'],
  ['wide', 'NUMERIC', ['9007199254740993', '2.5'], 'STRING'],
  ['mixed', 'ANY', ['1', "'one'", "x'00ff'"], 'STRING'],
  ['both', 'TEXT', ["'é'", "x'ff'"], 'BINARY'],
  ['text', 'VARCHAR(10)', ["'longer than ten characters'", "''", `'a"b,c' || char(10) || 'd'`, "'\\N'"], 'STRING'],
  ['broken', 'TEXT', ["CAST(x'ff41' AS TEXT)"], 'BINARY'],
  ['bytes', 'BLOB', ["x'0001'", "x''"], 'BINARY'],
  ['day', 'DATE', ["'2026-02-28'", "'0001-01-01'"], 'DATE'],
  ['not_day', 'DATE', ["'2026-02-30'"], 'STRING'],
  ['moment', 'DATETIME', ["'2026-01-31 10:00:00'", "'2026-01-31T23:59:59.123456'"], 'DATETIME'],
  ['not_moment', 'TIMESTAMP', ["'2026-01-31'"], 'STRING'],
  ['document', 'JSON', [`'{"a" : [1, null]}'`], 'JSON'],
  ['empty', 'INTEGER', [], 'BIGINT'],
];

before(async () => {
  world = await startImports();
  const db = new DatabaseSync(world.path('all.sqlite'));
  db.exec(`CREATE TABLE types (${columns.map(([name, type]) => `"${name}" ${type}`).join(', ')})`);
  for (let i = 0; i < 5; i++)
    db.exec(`INSERT INTO types VALUES (${columns.map(([, , values]) => values[i] ?? 'NULL').join(', ')})`);
  db.exec(`
    CREATE TABLE parents (id INTEGER PRIMARY KEY AUTOINCREMENT, code TEXT UNIQUE NOT NULL DEFAULT 'new', at TEXT DEFAULT (random()), twice INT AS (id * 2));
    INSERT INTO parents (code, at) VALUES ('a', 'x'), ('b', 'y');
    CREATE TABLE children (a INT, b TEXT, parent INT REFERENCES parents (id), CHECK (a > 0), PRIMARY KEY (b, a)) WITHOUT ROWID;
    CREATE TABLE Parents2 (n INT); CREATE TABLE "sales, 2026" ("a ""b""" INT);
    CREATE TABLE "bad" ("x" INT, "${'long'.repeat(40)}" INT);
    CREATE VIEW codes (c) AS SELECT code FROM parents;
    CREATE VIEW local AS SELECT sqlite_version() AS v;
    CREATE INDEX by_code ON parents (code, at);
    CREATE TRIGGER t AFTER INSERT ON parents BEGIN SELECT 1; END;
    CREATE VIRTUAL TABLE words USING fts5 (w);`);
  db.close();
  locked = new DatabaseSync(world.path('locked.sqlite'));
  locked.exec('CREATE TABLE t (n INT); BEGIN EXCLUSIVE; INSERT INTO t VALUES (1)');
});
after(async () => {
  locked?.close();
  await world.close();
});

test('types follow from the values, values arrive exactly, and what does not carry over is listed', async () => {
  const report = await world.imported(['all.sqlite', '-d', 'lite']);
  const tables = report.tables.map(({ name, state }) => `${name} ${state}`);
  for (const name of ['Parents2', 'children', 'parents', 'sales, 2026', 'types'])
    assert.ok(tables.includes(`${name} loaded`), name);
  assert.deepEqual(
    await world.types('lite', 'types'),
    Object.fromEntries(columns.map(([name, , , type]) => [name, type])),
  );
  const { client } = world.server;
  const options = { database: 'lite' };
  const [row] = await client
    .query('SELECT whole, floating, money, mixed, broken, moment FROM types WHERE whole < 0', options)
    .all();
  assert.deepEqual(row, {
    whole: -(2n ** 63n),
    floating: 0.1,
    money: '12.50',
    mixed: '1',
    broken: Uint8Array.of(0xff, 0x41),
    moment: '2026-01-31T10:00:00',
  });
  const mixed = await client.query('SELECT mixed FROM types WHERE mixed IS NOT NULL ORDER BY 1', options).all();
  assert.deepEqual(mixed, [{ mixed: '1' }, { mixed: 'one' }, { mixed: "x'00ff'" }]);
  assert.deepEqual(await client.query('SELECT c FROM codes ORDER BY 1', options).all(), [{ c: 'a' }, { c: 'b' }]);
  const children = await client.databases('lite').tables('children').get();
  assert.deepEqual(children.primaryKey, ['b', 'a']);
  const found = new Set(lost(report));
  for (const expected of [
    'parents: sequence',
    'parents.at: default',
    'parents.twice: generated column',
    'children.parent: foreign key',
    'children: check',
    'by_code: index',
    't: trigger',
    'words: virtual table',
    'bad: table',
    'types.mixed: type',
    'types.broken: type',
    'types.inexact: type',
  ])
    assert.ok(found.has(expected), `${expected} is not in ${[...found].join('; ')}`);
  assert.equal(report.views.find(({ name }) => name === 'local')?.state, 'refused');
});

test('files that are damaged, encrypted or locked are named with what to do', async () => {
  const bytes = readFileSync(world.path('all.sqlite'));
  const damaged = Buffer.from(bytes);
  damaged.fill(0xff, 4096);
  writeFileSync(world.path('damaged.sqlite'), damaged);
  const encrypted = Buffer.from(bytes);
  encrypted.fill(0x5a, 16);
  writeFileSync(world.path('encrypted.sqlite'), encrypted);
  const cases = [
    ['damaged.sqlite', /is damaged|cannot be read/],
    ['encrypted.sqlite', /is no SQLite file, or is encrypted/],
    ['locked.sqlite', /is locked by another process/],
  ] as const;
  for (const [file, message] of cases) {
    const read = openSqliteSource(world.path(file), {}).then((source) => source.read(new AbortController().signal));
    await assert.rejects(read, (error) => error instanceof OperatorError && message.test(error.message), file);
  }
  const ended = await world.run(['damaged.sqlite', '-d', 'none', '--json']);
  assert.deepEqual([ended.code, ended.stdout], [1, '']);
  assert.match(ended.stderr, /"code":"COMMAND_FAILED"/);
});
