// Leases: while a process works on a row, it holds the row in its own name (`leased_by`) until a time (`lease_until`). Another process takes
// the row over when that time has passed, or at once when the holder is known to have ended. A holder that was too slow finds that the row
// is no longer in its name, and writes nothing.
import { type RawBuilder, sql } from 'kysely';
import { newId } from '../model/ids.ts';
import type { Store } from './store.ts';

/**
 * A dead server's work is taken over this time after its last renewal at the latest, plus the second until another server looks. Five
 * renewals in a row may be late or fail before a lease expires.
 */
export const leaseMs = 6_000;
/** Also how often a server looks for leases of others that have expired. */
export const renewEveryMs = 1_000;
/** Of a process that has the store alone: no one takes anything over. */
const renewAloneEveryMs = 10_000;
/** A server that could not reach the store for longer than this does not know whether the others could renew their leases. */
const contactGapMsMax = 3_000;
/** For so long after it reaches the store again, the others renew theirs first. */
const settleMs = 3_000;
/** A server takes its own lease for expired so long after it began to renew it, well before any other server does. */
export const ownLeaseMs = 4_000;

export interface Lease {
  readonly leased_by: string | null;
  readonly lease_until: number | null;
}

/** A time by two clocks: only one of them continues in a suspended machine. */
export interface ClockTimes {
  readonly elapsed: number;
  readonly time: number;
}

export const clockTimes = (time: number = Date.now()): ClockTimes => ({ elapsed: performance.now(), time });

/** By the clock by which more has passed. */
export const passedMs = (since: ClockTimes, time: number = Date.now()): number =>
  Math.max(performance.now() - since.elapsed, time - since.time);

export const noLease: Lease = { leased_by: null, lease_until: null };

/** One process of a server. */
export class LeaseHolder {
  readonly id: string;
  readonly renewEveryMs: number;
  readonly #serverId: string | undefined;
  /** What the clock of the store is ahead of that of this process, in milliseconds. */
  #clockOffsetMs = 0;
  /** In the time of `performance.now`; undefined: this process does not report contacts. */
  #lastContactAt: number | undefined;
  #trustsFrom = 0;
  /** When the renewal of the lease of this server began that succeeded last. */
  #leasedAt: ClockTimes | undefined;
  #lapses = 0;
  #hasEnded = false;

  /**
   * `serverId`: the identity of the data directory, which one process at a time has open. Without it no other process has the store open,
   * as with SQLite, which locks its file.
   */
  constructor(serverId?: string, everyMs: number = serverId === undefined ? renewAloneEveryMs : renewEveryMs) {
    this.id = serverId === undefined ? newId() : `${serverId}/${newId()}`;
    this.#serverId = serverId;
    this.renewEveryMs = everyMs;
  }

  /** Whether other processes use the store. */
  get isShared(): boolean {
    return this.#serverId !== undefined;
  }

  /** The identity of the data directory, if the store is shared. */
  get serverId(): string | undefined {
    return this.#serverId;
  }

  /** Called by each heartbeat. `clockOffsetMs`: what the clock of the store is ahead. */
  contact(clockOffsetMs: number): void {
    const at = performance.now();
    if (this.#lastContactAt !== undefined && at - this.#lastContactAt > contactGapMsMax)
      this.#trustsFrom = at + settleMs;
    this.#lastContactAt = at;
    this.#clockOffsetMs = clockOffsetMs;
  }

  /** When a renewal of the lease of this server (the table `servers`) begins. Pass it to `leased` when the renewal has succeeded. */
  leasing(): ClockTimes {
    return clockTimes();
  }

  leased(began: ClockTimes): void {
    if (this.leaseEpoch === undefined) this.#lapses++;
    this.#leasedAt = began;
  }

  /** This server stops: the others take it for dead. */
  unleased(): void {
    this.#leasedAt = undefined;
    this.#hasEnded = true;
  }

  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  /**
   * Names the time since which this server has had its lease without a gap; undefined: others may take it for dead. What needs the lease
   * from its beginning to its end compares the two.
   */
  get leaseEpoch(): number | undefined {
    return this.#leasedAt && passedMs(this.#leasedAt) <= ownLeaseMs ? this.#lapses : undefined;
  }

  /** The time by the clock of the store, to which leases refer, because those of the servers differ. */
  storeTime(now: number): number {
    return now + this.#clockOffsetMs;
  }

  /**
   * Leases that end up to this time have expired. None has, except those that were given up, while this process was cut off from the store
   * or frozen, and shortly after: their holders may only have been unable to renew them.
   */
  expiredUntil(now: number): number {
    return this.#trustsExpiry() ? this.storeTime(now) : 0;
  }

  #trustsExpiry(): boolean {
    if (this.#lastContactAt === undefined) return true;
    const at = performance.now();
    return at - this.#lastContactAt <= contactGapMsMax && at >= this.#trustsFrom;
  }

  /** `now`: by the clock of this process. */
  lease(now: number, forMs: number = leaseMs): Lease {
    return { leased_by: this.id, lease_until: this.storeTime(now) + forMs };
  }

  /** Whether another process works on the row. */
  isTaken({ leased_by, lease_until }: Lease, now: number): boolean {
    if (leased_by === null || leased_by === this.id || this.#serverId === undefined) return false;
    return !leased_by.startsWith(`${this.#serverId}/`) && (lease_until ?? 0) > this.expiredUntil(now);
  }

  /** The opposite of `isTaken`, as a condition on rows. */
  isFree(now: number): RawBuilder<boolean> {
    if (this.#serverId === undefined) return sql<boolean>`1 = 1`;
    const ended = `${this.#serverId}/%`;
    return sql<boolean>`(leased_by is null or leased_by like ${ended} or lease_until is null or lease_until <= ${this.expiredUntil(now)})`;
  }
}

const leasedTables = ['idempotency_keys', 'intents', 'schedule_times', 'tasks'] as const;

/**
 * Ends the leases of the processes that had this data directory before: the other servers take over their rows at once instead of when the
 * leases expire. Called while this process has the data directory locked, before it works on any row.
 */
export async function endEarlierLeases(store: Store, { id, serverId }: LeaseHolder): Promise<void> {
  if (serverId === undefined) return;
  for (const table of leasedTables)
    await store.db
      .updateTable(table)
      .set({ lease_until: 0 })
      .where('leased_by', 'like', `${serverId}/%`)
      .where('leased_by', '!=', id)
      .where('lease_until', '>', 0)
      .execute();
}
