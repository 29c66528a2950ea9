// The metadata store: opens it, brings its tables to this version, runs transactions. What is in the tables is others'.
import { Kysely, type Transaction } from 'kysely';
import { migrate, sqliteColumnTypes } from './migrations.ts';
import type { Schema } from './schema.ts';
import { type Inject, openSqlite, type PinnedFile, storeUnusable, type TransactionEnd } from './sqlite.ts';

export type { Inject, PinnedFile } from './sqlite.ts';

/** In the data directory. */
export const storeFileName = 'metadata.sqlite';

export interface StoreOptions {
  /** Path of the SQLite file; its directory exists. */
  readonly file: string;
  readonly inject?: Inject | undefined;
}

export interface Store {
  readonly db: Kysely<Schema>;
  /**
   * All or nothing, alone among transactions. `run` waits for nothing but its own statements (everyone else waits for it), and
   * has no other effects: a store that several servers share runs it again after a conflict.
   */
  transaction<T>(run: (tx: Transaction<Schema>) => Promise<T>): Promise<T>;
  onTransactionEnd(listener: TransactionEnd): void;
  /**
   * Pins the file for a copy: everyone else waits while `work` runs, and what was committed by then, and nothing later, is in the file
   * until `release`. `work` does not use the store. One pin at a time.
   */
  pin<T>(work: () => Promise<T>): Promise<{ readonly done: T; readonly file: PinnedFile }>;
  close(): Promise<void>;
}

/** Throws StoreInUse where another server has it open, StoreUnusable where the file is damaged or cannot be written, StoreTooNew where a later release wrote it. */
export async function openStore(options: StoreOptions): Promise<Store> {
  const listeners: TransactionEnd[] = [];
  const ended: TransactionEnd = (isCommitted) => {
    for (const listener of listeners) listener(isCommitted);
  };
  const { dialect, pin } = openSqlite(options.file, options.inject, ended);
  const db = new Kysely<Schema>({ dialect });
  const close = (): Promise<void> => db.destroy();
  try {
    await migrate(db, sqliteColumnTypes);
  } catch (error) {
    await close();
    throw storeUnusable(options.file, error) ?? error;
  }
  return {
    db,
    transaction: (run) => db.transaction().execute(run),
    onTransactionEnd: (listener) => void listeners.push(listener),
    pin,
    close,
  };
}

/** A value that is made once and then kept, such as a signing key. */
export async function setting(store: Store, key: string, initial: () => string): Promise<string> {
  return store.transaction(async (tx) => {
    const kept = await tx.selectFrom('settings').select('value').where('key', '=', key).executeTakeFirst();
    if (kept) return kept.value;
    const value = initial();
    await tx.insertInto('settings').values({ key, value }).execute();
    return value;
  });
}
