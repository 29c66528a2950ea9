// Tables that are hidden and restored on DuckDB: each change is atomic, idempotent, and remains so after a crash.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { qualifiedSchema, qualifiedTable } from '../../src/engines/duckdb/sql/identifiers.ts';
import type { DatabaseRef } from '../../src/engines/engine.ts';
import { column, definition, dump, hostile, requireIdempotent, type World, world } from './changes_world.ts';

const keyed = definition([column('id', 'BIGINT', { nullable: false }), column('n', 'INT')], {
  primaryKey: ['id'],
  uniqueKey: ['n'],
});

async function withTable(): Promise<World> {
  const w = await world();
  await w.apply({ kind: 'createTable', table: w.table, definition: keyed });
  await w.rows(`INSERT INTO ${qualifiedTable(w.table)} VALUES (1, 10), (2, 20)`);
  return w;
}

const shape = async (w: World) => dump(w.connection, w.catalog.name);

test('a table is hidden, its name is used by another, and it is restored unchanged under a new name', async () => {
  const w = await withTable();
  const first = await shape(w);
  const id = randomUUID();
  await requireIdempotent(w, { kind: 'hideTable', table: w.table, id });
  await assert.rejects(w.rows(`FROM ${qualifiedTable(w.table)}`), /does not exist/);
  await w.apply({ kind: 'createTable', table: w.table, definition: definition([column('x', 'INT')]) });
  const back = { ...w.table, table: 'back' };
  const from = w.database.database;
  await requireIdempotent(w, { kind: 'restoreTable', table: back, from, id, definition: keyed });
  assert.deepEqual(await w.rows(`FROM ${qualifiedTable(back)} ORDER BY id`), [
    ['1', 10],
    ['2', 20],
  ]);
  await assert.rejects(w.rows(`INSERT INTO ${qualifiedTable(back)} VALUES (3, 10)`), /unique constraint/);
  await assert.rejects(w.rows(`INSERT INTO ${qualifiedTable(back)} VALUES (1, 30)`), /primary key/);
  await w.apply({ kind: 'dropTable', table: w.table });
  await w.apply({ kind: 'renameTable', table: back, newName: w.table.table, definition: keyed });
  assert.deepEqual(await shape(w), first);
});

test('a database is hidden with its tables, another of its name is dropped, and it is restored under both names', async () => {
  const w = await withTable();
  const first = await shape(w);
  const id = randomUUID();
  const { database } = w;
  const tables = [{ id, name: w.table.table }];
  await requireIdempotent(w, { kind: 'hideDatabase', database, tables });
  await w.apply({ kind: 'createDatabase', database });
  await w.apply({ kind: 'createTable', table: w.table, definition: definition([column('x', 'INT')]) });
  await requireIdempotent(w, { kind: 'dropDatabase', database });
  const hidden = [{ id, name: w.table.table, definition: keyed }];
  await requireIdempotent(w, { kind: 'restoreDatabase', database, from: database.database, tables: hidden });
  assert.deepEqual(await shape(w), first);
  await w.apply({ kind: 'hideDatabase', database, tables });
  const renamed: DatabaseRef = { ...database, database: 'renamed' };
  await requireIdempotent(w, { kind: 'restoreDatabase', database: renamed, from: database.database, tables: hidden });
  const tableName = qualifiedTable({ ...renamed, table: w.table.table });
  assert.deepEqual(await w.rows(`SELECT sum(n)::INT FROM ${tableName}`), [[30]]);
  await assert.rejects(w.rows(`INSERT INTO ${tableName} VALUES (3, 10)`), /unique constraint/);
});

test('renaming or dropping a database keeps the hidden tables in it; a purge does not', async () => {
  const w = await withTable();
  const id = randomUUID();
  const { catalog, database } = w;
  await w.apply({ kind: 'hideTable', table: w.table, id });
  await requireIdempotent(w, { kind: 'renameDatabase', database, newName: 'renamed', tables: [] });
  const into = { ...w.table, database: 'renamed' };
  await requireIdempotent(w, { kind: 'restoreTable', table: into, from: hostile, id, definition: keyed });
  assert.deepEqual(await w.rows(`SELECT count(*)::INT FROM ${qualifiedTable(into)}`), [[2]]);
  await w.apply({ kind: 'hideTable', table: into, id });
  await requireIdempotent(w, { kind: 'dropDatabase', database: { catalog, database: 'renamed' } });
  const purge = { kind: 'purge', catalog, hidden: [{ database: 'renamed', id }], databases: ['renamed'] } as const;
  await requireIdempotent(w, { ...purge, hidden: [] });
  assert.equal((await w.rows(`SELECT 1 FROM duckdb_tables() WHERE table_name LIKE '%${id}'`)).length, 1);
  await requireIdempotent(w, purge);
  assert.deepEqual(await w.rows(`SELECT 1 FROM duckdb_tables() WHERE table_name LIKE '%${id}'`), []);
  await assert.rejects(w.rows(`CREATE TABLE ${qualifiedSchema(into)}.t (x INT)`), /does not exist/);
});

test('a catalog is hidden, another gets its name, and it is restored under a new one; no empty file is created in its place', async () => {
  const w = await withTable();
  const { catalog } = w;
  await w.apply({ kind: 'hideCatalog', catalog });
  await w.apply({ kind: 'hideCatalog', catalog });
  const other = { id: randomUUID(), name: catalog.name };
  await w.apply({ kind: 'createCatalog', catalog: other });
  const back = { id: catalog.id, name: 'back' };
  for (let i = 0; i < 2; i++) await w.apply({ kind: 'restoreCatalog', catalog: back });
  const table = { ...w.table, catalog: back };
  assert.deepEqual(await w.rows(`SELECT count(*)::INT FROM ${qualifiedTable(table)}`), [[2]]);
  await w.apply({ kind: 'hideCatalog', catalog: back });
  await w.apply({ kind: 'dropCatalog', catalog: { id: catalog.id, name: 'dropped' } });
  await assert.rejects(w.apply({ kind: 'restoreCatalog', catalog: back }));
});
