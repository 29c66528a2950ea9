// A ring with one replicated table, for the tests of a suite: it is started before them and stopped after them.
import { after, before } from 'node:test';
import type { ClickHouseServer } from '../../../../src/engines/clickhouse/connection/server.ts';
import { catchUp } from '../../../../src/engines/clickhouse/replication/catch_up.ts';
import { ReplicatedInserts } from '../../../../src/engines/clickhouse/replication/replicated_inserts.ts';
import { eventually } from '../../../deadline.ts';
import { type ReplicatedRing, startReplicatedRing } from '../replicated_ring/replicated_ring.ts';
import { clientOf } from '../replicated_ring/ring_client.ts';
import { batchOf, createTable, newTable, timeoutMs } from './replicated_tables.ts';

type Servers = readonly ClickHouseServer[];

/** Call it in `describe`. */
export function replicatedOrders(options: Parameters<typeof startReplicatedRing>[0] = {}) {
  const table = newTable('orders');
  const inserts = new ReplicatedInserts();
  let ring: ReplicatedRing;
  let servers: ClickHouseServer[];
  before(async () => {
    ring = await startReplicatedRing(options);
    servers = await Promise.all(ring.servers.map(clientOf));
    await createTable(servers, table);
  });
  after(() => ring?.close());
  const behind = (server: ClickHouseServer, peers: Servers) => catchUp(server, { expected: [table], peers, timeoutMs });
  return {
    table,
    ring: () => ring,
    servers: (): Servers => servers,
    first: () => servers[0] as ClickHouseServer,
    second: () => servers[1] as ClickHouseServer,
    third: () => servers[2] as ClickHouseServer,
    /** Inserts three rows. */
    insert: (token: string, asked: Servers, limitMs = timeoutMs) =>
      inserts.insert(batchOf(table, token, [1, 2, 3]), { servers: asked, replicasOfShard: 3, timeoutMs: limitMs }),
    behind,
    caughtUp: (server: ClickHouseServer, peers: Servers) =>
      eventually(
        'the server has caught up',
        async () => {
          const problems = await behind(server, peers).catch(() => undefined);
          return problems?.length === 0;
        },
        40_000,
      ),
  };
}
