// Two servers of the API on a cluster that replicates: what one of them acknowledged, the other one reads, although a replica lacks it.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { Cluster } from '../../../../src/engines/clickhouse/cluster/cluster.ts';
import type { ClickHouseServer } from '../../../../src/engines/clickhouse/connection/server.ts';
import type { ReplicaFinding, ReplicaNotices } from '../../../../src/engines/cluster/replica_notices.ts';
import { Failure } from '../../../../src/standard/failure.ts';
import { eventually } from '../../../deadline.ts';
import { missingPostgresql } from '../../../postgresql.ts';
import type { ServerProcess } from '../../../server.ts';
import { availabilityIs, createDatabase, registerAll } from '../../../servers/clusters/cluster_server.ts';
import { newPlaces, type Places } from '../../../servers/two_servers.ts';
import { accessTo } from '../engine.ts';
import { askNode } from '../ring/ask_node.ts';
import { type CuttingProxy, startCuttingProxy } from '../ring/cutting_proxy.ts';
import { clusterName, missingOldestVersion, type ReplicatedRing, startReplicatedRing } from './replicated_ring.ts';

const readAfter = 'x-service-read-after';
const nodes = ['node1', 'node2', 'node3'];
const database = '/api/v2/catalogs/c/databases/d';
const local = 'c__d.t__local';

