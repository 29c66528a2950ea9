// The rows of the table `queries`: one for each statement that has ended, and one for each that runs for long on a shared store.
import type { Kysely } from 'kysely';
import type { RetainedRows } from '../../access/limits/retained_bytes.ts';
import { bytesOf } from '../../store/row_batches.ts';
import type { QueriesTable, Schema } from '../../store/schema.ts';
import type { QueryEntry, QueryState } from './history_entry.ts';

/** Stored as the kind of a statement that ended before it was analyzed, or runs and is not yet. */
const unknownKind = 'unknown';
/** Longer texts are truncated. */
export const sqlCharactersMax = 65_536;
const planCharactersMax = 65_536;

/** The part of a text of a statement that the history has. */
export const shownSql = (sql: string): string => truncate(sql, sqlCharactersMax);

const truncate = (text: string, characters: number) =>
  (text.length > characters ? text.slice(0, characters) : text).toWellFormed();

/** `serverId`: the server that runs the statement; null: it has ended. */
export function toRow(entry: QueryEntry, serverId: string | null): QueriesTable {
  return {
    query_id: entry.queryId,
    sql: shownSql(entry.sql),
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
    plan: entry.plan === null ? null : truncate(entry.plan, planCharactersMax),
    server_id: serverId,
  };
}

export function toEntry(row: QueriesTable): QueryEntry {
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
    ...(row.server_id === null ? {} : { runsOn: row.server_id }),
  };
}

/** Those whose texts can be large. */
export const textColumns = ['sql', 'error_message', 'plan'] as const;

export const bytesOfRow = (row: QueriesTable): number =>
  textColumns.reduce((bytes, column) => bytes + Buffer.byteLength(row[column] ?? ''), 0);

/** The statements of one user that have ended. */
export const retainedQueries = (db: Kysely<Schema>): RetainedRows => ({
  async sizes(owner, after, limit) {
    let query = db
      .selectFrom('queries')
      .select(['query_id as key', bytesOf(textColumns).as('bytes')])
      .where('owner', '=', owner)
      .orderBy('query_id', 'desc')
      .limit(limit);
    if (after !== undefined) query = query.where('query_id', '<', after);
    return query.execute();
  },
  async removeFrom(owner, key) {
    await db
      .deleteFrom('queries')
      .where('owner', '=', owner)
      .where('query_id', '<=', key)
      .where('server_id', 'is', null)
      .execute();
  },
});

/** Writes statements of which the store may have earlier rows: replaces all that can change while one runs. */
export async function replaceRows(db: Kysely<Schema>, rows: readonly QueriesTable[]): Promise<void> {
  await db
    .insertInto('queries')
    .values(rows)
    .onConflict((conflict) =>
      conflict.column('query_id').doUpdateSet((e) => ({
        kind: e.ref('excluded.kind'),
        state: e.ref('excluded.state'),
        started_at: e.ref('excluded.started_at'),
        ended_at: e.ref('excluded.ended_at'),
        elapsed_ms: e.ref('excluded.elapsed_ms'),
        queued_ms: e.ref('excluded.queued_ms'),
        row_count: e.ref('excluded.row_count'),
        result_bytes: e.ref('excluded.result_bytes'),
        error_code: e.ref('excluded.error_code'),
        error_message: e.ref('excluded.error_message'),
        task_id: e.ref('excluded.task_id'),
        plan: e.ref('excluded.plan'),
        server_id: e.ref('excluded.server_id'),
      })),
    )
    .execute();
}
