// Each kind of Change on a real DuckDB, except altered tables: its effect, its idempotency, and that a copy of the files taken
// right afterwards (a crash, for DuckDB) has the same content.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { test } from 'node:test';
import { costOf } from '../../src/engines/duckdb/ddl/apply_change.ts';
import { forgetSteps, inTransaction, rememberStep } from '../../src/engines/duckdb/instance/applied_steps.ts';
import { qualifiedTable } from '../../src/engines/duckdb/sql/identifiers.ts';
import { catalogFile } from '../../src/engines/duckdb/storage/catalog_files.ts';
import type { Change, DatabaseRef, TableRef } from '../../src/engines/engine.ts';

import { assertSurvives, column, definition, hostile, requireIdempotent, world } from './changes_world.ts';

const everyType = [
  'BOOLEAN', 'TINYINT', 'SMALLINT', 'INT', 'BIGINT', 'LARGEINT', 'FLOAT', 'DOUBLE', 'DECIMAL(38,10)', 'DATE', 'DATETIME', 'TIMESTAMPTZ', 'CHAR(3)',
  'VARCHAR(10)', 'STRING', 'BINARY', 'JSON', 'UUID', 'ARRAY<DECIMAL(5,2)>', 'MAP<STRING, ARRAY<INT>>', `STRUCT<"a ""b"" '": INT, b: MAP<INT, JSON>>`,
]; // biome-ignore format: one list

test('a catalog is created, renamed and dropped, each twice, with hostile names', async () => {
  const w = await world(hostile);
  await w.apply({ kind: 'createCatalog', catalog: w.catalog });
  await w.apply({ kind: 'createTable', table: w.table, definition: definition([column('a', 'INT')]) });
  await w.connection.run(`INSERT INTO ${qualifiedTable(w.table)} VALUES (1)`);
  const renamed = { ...w.catalog, name: 'other' };
  for (let i = 0; i < 2; i++) await w.apply({ kind: 'renameCatalog', catalog: w.catalog, newName: 'other' });
  assert.deepEqual(await w.rows(`SELECT a FROM ${qualifiedTable({ ...w.table, catalog: renamed })}`), [[1]]);
  await w.apply({ kind: 'renameCatalog', catalog: renamed, newName: 'OTHER' });
  for (let i = 0; i < 2; i++) await w.apply({ kind: 'dropCatalog', catalog: renamed });
  assert.equal(existsSync(catalogFile(w.dataDirectory, w.catalog)), false);
  assert.equal(existsSync(`${catalogFile(w.dataDirectory, w.catalog)}.wal`), false);
  assert.deepEqual(await w.rows(`SELECT * FROM duckdb_databases() WHERE lower(database_name) = 'other'`), []);
});

test('tables of every type are created and dropped', async () => {
  const w = await world();
  const columns = everyType.map((type, i) => column(`${i} ${hostile}`, type));
  await requireIdempotent(w, { kind: 'createTable', table: w.table, definition: definition(columns) });
  await w.connection.run(`INSERT INTO ${qualifiedTable(w.table)} DEFAULT VALUES`);
  await assertSurvives(w);
  for (let i = 0; i < 2; i++) await w.apply({ kind: 'dropTable', table: w.table });
  await w.apply({ kind: 'dropTable', table: { ...w.table, database: 'missing' } });
  await w.apply({ kind: 'dropTable', table: { ...w.table, catalog: { id: 'x', name: 'missing' } } });
  await requireIdempotent(w, { kind: 'dropDatabase', database: w.database });
  await w.apply({ kind: 'dropDatabase', database: { ...w.database, catalog: { id: 'x', name: 'missing' } } });
});

