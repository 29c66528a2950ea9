// A catalog on ClickHouse with the Star Schema Benchmark that is backed up to a directory and restored, compared with Parquet files that are
// written and read by hand over HTTP; and how long writes wait while a backup of many tables begins.
import { createReadStream } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ssbTables } from '../src/demo/ssb_data.ts';
import { loadSsb } from '../src/demo/ssb_load.ts';
import { createClusterWarehouse } from '../tests/engines/clickhouse/cluster_warehouse.ts';
import { startRing } from '../tests/engines/clickhouse/ring/ring.ts';
import { runOn, writeFileOf } from './harness/node_requests.ts';
import { type Bench, compare, type Measure } from './harness/report.ts';
import { TabulariumServer, timed } from './harness/server.ts';

const tables = ssbTables.map(({ name }) => name);
const cluster = 'cluster';
const written = 'written';
const byHand = 'Parquet files, by hand';
const betweenInsertsMs = 20;

/** Parquet files with the compression of a backup. */
class HandCopy {
  readonly #url: string;
  readonly #directory: string;

  constructor(url: string, directory: string) {
    this.#url = url;
    this.#directory = directory;
  }

  async prepare(): Promise<void> {
    await runOn(this.#url, 'CREATE DATABASE by_hand');
    for (const table of tables) await runOn(this.#url, `CREATE TABLE by_hand.${table} AS default__ssb.${table}__local`);
  }

  #file(table: string): string {
    return join(this.#directory, `${table}.parquet`);
  }

  async toFiles(): Promise<void> {
    const settings = `SETTINGS output_format_parquet_compression_method='zstd'`;
    for (const table of tables)
      await writeFileOf(
        this.#url,
        `SELECT * FROM default__ssb.${table}__local FORMAT Parquet ${settings}`,
        this.#file(table),
      );
  }

  async fromFiles(): Promise<void> {
    for (const table of tables)
      await runOn(this.#url, `INSERT INTO by_hand.${table} FORMAT Parquet`, createReadStream(this.#file(table)));
  }

  async clear(): Promise<void> {
    for (const table of tables) await runOn(this.#url, `TRUNCATE TABLE by_hand.${table}`);
  }
}

class BackupBench {
  readonly #server: TabulariumServer;
  readonly #directory: string;
  #taken = 0;

  /** `directory`: to which the server may write backups. */
  constructor(server: TabulariumServer, directory: string) {
    this.#server = server;
    this.#directory = directory;
  }

  /** To a directory of its own, so that it contains all rows. Returns the milliseconds. */
  async backUp(catalog: string): Promise<number> {
    const to = { path: join(this.#directory, String(++this.#taken)) };
    const { ms } = await timed(() => this.#server.client.catalogs(catalog).backup({ to }).done());
    return ms;
  }

  /** The newest backup. Returns the milliseconds. */
  async restore(): Promise<number> {
    const { catalogs } = this.#server.client;
    const from = { path: join(this.#directory, String(this.#taken)) };
    const { ms } = await timed(() => catalogs.restore({ name: 'restored', warehouse: cluster, from }).done());
    await catalogs('restored').delete({ cascade: true, purge: true });
    return ms;
  }

  /** Milliseconds that the slowest insert takes while `work` runs. */
  async slowestInsert(work: () => Promise<unknown>): Promise<number> {
    const table = this.#server.client.catalogs(written).databases('d').tables('t0');
    let isDone = false;
    let slowest = 0;
    const inserts = async () => {
      while (!isDone) {
        const { ms } = await timed(() => table.rows.create({ rows: [{ id: 1 }] }));
        slowest = Math.max(slowest, ms);
        await sleep(betweenInsertsMs);
      }
    };
    await Promise.all([inserts(), work().finally(() => (isDone = true))]);
    return slowest;
  }
}

async function createTables(server: TabulariumServer, url: string, count: number): Promise<void> {
  await server.client.catalogs.create({ name: written, warehouse: cluster });
  const { databases } = server.client.catalogs(written);
  await databases.create({ name: 'd' });
  const columns = [{ name: 'id', type: 'BIGINT' }];
  for (let i = 0; i < count; i++) {
    await databases('d')
      .tables.create({ name: `t${i}`, columns })
      .done();
    await runOn(url, `INSERT INTO ${written}__d.t${i} VALUES (0)`);
  }
}

async function measureCopies(
  { backups, hand, rounds, rows }: { backups: BackupBench; hand: HandCopy; rounds: number; rows: number },
  print: (line: string) => void,
): Promise<Measure[]> {
  const times = { backup: [] as number[], toFiles: [] as number[], restore: [] as number[], fromFiles: [] as number[] };
  for (let round = 0; round < rounds; round++) {
    times.backup.push(await backups.backUp('default'));
    times.toFiles.push((await timed(() => hand.toFiles())).ms);
    times.restore.push(await backups.restore());
    times.fromFiles.push((await timed(() => hand.fromFiles())).ms);
    await hand.clear();
    const latest = Object.entries(times).map(([what, ms]) => `${what} ${ms.at(-1)?.toFixed(0)} ms`);
    print(`  ${latest.join(', ')}`);
  }
  const measureOf = (what: string, service: number[], baseline: number[]) =>
    compare(
      { service, baseline },
      {
        what,
        unit: 'rows/s',
        serviceValue: (ms) => (1000 * rows) / ms,
        baselineValue: (ms) => (1000 * rows) / ms,
        baseline: byHand,
      },
    );
  return [
    measureOf('a catalog on ClickHouse is backed up', times.backup, times.toFiles),
    measureOf('the backup is restored', times.restore, times.fromFiles),
  ];
}

async function measureWaits(backups: BackupBench, tableCount: number, rounds: number): Promise<Measure> {
  const measured = { service: [] as number[], baseline: [] as number[] };
  for (let round = 0; round < rounds; round++) {
    const during = timed(() => backups.slowestInsert(() => backups.backUp(written)));
    const { ms, result } = await during;
    measured.service.push(result);
    measured.baseline.push(await backups.slowestInsert(() => sleep(ms)));
  }
  return compare(measured, {
    what: `slowest insert while a catalog of ${tableCount} tables is backed up`,
    unit: 'ms',
    serviceValue: (ms) => ms,
    baselineValue: (ms) => ms,
    baseline: 'slowest insert in as much time without a backup',
  });
}

export const bench: Bench = {
  name: 'backup',
  claim:
    'A backup of a catalog on ClickHouse and its restore, compared with files written and read by hand; how long writes wait meanwhile.',
  async run({ quick, workDirectory, print }) {
    const scale = quick ? 0.02 : 1;
    const rounds = quick ? 1 : 3;
    const tableCount = quick ? 5 : 100;
    const [directory, files] = [join(workDirectory, 'backups'), join(workDirectory, 'by_hand')];
    for (const made of [directory, files]) await mkdir(made);
    const ring = await startRing(1);
    const url = ring.nodes[0]?.url ?? '';
    const dataDirectory = join(workDirectory, 'data');
    const flags = ['--cluster-hosts=127.0.0.1', `--backup-directories=${directory}`];
    const server = await TabulariumServer.start({ dataDirectory, pinned: false, flags });
    try {
      const loaded = await loadSsb({ url: server.url, token: server.token, scale });
      const rows = loaded.reduce((total, table) => total + table.rows, 0);
      await createClusterWarehouse(server.client, ring, { name: cluster, cluster: 'shards' });
      const moved = { warehouse: cluster, retainSeconds: 0, dropUnenforcedKeys: true };
      await server.client.catalogs('default').move(moved).done();
      print(`  loaded ${rows} rows`);
      const hand = new HandCopy(url, files);
      await hand.prepare();
      const backups = new BackupBench(server, directory);
      const copies = await measureCopies({ backups, hand, rounds, rows }, print);
      await createTables(server, url, tableCount);
      return {
        measures: [...copies, await measureWaits(backups, tableCount, rounds)],
        notes: [
          `Scale ${scale}, ${rows.toLocaleString('en-US')} rows, one node. The time of a backup and of a restore is that of its task: with the digests of the files and the checks of the rows, which the copy by hand has not.`,
        ],
      };
    } finally {
      await server.stop();
      await ring.close();
    }
  },
};
