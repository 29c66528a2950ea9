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

/** Clients that send again at once when they are served, and after `Retry-After` when they are refused. */
export interface CrowdJob {
  readonly kind: 'crowd';
  readonly port: number;
  readonly connections: number;
  /** The `Authorization` of each client, in turn. */
  readonly authorizations: readonly string[];
  readonly template: RequestTemplate;
  /** The status of a request that was served. */
  readonly status: number;
  readonly warmupMs: number;
  readonly durationMs: number;
}

export type Job = LoadJob | PagesJob | CrowdJob;

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

export interface CrowdResult {
  /** Requests that were served within `durationMs`. */
  readonly served: number;
  readonly refused: number;
  readonly perSecond: number;
  /** Of the attempt that was served. */
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** From the first attempt of a request, with the waits that refusals asked for. */
  readonly firstP50Ms: number;
  readonly firstP99Ms: number;
  /** From the first attempt of a request until it was served, or until the end; 0 where none was refused. Counts the warm-up. */
  readonly refusedForMsMax: number;
  /** From the first connect until each connection had its first answer, be it a refusal; the warm-up begins then. */
  readonly firstAnswersMs: number;
  /** Clients of which no request was served, in the warm-up neither. */
  readonly neverServed: number;
  /** Requests served in all, with those of the warm-up and those in flight at its end: what the server has acknowledged. */
  readonly acknowledged: number;
  /** Requests without an answer when the connections were closed. */
  readonly cut: number;
  /** Processor time of the client itself, of one core. */
  readonly clientShare: number;
}

export type JobAnswer = { readonly result: LoadResult | PagesResult | CrowdResult } | { readonly error: string };
