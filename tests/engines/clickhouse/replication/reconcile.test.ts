// A server that was down while definitions changed, or has lost its disk, gets what it missed; what nothing proves to be dropped is kept.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { HttpServer } from '../../../../src/engines/clickhouse/connection/http_server.ts';
import type { OwnsDatabase } from '../../../../src/engines/clickhouse/owned_databases.ts';
import { catchUp } from '../../../../src/engines/clickhouse/replication/catch_up.ts';
import { asideDatabase } from '../../../../src/engines/clickhouse/replication/missed_changes.ts';
import { type ReconcileReport, reconcile } from '../../../../src/engines/clickhouse/replication/reconcile.ts';
import { ReplicatedInserts } from '../../../../src/engines/clickhouse/replication/replicated_inserts.ts';
import type { ReplicatedTable } from '../../../../src/engines/clickhouse/replication/replicated_tables.ts';
import { readSchema } from '../../../../src/engines/clickhouse/replication/server_schema.ts';
import { eventually } from '../../../deadline.ts';
import {
  missingReplicatedRing,
  type ReplicatedRing,
  type RingServer,
  startReplicatedRing,
} from '../replicated_ring/replicated_ring.ts';
import { clientOf } from '../replicated_ring/ring_client.ts';
import { batchOf, createTable, database, newTable, onEach, owns, rowsOn, timeoutMs } from './replicated_tables.ts';

