// The metadata store as a SQLite file in the data directory: opens the file, migrates its tables to this version, compares its pages.
import { existsSync, rmSync } from 'node:fs';
import { resolve } from 'node:path';
import { Kysely, sql } from 'kysely';
import { migrate } from '../migrations/migrate.ts';
import type { Schema } from '../schema.ts';
import type { FaultInjector, Store } from '../store.ts';
import { StoreUnusable } from '../store_errors.ts';
import { Transactions } from '../transactions.ts';
import { checksumFileOf } from './integrity/checksum_file.ts';
import { checkStoreFile, describePages, type StoreFaults } from './integrity/store_check.ts';
import {
  isStoreInUse,
  openSqlite,
  type PinnedFile,
  sqliteColumnTypes,
  storeInUseError,
  toStoreUnusable,
} from './sqlite_dialect.ts';

/** The file name in the data directory. */
export const storeFileName = 'metadata.sqlite';

export interface SqliteStoreOptions {
  /** Path of the SQLite file; its directory exists. */
  readonly file: string;
  readonly inject?: FaultInjector | undefined;
  /** Time limit for comparing pages with their checksums before the file is opened; without it, all pages are compared. */
  readonly checkMs?: number | undefined;
  /** See `Store.isShared`. SQLite locks its file for one process, so only tests set it, with several servers in one process. */
  readonly isShared?: boolean | undefined;
}

/** The file differs from what was written. The message addresses the operator. */
export class StoreDamaged extends StoreUnusable {
  override name = 'StoreDamaged';
  readonly faults: readonly string[];

  constructor(file: string, faults: readonly string[]) {
    super(
      `${file} is damaged: ${faults.join('; ')}.\nput an undamaged copy of it, its -wal and its -sums back; ` +
        'or inspect the loss with `tabularium check`, which can also accept it',
    );
    this.faults = faults;
  }
}

export interface SqliteStore extends Store {
  /**
   * Pins the file for a copy: all other users wait while `work` runs, and until `release` the file contains exactly what was committed
   * by then. `work` must not use the store. Only one pin at a time.
   */
  pin<T>(work: () => Promise<T>): Promise<{ readonly done: T; readonly file: PinnedFile }>;
  /** Whether all pages were compared with their checksums before the store was opened. */
  readonly isChecked: boolean;
  /** Compares all pages with their checksums, in a thread. @returns a description of each fault; empty if there is none. */
  check(): Promise<readonly string[]>;
}

/**
 * Files that this process has open. Opening one again and closing it, even only to compare its pages, would release SQLite's lock, because
 * POSIX locks belong to the process.
 */
const openFiles = new Set<string>();

/**
 * Throws StoreInUse if another server has the file open, StoreDamaged if it is damaged, StoreUnusable if it cannot be read or written,
 * StoreTooNew if a later release wrote it.
 */
export async function openSqliteStore(options: SqliteStoreOptions): Promise<SqliteStore> {
  const path = resolve(options.file);
  if (openFiles.has(path)) throw storeInUseError(options.file);
  const { faults, isComplete } = verifyFile(options);
  if (faults.length > 0) throw new StoreDamaged(options.file, faults);
  const { dialect, pin, check } = openSqlite(options.file, options.inject);
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
  const transactions = new Transactions(db);
  return {
    db,
    transaction: (run) => transactions.run(run),
    atEnd: (tx, end) => transactions.atEnd(tx, end),
    isShared: options.isShared ?? false,
    // SQLite can only rewrite the whole file.
    vacuum: async () => void (await sql`vacuum`.execute(db)),
    isChecked: isComplete,
    async check() {
      const pages = await check();
      return pages.length === 0 ? [] : [describePages(pages)];
    },
    pin,
    close,
  };
}

/** Throws StoreInUse. */
function verifyFile({ file, checkMs = Number.POSITIVE_INFINITY }: SqliteStoreOptions): StoreFaults {
  if (!existsSync(file)) rmSync(checksumFileOf(file), { force: true });
  const first = checkStoreFile(file, performance.now() + checkMs);
  if (first.faults.length === 0) return first;
  if (isStoreInUse(file)) throw storeInUseError(file);
  // A server that was shutting down may have written during the first comparison.
  return checkStoreFile(file);
}
