// Changes whose warehouse no longer exists, as earlier releases left them: recovery ends each of them, once, without the engine.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Observation } from '../../src/observe/observations.ts';
import { storesOf } from '../stores.ts';
import { definition, path, WarehouseInTest } from './catalog_and_engine.ts';

const stores = storesOf(import.meta.url);

const changes: Record<string, { run(warehouse: WarehouseInTest): Promise<unknown>; isThere: boolean; left: object }> = {
  'a creation': {
    run: (warehouse) => warehouse.createTable('c', 'd', 'new'),
    isThere: true,
    left: { verb: 'create', outcome: 'undone' },
  },
  'a change': {
    run: (warehouse) => warehouse.alterTable(['c', 'd', 't'], definition('a', 'b')),
    isThere: true,
    left: { verb: 'update', outcome: 'undone' },
  },
  'a drop': {
    run: (warehouse) => warehouse.drop(['c', 'd', 't']),
    isThere: false,
    left: { verb: 'drop', outcome: 'finished' },
  },
  'a drop that could be undone': {
    run: (warehouse) => warehouse.hide(['c', 'd', 't'], 60),
    isThere: false,
    left: { verb: 'drop', outcome: 'finished' },
  },
};

describe('an open change of a warehouse that no longer exists', () => {
  for (const [name, { run, isThere, left }] of Object.entries(changes))
    for (const isBlocked of [false, true])
      test(`${name} is ended${isBlocked ? ', although it is blocked' : ''}`, async () => {
        const seen: Observation[] = [];
        let exists = true;
        const warehouse = await WarehouseInTest.open(stores, {
          observe: (observation) => seen.push(observation),
          warehouseExists: async () => exists,
        });
        const { catalog, engine, store } = warehouse;
        await warehouse.createCatalog('c');
        await warehouse.createDatabase('c', 'd');
        await warehouse.createTable('c', 'd', 't');
        engine.fault = () => {
          throw new Error('the engine is gone');
        };
        await assert.rejects(run(warehouse));
        if (isBlocked) {
          await store.db.updateTable('intents').set({ engine_deaths: 2 }).execute();
          await store.db
            .updateTable('objects')
            .set({ state: 'blocked' })
            .where('id', 'in', (q) => q.selectFrom('intents').select('object_id'))
            .execute();
        }
        exists = false;
        const { calls } = engine;
        seen.length = 0;
        await catalog.recover();
        assert.equal(engine.calls, calls);
        assert.deepEqual(await catalog.openIntents(), []);
        assert.deepEqual(seen, [{ kind: 'intentRecovered', ...left, lostWarehouse: 'w' }]);
        assert.equal((await catalog.find(path('c', 'd', 't'))) !== undefined, isThere);
        await catalog.recover();
        assert.equal(seen.length, 1);
        await warehouse.close();
      });

  test('the data of a dropped object are forgotten when they are to be purged', async () => {
    let now = Date.now();
    let exists = true;
    const warehouse = await WarehouseInTest.open(stores, { clock: () => now, warehouseExists: async () => exists });
    const { catalog, engine, store } = warehouse;
    await warehouse.createCatalog('c');
    await warehouse.hide(['c'], 60);
    exists = false;
    engine.fault = () => {
      throw new Error('the engine is gone');
    };
    now += 61_000;
    await catalog.purge();
    await catalog.recover();
    assert.deepEqual(
      await store.db.selectFrom('objects').select('id').where('category', '=', 'catalogs').execute(),
      [],
    );
    await warehouse.close();
  });
});
