// The cluster that CLICKHOUSE_TEST_URLS names, and the engine on it. What tests leave there, also those that fail, is removed: their catalogs have
// random names, and nothing else of the cluster is touched.
import { randomBytes } from 'node:crypto';
import { HttpServer } from '../../../../src/engines/clickhouse/connection/http_server.ts';
import {
  databasePrefix,
  hiddenDatabase,
  hiddenPrefix,
  internalDatabase,
} from '../../../../src/engines/clickhouse/names.ts';
import { quoteIdentifier, quoteLiteral } from '../../../../src/engines/clickhouse/sql/identifiers.ts';
import type { ClusterAccess } from '../../../../src/engines/port/engine.ts';
import type { CatalogRef } from '../../../../src/engines/port/refs.ts';
import type { TestedEngine } from '../../../conformance/engine/engine_world.ts';
import { deadlineMs } from '../../../deadline.ts';
import { skippedFor } from '../../../skipped_in_ci.ts';
import { engineOn } from '../engine.ts';

export const missingGivenCluster: string | false = skippedFor('CLICKHOUSE_TEST_URLS');

const urls = (process.env.CLICKHOUSE_TEST_URLS ?? '')
  .split(',')
  .filter((text) => text !== '')
  .map((text) => new URL(text));
const [first] = urls;

/** Of all servers, as the first URL has them. */
export const givenCredentials = {
  user: decodeURIComponent(first?.username || 'default'),
  password: decodeURIComponent(first?.password ?? ''),
};
/** The name of the cluster definition on the servers. */
export const givenName = process.env.CLICKHOUSE_TEST_CLUSTER ?? 'default';
/** As backends of a warehouse: `node1` and so on. */
export const givenServers = urls.map(({ origin }, index) => ({ name: `node${index + 1}`, url: origin }));
/** The value of the setting that allows servers to reach them. */
export const givenHosts = [...new Set(urls.map(({ hostname }) => hostname))].join(',');

/** A name that no catalog has; like those that the suites use, it has to be quoted. */
export const newCatalogName = (): string => `test ${randomBytes(6).toString('hex')} "1"`;

const access: ClusterAccess = {
  warehouseId: givenName,
  name: givenName,
  backends: async () => givenServers.map(({ name, url }) => ({ name, location: url, disabled: false })),
  credentials: async () => givenCredentials,
};

const tested = new Map<string, CatalogRef>();

/** The engine with warehouses on the cluster. `removeCatalogs` removes what they leave. */
export function givenEngine(): TestedEngine {
  const engine = engineOn(access, givenServers);
  return {
    ...engine,
    catalogName: newCatalogName,
    open(options) {
      const catalogs = async () => {
        const all = await options.catalogs();
        for (const catalog of all) tested.set(`${catalog.id} ${catalog.name}`, catalog);
        return all;
      };
      return engine.open({ ...options, catalogs });
    },
  };
}

/** Removes all that the catalogs of the tests have left on each server. */
export const removeTestedCatalogs = (): Promise<void> => removeCatalogs([...tested.values()]);

/** Removes the databases and the recorded steps of catalogs on each server. */
export async function removeCatalogs(catalogs: readonly CatalogRef[]): Promise<void> {
  const timeoutMs = deadlineMs(30_000);
  for (const { name, url } of givenServers) {
    const server = new HttpServer({ name, url, credentials: access.credentials });
    await server.probe({ timeoutMs });
    const found = await server.rows<{ name: string }>({ sql: 'SELECT name FROM system.databases', timeoutMs });
    const isLeft = (database: string) =>
      catalogs.some(
        (catalog) =>
          database === hiddenDatabase(catalog.id) ||
          database.startsWith(hiddenPrefix(catalog.id)) ||
          // Also of catalogs whose name begins with this one.
          database.startsWith(databasePrefix(catalog.name).slice(0, -2)),
      );
    for (const { name: database } of found.filter((row) => isLeft(row.name)))
      await server.text({ sql: `DROP DATABASE IF EXISTS ${quoteIdentifier(database)} SYNC`, timeoutMs });
    const ids = catalogs.map(({ id }) => quoteLiteral(id)).join(', ');
    if (ids !== '' && found.some((row) => row.name === internalDatabase)) {
      const steps = `${quoteIdentifier(internalDatabase)}.steps`;
      if ((await server.text({ sql: `EXISTS TABLE ${steps}`, timeoutMs })).trim() === '1')
        await server.text({ sql: `DELETE FROM ${steps} WHERE catalog IN (${ids})`, timeoutMs });
    }
    await server.close();
  }
}
