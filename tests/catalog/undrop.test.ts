// Dropped objects that are retained: dropped, restored and purged, with every statement of the store and every call of the engine
// failing one at a time. Afterwards the object is complete, retained or deleted, and the store and the engine agree.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { storesOf } from '../stores.ts';
import { WarehouseInTest } from './catalog_and_engine.ts';

const stores = storesOf(import.meta.url);
const keepSeconds = 60;
const start = Date.parse('2026-01-31T10:00:00Z');

class World {
  now = start;
  /** The statement of the store that fails; with `forGood` all later ones too. */
  failing = Number.POSITIVE_INFINITY;
  forGood = false;
  statements = 0;
  warehouse!: WarehouseInTest;

  static async make(): Promise<World> {
    const world = new World();
    world.warehouse = await WarehouseInTest.open(stores, {
      clock: () => world.now,
      inject: () => {
        world.statements++;
        if (world.statements === world.failing || (world.forGood && world.statements > world.failing))
          throw new Error('the store fails');
      },
    });
    const { warehouse } = world;
    await warehouse.createCatalog('c');
    await warehouse.createDatabase('c', 'd');
    await warehouse.createTable('c', 'd', 't');
    await warehouse.createTable('c', 'd', 'before');
    await warehouse.hide(['c', 'd', 'before'], keepSeconds);
    return world;
  }

  /** Interrupted at the n-th step: at a statement of the store, or before or after the n-th call of the engine. */
  async breakOff(
    point: FaultMoment,
    n: number,
    work: () => Promise<unknown>,
  ): Promise<{ struck: boolean; failed: boolean }> {
    const { engine } = this.warehouse;
    this.statements = 0;
    engine.calls = 0;
    let struck = false;
    if (point.startsWith('store')) {
      this.failing = n;
      this.forGood = point === 'store for good';
    } else {
      engine.fault = ({ when, call }) => {
        if (when !== point || call !== n) return;
        struck = true;
        throw new Error('the engine fails');
      };
    }
    const failed = await work().then(
      () => false,
      () => true,
    );
    if (point.startsWith('store')) struck = this.statements >= n;
    this.failing = Number.POSITIVE_INFINITY;
    engine.fault = () => {};
    await this.warehouse.catalog.recover();
    return { struck, failed };
  }

  names = async () => (await this.warehouse.contents()).map((line) => line.split('=')[0]);

  /** Store and engine agree on what exists and what is retained, and no change is open. */
  async requireAgreement(): Promise<void> {
    const { engine, store, catalog } = this.warehouse;
    assert.deepEqual(await this.warehouse.contents(), engine.contents());
    assert.deepEqual(await store.db.selectFrom('intents').selectAll().execute(), []);
    const states = await store.db.selectFrom('objects').select('state').distinct().execute();
    for (const { state } of states) assert.ok(['ready', 'dropped'].includes(state), state);
    await catalog.recover();
  }
}

type FaultMoment = 'store' | 'store for good' | 'before' | 'after';
const points: readonly FaultMoment[] = ['store', 'store for good', 'before', 'after'];
const stepsMax = 100;
const objects = [['c'], ['c', 'd'], ['c', 'd', 't']];

