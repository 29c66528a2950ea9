// A table exported for download, in each format, compared with DuckDB's own COPY of the same table in process; the growth of the
// server's memory meanwhile; and the speed of downloading the files.
import { createHash } from 'node:crypto';
import { open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { copyCatalogFile, DirectDuckdb } from './harness/duckdb.ts';
import { mixedColumns, mixedRowsSql } from './harness/mixed_table.ts';
import { watchMemory } from './harness/processes.ts';
import { type Bench, compare, interleaved, type Measure, median } from './harness/report.ts';
import { TabulariumServer, timed } from './harness/server.ts';

const ratioMin = 0.9;
const growthMegabytesMax = 100;
const database = 'exported';
const table = 'mixed';
/** About 1 GB as CSV. */
const rowsWhole = 11_000_000;
const rowsQuick = 200_000;

const formats = [
  { format: 'parquet', name: 'Parquet', options: 'FORMAT parquet' },
  { format: 'csv', name: 'CSV', options: 'FORMAT csv' },
  { format: 'ndjson', name: 'NDJSON', options: 'FORMAT json' },
  // DuckDB itself cannot write Arrow.
  { format: 'arrow', name: 'Arrow, against COPY to Parquet', options: 'FORMAT parquet' },
] as const;

interface ServiceExport {
  readonly ms: number;
  readonly bytes: number;
  /** Time to download all files. */
  readonly fetchMs: number;
}

async function build(dataDirectory: string, rows: number): Promise<void> {
  const server = await TabulariumServer.start({ dataDirectory, pinned: false });
  try {
    await server.createDatabase(database);
    await server.createTable(database, table, { columns: mixedColumns });
    await server.query(database, `INSERT INTO ${table} ${mixedRowsSql(rows)}`);
  } finally {
    await server.stop();
  }
}

type Format = (typeof formats)[number]['format'];

/** From the request until its task has succeeded; the files are then downloaded and deleted. */
async function measureExport(server: TabulariumServer, format: Format, rows: number): Promise<ServiceExport> {
  const { client, url } = server;
  const { tables } = client.databases(database);
  const { ms, result } = await timed(() =>
    tables(table)
      .export({ format, to: { download: true } })
      .done(),
  );
  if (result.rowCount !== rows) throw new Error(`${result.rowCount} rows of ${rows} were exported`);
  const startMs = performance.now();
  let bytes = 0;
  for (const { link = '' } of result.files ?? []) bytes += await downloadBytes(new URL(link, url));
  const fetchMs = performance.now() - startMs;
  if (bytes !== result.bytes) throw new Error(`${bytes} bytes of ${result.bytes} were fetched`);
  const query = await client.queries(result.queryId).get();
  const taskId = query.task?.split('/').at(-1);
  if (taskId === undefined) throw new Error('the export has no task');
  await client.tasks(taskId).delete();
  return { ms, bytes, fetchMs };
}

async function downloadBytes(link: URL): Promise<number> {
  const { body, status } = await fetch(link);
  if (status !== 200 || !body) throw new Error(`the file was answered with ${status}`);
  let bytes = 0;
  for await (const chunk of body) bytes += chunk.length;
  return bytes;
}

interface DirectExport {
  readonly copyMs: number;
  /** The additional work of an export compared with COPY: a SHA-256 of the file, and flushing it to the disk. */
  readonly settleMs: number;
}

async function copyWithEngine(direct: DirectDuckdb, path: string, options: string): Promise<DirectExport> {
  const [copyMs = 0] = await direct.statements([`COPY (SELECT * FROM ${table}) TO '${path}' (${options})`]);
  const startMs = performance.now();
  const file = await open(path);
  const syncing = file.sync();
  await pipeline(file.createReadStream({ highWaterMark: 1024 * 1024, autoClose: false }), createHash('sha256'));
  await syncing;
  await file.close();
  const settleMs = performance.now() - startMs;
  await rm(path);
  return { copyMs, settleMs };
}

export const bench: Bench = {
  name: 'export',
  claim: `A table of 1 GB exported to a download: at least ${ratioMin} of the rows a second of DuckDB's own COPY in process, and the server's memory grows by less than ${growthMegabytesMax} MB.`,
  async run({ quick, workDirectory, print }) {
    const rows = quick ? rowsQuick : rowsWhole;
    const dataDirectory = join(workDirectory, 'data');
    await build(dataDirectory, rows);
    const file = await copyCatalogFile(dataDirectory, join(workDirectory, 'direct'));
    const server = await TabulariumServer.start({ dataDirectory, pinned: false });
    const direct = await DirectDuckdb.open(file, database);
    const measures: Measure[] = [];
    try {
      // Warms up the server with an export; afterwards both sides have the table in memory.
      await server.query(database, `SELECT count(DISTINCT label) FROM ${table}`);
      await direct.statements([`SELECT count(DISTINCT label) FROM ${table}`]);
      await measureExport(server, 'parquet', rows);
      for (const { format, name, options } of formats) {
        const memory = watchMemory(server.pid);
        const compared = await interleaved(
          quick ? 1 : 3,
          () => measureExport(server, format, rows),
          () => copyWithEngine(direct, join(workDirectory, 'rows'), options),
        );
        const grown = await memory.stop();
        const comparison = { what: name, unit: 'rows/s', serviceValue: ({ ms }: ServiceExport) => (rows / ms) * 1000 };
        const rate = compare(compared, {
          ...comparison,
          baselineValue: ({ copyMs }) => (rows / copyMs) * 1000,
          baseline: `COPY (${options})`,
          target: { text: `≥ ${ratioMin}`, isMet: (ratio) => ratio >= ratioMin },
        });
        const settledComparison = compare(compared, {
          ...comparison,
          baselineValue: ({ copyMs, settleMs }) => (rows / (copyMs + settleMs)) * 1000,
          baseline: 'the same, then its digest and its flush',
        });
        const megabytes = median(compared.service.map(({ bytes }) => bytes / 1e6));
        const perSecond = median(compared.service.map(({ bytes, fetchMs }) => bytes / fetchMs / 1000));
        measures.push(rate, settledComparison, {
          what: `- ${megabytes.toFixed(0)} MB, fetched`,
          value: perSecond,
          unit: 'MB/s',
        });
        print(`  ${name}: ${rate.value.toFixed(0)} rows/s, ${rate.ratio?.toFixed(2)}`);
        if (!grown) continue;
        const growth = (grown.peak - grown.before) / 1e6;
        const target = { text: `< ${growthMegabytesMax}`, met: growth < growthMegabytesMax };
        measures.push({ what: "- growth of the server's memory", value: growth, unit: 'MB', target });
        print(`  memory grew by ${growth.toFixed(0)} MB`);
      }
    } finally {
      await Promise.all([server.stop(), direct.stop()]);
    }
    return {
      measures,
      notes: [
        `${rows.toLocaleString('en-US')} rows of 8 columns of mixed types. Exported: from the request until the task is seen to have succeeded, the digest of each file and the flush to the disk included, which COPY does not do.`,
        'Arrow is made by `apache-arrow` in the process of the engine, in one thread; DuckDB has no COPY for it, so its baseline is COPY to Parquet.',
      ],
    };
  },
};
