// Random choices that a seed replays.
export class Random {
  readonly seed: number;
  #state: number;

  constructor(seed: number) {
    this.seed = seed >>> 0;
    this.#state = this.seed;
  }

  /** 0 to 1, without 1 (mulberry32). */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let t = this.#state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  }

  /** From 0 to below `end`. */
  below(end: number): number {
    return Math.floor(this.next() * end);
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }

  pick<T>(from: readonly T[]): T {
    if (from.length === 0) throw new Error('there is nothing to pick from');
    return from[this.below(from.length)] as T;
  }

  /** The same items in random order (Fisher and Yates). */
  shuffled<T>(items: readonly T[]): T[] {
    const order = [...items];
    for (let i = order.length - 1; i > 0; i--) {
      const j = this.below(i + 1);
      [order[i], order[j]] = [order[j] as T, order[i] as T];
    }
    return order;
  }

  /** A separate sequence, independent of how far this one has advanced. */
  fork(n: number): Random {
    return new Random(Math.imul(this.seed ^ 0x9e3779b9, 2 * n + 1) + n);
  }
}

/** The requested seed, or a new one; the user prints it. */
export function seedFrom(variable: string): number {
  const seedText = process.env[variable];
  return seedText ? Number(seedText) >>> 0 : (Date.now() ^ (process.pid << 16)) >>> 0;
}
