// The Star Schema Benchmark in a catalog that is moved from DuckDB to clusters, and that servers of a cluster are lost does not change a result:
// with copies all queries are answered, with shards they are refused with the tablet until the server is back.
import assert from 'node:assert/strict';
import { type Client, createClient, errors } from '../../src/client/index.ts';
import { database, loadSsb, type SsbQuery, ssbQueries } from '../../src/demo/ssb_load.ts';
import { eventually } from '../deadline.ts';
import { createClusterWarehouse } from '../engines/clickhouse/cluster_warehouse.ts';
import type { Ring } from '../engines/clickhouse/ring/ring.ts';

/** After the end of a fault. */
const recoveredMs = 30_000;
const catalog = 'default';

export interface SsbServer {
  readonly url: string;
  readonly token: string;
}

/** Rows of results in an order that does not depend on ties. */
const inOrder = (rows: readonly (readonly unknown[])[]): string =>
  rows
    .map((row) => row.map(String).join('\t'))
    .sort()
    .join('\n');

export class MovedSsb {
  readonly #client: Client;
  readonly #ring: Ring;
  readonly #queries: readonly SsbQuery[];
  readonly #expected: readonly string[];
  /** Results that were compared with those of DuckDB. */
  compared = 0;
  readonly rowCount: number;

  private constructor(client: Client, ring: Ring, queries: readonly SsbQuery[], expected: string[], rowCount: number) {
    this.#client = client;
    this.#ring = ring;
    this.#queries = queries;
    this.#expected = expected;
    this.rowCount = rowCount;
  }

  /** Loads the benchmark into DuckDB, which answers its queries, and creates the warehouses `shards` and `copies` on the ring. */
  static async load({ url, token }: SsbServer, ring: Ring, scale: number): Promise<MovedSsb> {
    // Asks once: a retry would hide what a lost server does to a statement.
    const client = createClient({ url, token, retryForMs: 0 });
    const loaded = await loadSsb({ url, token, scale, catalog });
    const queries = await ssbQueries();
    assert.equal(queries.length, 13);
    for (const cluster of ['shards', 'copies'] as const)
      await createClusterWarehouse(client, ring, { name: cluster, cluster });
    const expected: string[] = [];
    const rowCount = loaded.reduce((sum, { rows }) => sum + rows, 0);
    const ssb = new MovedSsb(client, ring, queries, expected, rowCount);
    for (const query of queries) expected.push(await ssb.#resultOf(query));
    assert.ok(expected.every((text) => text !== ''));
    return ssb;
  }

  /** The warehouse that has the tables afterwards is the only one that answers. */
  async moveTo(warehouse: string): Promise<void> {
    await this.#client.catalogs(catalog).move({ warehouse, retainSeconds: 0, dropUnenforcedKeys: true }).done();
    assert.equal((await this.#client.catalogs(catalog).get()).warehouse, warehouse);
  }

  async requireEqual(from = 0, to = this.#queries.length): Promise<void> {
    for (const [i, query] of this.#queries.slice(from, to).entries()) {
      assert.equal(await this.#resultOf(query), this.#expected[from + i], query.name);
      this.compared++;
    }
  }

  /** Half way through the queries, a server is killed. */
  async requireEqualWithoutCopy(index: number): Promise<void> {
    const half = Math.floor(this.#queries.length / 2);
    await this.requireEqual(0, half);
    await this.#ring.nodes[index]?.kill();
    await this.requireEqual(half);
    await this.#ring.nodes[index]?.start();
    const backend = this.#client.warehouses('copies').backends(`node-${index + 1}`);
    const isBack = async () => (await backend.get()).availability === 'available';
    await eventually('the copy is back', isBack, recoveredMs);
    await this.requireEqual(0, 2);
  }

  /** Never fewer rows: the whole result or none. */
  async requireRefusedWithoutShard(index: number): Promise<void> {
    await this.#ring.nodes[index]?.kill();
    // Also before the server has noticed the loss by itself.
    for (let repeat = 0; repeat < 3; repeat++) {
      const error = await this.#failureOfFirst();
      assert.ok(error instanceof errors.REPLICAS_UNAVAILABLE, String(error));
      const { result } = error;
      const missing = new RegExp(`{"table":"${catalog}.${database}.lineorder","tabletId":"${index + 1}"}`);
      assert.match(JSON.stringify(result), missing);
      assert.equal(result.outcome, 'notApplied');
    }
    await this.#ring.nodes[index]?.start();
    await eventually('the shard is back', async () => (await this.#failureOfFirst()) === undefined, recoveredMs);
    await this.requireEqual(0, 3);
  }

  async #failureOfFirst(): Promise<unknown> {
    const [query] = this.#queries;
    assert.ok(query);
    return this.#resultOf(query).then(
      () => undefined,
      (error: unknown) => error,
    );
  }

  async #resultOf({ sql }: SsbQuery): Promise<string> {
    return inOrder(await Array.fromAsync(this.#client.query(sql, { catalog, database }).arrays()));
  }
}
