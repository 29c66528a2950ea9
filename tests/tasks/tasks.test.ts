// The queue and its runner on a real store: order, waiting, cancelling, retries, stops, crashes, retention. A crash is a copy
// of the store while tasks run.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { engineLost } from '../../src/engines/engine_lost.ts';
import type { Observation } from '../../src/observe/observations.ts';
import { Failure } from '../../src/standard/failure.ts';
import type { FaultInjector, Store } from '../../src/store/store.ts';
import { HandedBack, RetryableError, type TaskKind, type TaskRecord } from '../../src/tasks/task.ts';
import { Tasks, type TasksOptions } from '../../src/tasks/tasks.ts';
import { sampled } from '../budget.ts';
import { deadlineMs, eventually } from '../deadline.ts';
import { storesOf } from '../stores.ts';

const stores = storesOf(import.meta.url);
const openStores: { store: Store; tasks: Tasks }[] = [];
after(() => closeStores());

async function closeStores(): Promise<void> {
  for (const { store, tasks } of openStores.splice(0)) {
    await tasks.stop(600);
    await store.close();
  }
}

type Run = NonNullable<TaskKind['run']>;

async function prepared(
  run: Run | undefined,
  options: Partial<TasksOptions> & {
    place?: string;
    inject?: FaultInjector;
    kind?: Partial<TaskKind>;
    started?: boolean;
  } = {},
) {
  const { place: existing, inject, kind, started = true, ...rest } = options;
  const { store, place } = await stores.open({ place: existing, inject });
  const observed: Observation[] = [];
  const kinds: TaskKind[] = [{ type: 'work', attemptsMax: 3, ...(run ? { run } : {}), ...kind }];
  const observe = (o: Observation) => void observed.push(o);
  const tasks = new Tasks({ store, kinds, runnersMax: 2, retentionDays: 7, retryPauseMs: 5, observe, ...rest });
  openStores.push({ store, tasks });
  if (started) await tasks.start();
  return { store, tasks, observed, place };
}

const submitter = { id: 'root', name: 'root' };
const request = (more: unknown = {}) => ({
  type: 'work',
  principal: { id: 'root', name: 'root' },
  target: '/api/v2/x',
  request: more,
});
const ended = (tasks: Tasks, { taskId }: { readonly taskId: string }) => tasks.wait(taskId, deadlineMs(5000));
const begun = (tasks: Tasks, { taskId }: { readonly taskId: string }, attempt = 1) =>
  eventually('the task runs', async () => {
    const record = await tasks.get(taskId);
    return record?.state === 'running' && record.attempt === attempt;
  });
const untilAborted = (signal: AbortSignal) =>
  new Promise<never>((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });

test('the oldest ended tasks of a principal are deleted beyond a number of bytes, unless they have just ended', async () => {
  let now = Date.now();
  const run = async () => ({});
  const { tasks } = await prepared(run, { ownerBytesMax: 100_000, clock: () => now });
  tasks.register([{ type: 'kept', attemptsMax: 1, isNeededAfterEnd: true, run }]);
  const submit = async (owner: string, text: string, type = 'work') => {
    const task = await tasks.submit({ ...request({ text }), type, principal: { id: owner, name: owner } });
    await ended(tasks, task);
    return task.taskId;
  };
  const others = [await submit('ben', ''), await submit('ann', '', 'kept')];
  const ids: string[] = [];
  for (let i = 0; i < 9; i++) ids.push(await submit('ann', 'ä'.repeat(12_000)));
  assert.equal((await tasks.list({ limit: 100 })).items.length, 11);
  now += 61_000;
  ids.push(await submit('ann', 'ä'.repeat(12_000)));
  const remaining = [...others, ...ids.slice(-4)].toReversed();
  await eventually('the oldest are deleted', async () => (await tasks.list({ limit: 100 })).items.length <= 6);
  assert.deepEqual(
    (await tasks.list({ limit: 100 })).items.map(({ taskId }) => taskId),
    remaining,
  );
});

