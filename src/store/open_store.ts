// Opens the store that the setting `store` selects: the SQLite file in the data directory, or a database of PostgreSQL, whose driver is
// loaded only then. Either way the data directory belongs to this process until the store is closed.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { SettingsError } from '../operator/operator_error.ts';
import { DataDirectoryError } from './data_directory.ts';
import type { PostgresqlLimits } from './postgresql/connection_pool.ts';
import { isPostgresqlUrl, parsePostgresqlUrl } from './postgresql/postgresql_url.ts';
import { serverIdentity } from './server_identity.ts';
import { lockFile } from './sqlite/file_lock.ts';
import { isStoreInUse } from './sqlite/sqlite_dialect.ts';
import { openSqliteStore, type SqliteStore, type SqliteStoreOptions, storeFileName } from './sqlite/sqlite_store.ts';
import type { Store } from './store.ts';

/** Locked by a server whose store is not in its data directory. */
export const lockFileName = 'server.lock';

export interface StoreLocation {
  /** The setting; empty: SQLite. */
  readonly store: string;
  readonly dataDirectory: string;
}

export interface OpenedStore {
  readonly store: Store;
  /** The same store, if it is a SQLite file. */
  readonly sqlite: SqliteStore | undefined;
  /** The identity of this server among those that share the store; undefined with SQLite. */
  readonly sharingId: string | undefined;
}

export interface OpenStoreOptions extends Pick<SqliteStoreOptions, 'inject' | 'checkMs'> {
  /** Of the connections to PostgreSQL, where they differ from the defaults. */
  readonly limits?: Partial<PostgresqlLimits>;
}

/** Throws OperatorError: StoreInUse, StoreUnusable and others. */
export async function openStore(
  { store: url, dataDirectory }: StoreLocation,
  options: OpenStoreOptions = {},
): Promise<OpenedStore> {
  const file = join(dataDirectory, storeFileName);
  if (!isShared(url)) {
    const sqlite = await openSqliteStore({ file, ...options });
    return { store: sqlite, sqlite, sharingId: undefined };
  }
  const location = parsePostgresqlUrl(url);
  if (existsSync(file))
    throw new DataDirectoryError(
      `${dataDirectory} contains a metadata store (${storeFileName}), and the setting store selects another: remove the setting, or choose another --data-dir`,
    );
  const unlock = lockFile(join(dataDirectory, lockFileName));
  try {
    const sharingId = serverIdentity(dataDirectory);
    const { openPostgresqlStore } = await import('./postgresql/postgresql_store.ts');
    const opened = await openPostgresqlStore({
      location,
      inject: options.inject,
      limits: options.limits ?? {},
      use: { serverId: sharingId },
    });
    const close = () => opened.close().finally(unlock);
    return { store: { ...opened, close }, sqlite: undefined, sharingId };
  } catch (error) {
    unlock();
    throw error;
  }
}

/** Whether the setting selects a store outside of the data directory. Throws SettingsError. */
export function isShared(url: string): boolean {
  if (url === '') return false;
  if (isPostgresqlUrl(url)) return true;
  throw new SettingsError('the setting store must be a URL that begins with postgres:// or postgresql://');
}

/** Whether the data directory was used by a server. */
export function hasServerData({ store, dataDirectory }: StoreLocation): boolean {
  return existsSync(join(dataDirectory, isShared(store) ? lockFileName : storeFileName));
}

/** Whether a server is running on the data directory. */
export function isServerRunning({ store, dataDirectory }: StoreLocation): boolean {
  return isStoreInUse(join(dataDirectory, isShared(store) ? lockFileName : storeFileName));
}
