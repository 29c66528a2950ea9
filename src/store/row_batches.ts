// Reads rows whose texts can be large in batches of a bounded size, however many rows are requested. Their sizes are read first, for
// which the database does not read the texts, and then the rows by their keys, so that conditions are not evaluated on all rows again.
import { type SelectQueryBuilder, sql } from 'kysely';

/** The maximum size of the texts of a batch; a single row can be larger. */
export const batchBytesMax = 8 * 1024 * 1024;

/** Rows, fewer than requested where they are large. `hasMore`: whether others follow; there is at least one then, or `examined`. */
export interface Batch<T, K = string> {
  readonly items: readonly T[];
  readonly hasMore: boolean;
  /** The key of the row after which others follow, if a search ended before it had found as many as requested. */
  readonly examined?: K | undefined;
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

/** The first rows of a sorted query without a limit: at most `limit`. `texts`: the columns that can be large. */
export async function readBatch<DB, TB extends keyof DB, O>(
  query: SelectQueryBuilder<DB, TB, O>,
  { key, texts }: { readonly key: string; readonly texts: readonly string[] },
  limit: number,
): Promise<Batch<O, never>> {
  const keyColumn = sql.ref<string>(key);
  for (;;) {
    const sizes = await query
      .clearSelect()
      .select([keyColumn.as('key'), bytesOf(texts).as('bytes')])
      .limit(limit + 1)
      .$castTo<{ readonly key: string; readonly bytes: number }>()
      .execute();
    const count = countOfBatch(sizes, limit);
    const keys = sizes.slice(0, count).map((row) => row.key);
    const items = count === 0 ? [] : await query.where((e) => e(keyColumn, 'in', keys)).execute();
    const hasMore = sizes.length > count;
    // Otherwise, the rows were deleted meanwhile.
    if (items.length > 0 || !hasMore) return { items, hasMore };
  }
}
