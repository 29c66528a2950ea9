// The decommission of a server of which others have all rows: its tables are dropped there, and the rest continues without it.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import type { CatalogObject } from '../../../src/catalog/object.ts';
import { runningWhere } from '../../../src/engines/clickhouse/cluster/server_facts.ts';
import { commentOf } from '../../../src/engines/clickhouse/connection/server_settings.ts';
import { systemActor } from '../../../src/model/principal.ts';
import type { BackendSpec, Decommission } from '../../../src/model/records.ts';
import type { Services } from '../../../src/resources/records/handler_context.ts';
import { eventually } from '../../deadline.ts';
import { askNode } from '../../engines/clickhouse/ring/ask_node.ts';
import { clusters, missingRing, type Ring, type RingNode, startRing } from '../../engines/clickhouse/ring/ring.ts';
import { occupy } from '../../faults/cluster/node_contents.ts';
import { type Reply, start, type TestServer, temporaryDirectory } from '../../server.ts';
import { availabilityIs, backendsOf, clusterSettings, registerAll, warehouses } from './cluster_server.ts';

describe('a server whose copies others have', { skip: missingRing }, () => {
  let ring: Ring;
  let server: TestServer;
  let services: Services | undefined;
  let maintain: () => Promise<void>;
  let dataDir: string;
  const shop = '/api/v2/catalogs/copies/databases/shop';
  const startServer = async () => {
    const assembled = (all: Services) => {
      services = all;
    };
    const maintained = (all: () => Promise<void>) => {
      maintain = all;
    };
    server = await start({ ...clusterSettings, dataDir }, { assembled, maintained });
  };
  before(async () => {
    dataDir = await temporaryDirectory();
    [ring] = await Promise.all([startRing(3), startServer()]);
    await registerAll(server, 'copies', ring, clusters.copies);
    (await server.post('/api/v2/catalogs', { name: 'copies', warehouse: 'copies' })).is(201);
    (await server.put(shop)).is(201);
    (await server.post(`${shop}/tables`, { name: 'orders', columns: [{ name: 'id', type: 'BIGINT' }] })).is(201);
    const rows = Array.from({ length: 100 }, (_, id) => [id]);
    (await server.post(`${shop}/tables/orders/rows`, { rows })).is(201);
  });
  after(async () => {
    await server?.close();
    await ring?.close();
    await rm(dataDir, { recursive: true, force: true });
  });
  const countIs = async (count: number) =>
    assert.deepEqual((await server.post(`${shop}/query`, { sql: 'SELECT count(*) FROM orders' })).is(200).at('rows'), [
      [count],
    ]);

  const tablesLeft = () => askNode(ring.nodes[2], "SELECT count() FROM system.tables WHERE name LIKE '%local'");
  const node3Object = async (): Promise<CatalogObject<BackendSpec>> => {
    assert.ok(services);
    const [, backend] = await services.catalog.require([
      { category: 'warehouses', name: 'copies' },
      { category: 'backends', name: 'node3' },
    ]);
    return backend;
  };
  const change = async (to: (spec: BackendSpec) => BackendSpec) => {
    assert.ok(services);
    const { catalog, warehouses } = services;
    await catalog.retrying(async () => {
      const backend = await node3Object();
      await catalog.update(backend, { spec: to(backend.spec), principal: systemActor });
    });
    await warehouses.apply('copies');
  };
  /** As a server leaves it that ends in this phase. */
  const setPhase = (phase: Decommission['phase']) =>
    change((spec) => {
      assert.ok(spec.decommission);
      return { ...spec, decommission: { ...spec.decommission, phase } };
    });

  test('a decommission is cancelled, and has not failed, if its server died before it cancelled the task', async () => {
    const accepted = (await server.post(`${backendsOf('copies')}/node3/decommission`)).is(202);
    // What the cancellation does first.
    await change(({ decommission: _, ...spec }) => ({ ...spec, disabled: false }));
    (await server.ended(accepted)).is(200, '0', { state: 'cancelled' });
    // Lists have the newest first by ids that sort by time.
    assert.match(accepted.at('taskId'), /^[\da-f]{8}-[\da-f]{4}-7/);
    await availabilityIs(server, 'copies', ['node3'], 'available');
  });

  test('a backend is no longer being decommissioned if its server died when the task had just failed', async () => {
    const node3 = `${backendsOf('copies')}/node3`;
    const accepted = (await server.post(`${node3}/decommission`, { timeoutSeconds: 1 })).is(202);
    (await server.ended(accepted)).is(200, '0', { state: 'failed' });
    const taskId = accepted.at<string>('taskId');
    const isSettled = async () => (await server.get(node3)).is(200).at('state') === 'disabled';
    await eventually('it is settled', isSettled);
    // As that server leaves it; the second one also until the task was deleted.
    const decommission = { taskId, startedAt: new Date().toISOString(), phase: 'dropping' } as const;
    for (const left of [decommission, { ...decommission, taskId: randomUUID() }]) {
      await change((spec) => ({ ...spec, disabled: true, decommission: left }));
      (await server.post(`${node3}/enable`)).is(400, 'CHANGE_NOT_SUPPORTED');
      await maintain();
      assert.ok(await isSettled());
      (await server.post(`${node3}/enable`)).is(200);
    }
    await availabilityIs(server, 'copies', ['node3'], 'available');
  });

  test('a decommission that continues after a crash proves again that others have what it drops, and is not cancelled', async () => {
    const node3 = `${backendsOf('copies')}/node3`;
    const accepted = (await server.post(`${node3}/decommission`)).is(202);
    const task = `/api/v2/tasks/${accepted.at<string>('taskId')}`;
    await eventually('it says what it waits for', async () =>
      /^1 tablet remains; \w/.test((await server.get(task)).is(200).at<string | null>('progressText') ?? ''),
    );
    await setPhase('dropping');
    await server.post(`${task}/cancel`);
    // Twice as long as it takes the task to look again.
    for (let n = 0; n < 4; n++) {
      await pause(500);
      assert.equal(await tablesLeft(), '1');
      assert.ok(!['cancelled', 'failed', 'succeeded'].includes((await server.get(task)).is(200).at('state')));
    }
    (await server.get(node3)).is(200, '0', { state: 'decommissioning' });
    (await server.post(`${node3}/cancel_decommission`)).is(400, 'TASK_NOT_CANCELLABLE');
    await setPhase('draining');
    (await server.post(`${node3}/cancel_decommission`)).is(200);
    (await server.ended(accepted)).is(200, '0', { state: 'cancelled' });
    await availabilityIs(server, 'copies', ['node3'], 'available');
  });

  test('it is decommissioned when the definition of the cluster is without it, and then deleted', async () => {
    // That of another warehouse which has the server, too.
    const release = await occupy(ring.nodes[2] as RingNode, 'other');
    // Statements that would run for hours, begun one after another, because they are spread by load, until one runs on the backend. They wait
    // longer than usual: a slow machine takes its time until they are cancelled.
    const endless =
      'SELECT count(*) FROM orders a, orders b, orders c, orders d, orders e, orders f WHERE a.id + f.id < 0';
    const begun =
      "SELECT count() FROM system.processes WHERE is_initial_query AND query LIKE 'SELECT count(*)%orders%'";
    const running = () => Promise.all(ring.nodes.map(async (node) => Number(await askNode(node, begun))));
    const queries: Promise<Reply>[] = [];
    while ((await running())[2] === 0) {
      queries.push(server.post(`${shop}/query`, { sql: endless, waitSeconds: 300 }));
      await eventually('it runs', async () => queries.length === (await running()).reduce((sum, n) => sum + n));
    }
    const ids = begun.replace('count()', "arrayStringConcat(groupArray(query_id), ',')");
    const occupying = (await askNode(ring.nodes[2], ids)).split(',');
    const accepted = (await server.post(`${backendsOf('copies')}/node3/decommission`, { drainSeconds: 1 })).is(202);
    const write = () => server.post(`${shop}/tables/orders/rows`, { rows: [[100]] });
    (await write()).is(503, 'NOT_ENOUGH_BACKENDS', { needed: 3, available: 2, outcome: 'notApplied' });
    (await Promise.race(queries)).is(400, 'STATEMENT_CANCELLED');
    assert.equal(
      await askNode(ring.nodes[2], `SELECT count() FROM system.processes WHERE ${runningWhere(commentOf('other'))}`),
      '1',
    );
    await release();
    // Those on the other servers run on.
    const search = await server.post('/api/v2/queries/search', { state: 'running' });
    const left = search.is(200).at<{ queryId: string }[]>('queries');
    assert.equal(left.length, queries.length - occupying.length);
    for (const { queryId } of left) (await server.post(`/api/v2/queries/${queryId}/cancel`)).is(200);
    for (const query of queries) (await query).is(400, 'STATEMENT_CANCELLED');
    // The attempt of the task that cancelled them ends; the next one no longer finds them.
    const cancelled = async () => (await node3Object()).spec.decommission?.cancelled ?? [];
    await eventually('it is stored', async () => new Set(occupying).isSubsetOf(new Set(await cancelled())));
    const { length: queriesCancelled } = await cancelled();
    await server.close();
    await startServer();
    await ring.takeOut(2);
    const task = `/api/v2/tasks/${accepted.at<string>('taskId')}`;
    await eventually('it ends', async () => (await server.get(task)).is(200).at('state') === 'succeeded', 30_000);
    const ended = (await server.get(task)).is(200);
    assert.deepEqual(ended.at('result'), { backendId: 'node3', tabletsDropped: 1, queriesCancelled });
    (await server.get(`${backendsOf('copies')}/node3`)).is(200, '0', {
      state: 'decommissioned',
      availability: 'unavailable',
      decommission: { remainingTablets: 0, blockers: [] },
    });
    await eventually('it is written without it', async () => (await write()).status === 201, 30_000);
    assert.equal(await tablesLeft(), '0');
    (await server.post(`${backendsOf('copies')}/node3/decommission`)).is(400, 'CHANGE_NOT_SUPPORTED');
    (await server.delete(`${backendsOf('copies')}/node3`)).is(200, '0', { deleted: true });
    await availabilityIs(server, 'copies', ['node1', 'node2'], 'available');
    await countIs(101);
  });

  test('the cluster continues with the servers that remain', async () => {
    const shape = async () => (await server.get(`${warehouses}/copies`)).is(200).at<number>('replicaCount');
    await eventually('the warehouse follows the definition of its cluster', async () => (await shape()) === 2);
    (await server.post(`${shop}/tables/orders/rows`, { rows: [[101]] })).is(201);
    await countIs(102);
    (await server.get(`${warehouses}/copies`)).is(200, '0', { replicaCount: 2, backendCount: 2 });
    const body = { name: 'more', columns: [{ name: 'id', type: 'BIGINT' }] };
    (await server.post(`${shop}/tables`, body)).is(201, '0', { replicationNum: 2 });
  });
});
