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

export interface WrittenTable {
  readonly database: string;
  readonly table: string;
}

/** Names a table within its catalog. */
export const tableKey = ({ database, table }: WrittenTable): string =>
  JSON.stringify([foldName(database), foldName(table)]);

/** What a watch has seen. Moments count up from 0, the beginning of the watch. */
export interface SeenWrites {
  readonly moment: number;
  /** By the key of each table that was written: the moment of the last beginning or end of a write to it. */
  readonly tables: Readonly<Record<string, number>>;
  /** The keys of the tables that are being written. */
  readonly running: readonly string[];
}

/** Whether a write to a table was running at the moment or has begun since. */
export function wasWritten({ tables, running }: SeenWrites, key: string, moment: number): boolean {
  return (tables[key] ?? 0) > moment || running.includes(key);
}

/** The writes to a catalog since it was opened. */
export interface WriteWatch {
  seen(): SeenWrites;
  /** Must be called once. */
  close(): void;
}

interface OpenWatch {
  readonly catalogId: string;
  moment: number;
  readonly tables: Record<string, number>;
}

export function catalogHeld(): Failure {
  return new Failure('CHANGE_IN_PROGRESS', 'the catalog is being moved to another warehouse; retry the write');
}

export class CatalogWrites {
  readonly #running = new Set<Write>();
  /** The reads that the engine is doing, by catalog. */
  readonly #reads = new Map<string, number>();
  readonly #watches = new Set<OpenWatch>();
  readonly #held = new Set<string>();

  /** Throws CHANGE_IN_PROGRESS if the catalog is held. @returns a function to call once when the write has ended. */
  begin(catalogId: string, tables: readonly WrittenTable[]): () => void {
    if (this.#held.has(catalogId)) throw catalogHeld();
    const writes = tables.map((table) => ({ catalogId, table: tableKey(table) }));
    for (const write of writes) {
      this.#running.add(write);
      this.#note(write);
    }
    return () => {
      for (const write of writes) {
        this.#note(write);
        this.#running.delete(write);
      }
    };
  }

  #note({ catalogId, table }: Write): void {
    for (const watch of this.#watches) if (watch.catalogId === catalogId) watch.tables[table] = ++watch.moment;
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

  watch(catalogId: string): WriteWatch {
    const watch: OpenWatch = { catalogId, moment: 0, tables: {} };
    this.#watches.add(watch);
    return {
      seen: () => ({ moment: watch.moment, tables: { ...watch.tables }, running: this.#runningIn(catalogId) }),
      close: () => void this.#watches.delete(watch),
    };
  }

  #runningIn(catalogId: string): string[] {
    return [...this.#running].flatMap((write) => (write.catalogId === catalogId ? write.table : []));
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
    while (this.#runningIn(catalogId).length > 0) await pause(pollMs, undefined, { signal });
  }
}
