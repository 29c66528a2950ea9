// Several runners on one store: a runner that stops its heartbeat loses its tasks, and its later updates of them have no effect. The
// clock is injected; heartbeats are sent when the test decides.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { systemActor } from '../../src/model/principal.ts';
import { LeaseHolder, leaseMs, ownLeaseMs } from '../../src/store/leases.ts';
import type { Store } from '../../src/store/store.ts';
import { LeaseLost } from '../../src/tasks/leases.ts';
import { Cancelled, RetryableError, type TaskContext, type TaskKind } from '../../src/tasks/task.ts';
import { Tasks } from '../../src/tasks/tasks.ts';
import { deadlineMs, eventually } from '../deadline.ts';
import { storesOf } from '../stores.ts';

const kind = storesOf(import.meta.url);
const openStores: { close: () => Promise<void> }[] = [];
const stores: Store[] = [];
after(async () => {
  for (const store of openStores) await store.close();
  for (const store of stores) await store.close();
});

const beatMs = 5;
/** For a runner that sends no heartbeat: longer than any test. */
const silent = 3_600_000;
const soonMs = deadlineMs(5000);
let servers = 0;

async function newStore(): Promise<Store> {
  const { store } = await kind.open();
  stores.push(store);
  return store;
}

interface Clock {
  now: number;
}

interface RunnerOptions {
  readonly attemptsMax?: number;
  readonly isDecided?: boolean | Promise<boolean> | (() => boolean | Promise<boolean>);
  /** How many of its first attempts fail. */
  readonly fails?: number;
  readonly runnersMax?: number;
  readonly stopping?: Promise<void>;
  /** See `TaskKind`. */
  readonly writesFiles?: boolean;
  readonly serverId?: string | undefined;
}

/** A store whose commit of the next start of a task is done and not answered. */
function withLostAnswers(store: Store, loses: { commit: boolean }): Store {
  const transaction: Store['transaction'] = async (work) => {
    const result = await store.transaction(work);
    const running = await store.db.selectFrom('tasks').select('task_id').where('state', '=', 'running').execute();
    if (!loses.commit || running.length === 0) return result;
    loses.commit = false;
    throw new Error('the connection is lost');
  };
  return new Proxy(store, {
    get: (target, key) => (key === 'transaction' ? transaction : Reflect.get(target, key, target)),
  });
}

/** A store that answers no transaction while it is cut off. */
function withCut(store: Store, cut: { until: Promise<void> }): Store {
  const transaction: Store['transaction'] = (work) => cut.until.then(() => store.transaction(work));
  return new Proxy(store, {
    get: (target, key) => (key === 'transaction' ? transaction : Reflect.get(target, key, target)),
  });
}

/** A store that answers no query outside of transactions while it is slow. */
function withSlowReads(store: Store, slow: { until: Promise<void> }): Store {
  const transformResult = async <R>({ result }: { readonly result: R }) => slow.until.then(() => result);
  const db = store.db.withPlugin({ transformQuery: ({ node }) => node, transformResult });
  return new Proxy(store, { get: (target, key) => (key === 'db' ? db : Reflect.get(target, key, target)) });
}

/** A runner whose tasks end when `ends` is called, or when they are aborted; then when `stopping` has resolved. */
async function runner(store: Store, clock: Clock, heartbeatEveryMs: number, options: RunnerOptions = {}) {
  const { attemptsMax = 3, runnersMax = 1, stopping = Promise.resolve(), fails = 0, writesFiles = false } = options;
  const startOrder: string[] = [];
  const observed: unknown[] = [];
  const { promise: end, resolve: ends } = Promise.withResolvers<string>();
  const kind: TaskKind = {
    type: 'work',
    attemptsMax,
    writesFiles,
    isDecided: async () => {
      const { isDecided = false } = options;
      return typeof isDecided === 'function' ? isDecided() : isDecided;
    },
    run: async (task, { signal, progress }: TaskContext) => {
      startOrder.push(task.taskId);
      if (startOrder.length <= fails) throw new RetryableError('it failed');
      progress(0.5, 'half');
      const { promise: stopped, reject } = Promise.withResolvers<never>();
      signal.addEventListener('abort', () => {
        observed.push(signal.reason);
        void stopping.then(() => reject(signal.reason));
      });
      return { by: await Promise.race([end, stopped]) };
    },
  };
  const holder = new LeaseHolder(options.serverId ?? `server-${++servers}`);
  const settings = { runnersMax, retentionDays: 7, retryPauseMs: 1, holder, heartbeatEveryMs };
  const tasks = new Tasks({ store, kinds: [kind], clock: () => clock.now, ...settings });
  openStores.push({ close: () => tasks.stop(600) });
  await tasks.start();
  return { tasks, startOrder, observed, ends };
}

