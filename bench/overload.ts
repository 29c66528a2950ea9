// Small statements on 64, 300 and 1,000 connections of one warehouse, by one principal and by many: the throughput and latency, and
// how long clients that honor Retry-After are refused.
import { join } from 'node:path';
import { Generator } from './harness/load.ts';
import type { CrowdResult, RequestTemplate } from './harness/load_job.ts';
import { mixedColumns, mixedRows, mixedRowsSql } from './harness/mixed_table.ts';
import { computedMicroseconds } from './harness/processes.ts';
import { type Bench, type Measure, median } from './harness/report.ts';
import { TabulariumServer } from './harness/server.ts';

const database = 'crowded';
const connectionCounts = [64, 300, 1000] as const;
const fewConnections = connectionCounts[0];
const throughputMin = 0.9;
const p99Max = 3;
const refusedMsMax = 30_000;
const bodiesCount = 50;
const pauseMs = 1500;

interface Work {
  readonly what: string;
  readonly template: Omit<RequestTemplate, 'headers'>;
  readonly status: number;
}

interface MeasuredRound extends CrowdResult {
  /** Processor time of the server and its engine for each served request. */
  readonly serverMicroseconds: number;
}

const grants = [
  ['use', '/api/v2/warehouses/default'],
  ['read', `/api/v2/databases/${database}`],
  ['write', `/api/v2/databases/${database}`],
] as const;

const headers = { 'Content-Type': 'application/json' };

function workloads(rows: number): Work[] {
  const numbers = Array.from({ length: bodiesCount }, (_, i) => (i * 7919) % rows);
  const sql = 'SELECT * FROM points WHERE id = $1';
  return [
    {
      what: 'point queries',
      template: {
        method: 'POST',
        path: `/api/v2/databases/${database}/query`,
        bodies: numbers.map((n) => JSON.stringify({ sql, parameters: [n] })),
      },
      status: 200,
    },
    {
      what: 'inserts of one row',
      template: {
        method: 'POST',
        path: `/api/v2/databases/${database}/tables/inserted/rows`,
        bodies: numbers.map((n) => JSON.stringify({ rows: mixedRows(n, 1) })),
      },
      status: 201,
    },
  ];
}

/** Users that may read and write the database, and the credentials of each. */
async function users({ client }: TabulariumServer, count: number): Promise<string[]> {
  const authorizations: string[] = [];
  for (let n = 0; n < count; n++) {
    const name = `client_${n}`;
    await client.users.create({ name });
    for (const [privilege, on] of grants) await client.users(name).grants.create({ privilege, on });
    const { secret } = await client.users(name).tokens.create({ name: 'bench' });
    authorizations.push(`Bearer ${secret}`);
  }
  return authorizations;
}

async function measureLoad(
  server: TabulariumServer,
  generator: Generator,
  { template, status }: Work,
  { connections, authorizations, quick }: { connections: number; authorizations: readonly string[]; quick: boolean },
): Promise<MeasuredRound> {
  const pids = [server.pid, ...server.enginePids()];
  const computed = () => pids.reduce((sum, pid) => sum + (computedMicroseconds(pid) ?? Number.NaN), 0);
  const before = computed();
  const result = await generator.crowd({
    port: server.port,
    connections,
    authorizations,
    template: { ...template, headers },
    status,
    warmupMs: quick ? 1000 : 3000,
    durationMs: quick ? 2000 : 10_000,
  });
  const serverMicroseconds = (computed() - before) / result.acknowledged;
  await new Promise((resolve) => setTimeout(resolve, pauseMs));
  return { ...result, serverMicroseconds };
}

function measuresOf(what: string, rounds: ReadonlyMap<number, readonly MeasuredRound[]>): Measure[] {
  const resultOf = (connections: number, key: keyof MeasuredRound) =>
    median((rounds.get(connections) as readonly MeasuredRound[]).map((round) => round[key]));
  return connectionCounts.flatMap((connections): Measure[] => {
    const setting = `${what}, ${connections} connections`;
    const throughput = resultOf(connections, 'perSecond') / resultOf(fewConnections, 'perSecond');
    const p99 = resultOf(connections, 'p99Ms') / resultOf(fewConnections, 'p99Ms');
    const isTarget = connections === connectionCounts.at(-1);
    const refusedMs = Math.max(
      ...(rounds.get(connections) as readonly MeasuredRound[]).map((round) => round.refusedForMsMax),
    );
    const neverAnswered = Math.max(
      ...(rounds.get(connections) as readonly MeasuredRound[]).map((round) => round.neverServed),
    );
    const target = (text: string, met: boolean) => (isTarget ? { target: { text, met } } : {});
    return [
      {
        what: `${setting}: served`,
        value: resultOf(connections, 'perSecond'),
        unit: '/s',
        ...(connections === fewConnections ? {} : { ratio: throughput }),
        ...target(`≥ ${throughputMin}`, throughput >= throughputMin),
      },
      {
        what: `${setting}: p99 of the attempt that was served`,
        value: resultOf(connections, 'p99Ms'),
        unit: 'ms',
        ...(connections === fewConnections ? {} : { ratio: p99 }),
        ...target(`≤ ${p99Max}`, p99 <= p99Max),
      },
      {
        what: `${setting}: served for each second of the server's processor time`,
        value: 1_000_000 / resultOf(connections, 'serverMicroseconds'),
        unit: '',
        ...(connections === fewConnections
          ? {}
          : { ratio: resultOf(fewConnections, 'serverMicroseconds') / resultOf(connections, 'serverMicroseconds') }),
      },
      { what: `${setting}: p99 from the first attempt`, value: resultOf(connections, 'firstP99Ms'), unit: 'ms' },
      {
        what: `${setting}: until each connection had an answer`,
        value: resultOf(connections, 'firstAnswersMs'),
        unit: 'ms',
      },
      { what: `${setting}: refused`, value: resultOf(connections, 'refused'), unit: '' },
      {
        what: `${setting}: longest time refused`,
        value: refusedMs / 1000,
        unit: 's',
        ...target('≤ 30', refusedMs <= refusedMsMax),
      },
      { what: `${setting}: clients never served`, value: neverAnswered, unit: '', ...target('0', neverAnswered === 0) },
      {
        what: `${setting}: processor time of the client`,
        value: resultOf(connections, 'clientShare') * 100,
        unit: '% of a core',
      },
    ];
  });
}

