// The servers on which the tests over every endpoint run: SQLite and DuckDB; where a file is imported with `?world=postgresql`, a store on
// PostgreSQL and DuckDB; with `?world=cluster`, a store on PostgreSQL and the catalog `default` on a ClickHouse cluster. What differs there by
// design is declared here.
import { describe, test } from 'node:test';
import { createClient } from '../../src/client/index.ts';
import { clickhouseWith } from '../../src/engines/clickhouse/clickhouse.ts';
import type { ServerHooks } from '../../src/main.ts';
import type { EngineCapability } from '../../src/model/engine_capabilities.ts';
import type { Settings } from '../../src/settings/read_settings.ts';
import type { Code } from '../../src/standard/codes.ts';
import type { Operation } from '../../src/standard/openapi/operations.ts';
import type { PostgresqlLocation } from '../../src/store/postgresql/postgresql_store.ts';
import { runsAll } from '../budget.ts';
import { clusterHosts, createClusterWarehouse } from '../engines/clickhouse/cluster_warehouse.ts';
import { missingRing, startRing } from '../engines/clickhouse/ring/ring.ts';
import { missingPostgresql, newStoreDatabase, urlOfDatabase } from '../postgresql.ts';
import { Random, seedFrom } from '../random.ts';
import { start, TestServer } from '../server.ts';
import { warehousesWithoutKeys } from './fixtures.ts';
import { nameOf } from './operation_call.ts';

const clickhouse = clickhouseWith();

type Start = (settings?: Partial<Settings>, hooks?: ServerHooks) => Promise<TestServer>;

export interface World {
  readonly name: string;
  readonly start: Start;
  /** The warehouse of the catalog `default`. */
  readonly warehouse: string;
  /** Why no test of the operation can run here. */
  readonly skipped: (operation: Operation) => string | undefined;
  /** The code of an operation that succeeds elsewhere and is refused here by design. */
  readonly refusal: (operation: Operation) => Code | undefined;
  /** Tables of the store that the servers themselves write in the background. */
  readonly backgroundTables: readonly string[];
  /** Why the engine of the warehouse of `default` cannot be killed. */
  readonly withoutEngineProcess?: string;
}

/** The signs of life of the servers that share a store, and what they notify each other of. */
const tablesOfServers = ['servers', 'changes', 'running_queries', 'rate_charges'];

const usual: World = {
  name: 'SQLite and DuckDB',
  start: (settings, hooks) => start(settings, hooks),
  warehouse: 'default',
  skipped: () => undefined,
  refusal: () => undefined,
  backgroundTables: [],
};

/** The database of the store of a server; none if it is a file. */
export const storeLocations = new WeakMap<TestServer, PostgresqlLocation>();

const startOnPostgresql: Start = async (settings, hooks) => {
  const location = await newStoreDatabase();
  const server = await start({ ...settings, store: urlOfDatabase(location) }, hooks);
  storeLocations.set(server, location);
  return server;
};

const withoutServerBackups = ({ category }: Operation): string | undefined =>
  category.name === 'server_backups' ? 'a store on PostgreSQL is backed up with its own tools' : undefined;

const postgresql: World = {
  name: 'PostgreSQL and DuckDB',
  start: startOnPostgresql,
  warehouse: 'default',
  skipped: withoutServerBackups,
  refusal: () => undefined,
  backgroundTables: tablesOfServers,
};

/** Why the world on a cluster cannot be started; false if it can. */
export const missingCluster: string | false = missingRing || missingPostgresql;

const isNeeded = ({ endpoint }: Operation, capability: EngineCapability): boolean =>
  endpoint.needs?.some((need) => need.capability === capability && need.when === undefined) === true;

const lacking = (Object.keys(clickhouse.capabilities) as EngineCapability[]).filter(
  (capability) => !clickhouse.capabilities[capability],
);

const warehouseOnCluster = 'cluster';

const cluster: World = {
  name: 'PostgreSQL and ClickHouse',
  async start(settings, hooks) {
    const ring = await startRing(3);
    const server = await startOnPostgresql({ ...settings, clusterHosts }, hooks);
    const both = new TestServer(server, async () => {
      await server.close();
      await ring.close();
    });
    storeLocations.set(both, storeLocations.get(server) as PostgresqlLocation);
    try {
      const client = createClient({ url: server.url, token: server.token });
      await createClusterWarehouse(client, ring, { name: warehouseOnCluster, cluster: 'shards' });
      await client.catalogs(warehouseOnCluster).delete();
      // The paths of the tests name this catalog.
      await client.catalogs('default').move({ warehouse: warehouseOnCluster, retainSeconds: 0 }).done();
    } catch (error) {
      await both.close();
      throw error;
    }
    warehousesWithoutKeys.set(both, warehouseOnCluster);
    return both;
  },
  warehouse: warehouseOnCluster,
  withoutEngineProcess:
    'the servers of a cluster are no processes of ours: tests/engines/clickhouse/lost_server.test.ts kills them',
  backgroundTables: tablesOfServers,
  skipped(operation) {
    const { backups } = clickhouse.capabilities;
    const { endpoint } = operation;
    return (
      withoutServerBackups(operation) ??
      (endpoint.action === 'restore' && !backups ? 'the engine takes no backups' : undefined)
    );
  },
  refusal: (operation) =>
    lacking.some((capability) => isNeeded(operation, capability)) ? 'NOT_SUPPORTED_BY_ENGINE' : undefined,
};

const worlds = { usual, postgresql, cluster };
type WorldName = keyof typeof worlds;

export const worldOf = (url: string): World => worlds[(new URL(url).searchParams.get('world') ?? 'usual') as WorldName];

/**
 * The operations that a file tests in a world, without those that cannot run there. In the usual world, all; elsewhere a sample of so many in
 * their order, whose seed is printed and which TEST_SEED replays; all of them with TEST_BUDGET=all.
 */
export function testedIn(
  world: World,
  operations: readonly Operation[],
  countElsewhere = operations.length,
): readonly Operation[] {
  const reasons = new Map(operations.map((operation) => [operation, world.skipped(operation)]));
  for (const [operation, reason] of reasons)
    if (reason !== undefined) console.log(`not here, because ${reason}: ${nameOf(operation)}`);
  const possible = operations.filter((operation) => reasons.get(operation) === undefined);
  if (world === usual || runsAll || possible.length <= countElsewhere) return possible;
  const random = new Random(seedFrom('TEST_SEED'));
  console.log(`TEST_SEED=${random.seed}: ${countElsewhere} of ${possible.length} operations on ${world.name}`);
  const chosen = new Set(random.shuffled(possible).slice(0, countElsewhere));
  return possible.filter((operation) => chosen.has(operation));
}

/** Runs test files in another world, one after the other: of this directory, or of that of the module `from`. */
export function suitesIn(
  name: Exclude<WorldName, 'usual'>,
  files: readonly string[],
  from: string = import.meta.url,
): void {
  const skip = name === 'cluster' ? missingCluster : missingPostgresql;
  for (const file of files) {
    const suite = `${file}.test.ts on ${worlds[name].name}`;
    if (skip) test(suite, { skip }, () => {});
    else describe(suite, async () => void (await import(new URL(`${file}.test.ts?world=${name}`, from).href)));
  }
}
