// Records ready-serialised, so that reading a hot object costs a look-up. An entry says which objects it was made from and
// goes when one of them, or a child of one of them, changes. For one server only: several servers on one store do without.
import type { Catalog } from './catalog.ts';

/** What is kept says how large it is. */
export interface CacheEntry {
  readonly bodyBytes: number;
}

interface Entry {
  readonly value: CacheEntry;
  readonly dependsOn: readonly string[];
  readonly bytes: number;
  /** Since it was put at the end of the queue to go. */
  used: boolean;
}

/** What stands for the parent of top-level collections. */
export const rootId = 'root';

export class RecordCache {
  readonly #bytesMax: number;
  readonly #entries = new Map<string, Entry>();
  readonly #keysByObject = new Map<string, Set<string>>();
  #bytes = 0;
  /** Moves with every change: what was read before a change is not kept after it. */
  #generation = 0;

  constructor(catalog: Catalog, bytesMax: number) {
    this.#bytesMax = bytesMax;
    catalog.onChange(({ objectId, parentId, deep }) => {
      if (deep) this.#clear();
      else this.forget(objectId, parentId);
    });
  }

  /** The record of an object shows something that has changed. */
  forget(objectId: string, parentId: string | null): void {
    this.#generation++;
    this.#drop(objectId);
    this.#drop(parentId ?? rootId);
  }

  get(key: string): CacheEntry | undefined {
    const entry = this.#entries.get(key);
    if (!entry) return undefined;
    entry.used = true;
    return entry.value;
  }

  /** What `make` makes, kept unless something changed meanwhile. */
  async getOrLoad<T extends CacheEntry>(
    key: string,
    make: () => Promise<{ readonly value: T; readonly dependsOn: readonly string[] }>,
  ): Promise<T> {
    const since = this.generation;
    const { value, dependsOn } = await make();
    this.add(key, value, dependsOn, since);
    return value;
  }

  /** A moment, for `add`. */
  get generation(): number {
    return this.#generation;
  }

  /** Keeps what was read after the moment `since`, unless something changed from then on. */
  add(key: string, value: CacheEntry, dependsOn: readonly string[], since: number): void {
    if (since === this.#generation) this.#set(key, value, dependsOn);
  }

  #set(key: string, value: CacheEntry, dependsOn: readonly string[]): void {
    const bytes = value.bodyBytes + key.length + 200 + dependsOn.length * 100;
    if (bytes > this.#bytesMax / 4) return;
    this.#remove(key);
    this.#entries.set(key, { value, dependsOn, bytes, used: false });
    this.#bytes += bytes;
    for (const id of dependsOn) {
      const keys = this.#keysByObject.get(id);
      if (keys) keys.add(key);
      else this.#keysByObject.set(id, new Set([key]));
    }
    if (this.#bytes > this.#bytesMax) this.#shrink();
  }

  /**
   * The first goes, unless it was used: then it goes to the end, once. To move an entry at each use instead would make the
   * map a new table every few uses, and the chain of these survives until the next full collection of garbage.
   */
  #shrink(): void {
    for (const [key, entry] of this.#entries) {
      if (this.#bytes <= this.#bytesMax) return;
      if (entry.used) {
        entry.used = false;
        this.#entries.delete(key);
        this.#entries.set(key, entry);
      } else this.#remove(key);
    }
  }

  #drop(objectId: string): void {
    const keys = this.#keysByObject.get(objectId);
    if (keys) for (const key of [...keys]) this.#remove(key);
  }

  #remove(key: string): void {
    const entry = this.#entries.get(key);
    if (!entry) return;
    this.#entries.delete(key);
    this.#bytes -= entry.bytes;
    for (const id of entry.dependsOn) {
      const keys = this.#keysByObject.get(id);
      keys?.delete(key);
      if (keys?.size === 0) this.#keysByObject.delete(id);
    }
  }

  #clear(): void {
    this.#generation++;
    this.#entries.clear();
    this.#keysByObject.clear();
    this.#bytes = 0;
  }
}
