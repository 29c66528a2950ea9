// Opens the store of a data directory for a command while no server uses it.
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { openSecrets, type Secrets } from '../access/secrets/secrets.ts';
import { type Settings, SettingsError } from '../settings/read_settings.ts';
import { openSqliteStore, type SqliteStore, storeFileName } from '../store/sqlite/sqlite_store.ts';
import type { Store } from '../store/store.ts';

/** Throws SettingsError if there is no store, StoreInUse if a server has it open. */
export async function withStore<T>(
  settings: Settings,
  work: (store: SqliteStore, dataDirectory: string) => Promise<T>,
): Promise<T> {
  const dataDirectory = resolve(settings.dataDir);
  const file = join(dataDirectory, storeFileName);
  if (!existsSync(file))
    throw new SettingsError(`${dataDirectory} does not contain the data of a server; choose another with --data-dir`);
  const store = await openSqliteStore({ file });
  try {
    return await work(store, dataDirectory);
  } finally {
    await store.close();
  }
}

/** Throws SecretKeyError. */
export function secretsOf(settings: Settings, store: Store, dataDirectory: string): Promise<Secrets> {
  const { secretKey, secretKeyFile, secretKeyNew } = settings;
  return openSecrets({
    store,
    dataDirectory,
    key: secretKey || undefined,
    keyFile: secretKeyFile || undefined,
    nextKey: secretKeyNew || undefined,
  });
}
