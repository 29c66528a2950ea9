// The transactions of one server run one after the other. Nearly all of them continue the server's audit chain, so those that ran at the
// same time would conflict, and all but one would be repeated. Conflicts remain with other servers, and with statements outside transactions.
import { StoreUnchanged } from '../store_errors.ts';

export class TransactionTurns {
  readonly #waitMsMax: number;
  /** In the order of their arrival. */
  readonly #waiting = new Set<() => void>();
  #isTaken = false;

  constructor(waitMsMax: number) {
    this.#waitMsMax = waitMsMax;
  }

  /** Throws StoreUnchanged if others take too long. */
  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#isTaken) await this.#wait();
    this.#isTaken = true;
    try {
      return await work();
    } finally {
      this.#pass();
    }
  }

  #wait(): Promise<void> {
    return new Promise((resolve, reject) => {
      const begin = () => {
        clearTimeout(timer);
        resolve();
      };
      const giveUp = () => {
        this.#waiting.delete(begin);
        reject(new StoreUnchanged('other changes of the metadata store take too long'));
      };
      const timer = setTimeout(giveUp, this.#waitMsMax);
      this.#waiting.add(begin);
    });
  }

  /** The turn stays taken if another transaction waits for it: one that begins meanwhile must not overtake it. */
  #pass(): void {
    const [next] = this.#waiting;
    if (next) {
      this.#waiting.delete(next);
      next();
    } else this.#isTaken = false;
  }
}
