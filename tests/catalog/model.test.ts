// Random histories of changes against a model of a few lines: sequential changes with faults and deaths of the process in between;
// and concurrent ones, for which only the invariants can be checked. fast-check prints the seed of a failure.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import fc from 'fast-check';
import { Failure, outcomeOf } from '../../src/standard/failure.ts';
import { LeaseHolder } from '../../src/store/leases.ts';
import { storesOf } from '../stores.ts';
import { definition, WarehouseInTest } from './catalog_and_engine.ts';
import { enginesOf } from './engines.ts';

const stores = storesOf(import.meta.url);
const engines = await enginesOf(import.meta.url);
after(() => engines.close());

type Names = readonly [string] | readonly [string, string] | readonly [string, string, string];

type Step =
  | { readonly kind: 'createDatabase'; readonly database: string }
  | { readonly kind: 'createTable'; readonly database: string; readonly table: string; readonly put: boolean }
  | { readonly kind: 'alterTable'; readonly database: string; readonly table: string; readonly column: string }
  | { readonly kind: 'rename'; readonly names: Names; readonly newName: string }
  | { readonly kind: 'drop'; readonly names: Names; readonly cascade: boolean };

type Fault =
  | { readonly kind: 'none' }
  | { readonly kind: 'store'; readonly at: number; readonly dies: boolean }
  | { readonly kind: 'engine'; readonly when: 'before' | 'after' };

/** Databases by name, tables by name, columns. Keys with equal folded names are one name. */
type Model = Map<string, Map<string, string>>;

const database = fc.constantFrom('d', 'D', 'e');
const table = fc.constantFrom('t', 'T', 'u', 'v');
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ kind: fc.constant('createDatabase' as const), database }),
  fc.record({ kind: fc.constant('createTable' as const), database, table, put: fc.boolean() }),
  fc.record({ kind: fc.constant('alterTable' as const), database, table, column: fc.constantFrom('x', 'y', 'z') }),
  fc.record({
    kind: fc.constant('rename' as const),
    names: fc.oneof(
      fc.tuple(fc.constant('c'), database),
      fc.tuple(fc.constant('c'), database, table),
    ) as fc.Arbitrary<Names>,
    newName: fc.constantFrom('t', 'U', 'd', 'E', 'new'),
  }),
  fc.record({
    kind: fc.constant('drop' as const),
    names: fc.oneof(
      fc.tuple(fc.constant('c'), database),
      fc.tuple(fc.constant('c'), database, table),
    ) as fc.Arbitrary<Names>,
    cascade: fc.boolean(),
  }),
);
const fault: fc.Arbitrary<Fault> = fc.oneof(
  { weight: 3, arbitrary: fc.constant({ kind: 'none' as const }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('store' as const),
      at: fc.integer({ min: 1, max: 14 }),
      dies: fc.boolean(),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('engine' as const),
      when: fc.constantFrom('before' as const, 'after' as const),
    }),
  },
);

function perform(warehouse: WarehouseInTest, s: Step): Promise<unknown> {
  switch (s.kind) {
    case 'createDatabase':
      return warehouse.createDatabase('c', s.database);
    case 'createTable':
      return warehouse.createTable('c', s.database, s.table, s.put ? 'return' : 'fail');
    case 'alterTable':
      return warehouse.alterTable(['c', s.database, s.table], definition('a', s.column));
    case 'rename':
      return warehouse.rename(s.names, s.newName);
    case 'drop':
      return warehouse.drop(s.names, s.cascade);
  }
}

const isTaken = (all: ReadonlyMap<string, unknown>, name: string, exceptName?: string): boolean =>
  [...all.keys()].some((other) => other !== exceptName && other.toLowerCase() === name.toLowerCase());

/** Applies a change to the model as the catalog should, or returns the code of its refusal. */
function expect(model: Model, s: Step): string | undefined {
  if (s.kind === 'createDatabase') {
    if (isTaken(model, s.database)) return 'OBJECT_ALREADY_EXISTS';
    model.set(s.database, new Map());
    return undefined;
  }
  const [databaseName, tableName] = 'names' in s ? [s.names[1] ?? '', s.names[2]] : [s.database, s.table];
  const tables = model.get(databaseName);
  const missing = !tables || (tableName !== undefined && s.kind !== 'createTable' && !tables.has(tableName));
  if (missing) return s.kind === 'drop' ? undefined : 'OBJECT_NOT_FOUND';
  if (s.kind === 'createTable') {
    if (tables.has(s.table) && s.put) return undefined;
    if (isTaken(tables, s.table)) return 'OBJECT_ALREADY_EXISTS';
    tables.set(s.table, 'a');
  } else if (s.kind === 'alterTable') {
    tables.set(s.table, `a,${s.column}`);
  } else if (s.kind === 'rename') {
    return tableName === undefined
      ? renameKey(model, databaseName, s.newName)
      : renameKey(tables, tableName, s.newName);
  } else if (tableName !== undefined) {
    tables.delete(tableName);
  } else {
    if (tables.size > 0 && !s.cascade) return 'NOT_EMPTY';
    model.delete(databaseName);
  }
  return undefined;
}

