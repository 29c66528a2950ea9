// Secrets that the service itself has to read again (client secrets, passwords of engines), encrypted in the store with a key that
// is not in it; and keys derived for a purpose, which outlive a change of that key. Whose secrets they are is others'.
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

/** Where the key is. Without `key` and `keyFile`, it is a file in the data directory, made when it is needed first. */
export interface KeyLocation {
  readonly dataDirectory: string;
  /** The key itself, from the environment. */
  readonly key?: string | undefined;
  readonly keyFile?: string | undefined;
  /** While the key in the environment is changed: the one or the other opens the store. */
  readonly nextKey?: string | undefined;
}

export interface SecretsOptions extends KeyLocation {
  readonly store: Store;
  readonly observe?: Observe;
}

const rootName = 'derivation';
const rootBytes = 32;
const derivedBytes = 32;

/** Throws SecretKeyError where the key is not there, is none, or is not the one that the store was sealed with. */
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

  /** Before all else. */
  async open(): Promise<void> {
    const root = await this.getOrCreate(rootName, () => randomBytes(rootBytes).toString('base64'));
    this.#root = Buffer.from(root, 'base64');
  }

  /** `on`: the transaction that it is part of. */
  async put(name: string, text: string, on: Kysely<Schema> = this.#store.db): Promise<void> {
    const row = { key_id: this.#key.id, sealed: this.#key.seal(name, text) };
    await on
      .insertInto('secrets')
      .values({ name, ...row })
      .onConflict((of) => of.column('name').doUpdateSet(row))
      .execute();
  }

  /** Throws where the row was tampered with. */
  async get(name: string, on: Kysely<Schema> = this.#store.db): Promise<string | undefined> {
    const row = await on.selectFrom('secrets').select('sealed').where('name', '=', name).executeTakeFirst();
    if (!row) return undefined;
    try {
      return this.#key.open(name, row.sealed);
    } catch (cause) {
      throw new Error(`the secret ${JSON.stringify(name)} does not open: its row was changed`, { cause });
    }
  }

  async remove(name: string, on: Kysely<Schema> = this.#store.db): Promise<void> {
    await on.deleteFrom('secrets').where('name', '=', name).execute();
  }

  async getOrCreate(name: string, make: () => string): Promise<string> {
    return this.#store.transaction(async (tx) => {
      const kept = await this.get(name, tx);
      if (kept !== undefined) return kept;
      const made = make();
      await this.put(name, made, tx);
      return made;
    });
  }

  /** 32 bytes that are the same for the same purpose as long as the store lives, whatever key it is sealed with. */
  derive(purpose: string): Buffer {
    if (this.#root.length !== rootBytes) throw new Error('the secrets are not open');
    return Buffer.from(hkdfSync('sha256', this.#root, '', `tabularium ${purpose}`, derivedBytes));
  }
}

export interface StoreKey {
  readonly key: SecretKey;
  /** Undefined where it came from the environment. */
  readonly keyFile: string | undefined;
}

export const nextKeyFile = (keyFile: string): string => `${keyFile}.new`;

/**
 * The key that the rows are sealed with. A change of the key that was broken off is brought to its end, or undone: while it went on,
 * both keys were there, and the rows say which counts.
 */
export async function keyOfStore(store: Store, place: KeyLocation): Promise<StoreKey> {
  const rows = await store.db.selectFrom('secrets').select('key_id').distinct().execute();
  const used = rows.map((row) => row.key_id);
  if (place.key) return { key: keyOfEnvironment(place, used), keyFile: undefined };
  const keyFile = place.keyFile || join(place.dataDirectory, secretKeyFileName);
  const next = nextKeyFile(keyFile);
  const [key, nextKey] = [await readKeyFile(keyFile), await readKeyFile(next)];
  if (used.length > 0 && nextKey && fits(nextKey, used)) {
    await replaceKeyFile(keyFile, next);
    return { key: nextKey, keyFile };
  }
  if (key && fits(key, used)) {
    if (nextKey) await rm(next, { force: true });
    return { key, keyFile };
  }
  if (key) throw sealedWithAnother(keyFile);
  if (used.length > 0)
    throw new SecretKeyError(`${keyFile} is not there: it holds the key of this store's secrets; put it back`);
  if (place.keyFile) throw new SecretKeyError(`the key file ${keyFile} is not there`);
  return { key: await createKeyFile(keyFile), keyFile };
}

/** A store without secrets takes any key. */
const fits = (key: SecretKey, used: readonly string[]): boolean => used.every((id) => id === key.id);

function keyOfEnvironment({ key = '', nextKey }: KeyLocation, used: readonly string[]): SecretKey {
  const [name, nextName] = ['TABULARIUM_SECRET_KEY', 'TABULARIUM_SECRET_KEY_NEW'];
  const keys = [readKey(key, name), ...(nextKey ? [readKey(nextKey, nextName)] : [])];
  const found = keys.find((one) => fits(one, used));
  if (!found) throw sealedWithAnother(name);
  return found;
}

function sealedWithAnother(where: string): SecretKeyError {
  return new SecretKeyError(`the secrets of this store are sealed with another key than ${where} holds; give that one`);
}