test('a task is submitted, runs, and shows its result', async () => {
  const { tasks, observed } = await prepared(async (task) => ({ twice: (task.request as { n: number }).n * 2 }));
  const submitted = await tasks.submit(request({ n: 21 }));
  assert.equal(submitted.state, 'pending');
  assert.match(submitted.taskId, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  const endedTask = await ended(tasks, submitted);
  assert.deepEqual(
    {
      state: endedTask?.state,
      result: endedTask?.result,
      error: endedTask?.error,
      progress: endedTask?.progress,
      attempt: endedTask?.attempt,
    },
    { state: 'succeeded', result: { twice: 42 }, error: null, progress: 1, attempt: 1 },
  );
  assert(endedTask?.startedAt && endedTask.endedAt && endedTask.startedAt <= endedTask.endedAt);
  assert.deepEqual(
    observed.map((o) => o.kind),
    ['taskEnded'],
  );
});

test('tasks begin in the order of submission, at most as many at once as there are runners', async () => {
  const startTimes: number[] = [];
  let running = 0;
  const { tasks } = await prepared(async (task) => {
    startTimes.push((task.request as { n: number }).n);
    assert(++running <= 2);
    await pause(2);
    running--;
  });
  const all = await Promise.all(Array.from({ length: 20 }, (_, n) => tasks.submit(request({ n }))));
  await Promise.all(all.map((task) => ended(tasks, task)));
  assert.deepEqual(
    startTimes,
    Array.from({ length: 20 }, (_, n) => n),
  );
  const ids = all.map(({ taskId }) => taskId);
  assert.deepEqual(ids, [...ids].sort());
  const { items: listed } = await tasks.list({ limit: 5, after: ids[15] });
  assert.deepEqual(
    listed.map(({ taskId }) => taskId),
    ids.slice(10, 15).reverse(),
  );
});

test('a task submitted in a transaction exists only if it commits', async () => {
  const { tasks, store } = await prepared(async () => 'ran');
  let taskId = '';
  const rolledBack = store.transaction(async (tx) => {
    ({ taskId } = await tasks.submit(request(), tx));
    throw new Error('no');
  });
  await assert.rejects(rolledBack);
  assert.equal(await tasks.get(taskId), undefined);
  const task = await store.transaction((tx) => tasks.submit(request(), tx));
  tasks.notify();
  assert.equal((await ended(tasks, task))?.state, 'succeeded');
});

test('waiting ends at the end of the task, at the deadline, or with the signal', async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  const { tasks } = await prepared(() => promise);
  const task = await tasks.submit(request());
  await begun(tasks, task);
  const startMs = performance.now();
  assert.equal((await tasks.wait(task.taskId, 30))?.state, 'running');
  assert(performance.now() - startMs >= 28);
  const abort = new AbortController();
  const waiting = tasks.wait(task.taskId, 60_000, abort.signal);
  abort.abort();
  assert.equal((await waiting)?.state, 'running');
  const waits = [tasks.wait(task.taskId, 60_000), tasks.wait(task.taskId, 60_000)];
  resolve();
  assert.deepEqual(
    (await Promise.all(waits)).map((record) => record?.state),
    ['succeeded', 'succeeded'],
  );
  assert.equal(await tasks.wait('none', 60_000), undefined);
});

test('a failure keeps its code; the message of an unexpected error is not shown', async () => {
  const { tasks, observed } = await prepared(async (task) => {
    if ((task.request as { throwsInternal?: boolean }).throwsInternal) throw new Error('/secret/path');
    throw new Failure('CONSTRAINT_VIOLATED', 'twice the same key', { keys: [1] });
  });
  const task = await ended(tasks, await tasks.submit(request()));
  assert.deepEqual(task?.error, {
    code: 'CONSTRAINT_VIOLATED',
    message: 'twice the same key',
    result: { keys: [1] },
  });
  const internalTask = await ended(tasks, await tasks.submit(request({ throwsInternal: true })));
  assert.equal(internalTask?.error?.code, 'INTERNAL_ERROR');
  assert(!JSON.stringify(internalTask?.error).includes('secret'));
  const { errorId } = (internalTask?.error?.result ?? {}) as { errorId: string };
  assert(observed.some((o) => o.kind === 'backgroundError' && o.what.includes(errorId)));
});

