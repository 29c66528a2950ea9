// Results of 1 M rows × 8 columns over HTTP as JSON and as Arrow, compared with ClickHouse on the same rows and the same machine.
import { join } from 'node:path';
import { ClickHouse } from './harness/clickhouse.ts';
import { mixedColumns, mixedRowsSql } from './harness/mixed_table.ts';
import { ask, startNode, stopProcess, watchMemory } from './harness/processes.ts';
import type { ReadAnswer, ReadJob } from './harness/reader.ts';
import { type Bench, compare, interleaved, type Measure } from './harness/report.ts';
import { TabulariumServer } from './harness/server.ts';

const database = 'wide';
const table = 'mixed';
const growthMegabytesMax = 100;
const jsonRatioMin = 0.9;
const arrowRatioMin = 1;

const clickHouseTable = `CREATE TABLE ${table} (id Int64, quantity Nullable(Int32), ratio Nullable(Float64), price Nullable(Decimal(18, 2)),
  label Nullable(String), day Nullable(Date32), at Nullable(DateTime64(6)), active Nullable(Bool)) ENGINE = MergeTree ORDER BY id`;
/** Exact numbers and dates in the form that JSON has here. */
const clickHouseSettings =
  'output_format_json_quote_64bit_integers=0&output_format_json_quote_decimals=0&date_time_output_format=iso';

interface Format {
  readonly name: string;
  readonly body: object;
  readonly next: string;
  readonly peer: string;
  readonly ratioMin: number;
}

const formats: readonly Format[] = [
  {
    name: 'JSON',
    body: {},
    next: '"nextPage":"([^"]+)"',
    peer: 'JSONCompactEachRow',
    ratioMin: jsonRatioMin,
  },
  {
    name: 'Arrow',
    body: { format: 'arrow' },
    next: '"uri":"(/files/[^"]+)"',
    peer: 'Arrow',
    ratioMin: arrowRatioMin,
  },
];

/** Returns the rows as Parquet. */
async function fillTables(server: TabulariumServer, rows: number): Promise<Uint8Array> {
  await server.createDatabase(database);
  await server.createTable(database, table, { columns: mixedColumns });
  await server.query(database, `INSERT INTO ${table} ${mixedRowsSql(rows)}`);
  const result = await server.client
    .databases(database)
    .query({ sql: `SELECT * FROM ${table}`, format: 'parquet' })
    .done();
  const response = await fetch(new URL(String(result.files?.[0]?.uri), server.url));
  return new Uint8Array(await response.arrayBuffer());
}

export const bench: Bench = {
  name: 'peers',
  claim: `1 M rows × 8 columns over HTTP: at least ${jsonRatioMin} of the MB/s of ClickHouse's JSONCompactEachRow as JSON, at least ${arrowRatioMin.toFixed(1)} of its Arrow as Arrow, and the server's memory grows by less than ${growthMegabytesMax} MB.`,
  async run({ quick, workDirectory, print }) {
    const rows = quick ? 100_000 : 1_000_000;
    const rounds = quick ? 2 : 7;
    const dataDirectory = join(workDirectory, 'data');
    const filled = await TabulariumServer.start({ dataDirectory, pinned: false });
    const parquet = await fillTables(filled, rows).finally(() => filled.stop());
    // Between runs the package stays where it was installed.
    const packages = join(workDirectory, '..', 'peer-clickhouse');
    const clickHouse = await ClickHouse.start(packages, join(workDirectory, 'clickhouse'));
    const server = await TabulariumServer.start({ dataDirectory, pinned: false });
    const reader = startNode(join(import.meta.dirname, 'harness', 'reader.ts'), [], {
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    const read = async (job: ReadJob) => {
      const answer = await ask<ReadJob, ReadAnswer>(reader, job);
      if ('error' in answer) throw new Error(answer.error);
      return answer;
    };
    const measures: Measure[] = [];
    try {
      await clickHouse.run(clickHouseTable);
      await clickHouse.run(`INSERT INTO ${table} FORMAT Parquet`, parquet);
      await server.query(database, 'SELECT 1');
      const sql = `SELECT * FROM ${table}`;
      const path = `/api/v2/databases/${database}/query`;
      const headers = { ...server.authorization, 'content-type': 'application/json' };
      for (const { name, body, next, peer, ratioMin } of formats) {
        const memory = watchMemory(server.pid);
        const readFromService = () =>
          read({ url: server.url, path, headers, next, body: JSON.stringify({ sql, ...body }) });
        const readFromPeer = () =>
          read({ url: clickHouse.url, path: `/?${clickHouseSettings}`, headers: {}, body: `${sql} FORMAT ${peer}` });
        await readFromService();
        await readFromPeer();
        const compared = await interleaved(rounds, readFromService, readFromPeer);
        const growth = await memory.stop();
        const measure = compare(compared, {
          what: `${name}, ${((compared.service[0]?.bytes ?? 0) / 1e6).toFixed(0)} MB`,
          unit: 'MB/s',
          serviceValue: (one) => one.bytes / one.ms / 1000,
          baselineValue: (one) => one.bytes / one.ms / 1000,
          baseline: `ClickHouse, ${peer}, ${((compared.baseline[0]?.bytes ?? 0) / 1e6).toFixed(0)} MB`,
          target: { text: `≥ ${ratioMin}`, isMet: (ratio) => ratio >= ratioMin },
        });
        print(`  ${measure.what}: ${measure.value.toFixed(0)} MB/s, ${measure.ratio?.toFixed(2)}`);
        const first = {
          what: `${name}, the first answer`,
          unit: 'ms',
          baseline: 'ClickHouse, the whole answer',
        } as const;
        measures.push(
          measure,
          compare(compared, { ...first, serviceValue: (one) => one.firstMs, baselineValue: (one) => one.ms }),
        );
        if (!growth) continue;
        const value = (growth.peak - growth.before) / 1e6;
        const target = { text: `< ${growthMegabytesMax}`, met: value < growthMegabytesMax };
        measures.push({ what: `${name}: growth of the server's resident memory`, value, unit: 'MB', target });
        print(`  memory grows by ${value.toFixed(0)} MB`);
      }
      return {
        measures,
        notes: [
          `${rows.toLocaleString('en-US')} rows, the same in both servers; one client process that counts bytes, without content coding.`,
          'Tabularium: JSON page by page on one connection, Arrow by the link of the answer. ClickHouse: one chunked answer.',
          `ClickHouse ${(await clickHouse.run('SELECT version()')).trim()}, a MergeTree of the same columns.`,
        ],
      };
    } finally {
      await Promise.all([server.stop(), clickHouse.stop(), stopProcess(reader)]);
    }
  },
};
