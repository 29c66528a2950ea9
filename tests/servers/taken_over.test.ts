// Two servers on one store and one engine that both reach: what a killed or frozen server worked on is taken over by the other, once. The
// frozen one continues when its work has been taken over, and adds nothing to it. SEED replays a run.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { eventually, statementWaitSeconds } from '../deadline.ts';
import { type EngineServer, startEngineServer } from '../engines/sqlite/sqlite.ts';
import { missingPostgresql } from '../postgresql.ts';
import { Random, seedFrom } from '../random.ts';
import type { Reply, ServerProcess } from '../server.ts';
import { kill, newPlaces, type Places } from './two_servers.ts';

const shop = '/api/v2/catalogs/common/databases/shop';
const orders = `${shop}/tables/orders`;
const columns = [{ name: 'id', type: 'BIGINT' }];
const rowsOfTask = 300_000;
const requestsAtOnce = 6;

/** A change that is repeated with the same key until a server answers for certain. */
interface KeyedChange {
  readonly path: string;
  readonly body: object;
  readonly key: string;
}

const send = (server: ServerProcess, { path, body, key }: KeyedChange): Promise<Reply> =>
  server.request('POST', path, { body, headers: { 'x-service-idempotency-key': key } });

describe('the work of a server that does not respond', { skip: missingPostgresql }, () => {
  const random = new Random(seedFrom('SEED'));
  let engine: EngineServer;
  let places: Places;
  let one: ServerProcess;
  let two: ServerProcess;
  before(async () => {
    engine = await startEngineServer();
    places = await newPlaces(engine.port);
    const silent = ['--log-level=silent'];
    one = await places.one.start(silent);
    two = await places.two.start(silent);
    (await one.post('/api/v2/warehouses', { name: 'shared', engine: 'sqlite' })).is(201);
    (await one.post('/api/v2/catalogs', { name: 'common', warehouse: 'shared' })).is(201);
    (await one.put(shop)).is(201);
    (await one.post(`${shop}/tables`, { name: 'orders', columns })).is(201);
    await eventually('the second server knows the table', async () => (await two.get(orders)).status === 200);
  });
  after(async () => {
    one?.child.kill('SIGCONT');
    await one?.close();
    await two?.close();
    engine?.child.kill('SIGKILL');
    places?.remove();
  });

  const count = async (server: ServerProcess, where: string): Promise<unknown> => {
    const body = { sql: `SELECT count(*) FROM orders WHERE ${where}`, waitSeconds: statementWaitSeconds() };
    const [[rows] = []] = (await server.post(`${shop}/query`, body)).is(200).at<number[][]>('rows');
    return rows;
  };
  /** A task of the first server that inserts rows with ids from `from`. */
  const startTask = async (from: number): Promise<string> => {
    const numbers = `WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ${rowsOfTask - 1})`;
    const sql = `INSERT INTO orders (id) ${numbers} SELECT ${from} + i FROM n`;
    const uri = (await one.post(`${shop}/query`, { sql, waitSeconds: 0 })).is(202).at<string>('uri');
    await eventually('the task runs', async () => (await one.get(uri)).at('state') === 'running');
    return uri;
  };
  const keyedChanges = (): KeyedChange[] =>
    Array.from({ length: requestsAtOnce }, (_, i) => {
      const key = randomUUID();
      return i % 2 === 0
        ? { key, path: `${orders}/rows`, body: { rows: [{ id: -1 - i }] } }
        : { key, path: `${shop}/tables`, body: { name: `t_${key}`, columns } };
    });
  const repeatThroughOther = async (changes: readonly KeyedChange[]): Promise<void> => {
    for (const change of changes)
      await eventually(
        `the answer to a repeated request on ${change.path}`,
        async () => {
          const { status, text } = await send(two, change);
          assert.ok([201, 503].includes(status), text);
          return status === 201;
        },
        30_000,
      );
  };
  const requireDoneOnce = async (servers: readonly ServerProcess[], task: string, from: number, rows: number) => {
    for (const server of servers) {
      await eventually('the task has ended', async () => (await server.get(task)).at('state') === 'succeeded', 30_000);
      assert.equal(await count(server, `id >= ${from} AND id < ${from + rowsOfTask}`), rowsOfTask);
      assert.equal(await count(server, 'id < 0'), rows);
    }
  };

  test('is done once if it continues after the other has taken it over', async (t) => {
    t.diagnostic(`SEED=${random.seed}`);
    const task = await startTask(0);
    const changes = keyedChanges();
    const answers = changes.map((change) => send(one, change).catch(() => undefined));
    await pause(random.below(40));
    one.child.kill('SIGSTOP');
    const frozenAt = performance.now();
    await repeatThroughOther(changes);
    await eventually('the other ends the task', async () => (await two.get(task)).at('state') === 'succeeded', 30_000);
    t.diagnostic(`taken over after ${Math.round(performance.now() - frozenAt)} ms`);
    one.child.kill('SIGCONT');
    for (const answer of await Promise.all(answers))
      if (answer && answer.status >= 500)
        assert.ok(['unknown', 'notApplied'].includes(answer.at('outcome')), answer.text);
    await requireDoneOnce([one, two], task, 0, requestsAtOnce / 2);
    const verdict = (await two.post('/api/v2/audit_events/verify', {})).is(200);
    assert.deepEqual(verdict.at('faults'), []);
  });

  test('is done by the other if it was killed', async (t) => {
    const task = await startTask(rowsOfTask);
    const changes = keyedChanges();
    const answers = changes.map((change) => send(one, change).catch(() => undefined));
    await pause(random.below(40));
    await kill(one);
    const killedAt = performance.now();
    await Promise.all(answers);
    await repeatThroughOther(changes);
    await eventually('the other ends the task', async () => (await two.get(task)).at('state') === 'succeeded', 30_000);
    t.diagnostic(`taken over after ${Math.round(performance.now() - killedAt)} ms`);
    await requireDoneOnce([two], task, rowsOfTask, requestsAtOnce);
    one = await places.one.start(['--log-level=silent']);
    await requireDoneOnce([one], task, rowsOfTask, requestsAtOnce);
  });
});
