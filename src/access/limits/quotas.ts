// What one principal may have at a time: statements that run, unfinished tasks, bytes of stored results, bytes of spill. Root and all
// others alike. Who runs, keeps and spills tells it here; it stops nothing but by what it was given to stop it with.
import type { Kysely } from 'kysely';
import { Failure } from '../../standard/failure.ts';
import type { Schema, TaskState } from '../../store/schema.ts';

/** 0: no cap but those that everyone shares. */
export interface QuotaSettings {
  readonly principalQueriesMax: number;
  readonly principalTasksMax: number;
  readonly principalResultBytesMax: number;
  readonly principalSpillBytesMax: number;
}

export interface QuotasOptions {
  readonly settings: QuotaSettings;
  /** The sizes of a principal's stored results by task, asked once; after that it is told. */
  readonly storedResults: (principalId: string) => Promise<Map<string, number>>;
  /** What a warehouse has spilled now, as far as is known. */
  readonly spilledBytes: (warehouse: string) => Promise<number>;
  readonly spillLookMs?: number;
}

/** To be called once, when it is over. */
export type ReleaseQuota = () => void;

interface Waiting {
  readonly begin: () => void;
}

interface RunningStatement {
  readonly principalId: string;
  readonly warehouse: string;
  readonly stop: (why: Failure) => void;
}

/** Since when one principal has a warehouse to itself: what the spill has grown by is its own. */
interface Alone {
  readonly principalId: string;
  spilledBefore: number;
}

const unfinished: readonly TaskState[] = ['pending', 'running', 'cancelling'];
const spillLookMs = 250;

export class Quotas {
  readonly #options: QuotasOptions;
  /** Statements of each principal, running or in the queue of a warehouse. */
  readonly #queries = new Map<string, number>();
  readonly #waiting = new Map<string, Set<Waiting>>();
  readonly #results = new Map<string, Promise<Map<string, number>>>();
  readonly #running = new Set<RunningStatement>();
  readonly #alone = new Map<string, Alone>();
  #timer: NodeJS.Timeout | undefined;
  #looking = false;

  constructor(options: QuotasOptions) {
    this.#options = options;
  }

  /** For a caller who waits for its answer. Throws TOO_MANY_QUERIES. */
  queryBegins(principalId: string): ReleaseQuota {
    const { principalQueriesMax } = this.#options.settings;
    const running = this.#queries.get(principalId) ?? 0;
    if (principalQueriesMax > 0 && running >= principalQueriesMax) {
      const message = `${running} statements of this principal run or wait for their warehouse, which is as many as may`;
      throw new Failure('TOO_MANY_QUERIES', message, { principalQueriesMax });
    }
    this.#queries.set(principalId, running + 1);
    return this.#endOf(principalId);
  }

