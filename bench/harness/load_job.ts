// What a load generator is asked to do and what it answers: the language between load.ts (asks) and generator.ts (does).

export interface RequestTemplate {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** `{n}` stands for the number of the request, here, in `bodies` and in `headers`; `{name}` for the number padded to six digits. */
  readonly path: string;
  /** Several: the n-th request sends the (n modulo how many)-th. */
  readonly bodies?: readonly string[];
  readonly headers: Readonly<Record<string, string>>;
}

export interface LoadJob {
  readonly kind: 'load';
  readonly port: number;
  readonly connections: number;
  readonly template: RequestTemplate;
  /** Numbers are drawn from 0 to `count` - 1. `once`: each at most once, from `first` on. */
  readonly order: 'cycle' | 'random' | 'once';
  readonly first?: number;
  readonly count: number;
  readonly seed?: number;
  readonly warmupMs: number;
  readonly durationMs: number;
  readonly status: number;
  /** On a core of its own, the generator polls instead of sleeping. */
  readonly awake?: boolean;
}

/** Reads a whole result of a query, page after page on one connection. */
export interface PagesJob {
  readonly kind: 'pages';
  readonly port: number;
  readonly path: string;
  readonly token: string;
  readonly body: string;
}

export type Job = LoadJob | PagesJob;

export interface LoadResult {
  readonly requests: number;
  /** With those of the warm-up. */
  readonly answered: number;
  /** Of heads and bodies. */
  readonly bytes: number;
  readonly elapsedMs: number;
  readonly perSecond: number;
  readonly megabytesPerSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Where `order: once` is to go on. */
  readonly next: number;
}

export interface PagesResult {
  readonly pages: number;
  /** Of heads and bodies. */
  readonly bytes: number;
  readonly elapsedMs: number;
  readonly firstPageMs: number;
}

export type JobAnswer = { readonly result: LoadResult | PagesResult } | { readonly error: string };
