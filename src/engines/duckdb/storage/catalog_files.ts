// The file of a catalog: attached under the catalog's name, which may change, and stored under its id, which does not.

import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { DuckDBConnection, DuckDBValue } from '@duckdb/node-api';
import { Failure } from '../../../standard/failure.ts';
import { syncPath } from '../../../store/sync_path.ts';
import { type AttachRequest, DamagedFile } from '../../port/catalog_storage.ts';
import type { CatalogRef, TableName } from '../../port/refs.ts';
import { ensureSteps, ownSchema, rowsOf } from '../instance/applied_steps.ts';
import { quoteIdentifier, quoteLiteral } from '../sql/identifiers.ts';
import { damageIn } from './catalog_damage.ts';

/**
 * Measured (docs/decisions/duckdb-node-api.md): five million rows are 141 MB in blocks of 16 KiB and 71 MB in blocks of 64 KiB, as
 * with DuckDB's own 256 KiB; five hundred small tables are 155, 172 and 269 MB.
 */
export const blockSizeBytes = 65_536;

/** The previous process of the same warehouse may still be exiting and hold the file locks. */
const lockWaitMs = 10_000;
const lockPollMs = 100;

/** The extension of catalog files. */
export const catalogFileExtension = '.duckdb';

export function catalogsDirectory(dataDirectory: string): string {
  return join(dataDirectory, 'catalogs');
}

export function catalogFile(dataDirectory: string, catalog: Pick<CatalogRef, 'id'>): string {
  return join(catalogsDirectory(dataDirectory), `${catalog.id}${catalogFileExtension}`);
}

/** Creates the file, or attaches the one that an earlier attempt created. The directory must exist. @returns its identity. */
export async function createCatalog(
  connection: DuckDBConnection,
  dataDirectory: string,
  catalog: AttachRequest,
): Promise<string> {
  const identity = await attach(connection, dataDirectory, catalog);
  await syncPath(catalogsDirectory(dataDirectory));
  return identity;
}

/**
 * Attaches a file that must exist: no empty file is created in its place. Idempotent. @returns its identity. Throws DamagedFile if
 * the file is missing, belongs to another catalog, or cannot be read.
 */
export async function attachCatalog(
  connection: DuckDBConnection,
  dataDirectory: string,
  catalog: AttachRequest,
): Promise<string> {
  if (!existsSync(catalogFile(dataDirectory, catalog))) throw new DamagedFile('its file is missing');
  try {
    return await attach(connection, dataDirectory, catalog);
  } catch (error) {
    const reason = damageIn(error);
    throw reason === undefined ? error : new DamagedFile(reason, { cause: error });
  }
}

async function attach(connection: DuckDBConnection, dataDirectory: string, catalog: AttachRequest): Promise<string> {
  const file = catalogFile(dataDirectory, catalog);
  const attachedAs = await nameOfAttached(connection, file);
  if (attachedAs !== catalog.name) {
    await requireFree(connection, catalog.name, file);
    if (attachedAs !== undefined) await detach(connection, attachedAs);
    await connection.run(
      `ATTACH ${quoteLiteral(file)} AS ${quoteIdentifier(catalog.name)} (BLOCK_SIZE ${blockSizeBytes})`,
    );
  }
  try {
    return await ensureIdentity(connection, catalog);
  } catch (error) {
    await detach(connection, catalog.name).catch(() => undefined);
    throw error;
  }
}

/** Throws CHANGE_IN_PROGRESS if another file is attached under the name: as long as that is so, this one keeps its own. */
async function requireFree(connection: DuckDBConnection, name: string, file: string): Promise<void> {
  const text = 'SELECT 1 FROM duckdb_databases() WHERE lower(database_name) = lower($1) AND path <> $2';
  if ((await rowsOf(connection, text, [name, file])).length === 0) return;
  throw new Failure('CHANGE_IN_PROGRESS', 'another catalog still has this name in the engine; retry later');
}

/** Checks the identity of an attached file; assigns one if none was ever recorded. */
async function ensureIdentity(connection: DuckDBConnection, { name, identity }: AttachRequest): Promise<string> {
  const table = `${quoteIdentifier(name)}.${quoteIdentifier(ownSchema)}.identity`;
  const row = await identityIn(connection, table);
  if (identity !== undefined && row?.[0] !== identity) throw new DamagedFile('its file is the file of another catalog');
  await ensureSteps(connection, name);
  if (row) return String(row[0]);
  const newIdentity = randomUUID();
  await connection.run(`CREATE TABLE IF NOT EXISTS ${table} AS SELECT '${newIdentity}' AS id`);
  return newIdentity;
}

