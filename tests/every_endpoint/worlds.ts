// The servers on which the tests over every endpoint run: SQLite and DuckDB; where a file is imported with `?world=postgresql`, a store on
// PostgreSQL and DuckDB; with `?world=cluster`, a store on PostgreSQL and the catalog `default` on a ClickHouse cluster.

import { createClient } from '../../src/client/index.ts';
import { clickhouseWith } from '../../src/engines/clickhouse/clickhouse.ts';
import type { EngineCapability } from '../../src/model/engine_capabilities.ts';
import type { Code } from '../../src/standard/codes.ts';
import type { Operation } from '../../src/standard/openapi/operations.ts';
import { clusterHosts, createClusterWarehouse } from '../engines/clickhouse/cluster_warehouse.ts';
import { missingRing, startRing } from '../engines/clickhouse/ring/ring.ts';
import { missingPostgresql, newStoreDatabase, urlOfDatabase } from '../postgresql.ts';
import { start, TestServer } from '../server.ts';
import { warehousesWithoutKeys } from './fixtures.ts';

const clickhouse = clickhouseWith();

export interface World {
  start(): Promise<TestServer>;
  /** Why no test of the operation can run here. */
  readonly skipped: (operation: Operation) => string | undefined;
  /** The code of an operation that succeeds elsewhere and is refused here by design. */
  readonly refusal: (operation: Operation) => Code | undefined;
}

const usual: World = { start: () => start(), skipped: () => undefined, refusal: () => undefined };

const withoutServerBackups = ({ category }: Operation): string | undefined =>
  category.name === 'server_backups' ? 'a store on PostgreSQL is backed up with its own tools' : undefined;

const postgresql: World = {
  start: async () => start({ store: urlOfDatabase(await newStoreDatabase()) }),
  skipped: withoutServerBackups,
  refusal: () => undefined,
};

/** Why the world on a cluster cannot be started; false if it can. */
export const missingCluster: string | false = missingRing || missingPostgresql;

const isNeeded = ({ endpoint }: Operation, capability: EngineCapability): boolean =>
  endpoint.needs?.some((need) => need.capability === capability && need.when === undefined) === true;

const lacking = (Object.keys(clickhouse.capabilities) as EngineCapability[]).filter(
  (capability) => !clickhouse.capabilities[capability],
);

const cluster: World = {
  async start() {
    const ring = await startRing(3);
    const server = await start({ store: urlOfDatabase(await newStoreDatabase()), clusterHosts });
    const both = new TestServer(server, async () => {
      await server.close();
      await ring.close();
    });
    try {
      const client = createClient({ url: server.url, token: server.token });
      await createClusterWarehouse(client, ring, { name: 'cluster', cluster: 'shards' });
      await client.catalogs('cluster').delete();
      // The paths of the tests name this catalog.
      await client.catalogs('default').move({ warehouse: 'cluster', retainSeconds: 0 }).done();
    } catch (error) {
      await both.close();
      throw error;
    }
    warehousesWithoutKeys.set(both, 'cluster');
    return both;
  },
  skipped(operation) {
    const { catalogSnapshots } = clickhouse.capabilities;
    const { endpoint } = operation;
    return (
      withoutServerBackups(operation) ??
      (endpoint.action === 'restore' && !catalogSnapshots ? 'the engine takes no backups' : undefined)
    );
  },
  refusal: (operation) =>
    lacking.some((capability) => isNeeded(operation, capability)) ? 'NOT_SUPPORTED_BY_ENGINE' : undefined,
};

const worlds = { usual, postgresql, cluster };

export const worldOf = (url: string): World =>
  worlds[(new URL(url).searchParams.get('world') ?? 'usual') as keyof typeof worlds];
