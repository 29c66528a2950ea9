// GET of one 17-column table, authenticated, 32 connections, compared with a bare node:http server that sends the same bytes:
// one hot table, and tables drawn at random from the whole store.
import { join } from 'node:path';
import { fillStore, tableName, tablesPath } from './harness/filled_store.ts';
import { BareServer, Generator } from './harness/load.ts';
import { computedMicroseconds } from './harness/processes.ts';
import { type Bench, type BenchOptions, compare, interleaved, type Measure } from './harness/report.ts';
import { TabulariumServer } from './harness/server.ts';

const connections = 32;
const ratioMin = 0.7;
const spreadMax = 0.1;
const baseline = 'bare node:http, the same bytes';

async function measureStore(tables: number, options: BenchOptions, generator: Generator): Promise<Measure[]> {
  const { quick, workDirectory, print } = options;
  const dataDirectory = join(workDirectory, `tables_${tables}`);
  await fillStore(dataDirectory, tables, { inEngine: false });
  const server = await TabulariumServer.start({ dataDirectory, pinned: true });
  const answer = await server.capture(`${tablesPath}/${tableName(0)}`);
  const bare = await BareServer.start(answer);
  const job = {
    connections,
    count: tables,
    status: 200,
    awake: true,
    warmupMs: quick ? 200 : 500,
    durationMs: quick ? 500 : 2500,
  };
  const get = async (service: TabulariumServer | BareServer, path: string, order: 'cycle' | 'random', seed: number) => {
    const { authorization: headers } = server;
    const before = computedMicroseconds(service.pid) ?? 0;
    const template = { method: 'GET', path, headers } as const;
    const result = await generator.load({ ...job, port: service.port, order, seed, template });
    return { ...result, microseconds: ((computedMicroseconds(service.pid) ?? Number.NaN) - before) / result.answered };
  };
  const hot = `${tablesPath}/${tableName(0)}`;
  const rounds = quick ? 2 : 7;
  const measures: Measure[] = [];
  try {
    await get(server, hot, 'cycle', 1);
    await get(bare, hot, 'cycle', 1);
    const name = `${tables.toLocaleString('en-US')} tables in the store`;
    for (const [what, path, order] of [
      ['one hot table', hot, 'cycle'],
      ['tables at random', `${tablesPath}/table_{name}`, 'random'],
    ] as const) {
      const compared = await interleaved(
        rounds,
        (round) => get(server, path, order, round + 1),
        (round) => get(bare, path, order, round + 1),
      );
      const measure = compare(compared, {
        what: `GET ${what}, ${name}`,
        unit: 'requests/s',
        serviceValue: (result) => result.perSecond,
        baselineValue: (result) => result.perSecond,
        baseline,
        ...(order === 'cycle' ? { target: { text: `≥ ${ratioMin}`, isMet: (ratio) => ratio >= ratioMin } } : {}),
      });
      print(`  ${measure.what}: ${measure.ratio?.toFixed(2)}`);
      const computing = compare(compared, {
        what: '- processor time of one',
        unit: 'µs',
        serviceValue: (result) => result.microseconds,
        baselineValue: (result) => result.microseconds,
        baseline,
      });
      measures.push(measure, computing);
    }
  } finally {
    await Promise.all([server.stop(), bare.stop()]);
  }
  return measures;
}

export const bench: Bench = {
  name: 'get_table',
  claim: `GET of a 17-column table, ${connections} connections, authenticated: at least ${ratioMin} of a bare node:http server that sends the same bytes, and the same within 10 % with 1,000 and 100,000 tables as with 20,000.`,
  async run(options) {
    const generator = new Generator({ pinned: true });
    const sizes = options.quick ? [1000] : [1000, 20_000, 100_000];
    const measures: Measure[] = [];
    const hotRatios: number[] = [];
    try {
      for (const tables of sizes) {
        const storeMeasures = await measureStore(tables, options, generator);
        hotRatios.push(storeMeasures[0]?.ratio as number);
        measures.push(...storeMeasures);
      }
    } finally {
      await generator.stop();
    }
    if (hotRatios.length === 3) {
      const [small, middle, large] = hotRatios as [number, number, number];
      const spread = Math.max(Math.abs(small / middle - 1), Math.abs(large / middle - 1));
      const target = { text: `≤ ${spreadMax * 100} %`, met: spread <= spreadMax };
      measures.push({
        what: 'hot table: 1,000 and 100,000 tables against 20,000',
        value: spread * 100,
        unit: '%',
        target,
      });
    }
    return {
      measures,
      notes: [
        'Server and bare server on one core, alternately; the load generator on another, where it polls: waking it would cost the slower server more.',
        'The stores are filled by repeating the row of a table that was created through REST (`bench/harness/filled_store.ts`).',
        'The processor time counts all threads of the server, the warm-up included; it hardly depends on what else the machine does.',
        'At random, a store of 100,000 tables is larger than the cache of ready records (`recordCacheBytesMax`): most requests read the store.',
      ],
    };
  },
};
