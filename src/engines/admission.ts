// Admission control of a warehouse: limits how many statements run and wait, and decides which one runs next. Slots are shared
// fairly between principals, and between a principal's requests and its tasks: the one with the fewest running statements is next,
// none gets all slots, and one that has none running need not wait for the statements of others. A full queue or an expired wait is
// 503 WAREHOUSE_BUSY; a caller that was refused and returns after its Retry-After has precedence over new callers.
import { Failure } from '../standard/failure.ts';
import { type RefusedCaller, RetryQueue } from './retry_queue.ts';

export interface AdmissionLimits {
  readonly queriesMax: number;
  /**
   * How many statements a principal runs at once, its tasks included, while other principals are active: more would only make the
   * others' statements wait for a processor. Absent: no limit.
   */
  readonly sharedMax?: number;
  readonly queueMax: number;
  readonly queueWaitMs: number;
}

/** A request for admission: the principal and the signal that cancels the wait. */
export interface AdmissionRequest {
  readonly principal: { readonly id: string };
  readonly signal: AbortSignal;
  /** A statement of a task: the tasks of a principal share slots as another principal would, so that its requests need not wait. */
  readonly isTask?: boolean;
  /**
   * State of the caller's connection, by which a caller that returns after a refusal is recognized; absent: returning callers are
   * not recognized.
   */
  readonly caller?: RefusedCaller | undefined;
}

interface Waiter {
  readonly share: Share;
  readonly caller: RefusedCaller | undefined;
  readonly arrivedAt: number;
  /** `beganAt`: the time at which its slot was given. */
  readonly admit: (beganAt: number) => void;
  readonly refuse: (reason: unknown) => void;
}

/** The statements of one sharer in this warehouse: of the requests of a principal, or of its tasks. Removed with its last statement. */
interface Share {
  readonly sharer: string;
  readonly principalId: string;
  running: number;
  /** In order of arrival. */
  readonly waiting: Set<Waiter>;
}

/** How many sharers that have no statement running are admitted beyond `queriesMax`. */
const overcommitMax = 8;
/** How long a principal counts as active after it sent a statement. */
const activeMs = 10_000;
const recheckMs = 1000;
/** How many callers may wait because they returned early; further ones are refused at once. */
const heldMax = 10_000;