test('a transient failure is retried until the last attempt', async () => {
  const attempts: number[] = [];
  const { tasks } = await prepared(async (task) => {
    attempts.push(task.attempt);
    if ((task.request as { never?: boolean }).never) throw new RetryableError('not today');
    if (task.attempt < 3) throw new Failure('WAREHOUSE_BUSY', 'busy', {}, { retryAfterSeconds: 0.001 });
    return 'at last';
  });
  const lucky = await ended(tasks, await tasks.submit(request()));
  assert.deepEqual([lucky?.state, lucky?.result, attempts.splice(0)], ['succeeded', 'at last', [1, 2, 3]]);
  const unlucky = await ended(tasks, await tasks.submit(request({ never: true })));
  assert.deepEqual([unlucky?.state, unlucky?.error?.code], ['failed', 'TASK_ATTEMPTS_EXHAUSTED']);
  assert.match(unlucky?.error?.message ?? '', /not today/);
});

test('a task that ended its engine twice is not retried; one that ran beside others when theirs ended is', async () => {
  const attempts: number[] = [];
  const { tasks } = await prepared(async (task) => {
    attempts.push(task.attempt);
    const { isToBlame } = task.request as { isToBlame: boolean };
    if (task.attempt < 3) throw engineLost(isToBlame);
    return 'done';
  });
  const killer = await ended(tasks, await tasks.submit(request({ isToBlame: true })));
  assert.deepEqual([killer?.state, killer?.error?.code, attempts.splice(0)], ['failed', 'TASK_ENDED_ENGINE', [1, 2]]);
  const otherTask = await ended(tasks, await tasks.submit(request({ isToBlame: false })));
  assert.deepEqual([otherTask?.state, otherTask?.result, attempts.splice(0)], ['succeeded', 'done', [1, 2, 3]]);
});

test('cancelling: a pending task at once, a running one when it stops, an ended one not at all', async () => {
  const abandoned: string[] = [];
  const { tasks } = await prepared((_, { signal }) => untilAborted(signal), {
    runnersMax: 1,
    kind: { abandoned: async (task) => void abandoned.push(task.taskId) },
  });
  const running = await tasks.submit(request());
  const pending = await tasks.submit(request());
  assert.equal((await tasks.cancel(pending.taskId, submitter))?.state, 'cancelled');
  assert.deepEqual(abandoned, [pending.taskId]);
  await begun(tasks, running);
  const answer = await tasks.cancel(running.taskId, submitter);
  assert(answer?.state === 'cancelling' || answer?.state === 'cancelled');
  const endedTask = await ended(tasks, running);
  assert.deepEqual([endedTask?.state, endedTask?.error], ['cancelled', null]);
  assert.deepEqual(await tasks.cancel(running.taskId, submitter), endedTask);
  assert.equal(await tasks.cancel('none', submitter), undefined);
});

test('a task that succeeds although it was cancelled has succeeded', async () => {
  const { tasks } = await prepared(async (_, { signal }) => {
    await untilAborted(signal).catch(() => {});
    return 'it was done already';
  });
  const task = await tasks.submit(request());
  await begun(tasks, task);
  await tasks.cancel(task.taskId, submitter);
  assert.equal((await ended(tasks, task))?.state, 'succeeded');
});

test('removing cancels the task, deletes its files, then the record', async () => {
  const removed: string[] = [];
  const { tasks } = await prepared((_, { signal }) => untilAborted(signal), {
    kind: { removed: async (task) => void removed.push(task.state) },
  });
  const task = await tasks.submit(request());
  await begun(tasks, task);
  assert.equal(await tasks.remove(task.taskId, submitter), true);
  assert.deepEqual(removed, ['cancelled']);
  assert.equal(await tasks.get(task.taskId), undefined);
  assert.equal(await tasks.remove(task.taskId, submitter), false);
});

