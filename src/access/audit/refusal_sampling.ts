// Sampling of refusals: a limited number in a minute is logged one by one, and only the number of the rest, so that nobody can fill the
// disk by being refused. See audit_log.ts, which writes the events.

export interface Refusal {
  /** The id of the user; absent for unauthenticated callers. */
  readonly id?: string | undefined;
  readonly name?: string | undefined;
  readonly address?: string | undefined;
  readonly outcome: string;
}

export interface RefusalSample extends Refusal {
  readonly count: number;
  /** End of the minute, in milliseconds since 1970. */
  readonly at: number;
}

const minuteMs = 60_000;
/** For all unauthenticated callers together. */
export const anonymousLoggedPerMinuteMax = 60;
const loggedPerUserPerMinuteMax = 1000;
/** A full warehouse refuses many requests, whoever sends them. */
const overloadCode = 'WAREHOUSE_BUSY';
const overloadLoggedPerUserPerMinuteMax = 1;
/** Refusals of further addresses are counted together. */
const addressesPerMinuteMax = 100;

export class RefusalSampler {
  #minute = 0;
  readonly #logged = new Map<string, number>();
  readonly #counts = new Map<string, { refusal: Refusal; count: number }>();
  #finished: RefusalSample[] = [];
  #addresses = 0;

  /** Returns true if the refusal is to be logged by itself; otherwise it is counted. */
  shouldLog(refusal: Refusal, now: number): boolean {
    this.#startMinute(now);
    const { id, name, address = '', outcome } = refusal;
    const isOverload = outcome === overloadCode;
    const key = id === undefined ? '' : `${isOverload ? 'overload' : 'user'} ${id}`;
    const logged = this.#logged.get(key) ?? 0;
    const userMax = isOverload ? overloadLoggedPerUserPerMinuteMax : loggedPerUserPerMinuteMax;
    if (logged < (id === undefined ? anonymousLoggedPerMinuteMax : userMax)) {
      this.#logged.set(key, logged + 1);
      return true;
    }
    const countKey = JSON.stringify([id ?? address, outcome]);
    const counted = this.#counts.get(countKey);
    if (counted) counted.count++;
    else if (id !== undefined) this.#counts.set(countKey, { refusal: { id, name, outcome }, count: 1 });
    else if (this.#addresses++ < addressesPerMinuteMax)
      this.#counts.set(countKey, { refusal: { address, outcome }, count: 1 });
    else this.#countOther(outcome);
    return false;
  }

  /** Returns and removes the counts of past minutes; `all`: of the current minute too. */
  take(now: number, all = false): RefusalSample[] {
    if (all) this.#finishMinute(now);
    else this.#startMinute(now);
    const finished = this.#finished;
    this.#finished = [];
    return finished;
  }

  #countOther(outcome: string): void {
    const key = JSON.stringify(['', outcome]);
    const known = this.#counts.get(key);
    if (known) known.count++;
    else this.#counts.set(key, { refusal: { outcome }, count: 1 });
  }

  #startMinute(now: number): void {
    const minute = Math.floor(now / minuteMs);
    if (minute === this.#minute) return;
    this.#finishMinute(now);
    this.#minute = minute;
  }

  #finishMinute(now: number): void {
    for (const { refusal, count } of this.#counts.values()) this.#finished.push({ ...refusal, count, at: now });
    this.#counts.clear();
    this.#logged.clear();
    this.#addresses = 0;
  }
}
