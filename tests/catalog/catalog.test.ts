// The rules of the catalog: names, parents, versions, serialization, visibility, notifications of listeners.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Failure } from '../../src/standard/failure.ts';
import { storesOf } from '../stores.ts';
import { definition, path, principal, WarehouseInTest } from './catalog_and_engine.ts';

const stores = storesOf(import.meta.url);

const failsWith = (code: string, result?: Record<string, unknown>) => (error: unknown) => {
  assert(error instanceof Failure, `${error}`);
  assert.equal(error.code, code);
  if (result) assert.deepEqual(error.result, result);
  return true;
};

async function prepared(): Promise<WarehouseInTest> {
  const warehouse = await WarehouseInTest.open(stores);
  await warehouse.createCatalog('c');
  await warehouse.createDatabase('c', 'd');
  return warehouse;
}

test('a path is resolved from the root, and the first missing name is reported', async () => {
  const world = await prepared();
  await world.createTable('c', 'd', 't');
  const chain = await world.catalog.require(path('c', 'd', 't'));
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
  assert.deepEqual(await world.catalog.byId(chain[2]?.id ?? ''), chain[2]);
  assert.equal(await world.catalog.find(path('c', 'x', 't')), undefined);
  await assert.rejects(
    world.catalog.require(path('c', 'x', 't')),
    failsWith('OBJECT_NOT_FOUND', { category: 'databases', name: 'x' }),
  );
  // Exact in REST: another case is another name, although no sibling may have it.
  assert.equal(await world.catalog.find(path('C', 'd', 't')), undefined);
});

test('invalid names, and names that differ in case only, are refused', async () => {
  const world = await prepared();
  for (const name of ['', '.', '..', 'a\u0000b', 'x'.repeat(129), '\ud800']) {
    await assert.rejects(world.createTable('c', 'd', name), failsWith('INVALID_NAME'));
  }
  for (const name of ['a/b', 'a%b', "o'clock", '"', 'select', '😀'.repeat(128), 'ß', ' ']) {
    await world.createTable('c', 'd', name);
    assert(await world.catalog.find(path('c', 'd', name)), name);
  }
  await world.createTable('c', 'd', 'Größe');
  await assert.rejects(world.createTable('c', 'd', 'GRÖSSE'.replace('SS', 'ß')), failsWith('OBJECT_ALREADY_EXISTS'));
  await assert.rejects(world.createTable('c', 'd', 'größe', 'return'), failsWith('OBJECT_ALREADY_EXISTS'));
});

test('creating an existing object fails or returns it, without calling the engine', async () => {
  const world = await prepared();
  const table = await world.createTable('c', 'd', 't');
  const { calls } = world.engine;
  await assert.rejects(world.createTable('c', 'd', 't'), failsWith('OBJECT_ALREADY_EXISTS'));
  const returned = await world.createTable('c', 'd', 't', 'return');
  assert.deepEqual([returned.created, returned.object], [false, table.object]);
  assert.equal(world.engine.calls, calls);
});

test('of sixteen concurrent creates of one name one succeeds, and the others find the object', async () => {
  const world = await prepared();
  const outcomes = await Promise.all(Array.from({ length: 16 }, () => world.createTable('c', 'd', 't', 'return')));
  assert.equal(outcomes.filter(({ created }) => created).length, 1);
  assert.equal(new Set(outcomes.map(({ object }) => object.id)).size, 1);
  assert.equal(await world.catalog.count(outcomes[0]?.object.parentId ?? '', 'tables'), 1);
});

test('an update changes the fields that differ, and nothing if none does', async () => {
  const world = await prepared();
  const [, database] = await world.catalog.require(path('c', 'd'));
  const first = await world.catalog.update(database!, {
    spec: { comment: 'Sales' },
    principal: { id: 'ann', name: 'ann' },
  });
  assert.equal(first.object?.version, 2);
  assert.equal(first.object?.updatedBy, 'ann');
  assert.deepEqual(first.object?.spec, { comment: 'Sales' });
  const unchanged = await world.catalog.update(first.object!, { spec: { comment: 'Sales' }, owner: 'root', principal });
  assert.deepEqual(unchanged.object, first.object);
  const withOwner = await world.catalog.update(first.object!, { owner: 'bob', principal });
  assert.deepEqual([withOwner.object?.owner, withOwner.object?.version], ['bob', 3]);
});

test('a stale version is a conflict if a version was expected, and is retried if not', async () => {
  const world = await prepared();
  const [, old] = await world.catalog.require(path('c', 'd'));
  await world.catalog.update(old!, { spec: { comment: 'one' }, principal });
  const stale = { spec: { comment: 'two' }, principal };
  await assert.rejects(
    world.catalog.update(old!, { ...stale, expectedVersion: 1 }),
    failsWith('VERSION_CONFLICT', { version: 2 }),
  );
  await assert.rejects(world.catalog.update(old!, stale), failsWith('CHANGE_IN_PROGRESS'));
  let looks = 0;
  await Promise.all(
    Array.from({ length: 4 }, (_, n) =>
      world.catalog.retrying(async () => {
        looks++;
        const [, fresh] = await world.catalog.require(path('c', 'd'));
        const properties = { ...(fresh!.spec as { properties?: object }).properties, [`p${n}`]: 'x' };
        return world.catalog.update(fresh!, { spec: { properties }, principal });
      }),
    ),
  );
  const [, last] = await world.catalog.require(path('c', 'd'));
  assert.deepEqual(last?.spec, { properties: { p0: 'x', p1: 'x', p2: 'x', p3: 'x' } });
  assert(looks > 4, 'those who came second looked again');
});