test('progress is visible at once and saved at most once a second', async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  let writes = 0;
  const inject: FaultInjector = ({ sql }) => {
    if (/^update "tasks" set "progress" = \S+ "progress_text" = \S+ "expected_end_at" = \S+ where/.test(sql)) writes++;
  };
  const run: Run = async (_, { progress }) => {
    for (let n = 0; n <= 500; n++) progress(n / 1000, `${n} rows`);
    await promise;
    progress(Number.NaN);
  };
  const { tasks } = await prepared(run, { inject });
  const task = await tasks.submit(request());
  const taskRecord = await eventually('the progress is saved', async () => {
    const record = await tasks.get(task.taskId);
    return writes > 0 && record;
  });
  assert.deepEqual([taskRecord?.progress, taskRecord?.progressText], [0.5, '500 rows']);
  assert.equal(writes, 1);
  resolve();
  const endedTask = await ended(tasks, task);
  assert.deepEqual([endedTask?.progress, endedTask?.progressText], [1, '500 rows']);
});

test('a store that fails for a moment ends no attempt that asks whether it has the task', async () => {
  let failures = 0;
  const inject: FaultInjector = ({ sql }) => {
    if (failures > 0 && /^select "task_id" from "tasks" where "task_id" = /.test(sql)) {
      failures--;
      throw new Error('the connection is lost');
    }
  };
  const run: Run = async (_, { store, requireHeld }) => {
    failures = 2;
    await requireHeld(store.db);
    failures = stores.attempts;
    // A transaction in which a statement has failed cannot continue.
    return {
      failed: await store.transaction(requireHeld).then(
        () => false,
        () => true,
      ),
    };
  };
  const { tasks } = await prepared(run, { inject });
  const { attempt, result } = (await ended(tasks, await tasks.submit(request()))) ?? {};
  assert.deepEqual([attempt, result, failures], [1, { failed: true }, 0]);
});

test('running work becomes a task, and can be cancelled', async () => {
  const { tasks } = await prepared(undefined);
  const { promise, resolve } = Promise.withResolvers<unknown>();
  const adoptedTask = await tasks.adopt({ ...request(), running: () => promise });
  assert.deepEqual([adoptedTask.state, adoptedTask.attempt], ['running', 1]);
  resolve({ rows: 3 });
  assert.deepEqual((await ended(tasks, adoptedTask))?.result, { rows: 3 });
  const other = await tasks.adopt({ ...request(), taskId: 'chosen', running: ({ signal }) => untilAborted(signal) });
  assert.equal(other.taskId, 'chosen');
  await tasks.cancel('chosen', submitter);
  assert.equal((await ended(tasks, other))?.state, 'cancelled');
});

test('ended work can be recorded as a task', async () => {
  const { tasks } = await prepared(undefined);
  const recorded = await tasks.record({
    ...request(),
    state: 'succeeded',
    startedAt: 5,
    endedAt: 9,
    result: { pages: 2 },
  });
  assert.deepEqual(await tasks.get(recorded.taskId), recorded);
  assert.deepEqual(
    [recorded.state, recorded.result, recorded.endedAt],
    ['succeeded', { pages: 2 }, '1970-01-01T00:00:00.009Z'],
  );
});

