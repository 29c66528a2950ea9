// The bytes of what is retained of one principal after it has ended, such as tasks and statements: beyond a limit, the oldest rows are
// removed. Counted at the first row that a process writes and after each eighth of the limit, because counting reads the sizes of all rows.

/** Of the tasks, or the statements in the history, of one principal. */
export const retainedBytesMax = 256 * 1024 * 1024;
/** Rows occupy so much besides their texts, about. */
const rowBytes = 512;
const checksPerLimit = 8;
const rowsPerRead = 1000;

export interface RetainedRows {
  /** Of at most `limit` rows of the owner, newest first, those after a key. */
  readonly sizes: (
    owner: string,
    after: string | undefined,
    limit: number,
  ) => Promise<readonly { readonly key: string; readonly bytes: number }[]>;
  /** Removes the row and those that are older. */
  readonly removeFrom: (owner: string, key: string) => Promise<void>;
}

export class RetainedBytes {
  readonly #bytesMax: number;
  readonly #rows: RetainedRows;
  /** What was written since the last check, by owner. */
  readonly #unchecked = new Map<string, number>();

  constructor(bytesMax: number, rows: RetainedRows) {
    this.#bytesMax = bytesMax;
    this.#rows = rows;
  }

  /** Call it after a row was written; `bytes`: of its texts. */
  async written(owner: string, bytes: number): Promise<void> {
    const unchecked = (this.#unchecked.get(owner) ?? this.#bytesMax) + bytes + rowBytes;
    if (unchecked < this.#bytesMax / checksPerLimit) {
      this.#unchecked.set(owner, unchecked);
      return;
    }
    this.#unchecked.set(owner, 0);
    const key = await this.#firstBeyond(owner);
    if (key !== undefined) await this.#rows.removeFrom(owner, key);
  }

  async #firstBeyond(owner: string): Promise<string | undefined> {
    let total = 0;
    for (let after: string | undefined; ; ) {
      const rows = await this.#rows.sizes(owner, after, rowsPerRead);
      for (const { key, bytes } of rows) {
        total += bytes + rowBytes;
        if (total > this.#bytesMax) return key;
      }
      if (rows.length < rowsPerRead) return undefined;
      after = rows.at(-1)?.key;
    }
  }
}
