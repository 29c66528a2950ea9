// When what a server counts of its callers is merged with the store that the servers share: a while after it changed, and never twice at
// once.
const mergeEveryMs = 200;

export class MergeTimer {
  /** Never rejects. */
  readonly #merge: () => Promise<void>;
  #merging: Promise<void> = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;
  #isStopped = false;

  constructor(merge: () => Promise<void>) {
    this.#merge = merge;
  }

  /** Merges within 200 ms, unless it is stopped. */
  schedule(): void {
    if (!this.#isStopped) this.#timer ??= setTimeout(() => void this.now(), mergeEveryMs).unref();
  }

  /** Merges when the merge under way has ended. */
  now(): Promise<void> {
    this.#clear();
    this.#merging = this.#merging.then(this.#merge);
    return this.#merging;
  }

  /** Waits for the merge under way. Afterwards only `now` merges. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#clear();
    await this.#merging;
  }

  #clear(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}
