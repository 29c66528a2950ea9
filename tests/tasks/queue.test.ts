// The order in which tasks start: priorities, owners in turn, no starvation, tasks after other tasks; found by indexes in a queue of ten
// thousand, and the same after a restart.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { sql } from 'kysely';
import { Failure } from '../../src/standard/failure.ts';
import { isPaused, isQueued, isRunning } from '../../src/store/index_conditions.ts';
import { headsOfOwners } from '../../src/tasks/heads_of_owners.ts';
import { outcomeOf } from '../../src/tasks/outcome.ts';
import { longestWaitingEvery, TaskQueue } from '../../src/tasks/queue.ts';
import {
  type Priority,
  RetryableError,
  type TaskKind,
  type TaskRecord,
  type TaskRequest,
} from '../../src/tasks/task.ts';
import { moveTask } from '../../src/tasks/task_rows.ts';
import { Tasks, type TasksOptions } from '../../src/tasks/tasks.ts';
import { deadlineMs, eventually } from '../deadline.ts';
import { storesOf } from '../stores.ts';

const stores = storesOf(import.meta.url);
const closing: (() => Promise<void>)[] = [];
after(async () => {
  for (const close of closing) await close();
});
const submitter = { id: 'root', name: 'root' };

const work = (owner = 'root', more: Partial<TaskRequest> = {}): TaskRequest => ({
  type: 'work',
  principal: { id: owner, name: owner },
  target: '/api/v2/x',
  request: null,
  ...more,
});

async function prepared(run: NonNullable<TaskKind['run']>, options: Partial<TasksOptions> & { place?: string } = {}) {
  const { place: existing, ...rest } = options;
  const { store, place } = await stores.open({ place: existing });
  const kinds = [{ type: 'work', attemptsMax: 3, run }];
  const tasks = new Tasks({ store, kinds, runnersMax: 1, retentionDays: 7, retryPauseMs: 2, ...rest });
  let isOpen = true;
  const close = async () => {
    if (!isOpen) return;
    isOpen = false;
    await tasks.stop(600);
    await store.close();
  };
  closing.push(close);
  return { store, tasks, place, close };
}

/** Submits all tasks before the first starts. Returns their requests in the order in which they started. */
async function startOrder(requests: readonly TaskRequest[], runnersMax = 1): Promise<string[]> {
  const order: string[] = [];
  const { tasks, close } = await prepared(async (task) => void order.push(String(task.request)), { runnersMax });
  const all: TaskRecord[] = [];
  for (const request of requests) all.push(await tasks.submit(request));
  await tasks.start();
  for (const task of all) assert.equal((await tasks.wait(task.taskId, deadlineMs(5000)))?.state, 'succeeded');
  await close();
  return order;
}

test('high before normal before low, each in the order of submission', async () => {
  const submitNamed = (priority: Priority | undefined, name: string) => work('root', { priority, request: name });
  const order = await startOrder([
    submitNamed('low', 'low 1'),
    submitNamed(undefined, 'normal 1'),
    submitNamed('high', 'high 1'),
    submitNamed('normal', 'normal 2'),
    submitNamed('high', 'high 2'),
  ]);
  assert.deepEqual(order, ['high 1', 'high 2', 'normal 1', 'normal 2', 'low 1']);
});

test('owners take turns: an owner of many tasks does not delay others', async () => {
  const manyTasks = Array.from({ length: 100 }, (_, i) => work('many', { request: `many ${i}` }));
  const order = await startOrder([
    ...manyTasks.slice(0, 60),
    work('few', { request: 'few 0' }),
    work('few', { request: 'few 1' }),
    work('one', { request: 'one 0' }),
    ...manyTasks.slice(60),
  ]);
  const firsts = ['few 0', 'one 0', 'few 1'].map((name) => order.indexOf(name));
  assert(
    firsts.every((position) => position < 8),
    `started at positions ${firsts}`,
  );
  assert.deepEqual(
    order.filter((name) => name.startsWith('many')),
    manyTasks.map(({ request }) => request),
  );
});

