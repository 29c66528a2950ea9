// Each kind of Change through the port: its effect on what statements see, and that it succeeds when it runs again after a crash, because
// nothing shows whether it was committed. SQL is limited to what engines have in common.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, test } from 'node:test';
import type { Change } from '../../../src/engines/port/changes.ts';
import type { CatalogRef, TableRef } from '../../../src/engines/port/refs.ts';
import type { TableDefinition } from '../../../src/model/records.ts';
import { parseType } from '../../../src/model/types.ts';
import { engineOf } from '../../engines/engine_under_test.ts';
import { definitionOf, failureOf, openEngine, rowsOf } from './engine_world.ts';

const { engine: testEngine, testOf } = engineOf(import.meta.url);
const world = await openEngine({}, testEngine);
after(() => world.close());
const { engine, catalog, catalogs, database } = world;

const refOf = (table: string, into = database): TableRef => ({ catalog, database: into, table });
const rows = (sql: string, options?: { readonly database: string }) => rowsOf(world, sql, options);
const isMissing = async (table: string, options?: { readonly database: string }) =>
  assert.equal((await failureOf(rows(`SELECT a FROM ${table}`, options))).code, 'SQL_INVALID');

/** Applies a change twice with the same step, as recovery does. `between` is done after the first time. */
async function applied(change: Change, between?: () => Promise<unknown>): Promise<void> {
  const options = { step: randomUUID(), signal: new AbortController().signal };
  await engine.apply(change, options);
  await between?.();
  await engine.apply(change, options);
}

/** A table with the columns `a` and `b` and two rows. */
async function filled(table: string, into = database): Promise<TableDefinition> {
  const definition = definitionOf({ a: 'INT', b: 'STRING' });
  await applied({ kind: 'createTable', table: refOf(table, into), definition });
  await world.run(`INSERT INTO ${table} (a, b) VALUES (1, 'x'), (2, NULL)`, { database: into });
  return definition;
}
const filledRows = [
  [1, 'x'],
  [2, null],
];

test('a table is created with its defaults and without nulls where the definition says so', async () => {
  const definition: TableDefinition = {
    ...definitionOf({}),
    columns: [
      { name: 'a', type: parseType('INT'), nullable: false },
      { name: 'b', type: parseType('STRING'), nullable: true, defaultValue: "'none'" },
    ],
    orderBy: ['a'],
    partitionBy: [],
    distribution: { by: ['a'], buckets: 2 },
  };
  await applied({ kind: 'createTable', table: refOf('created'), definition });
  await world.run('INSERT INTO created (a) VALUES (1)');
  assert.deepEqual(await rows('SELECT a, b FROM created'), [[1, 'none']]);
  const refused = await failureOf(world.run("INSERT INTO created (a, b) VALUES (NULL, 'x')"));
  assert.equal(refused.code, 'CONSTRAINT_VIOLATED');
  assert.deepEqual(await rows('SELECT a FROM created'), [[1]]);
});

testOf('enforcedKeys')('the keys of a table are enforced', async () => {
  const definition = definitionOf({ a: 'INT', b: 'INT' }, { primaryKey: ['a'], uniqueKey: ['b'] });
  await applied({ kind: 'createTable', table: refOf('keyed'), definition });
  await world.run('INSERT INTO keyed (a, b) VALUES (1, 10)');
  for (const row of ['(1, 11)', '(2, 10)', '(3, 30), (3, 31)'])
    assert.equal(
      (await failureOf(world.run(`INSERT INTO keyed (a, b) VALUES ${row}`))).code,
      'CONSTRAINT_VIOLATED',
      row,
    );
  assert.deepEqual(await rows('SELECT a, b FROM keyed'), [[1, 10]]);
});

test('columns are added, widened, renamed and dropped with the rows of the table', async () => {
  const from = await filled('altered');
  const table = refOf('altered');
  const added = { name: 'c', type: parseType('INT'), nullable: true, defaultValue: '7' };
  const to = { ...from, columns: [...from.columns, added] };
  await applied({ kind: 'alterTable', table, from, to, renamedColumns: {} });
  assert.deepEqual(await rows('SELECT a, b, c FROM altered ORDER BY a'), [
    [1, 'x', 7],
    [2, null, 7],
  ]);
  const [a, b] = from.columns;
  assert.ok(a && b);
  const widened = {
    ...from,
    columns: [
      { ...a, type: parseType('BIGINT') },
      { ...b, name: 'd' },
    ],
  };
  await applied({ kind: 'alterTable', table, from: to, to: widened, renamedColumns: { b: 'd' } });
  await world.run("INSERT INTO altered (a, d) VALUES (9007199254740991, 'wide')");
  assert.deepEqual(await rows('SELECT a, d FROM altered ORDER BY a'), [...filledRows, [9007199254740991, 'wide']]);
  assert.equal((await failureOf(rows('SELECT c FROM altered'))).code, 'SQL_INVALID');
});