test('keys, NOT NULL, defaults and lengths are enforced', async () => {
  const w = await world();
  const columns = [
    column('id', 'INT', { nullable: false }),
    column('u', 'STRING'),
    column('v', 'VARCHAR(3)', { nullable: false, defaultValue: `'x' || 'y'` }),
  ];
  await requireIdempotent(w, {
    kind: 'createTable',
    table: w.table,
    definition: definition(columns, { primaryKey: ['id'], uniqueKey: ['u'] }),
  });
  const insert = (values: string): Promise<unknown> =>
    w.connection.run(`INSERT INTO ${qualifiedTable(w.table)} VALUES ${values}`);
  await insert(`(1, 'a', '😀😀😀'), (2, NULL, 'x'), (3, NULL, DEFAULT)`);
  await assert.rejects(insert(`(1, 'b', 'x')`), /Duplicate key/);
  await assert.rejects(insert(`(4, 'a', 'x')`), /Duplicate key/);
  await assert.rejects(insert(`(4, 'b', NULL)`), /NOT NULL constraint failed/);
  await assert.rejects(insert(`(4, 'b', 'long')`), /CHECK constraint failed on table .*length\(v\) <= 3/s);
  assert.deepEqual(await w.rows(`SELECT v FROM ${qualifiedTable(w.table)} WHERE id = 3`), [['xy']]);
});

test('a renamed table keeps its data and its key, also if only the case changes', async () => {
  const w = await world();
  const spec = definition([column('a', 'INT'), column('b', 'INT')], { primaryKey: ['a'], uniqueKey: ['b'] });
  await w.apply({ kind: 'createTable', table: w.table, definition: spec });
  await w.connection.run(`INSERT INTO ${qualifiedTable(w.table)} VALUES (1, 2)`);
  let table = w.table;
  for (const newName of ['New', 'NEW', `"${hostile}"`]) {
    await requireIdempotent(w, { kind: 'renameTable', table, newName, definition: spec });
    table = { ...table, table: newName };
    await assert.rejects(w.connection.run(`INSERT INTO ${qualifiedTable(table)} VALUES (9, 2)`), /Duplicate key/);
  }
  assert.deepEqual(await w.rows(`SELECT table_name FROM duckdb_tables() WHERE schema_name <> '__tabularium'`), [
    [table.table],
  ]);
  await requireIdempotent(w, { kind: 'truncateTable', table });
  assert.deepEqual(await w.rows(`SELECT count(*) FROM ${qualifiedTable(table)}`), [['0']]);
});

test('a truncation that is repeated after later inserts does nothing', async () => {
  const w = await world();
  await w.apply({ kind: 'createTable', table: w.table, definition: definition([column('a', 'INT')]) });
  await w.apply({ kind: 'truncateTable', table: w.table }, 'step 1');
  await w.connection.run(`INSERT INTO ${qualifiedTable(w.table)} VALUES (1)`);
  await w.apply({ kind: 'truncateTable', table: w.table }, 'step 1');
  assert.deepEqual(await w.rows(`SELECT a FROM ${qualifiedTable(w.table)}`), [[1]]);
  await forgetSteps(w.connection, w.catalog, ['step 1', `it's`]);
  await w.apply({ kind: 'truncateTable', table: w.table }, 'step 1');
  assert.deepEqual(await w.rows(`SELECT a FROM ${qualifiedTable(w.table)}`), []);
});

test('a step is recorded only with the transaction of its work', async () => {
  const w = await world();
  const failing = inTransaction(w.connection, async () => {
    assert.equal(await rememberStep(w.connection, w.catalog.name, 's'), true);
    throw new Error('no');
  });
  await assert.rejects(failing, /^Error: no$/);
  assert.equal(await inTransaction(w.connection, () => rememberStep(w.connection, w.catalog.name, 's')), true);
  assert.equal(await inTransaction(w.connection, () => rememberStep(w.connection, w.catalog.name, 's')), false);
});

