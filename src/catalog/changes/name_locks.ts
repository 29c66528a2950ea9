// Locks within this process: changes of the same name run one after another, in the order of their arrival. Transactions of the store
// guarantee correctness; the locks only prevent changes of one server from failing because of each other.
import { foldName } from '../../model/names.ts';
import { Failure } from '../../standard/failure.ts';
import type { Category } from '../object.ts';

interface Waiter {
  readonly begin: () => void;
}

export function nameKey(parentId: string | null, category: Category, name: string): string {
  return `${parentId ?? ''}/${category}/${foldName(name)}`;
}

/** The lock keys to hold while an object gains or loses a name. */
export function nameKeys(
  parentId: string | null,
  category: Category,
  names: readonly string[],
  sharesNames: readonly Category[] = [],
): string[] {
  return names.flatMap((name) => [category, ...sharesNames].map((shared) => nameKey(parentId, shared, name)));
}

export class NameLocks {
  /** The held keys, each with the queue of its waiters. */
  readonly #held = new Map<string, Waiter[]>();

  /** Throws CHANGE_IN_PROGRESS if the locks are not available within `waitMs`. */
  async hold<T>(keys: readonly string[], waitMs: number, run: () => Promise<T>): Promise<T> {
    const acquired: string[] = [];
    const deadline = performance.now() + waitMs;
    try {
      // Always acquired in the same order, which prevents deadlocks.
      for (const key of [...new Set(keys)].sort()) {
        if (this.#held.has(key)) await this.#wait(key, deadline - performance.now());
        else this.#held.set(key, []);
        acquired.push(key);
      }
      return await run();
    } finally {
      for (const key of acquired) this.#release(key);
    }
  }

  isHeld(key: string): boolean {
    return this.#held.has(key);
  }

  /** @returns false without running if the lock is held. */
  async tryHold(key: string, run: () => Promise<void>): Promise<boolean> {
    if (this.#held.has(key)) return false;
    await this.hold([key], 0, run);
    return true;
  }

  #wait(key: string, ms: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const waiter: Waiter = {
        begin: () => {
          clearTimeout(timer);
          resolve();
        },
      };
      const timer = setTimeout(
        () => {
          const queue = this.#held.get(key);
          queue?.splice(queue.indexOf(waiter), 1);
          reject(new Failure('CHANGE_IN_PROGRESS', 'another change of this object is still in progress; retry later'));
        },
        Math.max(0, ms),
      );
      this.#held.get(key)?.push(waiter);
    });
  }

  #release(key: string): void {
    const next = this.#held.get(key)?.shift();
    if (next) next.begin();
    else this.#held.delete(key);
  }
}
