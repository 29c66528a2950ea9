// Look-ups by id. Those that are requested together, as for the records of a page, are read in one statement: on a store in another
// process, each statement costs a round trip.

/** So many are read one by one, by a prepared statement: compiling one for several ids costs more. */
const readSinglyMax = 8;

interface Reads<T> {
  one(id: string): Promise<T | undefined>;
  /** By id; ids without a value are missing. */
  many(ids: readonly string[]): Promise<ReadonlyMap<string, T>>;
  readonly idsPerReadMax: number;
}

type Waiting<T> = PromiseWithResolvers<T | undefined>;

export class BatchedLookups<T> {
  readonly #reads: Reads<T>;
  #waiting = new Map<string, Waiting<T>>();

  constructor(reads: Reads<T>) {
    this.#reads = reads;
  }

  /** The read begins in the current turn of the event loop, after the call. */
  get(id: string): Promise<T | undefined> {
    if (this.#waiting.size === 0) queueMicrotask(() => this.#read());
    let waiting = this.#waiting.get(id);
    if (!waiting) {
      waiting = Promise.withResolvers();
      this.#waiting.set(id, waiting);
    }
    return waiting.promise;
  }

  #read(): void {
    const waiting = [...this.#waiting];
    this.#waiting = new Map();
    const { idsPerReadMax } = this.#reads;
    if (waiting.length <= readSinglyMax) {
      for (const [id, { resolve, reject }] of waiting) this.#reads.one(id).then(resolve, reject);
      return;
    }
    for (let start = 0; start < waiting.length; start += idsPerReadMax)
      void this.#readMany(waiting.slice(start, start + idsPerReadMax));
  }

  async #readMany(waiting: readonly (readonly [string, Waiting<T>])[]): Promise<void> {
    try {
      const found = await this.#reads.many(waiting.map(([id]) => id));
      for (const [id, { resolve }] of waiting) resolve(found.get(id));
    } catch (error) {
      for (const [, { reject }] of waiting) reject(error);
    }
  }
}
