// A time in which no write to a catalog begins, with an end: when it is over, the work that needed it is aborted and writes continue.
import type { WritesOfServers } from './writes_of_servers.ts';

/** So long before the end nothing is begun that cannot be aborted. */
const reserveMs = 200;

export class PausedWrites {
  /** Aborted when the time is over, or the task ends. */
  readonly signal: AbortSignal;
  readonly #writes: WritesOfServers;
  readonly #began = performance.now();
  readonly #maxMs: number;
  readonly #over = new AbortController();
  readonly #timer: NodeJS.Timeout;
  #hasEnded = false;

  constructor(writes: WritesOfServers, maxMs: number, ended: AbortSignal) {
    this.#writes = writes;
    this.#maxMs = maxMs;
    writes.hold();
    this.#timer = setTimeout(() => this.#over.abort(), maxMs);
    this.signal = AbortSignal.any([ended, this.#over.signal]);
  }

  /** Whether the time was too short. */
  get isOver(): boolean {
    return this.#over.signal.aborted;
  }

  get elapsedMs(): number {
    return Math.round(performance.now() - this.#began);
  }

  /** Waits for the writes that are running, and for all servers to begin none. `msMax`: after which the time is over. */
  async drained(msMax?: number): Promise<void> {
    const timer = msMax === undefined ? undefined : setTimeout(() => this.#over.abort(), msMax);
    try {
      await this.#writes.drained(this.signal);
    } finally {
      clearTimeout(timer);
    }
  }

  /** Ends the time instead of beginning a step that must not be interrupted by it. @returns whether the step can begin. */
  suspendEnd(): boolean {
    this.signal.throwIfAborted();
    if (this.elapsedMs + reserveMs < this.#maxMs) {
      clearTimeout(this.#timer);
      return true;
    }
    this.#over.abort();
    return false;
  }

  /** If the time is over, writes continue. Otherwise whoever knows how the work ended releases them. */
  async end(): Promise<void> {
    clearTimeout(this.#timer);
    if (this.#hasEnded || !this.isOver) return;
    this.#hasEnded = true;
    await this.#writes.release();
  }
}
