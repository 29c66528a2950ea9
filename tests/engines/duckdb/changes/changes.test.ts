// Each kind of Change on a real DuckDB, except altered tables: its effect, its idempotency, and that a copy of the files taken
// right afterwards (a crash, for DuckDB) has the same content.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { test } from 'node:test';
import { applyChange, costOf } from '../../../../src/engines/duckdb/ddl/apply_change.ts';
import { forgetSteps, inTransaction, rememberStep } from '../../../../src/engines/duckdb/instance/applied_steps.ts';
import { qualifiedTable } from '../../../../src/engines/duckdb/sql/identifiers.ts';
import { catalogFile } from '../../../../src/engines/duckdb/storage/catalog_files.ts';
import type { Change } from '../../../../src/engines/port/changes.ts';
import type { DatabaseRef, TableRef } from '../../../../src/engines/port/refs.ts';

import { assertSurvives, column, definition, hostileName, requireIdempotent, world } from './changes_world.ts';

const everyType = [
  'BOOLEAN', 'TINYINT', 'SMALLINT', 'INT', 'BIGINT', 'LARGEINT', 'FLOAT', 'DOUBLE', 'DECIMAL(38,10)', 'DATE', 'DATETIME', 'TIMESTAMPTZ', 'CHAR(3)',
  'VARCHAR(10)', 'STRING', 'BINARY', 'JSON', 'UUID', 'ARRAY<DECIMAL(5,2)>', 'MAP<STRING, ARRAY<INT>>', `STRUCT<"a ""b"" '": INT, b: MAP<INT, JSON>>`,
]; // biome-ignore format: one list

test('a catalog is created, renamed and dropped, each twice, with hostile names', async () => {
  const fixture = await world(hostileName);
  await fixture.apply({ kind: 'createCatalog', catalog: fixture.catalog });
  await fixture.apply({ kind: 'createTable', table: fixture.table, definition: definition([column('a', 'INT')]) });
  await fixture.connection.run(`INSERT INTO ${qualifiedTable(fixture.table)} VALUES (1)`);
  const renamed = { ...fixture.catalog, name: 'other' };
  for (let i = 0; i < 2; i++)
    await fixture.apply({ kind: 'renameCatalog', catalog: fixture.catalog, newName: 'other' });
  assert.deepEqual(await fixture.rows(`SELECT a FROM ${qualifiedTable({ ...fixture.table, catalog: renamed })}`), [
    [1],
  ]);
  await fixture.apply({ kind: 'renameCatalog', catalog: renamed, newName: 'OTHER' });
  for (let i = 0; i < 2; i++) await fixture.apply({ kind: 'dropCatalog', catalog: renamed });
  assert.equal(existsSync(catalogFile(fixture.dataDirectory, fixture.catalog)), false);
  assert.equal(existsSync(`${catalogFile(fixture.dataDirectory, fixture.catalog)}.wal`), false);
  assert.deepEqual(await fixture.rows(`SELECT * FROM duckdb_databases() WHERE lower(database_name) = 'other'`), []);
});

test('tables of every type are created and dropped', async () => {
  const fixture = await world();
  const columns = everyType.map((type, i) => column(`${i} ${hostileName}`, type));
  await requireIdempotent(fixture, { kind: 'createTable', table: fixture.table, definition: definition(columns) });
  await fixture.connection.run(`INSERT INTO ${qualifiedTable(fixture.table)} DEFAULT VALUES`);
  await assertSurvives(fixture);
  for (let i = 0; i < 2; i++) await fixture.apply({ kind: 'dropTable', table: fixture.table });
  await fixture.apply({ kind: 'dropTable', table: { ...fixture.table, database: 'missing' } });
  await fixture.apply({ kind: 'dropTable', table: { ...fixture.table, catalog: { id: 'x', name: 'missing' } } });
  await requireIdempotent(fixture, { kind: 'dropDatabase', database: fixture.database });
  await fixture.apply({
    kind: 'dropDatabase',
    database: { ...fixture.database, catalog: { id: 'x', name: 'missing' } },
  });
});

test('keys, NOT NULL, defaults and lengths are enforced', async () => {
  const fixture = await world();
  const columns = [
    column('id', 'INT', { nullable: false }),
    column('u', 'STRING'),
    column('v', 'VARCHAR(3)', { nullable: false, defaultValue: `'x' || 'y'` }),
  ];
  await requireIdempotent(fixture, {
    kind: 'createTable',
    table: fixture.table,
    definition: definition(columns, { primaryKey: ['id'], uniqueKey: ['u'] }),
  });
  const insert = (values: string): Promise<unknown> =>
    fixture.connection.run(`INSERT INTO ${qualifiedTable(fixture.table)} VALUES ${values}`);
  await insert(`(1, 'a', '😀😀😀'), (2, NULL, 'x'), (3, NULL, DEFAULT)`);
  await assert.rejects(insert(`(1, 'b', 'x')`), /Duplicate key/);
  await assert.rejects(insert(`(4, 'a', 'x')`), /Duplicate key/);
  await assert.rejects(insert(`(4, 'b', NULL)`), /NOT NULL constraint failed/);
  await assert.rejects(insert(`(4, 'b', 'long')`), /CHECK constraint failed on table .*length\(v\) <= 3/s);
  assert.deepEqual(await fixture.rows(`SELECT v FROM ${qualifiedTable(fixture.table)} WHERE id = 3`), [['xy']]);
});