test('a new owner is queued beside the next tasks of the others, not before waiting ones', async () => {
  const { tasks, store } = await prepared(async () => undefined);
  const queue = new TaskQueue(store, Date.now, moveTask, () => ['work']);
  const startNext = async (): Promise<string> => {
    const row = await queue.next(new Set());
    assert(row);
    await store.transaction((tx) => moveTask(tx, row.task_id, ['pending'], { state: 'running', place: null }));
    return row.owner;
  };
  for (let i = 0; i < 30; i++) await tasks.submit(work('many'));
  for (let i = 0; i < 10; i++) await startNext();
  for (let i = 0; i < 5; i++) await tasks.submit(work('late'));
  const order: string[] = [];
  for (let i = 0; i < 12; i++) order.push(await startNext());
  const waitedFor = order.flatMap((name, position) => (name === 'late' ? [position] : []));
  assert.deepEqual(waitedFor, [1, 3, 5, 7, 9]);
});

test('nothing starves: one of eight started tasks is the longest-waiting one', async () => {
  const high = Array.from({ length: 40 }, () => work('root', { priority: 'high', request: 'high' }));
  const low = Array.from({ length: 3 }, (_, i) => work('root', { priority: 'low', request: `low ${i}` }));
  const order = await startOrder([...low, ...high]);
  const positions = low.map(({ request }) => order.indexOf(String(request)));
  assert.deepEqual(
    positions,
    [1, 2, 3].map((n) => n * longestWaitingEvery - 1),
  );
});

/** Tasks that run until they are released; `running` has the requests of those that have started and not ended. */
async function heldTasks(runnersMax: number, options: Parameters<typeof prepared>[1] = {}) {
  const running = new Map<string, () => void>();
  const { tasks, ...rest } = await prepared(
    async ({ request }) => {
      const { promise, resolve } = Promise.withResolvers<void>();
      running.set(String(request), resolve);
      await promise;
      running.delete(String(request));
    },
    { runnersMax, ...options },
  );
  const submit = (owner: string, request: string, more: Partial<TaskRequest> = {}) =>
    tasks.submit(work(owner, { request, ...more }));
  const untilRunning = (...requests: string[]) =>
    eventually(`running: ${requests}`, () => requests.every((request) => running.has(request)));
  const end = async ({ taskId, request }: TaskRecord) => {
    running.get(String(request))?.();
    assert.equal((await tasks.wait(taskId, deadlineMs(5000)))?.state, 'succeeded');
  };
  return { tasks, running, submit, untilRunning, end, ...rest };
}

const namesOf = (running: ReadonlyMap<string, unknown>) => [...running.keys()].toSorted();

test('an owner whose tasks have all runners does not delay others: each of them has a runner at once', async () => {
  const { tasks, running, submit, untilRunning, end } = await heldTasks(2);
  await tasks.start();
  const many = [];
  for (let i = 0; i < 4; i++) many.push(await submit('many', `many ${i}`, { priority: 'high' }));
  await untilRunning('many 0', 'many 1');
  const few = await submit('few', 'few 0', { priority: 'low' });
  await untilRunning('few 0');
  const next = await submit('few', 'few 1', { priority: 'high' });
  const other = await submit('other', 'other 0');
  await untilRunning('other 0');
  await submit('last', 'last 0');
  assert.deepEqual(namesOf(running), ['few 0', 'many 0', 'many 1', 'other 0'], 'as many again, and no more');
  // A runner that is freed is for who has none, not for the next task of who has one.
  await end(many[0] as TaskRecord);
  await untilRunning('last 0');
  assert.deepEqual(namesOf(running), ['few 0', 'last 0', 'many 1', 'other 0']);
  await end(other);
  await end(many[1] as TaskRecord);
  // No task of this owner runs any more.
  await untilRunning('many 2');
  assert.deepEqual(namesOf(running), ['few 0', 'last 0', 'many 2']);
  for (const release of running.values()) release();
  await untilRunning('few 1', 'many 3');
  running.get('many 3')?.();
  await end(next);
  assert.equal((await tasks.get(few.taskId))?.state, 'succeeded');
});

