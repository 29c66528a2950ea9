// When rows of which tables last changed. DuckDB plans a statement with the smallest and largest values that its tables hold, and
// runs a prepared plan again without a look at what came since: beyond those values its answers are wrong, or it crashes. So a
// plan is used again only where nothing was written to its tables meanwhile.
import type { TableName } from '../../engine.ts';

/** Past this many tables the exact record is given up: all count as changed. */
const remembered = 100_000;

const keyOf = ({ catalog, database, table }: TableName) => JSON.stringify([catalog, database, table]).toLowerCase();

export interface WriteVersions {
  readonly data: DataVersions;
  /** Of rows that were deleted or updated, or whose write failed. */
  readonly removals: DataVersions;
}

/** `attempt` inserts into the table, once: where it is retried, each attempt must be noted. */
export function inserting<T>(
  { data, removals }: WriteVersions,
  table: TableName,
  attempt: () => Promise<T>,
): Promise<T> {
  return removals.unlessFailed([table], () => data.writing([table], attempt));
}

export class DataVersions {
  #epoch = 0;
  #floor = 0;
  readonly #changedAt = new Map<string, number>();
  readonly #writing = new Map<string, number>();

  /** The last change of any of the tables; undefined while one of them is being written. */
  of(tables: readonly TableName[]): number | undefined {
    let latest = this.#floor;
    for (const table of tables) {
      const key = keyOf(table);
      if (this.#writing.has(key)) return undefined;
      latest = Math.max(latest, this.#changedAt.get(key) ?? 0);
    }
    return latest;
  }

  /** `work` writes to the tables, or to some of them. */
  async writing<T>(tables: readonly TableName[], work: () => Promise<T>): Promise<T> {
    const keys = tables.map(keyOf);
    for (const key of keys) this.#writing.set(key, (this.#writing.get(key) ?? 0) + 1);
    try {
      return await work();
    } finally {
      this.#epoch++;
      for (const key of keys) {
        this.#changedAt.set(key, this.#epoch);
        const left = (this.#writing.get(key) ?? 0) - 1;
        if (left > 0) this.#writing.set(key, left);
        else this.#writing.delete(key);
      }
      if (this.#changedAt.size > remembered) this.changedAll();
    }
  }

  /** As `writing`, where only work that failed counts: it may have left something. */
  async unlessFailed<T>(tables: readonly TableName[], work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      await this.writing(tables, async () => undefined);
      throw error;
    }
  }

  changedAll(): void {
    this.#changedAt.clear();
    this.#floor = ++this.#epoch;
  }
}
