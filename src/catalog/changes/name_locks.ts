// Turns within this process: changes of the same name run one after another, in the order they came. Between servers the
// store's transactions decide; this only saves those of one server from failing on each other.
import { Failure } from '../../standard/failure.ts';

interface Waiting {
  readonly begin: () => void;
}

export class NameLocks {
  /** A key that is here is held; its list is who waits. */
  readonly #held = new Map<string, Waiting[]>();

  /** Throws CHANGE_IN_PROGRESS where the turn does not come within `waitMs`. */
  async hold<T>(keys: readonly string[], waitMs: number, run: () => Promise<T>): Promise<T> {
    const taken: string[] = [];
    const deadline = performance.now() + waitMs;
    try {
      // Always in the same order, so that two who want the same keys do not wait for each other.
      for (const key of [...new Set(keys)].sort()) {
        if (this.#held.has(key)) await this.#wait(key, deadline - performance.now());
        else this.#held.set(key, []);
        taken.push(key);
      }
      return await run();
    } finally {
      for (const key of taken) this.#release(key);
    }
  }

  isHeld(key: string): boolean {
    return this.#held.has(key);
  }

  /** Runs at once or says false. */
  async tryHold(key: string, run: () => Promise<void>): Promise<boolean> {
    if (this.#held.has(key)) return false;
    await this.hold([key], 0, run);
    return true;
  }

  #wait(key: string, ms: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const waiting: Waiting = {
        begin: () => {
          clearTimeout(timer);
          resolve();
        },
      };
      const timer = setTimeout(
        () => {
          const queue = this.#held.get(key);
          queue?.splice(queue.indexOf(waiting), 1);
          reject(new Failure('CHANGE_IN_PROGRESS', 'Another change of this object is under way and takes long.'));
        },
        Math.max(0, ms),
      );
      this.#held.get(key)?.push(waiting);
    });
  }

  #release(key: string): void {
    const next = this.#held.get(key)?.shift();
    if (next) next.begin();
    else this.#held.delete(key);
  }
}
