// The 13 queries of the Star Schema Benchmark give the same results on DuckDB, on a cluster of three shards and on one of three copies; a lost copy
// changes no result, and a lost shard is a 503 that names the tablet and clears when its server is back.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type Client, createClient, errors } from '../../src/client/index.ts';
import { database, loadSsb, type SsbQuery, ssbQueries } from '../../src/demo/ssb_load.ts';
import { eventually } from '../deadline.ts';
import { clusterHosts, createClusterWarehouse } from '../engines/clickhouse/cluster_warehouse.ts';
import { missingRing, type Ring, startRing } from '../engines/clickhouse/ring/ring.ts';
import { start, type TestServer } from '../server.ts';

/** The smallest at which every query finds rows. */
const scale = 0.01;
/** After the end of a fault. */
const recoveredMs = 30_000;

describe('the Star Schema Benchmark on a cluster', { skip: missingRing }, () => {
  let ring: Ring;
  let server: TestServer;
  let client: Client;
  let queries: readonly SsbQuery[];
  let expected: readonly string[];

  /** The rows of a query in an order that does not depend on ties. */
  const resultOf = async (catalog: string, { sql }: SsbQuery): Promise<string> => {
    const rows = await Array.fromAsync(client.query(sql, { catalog, database }).arrays());
    return rows
      .map((row) => row.map(String).join('\t'))
      .sort()
      .join('\n');
  };
  const requireEqual = async (catalog: string, from = 0, to = queries.length): Promise<void> => {
    for (const [i, query] of queries.slice(from, to).entries())
      assert.equal(await resultOf(catalog, query), expected[from + i], `${query.name} on ${catalog}`);
  };

  before(async () => {
    [ring, server] = await Promise.all([startRing(3), start({ clusterHosts })]);
    client = createClient({ url: server.url, token: server.token });
    queries = await ssbQueries();
    assert.equal(queries.length, 13);
    for (const cluster of ['shards', 'copies'] as const)
      await createClusterWarehouse(client, ring, { name: cluster, cluster });
    for (const catalog of ['default', 'shards', 'copies'])
      await loadSsb({ url: server.url, token: server.token, scale, catalog });
    const results: string[] = [];
    for (const query of queries) results.push(await resultOf('default', query));
    assert.ok(results.every((text) => text !== ''));
    expected = results;
  });
  after(async () => {
    await server?.close();
    await ring?.close();
  });

  test('gives the results of DuckDB on three shards', () => requireEqual('shards'));

  test('gives the results of DuckDB on three copies, of which one is lost half way', async () => {
    const half = Math.floor(queries.length / 2);
    await requireEqual('copies', 0, half);
    await ring.nodes[1]?.kill();
    await requireEqual('copies', half);
    await ring.nodes[1]?.start();
    await eventually(
      'the copy is back',
      async () => {
        const { availability } = await client.warehouses('copies').backends('node-2').get();
        return availability === 'available';
      },
      recoveredMs,
    );
    await requireEqual('copies', 0, 2);
  });

  test('is answered with 503 and the tablet while a shard is lost, and again with the results afterwards', async () => {
    await ring.nodes[2]?.kill();
    const [query] = queries;
    assert.ok(query);
    await eventually('the loss is noticed', async () => {
      const reply = await server.post(`/api/v2/catalogs/shards/databases/${database}/query`, { sql: query.sql });
      // Never fewer rows: the whole result or none.
      if (reply.status !== 503) assert.fail(`${reply.status} ${reply.text}`);
      return reply.code === 'REPLICAS_UNAVAILABLE';
    });
    const error = await resultOf('shards', query).catch((reason: unknown) => reason);
    assert.ok(error instanceof errors.REPLICAS_UNAVAILABLE, String(error));
    assert.equal(error.status, 503);
    assert.match(JSON.stringify(error.result), /tablet/);
    assert.equal(error.result.outcome, 'notApplied');
    await ring.nodes[2]?.start();
    await eventually(
      'the shard is back',
      () =>
        resultOf('shards', query).then(
          () => true,
          () => false,
        ),
      recoveredMs,
    );
    await requireEqual('shards', 0, 2);
  });
});
