// History of statements. Running statements are held in memory. Finished ones are written within 500 ms, many in one transaction, so that
// a point query does not pay for a disk flush. A crash can lose the last second of history, but never data.
import type { Kysely } from 'kysely';
import type { Actor } from '../../model/principal.ts';
import type { Observe } from '../../observe/observations.ts';
import { requireExpectedVersion } from '../../standard/expected_version.ts';
import type { QueriesTable, Schema } from '../../store/schema.ts';
import { type QueryEntry, type QueryState, versionOfQuery } from './history_entry.ts';
import { matchesFilter, type QueryFilter, toConditions } from './history_search.ts';

export type { QueryEntry } from './history_entry.ts';

export interface HistoryOptions {
  readonly db: Kysely<Schema>;
  readonly entriesMax: number;
  readonly observe: Observe;
}

/** Stored as the kind of a statement that ended before it was analyzed. */
const unknownKind = 'unknown';
/** Longer texts are truncated. */
export const sqlCharactersMax = 65_536;
const planCharactersMax = 65_536;
const flushMs = 500;
/** If the store is unavailable for long, the oldest unwritten entries are dropped. */
const unwrittenMax = 50_000;
const batchRows = 500;
const sweepEveryFlushes = 600;

export class QueryHistory {
  readonly #options: HistoryOptions;
  readonly #running = new Map<string, { entry: QueryEntry; cancel: () => void }>();
  /** Ids of running statements by the ids of their tasks. */
  readonly #queryOfTask = new Map<string, string>();
  #unwritten: QueryEntry[] = [];
  #timer: NodeJS.Timeout | undefined;
  #flushing: Promise<void> = Promise.resolve();
  #flushes = 0;

  constructor(options: HistoryOptions) {
    this.#options = options;
  }

  start(): void {
    this.#timer = setInterval(() => void this.flush(), flushMs);
    this.#timer.unref();
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.flush();
  }

  begin(entry: QueryEntry, cancel: () => void): void {
    this.#running.set(entry.queryId, { entry, cancel });
    if (entry.taskId !== null) this.#queryOfTask.set(entry.taskId, entry.queryId);
  }

  /** The statement belongs to a task from now on. Null: it does not after all. */
  assignTask(queryId: string, taskId: string | null): void {
    const running = this.#running.get(queryId);
    if (!running) return;
    if (running.entry.taskId !== null) this.#queryOfTask.delete(running.entry.taskId);
    if (taskId !== null) this.#queryOfTask.set(taskId, queryId);
    running.entry = { ...running.entry, taskId };
  }

  /** The id of the statement that a task runs at the moment. */
  queryOfTask(taskId: string): string | undefined {
    return this.#queryOfTask.get(taskId);
  }

  update(queryId: string, change: Partial<QueryEntry>): void {
    const running = this.#running.get(queryId);
    if (running) running.entry = { ...running.entry, ...change };
  }

