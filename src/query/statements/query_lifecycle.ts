// The course of one statement, from its submission to its end, as the history and the metrics are told of it. Runs nothing.
import type { StatementAnalysis, StatementResult } from '../../engines/engine.ts';
import type { Observe } from '../../observe/observations.ts';
import { Failure } from '../../standard/failure.ts';
import type { QueryEntry, QueryHistory } from './history.ts';

export interface QueryStatistics {
  /** Time in the engine, analysis included. */
  readonly elapsedMs: number;
  /** Time in the queue of the warehouse. */
  readonly queuedMs: number;
  readonly resultBytes: number;
}

/** What is known of a statement when it is submitted. */
export type Submitted = Pick<
  QueryEntry,
  'queryId' | 'sql' | 'warehouse' | 'catalog' | 'database' | 'submittedBy' | 'owner' | 'taskId'
>;

const rounded = (ms: number) => Math.round(ms * 1000) / 1000;

export class QueryLifecycle {
  readonly #history: QueryHistory;
  readonly #observe: Observe;
  readonly #submitted: Submitted;
  readonly #waitsSince = performance.now();
  #begunAt: number | undefined;
  #queuedMs: number | undefined;
  #kind: StatementAnalysis['kind'] | undefined;

  /** `cancel`: how the statement is stopped by whoever sees it in the history. */
  constructor(
    parts: { readonly history: QueryHistory; readonly observe: Observe },
    submitted: Submitted,
    cancel: () => void,
  ) {
    this.#history = parts.history;
    this.#observe = parts.observe;
    this.#submitted = submitted;
    const nothingYet = {
      kind: null,
      startedAt: null,
      endedAt: null,
      elapsedMs: null,
      queuedMs: null,
      rowCount: null,
      resultBytes: null,
      errorCode: null,
      errorMessage: null,
      plan: null,
    };
    this.#history.begin({ ...submitted, ...nothingYet, state: 'queued', submittedAt: Date.now() }, cancel);
  }

  /** What the statement does, once it is analysed. */
  get kind(): StatementAnalysis['kind'] | undefined {
    return this.#kind;
  }

  analysed(kind: StatementAnalysis['kind']): void {
    this.#kind = kind;
    this.#history.update(this.#submitted.queryId, { kind });
  }

  /** Its turn has come. */
  begin(queuedMs: number): void {
    this.#begunAt = performance.now();
    this.#queuedMs = rounded(queuedMs);
    this.#history.update(this.#submitted.queryId, {
      state: 'running',
      startedAt: Date.now(),
      queuedMs: this.#queuedMs,
    });
  }

  succeeded({ rows, rowCount, files, plan }: StatementResult): QueryStatistics {
    const inFiles = files?.entries.reduce((sum, { bytes }) => sum + bytes, 0);
    const resultBytes = inFiles ?? (rows.kind === 'text' ? rows.text.length : (rows.offsets.at(-1) ?? 0));
    const times = this.#end({ state: 'succeeded', rowCount, resultBytes, plan: plan ?? null }, '0', rowCount);
    return { ...times, resultBytes };
  }

  /** Returns what to throw: a Failure then names the query. */
  failed(error: unknown): unknown {
    const known = error instanceof Failure;
    const errorCode = known ? error.code : 'INTERNAL_ERROR';
    const errorMessage = known ? error.message : 'an unexpected error of the service';
    const state = errorCode === 'STATEMENT_CANCELLED' ? 'cancelled' : 'failed';
    this.#end({ state, errorCode, errorMessage }, errorCode, 0);
    if (!known) return error;
    const { code, message, result, retryAfterSeconds, outcome, cause } = error;
    const named = { ...result, queryId: this.#submitted.queryId };
    return new Failure(code, message, named, { cause, retryAfterSeconds, outcome });
  }

  #end(change: Partial<QueryEntry>, code: string, rowCount: number): { elapsedMs: number; queuedMs: number } {
    const { queryId, warehouse } = this.#submitted;
    const elapsedMs = this.#begunAt === undefined ? 0 : rounded(performance.now() - this.#begunAt);
    const times = { elapsedMs, queuedMs: this.#queuedMs ?? rounded(performance.now() - this.#waitsSince) };
    this.#history.end(queryId, { kind: this.kind ?? null, endedAt: Date.now(), ...times, ...change });
    const statement = this.kind ?? 'unknown';
    this.#observe({ kind: 'queryEnded', queryId, warehouse, statement, code, ...times, rowCount });
    return times;
  }
}
