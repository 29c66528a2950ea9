// A point query through REST compared with the same prepared statement in DuckDB in process, sequentially on one
// connection, on the same file. With a primary key (an index) and without (a scan that skips by zone maps).
import { join } from 'node:path';
import { copyCatalogFile, DirectDuckdb } from './harness/duckdb.ts';
import { Generator } from './harness/load.ts';
import { mixedColumns, mixedRowsSql } from './harness/mixed_table.ts';
import { type Bench, compare, interleaved, type Measure, median } from './harness/report.ts';
import { TabulariumServer } from './harness/server.ts';

const ratioMax = 1.5;
const database = 'points';
const shapes = [
  { table: 'scanned', primaryKey: [], what: 'no index' },
  { table: 'keyed', primaryKey: ['id'], what: 'primary key' },
] as const;

interface Latency {
  readonly p50: number;
  readonly p99: number;
}

function latency(ms: readonly number[]): Latency {
  const sorted = [...ms].sort((a, b) => a - b);
  return { p50: median(sorted), p99: sorted[Math.floor(sorted.length * 0.99)] as number };
}

async function build(dataDirectory: string, rows: number): Promise<void> {
  const server = await TabulariumServer.start({ dataDirectory, pinned: false });
  try {
    await server.createDatabase(database);
    for (const { table, primaryKey } of shapes) {
      await server.createTable(database, table, { columns: mixedColumns, primaryKey });
      await server.query(database, `INSERT INTO ${table} ${mixedRowsSql(rows)}`);
    }
  } finally {
    await server.stop();
  }
}

export const bench: Bench = {
  name: 'point_query',
  claim: `A point query on a table of 1 M rows through REST: median at most ${ratioMax} times that of DuckDB in process, prepared and asked as often.`,
  async run({ quick, workDirectory, print }) {
    const rows = quick ? 50_000 : 1_000_000;
    const dataDirectory = join(workDirectory, 'data');
    await build(dataDirectory, rows);
    const file = await copyCatalogFile(dataDirectory, join(workDirectory, 'direct'));
    const server = await TabulariumServer.start({ dataDirectory, pinned: false });
    const generator = new Generator({ pinned: false });
    const direct = await DirectDuckdb.open(file, database);
    const measures: Measure[] = [];
    const headers = { ...server.authorization, 'Content-Type': 'application/json' };
    try {
      for (const { table, what } of shapes) {
        const sql = `SELECT * FROM ${table} WHERE id = $1`;
        const body = JSON.stringify({ sql, parameters: ['{n}'] }).replace('"{n}"', '{n}');
        const template = {
          method: 'POST',
          path: `/api/v2/databases/${database}/query`,
          bodies: [body],
          headers,
        } as const;
        const queryThroughRest = (seed: number, durationMs: number) =>
          generator.load({
            port: server.port,
            connections: 1,
            template,
            order: 'random',
            count: quick ? 5000 : 100_000,
            seed,
            status: 200,
            warmupMs: 100,
            durationMs,
          });
        const values = Array.from({ length: quick ? 200 : 2000 }, (_, i) => (i * 7919) % rows);
        const warmUp = await queryThroughRest(1, quick ? 200 : 1500);
        // The time between two requests: DuckDB in process is asked as often.
        let everyMs = warmUp.p50Ms;
        await direct.prepared(sql, values.slice(0, values.length / 2), everyMs);
        const compared = await interleaved(
          quick ? 2 : 7,
          async (round): Promise<Latency> => {
            const { p50Ms, p99Ms } = await queryThroughRest(round + 2, quick ? 300 : 2500);
            everyMs = p50Ms;
            return { p50: p50Ms, p99: p99Ms };
          },
          async () => latency(await direct.prepared(sql, values, everyMs)),
        );
        for (const key of ['p50', 'p99'] as const) {
          const measure = compare(compared, {
            what: `${what}, ${key}`,
            unit: 'ms',
            serviceValue: (result) => result[key],
            baselineValue: (result) => result[key],
            baseline: 'DuckDB in process, prepared',
            ...(key === 'p50' ? { target: { text: `≤ ${ratioMax}`, isMet: (ratio) => ratio <= ratioMax } } : {}),
          });
          print(`  ${measure.what}: ${measure.value.toFixed(2)} ms, ${measure.ratio?.toFixed(2)}`);
          measures.push(measure);
        }
      }
    } finally {
      await Promise.all([server.stop(), generator.stop(), direct.stop()]);
    }
    return {
      measures,
      notes: [
        `\`SELECT * FROM ... WHERE id = $1\` on ${rows.toLocaleString('en-US')} rows of 8 columns, one request after the other on one connection, the parameter drawn at random.`,
        'In process: bind, run, and the row read as JSON. Both sides read copies of one file.',
        'Without an index DuckDB scans what its zone maps leave; with one it answers in a fraction of a millisecond, and the way through HTTP and two processes weighs more.',
      ],
    };
  },
};
