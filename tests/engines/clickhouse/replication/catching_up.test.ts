// When a server counts: not while it is stale after a restart, nor while it lacks a table or what its peers have.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { catchUp } from '../../../../src/engines/clickhouse/replication/catch_up.ts';
import { replicaStates } from '../../../../src/engines/clickhouse/replication/replica_states.ts';
import { eventually } from '../../../deadline.ts';
import { missingReplicatedRing, type RingServer } from '../replicated_ring/replicated_ring.ts';
import { replicatedOrders } from './replicated_orders.ts';
import { newTable, rowsOn, timeoutMs } from './replicated_tables.ts';

describe('a server counts', { skip: missingReplicatedRing }, () => {
  // Long enough that a killed server is started again before ZooKeeper drops its session.
  const { table, ring, servers, first, second, third, insert, behind, caughtUp } = replicatedOrders({
    sessionMs: 6000,
  });

  test('when it has what its peers have', async () => {
    await insert('a', servers());
    for (const server of servers()) {
      await caughtUp(server, servers());
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
    const victim = ring().servers[2] as RingServer;
    // Sessions of this version are distinguished by clocks, in seconds.
    await eventually('its session is older than its next start', async () => {
      const [row] = await third().rows<{ seconds: number }>({ sql: 'SELECT uptime() AS seconds', timeoutMs });
      return Number(row?.seconds) >= 4;
    });
    await victim.kill();
    await insert('b', [first(), second()]);
    await victim.start();
    const [state] = await replicaStates(third());
    // What it says of itself: that nothing is wrong.
    assert.equal(state?.isReadOnly, false);
    assert.equal(state?.queueSize, 0);
    assert.equal((await rowsOn(third(), table)).size, 3, 'it is stale');
    // Unless it has caught up meanwhile.
    if ((await behind(third(), servers())).length === 0) assert.equal((await rowsOn(third(), table)).size, 6);
    await caughtUp(third(), servers());
    assert.equal((await rowsOn(third(), table)).size, 6);
  });
});
