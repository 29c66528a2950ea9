// What a second server on the same store costs: requests per second of processor time of two servers that share a store, and of two that have
// one each, with the same mix of requests. The processor time of the stores and of the warehouse, which all share, is reported beside.
import { readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { clusters, type Ring, startRing } from '../../tests/engines/clickhouse/ring/ring.ts';
import { newStoreDatabase, urlOfDatabase } from '../../tests/postgresql.ts';
import { lineorderColumns } from './filled_store.ts';
import { Generator } from './load.ts';
import type { MixedJob, RequestTemplate } from './load_job.ts';
import { childrenOf, computedMicroseconds } from './processes.ts';
import { type BenchOptions, compare, interleaved, type Measure } from './report.ts';
import { TabulariumServer } from './server.ts';

/** So that two machines answer at least 1.7 times as many requests as one. */
export const requestsPerProcessorRatioMin = 0.85;
const connections = 8;
const database = 'shop';
/** The name of a catalog is that of its installation: a node has the databases of one catalog of a name. */
const tablesOf = (catalog: string): string => `/api/v2/catalogs/${catalog}/databases/${database}/tables`;
/** The tables that are created need more than a node has in tests. */
const memoryOfNode = '<clickhouse><max_server_memory_usage>8000000000</max_server_memory_usage></clickhouse>';
const rowCount = 10_000;
const listedTables = 100;

type Request = MixedJob['targets'][number]['requests'][number];
type Kind = 'get' | 'list' | 'query' | 'create';

/** Of 20 requests, in this order. */
const mix: readonly Kind[] = [
  ...(['get', 'get', 'query', 'get', 'list', 'get', 'get', 'query', 'get', 'create'] as const),
  ...(['get', 'get', 'query', 'get', 'list', 'get', 'get', 'query', 'get', 'list'] as const),
];

function requestsOf({ authorization }: TabulariumServer, catalog: string, kinds: readonly Kind[]): readonly Request[] {
  const tables = tablesOf(catalog);
  const headers = { ...authorization, 'Content-Type': 'application/json' };
  const bodies = Array.from({ length: 97 }, (_, i) =>
    JSON.stringify({ sql: 'SELECT note FROM points WHERE id = $1', parameters: [(i * 7919) % rowCount] }),
  );
  const post = (path: string, sent: readonly string[]): RequestTemplate => {
    return { method: 'POST', path, headers, bodies: sent };
  };
  const created = JSON.stringify({ name: 'created_{name}', columns: lineorderColumns });
  const byKind: Record<Kind, Request> = {
    get: { template: { method: 'GET', path: `${tables}/points`, headers: authorization }, status: 200 },
    list: {
      template: { method: 'GET', path: tables.replace(database, 'listed'), headers: authorization },
      status: 200,
    },
    query: { template: post(tables.replace('/tables', '/query'), bodies), status: 200 },
    create: { template: post(tables, [created]), status: 201 },
  };
  return kinds.map((kind) => byKind[kind]);
}

interface CatalogServer {
  readonly server: TabulariumServer;
  readonly catalog: string;
}

/** Servers on a store of their own. */
interface Installation {
  readonly servers: readonly CatalogServer[];
  /** The processes that start all others of their stores. */
  readonly storePids: readonly number[];
  next: number;
}

async function install(count: number, ring: Ring, directory: string): Promise<Installation> {
  const catalog = basename(directory);
  const location = await newStoreDatabase();
  const storePid = Number(readFileSync(join(location.host, 'data', 'postmaster.pid'), 'utf8').split('\n', 1)[0]);
  const servers: TabulariumServer[] = [];
  for (let n = 0; n < count; n++) {
    const key = n > 0 ? ['--secret-key-file', join(`${directory}-0`, 'secret.key')] : [];
    const flags = ['--store', urlOfDatabase(location), '--cluster-hosts=127.0.0.1', ...key];
    servers.push(await TabulariumServer.start({ dataDirectory: `${directory}-${n}`, pinned: false, flags }));
  }
  const { client } = servers[0] as TabulariumServer;
  await client.warehouses.create({ name: 'cluster', engine: 'clickhouse', cluster: clusters.copies, user: 'default' });
  await client.warehouses('cluster').backends.create({ name: 'node-1', location: ring.nodes[0]?.url ?? '' });
  await client.catalogs.create({ name: catalog, warehouse: 'cluster' });
  const { databases } = client.catalogs(catalog);
  for (const name of [database, 'listed']) await databases.create({ name });
  const columns = [
    { name: 'id', type: 'BIGINT', nullable: false },
    { name: 'note', type: 'STRING' },
  ] as const;
  await databases(database)
    .tables.create({ name: 'points', columns, orderBy: ['id'] })
    .done();
  const rows = Array.from({ length: rowCount }, (_, id) => [id, `note ${id}`]);
  await databases(database).tables('points').rows.create({ rows });
  for (let n = 0; n < listedTables; n++)
    await databases('listed')
      .tables.create({ name: `table_${n}`, columns: lineorderColumns })
      .done();
  return { servers: servers.map((server) => ({ server, catalog })), storePids: [storePid], next: 0 };
}

/** Processor time of these processes and those that they started, in microseconds. */
function spentBy(pids: readonly number[]): ReadonlyMap<number, number> {
  const all = pids.flatMap((pid) => [pid, ...childrenOf(pid)]);
  return new Map(all.map((pid) => [pid, computedMicroseconds(pid) ?? 0]));
}

function spentSince(before: ReadonlyMap<number, number>, pids: readonly number[]): number {
  return spentBy(pids)
    .entries()
    .reduce((sum, [pid, spent]) => sum + spent - (before.get(pid) ?? 0), 0);
}

/**
 * As many servers are busy as in the installation that they are compared with: with one, each request would take less processor time because
 * the cores of a machine share their caches and their units, which two machines do not.
 */
function bothOf(one: Installation, other: Installation): Installation {
  return {
    servers: [...one.servers, ...other.servers],
    storePids: [...one.storePids, ...other.storePids],
    next: 0,
  };
}

interface Turn {
  readonly requests: number;
  /** Microseconds of processor time. */
  readonly servers: number;
  readonly store: number;
  readonly warehouse: number;
}

const parts = ['servers', 'store', 'warehouse'] as const;

async function turnOf(one: Installation, generator: Generator, ring: Ring, kinds: readonly Kind[], count: number) {
  const pids: Record<(typeof parts)[number], readonly number[]> = {
    servers: one.servers.map(({ server }) => server.pid),
    store: one.storePids,
    warehouse: ring.nodes.flatMap(({ pid }) => pid ?? []),
  };
  const before = parts.map((part) => spentBy(pids[part]));
  const targets = one.servers.map(({ server, catalog }) => ({
    port: server.port,
    requests: requestsOf(server, catalog, kinds),
  }));
  const total = count * one.servers.length;
  const { next } = await generator.mixed({ targets, connections, first: one.next, count: total });
  one.next = next;
  const spent = parts.map(
    (part, i) => [part, spentSince(before[i] as ReadonlyMap<number, number>, pids[part])] as const,
  );
  return { requests: total, ...Object.fromEntries(spent) } as Turn;
}

export async function measureSecondServer({ quick, print, workDirectory }: BenchOptions): Promise<Measure[]> {
  const ring = await startRing(1, { files: { 'config.d/memory.xml': memoryOfNode } });
  const generator = new Generator({ pinned: false });
  const all: TabulariumServer[] = [];
  try {
    const installed = async (servers: number, name: string) => {
      const one = await install(servers, ring, join(workDirectory, name));
      all.push(...one.servers.map(({ server }) => server));
      return one;
    };
    const alone = bothOf(await installed(1, 'alone'), await installed(1, 'other'));
    const two = await installed(2, 'together');
    const count = quick ? 200 : 3000;
    const turn = (one: Installation) => () => turnOf(one, generator, ring, mix, count);
    await turn(alone)();
    await turn(two)();
    const compared = await interleaved(quick ? 1 : 7, turn(two), turn(alone));
    const secondsOf = (part: (typeof parts)[number]) => (one: Turn) => one[part] / one.requests;
    const perSecond = (one: Turn) => 1e6 / secondsOf('servers')(one);
    const measure = compare(compared, {
      what: `requests per second of processor time of two servers with one store, ${connections} connections each`,
      unit: '1/s',
      serviceValue: perSecond,
      baselineValue: perSecond,
      baseline: 'two servers with a store each',
      target: {
        text: `≥ ${requestsPerProcessorRatioMin}`,
        isMet: (ratio) => ratio >= requestsPerProcessorRatioMin,
      },
    });
    print(
      `  two servers: ${measure.value.toFixed(0)} requests per second of processor time, ${measure.ratio?.toFixed(2)}`,
    );
    const beside = (part: 'store' | 'warehouse', what: string) =>
      compare(compared, {
        what: `- processor time of ${what} for one request`,
        unit: 'µs',
        serviceValue: secondsOf(part),
        baselineValue: secondsOf(part),
        baseline: 'two servers with a store each',
      });
    return [measure, beside('store', 'PostgreSQL'), beside('warehouse', 'ClickHouse')];
  } finally {
    await generator.stop();
    for (const server of all) await server.stop();
    await ring.close();
  }
}
