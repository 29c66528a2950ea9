// The writes of rows to the catalogs of a warehouse, as this server sends them to the engine: which tables were written since a moment,
// and a hold, during which no write begins. What a move needs (moves/): it copies a catalog while it is written.
import { setTimeout as pause } from 'node:timers/promises';
import { foldName } from '../../model/names.ts';
import { Failure } from '../../standard/failure.ts';

const pollMs = 5;

/** A write that the engine is doing. */
interface Write {
  readonly catalogId: string;
  readonly table: string;
}

/** Names a table within its catalog. */
const keyOf = ({ database, table }: WrittenTable): string => JSON.stringify([foldName(database), foldName(table)]);

export interface WrittenTable {
  readonly database: string;
  readonly table: string;
}

export class CatalogWrites {
  readonly #running = new Set<Write>();
  /** The reads that the engine is doing, by catalog. */
  readonly #reads = new Map<string, number>();
  /** For each watched catalog: the moment of the last beginning or end of a write of each table. */
  readonly #watched = new Map<string, Map<string, number>>();
  readonly #held = new Set<string>();
  #moment = 0;

  /** Throws CHANGE_IN_PROGRESS if the catalog is held. @returns a function to call once when the write has ended. */
  begin(catalogId: string, tables: readonly WrittenTable[]): () => void {
    if (this.#held.has(catalogId))
      throw new Failure('CHANGE_IN_PROGRESS', 'the catalog is being moved to another warehouse; retry the write');
    const writes = tables.map((table) => ({ catalogId, table: keyOf(table) }));
    for (const write of writes) this.#note(write);
    return () => {
      for (const write of writes) {
        this.#note(write);
        this.#running.delete(write);
      }
    };
  }

  #note(write: Write): void {
    this.#running.add(write);
    this.#watched.get(write.catalogId)?.set(write.table, ++this.#moment);
  }

  beginRead(catalogId: string): () => void {
    this.#reads.set(catalogId, (this.#reads.get(catalogId) ?? 0) + 1);
    return () => {
      const others = (this.#reads.get(catalogId) ?? 1) - 1;
      if (others === 0) this.#reads.delete(catalogId);
      else this.#reads.set(catalogId, others);
    };
  }

  isRead(catalogId: string): boolean {
    return this.#reads.has(catalogId);
  }

  /** From now on `changedSince` knows the writes to the catalog. */
  watch(catalogId: string): void {
    if (!this.#watched.has(catalogId)) this.#watched.set(catalogId, new Map());
  }

  unwatch(catalogId: string): void {
    this.#watched.delete(catalogId);
  }

  now(): number {
    return this.#moment;
  }

  /** Whether a write to a table of a watched catalog was running at the moment or has begun since. */
  changedSince(catalogId: string, table: WrittenTable, moment: number): boolean {
    const key = keyOf(table);
    const last = this.#watched.get(catalogId)?.get(key) ?? 0;
    return (
      last > moment || this.#running.values().some((write) => write.catalogId === catalogId && write.table === key)
    );
  }

  /** From now on writes to the catalog are refused, until `release`. Those that are running continue. */
  hold(catalogId: string): void {
    this.#held.add(catalogId);
  }

  release(catalogId: string): void {
    this.#held.delete(catalogId);
  }

  /** Waits until no write to the catalog is running. Rejects when the signal is aborted. */
  async drained(catalogId: string, signal: AbortSignal): Promise<void> {
    while (this.#running.values().some((write) => write.catalogId === catalogId))
      await pause(pollMs, undefined, { signal });
  }
}