describe('interrupted at every step', () => {
  for (const names of objects) {
    const isThere = async (world: World) => (await world.names()).includes(names.join('.'));
    const sweep = async (run: (point: FaultMoment, n: number) => Promise<boolean>): Promise<number> => {
      let faults = 0;
      for (const point of points) {
        for (let n = 1; ; n++) {
          assert.ok(n < stepsMax, 'it comes to no end');
          if (!(await run(point, n))) break;
          faults++;
        }
      }
      return faults;
    };

    test(`a drop of ${names.join('.')}`, async (t) => {
      const faults = await sweep(async (point, n) => {
        const world = await World.make();
        const all = await world.names();
        const { struck, failed } = await world.breakOff(point, n, () => world.warehouse.hide(names, keepSeconds));
        await world.requireAgreement();
        if (!failed) assert.equal(await isThere(world), false);
        if (await isThere(world)) assert.deepEqual(await world.names(), all, 'as before');
        else await world.warehouse.undrop(names, names.at(-1) as string);
        assert.deepEqual(await world.names(), all, 'with all that was in it, and nothing more');
        await world.requireAgreement();
        await world.warehouse.close();
        return struck;
      });
      t.diagnostic(`${faults} faults`);
      assert.ok(faults > 5);
    });

    test(`an undrop of ${names.join('.')} under another name`, async (t) => {
      const faults = await sweep(async (point, n) => {
        const world = await World.make();
        const renamed = (name?: string) => name?.split('.').map((part, i) => (i === names.length - 1 ? 'new' : part));
        const expectedNames = (await world.names())
          .filter((name) => name === names.join('.') || name?.startsWith(`${names.join('.')}.`))
          .map((name) => renamed(name)?.join('.'));
        await world.warehouse.hide(names, keepSeconds);
        const remaining = await world.names();
        const { struck, failed } = await world.breakOff(point, n, () => world.warehouse.undrop(names, 'new'));
        await world.requireAgreement();
        const isRestored = (await world.names()).some((name) => name === expectedNames[0]);
        if (!failed) assert.ok(isRestored);
        if (!isRestored) {
          assert.deepEqual(await world.names(), remaining);
          await world.warehouse.undrop(names, 'new');
        }
        assert.deepEqual(await world.names(), [...remaining, ...expectedNames].sort());
        await world.requireAgreement();
        await world.warehouse.close();
        return struck;
      });
      t.diagnostic(`${faults} faults`);
      assert.ok(faults > 5);
    });

    test(`a purge of ${names.join('.')}`, async (t) => {
      const faults = await sweep(async (point, n) => {
        const world = await World.make();
        await world.warehouse.hide(names, keepSeconds);
        world.now += (keepSeconds - 1) * 1000;
        await world.warehouse.catalog.purge();
        assert.notEqual(world.warehouse.engine.hidden.size, 0, 'its time is not over');
        world.now += 1000;
        const remaining = await world.names();
        const { struck } = await world.breakOff(point, n, () => world.warehouse.catalog.purge());
        await world.warehouse.catalog.purge();
        await world.requireAgreement();
        assert.deepEqual(await world.names(), remaining);
        assert.equal(world.warehouse.engine.hidden.size, 0);
        const rows = await world.warehouse.store.db.selectFrom('dropped_objects').selectAll().execute();
        assert.deepEqual(rows, []);
        await assert.rejects(world.warehouse.undrop(names, 'new'), { code: 'OBJECT_NOT_FOUND' });
        await world.warehouse.close();
        return struck;
      });
      t.diagnostic(`${faults} faults`);
      assert.ok(faults > 5);
    });
  }
});

test('dropped objects in a dropped catalog stay with it', async () => {
  const world = await World.make();
  const { warehouse } = world;
  await warehouse.hide(['c'], keepSeconds * 10);
  world.now += keepSeconds * 2000;
  await warehouse.catalog.purge();
  assert.equal((await warehouse.store.db.selectFrom('dropped_objects').select('object_id').execute()).length, 2);
  await warehouse.undrop(['c'], 'c');
  await warehouse.catalog.purge();
  assert.deepEqual(await warehouse.store.db.selectFrom('dropped_objects').select('object_id').execute(), []);
  assert.deepEqual(await world.names(), ['c', 'c.d', 'c.d.t']);
  await warehouse.close();
});

test('of two concurrent restores of one object, one succeeds', async () => {
  const world = await World.make();
  const outcomes = await Promise.allSettled(
    [1, 2, 3].map(() => world.warehouse.undrop(['c', 'd', 'before'], 'before')),
  );
  assert.equal(outcomes.filter(({ status }) => status === 'fulfilled').length, 1);
  await world.requireAgreement();
  await world.warehouse.close();
});
