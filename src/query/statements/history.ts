// History of statements. Running statements are held in memory. Finished ones are written within 500 ms, many in one transaction, so that
// a point query does not pay for a disk flush. A crash can lose the last second of history, but never data. Of a shared store, the
// statements that other servers run are read from the store (statements_of_servers.ts).
import { setTimeout as pause } from 'node:timers/promises';
import { type Kysely, type RawBuilder, sql } from 'kysely';
import { RetainedBytes, retainedBytesMax } from '../../access/limits/retained_bytes.ts';
import { lowestIdAt } from '../../model/ids.ts';
import type { Actor } from '../../model/principal.ts';
import type { Observe } from '../../observe/observations.ts';
import { requireExpectedVersion } from '../../standard/expected_version.ts';
import { runsOnServer } from '../../store/index_conditions.ts';
import { type Batch, bytesOf, readBatch } from '../../store/row_batches.ts';
import { type Candidate, filterInTurns, searchRows } from '../../store/row_search.ts';
import type { Schema } from '../../store/schema.ts';
import { type QueryEntry, submissionTimeOf, versionOfQuery } from './history_entry.ts';
import { bytesOfRow, replaceRows, retainedQueries, shownSql, textColumns, toEntry, toRow } from './history_rows.ts';
import { hasCriteria, matcherOf, type QueryFilter, toConditions } from './history_search.ts';
import type { StatementsOfServers } from './statements_of_servers.ts';

export interface HistoryOptions {
  readonly db: Kysely<Schema>;
  readonly entriesMax: number;
  /** Of the texts of one user. */
  readonly ownerBytesMax?: number | undefined;
  readonly observe: Observe;
  /** Absent if this server alone uses the store. */
  readonly shared?: StatementsOfServers | undefined;
}

interface HistoryPage {
  readonly after?: string | undefined;
  readonly limit: number;
}

/** The id of a statement can have an earlier time than its submission, by far less than this. */
const idLeadMsMax = 3_600_000;
const flushMs = 500;
/** If the store is unavailable for long, the oldest unwritten entries are dropped. */
const unwrittenMax = 50_000;
const batchRows = 500;
const sweepEveryFlushes = 600;
/** By then the server that runs a statement has written it, if it runs for so long, or its end. */
const writtenMsMax = 2_000;
const recheckMs = 100;

export class QueryHistory {
  readonly #options: HistoryOptions;
  readonly #running = new Map<string, { entry: QueryEntry; cancel: () => void }>();
  /** Ids of running statements by the ids of their tasks. */
  readonly #queryOfTask = new Map<string, string>();
  #unwritten: QueryEntry[] = [];
  #timer: NodeJS.Timeout | undefined;
  #flushing: Promise<void> = Promise.resolve();
  #flushes = 0;
  readonly #retained: RetainedBytes;
  /** The last write failed, and may have been committed. */
  #isUncertain = false;

  constructor(options: HistoryOptions) {
    this.#options = options;
    const { db, ownerBytesMax = retainedBytesMax } = options;
    this.#retained = new RetainedBytes(ownerBytesMax, retainedQueries(db));
  }

  async start(): Promise<void> {
    await this.#options.shared?.endEarlier();
    this.#timer = setInterval(() => void this.flush(), flushMs);
    this.#timer.unref();
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.flush();
  }

  begin(entry: QueryEntry, cancel: () => void): void {
    this.#running.set(entry.queryId, { entry: { ...entry, sql: shownSql(entry.sql) }, cancel });
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

  /** Those that tasks run at the moment, also on other servers of the store, by the ids of the tasks. */
  async queriesOfTasks(taskIds: readonly string[]): Promise<ReadonlyMap<string, string>> {
    const own = new Map<string, string>();
    for (const taskId of taskIds) {
      const queryId = this.#queryOfTask.get(taskId);
      if (queryId !== undefined) own.set(taskId, queryId);
    }
    const others = taskIds.filter((taskId) => !own.has(taskId));
    const { shared } = this.#options;
    if (!shared || others.length === 0) return own;
    return new Map([...own, ...(await shared.queriesOfTasks(others))]);
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
    this.#unwritten.push({ ...running.entry, ...change });
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
    const { shared } = this.#options;
    const waitsUntil = shared ? submissionTimeOf(queryId) + writtenMsMax : 0;
    for (;;) {
      const entry = await this.#stored(queryId);
      if (entry) return (await shared?.withQueuePositions([entry]))?.[0] ?? entry;
      // Another server may have begun it a moment ago.
      const leftMs = waitsUntil - Date.now();
      if (!(leftMs > 0 && leftMs <= 2 * writtenMsMax)) return undefined;
      await pause(recheckMs);
    }
  }

  async #stored(queryId: string): Promise<QueryEntry | undefined> {
    const row = await this.#options.db
      .selectFrom('queries')
      .selectAll()
      .where('query_id', '=', queryId)
      .executeTakeFirst();
    return row && toEntry(row);
  }

  /** 1 plus the number of queued statements of the warehouse that were submitted before a queued one; null if it is not queued. */
  queuePositionOf({ queryId, state, warehouse, queuePosition }: QueryEntry): number | null {
    if (state !== 'queued') return null;
    if (queuePosition !== undefined) return queuePosition;
    let position = 1;
    // In order of submission.
    for (const { entry } of this.#running.values()) {
      if (entry.queryId === queryId) return position;
      if (entry.state === 'queued' && entry.warehouse === warehouse) position++;
    }
    return null;
  }