/** Undefined if none was ever recorded. Does not query `duckdb_tables()`, which lists the tables of all catalogs each time. */
async function identityIn(connection: DuckDBConnection, table: string): Promise<readonly DuckDBValue[] | undefined> {
  try {
    return (await rowsOf(connection, `SELECT id FROM ${table}`))[0];
  } catch (error) {
    if (error instanceof Error && error.message.startsWith('Catalog Error')) return undefined;
    throw error;
  }
}

/** Whether the catalog has a log: an orderly exit checkpoints it into the file and removes it. */
export const hasLog = (dataDirectory: string, catalog: CatalogRef): boolean =>
  existsSync(`${catalogFile(dataDirectory, catalog)}.wal`);

/** All tables of the catalogs, except internal ones. */
export async function tablesOf(connection: DuckDBConnection, catalogs: readonly CatalogRef[]): Promise<TableName[]> {
  if (catalogs.length === 0) return [];
  const names = catalogs.map(({ name }) => quoteLiteral(name)).join(', ');
  const text = `SELECT database_name, schema_name, table_name FROM duckdb_tables() WHERE database_name IN (${names}) AND schema_name <> '${ownSchema}'`;
  const rows = await rowsOf(connection, text);
  return rows.map(([catalog, database, table]) => ({
    catalog: String(catalog),
    database: String(database),
    table: String(table),
  }));
}

/** Like `attachCatalog`, for a file that another process may still have open. */
export async function attachWithRetry(
  connection: DuckDBConnection,
  dataDirectory: string,
  catalog: AttachRequest,
): Promise<string> {
  const deadline = performance.now() + lockWaitMs;
  for (;;) {
    try {
      return await attachCatalog(connection, dataDirectory, catalog);
    } catch (error) {
      const isLocked = error instanceof Error && !(error instanceof DamagedFile) && /\block\b/i.test(error.message);
      if (!isLocked || performance.now() > deadline) throw error;
      await new Promise((resolve) => setTimeout(resolve, lockPollMs));
    }
  }
}

/** Fails while a connection has the catalog as its default. Idempotent. */
export async function detachCatalog(
  connection: DuckDBConnection,
  dataDirectory: string,
  catalog: CatalogRef,
): Promise<void> {
  const attachedAs = await nameOfAttached(connection, catalogFile(dataDirectory, catalog));
  if (attachedAs !== undefined) await detach(connection, attachedAs);
}

/** Detaches the catalog and deletes its file. Idempotent. */
export async function removeCatalog(
  connection: DuckDBConnection,
  dataDirectory: string,
  catalog: CatalogRef,
): Promise<void> {
  await detachCatalog(connection, dataDirectory, catalog);
  const file = catalogFile(dataDirectory, catalog);
  // Recursive: a directory may be in the place of a file.
  for (const path of [file, `${file}.wal`]) await rm(path, { force: true, recursive: true });
  await syncPath(catalogsDirectory(dataDirectory));
}

/**
 * Writes the log of each catalog into its file. Closing the instance does not: idle connections and prepared statements keep it alive.
 * A catalog that cannot be checkpointed now keeps its log, which is replayed when it is attached again.
 */
export async function checkpointAttached(connection: DuckDBConnection): Promise<void> {
  const names = await rowsOf(connection, 'SELECT database_name FROM duckdb_databases() WHERE path IS NOT NULL');
  for (const [name] of names)
    await connection.run(`CHECKPOINT ${quoteIdentifier(String(name))}`).catch(() => undefined);
}

async function detach(connection: DuckDBConnection, name: string): Promise<void> {
  await connection.run(`DETACH DATABASE IF EXISTS ${quoteIdentifier(name)}`);
}

export async function isAttached(
  connection: DuckDBConnection,
  dataDirectory: string,
  catalog: CatalogRef,
): Promise<boolean> {
  return (await nameOfAttached(connection, catalogFile(dataDirectory, catalog))) !== undefined;
}

/** The name under which a file is attached now, which may be an earlier name of the catalog. */
async function nameOfAttached(connection: DuckDBConnection, file: string): Promise<string | undefined> {
  const rows = await rowsOf(connection, 'SELECT database_name FROM duckdb_databases() WHERE path = $1', [file]);
  const name = rows[0]?.[0];
  return typeof name === 'string' ? name : undefined;
}

const busyFileWaitsMax = 200;
const busyFileWaitMs = 50;

/** Retries work that fails because statements still hold the file. Throws WAREHOUSE_BUSY: the file is not attached under any name until it is repeated. */
export async function retryingBusyFile<T>(work: () => Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof Error && /file handle conflict/i.test(error.message))) throw error;
      if (attempt > busyFileWaitsMax || signal?.aborted) {
        throw new Failure(
          'WAREHOUSE_BUSY',
          'statements are still running under the old name of the catalog; retry later',
          {},
          { cause: error, outcome: 'unknown' },
        );
      }
      await new Promise((resolve) => setTimeout(resolve, busyFileWaitMs));
    }
  }
}
