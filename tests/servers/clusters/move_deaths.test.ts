// The server that moves a catalog away from a cluster is killed, while it holds all writes and at other steps: another server completes the move, writes come
// back, and no row is lost or doubled. SOAK_SEED replays a run; TEST_BUDGET=all kills it at every step.
import assert from 'node:assert/strict';
import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { Budget, runsAll } from '../../budget.ts';
import { deadlineMs, eventually } from '../../deadline.ts';
import { clusters, missingRing, type Ring, startRing } from '../../engines/clickhouse/ring/ring.ts';
import type { Fault } from '../../faults/injection/fault_plan.ts';
import { missingPostgresql } from '../../postgresql.ts';
import { Random, seedFrom } from '../../random.ts';
import type { ServerProcess } from '../../server.ts';
import { kill, newPlaces, type Places } from '../two_servers.ts';
import { availabilityIs, createWarehouse, register } from './cluster_server.ts';
import { RowWriter } from './row_writer.ts';

const catalog = '/api/v2/catalogs/lake';
const table = `${catalog}/databases/d/tables/t`;
const flags = ['--cluster-hosts=127.0.0.1'];
const armed = new URL('../../faults/cluster/armed_server.ts', import.meta.url);
const timeout = deadlineMs(runsAll ? 3_000_000 : 240_000);
const taskMs = 120_000;
const seed = seedFrom('SOAK_SEED');
const partSeconds = 4;
/** What a server had begun before it was frozen, it has done or given up after so long. */
const lateMs = 8_000;
/** A move from a cluster has about as many; later ones are not reached. */
const stepsOf = { store: 60, before: 30, after: 30 } as const;
const faults = (Object.keys(stepsOf) as (keyof typeof stepsOf)[]).flatMap((point) =>
  Array.from({ length: stepsOf[point] }, (_, i): Fault => ({ point, n: i + 1, isLasting: false })),
);
/** The copy gets the name of the catalog while all writes are held. */
const inHold: Fault = { point: 'before', n: 1, isLasting: false, callPrefixes: ['apply renameCatalog'] };