test('a rename keeps id and children, frees the old name, and refuses a name in use', async () => {
  const world = await prepared();
  await world.createTable('c', 'd', 't');
  await world.createTable('c', 'd', 'u');
  await assert.rejects(world.rename(['c', 'd', 't'], 'U'), failsWith('OBJECT_ALREADY_EXISTS'));
  const [, , before] = await world.catalog.require(path('c', 'd', 't'));
  const renamed = await world.rename(['c', 'd', 't'], 'T');
  assert.deepEqual([renamed.object?.id, renamed.object?.name, renamed.object?.version], [before?.id, 'T', 2]);
  await world.rename(['c', 'd'], 'e');
  assert(await world.catalog.find(path('c', 'e', 'T')));
  assert.equal(await world.catalog.find(path('c', 'd')), undefined);
  await world.createDatabase('c', 'd');
  assert.deepEqual(await world.unsettledObjects(), []);
  assert.deepEqual(world.engine.contents(), await world.contents());
});

test('both names are in use during a rename', async () => {
  const world = await prepared();
  await world.createTable('c', 'd', 't');
  world.engine.fault = ({ change }) => {
    if (change.kind === 'renameTable') throw new Error('nobody knows');
  };
  await assert.rejects(world.rename(['c', 'd', 't'], 'new'));
  const [catalog, database] = await world.catalog.require(path('c', 'd'));
  const create = (name: string) =>
    world.catalog.create({ parent: database!, category: 'tables', name, spec: {}, principal, ifExists: 'fail' });
  await assert.rejects(create('NEW'), failsWith('CHANGE_IN_PROGRESS'));
  await assert.rejects(create('T'), failsWith('OBJECT_ALREADY_EXISTS'));
  // The next request on the object recovers the change: the rename is completed, so the old name is free and the new one is not.
  world.engine.fault = () => {};
  await assert.rejects(create('new'), failsWith('OBJECT_ALREADY_EXISTS'));
  await create('t');
  assert(catalog);
  assert.deepEqual(await world.unsettledObjects(), []);
});

test('a drop requires cascade only if there are children of the given categories', async () => {
  const world = await prepared();
  await world.createTable('c', 'd', 't');
  await assert.rejects(world.drop(['c']), failsWith('NOT_EMPTY'));
  await assert.rejects(world.drop(['c', 'd']), failsWith('NOT_EMPTY'));
  assert.equal(await world.drop(['c', 'd', 't']), true);
  assert.equal(await world.drop(['c', 'd', 't']), false);
  await world.createTable('c', 'd', 't');
  assert.equal(await world.drop(['c'], true), true);
  const remaining = await world.store.db.selectFrom('objects').select('name').execute();
  assert.deepEqual(
    remaining.map(({ name }) => name),
    ['root'],
  );
  assert.deepEqual(world.engine.contents(), []);
});

test('parents and children do not change at the same time', async () => {
  const world = await prepared();
  await world.createTable('c', 'd', 't');
  const { promise: go, resolve: open } = Promise.withResolvers<void>();
  world.engine.gate = () => go;
  const altering = world.alterTable(['c', 'd', 't'], definition('a', 'b'));
  while (world.engine.calls < 4) await new Promise(setImmediate);
  await assert.rejects(world.drop(['c', 'd'], true), failsWith('CHANGE_IN_PROGRESS'));
  await assert.rejects(world.rename(['c'], 'x'), failsWith('CHANGE_IN_PROGRESS'));
  open();
  await altering;
  const { promise: goOn, resolve: openAgain } = Promise.withResolvers<void>();
  world.engine.gate = () => goOn;
  const { calls } = world.engine;
  const renaming = world.rename(['c'], 'x');
  while (world.engine.calls === calls) await new Promise(setImmediate);
  await assert.rejects(world.createTable('c', 'd', 'new'), failsWith('CHANGE_IN_PROGRESS'));
  assert.equal((await world.catalog.require(path('c')))[0]?.state, 'altering');
  openAgain();
  await renaming;
  assert.deepEqual(world.engine.contents(), await world.contents());
});

