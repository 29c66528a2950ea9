// The quotas of one principal: the counters alone, then each quota through REST on servers with small limits.
import assert from 'node:assert/strict';
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { type QuotaSettings, Quotas, type QuotasOptions } from '../../src/access/limits/quotas.ts';
import { Failure } from '../../src/standard/failure.ts';
import { Tasks } from '../../src/tasks/tasks.ts';
import { eventually, statementWaitSeconds } from '../deadline.ts';
import { start, type TestServer, uri } from '../server.ts';
import { storesOf } from '../stores.ts';

const unlimited: QuotaSettings = {
  principalQueriesMax: 0,
  principalTasksMax: 0,
  principalSpillBytesMax: 0,
};
const neverAborted = () => new AbortController().signal;

function capsWith(settings: Partial<QuotaSettings>, more: Partial<QuotasOptions> = {}) {
  const spill = new Map<string, number>();
  const caps = new Quotas({
    settings: { ...unlimited, ...settings },
    spilledBytes: async (warehouse) => spill.get(warehouse) ?? 0,
    // The tests check by themselves.
    spillCheckMs: 3_600_000,
    ...more,
  });
  return { caps, spill };
}

it('the requests of unfinished tasks are limited in bytes, for each principal', async (t) => {
  const { store } = await storesOf(import.meta.url).open();
  t.after(() => store.close());
  const { caps } = capsWith({}, { unfinishedTaskBytesMax: 100 });
  const tasks = new Tasks({
    store,
    kinds: [{ type: 'work', attemptsMax: 1, run: async () => ({}) }],
    runnersMax: 1,
    retentionDays: 1,
    requireRoom: (db, principalId) => caps.requireTaskQuota(db, principalId),
  });
  const submit = (id: string) =>
    tasks.submit({ type: 'work', principal: { id, name: id }, target: '/', request: 'ä'.repeat(30) });
  const { taskId } = await submit('ann');
  await submit('ann');
  await assert.rejects(submit('ann'), { code: 'TOO_MANY_TASKS', result: { unfinishedTaskBytesMax: 100 } });
  await submit('ben');
  await tasks.cancel(taskId, { id: 'ann', name: 'ann' });
  await submit('ann');
});

describe('the limit on statements', () => {
  it('refuses a caller who waits for the response, and is free again when a statement ends', () => {
    const { caps } = capsWith({ principalQueriesMax: 2 });
    const [end] = [caps.startQuery('u1'), caps.startQuery('u1')];
    assert.throws(() => caps.startQuery('u1'), { code: 'TOO_MANY_QUERIES', result: { principalQueriesMax: 2 } });
    caps.startQuery('u2');
    end?.();
    end?.();
    caps.startQuery('u1');
    assert.throws(() => caps.startQuery('u1'), { code: 'TOO_MANY_QUERIES' }, 'an end counts once');
  });

  it('lets tasks wait, in the order in which they arrived', async () => {
    const { caps } = capsWith({ principalQueriesMax: 1 });
    const end = caps.startQuery('u1');
    const order: number[] = [];
    const turns = [0, 1, 2].map(async (i) => {
      const overLimit = await caps.waitForQuerySlot('u1', neverAborted());
      order.push(i);
      await new Promise((resolve) => setImmediate(resolve));
      assert.throws(() => caps.startQuery('u1'), { code: 'TOO_MANY_QUERIES' }, 'never two at once');
      overLimit();
    });
    end();
    await Promise.all(turns);
    assert.deepEqual(order, [0, 1, 2]);
    caps.startQuery('u1')();
  });

  it('drops callers that left while they waited', async () => {
    const { caps } = capsWith({ principalQueriesMax: 1 });
    const end = caps.startQuery('u1');
    const aborted = new AbortController();
    const waiting = caps.waitForQuerySlot('u1', aborted.signal);
    const next = caps.waitForQuerySlot('u1', neverAborted());
    aborted.abort();
    // At the same moment: the slot must not be lost with the caller that left.
    end();
    await assert.rejects(waiting, { code: 'STATEMENT_CANCELLED' });
    (await next)();
    caps.startQuery('u1')();
    const abortedSignal = AbortSignal.abort();
    const runningQuery = caps.startQuery('u1');
    await assert.rejects(caps.waitForQuerySlot('u1', abortedSignal), { code: 'STATEMENT_CANCELLED' });
    runningQuery();
    caps.startQuery('u1');
  });
});

