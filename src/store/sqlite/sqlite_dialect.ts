// SQLite as a Kysely dialect on node:sqlite. All users share one connection: a transaction has exclusive use of it, and single statements
// run between transactions. The connection also locks the file, so that a second process cannot open it.

import assert from 'node:assert/strict';
import { fstatSync } from 'node:fs';
import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite';
import { Worker } from 'node:worker_threads';
import {
  type CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type Driver,
  type QueryResult,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
} from 'kysely';
import type { ColumnTypes } from '../migrations/migration.ts';
import type { FaultInjector } from '../store.ts';
import { StoreFull, StoreInUse, StoreUnusable } from '../store_errors.ts';
import { PageChecksums } from './integrity/page_checksums.ts';
import type { PagesToRead } from './integrity/page_thread.ts';

export const sqliteColumnTypes: ColumnTypes = {
  name: 'text',
  integer: 'integer',
  double: 'real',
  increasing: (column) => column.autoIncrement(),
};

/** How long a starting server waits for one that is shutting down. The wait blocks the process. */
export const fileLockWaitMs = 250;
/** How much of the file is memory-mapped, which halves the time of a look-up; it counts as resident memory. */
const mmapBytesMax = 64 * 1024 * 1024;
/** The log is checkpointed at this many frames. SQLite's own checkpoint would run inside a commit, before the checksums are written. */
const checkpointFrames = 1_000;
const { url } = import.meta;
const pageThread = new URL(url.endsWith('.ts') ? './integrity/page_thread.ts' : './integrity/page_thread.js', url);
/** Maximum number of cached prepared statements. Lists of variable length produce ever new ones; the oldest is evicted first. */
const statementsMax = 500;
export const sqliteBusy = 5;
const sqliteFull = 13;

export const storeInUseError = (file: string) =>
  new StoreInUse(`another server uses ${file}; stop it, or start this one with another data directory`);

const sqliteErrors = { ioError: 10, corrupt: 11, full: 13, cannotOpen: 14, notADatabase: 26, readOnly: 8 } as const;

/** Translates an error of opening the file; undefined if the error does not concern the file. */
export function toStoreUnusable(file: string, error: unknown): StoreUnusable | undefined {
  const code = (error as { errcode?: number }).errcode;
  const restore = 'put an undamaged copy of the data directory back, or restore its catalogs from backups';
  const messages: Readonly<Record<number, string>> = {
    [sqliteErrors.ioError]: `${file} cannot be read or written (input/output error): check the disk`,
    [sqliteErrors.corrupt]: `${file} is damaged: ${restore}`,
    [sqliteErrors.full]: `there is no disk space left for ${file}: free some, then restart the server`,
    [sqliteErrors.cannotOpen]: `${file} cannot be opened: check that this user may read and write it and its directory`,
    [sqliteErrors.notADatabase]: `${file} is not a metadata store, or its header is damaged: ${restore}`,
    [sqliteErrors.readOnly]: `${file} cannot be written by this user: change its owner or its mode`,
  };
  // The lower byte is the primary result code; the upper bytes extend it.
  const message = code === undefined ? undefined : messages[code & 0xff];
  return message === undefined ? undefined : new StoreUnusable(message, { cause: error });
}

interface CachedStatement {
  readonly statement: StatementSync;
  readonly returnsRows: boolean;
}

class SqliteFile {
  readonly #database: DatabaseSync;
  readonly #checksums: PageChecksums;
  /** Reads the number of frames in the log; takes a microsecond. */
  readonly #logFrameCount: StatementSync;
  readonly #inject: FaultInjector | undefined;
  readonly #statements = new Map<string, CachedStatement>();
  readonly #waiters: (() => void)[] = [];
  #isLocked = false;
  #isPinned = false;

