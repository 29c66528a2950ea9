// Changes that rewrite data: the catalog records the intent, a task carries it out. Whether it is cancelled, refused, interrupted
// or run twice, the object ends changed or unchanged, and the task reports which.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Catalog } from '../../src/catalog/catalog.ts';
import { Failure } from '../../src/standard/failure.ts';
import type { Store } from '../../src/store/store.ts';
import { Tasks } from '../../src/tasks/tasks.ts';
import { deadlineMs, eventually } from '../deadline.ts';
import { storesOf } from '../stores.ts';
import { definition, path, principal, WarehouseInTest } from './catalog_and_engine.ts';

const stores = storesOf(import.meta.url);

function tasksOf(store: Store, catalog: () => Catalog): Tasks {
  const kind = {
    type: 'alter_table',
    attemptsMax: 3,
    run: async (task: { taskId: string }, { signal }: { signal: AbortSignal }) => {
      const { version } = await catalog().runIntent(task.taskId, { signal });
      return { version };
    },
    abandoned: (task: { taskId: string }) => catalog().settleTask(task.taskId),
  };
  return new Tasks({ store, kinds: [kind], runnersMax: 2, retentionDays: 7, retryPauseMs: 5 });
}

async function prepared(options: { place?: string; engine?: WarehouseInTest['engine'] } = {}) {
  let notify = (): void => {};
  const warehouse = await WarehouseInTest.open(stores, { ...options, onTask: () => notify() });
  const tasks = tasksOf(warehouse.store, () => warehouse.catalog);
  notify = () => tasks.notify();
  if (!options.place) {
    await warehouse.createCatalog('c');
    await warehouse.createDatabase('c', 'd');
    await warehouse.createTable('c', 'd', 't');
  }
  warehouse.engine.costs = 'rewrite';
  return { warehouse, tasks };
}

const alter = async (warehouse: WarehouseInTest): Promise<string> => {
  const { taskId } = await warehouse.alterTable(['c', 'd', 't'], definition('a', 'b'), { asTask: true });
  assert(taskId);
  return taskId;
};
const table = async (warehouse: WarehouseInTest) => (await warehouse.catalog.require(path('c', 'd', 't')))[2]!;
const columns = async (warehouse: WarehouseInTest) =>
  ((await table(warehouse)).spec as ReturnType<typeof definition>).columns.map(({ name }) => name).join();
const namesWhenSettled = async (warehouse: WarehouseInTest) => {
  assert.deepEqual(await warehouse.unsettledObjects(), []);
  assert.deepEqual(warehouse.engine.contents(), await warehouse.contents());
};

test('the task makes the change; until then the table is altering and refuses other changes', async () => {
  const { warehouse, tasks } = await prepared();
  const taskId = await alter(warehouse);
  assert.deepEqual([(await table(warehouse)).state, await columns(warehouse)], ['altering', 'a']);
  await assert.rejects(warehouse.rename(['c', 'd', 't'], 'x'), { code: 'CHANGE_IN_PROGRESS' });
  await assert.rejects(warehouse.drop(['c', 'd'], true), { code: 'CHANGE_IN_PROGRESS' });
  await warehouse.catalog.recover();
  assert.equal((await table(warehouse)).state, 'altering', 'what a task owns is the task’s');
  await tasks.start();
  const task = await tasks.wait(taskId, deadlineMs(5000));
  assert.deepEqual([task?.state, task?.result], ['succeeded', { version: 2 }]);
  assert.equal(await columns(warehouse), 'a,b');
  await namesWhenSettled(warehouse);
  await tasks.stop(600);
});

test('if the engine refuses, the task fails and the table is unchanged', async () => {
  const { warehouse, tasks } = await prepared();
  const taskId = await alter(warehouse);
  warehouse.engine.fault = () => {
    throw new Failure('CONSTRAINT_VIOLATED', 'twice the same key');
  };
  await tasks.start();
  const task = await tasks.wait(taskId, deadlineMs(5000));
  assert.deepEqual([task?.state, task?.error?.code], ['failed', 'CONSTRAINT_VIOLATED']);
  assert.deepEqual([(await table(warehouse)).state, await columns(warehouse)], ['ready', 'a']);
  await namesWhenSettled(warehouse);
  await tasks.stop(600);
});

