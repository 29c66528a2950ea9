// Without Keeper: reads count on, inserts are refused, no server leaves.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { ClickHouseServer, ServerCall } from '../../../../src/engines/clickhouse/connection/server.ts';
import { decommissionBlockers } from '../../../../src/engines/clickhouse/replication/decommission_blockers.ts';
import { replicaStates } from '../../../../src/engines/clickhouse/replication/replica_states.ts';
import { cutOff } from '../../../../src/engines/clickhouse/replication/return_of_server.ts';
import { Failure } from '../../../../src/standard/failure.ts';
import { eventually } from '../../../deadline.ts';
import { missingReplicatedRing } from '../replicated_ring/replicated_ring.ts';
import { replicatedOrders } from './replicated_orders.ts';
import { rowsOn, timeoutMs } from './replicated_tables.ts';

/** A server that says of its replicas that they have a session, as one does that still reaches Keeper. */
const keepingSession = (server: ClickHouseServer): ClickHouseServer => ({
  name: server.name,
  version: server.version,
  text: (call) => server.text(call),
  stream: (call) => server.stream(call),
  rows: async <Row extends object>(call: ServerCall) =>
    (await server.rows<Row>(call)).map((row) => ({ ...row, is_readonly: 0, is_session_expired: 0 })),
});

describe('without Keeper', { skip: missingReplicatedRing }, () => {
  const { table, ring, servers, first, second, insert, caughtUp } = replicatedOrders();

  test('servers count on unless another one has it, and inserts are refused', async () => {
    await insert('a', servers());
    assert.equal(await cutOff(first(), [second()]), undefined);
    await ring().zookeeper.kill();
    const isCut = async (server: ClickHouseServer) => {
      const states = await replicaStates(server).catch(() => []);
      return states.length > 0 && states.every(({ isReadOnly }) => isReadOnly);
    };
    await eventually('the first server notices', () => isCut(first()), 30_000);
    assert.equal(await cutOff(first(), [keepingSession(second())]), 'it has no session with Keeper');
    await eventually('the second server notices', () => isCut(second()), 30_000);
    assert.equal(await cutOff(first(), [second()]), undefined);
    assert.equal((await rowsOn(first(), table)).size, 3);
    await assert.rejects(insert('b', servers(), 1000), (error) => {
      assert(error instanceof Failure, String(error));
      assert.equal(error.code, 'REPLICAS_UNAVAILABLE');
      return true;
    });
    const stuck = await decommissionBlockers({
      replica: 'r1',
      shard: '1',
      tables: [table],
      remaining: [second()],
      timeoutMs,
    });
    assert.deepEqual(
      stuck.map(({ reason }) => reason),
      ['Keeper is not available'],
    );
    await ring().zookeeper.start();
    for (const server of servers()) await caughtUp(server, servers());
    await insert('c', servers());
    // The quorum may be the first and the third.
    await eventually('the second has the rows', async () => (await rowsOn(second(), table)).has('c 1'));
  });
});