describe('a server that returns', { skip: missingReplicatedRing }, () => {
  const kept = newTable('kept');
  const renamed = newTable('renamed');
  const exchanged = newTable('exchanged');
  const dropped = newTable('dropped');
  const created = newTable('created');
  const inserts = new ReplicatedInserts();
  let ring: ReplicatedRing;
  let servers: HttpServer[];
  before(async () => {
    ring = await startReplicatedRing();
    servers = await Promise.all(ring.servers.map(clientOf));
    for (const table of [kept, renamed, exchanged, dropped]) await createTable(servers, table);
    await onEach(servers, `CREATE VIEW ${database}.v1 AS SELECT id FROM ${database}.kept`);
    await onEach(servers, 'CREATE DATABASE gone__shop');
    for (const table of [kept, renamed, exchanged, dropped]) await insert(table, 'a');
  });
  after(() => ring?.close());

  const insert = (table: ReplicatedTable, token: string, replicas: readonly HttpServer[] = servers) =>
    inserts.insert(batchOf(table, token, [1, 2]), { servers: replicas, replicasOfShard: 3, timeoutMs });
  const returns = async (
    victim: number,
  ): Promise<{ report: ReconcileReport; server: HttpServer; peers: HttpServer[] }> => {
    await ring.servers[victim]?.start();
    const server = await clientOf(ring.servers[victim] as RingServer);
    servers[victim] = server;
    const peers = servers.filter((each) => each !== server);
    // Keeper may still hold the session that it had.
    const report = await eventually('it is reconciled', () =>
      reconcile(server, { peers, owns, timeoutMs }).catch(() => undefined),
    );
    return { report, server, peers };
  };
  const sameSchemas = async () => {
    const [first, ...others] = await Promise.all(servers.map((server) => readSchema(server, owns, timeoutMs)));
    for (const other of others) assert.deepEqual(other, first);
  };
  const complete = async (server: HttpServer, expected: readonly ReplicatedTable[], peers: readonly HttpServer[]) => {
    let last: unknown;
    await eventually(
      'it has caught up',
      async () => {
        last = await catchUp(server, { expected, peers, timeoutMs }).catch((error) => error);
        return Array.isArray(last) && last.length === 0;
      },
      40_000,
    ).catch((error) => {
      throw new Error(JSON.stringify(last), { cause: error });
    });
  };

  test('gets created, altered, renamed and dropped objects, before it counts', async () => {
    const [first, second] = servers as [HttpServer, HttpServer];
    const others = [first, second];
    await ring.servers[2]?.kill();
    await createTable(others, created);
    await onEach(others, 'CREATE DATABASE new__shop');
    await onEach(others, 'DROP DATABASE gone__shop');
    await insert(created, 'a', others);
    // Names go round, and from one database to another.
    await onEach(
      others,
      `RENAME TABLE ${database}.renamed__local TO ${database}.t__local, ${database}.exchanged__local TO ${database}.renamed__local, ${database}.t__local TO ${database}.exchanged__local`,
    );
    await onEach(others, `RENAME TABLE ${database}.kept__local TO new__shop.kept__local`);
    await onEach(others, `DROP TABLE ${database}.dropped`);
    await onEach(others, `DROP TABLE ${database}.dropped__local`);
    await onEach(others, `DROP TABLE ${database}.kept`);
    await onEach(others, `DROP TABLE ${database}.v1`);
    await onEach(
      others,
      `CREATE TABLE new__shop.kept (id Int64, batch String, price Float64) ENGINE = Distributed('replicated', 'new__shop', 'kept__local', rand())`,
    );
    await onEach(others, 'CREATE VIEW new__shop.v2 AS SELECT id FROM new__shop.kept');
    await onEach(others, 'CREATE VIEW new__shop.v1 AS SELECT id FROM new__shop.v2');
    // It waits for all replicas: pending is what it is without one.
    const alter = first.text({
      sql: 'ALTER TABLE new__shop.kept__local ADD COLUMN price Float64',
      settings: { replication_alter_columns_timeout: 1 },
      timeoutMs,
    });
    await assert.rejects(alter, { code: 341 });
    const { report, server, peers } = await returns(2);
    assert.deepEqual(report.movedAside, []);
    assert.deepEqual(report.undecided, []);
    const { database: _, ...rest } = kept;
    const expected = [
      { ...rest, database: 'new__shop' },
      { ...renamed, localTable: exchanged.localTable },
      { ...exchanged, localTable: renamed.localTable },
      created,
    ];
    await complete(server, expected, peers);
    await sameSchemas();
    for (const table of expected) assert.equal((await rowsOn(server, table)).get('a 2'), 1, table.localTable);
    const again = await reconcile(server, { peers, owns, timeoutMs });
    assert.deepEqual(again, { created: [], renamed: [], dropped: [], movedAside: [], undecided: [] });
  });

  test('gets everything again when it has lost its disk', async () => {
    const before = await readSchema(servers[1] as HttpServer, owns, timeoutMs);
    await ring.servers[1]?.kill();
    ring.servers[1]?.wipe();
    const { server, peers } = await returns(1);
    const expected = before.objects.flatMap(({ uuid, database, name }) =>
      uuid ? [{ uuid, database, localTable: name }] : [],
    );
    assert.equal(expected.length, 4);
    await complete(server, expected, peers);
    await sameSchemas();
    for (const table of expected) assert.equal((await rowsOn(server, table)).get('a 1'), 1, table.localTable);
  });

  test('keeps rows of a table that no peer has and no peer has dropped', async () => {
    const [first, ...peers] = servers as [HttpServer, HttpServer, HttpServer];
    const own = newTable('own');
    await createTable([first], own);
    await inserts.insert(batchOf(own, 'a', [1, 2]), { servers: [first], replicasOfShard: 1, timeoutMs });
    const report = await reconcile(first, { peers, owns, timeoutMs });
    assert.deepEqual(report.movedAside, [`${database}.${own.localTable}`]);
    const aside = { ...own, database: asideDatabase, localTable: `\`${own.uuid}\`` };
    assert.equal((await rowsOn(first, aside)).size, 2);
    await sameSchemas();
  });

  test('keeps what is not owned, whatever its peers have', async () => {
    const [first, second, third] = servers as [HttpServer, HttpServer, HttpServer];
    const own: OwnsDatabase = (each) => owns(each) && each.name !== 'other__shop';
    const table = { ...newTable('orders'), database: 'other__shop' };
    await createTable([first, second], table);
    await inserts.insert(batchOf(table, 'a', [1, 2]), { servers: [first, second], replicasOfShard: 2, timeoutMs });
    // As when the last other backend of its warehouse is decommissioned.
    await onEach([second], 'DROP DATABASE other__shop');
    const report = await reconcile(first, { peers: [second, third], owns: own, timeoutMs });
    assert.deepEqual([report.movedAside, report.dropped], [[], []]);
    assert.equal((await rowsOn(first, table)).size, 2);
    await onEach([first], 'DROP DATABASE other__shop');
  });

  test('takes only tables that its peers have from a database that is not owned', async () => {
    const [first, ...peers] = servers as [HttpServer, HttpServer, HttpServer];
    const own: OwnsDatabase = (each) => owns(each) && each.name !== 'former__shop';
    const followed = newTable('followed');
    const ofOther = { ...newTable('of_other'), database: 'former__shop' };
    await createTable([first], { ...followed, database: 'former__shop' });
    await createTable(peers, followed);
    await createTable([first], ofOther);
    const report = await reconcile(first, { peers, owns: own, timeoutMs });
    assert.deepEqual(report.renamed, [`${database}.${followed.localTable}`]);
    assert.deepEqual(report.movedAside, []);
    assert.equal((await rowsOn(first, ofOther)).size, 0);
    await onEach([first], 'DROP DATABASE former__shop');
  });

  test('is left alone where its peers do not agree, because a change is under way', async () => {
    const [first, ...peers] = servers as [HttpServer, HttpServer, HttpServer];
    const halfDone = newTable('half_done');
    await createTable([first, ...peers.slice(0, 1)], halfDone);
    const { undecided, ...done } = await reconcile(first, { peers, owns, timeoutMs });
    assert.equal(undecided.includes(halfDone.uuid), true);
    assert.deepEqual(done, { created: [], renamed: [], dropped: [], movedAside: [] });
    await assert.rejects(reconcile(first, { peers: [], owns, timeoutMs }), TypeError);
  });
});
