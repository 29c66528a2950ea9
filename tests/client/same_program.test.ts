// A program that ran on DuckDB runs on a ClickHouse cluster without a changed line, and sees the same.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createClient } from '../../src/client/index.ts';
import { clusterHosts, createClusterWarehouse } from '../engines/clickhouse/cluster_warehouse.ts';
import { missingRing, startRing } from '../engines/clickhouse/ring/ring.ts';
import { start } from '../server.ts';
import { runProgram } from './same_program.ts';

test('a program sees the same on DuckDB and on a cluster', { skip: missingRing }, async (t) => {
  const [ring, server] = await Promise.all([startRing(3), start({ clusterHosts })]);
  t.after(async () => {
    await server.close();
    await ring.close();
  });
  const client = createClient({ url: server.url, token: server.token });
  for (const cluster of ['shards', 'copies'] as const)
    await createClusterWarehouse(client, ring, { name: cluster, cluster });
  const onDuckdb = await runProgram(client, 'default');
  for (const catalog of ['shards', 'copies']) assert.deepEqual(await runProgram(client, catalog), onDuckdb, catalog);
});
