// The statements of each principal on the other servers of a store. While a server runs statements, it writes how many and reads the
// others' numbers several times a second. Until then it does not know what others began: of a principal at most as many statements as its
// limit run on each server, and none is begun later while their sum is not below the limit.
import type { Observe } from '../../observe/observations.ts';
import type { Store } from '../../store/store.ts';
import { MergeTimer } from './merge_timer.ts';

/** The numbers of one server are kept by itself (quotas.ts). */
export interface QueriesElsewhere {
  countOf(principalId: string): number;
  /** How many statements of the principal now run or wait here. */
  changed(principalId: string, running: number): void;
  /** `waiting`: whether any statement waits until `countOf` is lower, which `read` reports. */
  onRead(read: () => void, waiting: () => boolean): void;
}

export const noneElsewhere: QueriesElsewhere = {
  countOf: () => 0,
  changed: () => {},
  onRead: () => {},
};

export interface SharedQueryCountsOptions {
  readonly store: Store;
  readonly serverId: string;
  readonly observe: Observe;
  /** Milliseconds since 1970, about the same on all servers. */
  readonly clock?: () => number;
}

/** The numbers of a server that ended without deleting them count for so long. */
const countsMs = 30_000;
const extendEveryMs = countsMs / 3;
const rowsPerStatementMax = 500;

export class SharedQueryCounts implements QueriesElsewhere {
  readonly #options: SharedQueryCountsOptions;
  readonly #clock: () => number;
  readonly #own = new Map<string, number>();
  #changed = new Set<string>();
  #elsewhere: ReadonlyMap<string, number> = new Map();
  #extendedAt = 0;
  #read = () => {};
  #isAnyWaiting = () => false;
  readonly #merges = new MergeTimer(() => this.#merge());

  constructor(options: SharedQueryCountsOptions) {
    this.#options = options;
    this.#clock = options.clock ?? Date.now;
  }

  countOf(principalId: string): number {
    return this.#elsewhere.get(principalId) ?? 0;
  }

  changed(principalId: string, running: number): void {
    if (running === 0) this.#own.delete(principalId);
    else this.#own.set(principalId, running);
    this.#changed.add(principalId);
    this.#merges.schedule();
  }

  onRead(read: () => void, waiting: () => boolean): void {
    this.#read = read;
    this.#isAnyWaiting = waiting;
  }

  /** Writes the numbers of this server and reads those of the others. */
  merge(): Promise<void> {
    return this.#merges.now();
  }

  /** The statements of this server have ended. */
  async stop(): Promise<void> {
    await this.#merges.stop();
    const { store, serverId } = this.#options;
    await store.db.deleteFrom('running_queries').where('server_id', '=', serverId).execute();
  }

  /** Deletes the numbers of servers that ended. */
  async sweep(): Promise<void> {
    await this.#options.store.db.deleteFrom('running_queries').where('counts_until', '<=', this.#clock()).execute();
  }

  async #merge(): Promise<void> {
    const changed = this.#changed;
    this.#changed = new Set();
    try {
      await this.#write(changed);
      await this.#readOthers();
    } catch (error) {
      for (const principalId of changed) this.#changed.add(principalId);
      this.#options.observe({ kind: 'backgroundError', what: 'statements of all servers', error });
    }
    this.#read();
    if (this.#own.size > 0 || this.#changed.size > 0 || this.#isAnyWaiting()) this.#merges.schedule();
  }

  async #write(changed: ReadonlySet<string>): Promise<void> {
    const { store, serverId } = this.#options;
    const now = this.#clock();
    const isDue = now - this.#extendedAt >= extendEveryMs;
    const ended = [...changed].filter((id) => !this.#own.has(id));
    const running = [...this.#own].filter(([id]) => isDue || changed.has(id));
    for (let start = 0; start < ended.length; start += rowsPerStatementMax)
      await store.db
        .deleteFrom('running_queries')
        .where('server_id', '=', serverId)
        .where('principal_id', 'in', ended.slice(start, start + rowsPerStatementMax))
        .execute();
    for (let start = 0; start < running.length; start += rowsPerStatementMax)
      await store.db
        .insertInto('running_queries')
        .values(
          running.slice(start, start + rowsPerStatementMax).map(([id, count]) => ({
            server_id: serverId,
            principal_id: id,
            running: count,
            counts_until: now + countsMs,
          })),
        )
        .onConflict((conflict) =>
          conflict.columns(['server_id', 'principal_id']).doUpdateSet((e) => ({
            running: e.ref('excluded.running'),
            counts_until: e.ref('excluded.counts_until'),
          })),
        )
        .execute();
    if (isDue) this.#extendedAt = now;
  }

  async #readOthers(): Promise<void> {
    const { store, serverId } = this.#options;
    const rows = await store.db
      .selectFrom('running_queries')
      .select(['principal_id', (e) => e.fn.sum<number>('running').as('running')])
      .where('server_id', '!=', serverId)
      .where('counts_until', '>', this.#clock())
      .groupBy('principal_id')
      .execute();
    this.#elsewhere = new Map(rows.map(({ principal_id: id, running }) => [id, running]));
  }
}
