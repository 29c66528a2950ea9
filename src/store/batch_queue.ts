// Work that costs a flush of the disk, done for many at once: what comes while a group is worked on is the next group.

export class BatchQueue<T> {
  readonly #itemsPerBatchMax: number;
  readonly #runBatch: (group: readonly T[]) => Promise<void>;
  readonly #onIdle: () => void;
  #waiting: T[] = [];
  #isRunning = false;

  /** `most`: items of one group, for which all others wait. `work` never rejects: it tells each item what became of it. `idle` is called when none is left. */
  constructor(most: number, work: (group: readonly T[]) => Promise<void>, idle: () => void = () => {}) {
    this.#itemsPerBatchMax = most;
    this.#runBatch = work;
    this.#onIdle = idle;
  }

  add(item: T): void {
    this.#waiting.push(item);
    if (this.#isRunning) return;
    this.#isRunning = true;
    // What arrived with this one, or while the disk was flushed for the ones before, is read from its sockets first, and comes along:
    // the store answers without giving way to anything else.
    setImmediate(() => void this.#runAll());
  }

  /** Takes an item back. False where it does not wait any more: its group is being worked on, or was. */
  remove(item: T): boolean {
    const index = this.#waiting.indexOf(item);
    if (index >= 0) this.#waiting.splice(index, 1);
    return index >= 0;
  }

  async #runAll(): Promise<void> {
    while (this.#waiting.length > 0) {
      await this.#runBatch(this.#waiting.splice(0, this.#itemsPerBatchMax));
      if (this.#waiting.length > 0) await new Promise((resolve) => setImmediate(resolve));
    }
    this.#isRunning = false;
    this.#onIdle();
  }
}
