// Every change with the n-th statement of the store or the n-th call of the engine failing, for every n; as a transient error, and
// as the death of the process. In all cases acknowledged changes exist, visible objects are complete, and after recovery the store
// and the engine agree.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Failure } from '../../src/standard/failure.ts';
import { storesOf } from '../stores.ts';
import { definition, path, WarehouseInTest } from './catalog_and_engine.ts';
import { EngineInMemory } from './engine_in_memory.ts';

const stores = storesOf(import.meta.url);

interface Scenario {
  readonly name: string;
  run(warehouse: WarehouseInTest): Promise<unknown>;
  /** The contents after the change; the table's columns in parentheses. */
  readonly after: readonly string[];
}

const before = ['c', 'c.d', 'c.d.t(a)', 'c.d.u(a)'];
const scenarios: readonly Scenario[] = [
  {
    name: 'create a catalog',
    run: (warehouse) => warehouse.createCatalog('c2'),
    after: [...before, 'c2'],
  },
  {
    name: 'create a table',
    run: (warehouse) => warehouse.createTable('c', 'd', 'new'),
    after: ['c', 'c.d', 'c.d.new(a)', 'c.d.t(a)', 'c.d.u(a)'],
  },
  {
    name: 'alter a table',
    run: (warehouse) => warehouse.alterTable(['c', 'd', 't'], definition('a', 'b')),
    after: ['c', 'c.d', 'c.d.t(a,b)', 'c.d.u(a)'],
  },
  {
    name: 'rename a table',
    run: (warehouse) => warehouse.rename(['c', 'd', 't'], 'renamed'),
    after: ['c', 'c.d', 'c.d.renamed(a)', 'c.d.u(a)'],
  },
  {
    name: 'rename a database',
    run: (warehouse) => warehouse.rename(['c', 'd'], 'renamed'),
    after: ['c', 'c.renamed', 'c.renamed.t(a)', 'c.renamed.u(a)'],
  },
  {
    name: 'drop a table',
    run: (warehouse) => warehouse.drop(['c', 'd', 't']),
    after: ['c', 'c.d', 'c.d.u(a)'],
  },
  {
    name: 'drop a database and what is in it',
    run: (warehouse) => warehouse.drop(['c', 'd'], true),
    after: ['c'],
  },
  {
    name: 'drop a catalog and what is in it',
    run: (warehouse) => warehouse.drop(['c'], true),
    after: [],
  },
];

const withoutIds = (contents: readonly string[]): string[] =>
  contents
    .map((line) => {
      const [name, spec] = line.split('=', 2);
      if (spec === undefined) return line;
      const { columns } = JSON.parse(line.slice(line.indexOf('=') + 1)) as { columns: { name: string }[] };
      return `${name}(${columns.map((column) => column.name)})`;
    })
    .sort();

/** Throws at the n-th statement from now on; `permanently`: at every later one too, as if the process had died. */
class StoreFault {
  failAt = Number.POSITIVE_INFINITY;
  permanently = false;
  count = 0;
  readonly inject = (): void => {
    this.count++;
    if (this.count === this.failAt || (this.permanently && this.count > this.failAt))
      throw new Error('the store fails');
  };
  arm(call: number, permanently: boolean): void {
    this.count = 0;
    this.failAt = call;
    this.permanently = permanently;
  }
}

async function prepared(fault = new StoreFault()) {
  const warehouse = await WarehouseInTest.open(stores, { inject: fault.inject });
  await warehouse.createCatalog('c');
  await warehouse.createDatabase('c', 'd');
  await warehouse.createTable('c', 'd', 't');
  await warehouse.createTable('c', 'd', 'u');
  warehouse.engine.calls = 0;
  fault.count = 0;
  return { warehouse, fault };
}

async function attempt(run: () => Promise<unknown>): Promise<'acknowledged' | 'failed'> {
  return run().then(
    () => 'acknowledged' as const,
    () => 'failed' as const,
  );
}

/** Before any recovery, a reader sees the state before or after the change, or (for a drop) the object gone. */
async function checkVisible(warehouse: WarehouseInTest, scenario: Scenario): Promise<void> {
  const contents = withoutIds(await warehouse.contents());
  const possible = [before, scenario.after].map((names) => JSON.stringify([...names].sort()));
  assert(possible.includes(JSON.stringify(contents)), `a reader sees a partly applied change: ${contents}`);
}

async function checkSettled(warehouse: WarehouseInTest, scenario: Scenario, acknowledged: boolean): Promise<void> {
  const contents = withoutIds(await warehouse.contents());
  assert.deepEqual(withoutIds(warehouse.engine.contents()), contents, 'the store and the engine agree');
  assert.deepEqual(await warehouse.unsettledObjects(), [], 'nothing is left open');
  if (acknowledged) assert.deepEqual(contents, [...scenario.after].sort(), 'the acknowledged change exists');
  else await checkVisible(warehouse, scenario);
}

/** Repeated after the fault, as by a client, the request succeeds: now, or because it had been applied. */
async function checkRepeated(warehouse: WarehouseInTest, scenario: Scenario): Promise<void> {
  await scenario.run(warehouse).catch((error) => {
    assert(error instanceof Failure, `${error}`);
    assert(['OBJECT_ALREADY_EXISTS', 'OBJECT_NOT_FOUND'].includes(error.code), error.message);
  });
  await warehouse.catalog.recover();
  await checkSettled(warehouse, scenario, true);
}

