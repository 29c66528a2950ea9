// Admission to a warehouse: how many statements run at a time, how many wait, and whose turn is next. Slots are shared fairly
// between principals: who has the fewest is next, and nobody has all of them. Full, or too slow, is 503 WAREHOUSE_BUSY; a caller
// that was refused and returns after its Retry-After has precedence over those that come for the first time.
import { Failure } from '../standard/failure.ts';
import { type RefusedCaller, RetryQueue } from './returns.ts';

export interface AdmissionLimits {
  readonly queriesMax: number;
  readonly queueMax: number;
  readonly queueWaitMs: number;
}

/** For whom a turn is wanted, and until when. */
export interface Turn {
  readonly principal: { readonly id: string };
  readonly signal: AbortSignal;
  /** Lives as long as the caller is known to be the same one; without it nobody is known to return. */
  readonly caller?: RefusedCaller | undefined;
}

interface Waiter {
  readonly principalId: string;
  readonly caller: RefusedCaller | undefined;
  readonly arrivedAt: number;
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
  readonly #clock: () => number;
  readonly #returns: RetryQueue;
  readonly #refusals = new Refusals();

  /** `clock`: milliseconds. */
  constructor(clock: () => number = () => performance.now()) {
    this.#clock = clock;
    this.#returns = new RetryQueue(clock);
  }

  get running(): number {
    return this.#running;
  }

  get queued(): number {
    return this.#queued;
  }

  /**
   * Throws WAREHOUSE_BUSY where `run` would do so now: to be called before any work is done for the statement. Reserves nothing.
   */
  requirePlace(limits: AdmissionLimits, { principal, caller }: Turn): void {
    const share = this.#shares.get(principal.id) ?? { running: 0, waiting: new Set() };
    if (caller) this.#returns.arrived(principal.id, caller);
    if (share.waiting.size === 0 && this.#hasRoom(share, limits)) return;
    if (this.#isFull(limits, caller) && !this.#displaced(share, caller))
      throw this.#refusal(limits, principal.id, caller);
  }

  /** Runs the work when its turn comes. `queuedMs` is how long it waited. Throws WAREHOUSE_BUSY, STATEMENT_CANCELLED. */
  async run<T>(limits: AdmissionLimits, turn: Turn, work: (queuedMs: number) => Promise<T>): Promise<T> {
    const principalId = turn.principal.id;
    const share = this.#shareOf(principalId);
    if (turn.caller) this.#returns.arrived(principalId, turn.caller);
    let queuedMs = 0;
    if (share.waiting.size === 0 && this.#hasRoom(share, limits)) this.#begin(principalId, share);
    else queuedMs = await this.#wait(limits, share, turn);
    if (turn.caller) turn.caller.since = undefined;
    const begunAt = this.#clock();
    try {
      return await work(queuedMs);
    } finally {
      this.#running--;
      share.running--;
      this.#returns.ended(this.#clock() - begunAt);
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

  async #wait(limits: AdmissionLimits, share: Share, { principal, signal, caller }: Turn): Promise<number> {
    const arrivedAt = this.#clock();
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const waiter: Waiter = { principalId: principal.id, caller, arrivedAt, admit: resolve, refuse: reject };
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
      return this.#clock() - arrivedAt;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', cancel);
      this.#leaveQueue(share, waiter);
      this.#forgetIfIdle(principal.id, share);
    }
  }

  #enqueue(limits: AdmissionLimits, share: Share, waiter: Waiter): void {
    if (this.#isFull(limits, waiter.caller)) {
      const displaced = this.#displaced(share, waiter.caller);
      if (!displaced) throw this.#refusal(limits, waiter.principalId, waiter.caller);
      this.#leaveQueue(displaced.share, displaced.waiter);
      displaced.waiter.refuse(this.#refusal(limits, displaced.waiter.principalId, displaced.waiter.caller));
    }
    share.waiting.add(waiter);
    this.#queued++;
  }

  /** While refused callers are expected back, half of the queue is held for them. */
  #isFull({ queueMax }: AdmissionLimits, caller: RefusedCaller | undefined): boolean {
    const isNew = caller?.since === undefined && this.#returns.expected > 0;
    return this.#queued >= (isNew ? Math.ceil(queueMax / 2) : queueMax);
  }

  /**
   * Who leaves a full queue for another: the newest of the principal with the longest queue, for one that has fewer waiting; else the
   * newest of a principal that has as many, for a caller that was refused before the other came.
   */
  #displaced(
    share: Share,
    caller: RefusedCaller | undefined,
  ): { readonly share: Share; readonly waiter: Waiter } | undefined {
    let most = Math.max(1, share.waiting.size);
    for (const { waiting } of this.#shares.values()) most = Math.max(most, waiting.size);
    const hasFewer = most > share.waiting.size + 1;
    // Most refusals end here, without a look at each waiter.
    if (!hasFewer && caller?.since === undefined) return undefined;
    let newest: { readonly share: Share; readonly waiter: Waiter } | undefined;
    for (const other of this.#shares.values()) {
      if (other.waiting.size < most) continue;
      for (const waiter of other.waiting)
        if (!newest || sinceOf(waiter) >= sinceOf(newest.waiter)) newest = { share: other, waiter };
    }
    if (!newest) return undefined;
    const wasBefore = caller?.since !== undefined && caller.since < sinceOf(newest.waiter);
    return hasFewer || wasBefore ? newest : undefined;
  }

  #refusal(limits: AdmissionLimits, principalId: string, caller: RefusedCaller | undefined): Failure {
    return this.#refusals.after(this.#returns.refuse(principalId, caller, limits.queriesMax), limits);
  }
}

/** Since when a waiter has wanted to be served. */
const sinceOf = ({ caller, arrivedAt }: Waiter): number => caller?.since ?? arrivedAt;

/** The refusals of a full warehouse, made once for each `Retry-After`: making an error costs more than deciding that it is needed. */
class Refusals {
  #limits: AdmissionLimits | undefined;
  readonly #failures = new Map<number, Failure>();

  after(retryAfterSeconds: number, limits: AdmissionLimits): Failure {
    const { queriesMax, queueMax } = limits;
    if (this.#limits?.queriesMax !== queriesMax || this.#limits.queueMax !== queueMax) {
      this.#limits = limits;
      this.#failures.clear();
    }
    let failure = this.#failures.get(retryAfterSeconds);
    if (!failure) {
      const message = `the warehouse is full (limits: ${queriesMax} running, ${queueMax} queued)`;
      failure = new Failure(
        'WAREHOUSE_BUSY',
        message,
        { queriesMax, queueMax },
        { retryAfterSeconds, outcome: 'notApplied' },
      );
      this.#failures.set(retryAfterSeconds, failure);
    }
    return failure;
  }
}
