// The ClickHouse adapter through REST compared with the same ClickHouse server asked directly over HTTP, on the same table: a result of 1 M
// rows × 8 columns, and point queries.
import { join } from 'node:path';
import { clusters, missingRing, type Ring, startRing } from '../tests/engines/clickhouse/ring/ring.ts';
import type { ProxyAnswer, ProxyJob } from './harness/bare_proxy.ts';
import { mixedColumns } from './harness/mixed_table.ts';
import { ask, startNode, stopProcess, watchMemory } from './harness/processes.ts';
import type { ReadAnswer, ReadJob } from './harness/reader.ts';
import { type Bench, type BenchOptions, compare, interleaved, type Measure } from './harness/report.ts';
import { TabulariumServer } from './harness/server.ts';

const resultRatioMin = 0.85;
const pointRatioMax = 1.25;
const growthMegabytesMax = 100;
const catalog = 'cluster';
const database = 'wide';
const table = 'mixed';
const point = 'SELECT * FROM mixed WHERE id = ';

/** Exact numbers and dates in the form that JSON has here. */
const peerSettings =
  'output_format_json_quote_64bit_integers=0&output_format_json_quote_decimals=0&date_time_output_format=iso';

/** Rows of the columns of `mixedColumns`. */
const rowsSql = (rows: number) => `SELECT toInt64(number) AS id, toInt32(cityHash64(number) % 10000) AS quantity,
  (cityHash64(number) % 100000007) / 65537 AS ratio, CAST(toDecimal64(cityHash64(number, 1) % 10000000, 2) / 100 AS Decimal(18, 2)) AS price,
  concat(['amber', 'birch', 'cobalt', 'dune', 'ember', 'fjord', 'granite', 'harbor'][1 + cityHash64(number, 2) % 8], ' ',
    toString(cityHash64(number, 3) % 1000)) AS label,
  toDate32('2020-01-01') + toIntervalDay(cityHash64(number, 4) % 2000) AS day,
  toDateTime64('2020-01-01 00:00:00', 6) + toIntervalMicrosecond(cityHash64(number, 5) % 100000000000000) AS at,
  cityHash64(number, 6) % 2 = 0 AS active FROM numbers(${rows})`;

interface Peers {
  readonly server: TabulariumServer;
  readonly node: string;
  /** In front of the node. */
  readonly proxy: string;
  /** The name of the database on the node. */
  readonly stored: string;
}

async function runOnNode(node: string, sql: string): Promise<string> {
  const response = await fetch(`${node}/`, { method: 'POST', body: sql });
  const answer = await response.text();
  if (!response.ok) throw new Error(answer);
  return answer.trim();
}

async function startPeers(ring: Ring, proxy: string, workDirectory: string): Promise<Peers> {
  const server = await TabulariumServer.start({
    dataDirectory: join(workDirectory, 'data'),
    pinned: false,
    flags: ['--cluster-hosts=127.0.0.1'],
  });
  const node = ring.nodes[0]?.url ?? '';
  const { client } = server;
  await client.warehouses.create({ name: 'cluster', engine: 'clickhouse', cluster: clusters.copies, user: 'default' });
  await client.warehouses('cluster').backends.create({ name: 'node-1', location: node });
  await client.catalogs.create({ name: catalog, warehouse: 'cluster' });
  await client.catalogs(catalog).databases.create({ name: database });
  const { tables } = client.catalogs(catalog).databases(database);
  await tables.create({ name: table, columns: mixedColumns, orderBy: ['id'] }).done();
  const stored = await runOnNode(node, `SELECT database FROM system.tables WHERE name = '${table}' FORMAT TSVRaw`);
  return { server, node, proxy, stored };
}

const queryPath = `/api/v2/catalogs/${catalog}/databases/${database}/query`;

type Read = (job: ReadJob) => Promise<Exclude<ReadAnswer, { readonly error: string }>>;

async function measureResults(
  read: Read,
  { server, node, proxy, stored }: Peers,
  options: BenchOptions,
): Promise<Measure[]> {
  const { quick, print } = options;
  const headers = { ...server.authorization, 'content-type': 'application/json' };
  const body = JSON.stringify({ sql: `SELECT * FROM ${table}` });
  const next = '"nextPage":"([^"]+)"';
  const service = () => read({ url: server.url, path: queryPath, headers, next, body });
  const peerBody = `SELECT * FROM ${stored}.${table} FORMAT JSONCompactEachRow`;
  const peerAt = (url: string) => () => read({ url, path: `/?${peerSettings}`, headers: {}, body: peerBody });
  const peer = peerAt(node);
  await service();
  await peer();
  await peerAt(proxy)();
  const memory = watchMemory(server.pid);
  const compared = await interleaved(quick ? 2 : 7, service, peer);
  const growth = await memory.stop();
  const megabytes = (answers: readonly { readonly bytes: number }[]) => ((answers[0]?.bytes ?? 0) / 1e6).toFixed(0);
  const measure = compare(compared, {
    what: `result, ${megabytes(compared.service)} MB`,
    unit: 'MB/s',
    serviceValue: (one) => one.bytes / one.ms / 1000,
    baselineValue: (one) => one.bytes / one.ms / 1000,
    baseline: `ClickHouse, JSONCompactEachRow, ${megabytes(compared.baseline)} MB`,
    target: { text: `≥ ${resultRatioMin}`, isMet: (ratio) => ratio >= resultRatioMin },
  });
  print(`  ${measure.what}: ${measure.value.toFixed(0)} MB/s, ${measure.ratio?.toFixed(2)}`);
  const first = compare(compared, {
    what: 'result, time to the first page',
    unit: 'ms',
    serviceValue: (one) => one.firstMs,
    baselineValue: (one) => one.ms,
    baseline: 'ClickHouse, the whole result',
  });
  const proxied = compare(await interleaved(quick ? 2 : 7, peerAt(proxy), peer), {
    what: '- the same through a bare proxy',
    unit: 'MB/s',
    serviceValue: (one) => one.bytes / one.ms / 1000,
    baselineValue: (one) => one.bytes / one.ms / 1000,
    baseline: 'ClickHouse, JSONCompactEachRow',
  });
  if (!growth) return [measure, proxied, first];
  const value = (growth.peak - growth.before) / 1e6;
  const target = { text: `< ${growthMegabytesMax}`, met: value < growthMegabytesMax };
  return [measure, proxied, first, { what: "growth of the server's resident memory", value, unit: 'MB', target }];
}