test('a stopping server hands back tasks that can run again, and fails the others', async () => {
  const run: Run = (_, { signal }) => untilAborted(signal);
  const first = await prepared(run, { runnersMax: 5 });
  const resubmitted = await first.tasks.submit(request());
  const adoptedTask = await first.tasks.adopt({
    ...request(),
    type: 'query',
    running: ({ signal }) => untilAborted(signal),
  });
  const neverEnding = await first.tasks.adopt({ ...request(), type: 'query', running: () => new Promise(() => {}) });
  for (const task of [resubmitted, adoptedTask, neverEnding]) await begun(first.tasks, task);
  const waiting = first.tasks.wait(resubmitted.taskId, 60_000);
  const startMs = performance.now();
  await first.tasks.stop(700);
  assert(performance.now() - startMs < deadlineMs(700));
  assert.equal((await waiting)?.state, 'pending');
  await assert.rejects(first.tasks.adopt({ ...request(), running: ({ signal }) => untilAborted(signal) }), {
    code: 'SHUTTING_DOWN',
  });
  const reasons: unknown[] = [];
  const second = await prepared(async (task) => `attempt ${task.attempt}`, {
    place: await stores.afterKill(first.place),
  });
  for (const { taskId } of [adoptedTask, neverEnding]) {
    const record = await second.tasks.get(taskId);
    assert.deepEqual([record?.state, record?.error?.code], ['failed', 'TASK_INTERRUPTED']);
  }
  assert.equal((await ended(second.tasks, resubmitted))?.result, 'attempt 1');
  assert.deepEqual(reasons, []);
});

test('at whichever statement a server stops, nothing is read or written afterwards, and its task is handed back', async () => {
  let statement = 0;
  for (let isReached = true; isReached; ) {
    statement++;
    await closeStores();
    const ran = Promise.withResolvers<void>();
    const stopped = Promise.withResolvers<void>();
    let count = Number.NEGATIVE_INFINITY;
    isReached = false;
    const inject: FaultInjector = () => {
      if (++count !== statement) return;
      isReached = true;
      tasks.stop(deadlineMs(5000)).then(stopped.resolve, stopped.reject);
    };
    const run: Run = (_, { signal }) => {
      ran.resolve();
      return untilAborted(signal);
    };
    const { tasks, observed } = await prepared(run, { inject });
    await pause(2);
    count = 0;
    const { taskId } = await tasks.submit(request());
    await Promise.race([ran.promise, stopped.promise]);
    if (!isReached) break;
    await stopped.promise;
    const before = count;
    await pause(10);
    assert.equal(count, before, `after a stop at statement ${statement}`);
    assert.deepEqual(observed, []);
    assert.equal((await tasks.get(taskId))?.state, 'pending');
  }
  assert.ok(statement > 8, `${statement} statements`);
});

test('the signal of a task that is handed back has the reason', async () => {
  let reason: unknown;
  const { tasks } = await prepared(async (_, { signal }) => {
    await untilAborted(signal).catch((error) => {
      reason = error;
    });
    throw new Failure('STATEMENT_CANCELLED', 'stopped');
  });
  const task = await tasks.submit(request());
  await begun(tasks, task);
  await tasks.stop(1000);
  assert(reason instanceof HandedBack);
  assert.equal((await tasks.get(task.taskId))?.state, 'pending');
});

test('after a crash running tasks are run again until their attempts are used up; cancelled ones are cancelled; others fail', async () => {
  const run: Run = () => new Promise(() => {});
  const abandoned: TaskRecord[] = [];
  const kind: Partial<TaskKind> = { attemptsMax: 2, abandoned: async (task) => void abandoned.push(task) };
  let current = await prepared(run, { kind, runnersMax: 9 });
  const task = await current.tasks.submit(request());
  const cancelled = await current.tasks.submit(request());
  const adoptedTask = await current.tasks.adopt({ ...request(), type: 'query', running: () => new Promise(() => {}) });
  for (const each of [task, cancelled, adoptedTask]) await begun(current.tasks, each);
  await current.tasks.cancel(cancelled.taskId, submitter);
  for (const attempt of [1, 2]) {
    await begun(current.tasks, task, attempt);
    current = await prepared(run, { kind, runnersMax: 9, place: await stores.afterKill(current.place) });
  }
  await ended(current.tasks, task);
  const { items: states } = await current.tasks.list({ limit: 10 });
  assert.deepEqual(
    states.toReversed().map(({ taskId, state, error }) => [taskId, state, error?.code]),
    [
      [task.taskId, 'failed', 'TASK_ATTEMPTS_EXHAUSTED'],
      [cancelled.taskId, 'cancelled', undefined],
      [adoptedTask.taskId, 'failed', 'TASK_INTERRUPTED'],
    ],
  );
  assert.deepEqual(new Set(abandoned.map(({ taskId }) => taskId)), new Set([task.taskId, cancelled.taskId]));
});