const untilTrue = (condition: () => boolean | Promise<boolean>, description: string) =>
  eventually(description, condition);

const work = (n = 1) => ({ type: 'work', principal: { id: 'root', name: 'root' }, target: '/x', request: { n } });
const row = (store: Store, taskId: string) =>
  store.db.selectFrom('tasks').selectAll().where('task_id', '=', taskId).executeTakeFirstOrThrow();

test('a runner with a heartbeat keeps its task, however long that takes', async () => {
  const store = await newStore();
  const clock = { now: Date.now() };
  const firstRunner = await runner(store, clock, beatMs);
  const { taskId } = await firstRunner.tasks.submit(work());
  await untilTrue(() => firstRunner.startOrder.length === 1, 'it begins');
  const other = await runner(store, clock, beatMs);
  for (let i = 0; i < 10; i++) {
    const { lease_until } = await row(store, taskId);
    clock.now += leaseMs / 2;
    await untilTrue(
      async () => ((await row(store, taskId)).lease_until ?? 0) > (lease_until ?? 0),
      'the lease is renewed',
    );
  }
  assert.deepEqual(other.startOrder, []);
  firstRunner.ends('one');
  assert.deepEqual((await firstRunner.tasks.wait(taskId, soonMs))?.result, { by: 'one' });
  const { leased_by, lease_until, attempt } = await row(store, taskId);
  assert.deepEqual({ leased_by, lease_until, attempt }, { leased_by: null, lease_until: null, attempt: 1 });
});

test('one without a heartbeat loses it; its late end, its progress and its stop change nothing', async () => {
  const store = await newStore();
  const clock = { now: Date.now() };
  const deadRunner = await runner(store, clock, silent);
  const { taskId } = await deadRunner.tasks.submit(work());
  await untilTrue(() => deadRunner.startOrder.length === 1, 'it begins');
  const other = await runner(store, clock, beatMs);
  await pause(beatMs * 4);
  assert.deepEqual(other.startOrder, [], 'not while the lease lasts');
  clock.now += leaseMs + 1;
  await untilTrue(() => other.startOrder.length === 1, 'it is taken over');
  const before = await row(store, taskId);
  assert.deepEqual([before.state, before.attempt], ['running', 2]);
  deadRunner.ends('dead');
  await pause(beatMs * 4);
  await deadRunner.tasks.stop(600);
  assert.deepEqual((await row(store, taskId)).leased_by, before.leased_by);
  assert.equal((await row(store, taskId)).state, 'running');
  other.ends('other');
  assert.deepEqual((await other.tasks.wait(taskId, soonMs))?.result, { by: 'other' });
});

test('one whose task another runner has taken over is notified', async () => {
  const store = await newStore();
  const firstRunner = await runner(store, { now: Date.now() }, beatMs);
  const { taskId } = await firstRunner.tasks.submit(work());
  await untilTrue(() => firstRunner.startOrder.length === 1, 'it begins');
  await store.db.updateTable('tasks').set({ leased_by: 'another' }).where('task_id', '=', taskId).execute();
  await untilTrue(() => firstRunner.observed.length === 1, 'its work is aborted');
  assert.ok(firstRunner.observed[0] instanceof LeaseLost);
  const { state, leased_by } = await row(store, taskId);
  assert.deepEqual([state, leased_by], ['running', 'another']);
});