describe('the server that moves a catalog away from a cluster', { skip: missingRing || missingPostgresql }, () => {
  let rings: Ring[] = [];
  let places: Places;
  let mover: ServerProcess;
  let other: ServerProcess;
  let round = 0;
  before(async () => {
    [rings, places] = await Promise.all([Promise.all([startRing(1), startRing(1)]), newPlaces(undefined, armed)]);
    mover = await places.one.start(flags);
    other = await places.two.start(flags);
    for (const [index, name] of ['first', 'second'].entries()) {
      const node = rings[index]?.nodes[0];
      assert.ok(node);
      await createWarehouse(mover, name, clusters.shards);
      (await register(mover, name, 'node', node)).is(201);
      for (const server of [mover, other]) await availabilityIs(server, name, ['node'], 'available');
    }
    (await mover.post('/api/v2/catalogs', { name: 'lake', warehouse: 'first' })).is(201);
    (await mover.post(`${catalog}/databases`, { name: 'd' })).is(201);
    const columns = [
      { name: 'id', type: 'BIGINT' },
      { name: 'text', type: 'STRING' },
    ];
    (await mover.post(`${catalog}/databases/d/tables`, { name: 't', columns })).is(201);
    await eventually('the other server knows the catalog', async () => (await other.get(table)).status === 200);
  });
  after(async () => {
    await mover?.close();
    await other?.close();
    for (const ring of rings) await ring.close();
    places?.remove();
  });

  async function arm(fault: Fault, signal: 'SIGKILL' | 'SIGSTOP' = 'SIGKILL'): Promise<() => boolean> {
    const [file, ready, struck] = ['fault.json', 'armed', 'struck'].map((name) => join(places.one.directory, name));
    assert.ok(file !== undefined && ready !== undefined && struck !== undefined);
    for (const old of [ready, struck]) rmSync(old, { force: true });
    writeFileSync(file, JSON.stringify({ fault, signal }));
    mover.child.kill('SIGUSR2');
    await eventually('the server is armed', () => existsSync(ready));
    return () => existsSync(struck);
  }

  const warehouse = async () => (await other.get(catalog)).is(200).at<string>('warehouse');

  /** Without what it has not done of its last fault. */
  async function restartMover(): Promise<void> {
    await kill(mover);
    mover = await places.one.start(flags);
  }

  /** Moves the catalog to the other cluster while the other server writes. */
  async function killAt(fault: Fault): Promise<string> {
    const writer = new RowWriter(other, table, 1_000_000 * ++round);
    try {
      const from = await warehouse();
      const hasStruck = await arm(fault);
      const body = { warehouse: from === 'first' ? 'second' : 'first', pauseSeconds: 60, retainSeconds: 0 };
      const headers = { 'x-service-idempotency-key': `move-${round}` };
      const send = (server: ServerProcess) =>
        server.send('POST', `${catalog}/move`, { body, headers }).then(
          (reply) => reply,
          () => undefined,
        );
      const taskOf = (reply: { readonly text: string } | undefined) => String(JSON.parse(reply?.text ?? '').result.uri);
      let answer = await send(mover);
      const ends = async () => {
        if (hasStruck()) return true;
        if (answer?.status !== 202) return false;
        return /succeeded|failed/.test((await other.get(taskOf(answer))).at<string>('state'));
      };
      await eventually('the server is killed, or the move ends', ends, taskMs);
      const isStruck = hasStruck();
      if (isStruck) {
        await kill(mover);
        const before = writer.acknowledged.length;
        await eventually('writes come back', () => writer.acknowledged.length > before + 3, 30_000);
      }
      // With its key it is submitted once.
      await eventually('the move is submitted', async () => {
        if (answer?.status !== 202) answer = await send(other);
        return answer?.status === 202;
      });
      let state = '';
      await eventually(
        'the move has succeeded',
        async () => {
          const reply = await other.get(taskOf(answer));
          state = reply.status === 200 ? reply.at<string>('state') : '';
          return /succeeded|failed/.test(state);
        },
        taskMs,
      );
      const before = writer.acknowledged.length;
      await eventually('it is written', () => writer.acknowledged.length > before + 3, 30_000);
      await writer.end();
      if (isStruck) mover = await places.one.start(flags);
      const what = `${fault.point} ${fault.n}: ${isStruck ? 'killed' : 'not reached'}, ${state}`;
      assert.equal(state, 'succeeded', what);
      assert.equal(await warehouse(), body.warehouse, what);
      const sql = `SELECT id, count(*) FROM d.t WHERE id >= ${1_000_000 * round} GROUP BY id ORDER BY id`;
      const found = (await other.post(`${catalog}/query`, { sql })).is(200).at<[number, number][]>('rows');
      assert.deepEqual(
        found,
        writer.acknowledged.map((id) => [id, 1]),
        what,
      );
      return what;
    } finally {
      await writer.end();
    }
  }

  test('dies while it holds all writes, and another one completes the move', { timeout }, async (t) => {
    const what = await killAt(inHold);
    t.diagnostic(what);
    assert.match(what, /killed/);
  });

  test('is frozen while it holds all writes, and changes nothing more when it continues', { timeout }, async () => {
    const first = 1_000_000 * ++round;
    const rows = Array.from({ length: 100 }, (_, i) => [first + i, 'kept']);
    (await other.post(`${table}/rows`, { rows })).is(201);
    const to = (await warehouse()) === 'first' ? 'second' : 'first';
    const hasStruck = await arm(inHold, 'SIGSTOP');
    // Its pause is over when it continues.
    const body = { warehouse: to, pauseSeconds: 5, retainSeconds: 0 };
    const accepted = (await mover.post(`${catalog}/move`, body)).is(202);
    await eventually('the server is frozen', hasStruck, taskMs);
    try {
      await eventually(
        'another one has completed the move',
        async () => (await other.get(accepted.at('uri'))).at<string>('state') === 'succeeded',
        taskMs,
      );
      assert.equal(await warehouse(), to);
    } finally {
      mover.child.kill('SIGCONT');
    }
    await eventually('the frozen server answers', async () => (await mover.get(catalog)).status === 200, 60_000);
    await pause(lateMs);
    const sql = `SELECT count(*), count(DISTINCT id) FROM d.t WHERE id >= ${first}`;
    for (const server of [mover, other])
      assert.deepEqual((await server.post(`${catalog}/query`, { sql })).is(200).at('rows'), [[100, 100]]);
    (await other.post(`${table}/rows`, { rows: [[first + 100, 'later']] })).is(201);
    await restartMover();
  });

  test('dies at a step, and another one completes the move', { timeout }, async (t) => {
    t.diagnostic(`SOAK_SEED=${seed}`);
    for (const fault of new Budget(partSeconds).sample(faults, new Random(seed))) t.diagnostic(await killAt(fault));
  });
});