async function measurePoints(read: Read, peers: Peers, options: BenchOptions, rows: number): Promise<Measure[]> {
  const { server, node, proxy, stored } = peers;
  const { quick, print } = options;
  const count = quick ? 50 : 250;
  const idsOf = (round: number) => Array.from({ length: count }, (_, i) => ((i + round * count) * 7919) % rows);
  const headers = { ...server.authorization, 'content-type': 'application/json' };
  const service = (round: number) => {
    const bodies = idsOf(round).map((id) => JSON.stringify({ sql: `${point}$1`, parameters: [id] }));
    return read({ url: server.url, path: queryPath, headers, body: '', bodies });
  };
  const path = `/?database=${encodeURIComponent(stored)}&${peerSettings}`;
  const peerAt = (url: string) => (round: number) => {
    const bodies = idsOf(round).map((id) => `${point}${id} FORMAT JSONCompactEachRow`);
    return read({ url, path, headers: {}, body: '', bodies });
  };
  const peer = peerAt(node);
  await service(0);
  await peer(0);
  await peerAt(proxy)(0);
  const compared = await interleaved(
    quick ? 2 : 7,
    (round) => service(round + 1),
    (round) => peer(round + 1),
  );
  const measureOf = (part: number, what: string) =>
    compare(compared, {
      what: `point query, ${what}`,
      unit: 'ms',
      serviceValue: ({ eachMs }) => quantile(eachMs, part),
      baselineValue: ({ eachMs }) => quantile(eachMs, part),
      baseline: 'ClickHouse over HTTP',
      ...(part === 0.5 && { target: { text: `≤ ${pointRatioMax}`, isMet: (ratio: number) => ratio <= pointRatioMax } }),
    });
  const proxied = compare(await interleaved(quick ? 2 : 7, peerAt(proxy), peer), {
    what: '- p50 through a bare proxy',
    unit: 'ms',
    serviceValue: ({ eachMs }) => quantile(eachMs, 0.5),
    baselineValue: ({ eachMs }) => quantile(eachMs, 0.5),
    baseline: 'ClickHouse over HTTP',
  });
  const measures = [measureOf(0.5, 'p50'), proxied, measureOf(0.99, 'p99')];
  print(`  point query: ${measures[0]?.value.toFixed(2)} ms, ${measures[0]?.ratio?.toFixed(2)}`);
  return measures;
}

const quantile = (values: readonly number[], part: number): number =>
  [...values].sort((a, b) => a - b)[Math.floor(values.length * part)] ?? Number.NaN;

export const bench: Bench = {
  name: 'clickhouse',
  claim: `The ClickHouse engine through REST compared with the same ClickHouse server over HTTP: a result of 1 M rows × 8 columns with at least ${resultRatioMin} of its MB/s, a point query in at most ${pointRatioMax} times its time.`,
  async run(options) {
    if (missingRing) throw new Error(missingRing);
    const rows = options.quick ? 100_000 : 1_000_000;
    const ring = await startRing(1, { withoutProxies: true });
    const reader = startNode(join(import.meta.dirname, 'harness', 'reader.ts'), [], {
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    const bareProxy = startNode(join(import.meta.dirname, 'harness', 'bare_proxy.ts'), [], {
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    const read: Read = async (job) => {
      const answer = await ask<ReadJob, ReadAnswer>(reader, job);
      if ('error' in answer) throw new Error(answer.error);
      return answer;
    };
    const { url: proxy } = await ask<ProxyJob, ProxyAnswer>(bareProxy, { target: ring.nodes[0]?.url ?? '' });
    const peers = await startPeers(ring, proxy, options.workDirectory);
    try {
      await runOnNode(
        peers.node,
        `INSERT INTO ${peers.stored}.${table} SETTINGS distributed_foreground_insert = 1 ${rowsSql(rows)}`,
      );
      await runOnNode(peers.node, `OPTIMIZE TABLE ${peers.stored}.${table}__local FINAL`);
      const measures = [
        ...(await measureResults(read, peers, options)),
        ...(await measurePoints(read, peers, options, rows)),
      ];
      return {
        measures,
        notes: [
          `${rows.toLocaleString('en-US')} rows in one Distributed table over one server, whose definition names itself; one client process without content coding. Both sides name the Distributed table; Tabularium reads the local table below it where that has all rows (docs/clickhouse.md).`,
          'Result: Tabularium page by page on one connection, ClickHouse one chunked response. Point query: one after the other on one connection, the id drawn at random, the table ordered by it.',
          'Bare proxy: a process of Node.js that passes requests and responses on unread (harness/bare_proxy.ts), on the same cores: what any server in Node.js adds at least.',
          `ClickHouse ${await runOnNode(peers.node, 'SELECT version()')}, made of the library of npm chdb.`,
        ],
      };
    } finally {
      await Promise.all([peers.server.stop(), ring.close(), stopProcess(reader), stopProcess(bareProxy)]);
    }
  },
};
