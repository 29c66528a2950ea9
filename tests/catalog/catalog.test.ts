// The rules of the catalog: names, parents, versions, serialization, visibility, notifications of listeners.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ChangeEvent } from '../../src/catalog/object.ts';
import { Failure } from '../../src/standard/failure.ts';
import { definition, path, principal, WarehouseInTest } from './catalog_and_engine.ts';

const failsWith = (code: string, result?: Record<string, unknown>) => (error: unknown) => {
  assert(error instanceof Failure, `${error}`);
  assert.equal(error.code, code);
  if (result) assert.deepEqual(error.result, result);
  return true;
};

async function prepared(): Promise<WarehouseInTest> {
  const warehouse = await WarehouseInTest.open();
  await warehouse.createCatalog('c');
  await warehouse.createDatabase('c', 'd');
  return warehouse;
}

test('a path is resolved from the root, and the first missing name is reported', async () => {
  const w = await prepared();
  await w.createTable('c', 'd', 't');
  const chain = await w.catalog.require(path('c', 'd', 't'));
  assert.deepEqual(
    chain.map(({ category, name, version, state }) => ({ category, name, version, state })),
    ['catalogs', 'databases', 'tables'].map((category, n) => ({
      category,
      name: ['c', 'd', 't'][n],
      version: 1,
      state: 'ready',
    })),
  );
  assert.equal(chain[2]?.parentId, chain[1]?.id);
  assert.match(chain[2]?.createdAt ?? '', /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  assert.deepEqual(await w.catalog.byId(chain[2]?.id ?? ''), chain[2]);
  assert.equal(await w.catalog.find(path('c', 'x', 't')), undefined);
  await assert.rejects(
    w.catalog.require(path('c', 'x', 't')),
    failsWith('OBJECT_NOT_FOUND', { category: 'databases', name: 'x' }),
  );
  // Exact in REST: another case is another name, although no sibling may have it.
  assert.equal(await w.catalog.find(path('C', 'd', 't')), undefined);
});

test('invalid names, and names that differ in case only, are refused', async () => {
  const w = await prepared();
  for (const name of ['', '.', '..', 'a\u0000b', 'x'.repeat(129), '\ud800']) {
    await assert.rejects(w.createTable('c', 'd', name), failsWith('INVALID_NAME'));
  }
  for (const name of ['a/b', 'a%b', "o'clock", '"', 'select', '😀'.repeat(128), 'ß', ' ']) {
    await w.createTable('c', 'd', name);
    assert(await w.catalog.find(path('c', 'd', name)), name);
  }
  await w.createTable('c', 'd', 'Größe');
  await assert.rejects(w.createTable('c', 'd', 'GRÖSSE'.replace('SS', 'ß')), failsWith('OBJECT_ALREADY_EXISTS'));
  await assert.rejects(w.createTable('c', 'd', 'größe', 'return'), failsWith('OBJECT_ALREADY_EXISTS'));
});

test('creating an existing object fails or returns it, without calling the engine', async () => {
  const w = await prepared();
  const table = await w.createTable('c', 'd', 't');
  const { calls } = w.engine;
  await assert.rejects(w.createTable('c', 'd', 't'), failsWith('OBJECT_ALREADY_EXISTS'));
  const again = await w.createTable('c', 'd', 't', 'return');
  assert.deepEqual([again.created, again.object], [false, table.object]);
  assert.equal(w.engine.calls, calls);
});

test('of sixteen concurrent creates of one name one succeeds, and the others find the object', async () => {
  const w = await prepared();
  const outcomes = await Promise.all(Array.from({ length: 16 }, () => w.createTable('c', 'd', 't', 'return')));
  assert.equal(outcomes.filter(({ created }) => created).length, 1);
  assert.equal(new Set(outcomes.map(({ object }) => object.id)).size, 1);
  assert.equal(await w.catalog.count(outcomes[0]?.object.parentId ?? '', 'tables'), 1);
});

test('an update changes the fields that differ, and nothing if none does', async () => {
  const w = await prepared();
  const [, database] = await w.catalog.require(path('c', 'd'));
  const first = await w.catalog.update(database!, {
    spec: { comment: 'Sales' },
    principal: { id: 'ann', name: 'ann' },
  });
  assert.equal(first.object?.version, 2);
  assert.equal(first.object?.updatedBy, 'ann');
  assert.deepEqual(first.object?.spec, { comment: 'Sales' });
  const same = await w.catalog.update(first.object!, { spec: { comment: 'Sales' }, owner: 'root', principal });
  assert.deepEqual(same.object, first.object);
  const owned = await w.catalog.update(first.object!, { owner: 'bob', principal });
  assert.deepEqual([owned.object?.owner, owned.object?.version], ['bob', 3]);
});

test('a stale version is a conflict if a version was expected, and is retried if not', async () => {
  const w = await prepared();
  const [, old] = await w.catalog.require(path('c', 'd'));
  await w.catalog.update(old!, { spec: { comment: 'one' }, principal });
  const stale = { spec: { comment: 'two' }, principal };
  await assert.rejects(
    w.catalog.update(old!, { ...stale, expectedVersion: 1 }),
    failsWith('VERSION_CONFLICT', { version: 2 }),
  );
  await assert.rejects(w.catalog.update(old!, stale), failsWith('CHANGE_IN_PROGRESS'));
  let looks = 0;
  await Promise.all(
    Array.from({ length: 4 }, (_, n) =>
      w.catalog.retrying(async () => {
        looks++;
        const [, fresh] = await w.catalog.require(path('c', 'd'));
        const properties = { ...(fresh!.spec as { properties?: object }).properties, [`p${n}`]: 'x' };
        return w.catalog.update(fresh!, { spec: { properties }, principal });
      }),
    ),
  );
  const [, last] = await w.catalog.require(path('c', 'd'));
  assert.deepEqual(last?.spec, { properties: { p0: 'x', p1: 'x', p2: 'x', p3: 'x' } });
  assert(looks > 4, 'those who came second looked again');
});

test('a rename keeps id and children, frees the old name, and refuses a name in use', async () => {
  const w = await prepared();
  await w.createTable('c', 'd', 't');
  await w.createTable('c', 'd', 'u');
  await assert.rejects(w.rename(['c', 'd', 't'], 'U'), failsWith('OBJECT_ALREADY_EXISTS'));
  const [, , before] = await w.catalog.require(path('c', 'd', 't'));
  const renamed = await w.rename(['c', 'd', 't'], 'T');
  assert.deepEqual([renamed.object?.id, renamed.object?.name, renamed.object?.version], [before?.id, 'T', 2]);
  await w.rename(['c', 'd'], 'e');
  assert(await w.catalog.find(path('c', 'e', 'T')));
  assert.equal(await w.catalog.find(path('c', 'd')), undefined);
  await w.createDatabase('c', 'd');
  assert.deepEqual(await w.unsettled(), []);
  assert.deepEqual(w.engine.contents(), await w.contents());
});

test('both names are in use during a rename', async () => {
  const w = await prepared();
  await w.createTable('c', 'd', 't');
  w.engine.fault = ({ change }) => {
    if (change.kind === 'renameTable') throw new Error('nobody knows');
  };
  await assert.rejects(w.rename(['c', 'd', 't'], 'new'));
  const [catalog, database] = await w.catalog.require(path('c', 'd'));
  const create = (name: string) =>
    w.catalog.create({ parent: database!, category: 'tables', name, spec: {}, principal, ifExists: 'fail' });
  await assert.rejects(create('NEW'), failsWith('CHANGE_IN_PROGRESS'));
  await assert.rejects(create('T'), failsWith('OBJECT_ALREADY_EXISTS'));
  // The next request on the object recovers the change: the rename is completed, so the old name is free and the new one is not.
  w.engine.fault = () => {};
  await assert.rejects(create('new'), failsWith('OBJECT_ALREADY_EXISTS'));
  await create('t');
  assert(catalog);
  assert.deepEqual(await w.unsettled(), []);
});

test('a drop requires cascade only if there are children of the given categories', async () => {
  const w = await prepared();
  await w.createTable('c', 'd', 't');
  await assert.rejects(w.drop(['c']), failsWith('NOT_EMPTY'));
  await assert.rejects(w.drop(['c', 'd']), failsWith('NOT_EMPTY'));
  assert.equal(await w.drop(['c', 'd', 't']), true);
  assert.equal(await w.drop(['c', 'd', 't']), false);
  await w.createTable('c', 'd', 't');
  assert.equal(await w.drop(['c'], true), true);
  const left = await w.store.db.selectFrom('objects').select('name').execute();
  assert.deepEqual(
    left.map(({ name }) => name),
    ['root'],
  );
  assert.deepEqual(w.engine.contents(), []);
});

test('parents and children do not change at the same time', async () => {
  const w = await prepared();
  await w.createTable('c', 'd', 't');
  const { promise: go, resolve: open } = Promise.withResolvers<void>();
  w.engine.gate = () => go;
  const altering = w.alterTable(['c', 'd', 't'], definition('a', 'b'));
  while (w.engine.calls < 4) await new Promise(setImmediate);
  await assert.rejects(w.drop(['c', 'd'], true), failsWith('CHANGE_IN_PROGRESS'));
  await assert.rejects(w.rename(['c'], 'x'), failsWith('CHANGE_IN_PROGRESS'));
  open();
  await altering;
  const { promise: goOn, resolve: openAgain } = Promise.withResolvers<void>();
  w.engine.gate = () => goOn;
  const { calls } = w.engine;
  const renaming = w.rename(['c'], 'x');
  while (w.engine.calls === calls) await new Promise(setImmediate);
  await assert.rejects(w.createTable('c', 'd', 'new'), failsWith('CHANGE_IN_PROGRESS'));
  assert.equal((await w.catalog.require(path('c')))[0]?.state, 'altering');
  openAgain();
  await renaming;
  assert.deepEqual(w.engine.contents(), await w.contents());
});

test('a caller whose parent was renamed meanwhile has to retry', async () => {
  const w = await prepared();
  const [catalog, database] = await w.catalog.require(path('c', 'd'));
  await w.rename(['c'], 'x');
  const table = { catalog: { id: catalog!.id, name: 'c' }, database: 'd', table: 't' };
  const request = { parent: database!, category: 'tables', name: 't', spec: {}, principal, warehouse: 'w' } as const;
  const change = { kind: 'createTable', table, definition: definition('a') } as const;
  await assert.rejects(
    w.catalog.create({ ...request, change, undo: { kind: 'dropTable', table }, ifExists: 'fail' }),
    failsWith('CHANGE_IN_PROGRESS'),
  );
  await w.drop(['x', 'd']);
  await assert.rejects(
    w.catalog.create({ ...request, change, undo: { kind: 'dropTable', table }, ifExists: 'fail' }),
    failsWith('OBJECT_NOT_FOUND', { category: 'databases', name: 'd' }),
  );
});

test('changes of one table run one after another, in their order of arrival', async () => {
  const w = await prepared();
  await w.createTable('c', 'd', 't');
  let running = 0;
  w.engine.gate = async () => {
    assert.equal(++running, 1);
    await new Promise((resolve) => setTimeout(resolve, 5));
    running--;
  };
  await Promise.all(['b', 'c', 'd'].map((name) => w.alterTable(['c', 'd', 't'], definition('a', name))));
  const [, , table] = await w.catalog.require(path('c', 'd', 't'));
  assert.equal(table?.version, 4);
  assert.deepEqual(w.engine.contents(), await w.contents());
});

test('lists are ordered by code points, paged, and searched case-insensitively', async () => {
  const w = await prepared();
  const [, database] = await w.catalog.require(path('c', 'd'));
  const names = ['b', 'a', 'B1', 'Ä', 'z', '😀', '\uffee', 'a_b', 'a%b', 'axb'];
  for (const name of names) {
    const spec = { comment: `About ${name}: 100% of THE_truth` };
    await w.catalog.create({ parent: database!, category: 'tables', name, spec, principal, ifExists: 'fail' });
  }
  const sorted = [...names].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  const seen: string[] = [];
  for (let after: string | undefined; ; after = seen.at(-1)) {
    const page = await w.catalog.list(database!.id, 'tables', { after, limit: 3 });
    seen.push(...page.map(({ name }) => name));
    if (page.length < 3) break;
  }
  assert.deepEqual(seen, sorted);
  assert.equal(await w.catalog.count(database!.id, 'tables'), names.length);
  const found = async (options: object) =>
    (await w.catalog.list(database!.id, 'tables', { limit: 100, ...options })).map(({ name }) => name);
  assert.deepEqual(await found({ namePattern: 'A\\_B' }), ['a_b']);
  assert.deepEqual(await found({ namePattern: 'a\\%%' }), ['a%b']);
  assert.deepEqual(await found({ namePattern: 'ä' }), ['Ä']);
  assert.deepEqual(await found({ namePattern: 'A_B' }), ['a%b', 'a_b', 'axb']);
  assert.deepEqual(await found({ comment: 'the_TRUTH' }), sorted);
  assert.deepEqual(await found({ comment: 'thextruth' }), []);
  assert.deepEqual(await found({ comment: 'about B1: 100%' }), ['B1']);
});

test('listeners are notified of visible changes, and how deep they are', async () => {
  const w = await prepared();
  const events: ChangeEvent[] = [];
  w.catalog.onChange((event) => events.push(event));
  const changedCategories = () =>
    events.splice(0).map(({ category, deep }) => `${category}${deep ? ' and below' : ''}`);
  const { object } = await w.createTable('c', 'd', 't');
  assert.deepEqual(changedCategories(), ['tables']);
  await w.alterTable(['c', 'd', 't'], definition('a', 'b'));
  assert.deepEqual(changedCategories(), ['tables', 'tables']);
  await w.rename(['c', 'd'], 'e');
  assert.deepEqual(changedCategories(), ['databases', 'databases and below']);
  await w.catalog.saveStatistics(object.id, { rowCount: 3, dataBytes: 4, asOf: '2026-01-31T00:00:00.000Z' });
  assert.deepEqual(changedCategories(), ['tables']);
  await w.drop(['c'], true);
  assert.deepEqual(changedCategories(), ['catalogs and below']);
});

test('statistics belong to the object and are deleted with it', async () => {
  const w = await prepared();
  const { object } = await w.createTable('c', 'd', 't');
  const statistics = { rowCount: 7, dataBytes: 9, asOf: '2026-01-31T10:00:00.123Z' };
  assert.equal(await w.catalog.statistics(object.id), undefined);
  await w.catalog.saveStatistics(object.id, { ...statistics, rowCount: 1 });
  await w.catalog.saveStatistics(object.id, statistics);
  assert.deepEqual(await w.catalog.statistics(object.id), statistics);
  await w.drop(['c', 'd', 't']);
  await w.catalog.saveStatistics(object.id, statistics);
  assert.equal(await w.catalog.statistics(object.id), undefined);
});

test('returned specs cannot be modified, because they are cached', async () => {
  const w = await prepared();
  const { object } = await w.createTable('c', 'd', 't');
  assert.throws(() => {
    (object.spec as unknown as { columns: unknown[] }).columns.push('x');
  }, TypeError);
});
