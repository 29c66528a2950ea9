// A map that untrusted callers may fill: it holds a bounded number of keys and evicts the least valuable. Without timers: adding a key
// checks a few existing ones. The caller defines the retention value of each entry.

/** How many existing keys are checked when one is added. */
const checksWithRoom = 2;
const checksWhenFull = 16;

export interface BoundedMapOptions<V> {
  readonly keysMax: number;
  /** The cost of evicting the value; 0 or less: it can be removed. */
  readonly retentionValue: (value: V, now: number) => number;
}

export class BoundedMap<V> {
  readonly #values = new Map<string, V>();
  readonly #options: BoundedMapOptions<V>;
  /** Cycles through all keys, so that each is checked in turn. */
  #cursor: MapIterator<[string, V]>;

  constructor(options: BoundedMapOptions<V>) {
    this.#options = options;
    this.#cursor = this.#values.entries();
  }

  get size(): number {
    return this.#values.size;
  }

  get(key: string): V | undefined {
    return this.#values.get(key);
  }

  set(key: string, value: V, now: number): void {
    if (this.#values.has(key)) this.#values.set(key, value);
    else this.add(key, value, now);
  }

  /** Only for a key that is not in the map. */
  add(key: string, value: V, now: number): V {
    const { keysMax, retentionValue } = this.#options;
    const full = this.#values.size >= keysMax;
    let least: string | undefined;
    let leastRetentionValue = Number.POSITIVE_INFINITY;
    for (let checks = full ? checksWhenFull : checksWithRoom; checks > 0; checks--) {
      const next = this.#nextEntry();
      if (next === undefined) break;
      const [old, oldValue] = next;
      const oldRetentionValue = retentionValue(oldValue, now);
      if (oldRetentionValue <= 0) this.#values.delete(old);
      else if (oldRetentionValue < leastRetentionValue) [least, leastRetentionValue] = [old, oldRetentionValue];
    }
    if (this.#values.size >= keysMax && least !== undefined) this.#values.delete(least);
    this.#values.set(key, value);
    return value;
  }

  #nextEntry(): [string, V] | undefined {
    let next = this.#cursor.next();
    if (next.done) {
      this.#cursor = this.#values.entries();
      next = this.#cursor.next();
    }
    return next.done ? undefined : next.value;
  }
}
