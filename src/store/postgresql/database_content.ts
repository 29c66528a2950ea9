// What a database contains before it is opened as a store, which creates or migrates its tables.
import { Kysely, PostgresDialect, sql } from 'kysely';
import { StoreUnavailable, StoreUnusable } from '../store_errors.ts';
import { defaultLimits, openPool } from './connection_pool.ts';
import { hostsOf, type PostgresqlLocation } from './postgresql_url.ts';

export interface DatabaseContent {
  /** Of the tables of a metadata store; undefined if there are none. */
  readonly version: number | undefined;
  /** Tables, views and sequences in the schema in which those of a store are created. */
  readonly otherTables: number;
}

/** Throws StoreUnusable if the database cannot be read. */
export async function contentOfDatabase(location: PostgresqlLocation): Promise<DatabaseContent> {
  const pool = openPool(location, { ...defaultLimits, connectionsMax: 1 }, { name: 'tabularium command' });
  const db = new Kysely<never>({ dialect: new PostgresDialect({ pool }) });
  try {
    const tables = await sql<{ count: number; has_versions: boolean }>`
      select count(*) as count, coalesce(bool_or(relname = 'schema_versions'), false) as has_versions
      from pg_class join pg_namespace on pg_namespace.oid = relnamespace
      where nspname = current_schema() and relkind in ('r', 'p', 'v', 'm', 'f', 'S')`.execute(db);
    const { count: otherTables = 0, has_versions = false } = tables.rows[0] ?? {};
    if (!has_versions) return { version: undefined, otherTables };
    const versions = await sql<{ version: number }>`
      select coalesce(max(version), 0) as version from schema_versions`.execute(db);
    return { version: versions.rows[0]?.version ?? 0, otherTables };
  } catch (error) {
    const { message } = (error instanceof StoreUnavailable ? error.cause : error) as Error;
    const where = hostsOf(location).map(({ host, port }) => `${host}:${port}`);
    throw new StoreUnusable(`the database ${location.database} at ${where.join(' or ')} cannot be read: ${message}`, {
      cause: error,
    });
  } finally {
    await db.destroy();
  }
}