describe('two servers on a cluster that replicates', { skip: missingPostgresql || missingOldestVersion }, () => {
  let ring: ReplicatedRing;
  let places: Places;
  let one: ServerProcess;
  let other: ServerProcess;
  let inserted = 0;
  let position = '';

  const onNode = (index: number, sql: string) => askNode(ring.servers[index], sql);
  const insert = async (server: ServerProcess) => {
    const { headers } = (await server.post(`${database}/tables/t/rows`, { rows: [[++inserted]] })).is(201);
    position = String(headers[readAfter]);
  };
  /** Often enough that each node is asked. */
  const requireAll = async (server: ServerProcess) => {
    for (let n = 0; n < 6; n++) {
      const body = { sql: 'SELECT count(*) FROM t' };
      const reply = await server.request('POST', `${database}/query`, { body, headers: { [readAfter]: position } });
      assert.deepEqual(reply.is(200).at('rows'), [[inserted]]);
    }
  };

  before(async () => {
    const started = startReplicatedRing({ version: '24.8', sessionMs: 10_000 });
    [ring, places] = await Promise.all([started, newPlaces()]);
    one = await places.one.start(['--cluster-hosts=127.0.0.1']);
    other = await places.two.start(['--cluster-hosts=127.0.0.1']);
    await registerAll(one, 'w', { nodes: ring.servers }, clusterName);
    await availabilityIs(other, 'w', nodes, 'available');
    await createDatabase(one, 'w');
    const columns = [{ name: 'id', type: 'BIGINT' }];
    (await one.post(`${database}/tables`, { name: 't', columns })).is(201);
  });
  after(async () => {
    await other?.close();
    await one?.close();
    await ring?.close();
    places?.remove();
  });

  test('a replica that has not taken over what one acknowledged is not read by the other', async () => {
    await onNode(2, `SYSTEM STOP FETCHES ${local}`);
    try {
      const lacksRows = async () => (await onNode(2, `SELECT count() FROM ${local}`)) !== String(inserted);
      // Until another node than the third one has got rows first.
      do await insert(one);
      while (!(await lacksRows()) && inserted < 50);
      assert.ok(await lacksRows());
      await requireAll(other);
      await requireAll(one);
      await insert(other);
      await requireAll(one);
    } finally {
      await onNode(2, `SYSTEM START FETCHES ${local}`);
    }
  });

  test('it is read again, by both, when it has caught up, while rows are inserted', async () => {
    let isOver = false;
    const writing = (async () => {
      while (!isOver) {
        await insert(one);
        await requireAll(other);
        await insert(other);
        await requireAll(one);
      }
    })();
    try {
      for (const server of [one, other]) await availabilityIs(server, 'w', nodes, 'available');
    } finally {
      isOver = true;
      await writing;
    }
    await eventually(
      'the third node has all rows',
      async () => (await onNode(2, `SELECT count() FROM ${local}`)) === String(inserted),
    );
    await requireAll(other);
  });

  test('a replica that has not emptied a table as the others have is not read', async () => {
    await insert(one);
    await requireAll(other);
    await onNode(2, `SYSTEM STOP REPLICATION QUEUES ${local}`);
    const read = one.post(`${database}/tables/t/truncate`).then(async (reply) => {
      position = String(reply.is(200).headers[readAfter]);
      inserted = 0;
      await requireAll(other);
      await requireAll(one);
    });
    // The other nodes need less.
    await Promise.race([read, pause(2000)]).finally(() => onNode(2, `SYSTEM START REPLICATION QUEUES ${local}`));
    await read;
  });

  describe('one of which does not reach a node', () => {
    let proxy: CuttingProxy;
    let clusters: readonly Cluster[] = [];
    let failure: Error | undefined;
    const ask = async (server: ClickHouseServer) => void (await server.text({ sql: 'SELECT 1', timeoutMs: 30_000 }));
    const find = (cluster: number) => clusters[cluster]?.member('node3');
    const isRead = (cluster: number) => find(cluster)?.isAvailable;
    const publish = async (backends: readonly string[], finding: ReplicaFinding) => {
      if (failure) throw failure;
      for (const cluster of clusters) for (const backend of backends) cluster.replicaChanged(backend, finding);
    };
    const notices: ReplicaNotices = {
      follow: async () => undefined,
      publishBehind: (backends) => publish(backends, 'behind'),
      publishReading: (backend) => publish([backend], 'reading'),
    };
    const clusterOf = (urls: readonly string[]) =>
      new Cluster(
        {
          ...accessTo(
            urls.map((url) => ({ url })),
            clusterName,
          ),
          notices,
        },
        { hosts: undefined, owns: async () => () => false, completeLeft: async () => 0 },
      );

    before(async () => {
      const [first = '', second = '', third = ''] = ring.servers.map(({ url }) => url);
      proxy = await startCuttingProxy(third);
      clusters = [clusterOf([first, second, proxy.url]), clusterOf([first, second, third])];
      for (const cluster of clusters) await cluster.open();
    });
    after(async () => {
      for (const cluster of clusters) await cluster.close();
      proxy?.close();
    });

    test('both read it before', async () => {
      await eventually('both read the node', async () => isRead(0) && isRead(1));
      assert.equal(await clusters[0]?.takeOver(async () => undefined), 3);
    });

    test('the other reads it no more when a change is acknowledged without it, again and again', async () => {
      proxy.cutAt(/./);
      await eventually('the node is lost', async () => isRead(0) === false);
      await eventually('the other reads it: nothing was acknowledged without it', async () => isRead(1) === true);
      for (let n = 0; n < 2; n++) {
        assert.equal(await clusters[0]?.takeOver(ask), 2);
        assert.equal(isRead(1), false);
        // It lacks nothing, as far as the other can see.
        await eventually('the other reads it again', async () => isRead(1) === true);
      }
    });

    test('nothing is acknowledged if the other cannot be told', async () => {
      failure = new Failure('STORE_UNAVAILABLE', 'it is away');
      const change = () => clusters[0]?.takeOver(async (server) => assert.notEqual(server.name, 'node3'));
      const isRefused = (error: Failure) => error.code === 'STORE_UNAVAILABLE' && error.outcome === 'unknown';
      for (let n = 0; n < 2; n++) await assert.rejects(async () => change(), isRefused);
      failure = undefined;
      assert.equal(await change(), 2);
      assert.equal(isRead(1), false);
    });

    test('a loss during a check counts', async () => {
      proxy.mend();
      await eventually('both read the node', async () => isRead(0) && isRead(1));
      const checked = Promise.withResolvers<void>();
      const lost = Promise.withResolvers<void>();
      // Which only a server that is to count again is asked.
      proxy.holdOnce(/create_table_query FROM system\.tables/, async () => {
        checked.resolve();
        await lost.promise;
      });
      find(0)?.lose('for a test');
      await checked.promise;
      assert.equal(find(0)?.availability, 'catchingUp');
      find(0)?.lose('for a test, again');
      lost.resolve();
      await clusters[0]?.takeOver(async () => undefined);
      assert.equal(isRead(0), false);
      await eventually('the node is read', async () => isRead(0) === true);
    });
  });
});