function renameKey<T>(all: Map<string, T>, name: string, newName: string): string | undefined {
  if (isTaken(all, newName, name)) return 'OBJECT_ALREADY_EXISTS';
  const value = all.get(name) as T;
  all.delete(name);
  all.set(newName, value);
  return undefined;
}

function describeModel(model: Model): string[] {
  const lines = ['c'];
  for (const [databaseName, tables] of model) {
    lines.push(`c.${databaseName}`);
    for (const [tableName, columns] of tables) {
      lines.push(`c.${databaseName}.${tableName}=${JSON.stringify(definition(...columns.split(',')))}`);
    }
  }
  return lines.sort();
}

async function checkSettled(warehouse: WarehouseInTest): Promise<string[]> {
  const contents = await warehouse.contents();
  const { engine } = warehouse;
  const inEngine = engine.comparable(await engine.contentsNow());
  assert.deepEqual(inEngine, engine.comparable(contents), 'the store and the engine agree');
  assert.deepEqual(await warehouse.unsettledObjects(), [], 'nothing is left open');
  return contents;
}

class ArmedFault {
  count = 0;
  at = Number.POSITIVE_INFINITY;
  dies = false;
  readonly inject = (): void => {
    this.count++;
    if (this.count === this.at || (this.dies && this.count > this.at)) throw new Error('the store fails');
  };
  set(f: Fault, warehouse: WarehouseInTest): void {
    this.count = 0;
    this.at = f.kind === 'store' ? f.at : Number.POSITIVE_INFINITY;
    this.dies = f.kind === 'store' && f.dies;
    let failed = false;
    warehouse.engine.fault = ({ when }) => {
      if (f.kind !== 'engine' || when !== f.when || failed) return;
      failed = true;
      throw new Failure('WAREHOUSE_FAILED', 'the engine died');
    };
  }
}

/** If a change failed for an external reason, it may have been applied or not: then there are several possible models. */
function follow(models: readonly Model[], s: Step, f: Fault, error: unknown): Model[] {
  // The fault prevented the recovery of an earlier change: this one has not begun.
  if (f.kind !== 'none' && error instanceof Failure && error.code === 'CHANGE_IN_PROGRESS') return [...models];
  const code = error instanceof Failure && error.code !== 'WAREHOUSE_FAILED' ? error.code : undefined;
  const isKnownError = error === undefined || code !== undefined;
  const followed = models.flatMap((model) => {
    const next: Model = structuredClone(model);
    const refusal = expect(next, s);
    if (!isKnownError) return refusal === undefined ? [model, next] : [model];
    return refusal === code ? [refusal === undefined ? next : model] : [];
  });
  // A refusal has two possible causes: until an uncertain rename is recovered, the old name is refused like the new one.
  if (followed.length > 0 && code !== undefined) return [...models];
  assert(followed.length > 0, `${JSON.stringify(s)} ended with ${error}`);
  return [...new Map(followed.map((model) => [JSON.stringify(describeModel(model)), model])).values()];
}

test('any history of changes, faults and kills results in the state of the model', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(step, fault, fc.boolean()), { minLength: 1, maxLength: 20 }),
      async (history) => {
        const armed = new ArmedFault();
        let warehouse = await WarehouseInTest.open(stores, { engine: await engines.open(), inject: armed.inject });
        await warehouse.createCatalog('c');
        let models: Model[] = [new Map()];
        for (const [s, f, recovers] of history) {
          armed.set(f, warehouse);
          const error = await perform(warehouse, s).then(
            () => undefined,
            (e) => e as unknown,
          );
          armed.set({ kind: 'none' }, warehouse);
          if (f.kind === 'store' && f.dies) {
            const place = await warehouse.storeAfterKill();
            await warehouse.close();
            warehouse = await WarehouseInTest.open(stores, { place, engine: warehouse.engine, inject: armed.inject });
          }
          models = follow(models, s, f, error);
          // Otherwise the next step encounters the open change.
          if (!recovers) continue;
          await warehouse.catalog.recover();
          const contents = JSON.stringify(await checkSettled(warehouse));
          models = models.filter((model) => JSON.stringify(describeModel(model)) === contents);
          assert.equal(models.length, 1, `no sequence of the requests leads to ${contents}`);
        }
        await warehouse.close();
      },
    ),
    { numRuns: engines.runs(40) },
  );
});

