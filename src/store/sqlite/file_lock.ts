// Locks a directory for one process, as SQLite locks the file of a store: by a file that it holds open until the process ends, however it ends.
import { DatabaseSync } from 'node:sqlite';
import { fileLockWaitMs, sqliteBusy, storeInUseError, toStoreUnusable } from './sqlite_dialect.ts';

/** Creates the file if it does not exist. Throws StoreInUse, StoreUnusable. @returns a function that releases it; idempotent. */
export function lockFile(file: string): () => void {
  let database: DatabaseSync | undefined;
  try {
    database = new DatabaseSync(file, { timeout: fileLockWaitMs });
    // The transaction never ends, and with it the lock. It writes nothing, so that the file remains empty.
    database.exec('begin exclusive');
  } catch (error) {
    database?.close();
    if ((error as { errcode?: number }).errcode === sqliteBusy) throw storeInUseError(file);
    throw toStoreUnusable(file, error) ?? error;
  }
  const held = database;
  return () => {
    if (held.isOpen) held.close();
  };
}