test('what writes files ends when its lease has lapsed; what no other runner does, or does once, continues', async () => {
  const clock = { now: Date.now() };
  async function cutOff(options: RunnerOptions, owner: string | null = null, everyMs = beatMs) {
    const store = await newStore();
    const cut = { until: Promise.resolve() };
    const submitter = await runner(store, clock, silent, { runnersMax: 0 });
    const { taskId } = await submitter.tasks.submit(work());
    await store.db.updateTable('tasks').set({ server_id: owner }).execute();
    const serverId = owner ?? undefined;
    const cutRunner = await runner(withCut(store, cut), clock, everyMs, {
      attemptsMax: 2,
      serverId,
      writesFiles: true,
      ...options,
    });
    await untilTrue(() => cutRunner.startOrder.length === 1, 'it begins');
    const { promise, resolve: reconnect } = Promise.withResolvers<void>();
    openStores.unshift({ close: async () => reconnect() });
    return { store, cutRunner, taskId, cut: () => (cut.until = promise), reconnect };
  }
  /** One whose task another runner takes over, and one that has no other. */
  const taken = await cutOff({});
  const alone = await cutOff({});
  const continued = [await cutOff({ writesFiles: false }), await cutOff({}, 'owner')];
  const stalled = await cutOff({}, null, 1000);
  for (const { cut } of [taken, alone, ...continued]) cut();
  // As if the machine had been suspended.
  clock.now += ownLeaseMs + 1;
  for (const { cutRunner } of [taken, alone]) {
    await untilTrue(() => cutRunner.observed.length === 1, 'its work is aborted');
    assert.ok(cutRunner.observed[0] instanceof LeaseLost);
  }
  const renewed = clock.now + leaseMs;
  await untilTrue(async () => (await row(stalled.store, stalled.taskId)).lease_until === renewed, 'it renews first');
  for (const { cutRunner, reconnect, taskId } of [stalled, ...continued]) {
    assert.deepEqual(cutRunner.observed, []);
    reconnect();
    cutRunner.ends('first');
    assert.deepEqual((await cutRunner.tasks.wait(taskId, soonMs))?.result, { by: 'first' });
  }
  const other = await runner(taken.store, clock, beatMs);
  clock.now += leaseMs + 1;
  await untilTrue(() => other.startOrder.length === 1, 'it is taken over');
  taken.reconnect();
  other.ends('other');
  assert.deepEqual((await other.tasks.wait(taken.taskId, soonMs))?.result, { by: 'other' });
  assert.equal(taken.cutRunner.startOrder.length, 1);

  alone.reconnect();
  await untilTrue(() => alone.cutRunner.startOrder.length === 2, 'it begins again');
  assert.equal((await row(alone.store, alone.taskId)).attempt, 1, 'no attempt is lost');
  alone.cutRunner.ends('again');
  assert.deepEqual((await alone.cutRunner.tasks.wait(alone.taskId, soonMs))?.result, { by: 'again' });
});

test('a runner renews its leases however long it takes over the tasks of others', async () => {
  const store = await newStore();
  const clock = { now: Date.now() };
  const slow = { until: Promise.resolve() };
  const only = await runner(withSlowReads(store, slow), clock, beatMs);
  const { taskId } = await only.tasks.submit(work());
  await untilTrue(() => only.startOrder.length === 1, 'it begins');
  const { promise, resolve: answer } = Promise.withResolvers<void>();
  slow.until = promise;
  for (let n = 0; n < 3; n++) {
    clock.now += leaseMs / 2;
    const expectedEnd = clock.now + leaseMs;
    await untilTrue(async () => (await row(store, taskId)).lease_until === expectedEnd, 'the lease follows');
  }
  answer();
  only.ends('only');
  assert.deepEqual((await only.tasks.wait(taskId, soonMs))?.result, { by: 'only' });
});

test('a start whose commit was not answered is found when its lease has expired, by the same runner too', async () => {
  const store = await newStore();
  const clock = { now: Date.now() };
  const loses = { commit: true };
  const only = await runner(withLostAnswers(store, loses), clock, beatMs);
  const { taskId } = await only.tasks.submit(work());
  await untilTrue(async () => (await row(store, taskId)).state === 'running', 'it is committed');
  await pause(beatMs * 4);
  assert.deepEqual(only.startOrder, [], 'nobody runs it');
  clock.now += leaseMs + 1;
  await untilTrue(() => only.startOrder.length === 1, 'it is taken over');
  only.ends('later');
  assert.deepEqual((await only.tasks.wait(taskId, soonMs))?.result, { by: 'later' });
  assert.equal((await row(store, taskId)).attempt, 2);
});