test('a table is renamed and dropped', async () => {
  const definition = await filled('before');
  await applied({ kind: 'renameTable', table: refOf('before'), newName: 'afterwards', definition });
  assert.deepEqual(await rows('SELECT a, b FROM afterwards ORDER BY a'), filledRows);
  await isMissing('before');
  await applied({ kind: 'dropTable', table: refOf('afterwards') });
  await isMissing('afterwards');
});

test('a truncation that runs again deletes no row that was inserted since', async () => {
  await filled('truncated');
  await applied({ kind: 'truncateTable', table: refOf('truncated') }, () =>
    world.run("INSERT INTO truncated (a, b) VALUES (3, 'new')"),
  );
  assert.deepEqual(await rows('SELECT a, b FROM truncated'), [[3, 'new']]);
});

testOf('undrop')('a dropped table is restored under another name, or deleted for good', async () => {
  const definition = await filled('hidden');
  const [id, other] = [randomUUID(), randomUUID()];
  await applied({ kind: 'hideTable', table: refOf('hidden'), id });
  await isMissing('hidden');
  await filled('hidden');
  await applied({ kind: 'hideTable', table: refOf('hidden'), id: other });
  await applied({ kind: 'restoreTable', table: refOf('restored'), from: database, id, definition });
  assert.deepEqual(await rows('SELECT a, b FROM restored ORDER BY a'), filledRows);
  await applied({ kind: 'purge', catalog, hidden: [{ database, id: other }], databases: [] });
  await isMissing('hidden');
  assert.deepEqual(await rows('SELECT a, b FROM restored ORDER BY a'), filledRows);
});

test('a database is created, renamed with its tables, and dropped', async () => {
  await applied({ kind: 'createDatabase', database: { catalog, database: 'one' } });
  const definition = await filled('t', 'one');
  const tables = [{ name: 't', definition }];
  await applied({ kind: 'renameDatabase', database: { catalog, database: 'one' }, newName: 'two', tables });
  assert.deepEqual(await rows('SELECT a, b FROM t ORDER BY a', { database: 'two' }), filledRows);
  assert.deepEqual(await rows('SELECT a, b FROM two.t ORDER BY a'), filledRows);
  await applied({ kind: 'dropDatabase', database: { catalog, database: 'two' } });
  await isMissing('two.t');
});

testOf('undrop')('a dropped database is restored with its tables', async () => {
  await applied({ kind: 'createDatabase', database: { catalog, database: 'kept' } });
  const definition = await filled('t', 'kept');
  const id = randomUUID();
  const tables = [{ id, name: 't' }];
  await applied({ kind: 'hideDatabase', database: { catalog, database: 'kept' }, tables });
  await isMissing('kept.t');
  const restored = { catalog, database: 'again' };
  await applied({ kind: 'restoreDatabase', database: restored, from: 'kept', tables: [{ id, name: 't', definition }] });
  assert.deepEqual(await rows('SELECT a, b FROM again.t ORDER BY a'), filledRows);
});

/** The name of another catalog, which is not that of a catalog on a cluster that has more than those of the tests. */
const otherCatalog = (name: string) => `${catalog.name} ${name}`;
const nameOf = ({ name }: CatalogRef) => `"${name.replaceAll('"', '""')}"`;

test('a catalog is created, renamed and dropped', async () => {
  const other = { id: randomUUID(), name: otherCatalog('other') };
  const renamed = { ...other, name: otherCatalog('renamed') };
  catalogs.push(other);
  await applied({ kind: 'createCatalog', catalog: other });
  await applied({ kind: 'createDatabase', database: { catalog: other, database: 'd' } });
  const table = { catalog: other, database: 'd', table: 't' };
  await applied({ kind: 'createTable', table, definition: definitionOf({ a: 'INT' }) });
  await world.run(`INSERT INTO ${nameOf(other)}.d.t (a) VALUES (1)`);
  await applied({ kind: 'renameCatalog', catalog: other, newName: renamed.name });
  assert.deepEqual(await rows(`SELECT a FROM ${nameOf(renamed)}.d.t`), [[1]]);
  await isMissing(`${nameOf(other)}.d.t`);
  await applied({ kind: 'dropCatalog', catalog: renamed });
  catalogs.pop();
  await isMissing(`${nameOf(renamed)}.d.t`);
});