test('after any concurrent requests, the store and the engine agree', async () => {
  const expectedCodes = new Set(['OBJECT_ALREADY_EXISTS', 'OBJECT_NOT_FOUND', 'NOT_EMPTY', 'CHANGE_IN_PROGRESS']);
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.array(step, { minLength: 2, maxLength: 12 }), { minLength: 1, maxLength: 6 }),
      fc.infiniteStream(fc.integer({ min: 0, max: 3 })),
      async (rounds, delays) => {
        const warehouse = await WarehouseInTest.open(stores, { engine: await engines.open() });
        await warehouse.createCatalog('c');
        await warehouse.createDatabase('c', 'd');
        warehouse.engine.gate = async () => {
          for (let n = delays.next().value ?? 0; n > 0; n--) await new Promise(setImmediate);
        };
        for (const round of rounds) {
          const outcomes = await Promise.allSettled(round.map((s) => perform(warehouse, s)));
          for (const outcome of outcomes) {
            if (outcome.status === 'fulfilled') continue;
            const { reason } = outcome;
            assert(reason instanceof Failure && expectedCodes.has(reason.code), `${reason?.stack}`);
          }
          await checkSettled(warehouse);
        }
        await warehouse.close();
      },
    ),
    { numRuns: engines.runs(40) },
  );
});

test('after any concurrent requests to two servers on one store, with recovery running in both, the store and the engine agree', async () => {
  const expectedCodes = new Set(['OBJECT_ALREADY_EXISTS', 'OBJECT_NOT_FOUND', 'NOT_EMPTY', 'CHANGE_IN_PROGRESS']);
  const request = fc.tuple(step, fc.boolean());
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.array(request, { minLength: 2, maxLength: 8 }), { minLength: 1, maxLength: 4 }),
      fc.infiniteStream(fc.integer({ min: 0, max: 3 })),
      async (rounds, delays) => {
        const holder = new LeaseHolder('first');
        const first = await WarehouseInTest.open(stores, { engine: await engines.open(), holder });
        const { engine } = first;
        const second = new WarehouseInTest(first, engine, { holder: new LeaseHolder('second') });
        await first.createCatalog('c');
        await first.createDatabase('c', 'd');
        engine.gate = async () => {
          for (let n = delays.next().value ?? 0; n > 0; n--) await new Promise(setImmediate);
        };
        for (const round of rounds) {
          let isOver = false;
          const recovery = [first, second].map(async ({ catalog }) => {
            for (; !isOver; await new Promise(setImmediate)) await catalog.recover();
          });
          const outcomes = await Promise.allSettled(
            round.map(async ([s, isSecond]) => {
              await perform(isSecond ? second : first, s);
              return s;
            }),
          );
          isOver = true;
          await Promise.all(recovery);
          for (const outcome of outcomes) {
            if (outcome.status === 'fulfilled') continue;
            const { reason } = outcome;
            assert(reason instanceof Failure && expectedCodes.has(reason.code), `${reason?.stack}`);
            assert.equal(outcomeOf(reason) ?? 'notApplied', 'notApplied', reason.message);
          }
          const contents = await checkSettled(first);
          assert.deepEqual(await second.contents(), contents, 'both servers show the same');
          for (const kept of createdAndKept(outcomes)) assert(contents.includes(kept), `${kept} was acknowledged`);
        }
        await first.close();
      },
    ),
    { numRuns: engines.runs(30) },
  );
});

/** Databases whose creation was acknowledged in a round without a drop or a rename, which nothing but a defect can have removed. */
function createdAndKept(outcomes: readonly PromiseSettledResult<Step>[]): string[] {
  const made = outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : []));
  if (made.some(({ kind }) => kind === 'drop' || kind === 'rename')) return [];
  return made.flatMap((s) => (s.kind === 'createDatabase' ? [`c.${s.database}`] : []));
}