test('of owners without a runner, too, the longest-waiting task is one of eight', async () => {
  const { tasks, running, submit, untilRunning, end } = await heldTasks(1);
  const blocker = await submit('many', 'blocker', { priority: 'high' });
  await tasks.start();
  await untilRunning('blocker');
  const low = await submit('few', 'low', { priority: 'low' });
  const high: TaskRecord[] = [];
  for (let i = 0; i < 2 * longestWaitingEvery; i++) high.push(await submit(`owner ${i}`, `${i}`, { priority: 'high' }));
  let startedBefore = 0;
  for (const task of high) {
    await eventually('next', () => running.size === 2);
    if (running.has('low')) break;
    startedBefore++;
    await end(task);
  }
  await untilRunning('low');
  assert(startedBefore <= longestWaitingEvery, `${startedBefore} tasks before`);
  await end(low);
  await end(blocker);
  for (const task of high.slice(startedBefore)) {
    await untilRunning(String(task.request));
    await end(task);
  }
});

test('the tasks that a server may not run take no runner of it, also not as the first of their owner', async () => {
  const { tasks, running, submit, untilRunning, end, store } = await heldTasks(1);
  const elsewhere = await submit('few', 'elsewhere', { priority: 'high' });
  await store.db.updateTable('tasks').set({ server_id: 'other' }).where('task_id', '=', elsewhere.taskId).execute();
  const long = await submit('many', 'long');
  await tasks.start();
  await untilRunning('long');
  const here = await submit('few', 'here', { priority: 'low' });
  await untilRunning('here');
  assert.deepEqual(namesOf(running), ['here', 'long']);
  await end(long);
  await end(here);
});

test('a task with dependencies begins when all have succeeded, and not before', async () => {
  const order: string[] = [];
  const { tasks } = await prepared(async (task) => void order.push(String(task.request)), { runnersMax: 4 });
  const a = await tasks.submit(work('root', { request: 'a', priority: 'low' }));
  const b = await tasks.submit(work('root', { request: 'b', priority: 'low' }));
  const after = [a.taskId, b.taskId, a.taskId];
  const c = await tasks.submit(work('root', { request: 'c', priority: 'high', after }));
  const d = await tasks.submit(work('root', { request: 'd', after: [c.taskId, a.taskId] }));
  assert.deepEqual([c.after, c.state], [[a.taskId, b.taskId], 'pending']);
  await tasks.start();
  assert.equal((await tasks.wait(d.taskId, deadlineMs(5000)))?.state, 'succeeded');
  assert.deepEqual([order.slice(0, 2).toSorted(), ...order.slice(2)], [['a', 'b'], 'c', 'd']);
  const lateTask = await tasks.submit(work('root', { request: 'e', after: [a.taskId] }));
  assert.equal(
    (await tasks.wait(lateTask.taskId, deadlineMs(5000)))?.state,
    'succeeded',
    'after what has succeeded already',
  );
  await assert.rejects(tasks.submit(work('root', { after: ['none'] })), { code: 'INVALID_PARAMETER' });
});

for (const [how, end] of [
  ['failed', async () => {}],
  ['cancelled', async (tasks: Tasks, taskId: string) => void (await tasks.cancel(taskId, submitter))],
  ['removed', async (tasks: Tasks, taskId: string) => void (await tasks.remove(taskId, submitter))],
] as const)
  test(`a task that depends on one that was ${how} fails, and so do those that depend on it`, async () => {
    const { tasks } = await prepared(async () => {
      throw new Failure('CONSTRAINT_VIOLATED', 'no');
    });
    const first = await tasks.submit(work());
    const second = await tasks.submit(work('root', { after: [first.taskId] }));
    const third = await tasks.submit(work('root', { after: [second.taskId] }));
    await end(tasks, first.taskId);
    await tasks.start();
    const ends = [await tasks.wait(second.taskId, deadlineMs(5000)), await tasks.wait(third.taskId, deadlineMs(5000))];
    assert.deepEqual(
      ends.map((task) => [task?.state, task?.error?.code, task?.attempt]),
      [0, 1].map(() => ['failed', 'TASK_DEPENDENCY_FAILED', 0]),
    );
    assert.deepEqual(ends[0]?.error?.result, {
      taskId: first.taskId,
      state: how === 'failed' ? 'failed' : 'cancelled',
    });
    if (how === 'removed') return;
    const lateTask = await tasks.submit(work('root', { after: [first.taskId] }));
    assert.equal(
      (await tasks.wait(lateTask.taskId, deadlineMs(5000)))?.error?.code,
      'TASK_DEPENDENCY_FAILED',
      'it had failed already',
    );
  });

