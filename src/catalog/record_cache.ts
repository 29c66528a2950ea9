// A cache of serialized records, so that reading a hot object costs one look-up. An entry lists the objects it depends on and is removed
// when one of them, or a child of one of them, changes.
import type { ChangeFeed } from '../store/changes/change_feed.ts';

/** A cached value with its size. */
export interface CacheEntry {
  readonly bodyBytes: number;
}

interface Entry {
  readonly value: CacheEntry;
  readonly dependsOn: readonly string[];
  readonly bytes: number;
  /** Whether it was read since it was last moved to the end of the eviction queue. */
  used: boolean;
}

/** Represents the parent of top-level collections. */
export const rootId = 'root';

export class RecordCache {
  readonly #bytesMax: number;
  readonly #entries = new Map<string, Entry>();
  readonly #keysByObject = new Map<string, Set<string>>();
  #bytes = 0;
  /** Incremented by every change: a value that was read before a change is not cached after it. */
  #generation = 0;

  constructor(changes: Pick<ChangeFeed, 'follow'>, bytesMax: number) {
    this.#bytesMax = bytesMax;
    changes.follow({
      changed: (change) => {
        if (change.kind !== 'object') return;
        if (change.deep) this.#clear();
        else this.forget(change.objectId, change.parentId);
      },
      reload: () => this.#clear(),
    });
  }

  /** Removes the entries that depend on an object or its parent. */
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

  /** Calls `load` and caches the result unless something changed meanwhile. Does not read the cache: see `get`. */
  async loadAndCache<T extends CacheEntry>(
    key: string,
    load: () => Promise<{ readonly value: T; readonly dependsOn: readonly string[] }>,
  ): Promise<T> {
    const since = this.generation;
    const { value, dependsOn } = await load();
    this.add(key, value, dependsOn, since);
    return value;
  }

  /** The current generation, for `add`. */
  get generation(): number {
    return this.#generation;
  }

  /** Caches a value that was read after generation `since`, unless something has changed since then. */
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
   * CLOCK eviction: the first entry is removed, unless it was used since it was queued; then it moves to the end. Moving an entry at
   * each use (LRU) would rebuild the table of the map every few uses, and these tables survive until the next full garbage collection.
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
