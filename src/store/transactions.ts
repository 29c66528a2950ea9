// Transactions of the store, with what their participants add at the end: last statements, and what follows from the commit.
import assert from 'node:assert/strict';
import type { Kysely, Transaction } from 'kysely';
import type { Schema } from './schema.ts';

export interface TransactionEnd {
  /** The last statements of the transaction. */
  readonly write?: (() => Promise<void>) | undefined;
  /**
   * Called in the event-loop turn in which the commit returns, not after a rollback. `Store.transaction` returns after the promise, and
   * fails with its error, although the transaction is committed.
   */
  readonly committed: () => Promise<void> | undefined;
}

const endsOf = new WeakMap<Transaction<Schema>, TransactionEnd[]>();

function addEnd(tx: Transaction<Schema>, end: TransactionEnd): void {
  const ends = endsOf.get(tx);
  assert(ends, 'the transaction was not begun by Store.transaction');
  ends.push(end);
}

/** Runs an effect outside the store, such as a change of memory, after the commit of a transaction; never if it is rolled back. */
export function afterCommit(tx: Transaction<Schema>, effect: () => void): void {
  addEnd(tx, { committed: () => void effect() });
}

export class Transactions {
  readonly #db: Kysely<Schema>;
  readonly #attempt: <T>(transaction: () => Promise<T>) => Promise<T>;

  /** `attempt` runs a transaction, perhaps later, and perhaps again if it was rolled back. What follows from the commit is not part of it. */
  constructor(db: Kysely<Schema>, attempt = <T>(transaction: () => Promise<T>): Promise<T> => transaction()) {
    this.#db = db;
    this.#attempt = attempt;
  }

  async run<T>(work: (tx: Transaction<Schema>) => Promise<T>): Promise<T> {
    let ends: readonly TransactionEnd[] = [];
    const transaction = () =>
      this.#db.transaction().execute(async (tx) => {
        // Anew for each attempt: a transaction that is run again must not have the effects of the attempt that was rolled back.
        const own: TransactionEnd[] = [];
        ends = own;
        endsOf.set(tx, own);
        const result = await work(tx);
        for (const { write } of own) await write?.();
        return result;
      });
    const result = await this.#attempt(transaction);
    const following = ends.map(({ committed }) => committed()).filter((promise) => promise !== undefined);
    if (following.length > 0) await Promise.all(following);
    return result;
  }

  atEnd(tx: Transaction<Schema>, end: TransactionEnd): void {
    addEnd(tx, end);
  }
}
