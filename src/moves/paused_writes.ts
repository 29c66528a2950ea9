// A time in which no write to a catalog begins, with an end: when it is over, the work that needed it is aborted and writes go on.
import type { CatalogWrites } from '../engines/copies/catalog_writes.ts';
import { Failure } from '../standard/failure.ts';

/** So long before the end nothing is begun that cannot be aborted. */
const reserveMs = 200;

export class PausedWrites {
  /** Aborted when the time is over, or the task ends. */
  readonly signal: AbortSignal;
  readonly #writes: CatalogWrites;
  readonly #catalogId: string;
  readonly #began = performance.now();
  readonly #maxMs: number;
  readonly #over = new AbortController();
  readonly #timer: NodeJS.Timeout;
  #hasEnded = false;

  constructor(writes: CatalogWrites, catalogId: string, maxMs: number, ended: AbortSignal) {
    this.#writes = writes;
    this.#catalogId = catalogId;
    this.#maxMs = maxMs;
    writes.hold(catalogId);
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

  /** Waits for the writes that are running. */
  drained(): Promise<void> {
    return this.#writes.drained(this.#catalogId, this.signal);
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

  /** If the time is over, writes go on. Otherwise whoever knows how the move ended releases them. */
  end(): void {
    clearTimeout(this.#timer);
    if (this.#hasEnded || !this.isOver) return;
    this.#hasEnded = true;
    this.#writes.release(this.#catalogId);
  }
}