test('a renamed table keeps its data and its key, also if only the case changes', async () => {
  const fixture = await world();
  const spec = definition([column('a', 'INT'), column('b', 'INT')], { primaryKey: ['a'], uniqueKey: ['b'] });
  await fixture.apply({ kind: 'createTable', table: fixture.table, definition: spec });
  await fixture.connection.run(`INSERT INTO ${qualifiedTable(fixture.table)} VALUES (1, 2)`);
  let table = fixture.table;
  for (const newName of ['New', 'NEW', `"${hostileName}"`]) {
    await requireIdempotent(fixture, { kind: 'renameTable', table, newName, definition: spec });
    table = { ...table, table: newName };
    await assert.rejects(fixture.connection.run(`INSERT INTO ${qualifiedTable(table)} VALUES (9, 2)`), /Duplicate key/);
  }
  assert.deepEqual(await fixture.rows(`SELECT table_name FROM duckdb_tables() WHERE schema_name <> '__tabularium'`), [
    [table.table],
  ]);
  await requireIdempotent(fixture, { kind: 'truncateTable', table });
  assert.deepEqual(await fixture.rows(`SELECT count(*) FROM ${qualifiedTable(table)}`), [['0']]);
});

test('a truncation that is repeated after later inserts does nothing', async () => {
  const fixture = await world();
  await fixture.apply({ kind: 'createTable', table: fixture.table, definition: definition([column('a', 'INT')]) });
  await fixture.apply({ kind: 'truncateTable', table: fixture.table }, 'step 1');
  await fixture.connection.run(`INSERT INTO ${qualifiedTable(fixture.table)} VALUES (1)`);
  await fixture.apply({ kind: 'truncateTable', table: fixture.table }, 'step 1');
  assert.deepEqual(await fixture.rows(`SELECT a FROM ${qualifiedTable(fixture.table)}`), [[1]]);
  await forgetSteps(fixture.connection, fixture.catalog, ['step 1', `it's`]);
  await fixture.apply({ kind: 'truncateTable', table: fixture.table }, 'step 1');
  assert.deepEqual(await fixture.rows(`SELECT a FROM ${qualifiedTable(fixture.table)}`), []);
});

test('a step is recorded only with the transaction of its work', async () => {
  const fixture = await world();
  const failing = inTransaction(fixture.connection, async () => {
    assert.equal(await rememberStep(fixture.connection, fixture.catalog.name, 's'), true);
    throw new Error('no');
  });
  await assert.rejects(failing, /^Error: no$/);
  assert.equal(
    await inTransaction(fixture.connection, () => rememberStep(fixture.connection, fixture.catalog.name, 's')),
    true,
  );
  assert.equal(
    await inTransaction(fixture.connection, () => rememberStep(fixture.connection, fixture.catalog.name, 's')),
    false,
  );
});

test('a renamed database keeps its tables, keys and data', async () => {
  const fixture = await world();
  const spec = definition([column('a', 'INT'), column('b', 'VARCHAR(5)', { defaultValue: `'d'` })], {
    primaryKey: ['a'],
    uniqueKey: ['b'],
  });
  const plain = definition(everyType.map((type, i) => column(`c${i}`, type)));
  const other: TableRef = { ...fixture.database, table: 'other' };
  await fixture.apply({ kind: 'createTable', table: fixture.table, definition: spec });
  await fixture.apply({ kind: 'createTable', table: other, definition: plain });
  await fixture.connection.run(
    `INSERT INTO ${qualifiedTable(fixture.table)} SELECT range, range::VARCHAR FROM range(1000)`,
  );
  await fixture.connection.run(`INSERT INTO ${qualifiedTable(other)} DEFAULT VALUES`);
  const tables = [
    { name: fixture.table.table, definition: spec },
    { name: 'other', definition: plain },
  ];
  const change: Change = { kind: 'renameDatabase', database: fixture.database, newName: `new ${hostileName}`, tables };
  assert.equal(await costOf(fixture.connection, change), 'instant');
  await requireIdempotent(fixture, change);
  const moved = { ...fixture.table, database: change.newName };
  assert.deepEqual(await fixture.rows(`SELECT count(*) FROM ${qualifiedTable(moved)}`), [['1000']]);
  await assert.rejects(
    fixture.connection.run(`INSERT INTO ${qualifiedTable(moved)} VALUES (2000, '1')`),
    /Duplicate key/,
  );
  await fixture.connection.run(
    `INSERT INTO ${qualifiedTable(moved)} SELECT range, range::VARCHAR FROM range(1000, 100000)`,
  );
  const renameBack: Change = { ...change, database: { ...fixture.database, database: change.newName }, newName: 'x' };
  assert.equal(await costOf(fixture.connection, renameBack), 'rewrite');
  await fixture.apply({ ...renameBack, newName: change.newName.toUpperCase() });
});

