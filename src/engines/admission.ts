// Admission control of a warehouse: limits how many statements run and wait, and decides which one runs next. Slots are shared
// fairly between principals: the principal with the fewest running statements is next, and none gets all slots. A full queue or an
// expired wait is 503 WAREHOUSE_BUSY; a caller that was refused and returns after its Retry-After has precedence over new callers.
import { Failure } from '../standard/failure.ts';
import { type RefusedCaller, RetryQueue } from './retry_queue.ts';

export interface AdmissionLimits {
  readonly queriesMax: number;
  readonly queueMax: number;
  readonly queueWaitMs: number;
}

/** A request for admission: the principal and the signal that cancels the wait. */
export interface AdmissionRequest {
  readonly principal: { readonly id: string };
  readonly signal: AbortSignal;
  /**
   * State of the caller's connection, by which a caller that returns after a refusal is recognized; absent: returning callers are
   * not recognized.
   */
  readonly caller?: RefusedCaller | undefined;
}

interface Waiter {
  readonly principalId: string;
  readonly caller: RefusedCaller | undefined;
  readonly arrivedAt: number;
  readonly admit: () => void;
  readonly refuse: (reason: unknown) => void;
}

/** The statements of one principal in this warehouse; exists while it has any. */
interface Share {
  running: number;
  /** In order of arrival. */
  readonly waiting: Set<Waiter>;
}

/** How many callers may wait because they returned early; further ones are refused at once. */
const heldMax = 10_000;

export class Admission {
  #running = 0;
  #queued = 0;
  /** Ordered by when principals were last served: on a tie, the least recently served one is next. */
  readonly #shares = new Map<string, Share>();
  /** Refuses the callers that returned early and wait. */
  readonly #held = new Set<(reason: Failure) => void>();
  readonly #clock: () => number;
  readonly #retryQueue: RetryQueue;
  readonly #refusals = new Refusals();

  /** `clock`: milliseconds. */
  constructor(clock: () => number = () => performance.now()) {
    this.#clock = clock;
    this.#retryQueue = new RetryQueue(clock);
  }

  get running(): number {
    return this.#running;
  }

  get queued(): number {
    return this.#queued;
  }

  /**
   * Throws WAREHOUSE_BUSY if `run` would do so now. Call it before any work is done for the statement. Reserves nothing. A caller that
   * returns before its Retry-After and finds no place waits for the rest of it and is tried once more: callers that ignore Retry-After
   * cannot fill the event loop with refusals.
   */
  requireQueueCapacity(limits: AdmissionLimits, turn: AdmissionRequest): Promise<void> | undefined {
    const waitMs = (turn.caller?.retryAtMs ?? 0) - this.#clock();
    if (waitMs <= 0 || this.#held.size >= heldMax) {
      this.#checkPlace(limits, turn);
      return undefined;
    }
    try {
      this.#checkPlace(limits, turn);
      return undefined;
    } catch {
      return this.#hold(waitMs, turn.signal).then(() => this.#checkPlace(limits, turn));
    }
  }

