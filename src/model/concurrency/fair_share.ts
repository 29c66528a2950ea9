// How places for work, such as threads, are shared: whatever the work of one principal takes, and for how long, others find a place.

/**
 * Whether the principal has room for one more. Beyond `placesMax`, as many more places are for principals that have none.
 * @param taken the principals of the work that runs, each as often as it has a place.
 */
export const hasPlace = (taken: readonly string[], principalId: string, placesMax: number): boolean =>
  taken.length < placesMax || (taken.length < placesMax * 2 && !taken.includes(principalId));

interface Waiting {
  readonly principalId: string;
  readonly begin: () => void;
}

/** Places that are waited for in the order of arrival. */
export class FairPlaces {
  readonly #placesMax: number;
  /** The principals that have a place, each as often as it has one. */
  readonly #taken: string[] = [];
  readonly #waiting: Waiting[] = [];

  constructor(placesMax: number) {
    this.#placesMax = placesMax;
  }

  /** Resolves when the principal has one more place. If `stopped` rejects before, it has none, and the error is thrown. */
  async take(principalId: string, stopped: Promise<never>): Promise<void> {
    if (this.#hasRoom(principalId)) {
      this.#taken.push(principalId);
      return;
    }
    const turn = Promise.withResolvers<void>();
    const waiting = { principalId, begin: turn.resolve };
    this.#waiting.push(waiting);
    try {
      await Promise.race([turn.promise, stopped]);
    } catch (error) {
      const at = this.#waiting.indexOf(waiting);
      if (at >= 0) this.#waiting.splice(at, 1);
      // The turn came at the same moment.
      else this.leave(principalId);
      throw error;
    }
  }

  /** Gives a place of the principal to those who wait. */
  leave(principalId: string): void {
    this.#taken.splice(this.#taken.indexOf(principalId), 1);
    for (const waiting of [...this.#waiting]) {
      if (!this.#hasRoom(waiting.principalId)) continue;
      this.#waiting.splice(this.#waiting.indexOf(waiting), 1);
      this.#taken.push(waiting.principalId);
      waiting.begin();
    }
  }

  #hasRoom(principalId: string): boolean {
    return hasPlace(this.#taken, principalId, this.#placesMax);
  }
}
