// Compares this checkout with another one, such as that of an earlier commit: both servers run at the same time, and requests alternate
// between them. `npm run bench -- --against DIRECTORY`.
import { join, resolve } from 'node:path';
import { Generator } from './harness/load.ts';
import type { LoadJob, LoadResult } from './harness/load_job.ts';
import { mixedColumns, mixedRows, mixedRowsSql } from './harness/mixed_table.ts';
import { computedMicroseconds } from './harness/processes.ts';
import { type Bench, compare, interleaved, type Measure } from './harness/report.ts';
import { TabulariumServer } from './harness/server.ts';

const ratioMin = 0.97;
const quickSizes = { pairs: 2, durationMs: 300, tables: 50, rows: 10_000 };
const fullSizes = { pairs: 11, durationMs: 2000, tables: 500, rows: 200_000 };
const database = 'compared';
const tables = `/api/v2/databases/${database}/tables`;
const queryPath = `/api/v2/databases/${database}/query`;

type Sizes = typeof fullSizes;

interface Turn extends LoadResult {
  /** Processor time of the server and its engine for one request, in microseconds; undefined if the system does not report it. */
  readonly computed: number | undefined;
}

interface Workload {
  readonly name: string;
  readonly connections: number;
  readonly job: (
    round: number,
    sizes: Sizes,
  ) => Pick<LoadJob, 'template' | 'order' | 'count' | 'status'> & { readonly seed?: number };
  /** Before each turn. */
  readonly before?: (server: TabulariumServer, round: number) => Promise<unknown>;
}

const json = { 'Content-Type': 'application/json' };
const insertedBodies = Array.from({ length: 20 }, (_, i) => JSON.stringify({ rows: mixedRows(i * 1000, 1000) }));

const workloads: readonly Workload[] = [
  {
    name: 'GET of a table',
    connections: 32,
    job: (round, sizes) => ({
      template: { method: 'GET', path: `${tables}/table_{name}`, headers: {} },
      order: 'random',
      seed: round + 1,
      count: sizes.tables,
      status: 200,
    }),
  },
  {
    name: 'list of tables, one page',
    connections: 8,
    job: (_, sizes) => ({
      template: { method: 'GET', path: `${tables}?pageSize=${sizes.tables}`, headers: {} },
      order: 'cycle',
      count: 1,
      status: 200,
    }),
  },
  {
    name: 'create of a table',
    connections: 4,
    job: (round) => ({
      template: {
        method: 'POST',
        path: `/api/v2/databases/created_${round}/tables/create`,
        bodies: [JSON.stringify({ name: 'created_{name}', columns: mixedColumns })],
        headers: json,
      },
      order: 'once',
      count: 1_000_000,
      status: 201,
    }),
    before: (server, round) => server.createDatabase(`created_${round}`),
  },
  {
    name: 'insert of 1,000 rows',
    connections: 4,
    job: (round) => ({
      template: { method: 'POST', path: `${tables}/inserted_${round}/rows`, bodies: insertedBodies, headers: json },
      order: 'cycle',
      count: insertedBodies.length,
      status: 201,
    }),
    before: (server, round) => server.createTable(database, `inserted_${round}`, { columns: mixedColumns }),
  },
  {
    name: 'point query',
    connections: 1,
    job: (round, sizes) => ({
      template: {
        method: 'POST',
        path: queryPath,
        bodies: ['{"sql":"SELECT * FROM queried WHERE id = $1","parameters":[{n}]}'],
        headers: json,
      },
      order: 'random',
      seed: round + 1,
      count: sizes.rows,
      status: 200,
    }),
  },
];

