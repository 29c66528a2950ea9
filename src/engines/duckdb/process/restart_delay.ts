// Backoff before an engine process is started again: longer after each consecutive death, so that a process that cannot serve does
// not keep the machine busy with restarts.

const delaysMs = [0, 100, 500, 2_000, 10_000];
/** A death this long after the previous one counts as the first. */
const quietMs = 30_000;

export class RestartDelay {
  readonly #now: () => number;
  #deaths = 0;
  #lastDeathAt = Number.NEGATIVE_INFINITY;

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** The delay of a start now. */
  get ms(): number {
    if (this.#deaths === 0 || this.#isQuiet) return 0;
    return delaysMs[Math.min(this.#deaths, delaysMs.length) - 1] as number;
  }

  died(): void {
    this.#deaths = this.#isQuiet ? 1 : this.#deaths + 1;
    this.#lastDeathAt = this.#now();
  }

  /** The warehouse stopped a live process: the next start does not follow a death. */
  stopped(): void {
    this.#deaths = 0;
  }

  get #isQuiet(): boolean {
    return this.#now() - this.#lastDeathAt > quietMs;
  }
}
