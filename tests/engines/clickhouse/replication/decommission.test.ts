// What keeps a server from leaving: tablets that no other server has complete.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { ClickHouseServer } from '../../../../src/engines/clickhouse/connection/server.ts';
import { catchUp } from '../../../../src/engines/clickhouse/replication/catch_up.ts';
import { decommissionBlockers } from '../../../../src/engines/clickhouse/replication/decommission_blockers.ts';
import { ReplicatedInserts } from '../../../../src/engines/clickhouse/replication/replicated_inserts.ts';
import { eventually } from '../../../deadline.ts';
import { missingReplicatedRing, type ReplicatedRing, startReplicatedRing } from '../replicated_ring/replicated_ring.ts';
import { clientOf } from '../replicated_ring/ring_client.ts';
import { batchOf, createTable, newTable, onEach, timeoutMs } from './replicated_tables.ts';

describe('a server can leave', { skip: missingReplicatedRing }, () => {
  const table = newTable('orders');
  const inserts = new ReplicatedInserts();
  let ring: ReplicatedRing;
  let servers: ClickHouseServer[];
  before(async () => {
    ring = await startReplicatedRing();
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
    await caughtUp(third(), servers);
    // Also if the one that leaves is down.
    await ring.servers[0]?.kill();
    assert.deepEqual(await blockers('r1', '1', [second(), third()]), []);
  });
});
