// The 13 queries of the Star Schema Benchmark give the same results on DuckDB and, after moves, on a cluster of three shards and on one of three
// copies, with servers that are lost meanwhile. `npm run soak -- --only star` runs it at scale 1.
import { after, before, describe, test } from 'node:test';
import { clusterHosts } from '../engines/clickhouse/cluster_warehouse.ts';
import { missingRing, type Ring, startRing } from '../engines/clickhouse/ring/ring.ts';
import { start, type TestServer } from '../server.ts';
import { MovedSsb } from './moved_ssb.ts';

/** The smallest at which every query finds rows. */
const scale = 0.01;

describe('the Star Schema Benchmark on a cluster', { skip: missingRing }, () => {
  let ring: Ring;
  let server: TestServer;
  let ssb: MovedSsb;
  before(async () => {
    [ring, server] = await Promise.all([startRing(3), start({ clusterHosts })]);
    ssb = await MovedSsb.load(server, ring, scale);
  });
  after(async () => {
    await server?.close();
    await ring?.close();
  });

  test('gives the results of DuckDB after a move to three shards', async () => {
    await ssb.moveTo('shards');
    await ssb.requireEqual();
  });

  test('is answered with 503 and the tablet while a shard is lost, and again with the results afterwards', () =>
    ssb.requireRefusedWithoutShard(2));

  test('gives the results of DuckDB after a move to three copies, of which one is lost half way', async () => {
    // The servers are those of the shards, with the names of the catalog.
    await ssb.moveTo('default');
    await ssb.moveTo('copies');
    await ssb.requireEqualWithoutCopy(1);
  });
});
