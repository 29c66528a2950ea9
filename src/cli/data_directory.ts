// The store of a data directory, opened for a command while no server has it. What is done with it is up to the command.
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { openSecrets, type Secrets } from '../access/secrets/secrets.ts';
import { type Settings, SettingsError } from '../settings/read_settings.ts';
import { openStore, type Store, storeFileName } from '../store/store.ts';

/** Throws SettingsError where there is no store, StoreInUse where a server has it. */
export async function withStore<T>(
  settings: Settings,
  work: (store: Store, dataDirectory: string) => Promise<T>,
): Promise<T> {
  const dataDirectory = resolve(settings.dataDir);
  const file = join(dataDirectory, storeFileName);
  if (!existsSync(file))
    throw new SettingsError(`${dataDirectory} holds no data of a server; --data-dir names another`);
  const store = await openStore({ file });
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
