// The lifecycle of one statement, from submission to end, as reported to the history and the metrics. Runs nothing.
import type { StatementAnalysis, StatementResult } from '../../engines/port/statements.ts';
import type { Observe } from '../../observe/observations.ts';
import { Failure } from '../../standard/failure.ts';
import type { QueryHistory } from './history.ts';
import type { QueryEntry } from './history_entry.ts';

export interface QueryStatistics {
  /** Time in the engine, analysis included. */
  readonly elapsedMs: number;
  /** Time in the queue of the warehouse. */
  readonly queuedMs: number;
  readonly resultBytes: number;
}

/** The facts that are known when a statement is submitted. */
export type Submitted = Pick<
  QueryEntry,
  'queryId' | 'sql' | 'warehouse' | 'catalog' | 'database' | 'submittedBy' | 'owner' | 'taskId'
>;

const roundToMicroseconds = (ms: number) => Math.round(ms * 1000) / 1000;

export class QueryLifecycle {
  readonly #history: QueryHistory;
  readonly #observe: Observe;
  #submitted: Submitted;
  readonly #queuedAt = performance.now();
  #startedAt: number | undefined;
  #queuedMs: number | undefined;
  #kind: StatementAnalysis['kind'] | undefined;

  /** `cancel`: called when the statement is cancelled through the history. */
  constructor(
    parts: { readonly history: QueryHistory; readonly observe: Observe },
    submitted: Submitted,
    cancel: () => void,
  ) {
    this.#history = parts.history;
    this.#observe = parts.observe;
    this.#submitted = submitted;
    const emptyOutcome = {
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
    this.#history.begin({ ...submitted, ...emptyOutcome, state: 'queued', submittedAt: Date.now() }, cancel);
  }

  /** Undefined until the statement is analyzed. */
  get kind(): StatementAnalysis['kind'] | undefined {
    return this.#kind;
  }

  analysed(kind: StatementAnalysis['kind']): void {
    this.#kind = kind;
    this.#history.update(this.#submitted.queryId, { kind });
  }

  /** The statement leaves the queue of its warehouse. */
  begin(queuedMs: number): void {
    this.#startedAt = performance.now();
    this.#queuedMs = roundToMicroseconds(queuedMs);
    this.#history.update(this.#submitted.queryId, {
      state: 'running',
      startedAt: Date.now(),
      queuedMs: this.#queuedMs,
    });
  }

  /** The catalog of the statement was moved to another warehouse, where it runs now. */
  moved(warehouse: string): void {
    this.#submitted = { ...this.#submitted, warehouse };
    this.#history.update(this.#submitted.queryId, { warehouse, state: 'queued', startedAt: null });
  }

  /** The statistics of a statement that still runs. */
  soFar(resultBytes: number): QueryStatistics {
    return { elapsedMs: this.#elapsedMs(), queuedMs: this.#queuedMs ?? 0, resultBytes };
  }

  #elapsedMs(): number {
    return this.#startedAt === undefined ? 0 : roundToMicroseconds(performance.now() - this.#startedAt);
  }

  succeeded({ rows, rowCount, files, plan }: StatementResult): QueryStatistics {
    const fileBytes = files?.entries.reduce((sum, { bytes }) => sum + bytes, 0);
    const resultBytes = fileBytes ?? (rows.kind === 'text' ? rows.text.length : (rows.offsets.at(-1) ?? 0));
    const times = this.#end({ state: 'succeeded', rowCount, resultBytes, plan: plan ?? null }, '0', rowCount);
    return { ...times, resultBytes };
  }

  /** Returns the error to throw; a Failure carries the id of the query. */
  failed(error: unknown): unknown {
    const isFailure = error instanceof Failure;
    const errorCode = isFailure ? error.code : 'INTERNAL_ERROR';
    const errorMessage = isFailure ? error.message : 'an unexpected error of the service';
    const state = errorCode === 'STATEMENT_CANCELLED' ? 'cancelled' : 'failed';
    this.#end({ state, errorCode, errorMessage }, errorCode, 0);
    if (!isFailure) return error;
    const { code, message, result, retryAfterSeconds, outcome, cause } = error;
    const resultWithId = { ...result, queryId: this.#submitted.queryId };
    return new Failure(code, message, resultWithId, { cause, retryAfterSeconds, outcome });
  }

  #end(change: Partial<QueryEntry>, code: string, rowCount: number): { elapsedMs: number; queuedMs: number } {
    const { queryId, warehouse } = this.#submitted;
    const elapsedMs = this.#elapsedMs();
    const times = { elapsedMs, queuedMs: this.#queuedMs ?? roundToMicroseconds(performance.now() - this.#queuedAt) };
    this.#history.end(queryId, { kind: this.kind ?? null, endedAt: Date.now(), ...times, ...change });
    const statement = this.kind ?? 'unknown';
    this.#observe({ kind: 'queryEnded', queryId, warehouse, statement, code, ...times, rowCount });
    return times;
  }
}