test('a caller whose parent was renamed meanwhile has to retry', async () => {
  const world = await prepared();
  const [catalog, database] = await world.catalog.require(path('c', 'd'));
  await world.rename(['c'], 'x');
  const table = { catalog: { id: catalog!.id, name: 'c' }, database: 'd', table: 't' };
  const request = { parent: database!, category: 'tables', name: 't', spec: {}, principal, warehouse: 'w' } as const;
  const change = { kind: 'createTable', table, definition: definition('a') } as const;
  await assert.rejects(
    world.catalog.create({ ...request, change, undo: { kind: 'dropTable', table }, ifExists: 'fail' }),
    failsWith('CHANGE_IN_PROGRESS'),
  );
  await world.drop(['x', 'd']);
  await assert.rejects(
    world.catalog.create({ ...request, change, undo: { kind: 'dropTable', table }, ifExists: 'fail' }),
    failsWith('OBJECT_NOT_FOUND', { category: 'databases', name: 'd' }),
  );
});

test('changes of one table run one after another, in their order of arrival', async () => {
  const world = await prepared();
  await world.createTable('c', 'd', 't');
  let running = 0;
  world.engine.gate = async () => {
    assert.equal(++running, 1);
    await new Promise((resolve) => setTimeout(resolve, 5));
    running--;
  };
  await Promise.all(['b', 'c', 'd'].map((name) => world.alterTable(['c', 'd', 't'], definition('a', name))));
  const [, , table] = await world.catalog.require(path('c', 'd', 't'));
  assert.equal(table?.version, 4);
  assert.deepEqual(world.engine.contents(), await world.contents());
});

test('lists are ordered by code points, paged, and searched case-insensitively', async () => {
  const world = await prepared();
  const [, database] = await world.catalog.require(path('c', 'd'));
  const names = ['b', 'a', 'B1', 'Ä', 'z', '😀', '\uffee', 'a_b', 'a%b', 'axb'];
  for (const name of names) {
    const spec = { comment: `About ${name}: 100% of THE_truth` };
    await world.catalog.create({ parent: database!, category: 'tables', name, spec, principal, ifExists: 'fail' });
  }
  const sorted = [...names].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  const listed: string[] = [];
  for (let after: string | undefined; ; after = listed.at(-1)) {
    const page = await world.catalog.list(database!.id, 'tables', { after, limit: 3 });
    listed.push(...page.map(({ name }) => name));
    if (page.length < 3) break;
  }
  assert.deepEqual(listed, sorted);
  assert.equal(await world.catalog.count(database!.id, 'tables'), names.length);
  const search = async (options: object) =>
    (await world.catalog.search(database!.id, 'tables', { limit: 100, ...options })).items.map(({ name }) => name);
  assert.deepEqual(await search({ namePattern: 'A\\_B' }), ['a_b']);
  assert.deepEqual(await search({ namePattern: 'a\\%%' }), ['a%b']);
  assert.deepEqual(await search({ namePattern: 'ä' }), ['Ä']);
  assert.deepEqual(await search({ namePattern: 'A_B' }), ['a%b', 'a_b', 'axb']);
  assert.deepEqual(await search({ comment: 'the_TRUTH' }), sorted);
  assert.deepEqual(await search({ comment: 'thextruth' }), []);
  assert.deepEqual(await search({ comment: 'about B1: 100%' }), ['B1']);
});

test('followers of the feed get visible changes, and how deep they are', async () => {
  const world = await prepared();
  const seen: string[] = [];
  world.changes.follow({
    changed: (change) => {
      if (change.kind === 'object') seen.push(`${change.category}${change.deep ? ' and below' : ''}`);
    },
    reload: () => assert.fail('no change was missed'),
  });
  const changedCategories = () => seen.splice(0);
  const { object } = await world.createTable('c', 'd', 't');
  assert.deepEqual(changedCategories(), ['tables']);
  await world.alterTable(['c', 'd', 't'], definition('a', 'b'));
  assert.deepEqual(changedCategories(), ['tables', 'tables']);
  await world.rename(['c', 'd'], 'e');
  assert.deepEqual(changedCategories(), ['databases', 'databases and below']);
  await world.catalog.saveStatistics(object.id, { rowCount: 3, dataBytes: 4, asOf: '2026-01-31T00:00:00.000Z' });
  assert.deepEqual(changedCategories(), ['tables']);
  await world.drop(['c'], true);
  assert.deepEqual(changedCategories(), ['catalogs and below', 'catalogs']);
});

test('statistics belong to the object and are deleted with it', async () => {
  const world = await prepared();
  const { object } = await world.createTable('c', 'd', 't');
  const statistics = { rowCount: 7, dataBytes: 9, asOf: '2026-01-31T10:00:00.123Z' };
  assert.equal(await world.catalog.statistics(object.id), undefined);
  await world.catalog.saveStatistics(object.id, { ...statistics, rowCount: 1 });
  await world.catalog.saveStatistics(object.id, statistics);
  assert.deepEqual(await world.catalog.statistics(object.id), statistics);
  await world.drop(['c', 'd', 't']);
  await world.catalog.saveStatistics(object.id, statistics);
  assert.equal(await world.catalog.statistics(object.id), undefined);
});

test('returned specs cannot be modified, because they are cached', async () => {
  const world = await prepared();
  const { object } = await world.createTable('c', 'd', 't');
  assert.throws(() => {
    (object.spec as unknown as { columns: unknown[] }).columns.push('x');
  }, TypeError);
});
