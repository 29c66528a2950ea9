// Secrets that the service itself must be able to read (client secrets, passwords of engines), encrypted in the store with a key that is
// not in it; and keys derived for a purpose, which survive a change of that key.
import { hkdfSync, randomBytes } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Kysely } from 'kysely';
import type { Observe } from '../../observe/observations.ts';
import type { Schema } from '../../store/schema.ts';
import type { Store } from '../../store/store.ts';
import {
  createKeyFile,
  isExposed,
  readKey,
  readKeyFile,
  replaceKeyFile,
  type SecretKey,
  SecretKeyError,
} from './secret_key.ts';

export { SecretKeyError } from './secret_key.ts';

export const secretKeyFileName = 'secret.key';

/** Where the key is. Without `key` and `keyFile`, it is a file in the data directory, created when first needed. */
export interface KeyLocation {
  readonly dataDirectory: string;
  /** The key itself, from the environment. */
  readonly key?: string | undefined;
  readonly keyFile?: string | undefined;
  /** During a change of the key in the environment: either of both opens the store. */
  readonly nextKey?: string | undefined;
}

interface KeySettings {
  readonly secretKey: string;
  readonly secretKeyFile: string;
  readonly secretKeyNew: string;
}

/** Settings that are empty are absent. */
export const keyOfSettings = ({
  secretKey,
  secretKeyFile,
  secretKeyNew,
}: KeySettings): Omit<KeyLocation, 'dataDirectory'> => ({
  key: secretKey || undefined,
  keyFile: secretKeyFile || undefined,
  nextKey: secretKeyNew || undefined,
});

export interface SecretsOptions extends KeyLocation {
  readonly store: Store;
  readonly observe?: Observe;
}

const rootName = 'derivation';
const rootBytes = 32;
const derivedBytes = 32;

/** Throws SecretKeyError if the key is missing, invalid, or not the one that the store was sealed with. */
export async function openSecrets(options: SecretsOptions): Promise<Secrets> {
  const { store, observe } = options;
  const { key, keyFile } = await keyOfStore(store, options);
  if (keyFile !== undefined && (await isExposed(keyFile))) observe?.({ kind: 'secretKeyExposed', keyFile });
  const secrets = new Secrets(store, key);
  await secrets.open();
  return secrets;
}

export class Secrets {
  readonly #store: Store;
  readonly #key: SecretKey;
  #root = Buffer.alloc(0);

  constructor(store: Store, key: SecretKey) {
    this.#store = store;
    this.#key = key;
  }

  /** Must be called before the other methods. */
  async open(): Promise<void> {
    const root = await this.getOrCreate(rootName, () => randomBytes(rootBytes).toString('base64'));
    this.#root = Buffer.from(root, 'base64');
  }

  /** `db`: the enclosing transaction, if any. */
  async put(name: string, text: string, db: Kysely<Schema> = this.#store.db): Promise<void> {
    const row = { key_id: this.#key.id, sealed: this.#key.seal(name, text) };
    await db
      .insertInto('secrets')
      .values({ name, ...row })
      .onConflict((conflict) => conflict.column('name').doUpdateSet(row))
      .execute();
  }

  /** Throws if the row was tampered with. */
  async get(name: string, db: Kysely<Schema> = this.#store.db): Promise<string | undefined> {
    const row = await db.selectFrom('secrets').select('sealed').where('name', '=', name).executeTakeFirst();
    if (!row) return undefined;
    try {
      return this.#key.open(name, row.sealed);
    } catch (cause) {
      throw new Error(`the secret ${JSON.stringify(name)} cannot be decrypted: its row was changed`, { cause });
    }
  }

  async remove(name: string, db: Kysely<Schema> = this.#store.db): Promise<void> {
    await db.deleteFrom('secrets').where('name', '=', name).execute();
  }

  async getOrCreate(name: string, make: () => string): Promise<string> {
    return this.#store.transaction(async (tx) => {
      const existing = await this.get(name, tx);
      if (existing !== undefined) return existing;
      const secret = make();
      await this.put(name, secret, tx);
      return secret;
    });
  }

  /** 32 bytes that stay the same for a purpose during the lifetime of the store, also when its key is changed. */
  derive(purpose: string): Buffer {
    if (this.#root.length !== rootBytes) throw new Error('the secrets are not open');
    return Buffer.from(hkdfSync('sha256', this.#root, '', `tabularium ${purpose}`, derivedBytes));
  }
}

export interface StoreKey {
  readonly key: SecretKey;
  /** Undefined if the key is from the environment. */
  readonly keyFile: string | undefined;
}

export const nextKeyFile = (keyFile: string): string => `${keyFile}.new`;

/**
 * The key that the rows are sealed with. Completes or undoes an interrupted change of the key: both keys exist during the change, and the
 * rows show which is in use.
 */
export async function keyOfStore(store: Store, location: KeyLocation): Promise<StoreKey> {
  const rows = await store.db.selectFrom('secrets').select('key_id').distinct().execute();
  const usedKeyIds = rows.map((row) => row.key_id);
  if (location.key) return { key: environmentKey(location, usedKeyIds), keyFile: undefined };
  const keyFile = location.keyFile || join(location.dataDirectory, secretKeyFileName);
  const next = nextKeyFile(keyFile);
  const [key, nextKey] = [readKeyFile(keyFile), readKeyFile(next)];
  if (usedKeyIds.length > 0 && nextKey && isKeyOf(nextKey, usedKeyIds)) {
    await replaceKeyFile(keyFile, next);
    return { key: nextKey, keyFile };
  }
  if (key && isKeyOf(key, usedKeyIds)) {
    if (nextKey) await rm(next, { force: true });
    return { key, keyFile };
  }
  if (key) throw sealedWithAnother(keyFile);
  if (usedKeyIds.length > 0)
    throw new SecretKeyError(`${keyFile} does not exist: it holds the key of this store's secrets; restore it`);
  if (location.keyFile)
    throw new SecretKeyError(`the key file ${keyFile} does not exist; give another with --secret-key-file`);
  return { key: await createKeyFile(keyFile), keyFile };
}

/** A store without secrets takes any key. */
const isKeyOf = (key: SecretKey, usedKeyIds: readonly string[]): boolean => usedKeyIds.every((id) => id === key.id);

function environmentKey({ key = '', nextKey }: KeyLocation, usedKeyIds: readonly string[]): SecretKey {
  const [name, nextName] = ['TABULARIUM_SECRET_KEY', 'TABULARIUM_SECRET_KEY_NEW'];
  const keys = [readKey(key, name), ...(nextKey ? [readKey(nextKey, nextName)] : [])];
  const found = keys.find((candidate) => isKeyOf(candidate, usedKeyIds));
  if (!found) throw sealedWithAnother(name);
  return found;
}

function sealedWithAnother(where: string): SecretKeyError {
  return new SecretKeyError(
    `the secrets of this store are encrypted with another key than the one in ${where}; provide that key`,
  );
}