  async #hold(ms: number, signal: AbortSignal): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const cancel = () => reject(new Failure('STATEMENT_CANCELLED', 'the caller has disconnected'));
    const timer = setTimeout(resolve, ms);
    this.#held.add(reject);
    signal.addEventListener('abort', cancel, { once: true });
    try {
      if (signal.aborted) cancel();
      await promise;
    } finally {
      clearTimeout(timer);
      this.#held.delete(reject);
      signal.removeEventListener('abort', cancel);
    }
  }

  #checkPlace(limits: AdmissionLimits, { principal, caller }: AdmissionRequest): void {
    const share = this.#shares.get(principal.id) ?? { running: 0, waiting: new Set() };
    if (caller) this.#retryQueue.arrived(principal.id, caller);
    if (share.waiting.size === 0 && this.#hasRoom(share, limits)) return;
    if (this.#isFull(limits, caller) && !this.#displaced(share, caller))
      throw this.#refusal(limits, principal.id, caller);
  }

  /** Runs the work once it is admitted; `queuedMs` is the time it waited. Throws WAREHOUSE_BUSY, STATEMENT_CANCELLED. */
  async run<T>(limits: AdmissionLimits, turn: AdmissionRequest, work: (queuedMs: number) => Promise<T>): Promise<T> {
    const principalId = turn.principal.id;
    const share = this.#shareOf(principalId);
    if (turn.caller) this.#retryQueue.arrived(principalId, turn.caller);
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
      this.#retryQueue.ended(this.#clock() - begunAt);
      this.#forgetIfIdle(principalId, share);
      this.#admitNext(limits);
    }
  }

  /** Refuses every waiting statement, because the warehouse is suspended or deleted. */
  refuseAll(reason: Failure): void {
    for (const share of this.#shares.values()) for (const waiter of share.waiting) waiter.refuse(reason);
    for (const refuse of this.#held) refuse(reason);
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

  /** One principal never gets all slots, so that others need not wait until one of its long statements ends. */
  #hasRoom(share: Share, { queriesMax }: AdmissionLimits): boolean {
    return this.#running < queriesMax && share.running < Math.max(1, queriesMax - 1);
  }

  #begin(principalId: string, share: Share): void {
    this.#running++;
    share.running++;
    this.#shares.delete(principalId);
    this.#shares.set(principalId, share);
  }

  /** Gives free slots to the waiting principals with the fewest running statements. */
  #admitNext(limits: AdmissionLimits): void {
    for (;;) {
      let next: { readonly principalId: string; readonly share: Share } | undefined;
      for (const [principalId, share] of this.#shares) {
        if (share.waiting.size > 0 && (!next || share.running < next.share.running)) next = { principalId, share };
      }
      if (!next || !this.#hasRoom(next.share, limits)) return;
      const [waiter] = next.share.waiting as unknown as [Waiter];
      this.#leaveQueue(next.share, waiter);
      // Counted before the waiter runs, so that the slot is not given twice.
      this.#begin(next.principalId, next.share);
      waiter.admit();
    }
  }

  #leaveQueue(share: Share, waiter: Waiter): void {
    if (share.waiting.delete(waiter)) this.#queued--;
  }

  async #wait(limits: AdmissionLimits, share: Share, { principal, signal, caller }: AdmissionRequest): Promise<number> {
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

  /** While refused callers are expected back, half of the queue is reserved for them. */
  #isFull({ queueMax }: AdmissionLimits, caller: RefusedCaller | undefined): boolean {
    const isNew = caller?.since === undefined && this.#retryQueue.expected > 0;
    return this.#queued >= (isNew ? Math.ceil(queueMax / 2) : queueMax);
  }

  /**
   * The waiter that a new one displaces from a full queue: the newest of the principal with the longest queue, if the new one's
   * principal has fewer waiting; otherwise the newest of a principal that has as many, if the caller was refused before that waiter
   * arrived.
   */
  #displaced(
    share: Share,
    caller: RefusedCaller | undefined,
  ): { readonly share: Share; readonly waiter: Waiter } | undefined {
    let most = Math.max(1, share.waiting.size);
    for (const { waiting } of this.#shares.values()) most = Math.max(most, waiting.size);
    const hasFewer = most > share.waiting.size + 1;
    // Most refusals end here, without scanning all waiters.
    if (!hasFewer && caller?.since === undefined) return undefined;
    let newest: { readonly share: Share; readonly waiter: Waiter } | undefined;
    for (const other of this.#shares.values()) {
      if (other.waiting.size < most) continue;
      for (const waiter of other.waiting)
        if (!newest || sinceOf(waiter) >= sinceOf(newest.waiter)) newest = { share: other, waiter };
    }
    if (!newest) return undefined;
    const wasRefusedEarlier = caller?.since !== undefined && caller.since < sinceOf(newest.waiter);
    return hasFewer || wasRefusedEarlier ? newest : undefined;
  }

  #refusal(limits: AdmissionLimits, principalId: string, caller: RefusedCaller | undefined): Failure {
    return this.#refusals.after(this.#retryQueue.refuse(principalId, caller, limits.queriesMax), limits);
  }
}

/** The time of the waiter's first attempt to be served. */
const sinceOf = ({ caller, arrivedAt }: Waiter): number => caller?.since ?? arrivedAt;

/** The failures of a full warehouse, cached by `Retry-After`: creating an error costs more than deciding that one is needed. */
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
