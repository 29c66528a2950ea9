// A list or a search: fetched page by page while it is read.

export interface Page<T> {
  readonly items: readonly T[];
  readonly nextPageToken?: string | undefined;
}

type FetchPage<T> = (pageToken: string | undefined) => Promise<Page<T>>;

const firstPagesMax = 10;

export class List<T> implements AsyncIterable<T> {
  readonly #fetchPage: FetchPage<T>;

  constructor(fetchPage: FetchPage<T>) {
    this.#fetchPage = fetchPage;
  }

  /** Returns one page: the first, or the one that the `nextPageToken` of a page identifies. */
  page(pageToken?: string): Promise<Page<T>> {
    return this.#fetchPage(pageToken);
  }

  /** The first `count` items, from at most 10 pages: a page of a search can have fewer than its `pageSize`, or none. */
  async first(count: number): Promise<T[]> {
    const items: T[] = [];
    let token: string | undefined;
    for (let pages = 0; pages < firstPagesMax; pages++) {
      const page = await this.#fetchPage(token);
      items.push(...page.items);
      token = page.nextPageToken;
      if (items.length >= count || token === undefined) break;
    }
    return items.slice(0, count);
  }

  /** All items in an array; for lists that are known to be short. */
  async all(): Promise<T[]> {
    const items: T[] = [];
    for await (const item of this) items.push(item);
    return items;
  }

  async *[Symbol.asyncIterator](): AsyncIterator<T> {
    let token: string | undefined;
    do {
      const page = await this.#fetchPage(token);
      yield* page.items;
      token = page.nextPageToken;
    } while (token !== undefined);
  }
}
