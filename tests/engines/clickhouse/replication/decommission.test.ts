// What keeps a server from leaving: tablets that no other server has complete.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { ClickHouseServer } from '../../../../src/engines/clickhouse/connection/server.ts';
import { decommissionBlockers } from '../../../../src/engines/clickhouse/replication/decommission_blockers.ts';
import { missingReplicatedRing } from '../replicated_ring/replicated_ring.ts';
import { replicatedOrders } from './replicated_orders.ts';
import { onEach, timeoutMs } from './replicated_tables.ts';

describe('a server can leave', { skip: missingReplicatedRing }, () => {
  const { table, ring, servers, first, second, third, insert, caughtUp } = replicatedOrders();

  test('where another replica has what it has', async () => {
    const blockers = async (
      replica: string,
      shard: string,
      remaining: readonly ClickHouseServer[],
      limitMs = timeoutMs,
    ) => {
      const options = { replica, shard, tables: [table], remaining, timeoutMs: limitMs };
      return (await decommissionBlockers(options)).map(({ reason }) => reason);
    };
    assert.deepEqual(await blockers('r1', '1', [second(), third()]), []);
    assert.deepEqual(await blockers('r1', '1', []), ['no other replica']);
    assert.deepEqual(await blockers('r1', '2', [second(), third()]), ['no other replica']);
    const fetches = (verb: string) => `SYSTEM ${verb} FETCHES ${table.database}.${table.localTable}`;
    await onEach([third()], fetches('STOP'));
    await insert('c', [first(), second()]);
    assert.deepEqual(await blockers('r1', '1', [third()], 2000), ['no other replica has caught up']);
    assert.deepEqual(await blockers('r1', '1', [third(), second()], 2000), [], 'one complete replica is enough');
    await onEach([third()], fetches('START'));
    await caughtUp(third(), servers());
    // Also if the one that leaves is down.
    await ring().servers[0]?.kill();
    assert.deepEqual(await blockers('r1', '1', [second(), third()]), []);
  });
});
