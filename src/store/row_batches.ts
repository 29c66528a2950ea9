// Reads rows whose texts can be large in batches of a bounded size, however many rows are requested. Their sizes are read first, for
// which the database does not read the texts, and then the rows up to the last of them.
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
function countOfBatch(sizes: readonly { readonly bytes: number }[], limit: number): number {
  let total = 0;
  for (const [count, { bytes }] of sizes.entries()) {
    total += bytes;
    if (count === limit || (total > batchBytesMax && count > 0)) return count;
  }
  return sizes.length;
}

/** How a query is sorted, and which of its columns can be large. */
interface BatchForm {
  /** The column by which it is sorted; its values are unique in the result. */
  readonly key: string;
  readonly isDescending?: boolean;
  readonly texts: readonly string[];
}

/** The first rows of a sorted query without a limit: at most `limit`. */
export async function readBatch<DB, TB extends keyof DB, O>(
  query: SelectQueryBuilder<DB, TB, O>,
  { key, isDescending = false, texts }: BatchForm,
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
    const end = sizes[count - 1]?.key;
    if (end === undefined) return { items: [], hasMore: false };
    // A range, for which the same index serves. It can have rows that were inserted meanwhile.
    const rows = await query.where((e) => e(keyColumn, isDescending ? '>=' : '<=', end)).execute();
    const items = rows.slice(0, limit);
    const hasMore = sizes.length > count || rows.length > limit;
    // Otherwise, the rows were deleted meanwhile.
    if (items.length > 0 || !hasMore) return { items, hasMore };
  }
}
