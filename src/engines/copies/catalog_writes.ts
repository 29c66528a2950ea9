// The writes of rows to the catalogs of a warehouse, as this server sends them to the engine: which tables were written since a moment,
// and holds, during which no write begins. What moves and backups need (holds/): they read a catalog while it is written.
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

/** Of several holds, the one for which writes do not wait. */
export function longest(kinds: Iterable<HoldKind>): HoldKind | undefined {
  const all = new Set(kinds);
  return all.has('move') ? 'move' : all.values().next().value;
}

/** Why writes to a catalog are held. A snapshot takes so little time that they wait for it. */
export type HoldKind = 'move' | 'snapshot';

export const catalogHeld = (kind: HoldKind): Failure =>
  new Failure(
    'CHANGE_IN_PROGRESS',
    kind === 'move'
      ? 'the catalog is being moved to another warehouse; retry the write'
      : 'a backup of the catalog begins; retry the write',
  );

export class CatalogWrites {
  readonly #running = new Set<Write>();
  /** The reads that the engine is doing, by catalog. */
  readonly #reads = new Map<string, number>();
  readonly #watches = new Set<OpenWatch>();
  /** By the id of the catalog: what holds it, by the id of its task. */
  readonly #held = new Map<string, Map<string, HoldKind>>();

  /** Throws CHANGE_IN_PROGRESS if the catalog is held. @returns a function to call once when the write has ended. */
  begin(catalogId: string, tables: readonly WrittenTable[]): () => void {
    const kind = this.heldFor(catalogId);
    if (kind) throw catalogHeld(kind);
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

  /** From now on writes to the catalog are refused, until `release` by the same task. Those that are running continue. */
  hold(catalogId: string, taskId: string, kind: HoldKind): void {
    const holds = this.#held.get(catalogId) ?? new Map<string, HoldKind>();
    this.#held.set(catalogId, holds.set(taskId, kind));
  }

  release(catalogId: string, taskId: string): void {
    const holds = this.#held.get(catalogId);
    holds?.delete(taskId);
    if (holds?.size === 0) this.#held.delete(catalogId);
  }

  /** Undefined if the catalog is not held. */
  heldFor(catalogId: string): HoldKind | undefined {
    return longest(this.#held.get(catalogId)?.values() ?? []);
  }

  /** Waits until no write to the catalog is running. Rejects when the signal is aborted. */
  async drained(catalogId: string, signal: AbortSignal): Promise<void> {
    while (this.#runningIn(catalogId).length > 0) await pause(pollMs, undefined, { signal });
  }
}