test('a catalog is dropped under whatever name it has, and no other that has got its name', async () => {
  const first = { id: randomUUID(), name: otherCatalog('first') };
  const second = { id: randomUUID(), name: otherCatalog('second') };
  catalogs.push(first, second);
  for (const each of [first, second]) {
    await applied({ kind: 'createCatalog', catalog: each });
    await applied({ kind: 'createDatabase', database: { catalog: each, database: 'd' } });
    const table = { catalog: each, database: 'd', table: 't' };
    await applied({ kind: 'createTable', table, definition: definitionOf({ a: 'INT' }) });
  }
  const renamed = { ...first, name: otherCatalog('renamed first') };
  await applied({ kind: 'renameCatalog', catalog: first, newName: renamed.name });
  await applied({ kind: 'renameCatalog', catalog: second, newName: first.name });
  const named = { ...second, name: first.name };
  await applied({ kind: 'dropCatalog', catalog: { ...first, name: otherCatalog('no longer') } });
  await isMissing(`${nameOf(renamed)}.d.t`);
  assert.deepEqual(await rows(`SELECT a FROM ${nameOf(named)}.d.t`), []);
  await applied({ kind: 'dropCatalog', catalog: named });
  catalogs.splice(-2);
});

testOf('undrop')('a dropped catalog is restored under another name', async () => {
  const other = { id: randomUUID(), name: otherCatalog('away') };
  const back = { ...other, name: otherCatalog('back') };
  catalogs.push(other);
  await applied({ kind: 'createCatalog', catalog: other });
  await applied({ kind: 'createDatabase', database: { catalog: other, database: 'd' } });
  const table = { catalog: other, database: 'd', table: 't' };
  await applied({ kind: 'createTable', table, definition: definitionOf({ a: 'INT' }) });
  await world.run(`INSERT INTO ${nameOf(other)}.d.t (a) VALUES (1)`);
  await applied({ kind: 'hideCatalog', catalog: other });
  await isMissing(`${nameOf(other)}.d.t`);
  await applied({ kind: 'restoreCatalog', catalog: back });
  assert.deepEqual(await rows(`SELECT a FROM ${nameOf(back)}.d.t`), [[1]]);
  await applied({ kind: 'dropCatalog', catalog: back });
  catalogs.pop();
});

testOf('views')('a view is created, replaced, renamed and dropped, and follows its table', async () => {
  await filled('viewed');
  const view = { catalog, database, view: 'v' };
  const sql = 'SELECT a FROM viewed WHERE a > 1';
  await applied({ kind: 'createView', view, sql });
  assert.deepEqual(await rows('SELECT a FROM v'), [[2]]);
  await world.run("INSERT INTO viewed (a, b) VALUES (3, 'y')");
  assert.deepEqual(await rows('SELECT a FROM v ORDER BY a'), [[2], [3]]);
  const replaced = 'SELECT a, b FROM viewed WHERE a > 2';
  await applied({ kind: 'replaceView', view, sql: replaced });
  assert.deepEqual(await rows('SELECT a, b FROM v'), [[3, 'y']]);
  await applied({ kind: 'renameView', view, newName: 'w', sql: replaced });
  assert.deepEqual(await rows('SELECT a, b FROM w'), [[3, 'y']]);
  await isMissing('v');
  await applied({ kind: 'dropView', view: { ...view, view: 'w' } });
  await isMissing('w');
});

testOf('views')('a change that would break a view does nothing, and names the view', async () => {
  const from = await filled('source');
  const view = { catalog, database, view: 'dependent' };
  const id = randomUUID();
  await applied({ kind: 'createView', view, sql: 'SELECT b FROM source' });
  const to = { ...from, columns: from.columns.slice(0, 1) };
  const change = {
    kind: 'alterTable',
    table: refOf('source'),
    from,
    to,
    renamedColumns: {},
    views: [{ id, view }],
  } as const;
  const failure = await failureOf(world.change(change));
  assert.deepEqual([failure.code, failure.result], ['IN_USE', { broken: [id] }]);
  assert.deepEqual(await rows('SELECT a, b FROM source ORDER BY a'), filledRows);
});