describe('the limit on spill', () => {
  function watched() {
    const { caps, spill } = capsWith({ principalSpillBytesMax: 100 });
    const stopped: string[] = [];
    const run = (principal: string, name: string, warehouse = 'w1') =>
      caps.trackStatement(principal, warehouse, (reason) => {
        assert.ok(reason instanceof Failure && reason.code === 'SPILL_LIMIT_EXCEEDED');
        stopped.push(name);
      });
    const inspect = async (bytes: number, warehouse = 'w1') => {
      spill.set(warehouse, bytes);
      await caps.checkSpill();
      return stopped.splice(0);
    };
    return { run, inspect };
  }

  it('stops the statements of a principal that is alone in the warehouse', async () => {
    const { run, inspect } = watched();
    const ends = [run('u1', 'a'), run('u1', 'b'), run('u2', 'elsewhere', 'w2')];
    assert.deepEqual(await inspect(50), []);
    assert.deepEqual(await inspect(150), []);
    assert.deepEqual(await inspect(151), ['a', 'b']);
    for (const end of ends) end();
  });

  it('counts what grows while the principal is alone, and nothing of others', async () => {
    const { run, inspect } = watched();
    const end = run('u1', 'a');
    await inspect(0);
    await inspect(90);
    const endOther = run('u2', 'b');
    assert.deepEqual(await inspect(1000), [], 'nobody knows whose it is');
    endOther();
    assert.deepEqual(await inspect(1000), []);
    assert.deepEqual(await inspect(400), []);
    assert.deepEqual(await inspect(500), []);
    assert.deepEqual(await inspect(501), ['a'], 'from the least that there was');
    end();
  });

  it('does not attribute the growth of one principal to the next', async () => {
    const { run, inspect } = watched();
    const end = run('u1', 'a');
    await inspect(10);
    const other = run('u2', 'b');
    other();
    assert.deepEqual(await inspect(500), [], 'another ran since the last look');
    end();
  });
});

const slow = 'SELECT count(*) FROM range(20000000) a, range(100000) b WHERE (a.range * b.range) % 7 = 3';
const wide = (rows: number) => `SELECT repeat('x', 1000) || range AS text FROM range(${rows})`;

