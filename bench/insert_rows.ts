// Rows inserted through REST, 1,000 per request, each request durable when it is acknowledged: 1, 4 and 16 connections.
import { join } from 'node:path';
import { Generator } from './harness/load.ts';
import { mixedColumns, mixedRows } from './harness/mixed_table.ts';
import { type Bench, type Measure, median } from './harness/report.ts';
import { TabulariumServer } from './harness/server.ts';

const rowsPerRequest = 1000;
const rowsPerSecondMin = 150_000;
const connectionCounts = [1, 4, 16] as const;
const database = 'inserted';
/** Different requests, sent in rotation. */
const bodiesCount = 50;

export const bench: Bench = {
  name: 'insert_rows',
  claim: `Rows inserted, ${rowsPerRequest} a request, 8 columns of mixed types, durable: at least ${rowsPerSecondMin.toLocaleString('en-US')} rows a second.`,
  async run({ quick, workDirectory, print }) {
    const server = await TabulariumServer.start({ dataDirectory: join(workDirectory, 'data'), pinned: false });
    const generator = new Generator({ pinned: false });
    const headers = { ...server.authorization, 'Content-Type': 'application/json' };
    const bodies = Array.from({ length: bodiesCount }, (_, i) =>
      JSON.stringify({ rows: mixedRows(i * rowsPerRequest, rowsPerRequest) }),
    );
    const tables = `/api/v2/databases/${database}/tables`;
    const rates = new Map<number, number[]>(connectionCounts.map((count) => [count, []]));
    const p50 = new Map<number, number[]>(connectionCounts.map((count) => [count, []]));
    try {
      await server.createDatabase(database);
      let sent = 0;
      for (let round = 0; round < (quick ? 2 : 6); round++) {
        await server.createTable(database, `mixed_${round}`, { columns: mixedColumns });
        sent = 0;
        for (const connections of connectionCounts) {
          const result = await generator.load({
            port: server.port,
            connections,
            template: { method: 'POST', path: `${tables}/mixed_${round}/rows`, bodies, headers },
            order: 'cycle',
            count: bodiesCount,
            status: 201,
            warmupMs: 0,
            durationMs: quick ? 500 : 2500,
          });
          sent += result.requests * rowsPerRequest;
          if (round === 0 && !quick) continue; // the first round warms the server up
          rates.get(connections)?.push(result.perSecond * rowsPerRequest);
          p50.get(connections)?.push(result.p50Ms);
        }
        await requireCount(server, `mixed_${round}`, sent);
      }
    } finally {
      await Promise.all([server.stop(), generator.stop()]);
    }
    const measures: Measure[] = [];
    const best = Math.max(...connectionCounts.map((count) => median(rates.get(count) as number[])));
    for (const count of connectionCounts) {
      const value = median(rates.get(count) as number[]);
      const what = `rows inserted, ${count} ${count === 1 ? 'connection' : 'connections'}`;
      const target = { text: `≥ ${rowsPerSecondMin.toLocaleString('en-US')}`, met: best >= rowsPerSecondMin };
      measures.push({ what, value, unit: 'rows/s', ...(value === best ? { target } : {}) });
      measures.push({
        what: `${what}: median latency of a request`,
        value: median(p50.get(count) as number[]),
        unit: 'ms',
      });
      print(`  ${what}: ${value.toFixed(0)} a second`);
    }
    return {
      measures,
      notes: [
        `A body has ${((bodies[0] as string).length / 1000).toFixed(0)} kB. Server, engine and generator share all cores.`,
        'After each round the rows in the table are counted: as many as were acknowledged.',
      ],
    };
  },
};

async function requireCount(server: TabulariumServer, table: string, rows: number): Promise<void> {
  const [row] = await server.query(database, `SELECT count(*) FROM ${table}`);
  const counted = row?.[0];
  if (counted !== rows) throw new Error(`${rows} rows were acknowledged, ${counted} are in the table`);
}
