// Rate limits of all servers on one store. A server admits by its own buckets and adds what was taken from them to the store several times
// a second, which returns what all servers took. Until then it does not know what others admit: N servers together admit at most N - 1
// bursts more than one server would, however long they run, because what exceeds a burst is owed and refused later.
import { sql } from 'kysely';
import type { Observe } from '../../observe/observations.ts';
import type { Store } from '../../store/store.ts';
import { MergeTimer } from './merge_timer.ts';
import type { Clock } from './monotonic_clock.ts';
import { type BucketKind, type RateLimits, RateLimitsInMemory, type RateLimitsOptions } from './rate_limits.ts';

export interface SharedRateLimitsOptions extends RateLimitsOptions {
  readonly store: Store;
  readonly observe: Observe;
}

const rowsPerStatementMax = 500;
/** What cannot be merged is kept for so many keys; more are forgotten, as one server would charge them. */
const unmergedKeysMax = 65_536;

interface Taken {
  readonly kind: BucketKind;
  readonly key: string;
  ms: number;
}

export class SharedRateLimits implements RateLimits {
  readonly #store: Store;
  readonly #observe: Observe;
  readonly #clock: Clock;
  readonly #own: RateLimitsInMemory;
  /** What was taken and is not in the store yet, by the key of its row. */
  #taken = new Map<string, Taken>();
  readonly #merges = new MergeTimer(() => this.#merge());

  /** `clock`, for tests: milliseconds since 1970, the same on all servers. */
  constructor({ store, observe, ...options }: SharedRateLimitsOptions) {
    this.#store = store;
    this.#observe = observe;
    this.#clock = options.clock ?? Date.now;
    const onTaken = (kind: BucketKind, key: string, ms: number) => this.#add({ kind, key, ms });
    this.#own = new RateLimitsInMemory({ ...options, onTaken });
  }

  charge(principalId: string, address: string, cost: number): void {
    this.#own.charge(principalId, address, cost);
  }

  chargeAddress(address: string, cost: number): void {
    this.#own.chargeAddress(address, cost);
  }

  /** Adds what was taken here to the store, and learns what was taken elsewhere from the same buckets. */
  merge(): Promise<void> {
    return this.#merges.now();
  }

  async stop(): Promise<void> {
    await this.#merges.stop();
    await this.#merges.now();
  }

  /** Deletes what no longer counts. */
  async sweep(): Promise<void> {
    await this.#store.db.deleteFrom('rate_charges').where('full_at', '<=', this.#clock()).execute();
  }

  #add({ kind, key, ms }: Taken): void {
    const rowKey = `${kind} ${key}`;
    const taken = this.#taken.get(rowKey);
    if (taken) taken.ms += ms;
    else if (this.#taken.size < unmergedKeysMax) this.#taken.set(rowKey, { kind, key, ms });
    this.#merges.schedule();
  }

  async #merge(): Promise<void> {
    // In the same order in all servers, so that they do not deadlock.
    const taken = [...this.#taken].sort(([a], [b]) => (a < b ? -1 : 1));
    this.#taken = new Map();
    for (let start = 0; start < taken.length; start += rowsPerStatementMax) {
      const part = taken.slice(start, start + rowsPerStatementMax);
      try {
        await this.#mergePart(new Map(part));
      } catch (error) {
        this.#observe({ kind: 'backgroundError', what: 'rate limits of all servers', error });
        for (const [, unmerged] of part) this.#add(unmerged);
      }
    }
  }

  async #mergePart(part: ReadonlyMap<string, Taken>): Promise<void> {
    const now = this.#clock();
    const rows = await this.#store.db
      .insertInto('rate_charges')
      .values([...part].map(([key, { ms }]) => ({ key, full_at: now + ms })))
      .onConflict((conflict) =>
        conflict.column('key').doUpdateSet({
          full_at: sql<number>`case when rate_charges.full_at > ${now}
            then rate_charges.full_at + excluded.full_at - ${now} else excluded.full_at end`,
        }),
      )
      .returning(['key', 'full_at'])
      .execute();
    for (const { key: rowKey, full_at: fullAt } of rows) {
      const taken = part.get(rowKey);
      if (!taken) continue;
      const { kind, key } = taken;
      this.#own.setMissing(kind, key, Math.max(0, fullAt - this.#clock()) + (this.#taken.get(rowKey)?.ms ?? 0));
    }
  }
}
