// Admission to a warehouse: how many statements run at a time, how many wait, and whose turn is next. Slots are shared fairly
// between principals: who has the fewest is next, and nobody has all of them. Full, or too slow, is 503 WAREHOUSE_BUSY.
import { Failure } from '../standard/failure.ts';

export interface AdmissionLimits {
  readonly queriesMax: number;
  readonly queueMax: number;
  readonly queueWaitMs: number;
}

/** For whom a turn is wanted, and until when. */
export interface Turn {
  readonly principal: { readonly id: string };
  readonly signal: AbortSignal;
}

interface Waiter {
  readonly admit: () => void;
  readonly refuse: (reason: unknown) => void;
}

/** One principal's statements in this warehouse; exists while it has any. */
interface Share {
  running: number;
  /** In order of arrival. */
  readonly waiting: Set<Waiter>;
}

export class Admission {
  #running = 0;
  #queued = 0;
  /** In the order in which principals were last served: among equals, the one served longest ago is next. */
  readonly #shares = new Map<string, Share>();

  get running(): number {
    return this.#running;
  }

  get queued(): number {
    return this.#queued;
  }

  /** Runs the work when its turn comes. `queuedMs` is how long it waited. Throws WAREHOUSE_BUSY, STATEMENT_CANCELLED. */
  async run<T>(
    limits: AdmissionLimits,
    { principal, signal }: Turn,
    work: (queuedMs: number) => Promise<T>,
  ): Promise<T> {
    const principalId = principal.id;
    const share = this.#shareOf(principalId);
    let queuedMs = 0;
    if (share.waiting.size === 0 && this.#hasRoom(share, limits)) this.#begin(principalId, share);
    else queuedMs = await this.#wait(limits, principalId, share, signal);
    try {
      return await work(queuedMs);
    } finally {
      this.#running--;
      share.running--;
      this.#forgetIfIdle(principalId, share);
      this.#admitNext(limits);
    }
  }

  /** Ends every wait, because the warehouse goes away. */
  refuseAll(reason: Failure): void {
    for (const share of this.#shares.values()) for (const waiter of share.waiting) waiter.refuse(reason);
  }

  #shareOf(principalId: string): Share {
    let share = this.#shares.get(principalId);
    if (!share) {
      share = { running: 0, waiting: new Set() };
      this.#shares.set(principalId, share);
    }
    return share;
  }

  #forgetIfIdle(principalId: string, share: Share): void {
    if (share.running === 0 && share.waiting.size === 0 && this.#shares.get(principalId) === share)
      this.#shares.delete(principalId);
  }

  /** One principal never has all slots: another one need not wait for a long statement of it to end. */
  #hasRoom(share: Share, { queriesMax }: AdmissionLimits): boolean {
    return this.#running < queriesMax && share.running < Math.max(1, queriesMax - 1);
  }

  #begin(principalId: string, share: Share): void {
    this.#running++;
    share.running++;
    this.#shares.delete(principalId);
    this.#shares.set(principalId, share);
  }

  /** Gives free slots to the waiting principals that have the fewest. */
  #admitNext(limits: AdmissionLimits): void {
    for (;;) {
      let next: { readonly principalId: string; readonly share: Share } | undefined;
      for (const [principalId, share] of this.#shares) {
        if (share.waiting.size > 0 && (!next || share.running < next.share.running)) next = { principalId, share };
      }
      if (!next || !this.#hasRoom(next.share, limits)) return;
      const [waiter] = next.share.waiting as unknown as [Waiter];
      this.#leaveQueue(next.share, waiter);
      // Counted from here on, so that the slot is not given twice before the waiter runs.
      this.#begin(next.principalId, next.share);
      waiter.admit();
    }
  }

  #leaveQueue(share: Share, waiter: Waiter): void {
    if (share.waiting.delete(waiter)) this.#queued--;
  }

  async #wait(limits: AdmissionLimits, principalId: string, share: Share, signal: AbortSignal): Promise<number> {
    const since = performance.now();
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const waiter: Waiter = { admit: resolve, refuse: reject };
    const cancel = () => reject(new Failure('STATEMENT_CANCELLED', 'the statement was cancelled in the queue'));
    const giveUp = () => {
      const message = `timed out after ${limits.queueWaitMs} ms in the queue of the warehouse`;
      reject(new Failure('WAREHOUSE_BUSY', message));
    };
    const timer = setTimeout(giveUp, limits.queueWaitMs);
    signal.addEventListener('abort', cancel, { once: true });
    try {
      if (signal.aborted) cancel();
      else this.#enqueue(limits, share, waiter);
      await promise;
      return performance.now() - since;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', cancel);
      this.#leaveQueue(share, waiter);
      this.#forgetIfIdle(principalId, share);
    }
  }

  /** A full queue makes room for a principal that has fewer waiting than another: the latest of the longest queue is refused. */
  #enqueue(limits: AdmissionLimits, share: Share, waiter: Waiter): void {
    if (this.#queued >= limits.queueMax) {
      let longest = share;
      for (const other of this.#shares.values()) if (other.waiting.size > longest.waiting.size) longest = other;
      const latest = [...longest.waiting].at(-1);
      if (!latest || longest.waiting.size <= share.waiting.size + 1) throw this.#full(limits);
      this.#leaveQueue(longest, latest);
      latest.refuse(this.#full(limits));
    }
    share.waiting.add(waiter);
    this.#queued++;
  }

  #full({ queriesMax, queueMax }: AdmissionLimits): Failure {
    const counts = `${this.#running} running (limit ${queriesMax}), ${this.#queued} queued (limit ${queueMax})`;
    return new Failure('WAREHOUSE_BUSY', `the warehouse is full: ${counts}`, { queriesMax, queueMax });
  }
}