  /** Newest first: ids are ordered by time of submission. Fewer than `limit` where they are large. */
  async list({ after, limit, ...filter }: QueryFilter & HistoryPage): Promise<Batch<QueryEntry>> {
    // Before the stored ones are read: what ends meanwhile is then in one of both.
    const running = [...this.#running.values()].map(({ entry }) => entry);
    await this.flush();
    const page = { after, limit };
    const { items, hasMore, examined } = await (hasCriteria(filter)
      ? this.#search(filter, page)
      : this.#storedPage(filter, page));
    const stored = (await this.#options.shared?.withQueuePositions(items)) ?? items;
    const known = new Set(stored.map(({ queryId }) => queryId));
    // Those beyond the last one of an incomplete batch belong to a later page.
    const until = hasMore ? (examined ?? stored.at(-1)?.queryId) : undefined;
    const rest = running.filter(
      ({ queryId }) =>
        (after === undefined || queryId < after) && (until === undefined || queryId >= until) && !known.has(queryId),
    );
    const all = [...stored, ...(await filterInTurns(rest, ({ sql }) => sql.length, matcherOf(filter)))];
    all.sort((a, b) => (a.queryId > b.queryId ? -1 : 1));
    if (all.length > limit) return { items: all.slice(0, limit), hasMore: true };
    return { items: all, hasMore, examined };
  }

  async #storedPage({ owner }: QueryFilter, { after, limit }: HistoryPage): Promise<Batch<QueryEntry>> {
    let query = this.#shown().selectAll().orderBy('query_id', 'desc');
    if (after !== undefined) query = query.where('query_id', '<', after);
    if (owner !== undefined) query = query.where('owner', '=', owner);
    const { items, hasMore } = await readBatch(
      query,
      { key: 'query_id', isDescending: true, texts: textColumns },
      limit,
    );
    return { items: items.map(toEntry), hasMore };
  }

  async #search(filter: QueryFilter, { after: start, limit }: HistoryPage): Promise<Batch<QueryEntry>> {
    const { db } = this.#options;
    const matches = matcherOf(filter);
    const conditions = toConditions(filter);
    const bounds = this.#bounds(filter);
    const { items, hasMore, examined } = await searchRows({
      limit,
      idOf: ({ queryId }: QueryEntry) => queryId,
      next(after: Candidate | undefined, count) {
        let query = db.selectFrom('queries').select(['query_id as id', bytesOf(textColumns).as('bytes')]);
        const from = after?.id ?? start;
        if (from !== undefined) query = query.where('query_id', '<', from);
        for (const bound of bounds) query = query.where(bound);
        return query.orderBy('query_id', 'desc').limit(count).execute();
      },
      examine: async (batch) => {
        const ids = batch.map(({ id }) => id);
        let query = this.#shown().selectAll().where('query_id', 'in', ids);
        for (const condition of conditions) query = query.where(condition);
        return (await query.orderBy('query_id', 'desc').execute()).map(toEntry).filter(matches);
      },
    });
    return { items, hasMore, examined: examined?.id };
  }

  /** Conditions for which indexes serve. */
  #bounds({ owner, state, submittedFrom }: QueryFilter): RawBuilder<boolean>[] {
    return [
      owner !== undefined && sql<boolean>`owner = ${owner}`,
      // Of the stored ones, only those of other servers have not ended.
      (state === 'queued' || state === 'running') && runsOnServer,
      submittedFrom !== undefined && sql<boolean>`query_id >= ${lowestIdAt(submittedFrom - idLeadMsMax)}`,
    ].filter((bound) => bound !== false);
  }

  /** What is stored of the statements of this server that run can be older than what is in memory. */
  #shown() {
    const { db, shared } = this.#options;
    const rows = db.selectFrom('queries');
    return shared ? rows.where(shared.isElsewhereOrEnded) : rows;
  }

  /** Ends the statements of other servers that are lost. */
  async takeOver(): Promise<void> {
    await this.#options.shared?.sweep();
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

  /**
   * Writes the statements that ended since the last flush, and reports those that run for long to the other servers. After a failure they are
   * retried by the next flush.
   */
  flush(): Promise<void> {
    this.#flushing = this.#flushing.then(() => this.#flush());
    return this.#flushing;
  }

  /** Running statements are published to the other servers even if those that ended cannot be written. */
  async #flush(): Promise<void> {
    await this.#observed(
      async () => {
        while (this.#unwritten.length > 0) {
          const batch = this.#unwritten.slice(0, batchRows);
          await this.#write(batch);
          for (const { queryId } of batch) this.#options.shared?.ended(queryId);
          this.#unwritten = this.#unwritten.slice(batch.length);
        }
        this.#isUncertain = false;
      },
      () => {
        this.#isUncertain = true;
      },
    );
    await this.#observed(async () => {
      await this.#options.shared?.announce([...this.#running.values()].map(({ entry }) => entry));
      if (this.#flushes++ % sweepEveryFlushes === 0) await this.#sweep();
    });
  }

  async #observed(work: () => Promise<void>, failed: () => void = () => undefined): Promise<void> {
    try {
      await work();
    } catch (error) {
      failed();
      this.#options.observe({ kind: 'backgroundError', what: 'query history', error });
    }
  }

  async #write(ended: readonly QueryEntry[]): Promise<void> {
    const { db, shared } = this.#options;
    const rows = ended.map((entry) => toRow(entry, null));
    if (this.#isUncertain || ended.some(({ queryId }) => shared?.isAnnounced(queryId))) await replaceRows(db, rows);
    else await db.insertInto('queries').values(rows).execute();
    for (const row of rows) await this.#retained.written(row.owner, bytesOfRow(row));
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
    if (!oldest) return;
    await db.deleteFrom('queries').where('query_id', '<=', oldest.query_id).where('server_id', 'is', null).execute();
  }
}
