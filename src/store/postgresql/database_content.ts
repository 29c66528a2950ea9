// What a database contains before it is opened as a store, which creates or migrates its tables.
import { Client } from 'pg';
import { StoreUnusable } from '../store_errors.ts';
import { defaultLimits } from './connection_pool.ts';
import type { PostgresqlLocation } from './postgresql_url.ts';

export interface DatabaseContent {
  /** Of the tables of a metadata store; undefined if there are none. */
  readonly version: number | undefined;
  /** Tables, views and sequences in the schema in which those of a store are created. */
  readonly otherTables: number;
}

/** Throws StoreUnusable if the database cannot be read. */
export async function contentOfDatabase({ tls, ...location }: PostgresqlLocation): Promise<DatabaseContent> {
  const { connectMs, statementMs } = defaultLimits;
  const timeouts = { connectionTimeoutMillis: connectMs, statement_timeout: statementMs, query_timeout: statementMs };
  const client = new Client({ ...location, ...timeouts, ssl: tls ?? false });
  client.on('error', () => {});
  try {
    await client.connect();
    const tables = await client.query(`
      select count(*)::int as tables, coalesce(bool_or(relname = 'schema_versions'), false) as has_versions
      from pg_class join pg_namespace on pg_namespace.oid = relnamespace
      where nspname = current_schema() and relkind in ('r', 'p', 'v', 'm', 'f', 'S')`);
    const { tables: otherTables, has_versions } = tables.rows[0] as { tables: number; has_versions: boolean };
    if (!has_versions) return { version: undefined, otherTables };
    const versions = await client.query('select coalesce(max(version), 0)::int as version from schema_versions');
    return { version: (versions.rows[0] as { version: number }).version, otherTables };
  } catch (error) {
    const { host, port, database } = location;
    const { message } = error as Error;
    throw new StoreUnusable(`the database ${database} at ${host}:${port} cannot be read: ${message}`, { cause: error });
  } finally {
    await client.end().catch(() => {});
  }
}