test('if the task is cancelled before it begins, the table is ready again at once', async () => {
  const { warehouse, tasks } = await prepared();
  const { calls } = warehouse.engine;
  const taskId = await alter(warehouse);
  assert.equal((await tasks.cancel(taskId, principal))?.state, 'cancelled');
  await eventually('the table is ready', async () => (await table(warehouse)).state === 'ready');
  assert.equal(await columns(warehouse), 'a');
  assert.equal(warehouse.engine.calls, calls);
  await namesWhenSettled(warehouse);
});

test('if the task is cancelled while the engine works, the engine stops and the table is unchanged', async () => {
  const { warehouse, tasks } = await prepared();
  const working = warehouse.engine.workUntilCancelled();
  const taskId = await alter(warehouse);
  await tasks.start();
  await working;
  await tasks.cancel(taskId, principal);
  assert.equal((await tasks.wait(taskId, deadlineMs(5000)))?.state, 'cancelled');
  await eventually('the table is ready', async () => (await table(warehouse)).state === 'ready');
  assert.deepEqual(await columns(warehouse), 'a');
  await namesWhenSettled(warehouse);
  await tasks.stop(600);
});

test('if the engine dies and comes back, the task retries and succeeds', async () => {
  for (const moment of ['before', 'after']) {
    const { warehouse, tasks } = await prepared();
    let deaths = 0;
    warehouse.engine.fault = (point) => {
      if (point.when === moment && ++deaths < 3) throw new Error('the engine died');
    };
    const taskId = await alter(warehouse);
    await tasks.start();
    const task = await tasks.wait(taskId, deadlineMs(5000));
    assert.deepEqual([task?.state, task?.attempt], ['succeeded', 3]);
    await namesWhenSettled(warehouse);
    await tasks.stop(600);
  }
});

test('a server that stops hands the change over to its successor', async () => {
  const { warehouse, tasks } = await prepared();
  const working = warehouse.engine.workUntilCancelled();
  const taskId = await alter(warehouse);
  await tasks.start();
  await working;
  await tasks.stop(1000);
  assert.equal((await table(warehouse)).state, 'altering');
  warehouse.engine.gate = async () => {};
  const next = await prepared({ place: await warehouse.storeAfterKill(), engine: warehouse.engine });
  await next.warehouse.catalog.recover();
  await next.tasks.start();
  assert.equal((await next.tasks.wait(taskId, deadlineMs(5000)))?.state, 'succeeded');
  await namesWhenSettled(next.warehouse);
  await next.tasks.stop(600);
});

test('if a server dies between the commit and the end of the task, its successor finds the work done', async () => {
  const { warehouse } = await prepared();
  const taskId = await alter(warehouse);
  await warehouse.catalog.runIntent(taskId, { signal: new AbortController().signal });
  await warehouse.catalog.recover();
  const { calls } = warehouse.engine;
  const next = await prepared({ place: await warehouse.storeAfterKill(), engine: warehouse.engine });
  await next.tasks.start();
  const task = await next.tasks.wait(taskId, deadlineMs(5000));
  assert.deepEqual([task?.state, task?.result], ['succeeded', { version: 2 }]);
  assert.equal(warehouse.engine.calls, calls);
  await next.warehouse.catalog.recover();
  assert.equal(warehouse.engine.forgotten.length, 1, 'forgotten once the task ended');
  await namesWhenSettled(next.warehouse);
  await next.tasks.stop(600);
});

test('a task that gives up leaves no altering table: recovery ends the change', async () => {
  const { warehouse, tasks } = await prepared();
  warehouse.engine.fault = () => {
    throw new Error('the engine is dead');
  };
  const taskId = await alter(warehouse);
  await tasks.start();
  assert.equal((await tasks.wait(taskId, deadlineMs(5000)))?.error?.code, 'TASK_ATTEMPTS_EXHAUSTED');
  warehouse.engine.fault = () => {};
  await warehouse.catalog.recover();
  assert.equal((await table(warehouse)).state, 'ready');
  await namesWhenSettled(warehouse);
  await tasks.stop(600);
});
