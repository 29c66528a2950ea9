// A catalog with the Star Schema Benchmark that is moved from DuckDB to ClickHouse and back, compared with a copy by hand: DuckDB in process on a
// copy of the same file writes or reads Parquet files, and the node reads or writes them over HTTP.
import { createReadStream } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { ssbTables } from '../src/demo/ssb_data.ts';
import { loadSsb } from '../src/demo/ssb_load.ts';
import { createClusterWarehouse } from '../tests/engines/clickhouse/cluster_warehouse.ts';
import { startRing } from '../tests/engines/clickhouse/ring/ring.ts';
import { copyCatalogFile, DirectDuckdb } from './harness/duckdb.ts';
import { runOn, writeFileOf } from './harness/node_requests.ts';
import { type Bench, compare, type Measure } from './harness/report.ts';
import { TabulariumServer, timed } from './harness/server.ts';

const ratioMin = 0.8;
const tables = ssbTables.map(({ name }) => name);
const cluster = 'cluster';
const movedCatalog = 'default';

/** Tables of the node with the definitions of those that the move has made. */
class HandCopy {
  readonly #url: string;
  readonly #direct: DirectDuckdb;
  readonly #directory: string;

  constructor(url: string, direct: DirectDuckdb, directory: string) {
    this.#url = url;
    this.#direct = direct;
    this.#directory = directory;
  }

  async prepare(): Promise<void> {
    await runOn(this.#url, 'CREATE DATABASE IF NOT EXISTS by_hand');
    for (const table of tables)
      await runOn(this.#url, `CREATE TABLE IF NOT EXISTS by_hand.${table} AS default__ssb.${table}__local`);
    await this.#direct.statements([
      'CREATE SCHEMA IF NOT EXISTS back',
      ...tables.map((table) => `CREATE TABLE back.${table} AS FROM ssb.${table} LIMIT 0`),
    ]);
  }

  #file(table: string): string {
    return join(this.#directory, `${table}.parquet`);
  }

  async toNode(columnsOf: (table: string) => string): Promise<void> {
    for (const table of tables) {
      await runOn(this.#url, `TRUNCATE TABLE by_hand.${table}`);
      const file = this.#file(table);
      await rm(file, { force: true });
      await this.#direct.statements([`COPY ssb.${table} TO '${file}' (FORMAT parquet, COMPRESSION snappy)`]);
      const insert = `INSERT INTO by_hand.${table} (${columnsOf(table)}) FORMAT Parquet`;
      await runOn(this.#url, insert, createReadStream(file));
    }
  }

  async fromNode(columnsOf: (table: string) => string): Promise<void> {
    for (const table of tables) {
      const file = this.#file(table);
      const select = `SELECT ${columnsOf(table)} FROM by_hand.${table} FORMAT Parquet SETTINGS output_format_parquet_compression_method='snappy'`;
      await writeFileOf(this.#url, select, file);
      await this.#direct.statements([
        `TRUNCATE back.${table}`,
        `INSERT INTO back.${table} SELECT * FROM read_parquet('${file}')`,
      ]);
    }
  }
}

/** Milliseconds. */
async function moveTo(server: TabulariumServer, warehouse: string): Promise<number> {
  const { ms } = await timed(async () => {
    const task = await server.client
      .catalogs(movedCatalog)
      .move({ warehouse, retainSeconds: 0, dropUnenforcedKeys: true });
    await task.done();
  });
  return ms;
}

export const bench: Bench = {
  name: 'move',
  claim: `A move of the Star Schema Benchmark at scale 1 to ClickHouse and back: at least ${ratioMin} of the speed of a copy by hand.`,
  async run({ quick, workDirectory, print }) {
    const scale = quick ? 0.02 : 1;
    const rounds = quick ? 1 : 2;
    const dataDirectory = join(workDirectory, 'data');
    const flags = ['--cluster-hosts=127.0.0.1'];
    const ring = await startRing(1);
    const url = ring.nodes[0]?.url ?? '';
    let server = await TabulariumServer.start({ dataDirectory, pinned: false, flags });
    let direct: DirectDuckdb | undefined;
    try {
      const loaded = await loadSsb({ url: server.url, token: server.token, scale });
      const rows = loaded.reduce((total, table) => total + table.rows, 0);
      print(`  loaded ${rows} rows`);
      await server.stop();
      const directory = join(workDirectory, 'by_hand');
      await mkdir(directory);
      direct = await DirectDuckdb.open(await copyCatalogFile(dataDirectory, join(workDirectory, 'direct')), 'ssb');
      server = await TabulariumServer.start({ dataDirectory, pinned: false, flags });
      await createClusterWarehouse(server.client, ring, { name: cluster, cluster: 'shards' });
      const names = new Map(ssbTables.map(({ name, columns }) => [name, columns.join(', ')]));
      const columnsOf = (table: string) => names.get(table) ?? '';
      const times = {
        there: [] as number[],
        back: [] as number[],
        handThere: [] as number[],
        handBack: [] as number[],
      };
      await moveTo(server, cluster);
      const hand = new HandCopy(url, direct, directory);
      await hand.prepare();
      await moveTo(server, 'default');
      for (let round = 0; round < rounds; round++) {
        times.there.push(await moveTo(server, cluster));
        times.handThere.push((await timed(() => hand.toNode(columnsOf))).ms);
        times.handBack.push((await timed(() => hand.fromNode(columnsOf))).ms);
        times.back.push(await moveTo(server, 'default'));
        print(
          `  ${Object.entries(times)
            .map(([what, ms]) => `${what} ${ms.at(-1)?.toFixed(0)} ms`)
            .join(', ')}`,
        );
      }
      const measureOf = (what: string, service: number[], baseline: number[]): Measure =>
        compare(
          { service, baseline },
          {
            what,
            unit: 'rows/s',
            serviceValue: (ms) => (1000 * rows) / ms,
            baselineValue: (ms) => (1000 * rows) / ms,
            baseline: 'Parquet files, copied by hand',
            target: { text: `≥ ${ratioMin}`, isMet: (ratio) => ratio >= ratioMin },
          },
        );
      return {
        measures: [
          measureOf('DuckDB to ClickHouse', times.there, times.handThere),
          measureOf('ClickHouse to DuckDB', times.back, times.handBack),
        ],
        notes: [
          `Scale ${scale}, ${rows.toLocaleString('en-US')} rows. The time of a move is that of its task: with the proof of each table by both engines, which the copy by hand has not.`,
        ],
      };
    } finally {
      await Promise.all([server.stop(), direct?.stop()]);
      await ring.close();
    }
  },
};