for (const scenario of scenarios) {
  describe(scenario.name, { concurrency: false }, () => {
    test('without a fault', async () => {
      const { warehouse } = await prepared();
      await scenario.run(warehouse);
      await checkSettled(warehouse, scenario, true);
      await warehouse.close();
    });

    for (const permanently of [false, true]) {
      test(`each statement of the store ${permanently ? 'is the last before the process dies' : 'fails once'}`, async () => {
        const { warehouse: first, fault: counter } = await prepared();
        await scenario.run(first);
        const statements = counter.count;
        assert(statements > 5, 'the change writes to the store');
        await first.close();
        for (let n = 1; n <= statements; n++) {
          for (const settledBy of ['recovery', 'the next request'] as const) {
            const { warehouse, fault } = await prepared();
            fault.arm(n, permanently);
            const outcome = await attempt(() => scenario.run(warehouse));
            fault.arm(Number.POSITIVE_INFINITY, false);
            const survivingWarehouse = permanently
              ? await WarehouseInTest.open(stores, {
                  place: await warehouse.storeAfterKill(),
                  engine: warehouse.engine,
                })
              : warehouse;
            await checkVisible(survivingWarehouse, scenario);
            if (settledBy === 'recovery') {
              await survivingWarehouse.catalog.recover();
              await checkSettled(survivingWarehouse, scenario, outcome === 'acknowledged');
            }
            await checkRepeated(survivingWarehouse, scenario);
            await warehouse.close();
            if (survivingWarehouse !== warehouse) await survivingWarehouse.close();
          }
        }
      });
    }

    for (const moment of ['before', 'after'] as const) {
      test(`the engine fails ${moment} its work`, async () => {
        const { warehouse } = await prepared();
        warehouse.engine.fault = (point) => {
          if (point.call === 1 && point.when === moment) throw new Failure('WAREHOUSE_FAILED', 'the engine died');
        };
        await assert.rejects(scenario.run(warehouse), { code: 'WAREHOUSE_FAILED' });
        await checkVisible(warehouse, scenario);
        await warehouse.catalog.recover();
        await checkSettled(warehouse, scenario, false);
        await checkRepeated(warehouse, scenario);
        await warehouse.close();
      });

      test(`the engine stays dead ${moment} its work through two recoveries, then is available again`, async () => {
        const { warehouse } = await prepared();
        warehouse.engine.fault = (point) => {
          if (point.when === moment) throw new Error('the engine died');
        };
        await assert.rejects(scenario.run(warehouse));
        await warehouse.catalog.recover();
        await warehouse.catalog.recover();
        await checkVisible(warehouse, scenario);
        warehouse.engine.fault = () => {};
        await warehouse.catalog.recover();
        await checkSettled(warehouse, scenario, false);
        await checkRepeated(warehouse, scenario);
        await warehouse.close();
      });
    }

    test('the engine refuses: nothing is changed, and the refusal is immediate', async () => {
      const { warehouse } = await prepared();
      warehouse.engine.fault = (point) => {
        if (point.when === 'before') throw new Failure('CONSTRAINT_VIOLATED', 'no');
      };
      await assert.rejects(scenario.run(warehouse), { code: 'CONSTRAINT_VIOLATED' });
      assert.deepEqual(withoutIds(await warehouse.contents()), before);
      assert.deepEqual(await warehouse.unsettledObjects(), []);
      await warehouse.close();
    });
  });
}

test('if a process dies while the engine works, its successor completes or undoes the change', async () => {
  for (const scenario of scenarios) {
    for (const isApplied of [false, true]) {
      const { warehouse } = await prepared();
      const { promise: reached, resolve } = Promise.withResolvers<void>();
      const engine = warehouse.engine;
      engine.fault = ({ when }) => {
        if (when === (isApplied ? 'after' : 'before')) {
          resolve();
          throw new SimulatedDeath();
        }
      };
      // The dead process gets no answer: its promise is ignored.
      void scenario.run(warehouse).catch(() => {});
      await reached;
      const place = await warehouse.storeAfterKill();
      engine.fault = () => {};
      const copy = Object.assign(new EngineInMemory(), { steps: new Set(engine.steps) });
      for (const [id, { name, databases }] of structuredClone(engine.catalogs))
        copy.catalogs.set(id, { name, databases });
      const successor = await WarehouseInTest.open(stores, { place, engine: copy });
      await checkVisible(successor, scenario);
      await successor.catalog.recover();
      await checkSettled(successor, scenario, false);
      await checkRepeated(successor, scenario);
      await successor.close();
      await warehouse.close();
    }
  }
});

class SimulatedDeath extends Error {}

test('the steps of an update are forgotten once no intent needs them', async () => {
  const { warehouse } = await prepared();
  await warehouse.alterTable(['c', 'd', 't'], definition('a', 'b'));
  const [intentStep] = (await warehouse.store.db.selectFrom('spent_steps').select('step').execute()).map((r) => r.step);
  assert(intentStep && warehouse.engine.steps.has(intentStep));
  await warehouse.catalog.recover();
  assert.deepEqual(warehouse.engine.forgotten, [intentStep]);
  assert.deepEqual(await warehouse.store.db.selectFrom('spent_steps').selectAll().execute(), []);
  assert(await warehouse.catalog.find(path('c', 'd', 't')));
});
