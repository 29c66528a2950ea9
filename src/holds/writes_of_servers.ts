// The writes to a catalog by this server and by all others that write to it: which tables were written since a moment, and a time in which
// nobody writes. What moves and backups need that cannot do without it.
import { setTimeout as pause } from 'node:timers/promises';
import {
  type CatalogWrites,
  type HoldKind,
  tableKey,
  type WriteWatch,
  type WrittenTable,
  wasWritten,
} from '../engines/copies/catalog_writes.ts';
import type { Warehouses } from '../engines/warehouses/warehouses.ts';
import { AskedServers, type AskedServersParts, type OthersMoment } from './asked_servers.ts';

export interface WriteMoment {
  readonly own: number;
  readonly others: OthersMoment;
}

const pollMs = 20;

/** The work that needs to know of the writes, or to hold them. */
export interface Holder {
  readonly taskId: string;
  readonly catalogId: string;
  readonly kind: HoldKind;
}

export interface WritesParts extends AskedServersParts {
  readonly warehouses: Warehouses;
}

/** To a catalog in the warehouse, by all servers that write to it. */
export async function writesTo(parts: WritesParts, warehouse: string, holder: Holder): Promise<WritesOfServers> {
  const { warehouses, store } = parts;
  const isShared = store.isShared && (await warehouses.engineOf(warehouse)).isReachedByAllServers;
  const others = isShared ? new AskedServers(parts, holder.taskId) : undefined;
  return new WritesOfServers(await warehouses.writesOf(warehouse), holder, others);
}

export class WritesOfServers {
  readonly #own: CatalogWrites;
  readonly #holder: Holder;
  readonly #catalogId: string;
  /** Undefined: only this server writes to the warehouse. */
  readonly #others: AskedServers | undefined;
  #watch: WriteWatch | undefined;

  constructor(own: CatalogWrites, holder: Holder, others: AskedServers | undefined) {
    this.#own = own;
    this.#holder = holder;
    this.#catalogId = holder.catalogId;
    this.#others = others;
  }

  /** Whether other servers write to the catalog, too. */
  get areOfSeveral(): boolean {
    return this.#others !== undefined;
  }

  /** From now on it is known which tables are written. */
  async watch(signal: AbortSignal): Promise<void> {
    this.#watch ??= this.#own.watch(this.#catalogId);
    await this.#others?.ask(signal, false);
  }

  /** What others have written until now is known afterwards. */
  async refresh(signal: AbortSignal): Promise<void> {
    await this.#others?.ask(signal);
  }

  /** For this server it is now; for the others, the last refresh. */
  moment(): WriteMoment {
    return { own: this.#watch?.seen().moment ?? 0, others: this.#others?.moment() ?? new Map() };
  }

  /** Whether the table was being written at the moment, or was written since, up to the last refresh. */
  written(table: WrittenTable, { own, others }: WriteMoment): 'yes' | 'no' | 'unknown' {
    const key = tableKey(table);
    if (!this.#watch || wasWritten(this.#watch.seen(), key, own)) return 'yes';
    return this.#others?.written(key, others) ?? 'no';
  }

  /** From now on this server begins no write. */
  hold(): void {
    const { taskId, catalogId, kind } = this.#holder;
    this.#own.hold(catalogId, taskId, kind);
  }

  /** After `hold`: resolves when no server writes, or begins to. */
  async drained(signal: AbortSignal): Promise<void> {
    await this.#others?.ask(signal, true);
    await this.#own.drained(this.#catalogId, signal);
    while (this.#others?.areWriting) {
      await pause(pollMs, undefined, { signal });
      await this.#others.ask(signal);
    }
  }

  /** What must be asserted when the work that needs the hold is done. */
  get heldBy(): number | undefined {
    return this.#others?.heldBy;
  }

  /** Writes continue, unless a move has switched. */
  async release(): Promise<void> {
    this.#own.release(this.#catalogId, this.#holder.taskId);
    await this.#others?.endHold();
  }

  /** Whether any server reads the catalog. */
  async isRead(signal: AbortSignal): Promise<boolean> {
    await this.#others?.ask(signal);
    return this.#own.isRead(this.#catalogId) || this.#others?.areReading === true;
  }

  unwatch(): void {
    this.#watch?.close();
    this.#watch = undefined;
  }

  /** The other servers need not watch any more. */
  async close(): Promise<void> {
    this.unwatch();
    await this.#others?.close();
  }
}