test('a renamed database keeps its tables, keys and data', async () => {
  const w = await world();
  const spec = definition([column('a', 'INT'), column('b', 'VARCHAR(5)', { defaultValue: `'d'` })], {
    primaryKey: ['a'],
    uniqueKey: ['b'],
  });
  const plain = definition(everyType.map((type, i) => column(`c${i}`, type)));
  const other: TableRef = { ...w.database, table: 'other' };
  await w.apply({ kind: 'createTable', table: w.table, definition: spec });
  await w.apply({ kind: 'createTable', table: other, definition: plain });
  await w.connection.run(`INSERT INTO ${qualifiedTable(w.table)} SELECT range, range::VARCHAR FROM range(1000)`);
  await w.connection.run(`INSERT INTO ${qualifiedTable(other)} DEFAULT VALUES`);
  const tables = [
    { name: w.table.table, definition: spec },
    { name: 'other', definition: plain },
  ];
  const change: Change = { kind: 'renameDatabase', database: w.database, newName: `new ${hostile}`, tables };
  assert.equal(await costOf(w.connection, change), 'instant');
  await requireIdempotent(w, change);
  const moved = { ...w.table, database: change.newName };
  assert.deepEqual(await w.rows(`SELECT count(*) FROM ${qualifiedTable(moved)}`), [['1000']]);
  await assert.rejects(w.connection.run(`INSERT INTO ${qualifiedTable(moved)} VALUES (2000, '1')`), /Duplicate key/);
  await w.connection.run(`INSERT INTO ${qualifiedTable(moved)} SELECT range, range::VARCHAR FROM range(1000, 100000)`);
  const back: Change = { ...change, database: { ...w.database, database: change.newName }, newName: 'x' };
  assert.equal(await costOf(w.connection, back), 'rewrite');
  await w.apply({ ...back, newName: change.newName.toUpperCase() });
});

test('a database can be named main, which is also the name of a schema of DuckDB', async () => {
  const w = await world();
  const main: DatabaseRef = { catalog: w.catalog, database: 'main' };
  const table: TableRef = { ...main, table: 't' };
  const spec = definition([column('a', 'INT')], { uniqueKey: ['a'] });
  for (const to of ['other', 'MAIN']) {
    await requireIdempotent(w, { kind: 'createDatabase', database: main });
    await w.apply({ kind: 'createTable', table, definition: spec });
    await w.connection.run(`INSERT INTO ${qualifiedTable(table)} VALUES (1)`);
    await requireIdempotent(w, {
      kind: 'renameDatabase',
      database: main,
      newName: to,
      tables: [{ name: 't', definition: spec }],
    });
    assert.deepEqual(await w.rows(`SELECT a FROM ${qualifiedTable({ ...table, database: to })}`), [[1]]);
  }
  await requireIdempotent(w, { kind: 'dropDatabase', database: main });
  const other = { ...main, database: 'other' };
  await requireIdempotent(w, {
    kind: 'renameDatabase',
    database: other,
    newName: 'main',
    tables: [{ name: 't', definition: spec }],
  });
  assert.deepEqual(await w.rows(`SELECT a FROM ${qualifiedTable(table)}`), [[1]]);
  await requireIdempotent(w, { kind: 'dropDatabase', database: main });
  assert.deepEqual(await w.rows(`SELECT * FROM duckdb_tables() WHERE schema_name = 'main'`), []);
});

test('a catalog that a transaction still reads is renamed when the transaction ends', async () => {
  const w = await world('busy');
  await w.apply({ kind: 'createTable', table: w.table, definition: definition([column('a', 'INT')]) });
  const reader = await w.instance.connect();
  await reader.run('USE busy');
  await reader.run('BEGIN');
  await reader.run(`SELECT * FROM ${qualifiedTable(w.table)}`);
  const renaming = w.apply({ kind: 'renameCatalog', catalog: w.catalog, newName: 'idle' });
  await new Promise((resolve) => setTimeout(resolve, 150));
  await reader.run('COMMIT');
  await renaming;
  assert.deepEqual(
    await w.rows(`SELECT * FROM ${qualifiedTable({ ...w.table, catalog: { ...w.catalog, name: 'idle' } })}`),
    [],
  );
  reader.closeSync();
});
