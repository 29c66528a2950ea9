// Very many tasks in the queue of a real server (600; or QUEUED_TASKS): concurrent submissions share a commit, no principal or
// priority starves, tasks can be cancelled in each state, and memory does not grow with them.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { newPerson } from '../access/people.ts';
import { deadlineMs, eventually } from '../deadline.ts';
import { endOfTask, type Reply, start, type TestServer } from '../server.ts';

const queuedCount = Number(process.env.QUEUED_TASKS ?? 600);
const atOnce = 16;
const perTaskBytesMax = 10_000;
const query = '/api/v2/catalogs/default/query';
const endless = 'SELECT sum(a.range * b.range) FROM range(10000000) a, range(10000000) b';
const serverFlags = [
  ['read', '/catalogs/default'],
  ['use', '/warehouses/default'],
] as const;
const drainMsMax = deadlineMs(30_000 + queuedCount * 20);

let server: TestServer;
let commits = 0;

before(async () => {
  const settings = { logLevel: 'silent', warehouseThreads: 1, taskRunnersMax: 1, principalTasksMax: 0 } as const;
  server = await start(settings, {
    injectStore: ({ sql }) => {
      if (sql === 'commit') commits++;
    },
    taskRetryPauseMs: 60_000,
  });
});
after(() => server.close());

type Caller = Pick<TestServer, 'post'>;

const submit = async (caller: Caller, sql: string, more: object = {}): Promise<Reply> =>
  (await caller.post(query, { sql, waitSeconds: 0, ...more })).is(202);
const stateOf = async (task: Reply) => (await server.get(task.at('uri'))).at<string>('state');
const cancel = async (task: Reply) => (await server.post(`${task.at('uri')}/cancel`)).is(200);

/** The only runner is busy until the returned function is called. */
async function submitUntilBusy(): Promise<Reply> {
  const blocker = await submit(server, endless, { priority: 'high' });
  await eventually('it runs', async () => (await stateOf(blocker)) === 'running');
  return blocker;
}

async function inParallel(count: number, work: (i: number) => Promise<unknown>): Promise<void> {
  let next = 0;
  const worker = async () => {
    while (next < count) await work(next++);
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
}

/** When each has ended: waits for the last one, so that polling does not delay them. */
async function endsOf(all: readonly string[]): Promise<Map<string, number>> {
  const endsByOwner = new Map<string, number>();
  for (const taskId of all.toReversed()) {
    const deadline = Date.now() + drainMsMax;
    for (let token = ''; !endsByOwner.has(taskId); ) {
      const last = await endOfTask(server, `/api/v2/tasks/${taskId}`);
      assert.ok(last.at('endedAt') !== null || Date.now() < deadline, last.text);
      if (last.at('endedAt') === null) continue;
      for (let more = true; more; ) {
        const page = await server.get(`/api/v2/tasks?pageSize=1000${token}`);
        for (const task of page.at<{ taskId: string; state: string; endedAt: string }[]>('tasks'))
          if (task.state === 'succeeded') endsByOwner.set(task.taskId, Date.parse(task.endedAt));
        const next = page.at<string | undefined>('nextPageToken');
        more = next !== undefined;
        token = more ? `&pageToken=${next}` : '';
      }
      assert.ok(endsByOwner.has(taskId), last.text);
    }
  }
  return endsByOwner;
}

test('many queued tasks: submitted together, none starves, none is held in memory', {
  timeout: deadlineMs(60_000 + queuedCount * 100),
}, async () => {
  const [much, little] = [await newPerson(server, 'much', serverFlags), await newPerson(server, 'little', serverFlags)];
  const blocker = await submitUntilBusy();
  const ids = { much: [] as string[], little: [] as string[], low: [] as string[] };
  const submitNamed = async (name: keyof typeof ids, task: Promise<Reply>) =>
    void ids[name].push((await task).at('taskId'));
  await submitNamed('low', submit(server, 'SELECT 1', { priority: 'low' }));
  await inParallel(queuedCount / 2, () => submitNamed('much', submit(much, 'SELECT 1')));
  const residentBefore = process.memoryUsage().rss;
  const commitsBefore = commits;
  await inParallel(queuedCount / 2, () => submitNamed('much', submit(much, 'SELECT 1')));
  assert.ok(
    commits - commitsBefore <= queuedCount / 4,
    `${commits - commitsBefore} commits for ${queuedCount / 2} tasks`,
  );
  const growthBytes = process.memoryUsage().rss - residentBefore;
  assert.ok(growthBytes < 64_000_000 + (queuedCount / 2) * perTaskBytesMax, `${growthBytes} bytes`);
  await inParallel(10, () => submitNamed('little', submit(little, 'SELECT 1')));
  await cancel(blocker);
  const all = [...ids.much, ...ids.little, ...ids.low];
  const endTimes = await endsOf(all);
  const order = all.toSorted((a, b) => (endTimes.get(a) as number) - (endTimes.get(b) as number));
  const last = (taskIds: readonly string[]) => Math.max(...taskIds.map((taskId) => order.indexOf(taskId)));
  // In turns with the other, and one of eight is the oldest.
  assert.ok(last(ids.little) < 50, `the few of one who came last were all done after ${last(ids.little)}`);
  assert.ok(last(ids.low) < 50, `what is least urgent, and oldest, was done after ${last(ids.low)}`);
});

test('cancelled in each state', { timeout: deadlineMs(60_000) }, async () => {
  const running = await submitUntilBusy();
  const pending = await submit(server, 'SELECT 1');
  const waiting = await submit(server, 'SELECT 2', { after: [pending.at('taskId')] });
  const follower = await submit(server, 'SELECT 3', { after: [waiting.at('taskId')] });
  for (const task of [waiting, pending, running]) {
    const cancelled = await cancel(task);
    const ended = await endOfTask(server, task.at('uri'));
    assert.equal(ended.at('state'), 'cancelled', cancelled.text);
  }
  assert.equal((await endOfTask(server, follower.at('uri'))).at('error', 'code'), 'TASK_DEPENDENCY_FAILED');
  // Nobody listens there: it is retried in a minute.
  const columns = [{ name: 'id', type: 'INT' }];
  await server.client.databases.create({ name: 'd' });
  await server.client.databases('d').tables.create({ name: 't', columns }).done();
  const source = { url: 'http://127.0.0.1:9/a.csv' };
  const backingOff = (await server.post('/api/v2/databases/d/tables/t/load', { source })).is(202);
  const progressText = async () => (await server.get(backingOff.at('uri'))).at<string | null>('progressText');
  await eventually('it waits to be tried again', async () => (await progressText())?.startsWith('attempt 1') === true);
  assert.equal(await stateOf(backingOff), 'pending');
  await cancel(backingOff);
  assert.equal(await stateOf(backingOff), 'cancelled');
  const lastTask = await submit(server, 'SELECT 4');
  assert.equal((await endOfTask(server, lastTask.at('uri'))).at('state'), 'succeeded');
  await cancel(lastTask);
  assert.equal(await stateOf(lastTask), 'succeeded');
});