test('more tasks depend on one than are updated in one transaction', async () => {
  let ran = 0;
  const { tasks } = await prepared(async () => void ran++);
  const first = await tasks.submit(work());
  const all = await Promise.all(
    Array.from({ length: 350 }, () => tasks.submit(work('root', { after: [first.taskId] }))),
  );
  await tasks.start();
  for (const { taskId } of all) assert.equal((await tasks.wait(taskId, deadlineMs(30_000)))?.state, 'succeeded');
  assert.equal(ran, 351);
});

test('a task that waits for others can be cancelled, and stays cancelled when they end', async () => {
  const { tasks } = await prepared(async () => 'done');
  const first = await tasks.submit(work());
  const second = await tasks.submit(work('root', { after: [first.taskId] }));
  assert.equal((await tasks.cancel(second.taskId, submitter))?.state, 'cancelled');
  await tasks.start();
  assert.equal((await tasks.wait(first.taskId, deadlineMs(5000)))?.state, 'succeeded');
  assert.deepEqual(
    [(await tasks.get(second.taskId))?.state, (await tasks.get(second.taskId))?.attempt],
    ['cancelled', 0],
  );
});

test('a task that pauses between attempts can be cancelled', async () => {
  const { tasks } = await prepared(
    async () => {
      throw new RetryableError('later', { retryAfterMs: 60_000 });
    },
    { runnersMax: 2 },
  );
  await tasks.start();
  const task = await tasks.submit(work());
  const state = async () => (await tasks.get(task.taskId))?.progressText;
  while ((await state()) === null) await new Promise((resolve) => setTimeout(resolve, 1));
  assert.equal(await state(), 'attempt 1: later');
  assert.equal((await tasks.cancel(task.taskId, submitter))?.state, 'cancelled');
});

test('the queue is the same after a restart', async () => {
  const first = await prepared(async () => undefined);
  const a = await first.tasks.submit(work('one', { request: 'a' }));
  for (const name of ['b', 'c']) await first.tasks.submit(work('one', { request: name }));
  await first.tasks.submit(work('one', { request: 'd', priority: 'high' }));
  const e = await first.tasks.submit(work('one', { request: 'e', after: [a.taskId] }));
  await first.tasks.submit(work('one', { request: 'f' }));
  await first.close();
  const order: string[] = [];
  const second = await prepared(async (task) => void order.push(String(task.request)), { place: first.place });
  await second.tasks.start();
  await second.tasks.wait(e.taskId, deadlineMs(5000));
  assert.deepEqual(order, ['d', 'a', 'b', 'c', 'f', 'e']);
});

test('delays grow, are jittered, and are no shorter than requested', () => {
  const task = { attempt: 3 } as TaskRecord;
  const kind = { type: 'work', attemptsMax: 9, run: async () => {} };
  const pauseOf = (error: unknown, attempt: number, jitter: number) => {
    const outcome = outcomeOf({ ok: false, error }, undefined, { ...task, attempt }, kind, {
      pauseMs: 1000,
      jitter,
      enginesEnded: 0,
    });
    return outcome.kind === 'retry' ? outcome.pauseMs : undefined;
  };
  const soon = new RetryableError('soon');
  assert.deepEqual(
    [1, 2, 3].map((attempt) => [0, 1].map((jitter) => pauseOf(soon, attempt, jitter))),
    [
      [500, 1000],
      [1000, 2000],
      [2000, 4000],
    ],
  );
  assert.equal(pauseOf(soon, 8, 1), 60_000, 'a minute at most');
  const retryable = new RetryableError('asked', { retryAfterMs: 90_000 });
  assert.deepEqual(
    [0, 1].map((jitter) => pauseOf(retryable, 1, jitter)),
    [90_000, 112_500],
  );
  assert.equal(pauseOf(new Failure('CONSTRAINT_VIOLATED', 'no'), 1, 1), undefined);
});

