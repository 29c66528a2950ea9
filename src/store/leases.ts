// Leases: while a process works on a row, it holds the row in its own name (`leased_by`) until a time (`lease_until`). Another process takes
// the row over when that time has passed, or at once when the holder is known to have ended. A holder that was too slow finds that the row
// is no longer in its name, and writes nothing.
import { type RawBuilder, sql } from 'kysely';
import { newId } from '../model/ids.ts';
import type { Store } from './store.ts';

export const leaseMs = 30_000;

export interface Lease {
  readonly leased_by: string | null;
  readonly lease_until: number | null;
}

export const noLease: Lease = { leased_by: null, lease_until: null };

/** One process of a server. */
export class LeaseHolder {
  readonly id: string;
  /** Two renewals may be late or fail before a lease expires. */
  readonly renewEveryMs: number;
  readonly #serverId: string | undefined;

  /**
   * `serverId`: the identity of the data directory, which one process at a time has open. Without it no other process has the store open,
   * as with SQLite, which locks its file.
   */
  constructor(serverId?: string, renewEveryMs: number = leaseMs / 3) {
    this.id = serverId === undefined ? newId() : `${serverId}/${newId()}`;
    this.#serverId = serverId;
    this.renewEveryMs = renewEveryMs;
  }

  /** Whether other processes use the store. */
  get isShared(): boolean {
    return this.#serverId !== undefined;
  }

  /** The identity of the data directory, if the store is shared. */
  get serverId(): string | undefined {
    return this.#serverId;
  }

  lease(now: number, forMs: number = leaseMs): Lease {
    return { leased_by: this.id, lease_until: now + forMs };
  }

  /** Whether another process works on the row. */
  isTaken({ leased_by, lease_until }: Lease, now: number): boolean {
    if (leased_by === null || leased_by === this.id || this.#serverId === undefined) return false;
    return !leased_by.startsWith(`${this.#serverId}/`) && (lease_until ?? 0) > now;
  }

  /** The opposite of `isTaken`, as a condition on rows. */
  isFree(now: number): RawBuilder<boolean> {
    if (this.#serverId === undefined) return sql<boolean>`1 = 1`;
    const ended = `${this.#serverId}/%`;
    return sql<boolean>`(leased_by is null or leased_by like ${ended} or lease_until is null or lease_until <= ${now})`;
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
