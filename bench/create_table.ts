// Durable creation of a 17-column table on 1 and 16 connections, each on disk in store and engine when it is acknowledged,
// and how its time is divided.
import { join } from 'node:path';
import { lineorderColumns } from './harness/filled_store.ts';
import { Generator } from './harness/load.ts';
import { type Bench, type BenchOptions, type Measure, median } from './harness/report.ts';
import { TabulariumServer } from './harness/server.ts';

const perSecondMin = { 1: 250, 16: 600 } as const;
const database = 'created';
const path = `/api/v2/databases/${database}/tables/create`;

async function start(options: BenchOptions, name: string, script?: string): Promise<TabulariumServer> {
  const dataDirectory = join(options.workDirectory, name);
  const server = await TabulariumServer.start({ dataDirectory, pinned: false, ...(script ? { script } : {}) });
  await server.createDatabase(database);
  return server;
}

/** The definition as JSON, as programs send it: the engine does not have to parse a statement. */
const definition = JSON.stringify({ name: 'created_{name}', columns: lineorderColumns });

interface Breakdown {
  readonly requests: number;
  readonly ms: Readonly<Record<string, number>>;
}

/** Another run with one connection, on an instrumented server: not part of the rates. */
async function breakdown(options: BenchOptions, generator: Generator): Promise<Measure[]> {
  const server = await start(options, 'timed', join(import.meta.dirname, 'harness', 'timed_server.ts'));
  try {
    const bodies = [definition];
    const headers = { ...server.authorization, 'Content-Type': 'application/json' };
    const template = { method: 'POST', path, bodies, headers } as const;
    const job = { port: server.port, connections: 1, template, order: 'once', status: 201, warmupMs: 0 } as const;
    const warm = await generator.load({ ...job, count: 1_000_000, durationMs: options.quick ? 300 : 1500 });
    await timesOf(server);
    const timed = await generator.load({
      ...job,
      first: warm.next,
      count: 1_000_000,
      durationMs: options.quick ? 500 : 3000,
    });
    const { ms } = await timesOf(server);
    const perRequest = (total: number | undefined) => (total ?? 0) / timed.requests;
    const totalMs = timed.elapsedMs / timed.requests;
    const parts: [string, number][] = [
      ['engine: CREATE TABLE and its commit, with the way to its process and back', perRequest(ms.engine)],
      ['store: two commits with fsync', perRequest(ms.commit)],
      ['store: the other statements', perRequest(ms.statement)],
    ];
    const rest = totalMs - parts.reduce((sum, [, value]) => sum + value, 0);
    parts.push(['HTTP, validation, the rest of the server, and the way to the client and back', rest]);
    return [
      { what: 'one create, 1 connection, in all', value: totalMs, unit: 'ms' },
      ...parts.map(([what, value]) => ({ what: `- ${what}`, value, unit: 'ms' })),
    ];
  } finally {
    await server.stop();
  }
}

async function timesOf(server: TabulariumServer): Promise<Breakdown> {
  const answer = new Promise<Breakdown>((resolve) =>
    server.process.once('message', (times) => resolve(times as Breakdown)),
  );
  server.process.send('times');
  return answer;
}

export const bench: Bench = {
  name: 'create_table',
  claim:
    'A durable create of a 17-column table (intent, engine step, commit; fsync on): at least 250 a second on one connection and 600 on 16.',
  async run(options) {
    const { quick, print } = options;
    const generator = new Generator({ pinned: false });
    const server = await start(options, 'data');
    const measures: Measure[] = [];
    try {
      const bodies = [definition];
      const headers = { ...server.authorization, 'Content-Type': 'application/json' };
      let first = 0;
      const rates: { 1: number[]; 16: number[] } = { 1: [], 16: [] };
      const p50: { 1: number[]; 16: number[] } = { 1: [], 16: [] };
      for (let round = 0; round < (quick ? 2 : 6); round++) {
        for (const connections of [1, 16] as const) {
          const result = await generator.load({
            port: server.port,
            connections,
            template: { method: 'POST', path, bodies, headers },
            order: 'once',
            first,
            count: 1_000_000,
            status: 201,
            warmupMs: quick ? 100 : 500,
            durationMs: quick ? 500 : 2000,
          });
          first = result.next;
          if (round === 0 && !quick) continue; // the first round warms the server up
          rates[connections].push(result.perSecond);
          p50[connections].push(result.p50Ms);
        }
      }
      for (const connections of [1, 16] as const) {
        const value = median(rates[connections]);
        const text = `≥ ${perSecondMin[connections]}`;
        const target = { text, met: value >= perSecondMin[connections] };
        const what = `creates, ${connections} ${connections === 1 ? 'connection' : 'connections'}`;
        measures.push({ what, value, unit: '1/s', target });
        measures.push({ what: `${what}: median latency`, value: median(p50[connections]), unit: 'ms' });
        print(`  ${what}: ${value.toFixed(0)} a second`);
      }
      measures.push({ what: 'tables in the catalog at the end', value: first + 1, unit: '' });
      await server.stop();
      measures.push(...(await breakdown(options, generator)));
    } finally {
      await Promise.all([server.stop(), generator.stop()]);
    }
    return {
      measures,
      notes: [
        'Server, engine and generator share all cores. The log is on, at its default level, to a file.',
        'The break-down is from a further run on one connection, on a server whose store and engine calls are timed from outside (`bench/harness/timed_server.ts`).',
      ],
    };
  },
};
