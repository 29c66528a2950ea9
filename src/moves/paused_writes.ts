// A time in which no write to a catalog begins, with an end: when it is over, the work that needed it is aborted and writes continue.
import { Failure } from '../standard/failure.ts';
import type { MovedWrites } from './moved_writes.ts';

/** So long before the end nothing is begun that cannot be aborted. */
const reserveMs = 200;

export class PausedWrites {
  /** Aborted when the time is over, or the task ends. */
  readonly signal: AbortSignal;
  readonly #writes: MovedWrites;
  readonly #began = performance.now();
  readonly #maxMs: number;
  readonly #over = new AbortController();
  readonly #timer: NodeJS.Timeout;
  #hasEnded = false;

  constructor(writes: MovedWrites, maxMs: number, ended: AbortSignal) {
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

  /** Waits for the writes that are running, and for all servers to begin none. */
  drained(): Promise<void> {
    return this.#writes.drained(this.signal);
  }

  /** Ends the time instead of beginning a step that must not be interrupted by it. */
  requireTime(): void {
    this.signal.throwIfAborted();
    if (this.elapsedMs + reserveMs < this.#maxMs) {
      clearTimeout(this.#timer);
      return;
    }
    this.#over.abort();
    throw new Failure('MOVE_PAUSE_EXCEEDED', 'the time without writes is over');
  }

  /** If the time is over, writes continue. Otherwise whoever knows how the move ended releases them. */
  async end(): Promise<void> {
    clearTimeout(this.#timer);
    if (this.#hasEnded || !this.isOver) return;
    this.#hasEnded = true;
    await this.#writes.release();
  }
}
