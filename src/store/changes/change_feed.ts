// The feed of changes, which is the only way to invalidate what a server keeps in memory of the store. A change is appended in the
// transaction that makes it. The followers of this server get it by the commit; those of other servers on the same store by reading the
// table `changes`, which is written only if the store is shared: when the store notifies them, and periodically.
import type { Kysely, Transaction } from 'kysely';
import { withTimeout } from '../../model/concurrency/bounded_waits.ts';
import type { Observe } from '../../observe/observations.ts';
import { Failure } from '../../standard/failure.ts';
import type { Schema } from '../schema.ts';
import type { Store } from '../store.ts';
import { type Change, type ChangeNotice, keyOf } from './change.ts';
import { deleteOldChanges, lastPosition, readChanges, readCurrent, writeChanges } from './change_rows.ts';

/** How often a server reads the changes of others: without notifications, with them, and at most after failures. */
const pollEveryMs = 50;
const notifiedPollEveryMs = 500;
const failedPollEveryMsMax = 500;
/** A server that could not read the changes of others for longer answers no request. */
const silentMsMax = 2_000;
/** How long a request waits for a read of the changes of others. */
const readWaitMsMax = 2_000;
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
  /** Milliseconds; tests: so long that only notifications remain. */
  readonly pollEveryMs?: number;
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
  #polling: Promise<boolean> = Promise.resolve(true);
  /** A poll that has not begun. */
  #queued: Promise<boolean> | undefined;
  #isFailing = false;
  /** The last row whose change all followers have, and when the read that found no later ones began. */
  #reached = 0;
  #readAtMs = performance.now();
  /** The last row that this server has read or written. */
  #newest = 0;
  #loop: Promise<void> | undefined;
  #isNotified = false;
  #isStopped = false;
  /** Ends the pause between two polls. */
  #wake: () => void = () => {};

  private constructor(options: ChangeFeedOptions) {
    this.#options = options;
    this.#clock = options.clock ?? Date.now;
  }

  /** To be opened before anything that follows it is read from the store, so that no change is missed in between. */
  static async open(options: ChangeFeedOptions): Promise<ChangeFeed> {
    const feed = new ChangeFeed(options);
    const { store } = options;
    if (store.isShared) {
      feed.#readAtMs = performance.now();
      feed.#position = await lastPosition(feed.#db);
      feed.#reached = feed.#position;
      feed.#newest = feed.#position;
    }
    return feed;
  }

  get #db(): Kysely<Schema> {
    const { db, feed } = this.#options.store;
    return feed?.db ?? db;
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
    this.#newest = Math.max(this.#newest, positions.at(-1) ?? 0);
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
    const { store } = this.#options;
    if (!store.isShared) return;
    store.feed?.onNotification(() => {
      this.#isNotified = true;
      this.#wake();
    });
    this.#loop = this.#pollRepeatedly();
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#wake();
    await this.#loop;
    await this.#polling;
  }

  async #pollRepeatedly(): Promise<void> {
    for (let failures = 0; !this.#isStopped; ) {
      this.#isNotified = false;
      failures = (await this.poll()) ? 0 : failures + 1;
      if (!this.#isNotified && !this.#isStopped) await this.#pause(failures);
    }
  }

  #pause(failures: number): Promise<void> {
    const { store, pollEveryMs: every } = this.#options;
    const usualMs = every ?? (store.feed?.isNotified ? notifiedPollEveryMs : pollEveryMs);
    const ms = failures > 0 ? Math.min(failedPollEveryMsMax, pollEveryMs * 2 ** (failures - 1)) : usualMs;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#wake = resolve;
    return withTimeout(promise, ms, { ref: false });
  }

  /** The position up to which a server must follow the feed to know what this one knows; undefined if the store is not shared. */
  get position(): number | undefined {
    return this.#options.store.isShared ? this.#newest : undefined;
  }

  /**
   * Undefined if the followers have the change at a position and are not older than two seconds. Otherwise waits until they are.
   * Throws STORE_UNAVAILABLE. A position that does not exist, because the store was replaced, is not waited for.
   */
  upToDate(position = 0): Promise<void> | undefined {
    if (!this.#options.store.isShared) return undefined;
    if (position <= this.#reached && performance.now() - this.#readAtMs <= silentMsMax) return undefined;
    return this.readNow();
  }

  /** Resolves when the followers have what other servers committed before the call. Throws STORE_UNAVAILABLE. */
  async readNow(): Promise<void> {
    if (!this.#options.store.isShared) return;
    if (await withTimeout(this.poll(), readWaitMsMax)) return;
    const message = 'the changes of other servers cannot be read';
    throw new Failure('STORE_UNAVAILABLE', message, {}, { outcome: 'notApplied' });
  }

  /**
   * Follows the changes that other servers committed before the call. A failure is reported, once until a poll succeeds, and repaired
   * by the next poll. @returns whether it succeeded.
   */
  poll(): Promise<boolean> {
    if (this.#queued) return this.#queued;
    const queued = this.#polling
      .then(() => {
        this.#queued = undefined;
        return this.#read();
      })
      .catch((error: unknown) => {
        if (!this.#isFailing)
          this.#options.observe({ kind: 'backgroundError', what: 'changes of other servers', error });
        this.#isFailing = true;
        return false;
      });
    this.#queued = queued;
    this.#polling = queued;
    return queued;
  }

  async #read(): Promise<boolean> {
    const beganAtMs = performance.now();
    await this.#poll();
    this.#readAtMs = beganAtMs;
    this.#reached = this.#position;
    this.#newest = Math.max(this.#newest, this.#position);
    this.#isFailing = false;
    return true;
  }

  async #poll(): Promise<void> {
    const db = this.#db;
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
      for (const change of await readCurrent(this.#db, notices)) {
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
    this.#position = await lastPosition(this.#db);
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
