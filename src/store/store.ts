// The metadata store: opens it, brings its tables to this version, runs transactions. What is in the tables is others'.
import { existsSync, rmSync } from 'node:fs';
import { resolve } from 'node:path';
import { Kysely, type Transaction } from 'kysely';
import { checksumFileOf } from './integrity/checksum_file.ts';
import { checkStoreFile, describePages, type StoreFaults } from './integrity/store_check.ts';
import { migrate, sqliteColumnTypes } from './migrations/migrate.ts';
import type { Schema } from './schema.ts';
import {
  type FaultInjector,
  isStoreInUse,
  openSqlite,
  type PinnedFile,
  StoreUnusable,
  storeInUseError,
  type TransactionEndListener,
  toStoreUnusable,
} from './sqlite.ts';

export type { FaultInjector, PinnedFile } from './sqlite.ts';

/** In the data directory. */
export const storeFileName = 'metadata.sqlite';

export interface StoreOptions {
  /** Path of the SQLite file; its directory exists. */
  readonly file: string;
  readonly inject?: FaultInjector | undefined;
  /** How long its pages are compared with their checksums before it is opened; without it, all of them are. */
  readonly checkMs?: number | undefined;
}

/** The file differs from what was written. The message is for who starts the server. */
export class StoreDamaged extends StoreUnusable {
  override name = 'StoreDamaged';
  readonly faults: readonly string[];

  constructor(file: string, faults: readonly string[]) {
    super(
      `${file} is damaged: ${faults.join('; ')}.\nput a sound copy of it, its -wal and its -sums back; ` +
        'or see what is lost with `tabularium check`, which can also accept the loss',
    );
    this.faults = faults;
  }
}

export interface Store {
  readonly db: Kysely<Schema>;
  /**
   * All or nothing, alone among transactions. `run` waits for nothing but its own statements (everyone else waits for it), and
   * has no other effects: a store that several servers share runs it again after a conflict.
   */
  transaction<T>(run: (tx: Transaction<Schema>) => Promise<T>): Promise<T>;
  onTransactionEnd(listener: TransactionEndListener): void;
  /**
   * Pins the file for a copy: everyone else waits while `work` runs, and what was committed by then, and nothing later, is in the file
   * until `release`. `work` does not use the store. One pin at a time.
   */
  pin<T>(work: () => Promise<T>): Promise<{ readonly done: T; readonly file: PinnedFile }>;
  /** Whether all pages were compared with their checksums before the store was opened. */
  readonly isChecked: boolean;
  /** Compares all pages with their checksums, in a thread. @returns what is wrong, in sentences; none: nothing. */
  check(): Promise<readonly string[]>;
  close(): Promise<void>;
}

/**
 * Files that this process has open. To open one again, even only to compare its pages, and to close it would release the lock of SQLite,
 * which is the process's.
 */
const openFiles = new Set<string>();

/** Throws StoreInUse where another server has it open, StoreDamaged and StoreUnusable where the file is damaged or cannot be written, StoreTooNew where a later release wrote it. */
export async function openStore(options: StoreOptions): Promise<Store> {
  const listeners: TransactionEndListener[] = [];
  const ended: TransactionEndListener = (isCommitted) => {
    for (const listener of listeners) listener(isCommitted);
  };
  const path = resolve(options.file);
  if (openFiles.has(path)) throw storeInUseError(options.file);
  const { faults, isComplete } = verifyFile(options);
  if (faults.length > 0) throw new StoreDamaged(options.file, faults);
  const { dialect, pin, check } = openSqlite(options.file, options.inject, ended);
  openFiles.add(path);
  const db = new Kysely<Schema>({ dialect });
  const close = async (): Promise<void> => {
    await db.destroy();
    openFiles.delete(path);
  };
  try {
    await migrate(db, sqliteColumnTypes);
  } catch (error) {
    await close();
    throw toStoreUnusable(options.file, error) ?? error;
  }
  return {
    db,
    transaction: (run) => db.transaction().execute(run),
    isChecked: isComplete,
    async check() {
      const pages = await check();
      return pages.length === 0 ? [] : [describePages(pages)];
    },
    onTransactionEnd: (listener) => void listeners.push(listener),
    pin,
    close,
  };
}

/** Throws StoreInUse. */
function verifyFile({ file, checkMs = Number.POSITIVE_INFINITY }: StoreOptions): StoreFaults {
  if (!existsSync(file)) rmSync(checksumFileOf(file), { force: true });
  const first = checkStoreFile(file, performance.now() + checkMs);
  if (first.faults.length === 0) return first;
  if (isStoreInUse(file)) throw storeInUseError(file);
  // A server that was just ending may have written between two looks of the first comparison.
  return checkStoreFile(file);
}

/** A value that is made once and then kept, such as a signing key. */
export async function getOrCreateSetting(store: Store, key: string, initial: () => string): Promise<string> {
  return store.transaction(async (tx) => {
    const kept = await tx.selectFrom('settings').select('value').where('key', '=', key).executeTakeFirst();
    if (kept) return kept.value;
    const value = initial();
    await tx.insertInto('settings').values({ key, value }).execute();
    return value;
  });
}
