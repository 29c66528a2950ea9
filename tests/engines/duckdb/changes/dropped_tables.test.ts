// Tables that are hidden and restored on DuckDB: each change is atomic, idempotent, and remains so after a crash.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { qualifiedSchema, qualifiedTable } from '../../../../src/engines/duckdb/sql/identifiers.ts';
import type { DatabaseRef } from '../../../../src/engines/port/refs.ts';
import { column, definition, dump, hostileName, requireIdempotent, type World, world } from './changes_world.ts';

const keyed = definition([column('id', 'BIGINT', { nullable: false }), column('n', 'INT')], {
  primaryKey: ['id'],
  uniqueKey: ['n'],
});

async function withTable(): Promise<World> {
  const fixture = await world();
  await fixture.apply({ kind: 'createTable', table: fixture.table, definition: keyed });
  await fixture.rows(`INSERT INTO ${qualifiedTable(fixture.table)} VALUES (1, 10), (2, 20)`);
  return fixture;
}

const shape = async (fixture: World) => dump(fixture.connection, fixture.catalog.name);

test('a table is hidden, its name is used by another, and it is restored unchanged under a new name', async () => {
  const fixture = await withTable();
  const first = await shape(fixture);
  const id = randomUUID();
  await requireIdempotent(fixture, { kind: 'hideTable', table: fixture.table, id });
  await assert.rejects(fixture.rows(`FROM ${qualifiedTable(fixture.table)}`), /does not exist/);
  await fixture.apply({ kind: 'createTable', table: fixture.table, definition: definition([column('x', 'INT')]) });
  const restoredTable = { ...fixture.table, table: 'back' };
  const from = fixture.database.database;
  await requireIdempotent(fixture, { kind: 'restoreTable', table: restoredTable, from, id, definition: keyed });
  assert.deepEqual(await fixture.rows(`FROM ${qualifiedTable(restoredTable)} ORDER BY id`), [
    ['1', 10],
    ['2', 20],
  ]);
  await assert.rejects(
    fixture.rows(`INSERT INTO ${qualifiedTable(restoredTable)} VALUES (3, 10)`),
    /unique constraint/,
  );
  await assert.rejects(fixture.rows(`INSERT INTO ${qualifiedTable(restoredTable)} VALUES (1, 30)`), /primary key/);
  await fixture.apply({ kind: 'dropTable', table: fixture.table });
  await fixture.apply({ kind: 'renameTable', table: restoredTable, newName: fixture.table.table, definition: keyed });
  assert.deepEqual(await shape(fixture), first);
});

test('a database is hidden with its tables, another of its name is dropped, and it is restored under both names', async () => {
  const fixture = await withTable();
  const first = await shape(fixture);
  const id = randomUUID();
  const { database } = fixture;
  const tables = [{ id, name: fixture.table.table }];
  await requireIdempotent(fixture, { kind: 'hideDatabase', database, tables });
  await fixture.apply({ kind: 'createDatabase', database });
  await fixture.apply({ kind: 'createTable', table: fixture.table, definition: definition([column('x', 'INT')]) });
  await requireIdempotent(fixture, { kind: 'dropDatabase', database });
  const hidden = [{ id, name: fixture.table.table, definition: keyed }];
  await requireIdempotent(fixture, { kind: 'restoreDatabase', database, from: database.database, tables: hidden });
  assert.deepEqual(await shape(fixture), first);
  await fixture.apply({ kind: 'hideDatabase', database, tables });
  const renamed: DatabaseRef = { ...database, database: 'renamed' };
  await requireIdempotent(fixture, {
    kind: 'restoreDatabase',
    database: renamed,
    from: database.database,
    tables: hidden,
  });
  const tableName = qualifiedTable({ ...renamed, table: fixture.table.table });
  assert.deepEqual(await fixture.rows(`SELECT sum(n)::INT FROM ${tableName}`), [[30]]);
  await assert.rejects(fixture.rows(`INSERT INTO ${tableName} VALUES (3, 10)`), /unique constraint/);
});

test('renaming or dropping a database keeps the hidden tables in it; a purge does not', async () => {
  const fixture = await withTable();
  const id = randomUUID();
  const { catalog, database } = fixture;
  await fixture.apply({ kind: 'hideTable', table: fixture.table, id });
  await requireIdempotent(fixture, { kind: 'renameDatabase', database, newName: 'renamed', tables: [] });
  const into = { ...fixture.table, database: 'renamed' };
  await requireIdempotent(fixture, { kind: 'restoreTable', table: into, from: hostileName, id, definition: keyed });
  assert.deepEqual(await fixture.rows(`SELECT count(*)::INT FROM ${qualifiedTable(into)}`), [[2]]);
  await fixture.apply({ kind: 'hideTable', table: into, id });
  await requireIdempotent(fixture, { kind: 'dropDatabase', database: { catalog, database: 'renamed' } });
  const purge = { kind: 'purge', catalog, hidden: [{ database: 'renamed', id }], databases: ['renamed'] } as const;
  await requireIdempotent(fixture, { ...purge, hidden: [] });
  assert.equal((await fixture.rows(`SELECT 1 FROM duckdb_tables() WHERE table_name LIKE '%${id}'`)).length, 1);
  await requireIdempotent(fixture, purge);
  assert.deepEqual(await fixture.rows(`SELECT 1 FROM duckdb_tables() WHERE table_name LIKE '%${id}'`), []);
  await assert.rejects(fixture.rows(`CREATE TABLE ${qualifiedSchema(into)}.t (x INT)`), /does not exist/);
});

test('a catalog is hidden, another gets its name, and it is restored under a new one; no empty file is created in its place', async () => {
  const fixture = await withTable();
  const { catalog } = fixture;
  await fixture.apply({ kind: 'hideCatalog', catalog });
  await fixture.apply({ kind: 'hideCatalog', catalog });
  const other = { id: randomUUID(), name: catalog.name };
  await fixture.apply({ kind: 'createCatalog', catalog: other });
  const restoredCatalog = { id: catalog.id, name: 'back' };
  for (let i = 0; i < 2; i++) await fixture.apply({ kind: 'restoreCatalog', catalog: restoredCatalog });
  const table = { ...fixture.table, catalog: restoredCatalog };
  assert.deepEqual(await fixture.rows(`SELECT count(*)::INT FROM ${qualifiedTable(table)}`), [[2]]);
  await fixture.apply({ kind: 'hideCatalog', catalog: restoredCatalog });
  await fixture.apply({ kind: 'dropCatalog', catalog: { id: catalog.id, name: 'dropped' } });
  await assert.rejects(fixture.apply({ kind: 'restoreCatalog', catalog: restoredCatalog }));
});
