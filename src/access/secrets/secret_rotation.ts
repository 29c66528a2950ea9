// Changes the key of the secrets of a store that no server has open. The store can be opened after an interruption at any point: the
// new key is on the disk before the rows are sealed with it, the old one is removed after that, and secrets.ts finds the key in use by
// the rows.
import { rm } from 'node:fs/promises';
import type { Store } from '../../store/store.ts';
import { createKeyFile, readKey, readKeyFile, replaceKeyFile, type SecretKey, SecretKeyError } from './secret_key.ts';
import { type KeyLocation, keyOfStore, nextKeyFile, type StoreKey } from './secrets.ts';

export interface RotationOptions extends KeyLocation {
  readonly store: Store;
  /** A file that holds the new key. Without it and `nextKey`, a new key is created and replaces the old key file. */
  readonly newKeyFile?: string | undefined;
  /** Fault tests: called before each step. */
  readonly beforeStep?: (step: RotationStep) => void;
}

export const rotationSteps = ['key', 'rows', 'file', 'traces'] as const;
export type RotationStep = (typeof rotationSteps)[number];

export interface Rotation {
  readonly secrets: number;
  /** The file of the new key, or undefined for the environment. */
  readonly keyFile: string | undefined;
  /** Whether the server finds the new key without a change of its settings. */
  readonly isInPlace: boolean;
}

/** Throws SecretKeyError. Can be repeated after an interruption. */
export async function rotateSecrets(options: RotationOptions): Promise<Rotation> {
  const { store, beforeStep = () => {}, newKeyFile, nextKey } = options;
  if (newKeyFile && nextKey)
    throw new SecretKeyError('the new key is given twice: by --new-key-file and by TABULARIUM_SECRET_KEY_NEW');
  beforeStep('key');
  const suppliedKey = await readSuppliedKey(options);
  // After an interruption, the rows may be sealed with the new key already.
  const old: StoreKey =
    suppliedKey && (await isSealedWith(store, suppliedKey))
      ? { key: suppliedKey, keyFile: newKeyFile }
      : await keyOfStore(store, options);
  const key = suppliedKey ?? (await createNextKey(old));
  beforeStep('rows');
  const secrets = await reseal(store, old.key, key);
  beforeStep('file');
  if (!suppliedKey && old.keyFile) await replaceKeyFile(old.keyFile, nextKeyFile(old.keyFile));
  beforeStep('traces');
  // Otherwise, free pages of the file would still contain the secrets sealed with the old key.
  await store.vacuum('secrets');
  return { secrets, keyFile: suppliedKey ? newKeyFile || undefined : old.keyFile, isInPlace: !suppliedKey };
}

async function readSuppliedKey({ newKeyFile, nextKey }: RotationOptions): Promise<SecretKey | undefined> {
  if (nextKey) return readKey(nextKey, 'TABULARIUM_SECRET_KEY_NEW');
  if (!newKeyFile) return undefined;
  const key = readKeyFile(newKeyFile);
  if (!key) throw new SecretKeyError(`the key file ${newKeyFile} does not exist; give another with --new-key-file`);
  return key;
}

async function isSealedWith(store: Store, key: SecretKey): Promise<boolean> {
  const rows = await store.db.selectFrom('secrets').select('key_id').distinct().execute();
  return rows.length === 1 && rows[0]?.key_id === key.id;
}

async function createNextKey(old: StoreKey): Promise<SecretKey> {
  if (old.keyFile === undefined)
    throw new SecretKeyError(
      'the key is in TABULARIUM_SECRET_KEY: give the new one in TABULARIUM_SECRET_KEY_NEW or with --new-key-file',
    );
  const path = nextKeyFile(old.keyFile);
  await rm(path, { force: true });
  return createKeyFile(path);
}

async function reseal(store: Store, old: SecretKey, key: SecretKey): Promise<number> {
  return store.transaction(async (tx) => {
    const rows = await tx.selectFrom('secrets').select(['name', 'sealed']).orderBy('name').execute();
    for (const { name, sealed } of rows)
      await tx
        .updateTable('secrets')
        .set({ key_id: key.id, sealed: key.seal(name, openSecret(old, name, sealed)) })
        .where('name', '=', name)
        .execute();
    return rows.length;
  });
}

function openSecret(key: SecretKey, name: string, sealed: string): string {
  try {
    return key.open(name, sealed);
  } catch {
    throw new SecretKeyError(
      `the secret ${JSON.stringify(name)} cannot be decrypted: its row was changed; nothing was done`,
    );
  }
}
