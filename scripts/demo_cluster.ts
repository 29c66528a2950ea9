// `npm run demo:cluster`: three ClickHouse servers, a PostgreSQL and two servers of Tabularium on this machine, on free ports and with their
// data in a temporary directory. Creates a warehouse on the cluster through the REST API, runs the Star Schema Benchmark on it and on DuckDB,
// compares the results, and stays up until Ctrl-C. The cluster is that of the tests (tests/engines/clickhouse/ring), which the package lacks.
import { randomBytes } from 'node:crypto';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { parseArgs } from 'node:util';
import { createClient, TabulariumError } from '../src/client/index.ts';
import { type DemoQueryResult, runDemo } from '../src/demo/demo.ts';
import { database, ssbQueries } from '../src/demo/ssb_load.ts';
import { curlLine, tracedClient } from '../src/demo/traced_client.ts';
import { clusters, missingRing, type Ring, startRing } from '../tests/engines/clickhouse/ring/ring.ts';
import { missingPostgresql, newDatabase, urlOfDatabase } from '../tests/postgresql.ts';
import { type ServerProcess, startProcess } from '../tests/server.ts';

const usage = `npm run demo:cluster -- [--scale 0.01] [--cluster copies|shards] [--exit]

  --scale    the scale factor of the benchmark; 1 is 6,000,000 rows in lineorder
  --cluster  copies: each of the three ClickHouse servers has all rows; shards: each has a third
  --exit     end after the queries, instead of staying up until Ctrl-C`;

const warehouse = 'cluster';
const catalog = 'cluster';
const knownWaitMs = 30_000;
const pollMs = 100;

const print = (line: string): void => void process.stdout.write(`${line}\n`);

interface Started {
  readonly directory: string;
  readonly ring: Ring;
  readonly servers: readonly [ServerProcess, ServerProcess];
}

/** What has to be installed first; the demo installs nothing by itself. */
function missing(): readonly string[] {
  const ring = 'ClickHouse (541 MB, Linux x64 only):  npm ci --prefix tests/engines/clickhouse/ring';
  const postgresql = 'PostgreSQL (as root):                 apt-get install postgresql';
  const python = 'Python 3 (as root):                   apt-get install python3';
  const setpriv = 'setpriv (as root):                    apt-get install util-linux';
  return [
    ...(missingRing ? [ring] : []),
    ...(missingPostgresql ? [postgresql] : []),
    ...(isInstalled('python3') ? [] : [python]),
    ...(isInstalled('setpriv') ? [] : [setpriv]),
  ];
}

const isInstalled = (program: string): boolean =>
  (process.env.PATH ?? '').split(delimiter).some((directory) => existsSync(join(directory, program)));

const endings: (() => unknown)[] = [];

/** In the reverse order of the starts; each is tried. */
async function endAll(): Promise<void> {
  for (const end of endings.splice(0).reverse()) {
    try {
      await end();
    } catch (error) {
      process.stderr.write(`${String(error)}\n`);
    }
  }
}

async function startAll(): Promise<Started> {
  const directory = mkdtempSync(join(tmpdir(), 'tabularium-demo-cluster-'));
  endings.push(() => rmSync(directory, { recursive: true, force: true }));
  print('# Starting three ClickHouse servers, PostgreSQL and two servers of Tabularium');
  const ring = await startRing(3);
  endings.push(() => ring.close());
  const key = join(directory, 'secret.key');
  writeFileSync(key, randomBytes(32).toString('base64'), { mode: 0o600 });
  const flags = [
    `--store=${urlOfDatabase(await newDatabase())}`,
    `--secret-key-file=${key}`,
    '--cluster-hosts=127.0.0.1',
    '--shutdown-timeout-ms=2000',
  ];
  const start = async (name: string): Promise<ServerProcess> => {
    const server = await startProcess(flags, join(directory, name));
    endings.push(() => server.close());
    return server;
  };
  // One after the other: the first creates the tables of the store.
  return { directory, ring, servers: [await start('server-1'), await start('server-2')] };
}

const tokenFileOf = ({ dataDirectory }: ServerProcess): string => join(dataDirectory, 'root.token');

/** A client whose calls are printed as lines that can be pasted. */
const printedClient = (server: ServerProcess) =>
  tracedClient(server, {
    sent: (request) => print(curlLine(request, tokenFileOf(server))),
    received: ({ status, result }) => print(`  ${status}${typeof result.uri === 'string' ? `: ${result.uri}` : ''}`),
  });