const isAbout = (sql: string, table: string) => sql.includes(`delete from "${table}"`);

test('whichever statement of the store fails while tasks run, they end correctly', async (t) => {
  const hitStatements = new Set<string>();
  const tables = ['task_waits', 'task_ends'];
  // The n-th statement, or the first one about a table, whose number depends on what runs at the same time.
  const statements = [...tables, ...Array.from({ length: 60 * stores.attempts }, (_, i) => i + 1)];
  const aboutAll = () => tables.every((table) => [...hitStatements].some((sql) => isAbout(sql, table)));
  for (const n of sampled(t, 5, statements, aboutAll)) {
    // Each has connections to PostgreSQL.
    await closeStores();
    const fault: { at: number | string; count: number } = { at: Number.POSITIVE_INFINITY, count: 0 };
    const inject: FaultInjector = ({ sql }) => {
      const isNext = typeof fault.at === 'string' ? isAbout(sql, fault.at) : ++fault.count === fault.at;
      if (!isNext) return;
      fault.at = Number.POSITIVE_INFINITY;
      hitStatements.add(sql);
      throw new Error('the disk is gone');
    };
    // A task for the second one to wait for.
    const bothStarted = Promise.withResolvers<string>();
    const { tasks } = await prepared(() => bothStarted.promise, { inject });
    await pause(2);
    Object.assign(fault, { at: n, count: 0 });
    const first = await tasks.submit(request()).catch(() => undefined);
    const second = first && (await tasks.submit({ ...request(), after: [first.taskId] }).catch(() => undefined));
    bothStarted.resolve('done');
    for (const task of [first, second]) {
      if (!task) continue;
      const waitForTask = () => tasks.wait(task.taskId, deadlineMs(3000));
      assert.equal((await waitForTask().catch(waitForTask))?.state, 'succeeded', `after a failure of statement ${n}`);
    }
    Object.assign(fault, { at: Number.POSITIVE_INFINITY });
    const accepted = [first, second].filter((task) => task !== undefined).length;
    assert.equal(
      (await tasks.list({ limit: 5 })).items.length,
      accepted,
      `${n}: only what was not written was refused`,
    );
  }
  assert(aboutAll(), 'no statement about task_waits or task_ends failed');
});

test('a result that is not JSON fails the task instead of hanging it', async () => {
  const { tasks } = await prepared(async () => ({ big: 1n }));
  assert.equal((await ended(tasks, await tasks.submit(request())))?.error?.code, 'INTERNAL_ERROR');
});

test('ended tasks are deleted after their retention, with their files', async () => {
  const removed: string[] = [];
  let now = Date.parse('2026-01-01T00:00:00Z');
  const kind: Partial<TaskKind> = {
    removed: async (task) => {
      if (task.target === 'stuck') throw new Error('the file is busy');
      removed.push(task.taskId);
    },
  };
  const { tasks, observed } = await prepared(undefined, { kind, clock: () => now });
  const endedFields = { ...request(), state: 'succeeded', startedAt: now, endedAt: now } as const;
  const old = await tasks.record(endedFields);
  await tasks.record({ ...endedFields, target: 'stuck' });
  now += 8 * 86_400_000;
  const recent = await tasks.record({ ...endedFields, startedAt: now, endedAt: now });
  assert.equal(await tasks.sweep(), 1);
  assert.deepEqual(removed, [old.taskId]);
  assert.equal(await tasks.get(old.taskId), undefined);
  assert(await tasks.get(recent.taskId));
  assert(observed.some((o) => o.kind === 'backgroundError'));
});