export class Admission {
  #running = 0;
  #queued = 0;
  /** By sharer. Ordered by when they were last served: on a tie, the least recently served one is next. */
  readonly #shares = new Map<string, Share>();
  /** Refuses the callers that returned early and wait. */
  readonly #held = new Set<(reason: Failure) => void>();
  readonly #clock: () => number;
  readonly #retryQueue: RetryQueue;
  readonly #refusals = new Refusals();
  readonly #recent = new RecentPrincipals();
  #recheck: NodeJS.Timeout | undefined;

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
  requireQueueCapacity(limits: AdmissionLimits, request: AdmissionRequest): Promise<void> | undefined {
    const waitMs = (request.caller?.retryAtMs ?? 0) - this.#clock();
    if (waitMs <= 0 || this.#held.size >= heldMax) {
      this.#requirePlace(limits, request);
      return undefined;
    }
    try {
      this.#requirePlace(limits, request);
      return undefined;
    } catch {
      return this.#hold(waitMs, request.signal).then(() => this.#requirePlace(limits, request));
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

  #requirePlace(limits: AdmissionLimits, request: AdmissionRequest): void {
    const { caller } = request;
    const share = this.#shares.get(sharerOf(request)) ?? newShare(request);
    if (caller) this.#retryQueue.arrived(share.sharer, caller);
    if (share.waiting.size === 0 && this.#hasRoom(share, limits)) return;
    if (this.#isFull(limits, caller) && !this.#displaced(share, caller))
      throw this.#refusal(limits, share.sharer, caller);
  }

  /** Runs the work once it is admitted; `queuedMs` is the time it waited. Throws WAREHOUSE_BUSY, STATEMENT_CANCELLED. */
  async run<T>(limits: AdmissionLimits, request: AdmissionRequest, work: (queuedMs: number) => Promise<T>): Promise<T> {
    const arrivedAt = this.#clock();
    const share = this.#shareOf(request);
    this.#recent.arrived(share.principalId, arrivedAt);
    if (request.caller) this.#retryQueue.arrived(share.sharer, request.caller);
    const canBegin = share.waiting.size === 0 && this.#hasRoom(share, limits);
    const beganAt = canBegin ? this.#begin(share) : await this.#wait(limits, share, request, arrivedAt);
    if (request.caller) request.caller.since = undefined;
    try {
      return await work(canBegin ? 0 : beganAt - arrivedAt);
    } finally {
      this.#running--;
      share.running--;
      this.#retryQueue.ended(this.#clock() - beganAt);
      this.#forgetIfIdle(share);
      this.#admitNext(limits);
    }
  }

  /** Refuses every waiting statement, because the warehouse is suspended or deleted. */
  refuseAll(reason: Failure): void {
    for (const share of this.#shares.values()) for (const waiter of share.waiting) waiter.refuse(reason);
    for (const refuse of this.#held) refuse(reason);
  }

  #shareOf(request: AdmissionRequest): Share {
    const sharer = sharerOf(request);
    let share = this.#shares.get(sharer);
    if (!share) {
      share = newShare(request);
      this.#shares.set(sharer, share);
    }
    return share;
  }

  #forgetIfIdle(share: Share): void {
    if (share.running === 0 && share.waiting.size === 0 && this.#shares.get(share.sharer) === share)
      this.#shares.delete(share.sharer);
  }

  /**
   * No sharer gets all slots; when all are taken, sharers that have no statement running get one each. While other principals are
   * active, all statements of one share a few slots.
   */
  #hasRoom(share: Share, { queriesMax, sharedMax = Number.POSITIVE_INFINITY }: AdmissionLimits): boolean {
    if (this.#running >= queriesMax)
      return share.running === 0 && this.#running < queriesMax + Math.min(queriesMax, overcommitMax);
    if (share.running >= Math.max(1, queriesMax - 1)) return false;
    return share.running === 0 || this.#runningOf(share.principalId) < sharedMax || this.#isAlone(share.principalId);
  }

  #runningOf(principalId: string): number {
    return sharersOf(principalId).reduce((sum, sharer) => sum + (this.#shares.get(sharer)?.running ?? 0), 0);
  }

  /** Whether no other principal has, or recently had, statements. */
  #isAlone(principalId: string): boolean {
    for (const other of this.#shares.values()) if (other.principalId !== principalId) return false;
    return this.#recent.lastOfOthers(principalId) < this.#clock() - activeMs;
  }

  /** The time at which the statement begins. */
  #begin(share: Share): number {
    this.#running++;
    share.running++;
    this.#shares.delete(share.sharer);
    this.#shares.set(share.sharer, share);
    return this.#clock();
  }

  /** Gives free slots to the waiting sharers with the fewest running statements. */
  #admitNext(limits: AdmissionLimits): void {
    for (;;) {
      let next: Share | undefined;
      for (const share of this.#shares.values()) {
        if (share.waiting.size === 0 || (next && share.running >= next.running)) continue;
        if (this.#hasRoom(share, limits)) next = share;
      }
      const [waiter] = next?.waiting ?? [];
      if (!next || !waiter) break;
      this.#leaveQueue(next, waiter);
      // Counted before the waiter runs, so that the slot is not given twice.
      waiter.admit(this.#begin(next));
    }
    this.#recheckLater(limits);
  }

  #leaveQueue(share: Share, waiter: Waiter): void {
    if (share.waiting.delete(waiter)) this.#queued--;
  }

  async #wait(limits: AdmissionLimits, share: Share, request: AdmissionRequest, arrivedAt: number): Promise<number> {
    const { signal, caller, isTask } = request;
    const { promise, resolve, reject } = Promise.withResolvers<number>();
    const waiter: Waiter = { share, caller, arrivedAt, admit: resolve, refuse: reject };
    const cancel = () => reject(new Failure('STATEMENT_CANCELLED', 'the statement was cancelled in the queue'));
    const giveUp = () => {
      const message = `timed out after ${limits.queueWaitMs} ms in the queue of the warehouse`;
      reject(new Failure('WAREHOUSE_BUSY', message));
    };
    // A task waits as long as its own time limit allows.
    const timer = isTask ? undefined : setTimeout(giveUp, limits.queueWaitMs);
    signal.addEventListener('abort', cancel, { once: true });
    try {
      if (signal.aborted) cancel();
      else this.#enqueue(limits, share, waiter);
      this.#recheckLater(limits);
      return await promise;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', cancel);
      this.#leaveQueue(share, waiter);
      this.#forgetIfIdle(share);
    }
  }

  /**
   * A sharer that waits because of its other statements is admitted when it is alone again, which causes no event. Call it whenever
   * statements wait although slots are free.
   */
  #recheckLater(limits: AdmissionLimits): void {
    if (this.#queued === 0 || this.#running >= limits.queriesMax) return;
    this.#recheck ??= setTimeout(() => {
      this.#recheck = undefined;
      this.#admitNext(limits);
    }, recheckMs).unref();
  }

  #enqueue(limits: AdmissionLimits, share: Share, waiter: Waiter): void {
    if (this.#isFull(limits, waiter.caller)) {
      const displaced = this.#displaced(share, waiter.caller);
      if (!displaced) throw this.#refusal(limits, waiter.share.sharer, waiter.caller);
      this.#leaveQueue(displaced.share, displaced.waiter);
      displaced.waiter.refuse(this.#refusal(limits, displaced.waiter.share.sharer, displaced.waiter.caller));
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
   * The waiter that a new one displaces from a full queue: the newest of the sharer with the longest queue, if the new one's
   * sharer has fewer waiting; otherwise the newest of a sharer that has as many, if the caller was refused before that waiter
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

  #refusal(limits: AdmissionLimits, sharer: string, caller: RefusedCaller | undefined): Failure {
    return this.#refusals.after(this.#retryQueue.refuse(sharer, caller, limits.queriesMax), limits);
  }
}

/** Who gets a share of the slots. */
const sharerOf = ({ principal, isTask }: AdmissionRequest): string => (isTask ? tasksOf(principal.id) : principal.id);
const tasksOf = (principalId: string) => `${principalId} tasks`;
const sharersOf = (principalId: string) => [principalId, tasksOf(principalId)];

const newShare = (request: AdmissionRequest): Share => ({
  sharer: sharerOf(request),
  principalId: request.principal.id,
  running: 0,
  waiting: new Set(),
});

/** When each principal last sent a statement: of the last one, and of the last one that is another. */
class RecentPrincipals {
  #last: { readonly id: string; at: number } = { id: '', at: Number.NEGATIVE_INFINITY };
  #other = this.#last;

  arrived(id: string, at: number): void {
    if (this.#last.id === id) this.#last.at = at;
    else [this.#other, this.#last] = [this.#last, { id, at }];
  }

  lastOfOthers(id: string): number {
    return (this.#last.id === id ? this.#other : this.#last).at;
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
