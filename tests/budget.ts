// How many of its cases a long test runs: in an order determined by its seed, until its share of the time is over, and some on any
// machine. With more time a seed begins with the same cases, so that a failure can be replayed. TEST_BUDGET=3 triples the time;
// TEST_BUDGET=all runs every case, each random test with as many as it can.
import type { TestContext } from 'node:test';
import { Random, seedFrom } from './random.ts';

const budgetText = process.env.TEST_BUDGET ?? '1';
export const runsAll = budgetText === 'all';
const factor = runsAll ? Number.POSITIVE_INFINITY : Math.max(0, Number(budgetText));
if (Number.isNaN(factor)) throw new Error(`TEST_BUDGET is a number or all: ${budgetText}`);

/** Not scaled by the machine, unlike a deadline: a slower one runs fewer cases in the same time. */
export class Budget {
  /** The time of all parts together. */
  readonly ms: number;
  #partsLeft: number;
  #endMs: number | undefined;

  /** Time that consecutive parts share; it begins with the first of them. */
  constructor(seconds: number, parts = 1) {
    this.ms = seconds * 1000 * factor;
    this.#partsLeft = parts;
  }

  /** Cases of the next part in random order, until there are enough and its share of the remaining time is over. */
  *sample<T>(
    cases: readonly T[],
    random: Random,
    isEnough: (sampledCount: number) => boolean = (sampledCount) => sampledCount > 0,
  ): Generator<T> {
    const hasTime = this.part();
    for (const [taken, sampled] of (runsAll ? cases : random.shuffled(cases)).entries()) {
      if (isEnough(taken) && !hasTime()) return;
      yield sampled;
    }
  }

  /** Begins the next part, for a loop of the caller; returns whether its share of the time lasts. */
  part(): () => boolean {
    const now = performance.now();
    this.#endMs ??= now + this.ms;
    const untilMs = now + Math.max(0, this.#endMs - now) / Math.max(1, this.#partsLeft--);
    return () => performance.now() < untilMs;
  }
}

/** For a test on its own: prints the seed, which TEST_SEED replays, and the number of cases that ran. */
export function* sampled<T>(
  t: TestContext,
  seconds: number,
  cases: readonly T[],
  isEnough?: (taken: number) => boolean,
): Generator<T> {
  const random = new Random(seedFrom('TEST_SEED'));
  let sampledCount = 0;
  try {
    for (const sampled of new Budget(seconds).sample(cases, random, isEnough)) {
      sampledCount++;
      yield sampled;
    }
  } finally {
    t.diagnostic(`TEST_SEED=${random.seed}: ${sampledCount} of ${cases.length} cases`);
  }
}
