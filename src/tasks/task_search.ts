// Lists and searches the stored tasks, newest first.
import { type Kysely, type RawBuilder, sql } from 'kysely';
import type { Principal } from '../model/principal.ts';
import { type Batch, bytesOf, readBatch } from '../store/row_batches.ts';
import { type Candidate, searchRows } from '../store/row_search.ts';
import type { Schema, TaskState } from '../store/schema.ts';
import { principalText, type TaskRow, terminalStates, textColumns } from './task_rows.ts';

/** Conditions are combined with AND. Times are in milliseconds since 1970. */
export interface TaskFilter {
  readonly state?: TaskState | undefined;
  readonly type?: string | undefined;
  /** The name of the user at the time of the submission. */
  readonly submittedBy?: string | undefined;
  /** URI of the object. */
  readonly target?: string | undefined;
  /** The label of a load. */
  readonly label?: string | undefined;
  readonly submittedFrom?: number | undefined;
  readonly submittedBefore?: number | undefined;
}

function conditionsOf(filter: TaskFilter): RawBuilder<boolean>[] {
  const { state, type, submittedBy, target, label, submittedFrom, submittedBefore } = filter;
  return [
    state !== undefined && sql<boolean>`state = ${state}`,
    type !== undefined && sql<boolean>`type = ${type}`,
    submittedBy !== undefined && sql<boolean>`submitted_by = ${submittedBy}`,
    target !== undefined && sql<boolean>`target = ${target}`,
    label !== undefined && sql<boolean>`json_extract(request, '$.label') = ${label}`,
    submittedFrom !== undefined && sql<boolean>`submitted_at >= ${submittedFrom}`,
    submittedBefore !== undefined && sql<boolean>`submitted_at < ${submittedBefore}`,
  ].filter((condition) => condition !== false);
}

export interface TaskListOptions {
  readonly after?: string | undefined;
  readonly limit: number;
  /** Only tasks of this principal; a token with scopes sees only those it submitted. */
  readonly of?: Principal | undefined;
  readonly filter?: TaskFilter | undefined;
}

type Db = Kysely<Schema>;

export async function listTasks(db: Db, options: TaskListOptions): Promise<Batch<TaskRow>> {
  const { limit, after: start, filter = {} } = options;
  const conditions = conditionsOf(filter);
  if (conditions.length === 0)
    return readBatch(
      newestTasks(db, options).selectAll(),
      { key: 'task_id', isDescending: true, texts: textColumns },
      limit,
    );
  const { items, hasMore, examined } = await searchRows({
    limit,
    idOf: ({ task_id: id }: TaskRow) => id,
    next: (after: Candidate | undefined, count) =>
      newestTasks(db, { ...options, after: after?.id ?? start })
        .select(['task_id as id', bytesOf(textColumns).as('bytes')])
        .limit(count)
        .execute(),
    async examine(batch) {
      const ids = batch.map(({ id }) => id);
      let query = db.selectFrom('tasks').selectAll().where('task_id', 'in', ids).orderBy('task_id', 'desc');
      for (const condition of conditions) query = query.where(condition);
      return query.execute();
    },
  });
  return { items, hasMore, examined: examined?.id };
}

function newestTasks(db: Db, { after, of, filter }: TaskListOptions) {
  let query = db.selectFrom('tasks').orderBy('task_id', 'desc');
  if (after !== undefined) query = query.where('task_id', '<', after);
  if (of) query = query.where('owner', '=', of.id);
  if (of?.scopes) query = query.where('principal', '=', principalText(of));
  // There are few unfinished tasks, which an index finds among the retained ones.
  const { state } = filter ?? {};
  return state === undefined || terminalStates.includes(state) ? query : query.where('state', '=', state);
}
