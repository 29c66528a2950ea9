// The leases that this process holds at the moment: renewed by a timer that runs only while there are any, each for a limited time.
import type { Observe } from '../observe/observations.ts';
import type { LeaseHolder } from './leases.ts';

export interface HeldLeasesOptions<T> {
  readonly holder: LeaseHolder;
  readonly observe: Observe;
  /** Extends the leases of the rows that are still held by this process, and returns their ids. */
  readonly renew: (rows: readonly T[]) => Promise<readonly string[]>;
  /** A lease is not renewed for longer: whatever the holder does then never ends. */
  readonly holdMsMax: number;
}

/** Abort reason: another process has taken the row over. */
export class RowTaken extends Error {
  override name = 'RowTaken';
}

interface Held<T> {
  readonly row: T;
  readonly until: number;
  readonly lost: AbortController;
}

export class HeldLeases<T> {
  readonly #options: HeldLeasesOptions<T>;
  readonly #held = new Map<string, Held<T>>();
  #timer: NodeJS.Timeout | undefined;

  constructor(options: HeldLeasesOptions<T>) {
    this.#options = options;
  }

  has(id: string): boolean {
    return this.#held.has(id);
  }

  /** Renews the lease until `release`. @returns a signal that is aborted when another process has taken the row over. */
  hold(id: string, row: T): AbortSignal {
    const lost = new AbortController();
    this.#held.set(id, { row, until: performance.now() + this.#options.holdMsMax, lost });
    if (this.#options.holder.isShared && !this.#timer) this.#schedule();
    return lost.signal;
  }

  /** @returns false if it was not held. */
  release(id: string): boolean {
    const wasHeld = this.#held.delete(id);
    if (this.#held.size === 0) {
      clearTimeout(this.#timer);
      this.#timer = undefined;
    }
    return wasHeld;
  }

  #schedule(): void {
    this.#timer = setTimeout(() => void this.#renew(), this.#options.holder.renewEveryMs).unref();
  }

  async #renew(): Promise<void> {
    const timer = this.#timer;
    const now = performance.now();
    const due = [...this.#held].filter(([, { until }]) => until > now);
    try {
      const renewed = new Set(due.length > 0 ? await this.#options.renew(due.map(([, { row }]) => row)) : []);
      for (const [id, { lost }] of due) if (!renewed.has(id) && this.#held.has(id)) lost.abort(new RowTaken());
    } catch (error) {
      this.#options.observe({ kind: 'backgroundError', what: 'renew leases', error });
    }
    // All were released meanwhile, which ended the timer; later ones have their own.
    if (this.#timer === timer) this.#schedule();
  }
}
