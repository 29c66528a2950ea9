// The databases in which the user may read something, also if only a table in them: the choices of where a statement runs or a file goes.
import { client } from './session.ts';

interface BrowsedCatalog {
  readonly catalog: string;
  readonly databases: readonly string[];
}

const pageSize = 500;

export async function browsedDatabasesOf(catalog: string, signal: AbortSignal): Promise<readonly string[]> {
  const databases = await client.catalogs(catalog).databases.browse({ pageSize }, { signal }).all();
  return databases.map(({ name }) => name);
}

/** Of all catalogs; few servers have more than a hundred. */
export async function browsedDatabases(signal: AbortSignal): Promise<readonly BrowsedCatalog[]> {
  const catalogs = await client.catalogs.browse({}, { signal }).all();
  return Promise.all(
    catalogs.map(async ({ name: catalog }) => ({ catalog, databases: await browsedDatabasesOf(catalog, signal) })),
  );
}