test('a runner does not start a task again while its lost run still ends', async () => {
  const store = await newStore();
  const { promise: stopping, resolve: stop } = Promise.withResolvers<void>();
  const firstRunner = await runner(store, { now: Date.now() }, beatMs, { runnersMax: 2, stopping });
  const { taskId } = await firstRunner.tasks.submit(work());
  await untilTrue(() => firstRunner.startOrder.length === 1, 'it begins');
  const lost = { state: 'running', leased_by: 'another' } as const;
  await store.db.updateTable('tasks').set(lost).where('task_id', '=', taskId).execute();
  await untilTrue(() => firstRunner.observed.length === 1, 'its work is aborted');
  const queued = { state: 'pending', leased_by: null, lease_until: null, place: 1 } as const;
  await store.db.updateTable('tasks').set(queued).where('task_id', '=', taskId).execute();
  await pause(beatMs * 10);
  firstRunner.tasks.notify();
  await pause(beatMs * 10);
  assert.equal(firstRunner.startOrder.length, 1, 'it still runs');
  stop();
  await untilTrue(() => firstRunner.startOrder.length === 2, 'it begins again');
  firstRunner.ends('again');
  assert.deepEqual((await firstRunner.tasks.wait(taskId, soonMs))?.result, { by: 'again' });
});

test('a task that is cancelled through one runner stops at the other', async () => {
  const store = await newStore();
  const clock = { now: Date.now() };
  const firstRunner = await runner(store, clock, beatMs);
  const { taskId } = await firstRunner.tasks.submit(work());
  await untilTrue(() => firstRunner.startOrder.length === 1, 'it begins');
  const other = await runner(store, clock, silent);
  await other.tasks.cancel(taskId, { id: 'root', name: 'root', action: 'tasks.cancel' });
  await untilTrue(() => firstRunner.observed.length === 1, 'its work is aborted');
  assert.ok(firstRunner.observed[0] instanceof Cancelled);
  assert.equal((await firstRunner.tasks.wait(taskId, soonMs))?.state, 'cancelled');
});

test('a cancelled task whose runner is lost ends; out of attempts it fails', async () => {
  const store = await newStore();
  const clock = { now: Date.now() };
  const deadRunners = [
    await runner(store, clock, silent, { attemptsMax: 1 }),
    await runner(store, clock, silent, { attemptsMax: 1 }),
  ];
  const all = [await deadRunners[0]?.tasks.submit(work(1)), await deadRunners[0]?.tasks.submit(work(2))].map(
    (t) => t?.taskId ?? '',
  );
  await untilTrue(() => (deadRunners[0]?.startOrder.length ?? 0) === 1, 'the first begins');
  deadRunners[1]?.tasks.notify();
  await untilTrue(() => (deadRunners[1]?.startOrder.length ?? 0) === 1, 'the second begins');
  // Like a third server: the runners are not notified.
  await store.db
    .updateTable('tasks')
    .set({ state: 'cancelling' })
    .where('task_id', '=', all[0] ?? '')
    .execute();
  clock.now += leaseMs + 1;
  const { tasks, startOrder } = await runner(store, clock, beatMs, { attemptsMax: 1 });
  assert.equal((await tasks.wait(all[0] ?? '', soonMs))?.state, 'cancelled');
  const second = await tasks.wait(all[1] ?? '', soonMs);
  assert.deepEqual([second?.state, second?.error?.code], ['failed', 'TASK_ATTEMPTS_EXHAUSTED']);
  assert.deepEqual(startOrder, []);
});

