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
  readonly isLasting: boolean;
  /** Only calls whose name begins with one of these count. */
  readonly callPrefixes?: readonly string[];
}

/** The calls at each point. */
export type Sweep = Pick<Fault, 'point' | 'isLasting'>;

/** No fault; the calls are counted. */
export const noFault: Fault = { point: 'store', n: Number.POSITIVE_INFINITY, isLasting: false };

export class FaultPlan {
  readonly #uncounted = new AsyncLocalStorage<true>();
  readonly #applyFault: (fault: Fault, call: string) => void;
  #armedFault: Fault | undefined;
  readonly #counts = new Map<FaultPoint, number>();
  #failedCall: string | undefined;

  /** `strike` is called where the fault is to happen, inside the call. */
  constructor(strike: (fault: Fault, call: string) => void) {
    this.#applyFault = strike;
  }

  arm(fault: Fault): void {
    this.#armedFault = fault;
    this.#counts.clear();
    this.#failedCall = undefined;
  }

  /** One fault for each call since it was armed, including points other than that of the fault. */
  faults(sweeps: readonly Sweep[]): Fault[] {
    return sweeps.flatMap((sweep) =>
      Array.from({ length: this.#counts.get(sweep.point) ?? 0 }, (_, i): Fault => ({ ...sweep, n: i + 1 })),
    );
  }

  /** Of the calls at each point since it was armed, with the names that count. */
  get counts(): Readonly<Partial<Record<FaultPoint, number>>> {
    return Object.fromEntries(this.#counts);
  }

  /** The call that failed, if any. */
  disarm(): string | undefined {
    this.#armedFault = undefined;
    return this.#failedCall;
  }

  /** Calls in here are not counted: those of the test itself. */
  withoutCounting<T>(action: () => Promise<T>): Promise<T> {
    return this.#uncounted.run(true, action);
  }

  reach(point: FaultPoint, call: string): void {
    const fault = this.#armedFault;
    if (!fault || this.#uncounted.getStore()) return;
    if (fault.callPrefixes && !fault.callPrefixes.some((name) => call.startsWith(name))) return;
    const count = (this.#counts.get(point) ?? 0) + 1;
    this.#counts.set(point, count);
    if (fault.point !== point || count < fault.n || (count > fault.n && !fault.isLasting)) return;
    this.#failedCall ??= call;
    this.#applyFault(fault, call);
  }
}
