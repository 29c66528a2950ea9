// The metadata store: its transactions, whichever database it uses. sqlite/ opens one; other directories own the content.
import type { Kysely, Transaction } from 'kysely';
import type { Schema } from './schema.ts';
import type { TransactionEnd } from './transactions.ts';

/** Called before every statement; a fault test throws from it. */
export type FaultInjector = (statement: { readonly sql: string; readonly parameters: readonly unknown[] }) => void;

/** Apart from the connections of requests, so that busy ones do not delay the feed. */
export interface FeedConnection {
  readonly db: Kysely<Schema>;
  /** Whether the database notifies this server of the changes of others. */
  readonly isNotified: boolean;
  /** Called at each notification, and when notifications may have been lost. */
  onNotification(listener: () => void): void;
}

export interface Store {
  readonly db: Kysely<Schema>;
  /**
   * Runs a serializable transaction. `run` must await nothing but its own statements, because all other users may wait for it, and must
   * have no other effects, because it is run again if the database rolls it back after a conflict. See `afterCommit` for effects.
   */
  transaction<T>(run: (tx: Transaction<Schema>) => Promise<T>): Promise<T>;
  /** Adds to the end of a transaction that `transaction` has begun. */
  atEnd(tx: Transaction<Schema>, end: TransactionEnd): void;
  /** Whether several servers use the store: then changes are also written for the others (changes/change_feed.ts). */
  readonly isShared: boolean;
  /** The connection on which the changes of other servers are read; absent: `db`. */
  readonly feed?: FeedConnection | undefined;
  /** The time of the database, in milliseconds since 1970; absent: the database has no clock of its own. */
  readonly time?: (() => Promise<number>) | undefined;
  /** Removes what deleted and changed rows of a table left in the files of the database. Called outside transactions. */
  vacuum(table: keyof Schema): Promise<void>;
  close(): Promise<void>;
}

/** A setting of a database that `store migrate` has moved elsewhere: no server starts on it. Its value says where and when. */
export const movedSetting = 'store_moved';

/** A value that is generated once and then stored, such as a signing key. */
export async function getOrCreateSetting(store: Store, key: string, initial: () => string): Promise<string> {
  return store.transaction(async (tx) => {
    const existing = await tx.selectFrom('settings').select('value').where('key', '=', key).executeTakeFirst();
    if (existing) return existing.value;
    const value = initial();
    await tx.insertInto('settings').values({ key, value }).execute();
    return value;
  });
}
