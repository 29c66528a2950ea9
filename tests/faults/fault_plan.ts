// Which call of the store or the engine goes wrong: counts them from the moment it is armed, and lets the n-th fail, or the
// n-th and all that follow. What "fail" does is the caller's: throw, or kill a process.

import { AsyncLocalStorage } from 'node:async_hooks';
import type { GatePoint } from './surroundings.ts';

/**
 * `store`: before a statement. `before`: before a call of the engine. `after`: when it was done, before its answer arrives. `asked` and
 * `answered`: as these two, of what is reached outside.
 */
export type FaultPoint = 'store' | 'before' | 'after' | GatePoint;

export interface Fault {
  readonly point: FaultPoint;
  /** From 1. */
  readonly n: number;
  /** All from the n-th on, until disarmed. */
  readonly lasting: boolean;
  /** Only calls whose name begins with one of these count. */
  readonly of?: readonly string[];
}

/** Each call at a point. */
export type Sweep = Pick<Fault, 'point' | 'lasting'>;

/** Nothing fails; the calls are counted. */
export const noFault: Fault = { point: 'store', n: Number.POSITIVE_INFINITY, lasting: false };

export class FaultPlan {
  readonly #sparing = new AsyncLocalStorage<true>();
  readonly #strike: (fault: Fault, what: string) => void;
  #armed: Fault | undefined;
  readonly #seen = new Map<FaultPoint, number>();
  #struck: string | undefined;

  /** `strike` is called where the fault is to happen, inside the call. */
  constructor(strike: (fault: Fault, what: string) => void) {
    this.#strike = strike;
  }

  arm(fault: Fault): void {
    this.#armed = fault;
    this.#seen.clear();
    this.#struck = undefined;
  }

  /** One fault for each call that there was since it was armed, also at points other than that of the fault. */
  faults(sweeps: readonly Sweep[]): Fault[] {
    return sweeps.flatMap((sweep) =>
      Array.from({ length: this.#seen.get(sweep.point) ?? 0 }, (_, i): Fault => ({ ...sweep, n: i + 1 })),
    );
  }

  /** What was struck, if anything was. */
  disarm(): string | undefined {
    this.#armed = undefined;
    return this.#struck;
  }

  /** What is done here is not counted: a test's own look at things. */
  spare<T>(look: () => Promise<T>): Promise<T> {
    return this.#sparing.run(true, look);
  }

  hit(point: FaultPoint, what: string): void {
    const fault = this.#armed;
    if (!fault || this.#sparing.getStore()) return;
    if (fault.of && !fault.of.some((name) => what.startsWith(name))) return;
    const seen = (this.#seen.get(point) ?? 0) + 1;
    this.#seen.set(point, seen);
    if (fault.point !== point || seen < fault.n || (seen > fault.n && !fault.lasting)) return;
    this.#struck ??= what;
    this.#strike(fault, what);
  }
}
