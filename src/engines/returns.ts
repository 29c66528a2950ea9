// When refused callers are expected back: Retry-After spreads them over the coming seconds, so that no more return in one second than
// the warehouse can serve, and their places in the queue are held for them.

/** How long the caller on a connection has been refused. */
export interface RefusedCaller {
  /** When its request was refused first; undefined: since then it was served, or it was never refused. */
  since: number | undefined;
  /** The second in which it is expected back. */
  due: number | undefined;
  /** To be called when the connection closes: the caller can then return on another one. */
  disconnected?: (() => void) | undefined;
}

/** Longer than this nobody is sent away at once: the load may end at any time. */
const retryAfterSecondsMax = 10;
/** Of what is served in a second, the share that is promised to callers who were refused once: each costs a refusal, too; */
const promisedShare = 0.4;
/** and that may be filled up with those who were refused again, so that they return sooner. */
const promisedAgainShare = 0.7;
/** A caller that is later than this is no longer expected. */
const lateSecondsMax = 1;
/** How long after its time a caller whose connection closed can return on a new one. */
const newConnectionSecondsMax = 10;
/** No more of them are remembered. */
const disconnectedMax = 10_000;
/** About how many statements the moving average goes back. */
const averagedStatements = 200;

export class RetryQueue {
  readonly #clock: () => number;
  /** How many are expected in each second. */
  readonly #due = new Map<number, number>();
  #expected = 0;
  #second: number;
  readonly #disconnected = new DisconnectedCallers();
  /** How long statements ran lately: a moving average. With all slots taken, it says how many end in a second. */
  #statementMs = 0;

  /** `clock`: milliseconds. */
  constructor(clock: () => number) {
    this.#clock = clock;
    this.#second = this.#now();
  }

  /** How many callers are expected back. */
  get expected(): number {
    this.#turn();
    return this.#expected;
  }

  /** A statement ran so long. */
  ended(ms: number): void {
    this.#statementMs += (ms - this.#statementMs) / averagedStatements;
  }

  /**
   * Returns after how many seconds the caller is to return. `slots`: how many statements run at once. Without a caller nobody is
   * recognized when the request is repeated.
   */
  refuse(principalId: string, caller: RefusedCaller | undefined, slots: number): number {
    this.#turn();
    const share = caller?.since === undefined ? promisedShare : promisedAgainShare;
    const most = Math.max(slots, ((slots * 1000) / this.#statementMs) * share);
    let seconds = 1;
    while (seconds < retryAfterSecondsMax && this.#dueIn(seconds) >= most) seconds++;
    const due = this.#second + seconds;
    this.#due.set(due, this.#dueIn(seconds) + 1);
    this.#expected++;
    if (caller) {
      caller.since ??= this.#clock();
      caller.due = due;
      caller.disconnected = () => this.#disconnected.add(principalId, caller, this.#now());
    }
    return seconds;
  }

  /** A connection of which nothing is known may be that of a caller who was refused on one that is closed now. */
  arrived(principalId: string, caller: RefusedCaller): void {
    this.#turn();
    if (caller.since === undefined) this.#disconnected.resume(principalId, caller, this.#second);
    const { due } = caller;
    caller.due = undefined;
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

  #turn(): void {
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

/** Refused callers whose connection is closed, by principal: what they were promised holds for the next one of the same principal. */
class DisconnectedCallers {
  /** Of a principal: in the order in which they are due. */
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
    const at = own.findLastIndex((other) => (other.due as number) <= due);
    own.splice(at + 1, 0, { since, due });
  }

  /** Gives a new connection the place of the first of the principal's callers whose time to return has come. */
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
