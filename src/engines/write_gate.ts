// Holds back the calls that write to any catalog while a backup of the whole server fixes its instant. Writes that run already go on.

export class WriteGate {
  #closed: PromiseWithResolvers<void> | undefined;

  /** To be awaited before a write begins; undefined: nothing is held back. */
  passed(): Promise<void> | undefined {
    return this.#closed?.promise;
  }

  /** One at a time. */
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
