// Locks between statements that write rows of a table and changes that rewrite the table. An embedded engine may commit a row into
// a table that was copied already, and silently drop it with the old table (DuckDB does); so a rewrite excludes all writers.
import { Failure } from '../../../standard/failure.ts';
import { engineWith } from '../../derived_engine.ts';
import type { Change } from '../../port/changes.ts';
import type { EngineWarehouse } from '../../port/engine.ts';
import type { TableName, TableRef } from '../../port/refs.ts';

/** How long a writer waits for a table that is being changed, and a change for writers. */
const lockWaitMs = 15_000;

const keyOf = (...names: readonly string[]) => JSON.stringify(names.map((name) => name.toLowerCase()));

export class TableLocks {
  readonly #writers = new Map<string, number>();
  readonly #changed = new Set<string>();
  readonly #waiting = new Set<() => void>();

  /** Throws WAREHOUSE_BUSY if the tables are not free in time. */
  writing<T>(tables: readonly TableName[], signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    if (tables.length === 0) return work();
    const keys = tables.flatMap(({ catalog, database, table }) => [
      keyOf(catalog, database),
      keyOf(catalog, database, table),
    ]);
    return this.#writingKeys(keys, signal, work);
  }

  async #writingKeys<T>(keys: readonly string[], signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    const isFree = () => !keys.some((key) => this.#changed.has(key));
    const busy = `timed out after ${lockWaitMs} ms: the table is being rewritten by a change; try again`;
    const timedOut = () => new Failure('WAREHOUSE_BUSY', busy);
    await this.#waitFor(isFree, signal, timedOut, () => {
      for (const key of keys) this.#writers.set(key, (this.#writers.get(key) ?? 0) + 1);
    });
    try {
      return await work();
    } finally {
      for (const key of keys) {
        const remaining = (this.#writers.get(key) ?? 0) - 1;
        if (remaining > 0) this.#writers.set(key, remaining);
        else this.#writers.delete(key);
      }
      this.#wake();
    }
  }

  /** Throws CHANGE_IN_PROGRESS if statements do not end in time. Changes that copy nothing need no lock. */
  async changing<T>(change: Change, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    const key = rewrittenKey(change);
    if (key === undefined) return work();
    const timedOut = () =>
      new Failure(
        'CHANGE_IN_PROGRESS',
        `statements that write to the table did not end within ${lockWaitMs} ms; retry later`,
      );
    const isFree = () => !this.#changed.has(key);
    // From here on no new writer starts; wait for the running ones.
    await this.#waitFor(isFree, signal, timedOut, () => void this.#changed.add(key));
    try {
      const isUnwritten = () => !this.#writers.has(key);
      await this.#waitFor(isUnwritten, signal, timedOut, () => {});
      return await work();
    } finally {
      this.#changed.delete(key);
      this.#wake();
    }
  }

  /** Waits for the condition, then calls `acquire` synchronously, so that no other waiter can get in between. */
  async #waitFor(
    condition: () => boolean,
    signal: AbortSignal,
    timedOut: () => Failure,
    acquire: () => void,
  ): Promise<void> {
    const deadline = performance.now() + lockWaitMs;
    while (!condition()) {
      if (signal.aborted)
        throw new Failure('STATEMENT_CANCELLED', 'the statement was cancelled while it waited for the table');
      const remainingMs = deadline - performance.now();
      if (remainingMs <= 0) throw timedOut();
      await this.#sleep(remainingMs, signal);
    }
    acquire();
  }

  #sleep(ms: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const wake = () => {
        clearTimeout(timer);
        signal.removeEventListener('abort', wake);
        this.#waiting.delete(wake);
        resolve();
      };
      const timer = setTimeout(wake, ms);
      signal.addEventListener('abort', wake, { once: true });
      this.#waiting.add(wake);
    });
  }

  #wake(): void {
    for (const wake of [...this.#waiting]) wake();
  }
}

/** The key of the table or database that a change may rewrite. */
function rewrittenKey(change: Change): string | undefined {
  if (change.kind === 'renameDatabase') return keyOf(change.database.catalog.name, change.database.database);
  if (change.kind === 'alterTable' || change.kind === 'renameTable') {
    const { catalog, database, table } = change.table;
    return keyOf(catalog.name, database, table);
  }
  return undefined;
}

/** Wraps an engine with table locks. A rejected call has ended in the engine too. */
export function withTableLocks(engine: EngineWarehouse): EngineWarehouse {
  const locks = new TableLocks();
  const writing = <T>({ catalog, database, table }: TableRef, signal: AbortSignal, work: () => Promise<T>) =>
    locks.writing([{ catalog: catalog.name, database, table }], signal, work);
  const locked: Partial<EngineWarehouse> = {
    apply: (change, options) => locks.changing(change, options.signal, () => engine.apply(change, options)),
    execute: (statement, options) =>
      locks.writing(options.analysis.writes, options.signal, () => engine.execute(statement, options)),
    load: (work, options) => writing(work.table, options.signal, () => engine.load(work, options)),
    restorePart: (part, options) => writing(part.table, options.signal, () => engine.restorePart(part, options)),
    insertRows: (table, batch, options) =>
      writing(table, options.signal, () => engine.insertRows(table, batch, options)),
  };
  return engineWith(engine, locked);
}
