// The feed of changes, which is the only way to invalidate what a server keeps in memory of the store. A change is appended in the
// transaction that makes it. The followers of this server get it by the commit; those of other servers on the same store by polling the
// table `changes`, which is written only if the store is shared.
import type { Transaction } from 'kysely';
import type { Observe } from '../../observe/observations.ts';
import type { Schema } from '../schema.ts';
import type { Store } from '../store.ts';
import { type Change, type ChangeNotice, keyOf } from './change.ts';
import { deleteOldChanges, lastPosition, readChanges, readCurrent, writeChanges } from './change_rows.ts';

/** How often a server reads the changes of others. */
const pollEveryMs = 50;
const noticesPerReadMax = 1000;
/** How long rows are kept, and how many: a server that has not read them by then reloads everything. */
const retentionMs = 10 * 60_000;
const rowsMax = 100_000;

/** Most followers are done when they return. */
type Following = Promise<void> | void;

export interface ChangeFollower {
  /**
   * For a change of this server, called in the event-loop turn in which its commit returns; the request that made the change waits for
   * the promise, and fails with its error. The same change can be passed twice, with newer contents.
   */
  changed(change: Change): Following;
  /** Changes were missed: everything that was read from the store may be outdated. */
  reload(): Following;
}

export interface ChangeFeedOptions {
  readonly store: Store;
  /** The server whose feed this is. */
  readonly serverId: string;
  readonly observe: Observe;
  readonly clock?: () => number;
}

export class ChangeFeed {
  readonly #options: ChangeFeedOptions;
  readonly #clock: () => number;
  readonly #followers: ChangeFollower[] = [];
  readonly #appended = new WeakMap<Transaction<Schema>, Change[]>();
  /** The last row that was read. */
  #position = 0;
  /** Rows after `#position` that were written here and followed at their commit. */
  readonly #followed = new Set<number>();
  /** What was read from the rows and not followed yet, by key. */
  readonly #unfollowed = new Map<string, ChangeNotice>();
  /** What was committed here since the last read of current contents began, by key. */
  readonly #committed = new Map<string, ChangeNotice>();
  #isReloadDue = false;
  #polling: Promise<void> = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;

  private constructor(options: ChangeFeedOptions) {
    this.#options = options;
    this.#clock = options.clock ?? Date.now;
  }

  /** To be opened before anything that follows it is read from the store, so that no change is missed in between. */
  static async open(options: ChangeFeedOptions): Promise<ChangeFeed> {
    const feed = new ChangeFeed(options);
    const { store } = options;
    if (store.isShared) feed.#position = await lastPosition(store.db);
    return feed;
  }

  follow(follower: ChangeFollower): void {
    this.#followers.push(follower);
  }

  /** Call it in the transaction that makes the change. */
  append(tx: Transaction<Schema>, change: Change): void {
    const appended = this.#appended.get(tx);
    if (appended) {
      appended.push(change);
      return;
    }
    const changes = [change];
    this.#appended.set(tx, changes);
    const { store, serverId } = this.#options;
    let positions: readonly number[] = [];
    const write = async () => {
      positions = await writeChanges(tx, changes, { serverId, at: this.#clock() });
    };
    store.atEnd(tx, {
      write: store.isShared ? write : undefined,
      committed: () => this.#onCommit(changes, positions),
    });
  }

  #onCommit(changes: readonly Change[], positions: readonly number[]): Promise<void> | undefined {
    return allOf(changes.map((change, i) => this.#followCommitted(change, positions[i])));
  }

  #followCommitted(change: Change, position: number | undefined): Promise<void> | undefined {
    if (position !== undefined) {
      // Its row was read before the commit returned: the contents here may be older than those that the poll reads.
      if (position <= this.#position) return this.#followAfterPoll(change);
      this.#followed.add(position);
      this.#committed.set(keyOf(change), change);
    }
    return this.#publish(change);
  }

  async #followAfterPoll(change: Change): Promise<void> {
    await this.#polling;
    if (this.#unfollowed.has(keyOf(change))) await this.#publish(change);
  }

  /** Undefined if no follower has to be waited for. */
  #publish(change: Change): Promise<void> | undefined {
    return allOf(this.#followers.map((follower) => follower.changed(change)));
  }

  start(): void {
    if (!this.#options.store.isShared) return;
    // Where a store can notify its servers (LISTEN and NOTIFY of PostgreSQL), a notification polls at once, and this timer remains for
    // notifications that are lost.
    let isPolling = false;
    this.#timer = setInterval(() => {
      if (isPolling) return;
      isPolling = true;
      void this.poll().finally(() => {
        isPolling = false;
      });
    }, pollEveryMs);
    this.#timer.unref();
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#polling;
  }

  /** Follows the changes that other servers committed before the call. A failure is reported, and repaired by the next poll. */
  poll(): Promise<void> {
    this.#polling = this.#polling
      .then(() => this.#poll())
      .catch((error: unknown) =>
        this.#options.observe({ kind: 'backgroundError', what: 'changes of other servers', error }),
      );
    return this.#polling;
  }

  async #poll(): Promise<void> {
    const { db } = this.#options.store;
    for (;;) {
      this.#committed.clear();
      const rows = this.#isReloadDue ? undefined : await readChanges(db, this.#position, noticesPerReadMax);
      if (!rows) await this.#reload();
      for (const { position, notice } of rows ?? []) {
        this.#position = position;
        if (!this.#followed.delete(position)) this.#addUnfollowed(notice);
      }
      await this.#followUnfollowed();
      if ((rows?.length ?? 0) < noticesPerReadMax) return;
    }
  }

  #addUnfollowed(notice: ChangeNotice): void {
    const key = keyOf(notice);
    const earlier = this.#unfollowed.get(key);
    const isDeep = earlier?.kind === 'object' && earlier.deep;
    this.#unfollowed.set(key, notice.kind === 'object' && isDeep ? { ...notice, deep: true } : notice);
  }

  async #followUnfollowed(): Promise<void> {
    while (this.#unfollowed.size > 0) {
      this.#committed.clear();
      const notices = [...this.#unfollowed.values()].slice(0, noticesPerReadMax);
      for (const change of await readCurrent(this.#options.store.db, notices)) {
        const key = keyOf(change);
        // What was committed here meanwhile may be newer than what was read, which is read again.
        if (this.#committed.has(key)) continue;
        const notice = this.#unfollowed.get(key) ?? change;
        this.#unfollowed.delete(key);
        try {
          await this.#publish(change);
        } catch (error) {
          this.#unfollowed.set(key, notice);
          throw error;
        }
      }
    }
  }

  async #reload(): Promise<void> {
    this.#isReloadDue = true;
    this.#position = await lastPosition(this.#options.store.db);
    for (const position of this.#followed) if (position <= this.#position) this.#followed.delete(position);
    this.#unfollowed.clear();
    this.#committed.clear();
    await Promise.all(this.#followers.map((follower) => follower.reload()));
    // The followers may have replaced these by what they had read before.
    for (const notice of this.#committed.values()) this.#addUnfollowed(notice);
    this.#isReloadDue = false;
  }

  /** Deletes rows that all servers have read, or should have. */
  async sweep(): Promise<void> {
    const { store } = this.#options;
    if (store.isShared) await deleteOldChanges(store.db, { before: this.#clock() - retentionMs, rowsMax });
  }
}

/** Undefined if there is nothing to wait for. */
function allOf(following: readonly Following[]): Promise<void> | undefined {
  const promises = following.filter((each) => each !== undefined);
  return promises.length === 0 ? undefined : Promise.all(promises).then(() => undefined);
}
