// Servers are killed, some with their disks, or freeze, alone or all at once, and so does ZooKeeper, while batches are inserted: no acknowledged
// row is lost, none is there twice. TEST_SEED replays a run; TEST_BUDGET=60 continues for a minute.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import type { HttpServer } from '../../../../src/engines/clickhouse/connection/http_server.ts';
import { catchUp } from '../../../../src/engines/clickhouse/replication/catch_up.ts';
import { reconcile } from '../../../../src/engines/clickhouse/replication/reconcile.ts';
import { replicaStates } from '../../../../src/engines/clickhouse/replication/replica_states.ts';
import { ReplicatedInserts } from '../../../../src/engines/clickhouse/replication/replicated_inserts.ts';
import { codes } from '../../../../src/standard/codes.ts';
import { Failure } from '../../../../src/standard/failure.ts';
import { Budget } from '../../../budget.ts';
import { deadlineMs, eventually } from '../../../deadline.ts';
import { Random, seedFrom } from '../../../random.ts';
import { missingReplicatedRing, type RingServer, startReplicatedRing } from '../replicated_ring/replicated_ring.ts';
import { clientOf } from '../replicated_ring/ring_client.ts';
import { batchOf, createTable, newTable, owns, rowsOn, timeoutMs } from './replicated_tables.ts';

const tableCount = 3;
const runsMin = 8;
const runsMax = 200;
/** For the log of one table to be carried out while it is written. */
const catchUpMs = 2000;
const seconds = 1;
/** The shortest: a server that returns earlier waits 10 s until it tries again to be a replica. */
const sessionMs = 1000;
const earlyReturns = 0.1;
/** On a busy machine, servers whose sessions are so short may never get ahead of writers that do not pause. */
const busyMs = 20_000;
const busyPauseMs = 2000;
/** Of faults that are no kill of a single server. */
const othersChance = 0.4;

test('nothing acknowledged is lost or doubled when servers lose their disks', {
  timeout: deadlineMs(200_000),
  skip: missingReplicatedRing,
}, async (t) => {
  const random = new Random(seedFrom('TEST_SEED'));
  t.diagnostic(`TEST_SEED=${random.seed}`);
  const ring = await startReplicatedRing({ sessionMs });
  t.after(() => ring.close());
  const servers = await Promise.all(ring.servers.map(clientOf));
  const tables = Array.from({ length: tableCount }, (_, n) => newTable(`t${n}`));
  for (const table of tables) await createTable(servers, table);
  const inserts = new ReplicatedInserts();
  const acknowledged = tables.map(() => new Set<string>());
  const sent = tables.map(() => new Set<string>());
  let tokens = 0;
  const faults: Record<string, number> = {};
  const count = (fault: string) => {
    faults[fault] = (faults[fault] ?? 0) + 1;
  };
  /** Kills a server, mostly with its disk, and starts it again. */
  const killOne = async (run: number): Promise<RingServer> => {
    const victim = ring.servers[random.below(3)] as RingServer;
    const losesDisk = random.chance(0.7);
    await victim.kill();
    count('kill of a server');
    const others = servers.filter(({ name }) => name !== victim.name) as [HttpServer, HttpServer];
    const isGone = async () =>
      (await replicaStates(others[0], timeoutMs)).every(({ activeReplicas }) => activeReplicas < 3);
    if (run < runsMin || !random.chance(earlyReturns)) await eventually('its session has expired', isGone, 20_000);
    if (losesDisk) victim.wipe();
    await victim.start();
    return victim;
  };
  /** Kills or freezes ZooKeeper, or all servers, or freezes one. @returns the servers that must count again. */
  const strikeOthers = async (): Promise<readonly RingServer[]> => {
    const [name, struck] = random.pick([
      ['ZooKeeper', [ring.zookeeper]],
      ['all servers', ring.servers],
      ['a server', [random.pick(ring.servers)]],
    ] as const);
    const isFrozen = name === 'a server' || random.chance(0.5);
    count(`${isFrozen ? 'SIGSTOP' : 'kill'} of ${name}`);
    for (const each of struck) await (isFrozen ? each.freeze() : each.kill());
    await pause(100 + random.below(2 * sessionMs));
    for (const each of struck) await (isFrozen ? each.resume() : each.start());
    return ring.servers;
  };
  const countsAgain = async (victim: RingServer, run: number): Promise<void> => {
    const server = servers[ring.servers.indexOf(victim)] as HttpServer;
    const peers = servers.filter((each) => each !== server);
    let last: unknown;
    const counts = async () => {
      try {
        await reconcile(server, { peers, owns, timeoutMs });
        last = await catchUp(server, { expected: tables, peers, timeoutMs: catchUpMs });
        return Array.isArray(last) && last.length === 0;
      } catch (error) {
        last = error;
        return false;
      }
    };
    await eventually(`${victim.name} counts again`, counts, 60_000).catch((error) => {
      throw new Error(`run ${run}: ${JSON.stringify(last)} ${last}`, { cause: error });
    });
  };
  const hasTime = new Budget(seconds).part();
  for (let run = 0; run < runsMin || (run < runsMax && hasTime()); run++) {
    let halted = false;
    const begun = performance.now();
    t.after(() => {
      halted = true;
    });
    const writers = tables.map(async (table, n) => {
      while (!halted) {
        const token = `b${++tokens}`;
        const batch = batchOf(table, token, [1, 2, 3]);
        for (const id of [1, 2, 3]) sent[n]?.add(`${token} ${id}`);
        try {
          await inserts.insert(batch, { servers, replicasOfShard: 3, timeoutMs: deadlineMs(15_000) });
          for (const id of [1, 2, 3]) acknowledged[n]?.add(`${token} ${id}`);
        } catch (error) {
          assert(error instanceof Failure && codes[error.code].status === 503, String((error as Error).stack));
        }
        if (performance.now() - begun > busyMs) await pause(busyPauseMs);
      }
    });
    await pause(50 + random.below(300));
    const victims = random.chance(othersChance) ? await strikeOthers() : [await killOne(run)];
    // With the writers, until they count again.
    for (const victim of victims) await countsAgain(victim, run);
    halted = true;
    await Promise.all(writers);
    for (const [n, table] of tables.entries())
      for (const each of servers) {
        const problems = await catchUp(each, { expected: [table], peers: servers, timeoutMs });
        assert.deepEqual(problems, [], `run ${run}`);
        const rows = await rowsOn(each, table);
        const lost = [...(acknowledged[n] ?? [])].filter((row) => !rows.has(row));
        assert.deepEqual(lost, [], `run ${run}: lost on ${each.name}`);
        const wrong = [...rows].filter(([row, times]) => times !== 1 || !sent[n]?.has(row));
        assert.deepEqual(wrong, [], `run ${run}: doubled or never sent, on ${each.name}`);
      }
  }
  const rowCount = acknowledged.reduce((sum, rows) => sum + rows.size, 0);
  assert(rowCount > 0);
  t.diagnostic(`${JSON.stringify(faults)} under ${rowCount} acknowledged rows in ${tokens} batches`);
});
