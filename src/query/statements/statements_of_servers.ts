// The running statements of all servers of a shared store. Those of this server that run for long, or belong to a task, have a row with
// its id in the table `queries`, by which any server lists them and finds who can cancel them. Short statements are written once, when
// they have ended. Statements of a server that is lost end as failed.
import { type RawBuilder, sql } from 'kysely';
import { runsOnServer } from '../../store/index_conditions.ts';
import type { LeaseHolder } from '../../store/leases.ts';
import { interruptedStatement, isOfLostServer, type Servers } from '../../store/servers.ts';
import type { Store } from '../../store/store.ts';
import type { QueryEntry } from './history_entry.ts';
import { replaceRows, toRow } from './history_rows.ts';

export interface StatementsOfServersOptions {
  readonly store: Store;
  readonly servers: Pick<Servers, 'serverId' | 'isStarted'>;
  readonly holder: LeaseHolder;
}

/** Statements that ran for less time are not written before they end. */
const announceAfterMs = 500;
const batchRows = 500;
/** Statements that wait in queues of other servers and whose positions are counted. */
const queuedMax = 10_000;

export class StatementsOfServers {
  readonly #options: StatementsOfServersOptions;
  /** What was last written of each; undefined while that is uncertain. */
  readonly #announced = new Map<string, QueryEntry | undefined>();
  /** Rows that this server has nothing newer of in memory, as a condition. */
  readonly isElsewhereOrEnded: RawBuilder<boolean>;

  constructor(options: StatementsOfServersOptions) {
    this.#options = options;
    this.isElsewhereOrEnded = sql<boolean>`(server_id is null or server_id <> ${options.servers.serverId})`;
  }

  /** Whether the store may have a row of a statement of this server. */
  isAnnounced(queryId: string): boolean {
    return this.#announced.has(queryId);
  }

  /** The end of the statement is in the store. */
  ended(queryId: string): void {
    this.#announced.delete(queryId);
  }

  /** Writes those of the running statements of this server that the others should know, if they have changed. Not concurrently. */
  async announce(running: readonly QueryEntry[], now = Date.now()): Promise<void> {
    const known = running.filter(
      ({ taskId, submittedAt, queryId }) =>
        taskId !== null || now - submittedAt >= announceAfterMs || this.#announced.has(queryId),
    );
    if (known.length === 0 || !this.#options.servers.isStarted) return;
    const rows = await this.#rowsOfServer();
    const changed = known.filter((entry) => this.#announced.get(entry.queryId) !== entry || !rows.has(entry.queryId));
    for (let start = 0; start < changed.length; start += batchRows)
      await this.#write(changed.slice(start, start + batchRows));
  }

  /** While this server could not reach the store, another one may have ended them. */
  async #rowsOfServer(): Promise<ReadonlySet<string>> {
    if (this.#announced.size === 0) return new Set();
    const { store, servers } = this.#options;
    const rows = await store.db
      .selectFrom('queries')
      .select('query_id')
      .where('server_id', '=', servers.serverId)
      .execute();
    return new Set(rows.map(({ query_id }) => query_id));
  }

  async #write(entries: readonly QueryEntry[]): Promise<void> {
    const { store, servers } = this.#options;
    for (const { queryId } of entries) this.#announced.set(queryId, undefined);
    await replaceRows(
      store.db,
      entries.map((entry) => toRow(entry, servers.serverId)),
    );
    for (const entry of entries) this.#announced.set(entry.queryId, entry);
  }

  /** The running statements of tasks, by the ids of the tasks. */
  async queriesOfTasks(taskIds: readonly string[]): Promise<ReadonlyMap<string, string>> {
    const rows = await this.#options.store.db
      .selectFrom('queries')
      .select(['query_id', 'task_id'])
      .where(runsOnServer)
      .where('task_id', 'in', taskIds)
      .orderBy('query_id')
      .execute();
    return new Map(rows.flatMap(({ query_id, task_id }) => (task_id === null ? [] : [[task_id, query_id] as const])));
  }

  /** The entries, with their positions in the queues of the servers on which they wait. */
  async withQueuePositions(entries: readonly QueryEntry[]): Promise<readonly QueryEntry[]> {
    const isQueued = ({ runsOn, state }: QueryEntry) => runsOn !== undefined && state === 'queued';
    if (!entries.some(isQueued)) return entries;
    const rows = await this.#options.store.db
      .selectFrom('queries')
      .select(['query_id', 'server_id', 'warehouse'])
      .where(runsOnServer)
      .where('state', '=', 'queued')
      .orderBy('query_id')
      .limit(queuedMax)
      .execute();
    const lengths = new Map<string, number>();
    const positions = new Map<string, number>();
    for (const { query_id: id, server_id: serverId, warehouse } of rows) {
      const queue = `${serverId} ${warehouse}`;
      const length = (lengths.get(queue) ?? 0) + 1;
      lengths.set(queue, length);
      positions.set(id, length);
    }
    return entries.map((entry) =>
      isQueued(entry) ? { ...entry, queuePosition: positions.get(entry.queryId) } : entry,
    );
  }

  /** Ends the statements of an earlier process of this server. Call it before this one runs any. */
  endEarlier(): Promise<void> {
    return this.#end(sql<boolean>`server_id = ${this.#options.servers.serverId}`);
  }

  /** Ends the statements of servers that are lost. */
  async sweep(now = Date.now()): Promise<void> {
    const { store, holder } = this.#options;
    const isLost = isOfLostServer(holder, now);
    const first = store.db.selectFrom('queries').select('query_id').where(runsOnServer).where(isLost).limit(1);
    if (await first.executeTakeFirst()) await this.#end(isLost);
  }

  async #end(condition: RawBuilder<boolean>): Promise<void> {
    await this.#options.store.db
      .updateTable('queries')
      .set({ ...interruptedStatement, ended_at: Date.now() })
      .where(runsOnServer)
      .where(condition)
      .execute();
  }
}
