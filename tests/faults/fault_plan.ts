// Which call of the store or the engine fails: counts calls from when it is armed, and lets the n-th fail, or the n-th and all
// later ones. The caller defines what failing means: throwing, or killing a process.

import { AsyncLocalStorage } from 'node:async_hooks';
import type { GatePoint } from './external_systems.ts';

/**
 * `store`: before a statement. `before`: before a call of the engine. `after`: after the call, before its result arrives.
 * `asked` and `answered`: the same for calls to other services.
 */
export type FaultPoint = 'store' | 'before' | 'after' | GatePoint;

export interface Fault {
  readonly point: FaultPoint;
  /** From 1. */
  readonly n: number;
  /** All calls from the n-th on, until disarmed. */
  readonly lasting: boolean;
  /** Only calls whose name begins with one of these count. */
  readonly of?: readonly string[];
}

/** The calls at each point. */
export type Sweep = Pick<Fault, 'point' | 'lasting'>;

/** No fault; the calls are counted. */
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

  /** One fault for each call since it was armed, including points other than that of the fault. */
  faults(sweeps: readonly Sweep[]): Fault[] {
    return sweeps.flatMap((sweep) =>
      Array.from({ length: this.#seen.get(sweep.point) ?? 0 }, (_, i): Fault => ({ ...sweep, n: i + 1 })),
    );
  }

  /** The call that failed, if any. */
  disarm(): string | undefined {
    this.#armed = undefined;
    return this.#struck;
  }

  /** Calls in here are not counted: those of the test itself. */
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