test('a database can be named main, which is also the name of a schema of DuckDB', async () => {
  const fixture = await world();
  const main: DatabaseRef = { catalog: fixture.catalog, database: 'main' };
  const table: TableRef = { ...main, table: 't' };
  const spec = definition([column('a', 'INT')], { uniqueKey: ['a'] });
  for (const to of ['other', 'MAIN']) {
    await requireIdempotent(fixture, { kind: 'createDatabase', database: main });
    await fixture.apply({ kind: 'createTable', table, definition: spec });
    await fixture.connection.run(`INSERT INTO ${qualifiedTable(table)} VALUES (1)`);
    await requireIdempotent(fixture, {
      kind: 'renameDatabase',
      database: main,
      newName: to,
      tables: [{ name: 't', definition: spec }],
    });
    assert.deepEqual(await fixture.rows(`SELECT a FROM ${qualifiedTable({ ...table, database: to })}`), [[1]]);
  }
  await requireIdempotent(fixture, { kind: 'dropDatabase', database: main });
  const other = { ...main, database: 'other' };
  await requireIdempotent(fixture, {
    kind: 'renameDatabase',
    database: other,
    newName: 'main',
    tables: [{ name: 't', definition: spec }],
  });
  assert.deepEqual(await fixture.rows(`SELECT a FROM ${qualifiedTable(table)}`), [[1]]);
  await requireIdempotent(fixture, { kind: 'dropDatabase', database: main });
  assert.deepEqual(await fixture.rows(`SELECT * FROM duckdb_tables() WHERE schema_name = 'main'`), []);
});

test('a catalog that a transaction still reads is renamed when the transaction ends', async () => {
  const fixture = await world('busy');
  await fixture.apply({ kind: 'createTable', table: fixture.table, definition: definition([column('a', 'INT')]) });
  const reader = await fixture.instance.connect();
  await reader.run('USE busy');
  await reader.run('BEGIN');
  await reader.run(`SELECT * FROM ${qualifiedTable(fixture.table)}`);
  const renaming = fixture.apply({ kind: 'renameCatalog', catalog: fixture.catalog, newName: 'idle' });
  await new Promise((resolve) => setTimeout(resolve, 150));
  await reader.run('COMMIT');
  await renaming;
  assert.deepEqual(
    await fixture.rows(
      `SELECT * FROM ${qualifiedTable({ ...fixture.table, catalog: { ...fixture.catalog, name: 'idle' } })}`,
    ),
    [],
  );
  reader.closeSync();
});

test('a catalog does not get the name of another one, and keeps its own', async () => {
  const fixture = await world('first');
  await fixture.apply({ kind: 'createTable', table: fixture.table, definition: definition([column('a', 'INT')]) });
  const second = { id: randomUUID(), name: 'second' };
  await fixture.apply({ kind: 'createCatalog', catalog: second });
  const inUse = { code: 'CHANGE_IN_PROGRESS' };
  await assert.rejects(fixture.apply({ kind: 'renameCatalog', catalog: fixture.catalog, newName: 'SECOND' }), inUse);
  await assert.rejects(fixture.apply({ kind: 'createCatalog', catalog: { id: randomUUID(), name: 'First' } }), inUse);
  assert.deepEqual(await fixture.rows(`SELECT * FROM ${qualifiedTable(fixture.table)}`), []);
});

test('a rename that a reader keeps from its end is completed when it is repeated', async () => {
  const fixture = await world('busy');
  await fixture.apply({ kind: 'createTable', table: fixture.table, definition: definition([column('a', 'INT')]) });
  const reader = await fixture.instance.connect();
  await reader.run('BEGIN');
  await reader.run(`SELECT * FROM ${qualifiedTable(fixture.table)}`);
  const ended = new AbortController();
  const change = { kind: 'renameCatalog', catalog: fixture.catalog, newName: 'idle' } as const;
  const { connection, dataDirectory } = fixture;
  const renaming = applyChange(connection, change, { dataDirectory, step: 's', signal: ended.signal });
  setTimeout(() => ended.abort(), 150);
  // Until then it has neither of the names.
  await assert.rejects(renaming, { code: 'WAREHOUSE_BUSY', outcome: 'unknown' });
  await reader.run('COMMIT');
  reader.closeSync();
  await fixture.apply(change);
  const names = "SELECT database_name FROM duckdb_databases() WHERE database_name IN ('busy', 'idle')";
  assert.deepEqual(await fixture.rows(names), [['idle']]);
});
