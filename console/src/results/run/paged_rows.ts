// The rows of a result in the worker: pages that are fetched when rows of them are needed, in any order, also while later ones are
// computed. The pages used last are held; all of them once every row was needed.
import type { Query, ResultPage, Value } from '../../../../src/client/index.ts';

export type Rows = readonly (readonly Value[])[];

/** A page has about 8 MiB of JSON. */
const heldPagesMax = 24;

export class PagedRows {
  readonly #query: Query;
  readonly #onFetched: (rows: number) => void;
  /** In the order of their last use. */
  readonly #held = new Map<number, Promise<Rows>>();
  #pages: readonly ResultPage[] = [];
  /** Every row, once all were needed. */
  #all: Rows | undefined;
  #fetchingAll: Promise<Rows> | undefined;

  constructor(query: Query, onFetched: (rows: number) => void) {
    this.#query = query;
    this.#onFetched = onFetched;
  }

  /** Of the pages that were complete at the last look. */
  get rowCount(): number {
    const last = this.#pages.at(-1);
    return last ? last.firstRow + last.rowCount : 0;
  }

  /** Takes the first page, which has come with the answer. */
  async begin(): Promise<void> {
    const { length } = await this.#page(0);
    this.#pages = [{ page: 0, firstRow: 0, rowCount: length }];
  }

  /** Looks which pages are complete. */
  async refresh(): Promise<void> {
    const pages = await this.#query.pages();
    if (pages.length > this.#pages.length) this.#pages = pages;
  }

  /** Those of the rows that are complete. */
  async slice(from: number, to: number): Promise<Rows> {
    if (this.#all) return this.#all.slice(from, to);
    const needed = this.#pages.filter(({ firstRow, rowCount }) => firstRow < to && firstRow + rowCount > from);
    const parts = await Promise.all(
      needed.map(async ({ page, firstRow }) =>
        (await this.#page(page)).slice(Math.max(0, from - firstRow), to - firstRow),
      ),
    );
    return parts.length === 1 ? (parts[0] as Rows) : parts.flat();
  }

  /** Every row of a complete result. */
  all(): Promise<Rows> {
    this.#fetchingAll ??= this.#fetchAll().finally(() => {
      this.#fetchingAll = undefined;
    });
    return this.#fetchingAll;
  }

  async #fetchAll(): Promise<Rows> {
    if (this.#all) return this.#all;
    const all: (readonly Value[])[] = [];
    for await (const rows of this.inPages()) {
      for (const row of rows) all.push(row);
      this.#onFetched(all.length);
    }
    this.#all = all;
    this.#held.clear();
    return all;
  }

  /** The pages of a complete result, one after the other. */
  async *inPages(): AsyncGenerator<Rows> {
    for (const { page, firstRow, rowCount } of this.#pages)
      yield this.#all?.slice(firstRow, firstRow + rowCount) ?? (await this.#page(page));
  }

  clear(): void {
    this.#held.clear();
    this.#all = undefined;
    this.#pages = [];
  }

  #page(page: number): Promise<Rows> {
    const rows = this.#held.get(page) ?? this.#query.page(page);
    this.#held.delete(page);
    this.#held.set(page, rows);
    rows.catch(() => this.#held.delete(page));
    for (const oldest of this.#held.keys()) {
      if (this.#held.size <= heldPagesMax) break;
      this.#held.delete(oldest);
    }
    return rows;
  }
}