  /** Opens the file at once, so that a failure is reported before the first query. Throws StoreInUse, StoreUnusable. */
  constructor(file: string, inject: FaultInjector | undefined) {
    this.#inject = inject;
    try {
      this.#database = new DatabaseSync(file, { timeout: fileLockWaitMs, enableForeignKeyConstraints: true });
    } catch (error) {
      throw toStoreUnusable(file, error) ?? error;
    }
    try {
      this.#database.exec(`
        pragma locking_mode = exclusive;
        pragma journal_mode = wal;
        pragma synchronous = full;
        pragma wal_autocheckpoint = 0;
        pragma mmap_size = ${mmapBytesMax};
        begin exclusive; commit;`);
      this.#logFrameCount = this.#database.prepare('pragma wal_checkpoint(noop)');
      this.#checksums = new PageChecksums(file, this.#countLogFrames());
    } catch (error) {
      this.#database.close();
      if ((error as { errcode?: number }).errcode !== sqliteBusy) throw toStoreUnusable(file, error) ?? error;
      throw storeInUseError(file);
    }
  }

  /** Undefined if the connection was free, so that the common case does not wait for a promise. */
  lock(): Promise<void> | undefined {
    if (this.#isLocked) return new Promise((resolve) => this.#waiters.push(resolve));
    this.#isLocked = true;
    return undefined;
  }

  unlock(): void {
    const next = this.#waiters.shift();
    if (next) next();
    else this.#isLocked = false;
  }

  run<R>(sql: string, parameters: readonly unknown[]): QueryResult<R> {
    this.#inject?.({ sql, parameters });
    try {
      const result = this.#run<R>(sql, parameters);
      if (!this.#database.isTransaction && !sql.startsWith('select')) this.#onCommit();
      return result;
    } catch (error) {
      throw (error as { errcode?: number }).errcode === sqliteFull ? new StoreFull(error) : error;
    }
  }

  #run<R>(sql: string, parameters: readonly unknown[]): QueryResult<R> {
    const { statement, returnsRows } = this.#prepare(sql);
    const values = parameters as readonly SQLInputValue[];
    if (returnsRows) {
      const rows = statement.all(...values) as R[];
      return { rows, numAffectedRows: BigInt(rows.length) };
    }
    const { changes } = statement.run(...values);
    return { rows: [], numAffectedRows: BigInt(changes) };
  }

  #countLogFrames(): number {
    return (this.#logFrameCount.get() as { log: number }).log;
  }

  #onCommit(): void {
    const frames = this.#countLogFrames();
    this.#checksums.onCommit(frames);
    if (frames < checkpointFrames || this.#isPinned) return;
    try {
      this.#checksums.makeDurable();
      this.#database.exec('pragma wal_checkpoint(passive)');
    } catch {
      // The disk is full: the log grows, and the next commit retries.
    }
  }

  /** Reads all pages in a thread and compares them with their checksums. @returns the pages that differ. */
  async check(): Promise<number[]> {
    const { descriptor, pageBytes, pageCount } = this.#checksums;
    const workerData: PagesToRead = { descriptor, pageBytes, pageCount };
    const thread = new Worker(pageThread, { workerData });
    thread.unref();
    const sums = await new Promise<Uint32Array>((resolve, reject) => {
      thread.once('message', resolve);
      thread.once('error', reject);
      thread.once('exit', () => reject(new Error('the thread that reads the pages of the store ended')));
    });
    if (!this.#database.isOpen) return [];
    // Pages that were written meanwhile are compared again, while no write can run.
    const suspects = Array.from(sums.keys()).filter((page) => page > 0 && sums[page] !== this.#checksums.sumOf(page));
    return this.#checksums.findDiffering(suspects);
  }

  get isInTransaction(): boolean {
    return this.#database.isTransaction;
  }

  /** Ensures that the next user finds no open transaction, whatever failed before. */
  endTransaction(): void {
    if (this.#database.isTransaction) this.#database.exec('rollback');
  }

  /** Writes the log into the file. Called between two statements. */
  checkpoint(): void {
    this.#checksums.makeDurable();
    const row = this.#database.prepare('pragma wal_checkpoint(truncate)').get() as { busy: number } | undefined;
    if (row?.busy !== 0) throw new Error('the log of the metadata store cannot be written into its file');
  }

  /** From now on changes are written to the log only, and the file does not change. @returns its descriptor; do not close it. */
  pin(): number {
    this.checkpoint();
    this.#isPinned = true;
    return this.#checksums.descriptor;
  }

  unpin(): void {
    this.#isPinned = false;
  }

  close(): void {
    this.#statements.clear();
    this.#checksums.prepareClose();
    try {
      this.checkpoint();
      this.#checksums.onLogEmptied();
    } catch {
      // The disk is full: closing the connection retries, and the log position in the checksum file stays valid.
    }
    this.#database.close();
    this.#checksums.close();
  }

  #prepare(sql: string): CachedStatement {
    const cached = this.#statements.get(sql);
    if (cached) return cached;
    const statement = this.#database.prepare(sql);
    const prepared = { statement, returnsRows: statement.columns().length > 0 };
    if (this.#statements.size >= statementsMax) {
      for (const oldest of this.#statements.keys()) {
        this.#statements.delete(oldest);
        break;
      }
    }
    this.#statements.set(sql, prepared);
    return prepared;
  }
}

class SqliteConnection implements DatabaseConnection {
  readonly file: SqliteFile;
  holdsLock = false;

  constructor(file: SqliteFile) {
    this.file = file;
  }

  async executeQuery<R>({ sql, parameters }: CompiledQuery): Promise<QueryResult<R>> {
    if (this.holdsLock) {
      // Otherwise each further statement would commit on its own.
      if (!this.file.isInTransaction) throw new Error('the transaction was rolled back already');
      return this.file.run(sql, parameters);
    }
    const wait = this.file.lock();
    if (wait) await wait;
    try {
      return this.file.run(sql, parameters);
    } finally {
      this.file.unlock();
    }
  }

  // biome-ignore lint/correctness/useYield: Kysely's interface has it; nothing here streams.
  async *streamQuery<R>(): AsyncIterableIterator<QueryResult<R>> {
    throw new Error('rows of the store are read in pages, not streamed');
  }
}

class SqliteDriver implements Driver {
  readonly #file: SqliteFile;

  constructor(file: SqliteFile) {
    this.#file = file;
  }

  async init(): Promise<void> {}

  async acquireConnection(): Promise<SqliteConnection> {
    return new SqliteConnection(this.#file);
  }

  async beginTransaction(connection: SqliteConnection): Promise<void> {
    const wait = this.#file.lock();
    if (wait) await wait;
    connection.holdsLock = true;
    this.#file.run('begin immediate', []);
  }

  async commitTransaction(): Promise<void> {
    this.#file.run('commit', []);
  }

  async rollbackTransaction(): Promise<void> {
    // After some errors, such as a full disk, SQLite has already rolled back.
    if (this.#file.isInTransaction) this.#file.run('rollback', []);
  }

  async releaseConnection(connection: SqliteConnection): Promise<void> {
    if (!connection.holdsLock) return;
    try {
      this.#file.endTransaction();
    } finally {
      connection.holdsLock = false;
      this.#file.unlock();
    }
  }

  async destroy(): Promise<void> {
    this.#file.close();
  }
}

/** Prevents Kysely from serializing everything on one connection: the driver serializes at lower cost. */
class SerializingAdapter extends SqliteAdapter {
  override get supportsMultipleConnections(): boolean {
    return true;
  }
}

/** Whether another process has the file open. Opens it read-only, which leaves a damaged store and its log unchanged. */
export function isStoreInUse(file: string): boolean {
  try {
    const database = new DatabaseSync(file, { readOnly: true, timeout: fileLockWaitMs });
    try {
      database.exec('pragma locking_mode = exclusive; select 1 from sqlite_schema limit 1');
    } finally {
      database.close();
    }
    return false;
  } catch (error) {
    return (error as { errcode?: number }).errcode === sqliteBusy;
  }
}

/** The file as of one instant, without later changes. */
export interface PinnedFile {
  /** Do not close it. */
  readonly descriptor: number;
  readonly bytes: number;
  /** Idempotent. */
  release(): void;
}

export interface OpenedSqlite {
  readonly dialect: Dialect;
  /** Reads all pages in a thread and compares them with their checksums. @returns the pages that differ. */
  check(): Promise<number[]>;
  /** All other users wait while `work` runs; the file is pinned in the state of that time. Only one pin at a time. */
  pin<T>(work: () => Promise<T>): Promise<{ readonly done: T; readonly file: PinnedFile }>;
}

/** Opens the file at once, so that a failure is reported before the first query. Throws StoreInUse. */
export function openSqlite(file: string, inject: FaultInjector | undefined): OpenedSqlite {
  const opened = new SqliteFile(file, inject);
  let isPinned = false;
  const unpin = () => {
    if (isPinned) opened.unpin();
    isPinned = false;
  };
  return {
    dialect: {
      createDriver: () => new SqliteDriver(opened),
      createQueryCompiler: () => new SqliteQueryCompiler(),
      createAdapter: () => new SerializingAdapter(),
      createIntrospector: (db) => new SqliteIntrospector(db),
    },
    check: () => opened.check(),
    async pin(work) {
      assert(!isPinned, 'the metadata store is already pinned');
      isPinned = true;
      try {
        // Writes most of the log before other users have to wait.
        await withLock(opened, async () => opened.checkpoint());
        return await withLock(opened, async () => {
          const descriptor = opened.pin();
          const done = await work();
          return { done, file: { descriptor, bytes: fstatSync(descriptor).size, release: unpin } };
        });
      } catch (error) {
        unpin();
        throw error;
      }
    },
  };
}

async function withLock<T>(file: SqliteFile, work: () => Promise<T>): Promise<T> {
  const wait = file.lock();
  if (wait) await wait;
  try {
    return await work();
  } finally {
    file.unlock();
  }
}
