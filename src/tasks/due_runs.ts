// The runs of schedules that are due: a number at a time, for which their owners take turns. However many an owner has, and however long
// they take, those of the others begin.
import { hasPlace } from '../model/concurrency/fair_share.ts';

export interface DueRun {
  readonly id: string;
  readonly owner: string;
  /** The time at which it was found to be due. */
  readonly now: number;
}

/** At the same time. Beyond it, as many more of owners of whom none runs. */
const placesMax = 8;

export class DueRuns {
  readonly #run: (due: DueRun) => Promise<void>;
  /** By owner, in the order of their turns, and by id. */
  readonly #waiting = new Map<string, Map<string, DueRun>>();
  readonly #running = new Map<string, { readonly owner: string; readonly done: Promise<void> }>();

  /** `run`: never rejects. */
  constructor(run: (due: DueRun) => Promise<void>) {
    this.#run = run;
  }

  /** Of a schedule that waits or runs already, nothing is added. */
  add(due: DueRun): void {
    const { id, owner } = due;
    const waiting = this.#waiting.get(owner) ?? new Map<string, DueRun>();
    if (this.#running.has(id) || waiting.has(id)) return;
    this.#waiting.set(owner, waiting.set(id, due));
  }

  /** Begins those that have a place; the others begin when it is their turn. */
  begin(): void {
    for (let due = this.#next(); due; due = this.#next()) {
      const { id, owner } = due;
      const done = this.#run(due).finally(() => {
        this.#running.delete(id);
        this.begin();
      });
      this.#running.set(id, { owner, done });
    }
  }

  #next(): DueRun | undefined {
    const owners = [...this.#running.values()].map(({ owner }) => owner);
    for (const [owner, waiting] of this.#waiting) {
      if (!hasPlace(owners, owner, placesMax)) continue;
      this.#waiting.delete(owner);
      const [due] = waiting.values();
      if (!due) continue;
      waiting.delete(due.id);
      if (waiting.size > 0) this.#waiting.set(owner, waiting);
      // It was given to another owner while it waited.
      if (!this.#running.has(due.id)) return due;
    }
    return undefined;
  }

  /** When all have ended. */
  async ended(): Promise<void> {
    while (this.#running.size > 0) await Promise.all([...this.#running.values()].map(({ done }) => done));
  }

  /** Those that wait no longer begin. */
  async stop(): Promise<void> {
    this.#waiting.clear();
    await this.ended();
  }
}
