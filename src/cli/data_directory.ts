// Opens the store of a data directory for a command while no server uses it.
import { resolve } from 'node:path';
import { keyOfSettings, openSecrets, type Secrets } from '../access/secrets/secrets.ts';
import { type Settings, SettingsError } from '../settings/read_settings.ts';
import { hasServerData, isShared, type OpenedStore, openStore } from '../store/open_store.ts';
import type { Store } from '../store/store.ts';

/** Throws SettingsError if there is no store, StoreInUse if a server has it open. */
export async function withStore<T>(
  settings: Settings,
  work: (opened: OpenedStore, dataDirectory: string) => Promise<T>,
): Promise<T> {
  const dataDirectory = resolve(settings.dataDir);
  const location = { store: settings.store, dataDirectory };
  if (!hasServerData(location))
    throw new SettingsError(`${dataDirectory} does not contain the data of a server; choose another with --data-dir`);
  const opened = await openStore(location);
  try {
    return await work(opened, dataDirectory);
  } finally {
    await opened.store.close();
  }
}

/** For commands that read or write the file of a SQLite store. Throws SettingsError if the store is another. */
export function requireSqlite({ store }: Settings, command: string): void {
  if (isShared(store))
    throw new SettingsError(
      `\`${command}\` requires a metadata store in the data directory, and the setting store selects PostgreSQL: use the tools of PostgreSQL for the store`,
    );
}

/** Throws SecretKeyError. */
export function secretsOf(settings: Settings, store: Store, dataDirectory: string): Promise<Secrets> {
  return openSecrets({ store, dataDirectory, ...keyOfSettings(settings) });
}
