// A store with secrets for tests: opened as by a server, re-encrypted as by the command, and removed at the end.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type RotationOptions, rotateSecrets } from '../../src/access/secrets/secret_rotation.ts';
import { openSecrets, type Secrets } from '../../src/access/secrets/secrets.ts';
import { openSqliteStore, storeFileName } from '../../src/store/sqlite/sqlite_store.ts';
import type { FaultInjector, Store } from '../../src/store/store.ts';

const root = mkdtempSync(join(tmpdir(), 'tabularium-secrets-'));
// Files that run in the same process share this module.
process.once('exit', () => rmSync(root, { recursive: true, force: true }));

export const newDirectory = () => mkdtempSync(join(root, 'data-'));
export const newKey = () => randomBytes(32).toString('base64');
export const keyPath = (directory: string) => join(directory, 'secret.key');
export type KeyOptions = Omit<RotationOptions, 'store' | 'dataDirectory'>;

export async function withStore<T>(
  directory: string,
  work: (store: Store) => Promise<T>,
  inject?: FaultInjector,
): Promise<T> {
  const store = await openSqliteStore({ file: join(directory, storeFileName), inject });
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}
/** Opens it as a server does. */
export const withSecrets = <T>(
  directory: string,
  options: KeyOptions,
  work: (secrets: Secrets, store: Store) => Promise<T>,
) =>
  withStore(directory, async (store) =>
    work(await openSecrets({ store, dataDirectory: directory, ...options }), store),
  );
export const rotate = (directory: string, options: KeyOptions = {}, inject?: FaultInjector) =>
  withStore(directory, (store) => rotateSecrets({ store, dataDirectory: directory, ...options }), inject);
export const rowsOf = (store: Store) => store.db.selectFrom('secrets').selectAll().orderBy('name').execute();

/** A store with two secrets, and the values that must always be read from it. */
export async function storeWithSecrets(options: KeyOptions = {}) {
  const directory = newDirectory();
  const derived = await withSecrets(directory, options, async (secrets) => {
    await secrets.put('one', 'the first');
    await secrets.put('two', 'the second');
    return secrets.derive('audit').toString('hex');
  });
  const requireSecretsOpen = (now: KeyOptions = {}) =>
    withSecrets(directory, now, async (secrets) => {
      assert.equal(await secrets.get('one'), 'the first');
      assert.equal(await secrets.get('two'), 'the second');
      assert.equal(secrets.derive('audit').toString('hex'), derived);
    });
  return { directory, requireSecretsOpen };
}
