// A move that is killed when the copy has the name of the catalog, but the catalog has not switched, and is cancelled then: its copy is removed from
// the nodes under that name too, and the catalog can be moved there again.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { deadlineMs, eventually } from '../../deadline.ts';
import { clusterHosts, createClusterWarehouse } from '../../engines/clickhouse/cluster_warehouse.ts';
import { freePorts } from '../../engines/clickhouse/ring/free_ports.ts';
import { clusters, missingRing, type RingNode, startRing } from '../../engines/clickhouse/ring/ring.ts';
import { pathOf } from '../injection/api.ts';
import { requireAcknowledged } from '../scenarios/scenario_parts.ts';
import { endedState } from './checked_api.ts';
import { ClusterServer } from './cluster_world.ts';
import { loopback } from './network.ts';
import { arm, armedServer, struckAt } from './step_faults.ts';

const clearedMs = 60_000;
const catalog = pathOf('catalogs', 'lake');

async function databasesOn(node: RingNode): Promise<string[]> {
  const sql = `SELECT name FROM system.databases WHERE match(name, '^(lake|moving_.*)__') ORDER BY name FORMAT TSV`;
  const response = await fetch(node.url, { method: 'POST', body: sql });
  return (await response.text()).split('\n').filter(Boolean);
}

test('a copy that has the name of its catalog is removed with its move', {
  timeout: deadlineMs(180_000),
  skip: missingRing,
}, async () => {
  const ring = await startRing(2);
  const directory = mkdtempSync(join(tmpdir(), 'tabularium-named-copy-'));
  const [port] = await freePorts(1);
  const ownFlags = [`--port=${port}`, `--cluster-hosts=${clusterHosts}`];
  const server = new ClusterServer(loopback.host('one'), directory, {
    ownFlags,
    entry: armedServer,
    known: { position: 0 },
  });
  after(async () => {
    await server.close();
    await ring.close();
    rmSync(directory, { recursive: true, force: true });
  });
  await server.start();
  const { api } = server;
  await createClusterWarehouse(api.client, ring, { name: 'cluster', cluster: clusters.copies });
  await requireAcknowledged(api.put(catalog, {}));
  await requireAcknowledged(api.put(`${catalog}/databases/d`, {}));
  const columns = [{ name: 'id', type: 'BIGINT' }];
  await requireAcknowledged(api.post(`${catalog}/databases/d/tables`, { name: 't', columns }));
  await requireAcknowledged(api.post(`${catalog}/databases/d/tables/t/rows`, { rows: [[1], [2]] }));
  const move = () => api.post(`${catalog}/move`, { warehouse: 'cluster', retainSeconds: 0 });
  const ended = (taskId: unknown) =>
    eventually(
      'the task has ended',
      async () => endedState((await api.get(pathOf('tasks', String(taskId)))).result),
      clearedMs,
    );
  const query = async () => (await api.post(`${catalog}/query`, { sql: 'SELECT count(*), sum(id) FROM d.t' })).result;

  const fault = { point: 'after', n: 1, isLasting: false, callPrefixes: ['apply renameCatalog'] } as const;
  await arm(server, { fault });
  const { taskId } = (await requireAcknowledged(move())).result;
  await eventually('it is killed', () => struckAt(server) !== undefined, clearedMs);
  await server.kill();
  assert.deepEqual(await databasesOn(ring.nodes[0] as RingNode), ['lake__d'], 'the copy has the name');
  // The move cannot continue before it is cancelled.
  for (const node of ring.nodes) await node.kill();
  await server.start();
  await eventually(
    'it is cancelled',
    async () => (await api.post(`${pathOf('tasks', String(taskId))}/cancel`)).status < 300,
  );
  assert.equal(await ended(taskId), 'cancelled');
  for (const node of ring.nodes) await node.start();
  for (const node of ring.nodes)
    await eventually('the copy is removed', async () => (await databasesOn(node)).length === 0, clearedMs);
  assert.deepEqual((await query()).rows, [[2, 3]]);

  const again = await eventually('it is moved again', async () => {
    const answer = await move();
    return answer.status === 202 && answer;
  });
  assert.equal(await ended(again.result.taskId), 'succeeded');
  assert.deepEqual((await query()).rows, [[2, 3]]);
  for (const node of ring.nodes) assert.deepEqual(await databasesOn(node), ['lake__d']);
  assert.deepEqual(api.problems, []);
});
