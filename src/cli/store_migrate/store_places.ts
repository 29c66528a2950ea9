// The two stores of `store migrate`: the SQLite file of a data directory, or a database of PostgreSQL. Each is opened so that no server uses it
// until it is closed. A source is never migrated to another version.
import { existsSync, renameSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { sql } from 'kysely';
import { OperatorError, SettingsError } from '../../operator/operator_error.ts';
import { createDataDirectory, DataDirectoryError } from '../../store/data_directory.ts';
import { schemaVersion } from '../../store/migrations/migrate.ts';
import { lockFileName } from '../../store/open_store.ts';
import { isPostgresqlUrl, parsePostgresqlUrl } from '../../store/postgresql/postgresql_url.ts';
import { serverIdentity } from '../../store/server_identity.ts';
import { lockFile } from '../../store/sqlite/file_lock.ts';
import { isStoreInUse, storeInUseError } from '../../store/sqlite/sqlite_dialect.ts';
import { openSqliteStore, storeFileName } from '../../store/sqlite/sqlite_store.ts';
import { movedSetting, type Store } from '../../store/store.ts';
import { syncPath } from '../../store/sync_path.ts';
import { pagesOf, tableNames } from './store_tables.ts';

export interface StorePlace {
  /** Without a password. */
  readonly name: string;
  readonly isPostgresql: boolean;
  /** Of a SQLite store. */
  readonly dataDirectory: string | undefined;
  openSource(): Promise<OpenedPlace>;
  openTarget(): Promise<OpenedPlace>;
}

export interface OpenedPlace {
  readonly store: Store;
  /** Whether it has no rows but those of every new store. */
  readonly isEmpty: boolean;
  /** Target: puts the store, which is closed, where a server finds it. */
  publish(): Promise<void>;
  /** Source: no server starts on it any more. `to`: the place where its content is. It closes the store. */
  retire(to: string): Promise<void>;
  /** Idempotent. */
  close(): Promise<void>;
}

const sqlitePrefix = 'sqlite:';
const draftName = `${storeFileName}.migrating`;
const fileEnds = ['-wal', '-sums', ''] as const;

/** `flag`: for messages. Throws SettingsError. */
export function storePlace(flag: string, text: string): StorePlace {
  if (text.startsWith(sqlitePrefix) && text.length > sqlitePrefix.length)
    return sqlitePlace(resolve(text.slice(sqlitePrefix.length)));
  if (isPostgresqlUrl(text)) return postgresqlPlace(flag, text);
  throw new SettingsError(`${flag} must be sqlite:<data directory> or postgres://<user>@<host>:<port>/<database>`);
}

function sqlitePlace(dataDirectory: string): StorePlace {
  const file = join(dataDirectory, storeFileName);
  const draft = join(dataDirectory, draftName);
  const place = { name: `${sqlitePrefix}${dataDirectory}`, isPostgresql: false, dataDirectory };
  const open = async (path: string): Promise<Omit<OpenedPlace, 'publish' | 'retire'>> => {
    const unlock = lockFile(join(dataDirectory, lockFileName));
    try {
      const store = await openSqliteStore({ file: path });
      let closing: Promise<void> | undefined;
      const close = () => {
        closing ??= store.close().finally(unlock);
        return closing;
      };
      return { store, isEmpty: await hasNoRows(store), close };
    } catch (error) {
      unlock();
      throw error;
    }
  };
  return {
    ...place,
    async openSource() {
      if (!existsSync(file)) throw new SettingsError(`${dataDirectory} does not contain ${storeFileName}`);
      if (isStoreInUse(file)) throw storeInUseError(file);
      requireVersion(versionOfFile(file), place.name);
      const opened = await open(file);
      const retire = async () => {
        await opened.close();
        const moved = `${file}.moved-${new Date().toISOString().replace(/[:.]/g, '-')}`;
        // A server that is started at this moment has the file, or finds that there is none.
        const unlock = lockFile(file);
        renameSync(file, moved);
        unlock();
        if (existsSync(`${file}-sums`)) renameSync(`${file}-sums`, `${moved}-sums`);
        await syncPath(dataDirectory);
      };
      return { ...opened, retire, publish: async () => {} };
    },
    async openTarget() {
      await createDataDirectory(dataDirectory);
      if (existsSync(file)) return { ...(await open(file)), publish: async () => {}, retire: async () => {} };
      for (const end of fileEnds) rmSync(draft + end, { force: true });
      const opened = await open(draft);
      const publish = async () => {
        if (existsSync(`${draft}-wal`)) throw new OperatorError(`the log of ${draft} could not be written into it`);
        for (const end of fileEnds) if (existsSync(draft + end)) renameSync(draft + end, file + end);
        await syncPath(dataDirectory);
      };
      return { ...opened, publish, retire: async () => {} };
    },
  };
}

/** Undefined if it is not the store of a server. */
function versionOfFile(file: string): number | undefined {
  const database = new DatabaseSync(file, { readOnly: true });
  try {
    return Number(database.prepare('select max(version) as version from schema_versions').get()?.version ?? 0);
  } catch {
    return undefined;
  } finally {
    database.close();
  }
}

function postgresqlPlace(flag: string, url: string): StorePlace {
  const location = parsePostgresqlUrl(url, flag);
  const { host, port, database } = location;
  const name = `postgres://${host.startsWith('/') ? '' : host}:${port}/${database}`;
  const open = async (): Promise<Omit<OpenedPlace, 'publish'>> => {
    const { openPostgresqlStore } = await import('../../store/postgresql/postgresql_store.ts');
    const store = await openPostgresqlStore({ location, use: 'alone' });
    try {
      const { rows } = await sql<{ id: string }>`
        select id from servers where lease_until > floor(extract(epoch from clock_timestamp()) * 1000)`.execute(
        store.db,
      );
      if (rows[0]) throw new OperatorError(`the server ${rows[0].id} uses ${name}: stop it, then repeat the command`);
      const retire = async (to: string) => {
        const value = `to ${to} on ${new Date().toISOString()}`;
        const row = { key: movedSetting, value };
        const insert = store.db.insertInto('settings').values(row);
        await insert.onConflict((conflict) => conflict.column('key').doNothing()).execute();
        await store.close();
      };
      let closing: Promise<void> | undefined;
      const close = () => {
        closing ??= store.close();
        return closing;
      };
      return { store, isEmpty: await hasNoRows(store), retire, close };
    } catch (error) {
      await store.close();
      throw error;
    }
  };
  const content = async () => {
    const { contentOfDatabase } = await import('../../store/postgresql/database_content.ts');
    return contentOfDatabase(location);
  };
  return {
    name,
    isPostgresql: true,
    dataDirectory: undefined,
    async openSource() {
      requireVersion((await content()).version, name);
      return { ...(await open()), publish: async () => {} };
    },
    async openTarget() {
      const { version, otherTables } = await content();
      if (version === undefined && otherTables > 0)
        throw new OperatorError(`${name} contains ${otherTables} tables of something else: create an empty database`);
      if (version !== undefined) requireVersion(version, name);
      return { ...(await open()), publish: async () => {} };
    },
  };
}

function requireVersion(version: number | undefined, name: string): void {
  if (version === undefined) throw new OperatorError(`${name} is not the metadata store of a server`);
  if (version === schemaVersion) return;
  throw new OperatorError(
    version < schemaVersion
      ? `${name} has version ${version} and this release has ${schemaVersion}: start and stop a server of this release on it, then repeat the command`
      : `${name} has version ${version} and this release has ${schemaVersion}: use the command of the release that wrote it`,
  );
}

/** Migrations insert the user root and the beginning of the feed of changes. */
async function hasNoRows({ db }: Store): Promise<boolean> {
  for (const table of tableNames)
    for await (const rows of pagesOf(db, table)) {
      const isInitial = rows.length === 1 && (table === 'objects' ? rows[0]?.id === 'root' : table === 'changes');
      if (!isInitial) return false;
    }
  return true;
}

/** The id by which a data directory is known to servers that share a store. `known`: what it must be, if it is known already. */
export function identityOf(dataDirectory: string, known?: string): string {
  const id = serverIdentity(dataDirectory, known);
  if (known === undefined || id === known) return id;
  throw new DataDirectoryError(
    `${dataDirectory} belongs to the server ${id} according to server.id, and to the server ${known} according to its store: remove the file that is wrong`,
  );
}
