// The messages between load.ts and the load generator (generator.ts): jobs and their results.

export interface RequestTemplate {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** `{n}` is replaced by the number of the request, here, in `bodies` and in `headers`; `{name}` by the number padded to six digits. */
  readonly path: string;
  /** Several bodies are used in rotation. */
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
  /** Longer, if no request that was sent after the warm-up has been answered by then. */
  readonly durationMs: number;
  readonly status: number;
  /** With its own core, the generator polls instead of sleeping. */
  readonly awake?: boolean;
}

/** Reads all pages of a query's result on one connection. */
export interface PagesJob {
  readonly kind: 'pages';
  readonly port: number;
  readonly path: string;
  readonly token: string;
  readonly body: string;
}

/** Clients that send again immediately when they are served, and after `Retry-After` when they are refused. */
export interface CrowdJob {
  readonly kind: 'crowd';
  readonly port: number;
  readonly connections: number;
  /** The `Authorization` of the clients, in rotation. */
  readonly authorizations: readonly string[];
  readonly template: RequestTemplate;
  /** The status of a served request. */
  readonly status: number;
  readonly warmupMs: number;
  readonly durationMs: number;
}

/** A fixed number of requests of several kinds, spread over servers. */
export interface MixedJob {
  readonly kind: 'mixed';
  /** The same kinds of requests for each server. */
  readonly targets: readonly {
    readonly port: number;
    /** Request n is the one at n modulo their number. */
    readonly requests: readonly { readonly template: RequestTemplate; readonly status: number }[];
  }[];
  /** To each server. */
  readonly connections: number;
  /** The number of the first request. */
  readonly first: number;
  readonly count: number;
}

export type Job = LoadJob | PagesJob | CrowdJob | MixedJob;

export interface LoadResult {
  readonly requests: number;
  /** Including those of the warm-up. */
  readonly answered: number;
  /** Of heads and bodies. */
  readonly bytes: number;
  readonly elapsedMs: number;
  readonly perSecond: number;
  readonly megabytesPerSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Where the next job with `order: once` continues. */
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
  /** The latency of the attempt that was served. */
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** From the first attempt of a request, including the waits that refusals requested. */
  readonly firstP50Ms: number;
  readonly firstP99Ms: number;
  /** From the first attempt of a request until it was served, or until the end; 0 if none was refused. Includes the warm-up. */
  readonly refusedForMsMax: number;
  /** From the first connect until each connection has had its first response, even a refusal; then the warm-up begins. */
  readonly firstAnswersMs: number;
  /** Clients that were never served, not even in the warm-up. */
  readonly neverServed: number;
  /** All served requests, including those of the warm-up and those in flight at its end: what the server has acknowledged. */
  readonly acknowledged: number;
  /** Requests without a response when the connections were closed. */
  readonly cut: number;
  /** Processor time of the client itself, on one core. */
  readonly clientShare: number;
}

export interface MixedResult {
  readonly requests: number;
  readonly elapsedMs: number;
  /** Where the next job continues. */
  readonly next: number;
}

export type JobResult = LoadResult | PagesResult | CrowdResult | MixedResult;

export type JobAnswer = { readonly result: JobResult } | { readonly error: string };
