// A server that has lost its disk, as the checks of a cluster see it: it counts only when another server has given it everything again.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { HttpServer } from '../../../../src/engines/clickhouse/connection/http_server.ts';
import type { ClickHouseServer, ServerCall } from '../../../../src/engines/clickhouse/connection/server.ts';
import { lostTables } from '../../../../src/engines/clickhouse/replication/lost_tables.ts';
import { ReplicatedInserts } from '../../../../src/engines/clickhouse/replication/replicated_inserts.ts';
import { cutOff, takeBack } from '../../../../src/engines/clickhouse/replication/return_of_server.ts';
import { qualifiedName } from '../../../../src/engines/clickhouse/sql/identifiers.ts';
import { eventually } from '../../../deadline.ts';
import { missingReplicatedRing, type RingServer, startReplicatedRing } from '../replicated_ring/replicated_ring.ts';
import { clientOf } from '../replicated_ring/ring_client.ts';
import { batchOf, createTable, newTable, owns, rowsOn, timeoutMs } from './replicated_tables.ts';

test('a server without its disk does not count alone, and counts when others have given it back', {
  skip: missingReplicatedRing,
}, async (t) => {
  const ring = await startReplicatedRing({ sessionMs: 1000 });
  t.after(() => ring.close());
  const servers = await Promise.all(ring.servers.map(clientOf));
  const table = newTable('orders');
  const { signal } = new AbortController();
  for (const server of servers)
    assert.equal(await takeBack(server, { peers: [], owns, signal }), undefined, 'an empty cluster counts at once');
  const dropped = newTable('dropped');
  await createTable(servers, dropped);
  for (const server of servers) {
    const name = qualifiedName({ database: dropped.database, table: dropped.localTable });
    await server.text({ sql: `DROP TABLE ${name}`, timeoutMs });
  }
  // What is left of dropped tables in Keeper is not asked for, one by one.
  const asked: string[] = [];
  const first = servers[0] as HttpServer;
  const counted: ClickHouseServer = {
    name: first.name,
    version: first.version,
    text: (call) => first.text(call),
    stream: (call) => first.stream(call),
    rows: async <Row extends object>(call: ServerCall) => {
      asked.push(call.sql);
      return first.rows<Row>(call);
    },
  };
  assert.deepEqual(await lostTables(counted, { replica: 'r1', shard: '1', timeoutMs }), []);
  assert.ok(!asked.some((sql) => sql.includes(dropped.uuid)), asked.join('\n'));
  await createTable(servers, table);
  await new ReplicatedInserts().insert(batchOf(table, 'a', [1, 2]), {
    servers,
    replicasOfShard: 3,
    timeoutMs,
  });
  const victim = ring.servers[0] as RingServer;
  await victim.kill();
  victim.wipe();
  await victim.start();
  const returned = await clientOf(victim);
  const peers = servers.slice(1);
  assert.match(String(await takeBack(returned, { peers: [], owns, signal })), /lost 1 tables/);
  assert.match(String(await takeBack(returned, { peers, owns, signal })), /have not caught up/);
  let last: unknown;
  await eventually(
    'it counts again',
    async () => {
      last = await takeBack(returned, { peers, owns, signal }).catch((error: unknown) => String(error));
      return last === undefined;
    },
    40_000,
  ).catch((error: unknown) => {
    throw new Error(String(last), { cause: error });
  });
  assert.equal((await rowsOn(returned, table)).size, 2);
  assert.equal(await cutOff(returned, peers), undefined);
});
