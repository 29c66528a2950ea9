// Records when the rows of each table last changed. DuckDB plans a statement with the minimum and maximum values of its tables, and
// reruns a prepared plan without checking for later writes: with values outside that range its results are wrong, or it crashes. So a
// prepared plan is reused only if nothing was written to its tables since it was made.
import type { TableName } from '../../port/refs.ts';

/** Beyond this many tables the record is cleared, and all tables count as changed. */
const trackedTablesMax = 100_000;

const keyOf = ({ catalog, database, table }: TableName) => JSON.stringify([catalog, database, table]).toLowerCase();

export interface WriteVersions {
  readonly data: DataVersions;
  /** Changes that deleted or updated rows, and inserts that failed. */
  readonly removals: DataVersions;
}

/** Records an insert into the table. If the insert is retried, call this for each attempt. */
export function trackInsert<T>(
  { data, removals }: WriteVersions,
  table: TableName,
  attempt: () => Promise<T>,
): Promise<T> {
  return removals.trackFailedWrites([table], () => data.trackWrites([table], attempt));
}

export class DataVersions {
  #version = 0;
  #floor = 0;
  readonly #versions = new Map<string, number>();
  readonly #writing = new Map<string, number>();

  /** The version of the last change of any of the tables; undefined while one of them is being written. */
  latestOf(tables: readonly TableName[]): number | undefined {
    let latest = this.#floor;
    for (const table of tables) {
      const key = keyOf(table);
      if (this.#writing.has(key)) return undefined;
      latest = Math.max(latest, this.#versions.get(key) ?? 0);
    }
    return latest;
  }

  /** Runs `work`, which writes to some or all of the tables. */
  async trackWrites<T>(tables: readonly TableName[], work: () => Promise<T>): Promise<T> {
    const keys = tables.map(keyOf);
    for (const key of keys) this.#writing.set(key, (this.#writing.get(key) ?? 0) + 1);
    try {
      return await work();
    } finally {
      this.#version++;
      for (const key of keys) {
        this.#versions.set(key, this.#version);
        const writers = (this.#writing.get(key) ?? 0) - 1;
        if (writers > 0) this.#writing.set(key, writers);
        else this.#writing.delete(key);
      }
      if (this.#versions.size > trackedTablesMax) this.markAllChanged();
    }
  }

  /** Like `trackWrites`, but records a change only if `work` fails: failed work may have left changes behind. */
  async trackFailedWrites<T>(tables: readonly TableName[], work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      await this.trackWrites(tables, async () => undefined);
      throw error;
    }
  }

  markAllChanged(): void {
    this.#versions.clear();
    this.#floor = ++this.#version;
  }
}