test('a task whose work counts already is not cancelled: after a crash, while it waits, and when it stops', async () => {
  const actor = { id: 'root', name: 'root', action: 'tasks.cancel' };
  const store = await newStore();
  const clock = { now: Date.now() };
  const deadRunner = await runner(store, clock, silent, { attemptsMax: 9, isDecided: true });
  const { taskId } = await deadRunner.tasks.submit(work());
  await untilTrue(() => deadRunner.startOrder.length === 1, 'it begins');
  // Like another server: the runner is not notified.
  await store.db.updateTable('tasks').set({ state: 'cancelling' }).where('task_id', '=', taskId).execute();
  clock.now += leaseMs + 1;
  const other = await runner(store, clock, beatMs, { attemptsMax: 9, isDecided: true });
  await untilTrue(() => other.startOrder.length === 1, 'it is taken over');
  await other.tasks.cancel(taskId, actor);
  await untilTrue(async () => (await row(store, taskId)).state === 'pending', 'it waits');
  clock.now += 1000;
  await untilTrue(() => other.startOrder.length === 2, 'it continues');
  await other.tasks.stop(600);
  assert.deepEqual((await row(store, taskId)).state, 'pending');
  assert.deepEqual((await other.tasks.cancel(taskId, actor))?.state, 'pending');
  const last = await runner(store, clock, beatMs, { attemptsMax: 9, isDecided: true });
  await untilTrue(() => last.startOrder.length === 1, 'it continues');
  last.ends('last');
  const ended = await last.tasks.wait(taskId, soonMs);
  assert.deepEqual([ended?.state, ended?.result], ['succeeded', { by: 'last' }]);
});

test('a task whose work counts already is tried again after its last attempt', async () => {
  const store = await newStore();
  const clock = { now: Date.now() };
  const only = await runner(store, clock, beatMs, { attemptsMax: 1, isDecided: true, fails: 2 });
  const { taskId } = await only.tasks.submit(work());
  await untilTrue(() => {
    clock.now += 10;
    only.tasks.notify();
    return only.startOrder.length === 3;
  }, 'it is tried again');
  only.ends('late');
  assert.deepEqual((await only.tasks.wait(taskId, soonMs))?.result, { by: 'late' });
});

test('whether the work of a lost task counts is asked without keeping others waiting', async () => {
  const store = await newStore();
  const clock = { now: Date.now() };
  const dead = await runner(store, clock, silent);
  const lost = await dead.tasks.submit(work());
  await untilTrue(() => dead.startOrder.length === 1, 'it begins');
  await store.db.updateTable('tasks').set({ state: 'cancelling' }).where('task_id', '=', lost.taskId).execute();
  clock.now += leaseMs + 1;
  const { promise: decided, resolve: decide } = Promise.withResolvers<boolean>();
  const other = await runner(store, clock, beatMs, { isDecided: decided });
  const { taskId } = await other.tasks.submit(work(2));
  await untilTrue(() => other.startOrder.includes(taskId), 'another task begins');
  decide(false);
  assert.equal((await other.tasks.wait(lost.taskId, soonMs))?.state, 'cancelled');
  other.ends('other');
});

test('a task of which is not known whether its work counts keeps no runner, and ends when that is known', async () => {
  const store = await newStore();
  const clock = { now: Date.now() };
  const known = { isDecided: (): boolean | Promise<boolean> => Promise.reject(new Error('the cluster is away')) };
  const only = await runner(store, clock, beatMs, known);
  const { taskId } = await only.tasks.submit(work());
  await untilTrue(() => only.startOrder.length === 1, 'it begins');
  await only.tasks.cancel(taskId, { ...systemActor, action: 'test' });
  await untilTrue(async () => (await row(store, taskId)).leased_by === null, 'it has no runner');
  assert.equal((await row(store, taskId)).state, 'cancelling');
  const next = await only.tasks.submit(work(2));
  await untilTrue(() => only.startOrder.includes(next.taskId), 'another task begins');
  known.isDecided = () => false;
  const other = await runner(store, clock, beatMs, known);
  assert.equal((await other.tasks.wait(taskId, soonMs))?.state, 'cancelled');
  only.ends('next');
});

test('a clock change takes nothing from a live runner', async () => {
  const store = await newStore();
  const clock = { now: Date.now() };
  const firstRunner = await runner(store, clock, beatMs);
  const { taskId } = await firstRunner.tasks.submit(work());
  await untilTrue(() => firstRunner.startOrder.length === 1, 'it begins');
  for (const jumpMs of [86_400_000, -2 * 86_400_000]) {
    clock.now += jumpMs;
    const expectedEnd = clock.now + leaseMs;
    await untilTrue(async () => (await row(store, taskId)).lease_until === expectedEnd, 'the lease follows');
  }
  firstRunner.ends('one');
  const endedTask = await firstRunner.tasks.wait(taskId, soonMs);
  assert.deepEqual([endedTask?.state, endedTask?.attempt], ['succeeded', 1]);
});