test('progress as amounts, with the estimated end', async () => {
  let now = 1_000_000;
  const gate = Promise.withResolvers<void>();
  const { tasks } = await prepared(
    async (_, { progress }) => {
      progress({ done: 0, total: 400, unit: 'rows' });
      now += 10_000;
      progress({ done: 100, total: 400, unit: 'rows' });
      await gate.promise;
      progress({ done: 7, total: null, unit: 'files' });
    },
    { clock: () => now },
  );
  await tasks.start();
  const task = await tasks.submit(work());
  const taskRecord = async () => (await tasks.get(task.taskId)) as TaskRecord;
  while ((await taskRecord()).progress === null) await new Promise((resolve) => setTimeout(resolve, 1));
  const { progress, progressText, expectedEndAt } = await taskRecord();
  assert.deepEqual([progress, progressText], [0.25, '100 of 400 rows']);
  assert.equal(Date.parse(expectedEndAt as string), now + 30_000);
  gate.resolve();
  const endedTask = await tasks.wait(task.taskId, deadlineMs(5000));
  assert.deepEqual([endedTask?.progress, endedTask?.progressText, endedTask?.expectedEndAt], [1, '7 files', null]);
});

// The plans are SQLite's, and how much is in memory does not depend on the store.
if (stores.name === 'SQLite')
  test('ten thousand queued tasks: each query uses an index, and none of the tasks is held in memory', async () => {
    const { store, tasks } = await prepared(async () => undefined);
    const insert = async (from: number) => {
      for (let i = from; i < from + 5000; i += 100)
        await Promise.all(
          Array.from({ length: 100 }, (_, n) => tasks.submit(work(`owner ${n % 7}`, { request: 'x'.repeat(500) }))),
        );
    };
    const heapBytes = () => {
      globalThis.gc?.();
      return process.memoryUsage().heapUsed;
    };
    await insert(0);
    const before = heapBytes();
    await insert(5000);
    // The requests alone would be 2.5 MB if they were held in memory.
    if (globalThis.gc) assert(heapBytes() - before < 1_500_000, `${heapBytes() - before} bytes`);
    const plans = [
      sql`select * from tasks where ${isQueued} order by priority, place, task_id limit 1`,
      sql`select * from tasks where ${isQueued} order by task_id limit 1`,
      sql`select place from tasks where priority = 1 and ${isQueued} order by place limit 1`,
      sql`select place from tasks where owner = 'a' and priority = 1 and ${isQueued} order by place desc limit 1`,
      sql`select not_before from tasks where ${isPaused} order by not_before limit 1`,
      sql`select * from tasks where ${isRunning}`,
    ];
    const heads = headsOfOwners(store.db, isQueued, (queued) => queued.orderBy('priority').orderBy('place'));
    for (const plan of [...plans, heads.where('owners.owner', 'not in', ['a', 'b'])]) {
      const compiled = plan.compile(store.db);
      const explained = { ...compiled, sql: `explain query plan ${compiled.sql}` };
      const { rows } = await store.db.executeQuery<{ detail: string }>(explained);
      const text = rows.map(({ detail }) => detail).join('; ');
      assert.match(text, /USING (?:COVERING )?INDEX tasks_(?:line|paused|under)/, text);
      assert.doesNotMatch(text, /SCAN tasks(?! USING)/, text);
      assert.doesNotMatch(text, /TEMP B-TREE/, text);
    }
  });

test('clock changes: a delay ends in time, or after the clock was set back', async () => {
  const hour = 3_600_000;
  for (const [jump, attempts] of [
    [2 * hour, 2],
    [-2 * hour, 2],
    [-1000, 1],
  ] as const) {
    let now = Date.parse('2026-03-01T12:00:00Z');
    let startedCount = 0;
    const { tasks, close } = await prepared(
      async () => {
        if (++startedCount === 1) throw new RetryableError('later', { retryAfterMs: 60_000 });
      },
      { clock: () => now },
    );
    await tasks.start();
    const task = await tasks.submit(work());
    while ((await tasks.get(task.taskId))?.progressText !== 'attempt 1: later')
      await new Promise((resolve) => setTimeout(resolve, 1));
    now += jump;
    const other = await tasks.submit(work());
    await tasks.wait(other.taskId, deadlineMs(5000));
    const record = await tasks.wait(task.taskId, attempts > 1 ? 5000 : 50);
    assert.deepEqual(
      [record?.state, startedCount - 1],
      [attempts > 1 ? 'succeeded' : 'pending', attempts],
      `${jump} ms`,
    );
    await close();
  }
});
