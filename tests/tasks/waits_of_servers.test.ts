// Tasks of two servers on one store: each learns from the feed of changes that a task of the other ended or is to be cancelled.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { systemActor } from '../../src/model/principal.ts';
import { ChangeFeed } from '../../src/store/changes/change_feed.ts';
import { LeaseHolder } from '../../src/store/leases.ts';
import type { Store } from '../../src/store/store.ts';
import type { TaskKind } from '../../src/tasks/task.ts';
import { Tasks } from '../../src/tasks/tasks.ts';
import { eventually } from '../deadline.ts';
import { storesOf } from '../stores.ts';

const stores = storesOf(import.meta.url);
const cleanUps: (() => Promise<void>)[] = [];
after(async () => {
  for (const cleanUp of cleanUps.reverse()) await cleanUp();
});

/** Longer than any test: only the feed ends a wait in time. */
const longMs = 3_600_000;
const work = { type: 'work', principal: { id: 'root', name: 'root' }, target: '/x', request: {} };

async function newStore(): Promise<Store> {
  const { store } = await stores.open({ isShared: true });
  cleanUps.push(() => store.close());
  return store;
}

/** `runnersMax`: a server without runners only waits. */
async function serverOn(store: Store, serverId: string, runnersMax: number, ...kinds: readonly TaskKind[]) {
  const observe = (observation: { readonly kind: string }) => {
    if (observation.kind === 'backgroundError') assert.fail(JSON.stringify(observation));
  };
  const changes = await ChangeFeed.open({ store, serverId, observe });
  const { promise: end, resolve: endTask } = Promise.withResolvers<void>();
  const kind: TaskKind = {
    type: 'work',
    attemptsMax: 1,
    run: async (_task, { signal }) => {
      const { promise: stopped, reject } = Promise.withResolvers<never>();
      signal.addEventListener('abort', () => reject(signal.reason));
      await Promise.race([end, stopped]);
      return {};
    },
  };
  const holder = new LeaseHolder(serverId);
  const options = { kinds: [kind, ...kinds], runnersMax, retentionDays: 7, holder, heartbeatEveryMs: longMs };
  const tasks = new Tasks({ store, changes, observe, ...options });
  changes.start();
  await tasks.start();
  cleanUps.push(async () => {
    await tasks.stop(600);
    await changes.stop();
  });
  return { changes, tasks, endTask };
}

async function runningTask() {
  const store = await newStore();
  const runner = await serverOn(store, 'runner', 1);
  const other = await serverOn(store, 'other', 0);
  const { taskId } = await runner.tasks.submit(work);
  const isRunning = async () => (await other.tasks.get(taskId))?.state === 'running';
  await eventually('the task runs', isRunning);
  const state = { waited: '' };
  const waiting = other.tasks.wait(taskId, longMs).then((record) => {
    state.waited = record?.state ?? 'none';
  });
  return { store, runner, other, taskId, state, waiting };
}

test('a wait on one server ends when the task ends on the other', async () => {
  const { runner, state, waiting } = await runningTask();
  runner.endTask();
  await eventually('the wait ends', () => state.waited === 'succeeded');
  await waiting;
});

test('a task is cancelled by the server that does not run it', async () => {
  const { other, taskId, state, waiting } = await runningTask();
  assert.equal((await other.tasks.cancel(taskId, { ...systemActor }))?.state, 'cancelling');
  await eventually('the wait ends', () => state.waited === 'cancelled');
  await waiting;
});

test('a wait of a server that lost the feed does not end early, and not late', async () => {
  const { store, runner, other, state, waiting } = await runningTask();
  let reloads = 0;
  other.changes.follow({ changed: () => {}, reload: () => void reloads++ });
  await store.transaction(async (tx) => {
    const gap = { server_id: '', written_at: 0, kind: 'members', notice: '{"kind":"members","roleId":"r"}' };
    const { position } = await tx.insertInto('changes').values(gap).returning('position').executeTakeFirstOrThrow();
    await tx.deleteFrom('changes').where('position', '<', position).execute();
  });
  await eventually('everything is read again', () => reloads > 0);
  assert.equal(state.waited, '');
  runner.endTask();
  await eventually('the wait ends', () => state.waited === 'succeeded');
  await waiting;
});

test('a server leaves tasks of a type that it does not know to one of a later release', async () => {
  const store = await newStore();
  const earlier = await serverOn(store, 'earlier', 1);
  const later = await serverOn(store, 'later', 0, { type: 'later_work', attemptsMax: 1, run: async () => ({}) });
  const { taskId } = await later.tasks.submit({ ...work, type: 'later_work' });
  const known = await earlier.tasks.submit(work);
  // It is behind the other one in the queue.
  await eventually('the known task runs', async () => (await earlier.tasks.get(known.taskId))?.state === 'running');
  assert.equal((await earlier.tasks.get(taskId))?.state, 'pending');
  await later.tasks.stop(600);
  const restarted = await serverOn(store, 'later', 1, { type: 'later_work', attemptsMax: 1, run: async () => ({}) });
  await eventually('it succeeds', async () => (await restarted.tasks.get(taskId))?.state === 'succeeded');
});
