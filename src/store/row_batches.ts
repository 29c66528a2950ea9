// Reads rows whose texts can be large in batches of a bounded size, however many rows are requested. Their sizes are read first, for
// which the database does not read the texts.
import { type SelectQueryBuilder, sql } from 'kysely';

/** The maximum size of the texts of a batch; a single row can be larger. */
const batchBytesMax = 8 * 1024 * 1024;

/** Rows, fewer than requested where they are large. `hasMore`: whether others follow; there is at least one then. */
export interface Batch<T> {
  readonly items: readonly T[];
  readonly hasMore: boolean;
}

/** The bytes of the texts of a row. */
export const bytesOf = (columns: readonly string[]) =>
  sql<number>`${sql.join(
    columns.map((column) => sql`coalesce(octet_length(${sql.ref(column)}), 0)`),
    sql` + `,
  )}`;

/** How many of the first rows, of which there are at most `limit`, are read at once. */
export function countOfBatch(sizes: readonly { readonly bytes: number }[], limit: number): number {
  let total = 0;
  for (const [count, { bytes }] of sizes.entries()) {
    total += bytes;
    if (count === limit || (total > batchBytesMax && count > 0)) return count;
  }
  return sizes.length;
}

/** The first rows of a sorted query without a limit: at most `limit`. `columns`: those with texts that can be large. */
export async function readBatch<DB, TB extends keyof DB, O>(
  query: SelectQueryBuilder<DB, TB, O>,
  columns: readonly string[],
  limit: number,
): Promise<Batch<O>> {
  for (;;) {
    const sizes = await query
      .clearSelect()
      .select(bytesOf(columns).as('bytes'))
      .limit(limit + 1)
      .$castTo<{ readonly bytes: number }>()
      .execute();
    const count = countOfBatch(sizes, limit);
    const items = count === 0 ? [] : await query.limit(count).execute();
    const hasMore = sizes.length > count;
    // Otherwise, the rows were deleted meanwhile.
    if (items.length > 0 || !hasMore) return { items, hasMore };
  }
}

interface FilteredRows<P, T extends P> {
  readonly read: (after: P | undefined) => Promise<Batch<T>>;
  readonly fits: (item: T) => boolean;
  readonly sizeOf: (item: T) => number;
}

/** Of the rows that fit a filter which the database does not apply. `read`: the batch after a row; `sizeOf`: bytes of a row, about. */
export async function readFiltered<P, T extends P>(
  { read, fits, sizeOf }: FilteredRows<P, T>,
  after: P | undefined,
  limit: number,
): Promise<Batch<T>> {
  const found: T[] = [];
  let bytes = 0;
  for (let last = after; ; ) {
    const { items, hasMore } = await read(last);
    for (const item of items) {
      if (!fits(item)) continue;
      bytes += sizeOf(item);
      if (found.length === limit || (bytes > batchBytesMax && found.length > 0)) return { items: found, hasMore: true };
      found.push(item);
    }
    if (!hasMore) return { items: found, hasMore };
    last = items.at(-1);
  }
}
