// A result of 1 M rows × 8 columns of mixed types, read through REST page by page as JSON, compared with DuckDB's own
// `COPY ... (FORMAT json)` to a file in process; and the growth of the server's memory meanwhile.
import { join } from 'node:path';
import { copyCatalogFile, DirectDuckdb } from './harness/duckdb.ts';
import { Generator } from './harness/load.ts';
import { mixedColumns, mixedRowsSql } from './harness/mixed_table.ts';
import { watchMemory } from './harness/processes.ts';
import { type Bench, compare, interleaved, type Measure } from './harness/report.ts';
import { TabulariumServer } from './harness/server.ts';

const ratioMin = 0.9;
const growthMegabytesMax = 100;
const database = 'wide';
const table = 'mixed';

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

export const bench: Bench = {
  name: 'result_pages',
  claim: `1 M rows × 8 columns of mixed types as paged JSON: at least ${ratioMin} of the MB/s of DuckDB's own COPY (FORMAT json) to a file, and the server's memory grows by less than ${growthMegabytesMax} MB.`,
  async run({ quick, workDirectory, print }) {
    const rows = quick ? 100_000 : 1_000_000;
    const dataDirectory = join(workDirectory, 'data');
    await build(dataDirectory, rows);
    const file = await copyCatalogFile(dataDirectory, join(workDirectory, 'direct'));

    const server = await TabulariumServer.start({ dataDirectory, pinned: false });
    const generator = new Generator({ pinned: false });
    const direct = await DirectDuckdb.open(file, database);
    const sql = `SELECT * FROM ${table}`;
    const path = `/api/v2/databases/${database}/query`;
    try {
      // Warms the server up with other work than large results.
      await server.query(database, 'SELECT 1');
      const serverMemory = watchMemory(server.pid);
      const readPages = () =>
        generator.pages({ port: server.port, path, token: server.token, body: JSON.stringify({ sql }) });
      const compared = await interleaved(quick ? 2 : 7, readPages, () =>
        direct.copy(sql, join(workDirectory, 'rows.json')),
      );
      const memory = await serverMemory.stop();
      const { pages, bytes } = compared.service[0] as { pages: number; bytes: number };
      const megabytes = compare(compared, {
        what: `${(bytes / 1e6).toFixed(0)} MB in ${pages} pages`,
        unit: 'MB/s',
        serviceValue: (result) => result.bytes / result.elapsedMs / 1000,
        baselineValue: (result) => result.bytes / result.ms / 1000,
        baseline: 'COPY ... (FORMAT json) in process',
        target: { text: `≥ ${ratioMin}`, isMet: (ratio) => ratio >= ratioMin },
      });
      print(`  ${megabytes.what}: ${megabytes.value.toFixed(0)} MB/s, ${megabytes.ratio?.toFixed(2)}`);
      const measures: Measure[] = [
        megabytes,
        compare(compared, {
          what: 'the same in rows',
          unit: 'rows/s',
          serviceValue: (result) => (rows / result.elapsedMs) * 1000,
          baselineValue: (result) => (rows / result.ms) * 1000,
          baseline: 'COPY ... (FORMAT json) in process',
        }),
        compare(compared, {
          what: 'time to the first page',
          unit: 'ms',
          serviceValue: (result) => result.firstPageMs,
          baselineValue: (result) => result.ms,
          baseline: 'the whole COPY',
        }),
      ];
      if (memory) {
        const value = (memory.peak - memory.before) / 1e6;
        const target = { text: `< ${growthMegabytesMax}`, met: value < growthMegabytesMax };
        measures.push({ what: "growth of the server's resident memory, at its highest", value, unit: 'MB', target });
        print(`  memory grows by ${value.toFixed(0)} MB`);
      }
      return {
        measures,
        notes: [
          `${rows.toLocaleString('en-US')} rows; all pages fetched one after the other on one connection, from the POST to the last byte.`,
          'REST sends each row as an array, COPY writes an object with the names of the columns: the same rows are fewer bytes through REST, which is why both MB/s and rows/s are shown.',
          'Resident memory of the server process, sampled every 10 ms over all rounds; the engine is a process of its own with its own limit.',
        ],
      };
    } finally {
      await Promise.all([server.stop(), generator.stop(), direct.stop()]);
    }
  },
};
