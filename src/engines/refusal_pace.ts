// When those who were refused are told to come back: spread over time, and so that refusing takes a small part of what the work that is
// admitted takes. Knows no queue.

/** Refusals come back at no more than this part of the rate at which work ends. */
const partOfWork = 0.5;
export const retryAfterSecondsMax = 5;

export interface PaceOptions {
  /** Milliseconds from anywhere; never set back. */
  readonly clock?: () => number;
  /** From 0 to 1. */
  readonly random?: () => number;
}

export class RefusalPace {
  readonly #clock: () => number;
  readonly #random: () => number;
  /** By second: how many were told to come back then. */
  readonly #due = new Map<number, number>();
  #second = 0;
  #endedNow = 0;
  #endedBefore = 0;

  constructor({ clock = () => performance.now(), random = Math.random }: PaceOptions = {}) {
    this.#clock = clock;
    this.#random = random;
  }

  /** A piece of work that was admitted has ended. */
  ended(): void {
    this.#advance();
    this.#endedNow++;
  }

  /** For one who is refused now: whole seconds, at least 1. */
  retryAfterSeconds(): number {
    this.#advance();
    let waiting = 1;
    for (const count of this.#due.values()) waiting += count;
    const perSecond = Math.max(this.#endedNow, this.#endedBefore, 1);
    // From half the mean to one and a half of it, so that they do not come back together.
    const seconds = (waiting / (perSecond * partOfWork)) * (0.5 + this.#random());
    const whole = Math.min(retryAfterSecondsMax, Math.max(1, Math.round(seconds)));
    const at = this.#second + whole;
    this.#due.set(at, (this.#due.get(at) ?? 0) + 1);
    return whole;
  }

  #advance(): void {
    const second = Math.floor(this.#clock() / 1000);
    if (second === this.#second) return;
    this.#endedBefore = second === this.#second + 1 ? this.#endedNow : 0;
    this.#endedNow = 0;
    this.#second = second;
    for (const at of this.#due.keys()) if (at <= second) this.#due.delete(at);
  }
}