async function createWarehouse({ ring, servers: [server] }: Started, cluster: string): Promise<void> {
  const client = printedClient(server);
  print('');
  print(`# A warehouse on the cluster "${cluster}", with its three servers as backends, and a catalog on it`);
  await client.warehouses.create({ name: warehouse, engine: 'clickhouse', cluster, user: 'default', password: '' });
  for (const [i, { url }] of ring.nodes.entries())
    await client.warehouses(warehouse).backends.create({ name: `node-${i + 1}`, location: url });
  await client.catalogs.create({ name: catalog, warehouse });
  const { state, health, shardCount, replicaCount } = await client.warehouses(warehouse).get();
  print(`  ${state}, ${health.status}: ${shardCount} shards with ${replicaCount} replicas each`);
}

/** The rows of a query in an order that does not depend on ties, as text: numbers are exact in it. */
const canonical = (rows: readonly (readonly unknown[])[]): string =>
  rows
    .map((row) => row.map(String).join('\t'))
    .sort()
    .join('\n');

/** The names of the queries whose results differ. */
function differing(one: readonly DemoQueryResult[], other: readonly (readonly (readonly unknown[])[])[]): string[] {
  return one.flatMap(({ name, rows }, i) => (canonical(rows) === canonical(other[i] ?? []) ? [] : [name]));
}

/** The second server learns of the tables from the changes feed. */
async function throughOther({ servers: [, server] }: Started): Promise<readonly (readonly (readonly unknown[])[])[]> {
  const client = createClient(server);
  for (
    const deadline = performance.now() + knownWaitMs;
    ;
    await new Promise((resolve) => setTimeout(resolve, pollMs))
  ) {
    const known = await client
      .catalogs(catalog)
      .databases(database)
      .tables('lineorder')
      .get()
      .catch(() => undefined);
    if (known) break;
    if (performance.now() > deadline) throw new Error('the second server does not know the tables');
  }
  const results: (readonly (readonly unknown[])[])[] = [];
  for (const { sql } of await ssbQueries())
    results.push(await Array.fromAsync(client.query(sql, { catalog, database }).arrays()));
  return results;
}

function report(what: string, names: readonly string[]): void {
  const isEqual = names.length === 0;
  print(isEqual ? `  ${what}: all results are equal` : `  ${what}: ${names.join(', ')} differ`);
  if (!isEqual) process.exitCode = 1;
}

async function run(scale: number, cluster: string): Promise<Started> {
  const started = await startAll();
  const [server] = started.servers;
  await createWarehouse(started, cluster);
  print('');
  const demo = { url: server.url, token: server.token, scale, dataDir: server.dataDirectory };
  const onCluster = await runDemo({ ...demo, catalog, out: print });
  print('');
  print('# The same on DuckDB, in the catalog default, and on the cluster through the second server');
  const onDuckdb = await runDemo({ ...demo, out: () => {} });
  report(
    'cluster and DuckDB',
    differing(
      onCluster,
      onDuckdb.map(({ rows }) => rows),
    ),
  );
  report('both servers', differing(onCluster, await throughOther(started)));
  return started;
}

function printPlaces({ ring, servers }: Started): void {
  print('');
  print('# Running until Ctrl-C');
  for (const server of servers) print(`  server      ${server.url}  token: $(cat ${tokenFileOf(server)})`);
  for (const { url } of ring.nodes) print(`  ClickHouse  ${url}`);
}

const { values } = parseArgs({
  options: {
    scale: { type: 'string', default: '0.01' },
    cluster: { type: 'string', default: clusters.copies },
    exit: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});
const scale = Number(values.scale);
const isKnown = Object.values<string>(clusters).includes(values.cluster);
if (values.help || !isKnown || !(scale >= 0.001 && scale <= 100)) {
  print(usage);
  process.exit(values.help ? 0 : 2);
}
const toInstall = missing();
if (toInstall.length > 0) {
  print('The demo of a cluster needs programs that are not installed:');
  for (const line of toInstall) print(`  ${line}`);
  process.exit(1);
}

const stopped = new Promise<void>((resolve) => {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => resolve());
});
try {
  const started = await Promise.race([run(scale, values.cluster), stopped]);
  if (started) {
    printPlaces(started);
    if (!values.exit) await stopped;
  }
} catch (error) {
  // A failed call of the demo is printed by it.
  if (!(error instanceof TabulariumError)) process.stderr.write(`${(error as Error).stack}\n`);
  else process.stderr.write(`${error.message}\n`);
  process.exitCode = 1;
} finally {
  await endAll();
}
process.exit();