  end(queryId: string, change: Partial<QueryEntry>): void {
    const running = this.#running.get(queryId);
    if (!running) return;
    this.#running.delete(queryId);
    const { taskId } = running.entry;
    if (taskId !== null && this.#queryOfTask.get(taskId) === queryId) this.#queryOfTask.delete(taskId);
    const ended = { ...running.entry, ...change };
    const sql = truncate(ended.sql, sqlCharactersMax);
    this.#unwritten.push({ ...ended, sql, plan: ended.plan === null ? null : truncate(ended.plan, planCharactersMax) });
    if (this.#unwritten.length > unwrittenMax) this.#unwritten.shift();
  }

  /** Cancels a running statement; a finished one is left as it is. Returns undefined if there is no such statement. */
  async cancel(queryId: string, actor: Actor): Promise<QueryEntry | undefined> {
    if (!this.#cancel(queryId, actor)) {
      const ended = await this.get(queryId);
      if (ended) requireExpectedVersion(versionOfQuery(ended), actor, (effect) => effect());
    }
    return this.get(queryId);
  }

  /** Returns false if the statement is not running. */
  #cancel(queryId: string, actor: Actor): boolean {
    const running = this.#running.get(queryId);
    if (!running) return false;
    requireExpectedVersion(versionOfQuery(running.entry), actor, (effect) => effect());
    running.cancel();
    return true;
  }

  cancelAll(): void {
    for (const { cancel } of this.#running.values()) cancel();
  }

  async get(queryId: string): Promise<QueryEntry | undefined> {
    const running = this.#running.get(queryId);
    if (running) return running.entry;
    await this.flush();
    const row = await this.#options.db
      .selectFrom('queries')
      .selectAll()
      .where('query_id', '=', queryId)
      .executeTakeFirst();
    return row && toEntry(row);
  }

  /** 1 plus the number of queued statements of the warehouse that were submitted before a queued one; null if it is not queued. */
  queuePositionOf({ queryId, state, warehouse }: QueryEntry): number | null {
    if (state !== 'queued') return null;
    let position = 1;
    // In order of submission.
    for (const { entry } of this.#running.values()) {
      if (entry.queryId === queryId) return position;
      if (entry.state === 'queued' && entry.warehouse === warehouse) position++;
    }
    return null;
  }

  /** Newest first: ids are ordered by time of submission. */
  async list({
    after,
    limit,
    ...filter
  }: QueryFilter & { readonly after?: string | undefined; readonly limit: number }): Promise<QueryEntry[]> {
    await this.flush();
    let query = this.#options.db.selectFrom('queries').selectAll().orderBy('query_id', 'desc').limit(limit);
    if (after !== undefined) query = query.where('query_id', '<', after);
    for (const condition of toConditions(filter)) query = query.where(condition);
    const ended = (await query.execute()).map(toEntry);
    const running = [...this.#running.values()]
      .map(({ entry }) => entry)
      .filter((entry) => (after === undefined || entry.queryId < after) && matchesFilter(entry, filter));
    return [...ended, ...running].sort((a, b) => (a.queryId > b.queryId ? -1 : 1)).slice(0, limit);
  }

  /** Removes a finished statement from the history; cancels a running one. */
  async remove(queryId: string, actor: Actor): Promise<boolean> {
    if (this.#cancel(queryId, actor)) return true;
    const ended = await this.get(queryId);
    if (!ended) return false;
    requireExpectedVersion(versionOfQuery(ended), actor, (effect) => effect());
    const { numDeletedRows } = await this.#options.db
      .deleteFrom('queries')
      .where('query_id', '=', queryId)
      .executeTakeFirst();
    return numDeletedRows > 0n;
  }

  /** Writes the statements that ended since the last flush. After a failure they are retried by the next flush. */
  flush(): Promise<void> {
    this.#flushing = this.#flushing.then(() => this.#flush());
    return this.#flushing;
  }

  async #flush(): Promise<void> {
    try {
      while (this.#unwritten.length > 0) {
        const batch = this.#unwritten.slice(0, batchRows);
        await this.#options.db.insertInto('queries').values(batch.map(toRow)).execute();
        this.#unwritten = this.#unwritten.slice(batch.length);
      }
      if (this.#flushes++ % sweepEveryFlushes === 0) await this.#sweep();
    } catch (error) {
      this.#options.observe({ kind: 'backgroundError', what: 'query history', error });
    }
  }

  async #sweep(): Promise<void> {
    const { db, entriesMax } = this.#options;
    const oldest = await db
      .selectFrom('queries')
      .select('query_id')
      .orderBy('query_id', 'desc')
      .offset(entriesMax)
      .limit(1)
      .executeTakeFirst();
    if (oldest) await db.deleteFrom('queries').where('query_id', '<=', oldest.query_id).execute();
  }
}

const truncate = (text: string, characters: number) =>
  (text.length > characters ? text.slice(0, characters) : text).toWellFormed();

function toRow(entry: QueryEntry): QueriesTable {
  return {
    query_id: entry.queryId,
    sql: entry.sql,
    kind: entry.kind ?? unknownKind,
    state: entry.state,
    warehouse: entry.warehouse,
    catalog: entry.catalog,
    database: entry.database,
    submitted_by: entry.submittedBy,
    submitted_at: entry.submittedAt,
    started_at: entry.startedAt,
    ended_at: entry.endedAt,
    elapsed_ms: entry.elapsedMs,
    queued_ms: entry.queuedMs,
    row_count: entry.rowCount,
    result_bytes: entry.resultBytes,
    error_code: entry.errorCode,
    error_message: entry.errorMessage,
    task_id: entry.taskId,
    owner: entry.owner,
    plan: entry.plan,
  };
}

function toEntry(row: QueriesTable): QueryEntry {
  return {
    queryId: row.query_id,
    sql: row.sql,
    kind: row.kind === unknownKind ? null : row.kind,
    state: row.state as QueryState,
    warehouse: row.warehouse,
    catalog: row.catalog,
    database: row.database,
    submittedBy: row.submitted_by,
    submittedAt: row.submitted_at,
    startedAt: row.started_at,
    endedAt: row.ended_at,
    elapsedMs: row.elapsed_ms,
    queuedMs: row.queued_ms,
    rowCount: row.row_count,
    resultBytes: row.result_bytes,
    errorCode: row.error_code,
    errorMessage: row.error_message,
    taskId: row.task_id,
    owner: row.owner,
    plan: row.plan,
  };
}
