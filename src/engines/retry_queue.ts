// Schedules the return of refused callers: Retry-After spreads them over the coming seconds, so that no more return in one second
// than the warehouse can serve, and queue places are reserved for them.

/** State of a refused caller on one connection. */
export interface RefusedCaller {
  /** When its request was first refused; undefined if it was never refused or was served since. */
  since: number | undefined;
  /** The second in which it is expected back. */
  due: number | undefined;
  /** The queue that expects it back in that second. */
  queue?: RetryQueue | undefined;
  /** When its last Retry-After ends, in milliseconds of the queue's clock. */
  retryAtMs?: number | undefined;
  /** Call when the connection closes: the caller can then return on another one. */
  disconnected?: (() => void) | undefined;
}

/** Upper limit of Retry-After: the load may end at any time. */
const retryAfterSecondsMax = 10;
/** The share of each second's capacity that is promised to callers refused once; the rest pays for refusals, which cost time too. */
const promisedShare = 0.4;
/** The share up to which a second is filled with callers refused repeatedly, so that they return sooner. */
const promisedAgainShare = 0.7;
/** A caller that is later than this is no longer expected. */
const lateSecondsMax = 1;
/** How long after its due time a caller whose connection closed can return on a new one. */
const newConnectionSecondsMax = 10;
/** Limit of the remembered callers with closed connections. */
const disconnectedMax = 10_000;
/** The approximate number of statements in the moving average. */
const averagedStatements = 200;

export class RetryQueue {
  readonly #clock: () => number;
  /** How many callers are expected in each second. */
  readonly #due = new Map<number, number>();
  #expected = 0;
  #second: number;
  readonly #disconnected = new DisconnectedCallers();
  /** Moving average of the duration of statements. With all slots taken, it determines how many end in a second. */
  #statementMs = 0;

  /** `clock`: milliseconds. */
  constructor(clock: () => number) {
    this.#clock = clock;
    this.#second = this.#now();
  }

  /** How many callers are expected back. */
  get expected(): number {
    this.#advance();
    return this.#expected;
  }

  /** Records the duration of a statement. */
  ended(ms: number): void {
    this.#statementMs += (ms - this.#statementMs) / averagedStatements;
  }

  /**
   * Returns the Retry-After in seconds. `slots`: how many statements run at once. Without a caller, a repeated request is not
   * recognized.
   */
  refuse(principalId: string, caller: RefusedCaller | undefined, slots: number): number {
    this.#advance();
    const share = caller?.since === undefined ? promisedShare : promisedAgainShare;
    const dueMax = Math.max(slots, ((slots * 1000) / this.#statementMs) * share);
    let seconds = 1;
    while (seconds < retryAfterSecondsMax && this.#dueIn(seconds) >= dueMax) seconds++;
    const due = this.#second + seconds;
    this.#due.set(due, this.#dueIn(seconds) + 1);
    this.#expected++;
    if (caller) {
      caller.since ??= this.#clock();
      caller.due = due;
      caller.queue = this;
      caller.retryAtMs = this.#clock() + seconds * 1000;
      caller.disconnected = () => this.#disconnected.add(principalId, caller, this.#now());
    }
    return seconds;
  }

  /** Call for each request. A connection without state may belong to a caller that was refused on a connection closed since. */
  arrived(principalId: string, caller: RefusedCaller): void {
    this.#advance();
    if (caller.since === undefined) this.#disconnected.resume(principalId, caller, this.#second);
    // Another queue of the server expects it back.
    if (caller.queue !== undefined && caller.queue !== this) return;
    const { due } = caller;
    caller.due = undefined;
    caller.queue = undefined;
    caller.disconnected = undefined;
    const count = due === undefined ? undefined : this.#due.get(due);
    if (due === undefined || count === undefined) return;
    this.#due.set(due, count - 1);
    this.#expected--;
  }

  #dueIn(seconds: number): number {
    return this.#due.get(this.#second + seconds) ?? 0;
  }

  #now(): number {
    return Math.floor(this.#clock() / 1000);
  }

  #advance(): void {
    const second = this.#now();
    if (second === this.#second) return;
    this.#second = second;
    for (const [due, count] of this.#due) {
      if (due >= second - lateSecondsMax) continue;
      this.#due.delete(due);
      this.#expected -= count;
    }
  }
}

/** Refused callers whose connection is closed, by principal: their promised places pass to the next connection of the same principal. */
class DisconnectedCallers {
  /** The callers of each principal, ordered by due time. */
  readonly #callers = new Map<string, RefusedCaller[]>();
  #count = 0;

  add(principalId: string, caller: RefusedCaller, second: number): void {
    if (caller.since === undefined || caller.due === undefined) return;
    if (this.#count >= disconnectedMax) this.#removeLate(second);
    if (this.#count >= disconnectedMax) return;
    const { since, due } = caller;
    const own = this.#callers.get(principalId);
    this.#count++;
    if (!own) {
      this.#callers.set(principalId, [{ since, due }]);
      return;
    }
    const index = own.findLastIndex((other) => (other.due as number) <= due);
    own.splice(index + 1, 0, { since, due });
  }

  /** Gives a new connection the place of the first of the principal's callers whose due time has come. */
  resume(principalId: string, caller: RefusedCaller, second: number): void {
    const own = this.#callers.get(principalId);
    if (!own) return;
    this.#removeLateOf(principalId, own, second);
    const [first] = own;
    if (!first || (first.due as number) > second) return;
    caller.since = first.since;
    caller.due = first.due;
    this.#remove(principalId, own, 1);
  }

  #removeLate(second: number): void {
    for (const [principalId, own] of this.#callers) this.#removeLateOf(principalId, own, second);
  }

  #removeLateOf(principalId: string, own: RefusedCaller[], second: number): void {
    const first = own.findIndex(({ due }) => (due as number) >= second - newConnectionSecondsMax);
    this.#remove(principalId, own, first < 0 ? own.length : first);
  }

  #remove(principalId: string, own: RefusedCaller[], count: number): void {
    own.splice(0, count);
    this.#count -= count;
    if (own.length === 0) this.#callers.delete(principalId);
  }
}
