// A map that strangers may fill: it keeps a bounded number of keys, and gives up first what is worth least. No timers: each new
// key pays for a look at a few old ones. What a value is worth is its owner's business.

/** How many old keys are looked at for a new one, while there is room and when there is none. */
const looksWithRoom = 2;
const looksWhenFull = 16;

export interface BoundedMapOptions<V> {
  readonly keysMax: number;
  /** What would be lost with it; 0 where nothing would. */
  readonly worth: (value: V, now: number) => number;
}

export class BoundedMap<V> {
  readonly #values = new Map<string, V>();
  readonly #options: BoundedMapOptions<V>;
  /** Goes round and round, so that every key is looked at in its turn. */
  #hand: MapIterator<[string, V]>;

  constructor(options: BoundedMapOptions<V>) {
    this.#options = options;
    this.#hand = this.#values.entries();
  }

  get size(): number {
    return this.#values.size;
  }

  get(key: string): V | undefined {
    return this.#values.get(key);
  }

  /** For a key that is not there. */
  add(key: string, value: V, now: number): V {
    const { keysMax, worth } = this.#options;
    const full = this.#values.size >= keysMax;
    let least: string | undefined;
    let leastWorth = Number.POSITIVE_INFINITY;
    for (let looks = full ? looksWhenFull : looksWithRoom; looks > 0; looks--) {
      const next = this.#next();
      if (next === undefined) break;
      const [old, oldValue] = next;
      const oldWorth = worth(oldValue, now);
      if (oldWorth <= 0) this.#values.delete(old);
      else if (oldWorth < leastWorth) [least, leastWorth] = [old, oldWorth];
    }
    if (this.#values.size >= keysMax && least !== undefined) this.#values.delete(least);
    this.#values.set(key, value);
    return value;
  }

  #next(): [string, V] | undefined {
    let next = this.#hand.next();
    if (next.done) {
      this.#hand = this.#values.entries();
      next = this.#hand.next();
    }
    return next.done ? undefined : next.value;
  }
}