export const bench: Bench = {
  name: 'overload',
  claim: `Small statements on 1,000 connections: at least ${throughputMin} of the throughput of ${fewConnections}, p99 of the admitted at most ${p99Max} times as long.`,
  async run({ quick, workDirectory, print }) {
    const rows = quick ? 10_000 : 100_000;
    const server = await TabulariumServer.start({
      dataDirectory: join(workDirectory, 'data'),
      pinned: false,
      flags: ['--connections-per-address-max', '0'],
    });
    const generator = new Generator({ pinned: false });
    const measures: Measure[] = [];
    try {
      await server.createDatabase(database);
      await server.createTable(database, 'points', { columns: mixedColumns, primaryKey: ['id'] });
      await server.createTable(database, 'inserted', { columns: mixedColumns });
      await server.query(database, `INSERT INTO points ${mixedRowsSql(rows)}`);
      const singlePrincipal = [`Bearer ${server.token}`];
      const manyPrincipals = await users(server, quick ? 20 : 100);
      for (const work of workloads(rows)) {
        let acknowledged = 0;
        let cutBatches = 0;
        for (const [callers, authorizations] of [
          ['one principal', singlePrincipal],
          [`${manyPrincipals.length} principals`, manyPrincipals],
        ] as const) {
          const what = `${work.what}, ${callers}`;
          const rounds = new Map<number, MeasuredRound[]>(connectionCounts.map((count) => [count, []]));
          for (let round = 0; round < (quick ? 1 : 2); round++) {
            for (const connections of connectionCounts) {
              const result = await measureLoad(server, generator, work, { connections, authorizations, quick });
              rounds.get(connections)?.push(result);
              acknowledged += result.acknowledged;
              cutBatches += result.cut;
              print(`  ${what}, ${connections} connections: ${describeResult(result)}`);
            }
          }
          measures.push(...measuresOf(what, rounds));
        }
        if (work.status === 201) await requireCount(server, acknowledged, cutBatches);
      }
    } finally {
      await Promise.all([server.stop(), generator.stop()]);
    }
    return {
      measures,
      notes: [
        'Two rounds, 10 s for each number of connections after a warm-up of 3 s; the medians.',
        'Each client has one connection and one request at a time: served, it sends the next at once; refused, it sends the same again after `Retry-After`, to the second.',
        'The p99 of an attempt is measured by the client, from the write of the request that was served to its answer; the p99 from the first attempt has the waits that refusals asked for.',
        `The client is one process on the same cores. Ratios are to ${fewConnections} connections.`,
        "The server's processor time is that of the server and its engine, with what refusals and connections cost. On a machine that others keep busy it is the steadier number: requests served in a second also depend on what the others leave.",
        'At the end the rows of the inserts are counted: as many as were acknowledged.',
      ],
    };
  },
};

function describeResult(result: MeasuredRound): string {
  const { perSecond, p50Ms, p99Ms, firstP50Ms, firstP99Ms, refused, refusedForMsMax, neverServed } = result;
  return [
    `${perSecond.toFixed(0)}/s`,
    `p50 ${p50Ms.toFixed(0)} p99 ${p99Ms.toFixed(0)} ms`,
    `from the first attempt p50 ${firstP50Ms.toFixed(0)} p99 ${firstP99Ms.toFixed(0)} ms`,
    `refused ${refused}, for ${(refusedForMsMax / 1000).toFixed(1)} s at most`,
    `never served ${neverServed}`,
    `each connection answered after ${(result.firstAnswersMs / 1000).toFixed(1)} s`,
    `${result.serverMicroseconds.toFixed(0)} µs of the server each`,
    `client ${(result.clientShare * 100).toFixed(0)} % of a core`,
  ].join('; ');
}

async function requireCount(server: TabulariumServer, acknowledged: number, cut: number): Promise<void> {
  const [row] = await server.query(database, 'SELECT count(*) FROM inserted');
  const counted = Number(row?.[0]);
  if (counted < acknowledged || counted > acknowledged + cut)
    throw new Error(`${acknowledged} rows were acknowledged, ${counted} are in the table`);
}