  /** For a task, which has time: it waits until there is room. Throws STATEMENT_CANCELLED. */
  async queryTurn(principalId: string, signal: AbortSignal): Promise<ReleaseQuota> {
    const { principalQueriesMax } = this.#options.settings;
    if (principalQueriesMax === 0 || (this.#queries.get(principalId) ?? 0) < principalQueriesMax)
      return this.queryBegins(principalId);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const all = this.#waiting.get(principalId) ?? new Set();
    const waiting: Waiting = { begin: resolve };
    this.#waiting.set(principalId, all.add(waiting));
    const aborted = () => reject(new Failure('STATEMENT_CANCELLED', 'the statement was cancelled while it waited'));
    signal.addEventListener('abort', aborted, { once: true });
    if (signal.aborted) aborted();
    try {
      await promise;
    } catch (error) {
      // Its turn may have come in the same moment: it is the next one's then.
      if (!all.delete(waiting)) this.#endOf(principalId)();
      if (all.size === 0 && this.#waiting.get(principalId) === all) this.#waiting.delete(principalId);
      throw error;
    } finally {
      signal.removeEventListener('abort', aborted);
    }
    return this.#endOf(principalId);
  }

  /** Throws TOO_MANY_TASKS. To be asked in the transaction that adds a task. */
  async requireTaskRoom(on: Kysely<Schema>, principalId: string): Promise<void> {
    const { principalTasksMax } = this.#options.settings;
    if (principalTasksMax === 0) return;
    const { count } = await on
      .selectFrom('tasks')
      .select((e) => e.fn.countAll<number | string>().as('count'))
      .where('owner', '=', principalId)
      .where('state', 'in', unfinished)
      .executeTakeFirstOrThrow();
    if (Number(count) < principalTasksMax) return;
    const message = `${count} tasks of this principal have not ended, which is as many as may`;
    throw new Failure('TOO_MANY_TASKS', message, { principalTasksMax });
  }

  /** Throws RESULT_QUOTA_EXCEEDED where nothing more can be stored. */
  async requireResultRoom(principalId: string): Promise<void> {
    const { principalResultBytesMax } = this.#options.settings;
    if (principalResultBytesMax === 0) return;
    const stored = sum(await this.#resultsOf(principalId));
    if (stored >= principalResultBytesMax) throw quotaExceeded(principalResultBytesMax, stored, 0);
  }

  /**
   * Counts a result that is about to be stored. Throws RESULT_QUOTA_EXCEEDED, unless it is `kept` whatever its size, because what
   * the statement did is done.
   */
  async storeResult(principalId: string, taskId: string, bytes: number, kept: boolean): Promise<void> {
    const { principalResultBytesMax } = this.#options.settings;
    if (principalResultBytesMax === 0) return;
    const results = await this.#resultsOf(principalId);
    const stored = sum(results) - (results.get(taskId) ?? 0);
    if (!kept && stored + bytes > principalResultBytesMax) throw quotaExceeded(principalResultBytesMax, stored, bytes);
    results.set(taskId, bytes);
  }

  async resultRemoved(principalId: string, taskId: string): Promise<void> {
    const results = await this.#results.get(principalId);
    results?.delete(taskId);
  }

  /**
   * A statement runs in a warehouse from now on. Engines do not say whose spill is whose: what it grows by while the statements
   * of one principal run there alone is that one's, and what is more than it may have stops them all.
   */
  statementRuns(principalId: string, warehouse: string, stop: (why: Failure) => void): ReleaseQuota {
    if (this.#options.settings.principalSpillBytesMax === 0) return () => {};
    const statement = { principalId, warehouse, stop };
    this.#running.add(statement);
    this.#timer ??= setInterval(() => void this.lookAtSpill(), this.#options.spillLookMs ?? spillLookMs).unref();
    // Somebody else's growth until the next look must not be taken for this one's.
    if (this.#alone.get(warehouse)?.principalId !== principalId) this.#alone.delete(warehouse);
    return () => {
      this.#running.delete(statement);
      if (this.#running.size > 0) return;
      clearInterval(this.#timer);
      this.#timer = undefined;
      this.#alone.clear();
    };
  }

  async lookAtSpill(): Promise<void> {
    if (this.#looking) return;
    this.#looking = true;
    try {
      for (const warehouse of new Set([...this.#running].map((one) => one.warehouse))) {
        const spilled = await this.#options.spilledBytes(warehouse).catch(() => undefined);
        if (spilled !== undefined) this.#judge(warehouse, spilled);
      }
    } finally {
      this.#looking = false;
    }
  }

  #judge(warehouse: string, spilled: number): void {
    const { principalSpillBytesMax } = this.#options.settings;
    const statements = [...this.#running].filter((one) => one.warehouse === warehouse);
    const [first] = statements;
    if (!first || statements.some((one) => one.principalId !== first.principalId)) {
      this.#alone.delete(warehouse);
      return;
    }
    const alone = this.#alone.get(warehouse);
    if (alone?.principalId !== first.principalId) {
      this.#alone.set(warehouse, { principalId: first.principalId, spilledBefore: spilled });
      return;
    }
    alone.spilledBefore = Math.min(alone.spilledBefore, spilled);
    if (spilled - alone.spilledBefore <= principalSpillBytesMax) return;
    const message = 'the statements of this principal need more temporary disk than one principal may have';
    for (const { stop } of statements) stop(new Failure('SPILL_LIMIT_EXCEEDED', message, { principalSpillBytesMax }));
  }

  #endOf(principalId: string): ReleaseQuota {
    let isOver = false;
    return () => {
      if (isOver) return;
      isOver = true;
      const waiting = this.#waiting.get(principalId);
      for (const next of waiting ?? []) {
        // What it counted for is the next one's from here on.
        waiting?.delete(next);
        if (waiting?.size === 0) this.#waiting.delete(principalId);
        next.begin();
        return;
      }
      const left = (this.#queries.get(principalId) as number) - 1;
      if (left === 0) this.#queries.delete(principalId);
      else this.#queries.set(principalId, left);
    };
  }

  #resultsOf(principalId: string): Promise<Map<string, number>> {
    let results = this.#results.get(principalId);
    if (!results) {
      results = this.#options.storedResults(principalId);
      this.#results.set(principalId, results);
      results.catch(() => this.#results.delete(principalId));
    }
    return results;
  }
}

function sum(results: ReadonlyMap<string, number>): number {
  let bytes = 0;
  for (const one of results.values()) bytes += one;
  return bytes;
}

function quotaExceeded(principalResultBytesMax: number, storedBytes: number, resultBytes: number): Failure {
  const message = 'the results that are stored for this principal are as large as they may be';
  return new Failure('RESULT_QUOTA_EXCEEDED', message, { principalResultBytesMax, storedBytes, resultBytes });
}