describe('limits through REST', () => {
  let server: TestServer;
  before(async () => {
    server = await start({
      principalQueriesMax: 2,
      principalTasksMax: 3,
      principalResultBytesMax: 3_000_000,
      pageBytesMax: 64 * 1024,
    });
    await server.client.databases.create({ name: 'd' });
  });
  after(() => server.close());

  const query = (sql: string, more: object = {}) => server.query('d', sql, more);
  const submit = (sql: string) => query(sql, { waitSeconds: 0 });
  const remove = async (accepted: { at<T>(...path: string[]): T }) =>
    (await server.delete(accepted.at<string>('uri'))).is(200);
  const state = async (accepted: { at<T>(...path: string[]): T }) =>
    (await server.get(accepted.at<string>('uri'))).is(200).at('state');
  const untilTrue = (condition: () => Promise<boolean>) => eventually(String(condition), condition, 60_000);

  it('statements: a call is refused, a task waits, and both continue when there is room', async () => {
    const first = (await submit(slow)).is(202);
    const second = (await submit(slow)).is(202);
    await untilTrue(async () => (await state(first)) === 'running' && (await state(second)) === 'running');
    await untilTrue(async () => (await query('SELECT 1')).status === 503);
    const refused = (await query('SELECT 1')).is(503, 'TOO_MANY_QUERIES', { principalQueriesMax: 2 });
    assert.equal(refused.headers['retry-after'], '1');
    (await server.post(uri`/databases/${'d'}/explain`, { sql: 'SELECT 1' })).is(503, 'TOO_MANY_QUERIES');
    const third = (await submit('SELECT 42 AS answer')).is(202);
    await remove(first);
    (await server.ended(third)).is(200, '0', { state: 'succeeded', attempt: 1 });
    (await query('SELECT 1')).is(200);
    await remove(second);
    await remove(third);
  });

  it('tasks: no more than the limit may be unfinished, however they are submitted', async () => {
    const tasks = await Promise.all(Array.from({ length: 8 }, () => submit(slow)));
    const accepted = tasks.filter(({ status }) => status === 202);
    assert.equal(accepted.length, 3);
    for (const reply of tasks.filter(({ status }) => status !== 202))
      reply.is(503, 'TOO_MANY_TASKS', { principalTasksMax: 3 });
    for (const task of accepted) await remove(task);
    const after = (await submit('SELECT 1')).is(202);
    (await server.ended(after)).is(200, '0', { state: 'succeeded' });
    await remove(after);
  });

  it('tasks: a call that would become one too many ends with its statement', async () => {
    const small = await start({ principalTasksMax: 1 });
    try {
      await small.client.databases.create({ name: 'd' });
      const onlyTask = (await small.query('d', slow, { waitSeconds: 0 })).is(202);
      (await small.query('d', slow, { waitSeconds: 1 })).is(503, 'TOO_MANY_TASKS');
      (await small.delete(onlyTask.at('uri'))).is(200);
      const became = (await small.query('d', slow, { waitSeconds: 1 })).is(202);
      (await small.delete(became.at('uri'))).is(200);
    } finally {
      await small.close();
    }
  });

  it('results: a result that does not fit is not stored, of a call as of a task; deleting tasks frees space', async () => {
    const files = async () => (await readdir(join(server.dataDirectory, 'results'))).length;
    const first = (await submit(wide(2000))).is(202);
    (await server.ended(first)).is(200, '0', { state: 'succeeded' });
    const before = await files();
    (await query(wide(2000))).is(400, 'RESULT_QUOTA_EXCEEDED', { principalResultBytesMax: 3_000_000 });
    const second = (await submit(wide(2000))).is(202);
    const ended = (await server.ended(second)).is(200, '0', { state: 'failed' });
    assert.equal(ended.at('error', 'code'), 'RESULT_QUOTA_EXCEEDED');
    assert.equal(await files(), before);
    (await query(wide(10))).is(200);
    await remove(first);
    (await query(wide(2000))).is(200);
  });

  it('results: those of an earlier process count', async () => {
    const dataDir = `${server.dataDirectory}-again`;
    const settings = { dataDir, principalResultBytesMax: 1_500_000, pageBytesMax: 64 * 1024 };
    const before = await start(settings);
    await before.client.databases.create({ name: 'd' });
    const earlier = (await before.query('d', wide(1400), { waitSeconds: 0 })).is(202);
    (await before.ended(earlier)).is(200, '0', { state: 'succeeded' });
    await before.close();
    const restarted = await start(settings);
    try {
      (await restarted.query('d', wide(1000))).is(400, 'RESULT_QUOTA_EXCEEDED');
      (await restarted.delete(earlier.at('uri'))).is(200);
      (await restarted.query('d', wide(1000))).is(200);
    } finally {
      await restarted.close();
      await rm(dataDir, { recursive: true, force: true });
    }
  });

  it('spill: a statement over the limit of its principal is stopped; others continue', async () => {
    const small = await start({
      principalSpillBytesMax: 64 * 1024 * 1024,
      warehouseMemoryBytes: 256 * 1024 * 1024,
      warehouseSpillBytes: 8 * 1024 ** 3,
    });
    try {
      await small.client.databases.create({ name: 'd' });
      const sql =
        "SELECT a FROM (SELECT range AS a, repeat('y', 100) || hash(range) AS b FROM range(40000000)) ORDER BY b LIMIT 30000000";
      (await small.query('d', `SELECT count(*) FROM (${sql})`, { waitSeconds: statementWaitSeconds(60) })).is(
        400,
        'SPILL_LIMIT_EXCEEDED',
        {
          principalSpillBytesMax: 64 * 1024 * 1024,
        },
      );
      (await small.query('d', 'SELECT 1')).is(200);
    } finally {
      await small.close();
    }
  });
});