async function start(checkout: string, dataDirectory: string, sizes: Sizes): Promise<TabulariumServer> {
  const script = join(checkout, 'src', 'main.ts');
  const server = await TabulariumServer.start({ dataDirectory, pinned: false, script });
  await server.createDatabase(database);
  for (let n = 0; n < sizes.tables; n++)
    await server.createTable(database, `table_${String(n).padStart(6, '0')}`, { columns: mixedColumns });
  await server.createTable(database, 'queried', { columns: mixedColumns, primaryKey: ['id'] });
  await server.query(database, `INSERT INTO queried ${mixedRowsSql(sizes.rows)}`);
  return server;
}

async function measure(
  workload: Workload,
  servers: { readonly here: TabulariumServer; readonly there: TabulariumServer },
  generator: Generator,
  sizes: Sizes,
): Promise<Measure[]> {
  const turn = async (server: TabulariumServer, round: number): Promise<Turn> => {
    await workload.before?.(server, round);
    const { template, ...job } = workload.job(round, sizes);
    const headers = { ...template.headers, ...server.authorization };
    const { connections } = workload;
    const { durationMs } = sizes;
    const measured = { port: server.port, connections, warmupMs: durationMs / 5, durationMs };
    const before = computedOf(server);
    const result = await generator.load({ ...job, ...measured, template: { ...template, headers } });
    const after = computedOf(server);
    const computed = before === undefined || after === undefined ? undefined : (after - before) / result.answered;
    return { ...result, computed };
  };
  // The first round warms both up.
  await turn(servers.here, sizes.pairs);
  await turn(servers.there, sizes.pairs);
  const compared = await interleaved(
    sizes.pairs,
    (round) => turn(servers.here, round),
    (round) => turn(servers.there, round),
  );
  const what = `${workload.name}, ${workload.connections} ${workload.connections === 1 ? 'connection' : 'connections'}`;
  const baseline = 'the other checkout';
  const throughput = compare(compared, {
    what,
    unit: 'requests/s',
    serviceValue: (one) => one.perSecond,
    baselineValue: (one) => one.perSecond,
    baseline,
    target: { text: `≥ ${ratioMin}`, isMet: (ratio) => ratio >= ratioMin },
  });
  if ([...compared.service, ...compared.baseline].some(({ computed }) => computed === undefined)) return [throughput];
  const computed = compare(compared, {
    what: `${what}, processor time of a request`,
    unit: 'µs',
    serviceValue: (one) => one.computed as number,
    baselineValue: (one) => one.computed as number,
    baseline,
  });
  return [throughput, computed];
}

/** Microseconds of processor time of a server and its engine so far. */
function computedOf(server: TabulariumServer): number | undefined {
  const times = [server.pid, ...server.enginePids()].map(computedMicroseconds);
  return times.reduce((sum, time) => (sum === undefined || time === undefined ? undefined : sum + time), 0);
}

/** `directory`: a checkout in which `npm ci` was run. */
export function benchAgainst(directory: string): Bench {
  return {
    name: 'against',
    arguments: '--against DIRECTORY',
    claim: `No slower than another checkout: the median of the ratios of ${fullSizes.pairs} pairs of turns is at least ${ratioMin}.`,
    async run({ quick, workDirectory, print }) {
      const sizes = quick ? quickSizes : fullSizes;
      const generator = new Generator({ pinned: false });
      const current = await start(join(import.meta.dirname, '..'), join(workDirectory, 'here'), sizes);
      const there = await start(resolve(directory), join(workDirectory, 'there'), sizes);
      const measures: Measure[] = [];
      try {
        for (const workload of workloads) {
          const measured = await measure(workload, { here: current, there }, generator, sizes);
          for (const { what, ratio } of measured) print(`  ${what}: ${ratio?.toFixed(2)}`);
          measures.push(...measured);
        }
      } finally {
        await Promise.all([current.stop(), there.stop(), generator.stop()]);
      }
      const notes = [
        'Both servers run at the same time with default settings; requests go to one of them, then to the other.',
        'Inserts and creates wait for the disk, whose time varies more than that of the processor.',
      ];
      return { measures, notes };
    },
  };
}
