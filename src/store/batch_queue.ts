// Group commit: work that costs a disk flush is done for many items at once. Items that arrive while a batch runs form the next batch.

export class BatchQueue<T> {
  readonly #itemsPerBatchMax: number;
  readonly #runBatch: (group: readonly T[]) => Promise<void>;
  readonly #onIdle: () => void;
  #waiting: T[] = [];
  #isRunning = false;

  /**
   * `itemsPerBatchMax`: further items wait for the batch. `runBatch` must not reject: it reports the outcome to each item. `onIdle` is called
   * when the queue is empty.
   */
  constructor(
    itemsPerBatchMax: number,
    runBatch: (batch: readonly T[]) => Promise<void>,
    onIdle: () => void = () => {},
  ) {
    this.#itemsPerBatchMax = itemsPerBatchMax;
    this.#runBatch = runBatch;
    this.#onIdle = onIdle;
  }

  add(item: T): void {
    this.#waiting.push(item);
    if (this.#isRunning) return;
    this.#isRunning = true;
    // Deferred, so that requests that arrived together, or during the previous flush, are read from their sockets and join this batch:
    // the store answers synchronously, without yielding to the event loop.
    setImmediate(() => void this.#runAll());
  }

  /** Removes a waiting item. @returns false if its batch is running or has run. */
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
