// How the console reads the API: TanStack Query over the typed client. Keys begin with the category, then names from the outside in:
// ['tables', catalog, database, table]. The client retries by itself, so the query client does not.
import { QueryCache, QueryClient, useInfiniteQuery } from '@tanstack/react-query';
import { errors, type Page } from '../../../src/client/index.ts';
import { onReconnect, probeServer } from './connection.ts';

const freshMs = 10_000;

const isUnanswered = (error: unknown): boolean => error instanceof errors.NO_ANSWER;

export const queryClient = new QueryClient({
  queryCache: new QueryCache({ onError: (error) => void (isUnanswered(error) && probeServer()) }),
  defaultOptions: {
    queries: { retry: false, staleTime: freshMs, refetchOnWindowFocus: true, networkMode: 'always' },
    mutations: { retry: false, networkMode: 'always' },
  },
});

onReconnect(
  () => void queryClient.refetchQueries({ type: 'active', predicate: ({ state }) => isUnanswered(state.error) }),
);

/**
 * Why a page cannot be shown; null if it can. What was read before stays on the page while the server does not answer, which the frame
 * says, and after the sign-in has expired: a page that is replaced by the failure loses its open forms.
 */
export function failureOf<E>({ data, error }: { readonly data: unknown; readonly error: E | null }): E | null {
  const isKept = data !== undefined && (isUnanswered(error) || error instanceof errors.UNAUTHENTICATED);
  return isKept ? null : error;
}

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
  return { ...query, items: query.data, error: failureOf(query) };
}
