// Looks up a database of the default catalog.
import { client } from '../app/session.ts';

/** By lists, which show what the caller may read: a look-up of what is missing would be an error in the console of the browser. */
export async function findDatabase(database: string, signal: AbortSignal) {
  const catalogs = await client.catalogs.list({}, { signal }).all();
  if (!catalogs.some(({ name }) => name === 'default')) return undefined;
  const found = await client.databases.search({ namePattern: database }, { signal }).all();
  return found.find(({ name }) => name === database);
}
