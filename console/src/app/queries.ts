// How the console reads the API: TanStack Query over the typed client. Keys begin with the category, then names from the outside in:
// ['tables', catalog, database, table]. The client retries by itself, so the query client does not.
import { QueryClient, useInfiniteQuery } from '@tanstack/react-query';
import type { Page } from '../../../src/client/index.ts';

const freshMs = 10_000;

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: { retry: false, staleTime: freshMs, refetchOnWindowFocus: true, networkMode: 'always' },
    mutations: { retry: false, networkMode: 'always' },
  },
});

interface Paged<T> {
  page(pageToken?: string): Promise<Page<T>>;
}

interface PagesOptions {
  readonly isEnabled?: boolean;
  /** For lists that change by themselves: how often the first page is read again; with more pages, all of them less often. */
  readonly refetchEveryMs?: number;
}

/** A list or a search of the client, page by page. `fetchList` is called with a signal for each page. */
export function usePages<T>(
  key: readonly unknown[],
  fetchList: (signal: AbortSignal) => Paged<T>,
  { isEnabled = true, refetchEveryMs }: PagesOptions = {},
) {
  const query = useInfiniteQuery({
    queryKey: key,
    enabled: isEnabled,
    refetchInterval: ({ state }) => refetchEveryMs !== undefined && refetchEveryMs * (state.data?.pages.length ?? 1),
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam, signal }) => fetchList(signal).page(pageParam),
    getNextPageParam: ({ nextPageToken }: Page<T>) => nextPageToken,
    select: ({ pages }) => pages.flatMap(({ items }) => items),
  });
  return { ...query, items: query.data };
}
