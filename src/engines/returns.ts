// When refused callers are expected back: Retry-After spreads them over the coming seconds, so that no more return in one second than
// the warehouse can serve, and their places in the queue are held for them.

/** How long one caller, as far as it is known (its connection), has been refused. */
export interface RefusedCaller {
  /** When its request was refused first; undefined: since then it was served, or it was never refused. */
  since: number | undefined;
  /** The second in which it is expected back. */
  due: number | undefined;
}

/** Longer than this nobody is sent away at once: the load may end at any time. */
const retryAfterSecondsMax = 10;
/** Of what is served in a second, the share that is promised to callers who were refused once: each costs a refusal, too; */
const promisedShare = 0.4;
/** and that may be filled up with those who were refused again, so that they return sooner. */
const promisedAgainShare = 0.7;
/** A caller that is later than this is no longer expected. */
const lateSecondsMax = 1;
/** About how many statements the moving average goes back. */
const averagedStatements = 200;

export class Returns {
  readonly #clock: () => number;
  /** How many are expected in each second. */
  readonly #due = new Map<number, number>();
  #expected = 0;
  #second: number;
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

  /** Returns after how many seconds the caller is to return. `slots`: how many statements run at once. */
  refuse(caller: RefusedCaller, slots: number): number {
    this.#turn();
    const share = caller.since === undefined ? promisedShare : promisedAgainShare;
    const most = Math.max(slots, ((slots * 1000) / this.#statementMs) * share);
    caller.since ??= this.#clock();
    let seconds = 1;
    while (seconds < retryAfterSecondsMax && this.#dueIn(seconds) >= most) seconds++;
    caller.due = this.#second + seconds;
    this.#due.set(caller.due, this.#dueIn(seconds) + 1);
    this.#expected++;
    return seconds;
  }

  arrived(caller: RefusedCaller): void {
    this.#turn();
    const { due } = caller;
    caller.due = undefined;
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
