// The pages of lists and searches: at most as many records as requested, and at most 8 MiB of them, whatever they contain. A page that
// ends earlier has the token of the next one.
import type { Input, Listed } from '../../standard/endpoint.ts';
import { listBytesMax } from '../../standard/page_limits.ts';
import { JsonText, ReadyRecord } from '../../standard/record_body.ts';
import type { Batch } from '../../store/row_batches.ts';
import { listed } from './outcomes.ts';

export type Page = Input<unknown, unknown>['page'];

/** Reads the items after a key, in the order of the keys: at most `limit`, fewer where they are large. A search can end the page. */
export type Read<T> = (after: string | undefined, limit: number) => Promise<Batch<T>>;

type Show<T, R extends object> = (item: T) => Shown<R> | Promise<Shown<R>>;
/** A record, also one that is already serialized; undefined for what the caller may not see. */
export type Shown<R extends object> = R | ReadyRecord | undefined;

/** `key`: of an item, after which the next page continues. */
export async function pageOf<T, R extends object>(
  page: Page,
  key: keyof T | ((item: T) => string),
  read: Read<T>,
  show: Show<T, R>,
): Promise<Listed<R>> {
  const { texts, next } = await textsOf(page, key, read, show);
  return listed(
    texts.map((text) => new JsonText<R>(text)),
    next,
  );
}

/** The texts of the records. */
export async function textsOf<T, R extends object>(
  { after, limit }: Page,
  key: keyof T | ((item: T) => string),
  read: Read<T>,
  show: Show<T, R>,
): Promise<{ readonly texts: readonly string[]; readonly next?: string | undefined }> {
  const keyOf = typeof key === 'function' ? key : (item: T) => String(item[key]);
  const texts: string[] = [];
  let bytes = 0;
  let last = after;
  for (;;) {
    const { items, hasMore, examined } = await read(last, limit - texts.length);
    // Together, so that what they look up is read in one statement.
    const shown = await Promise.all(items.map(async (item) => textOf(await show(item))));
    for (const [i, item] of items.entries()) {
      const text = shown[i];
      bytes += text === undefined ? 0 : Buffer.byteLength(text);
      if (bytes > listBytesMax && texts.length > 0) return { texts, next: last };
      if (text !== undefined) texts.push(text);
      last = keyOf(item);
    }
    if (!hasMore) return { texts };
    if (examined !== undefined) return { texts, next: examined };
    if (texts.length === limit) return { texts, next: last };
  }
}

function textOf(record: object | undefined): string | undefined {
  if (record instanceof ReadyRecord) return record.recordText;
  return record === undefined ? undefined : JSON.stringify(record);
}

/** Of items that are in memory: those after the key of the page, sorted. */
export function inMemory<T>(sorted: readonly T[]): Read<T> {
  let read = 0;
  return async (_after, limit) => {
    const items = sorted.slice(read, read + limit);
    read += items.length;
    return { items, hasMore: read < sorted.length };
  };
}

/** Of small rows: `list` returns at most `limit`. */
export const smallRows =
  <T>(list: (page: Page) => Promise<readonly T[]>): Read<T> =>
  async (after, limit) => {
    const rows = await list({ limit: limit + 1, ...(after === undefined ? {} : { after }) });
    return { items: rows.slice(0, limit), hasMore: rows.length > limit };
  };
