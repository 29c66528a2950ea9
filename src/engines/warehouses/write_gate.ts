// Holds back the calls that write to any catalog while a backup of the whole server fixes its instant. Running writes continue.

export class WriteGate {
  #closed: PromiseWithResolvers<void> | undefined;

  /** Await this before a write begins; undefined if the gate is open. */
  passed(): Promise<void> | undefined {
    return this.#closed?.promise;
  }

  /** Must not be called again before it has settled. */
  async closedWhile<T>(work: () => Promise<T>): Promise<T> {
    const closed = Promise.withResolvers<void>();
    this.#closed = closed;
    try {
      return await work();
    } finally {
      this.#closed = undefined;
      closed.resolve();
    }
  }
}
