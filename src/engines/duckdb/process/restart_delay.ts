// How long a warehouse waits before it starts an engine process again: longer after each death in a row, so that one that cannot
// serve does not keep the machine busy with starts.

const delaysMs = [0, 100, 500, 2_000, 10_000];
/** A death this long after the one before counts as the first. */
const quietMs = 30_000;

export class RestartDelay {
  readonly #now: () => number;
  #deaths = 0;
  #lastDeathAt = Number.NEGATIVE_INFINITY;

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** Of a start now. */
  get ms(): number {
    if (this.#deaths === 0 || this.#isQuiet) return 0;
    return delaysMs[Math.min(this.#deaths, delaysMs.length) - 1] as number;
  }

  died(): void {
    this.#deaths = this.#isQuiet ? 1 : this.#deaths + 1;
    this.#lastDeathAt = this.#now();
  }

  /** The warehouse stopped a process that was alive: the next start follows no death. */
  stopped(): void {
    this.#deaths = 0;
  }

  get #isQuiet(): boolean {
    return this.#now() - this.#lastDeathAt > quietMs;
  }
}
