// When a server counts: not while it is stale after a restart, nor while it lacks a table or what its peers have.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { ClickHouseServer } from '../../../../src/engines/clickhouse/connection/server.ts';
import { catchUp } from '../../../../src/engines/clickhouse/replication/catch_up.ts';
import { replicaStates } from '../../../../src/engines/clickhouse/replication/replica_states.ts';
import { ReplicatedInserts } from '../../../../src/engines/clickhouse/replication/replicated_inserts.ts';
import { eventually } from '../../../deadline.ts';
import {
  missingReplicatedRing,
  type ReplicatedRing,
  type RingServer,
  startReplicatedRing,
} from '../replicated_ring/replicated_ring.ts';
import { clientOf } from '../replicated_ring/ring_client.ts';
import { batchOf, createTable, newTable, rowsOn, timeoutMs } from './replicated_tables.ts';

describe('a server counts', { skip: missingReplicatedRing }, () => {
  const table = newTable('orders');
  const inserts = new ReplicatedInserts();
  let ring: ReplicatedRing;
  let servers: ClickHouseServer[];
  before(async () => {
    // Long enough that a killed server is started again before ZooKeeper drops its session.
    ring = await startReplicatedRing({ sessionMs: 6000 });
    servers = await Promise.all(ring.servers.map(clientOf));
    await createTable(servers, table);
  });
  after(() => ring?.close());

  const first = () => servers[0] as ClickHouseServer;
  const second = () => servers[1] as ClickHouseServer;
  const third = () => servers[2] as ClickHouseServer;
  const insert = (token: string, replicas: readonly ClickHouseServer[]) =>
    inserts.insert(batchOf(table, token, [1, 2, 3]), { servers: replicas, replicasOfShard: 3, timeoutMs });
  const behind = (server: ClickHouseServer, peers: readonly ClickHouseServer[]) =>
    catchUp(server, { expected: [table], peers, timeoutMs });
  const caughtUp = (server: ClickHouseServer, peers: readonly ClickHouseServer[]) =>
    eventually(
      'the server has caught up',
      async () => {
        const problems = await behind(server, peers).catch(() => undefined);
        return problems?.length === 0;
      },
      40_000,
    );

  test('when it has what its peers have', async () => {
    assert.deepEqual((await insert('a', servers)).behind, []);
    for (const server of servers) {
      await caughtUp(server, servers);
      assert.equal((await rowsOn(server, table)).size, 3);
    }
  });

  test('not while it lacks a table, or has it under another name', async () => {
    const other = newTable('absent');
    const expected = [table, other, { ...table, localTable: 'renamed__local' }];
    const reasons = (await catchUp(first(), { expected, peers: [second()], timeoutMs })).map(({ reason }) => reason);
    assert.deepEqual(reasons, ['missing', 'missing']);
  });

  test('not after a restart, before it is a replica again, though it says that it is', async () => {
    const victim = ring.servers[2] as RingServer;
    await victim.kill();
    await insert('b', [first(), second()]);
    await victim.start();
    const [state] = await replicaStates(third());
    // What it says of itself: that nothing is wrong.
    assert.equal(state?.isReadOnly, false);
    assert.equal(state?.queueSize, 0);
    assert.equal((await rowsOn(third(), table)).size, 3, 'it is stale');
    assert.notDeepEqual(await behind(third(), servers), []);
    await caughtUp(third(), servers);
    assert.equal((await rowsOn(third(), table)).size, 6);
  });
});
