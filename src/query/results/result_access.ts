// What the store knows of stored results (pages, exported files): what they came from, where their rows are, and how large those are. Each
// use requires that the principal for whom the result was created may still read every table and view that it came from.
import type { ExpressionBuilder } from 'kysely';
import type { Authorizer, PathObject } from '../../access/authorization/authorizer.ts';
import type { Catalog } from '../../catalog/catalog.ts';
import { lowestIdAt } from '../../model/ids.ts';
import type { Principal } from '../../model/principal.ts';
import { Failure } from '../../standard/failure.ts';
import type { ResultSourcesTable, Schema } from '../../store/schema.ts';
import type { Store } from '../../store/store.ts';
import type { RequireHeld } from '../../tasks/task.ts';
import type { ResultQuota } from './result_quota.ts';
import type { StoredResult } from './result_store.ts';

/** One entry per table and view: the ids of its catalog, its database and itself. */
export type ResultSources = readonly (readonly string[])[];

interface ResultOwner {
  readonly taskId: string;
  readonly principal: Principal;
}

/** Rows that are about to be stored. */
export interface RowsToStore {
  readonly sources: ResultSources;
  /** Where in the bucket; null: in the data directory. */
  readonly storedAs: string | null;
  readonly bytes: number;
  /** Whether they are stored even beyond the quota: those of a statement whose changes are already made. */
  readonly isForced: boolean;
}

type SourcesRow = Pick<ResultSourcesTable, 'sources' | 'stored_as'>;

/** Rows in files count towards the quota of files. */
function bytesOf(result: string | null): number | null {
  if (result === null) return null;
  const { files, statistics } = JSON.parse(result) as { files?: unknown; statistics: { resultBytes: number } };
  return files === undefined ? statistics.resultBytes : null;
}

/** The rows that one statement of a sweep reads: it holds the thread of a store in SQLite meanwhile. */
const sweptTogether = 500;

export class ResultAccess {
  readonly #store: Store;
  readonly #catalog: Pick<Catalog, 'findChain'>;
  readonly #authorizer: Pick<Authorizer, 'isAllowedOn'>;
  readonly #quota: Pick<ResultQuota, 'require'>;

  constructor(parts: {
    readonly store: Store;
    readonly catalog: Pick<Catalog, 'findChain'>;
    readonly authorizer: Pick<Authorizer, 'isAllowedOn'>;
    readonly quota: Pick<ResultQuota, 'require'>;
  }) {
    this.#store = parts.store;
    this.#catalog = parts.catalog;
    this.#authorizer = parts.authorizer;
    this.#quota = parts.quota;
  }

  /**
   * Must be called before the result can be fetched: a result without recorded sources is refused. `requireHeld`: by a run of the task, which
   * must not change what a later one has recorded.
   */
  async record(taskId: string, resultSources: ResultSources, requireHeld?: RequireHeld): Promise<void> {
    const sources = JSON.stringify(resultSources);
    await this.#store.transaction(async (tx) => {
      await requireHeld?.(tx);
      await tx
        .insertInto('result_sources')
        .values({ task_id: taskId, sources, stored_as: null, owner: null, bytes: null })
        .onConflict((c) => c.column('task_id').doUpdateSet({ sources }))
        .execute();
    });
  }

  /** As `record`, for rows that count towards the quota of the principal. Throws RESULT_QUOTA_EXCEEDED. */
  async recordRows({ taskId, principal }: ResultOwner, rows: RowsToStore, requireHeld?: RequireHeld): Promise<void> {
    const { bytes, storedAs, isForced } = rows;
    const row = { sources: JSON.stringify(rows.sources), owner: principal.id, bytes };
    const place = storedAs === null ? {} : { stored_as: storedAs };
    await this.#store.transaction(async (tx) => {
      await requireHeld?.(tx);
      if (!isForced) await this.#quota.require(tx, principal.id, taskId, bytes);
      await tx
        .insertInto('result_sources')
        .values({ task_id: taskId, stored_as: storedAs, ...row })
        .onConflict((c) => c.column('task_id').doUpdateSet({ ...row, ...place }))
        .execute();
    });
  }

  /** Where the rows are stored in the bucket; null: in the data directory; undefined: nothing is recorded. */
  async storedAs(taskId: string): Promise<string | null | undefined> {
    return (await this.#row(taskId))?.stored_as;
  }

  /** Called when the result is removed. Idempotent. `requireHeld`: as for `record`. @returns what `storedAs` returned. */
  async remove(taskId: string, requireHeld?: RequireHeld): Promise<string | null | undefined> {
    return this.#store.transaction(async (tx) => {
      await requireHeld?.(tx);
      const removed = tx.deleteFrom('result_sources').where('task_id', '=', taskId).returning('stored_as');
      return (await removed.executeTakeFirst())?.stored_as;
    });
  }

  /** Records the owner and the size of results for which a release did that does not know them. */
  async fill(): Promise<void> {
    const { db } = this.#store;
    for (let after = ''; ; ) {
      const page = await db
        .selectFrom('result_sources')
        .innerJoin('tasks', 'tasks.task_id', 'result_sources.task_id')
        .select(['tasks.task_id as taskId', 'tasks.owner as owner', 'tasks.type as type', 'tasks.result as result'])
        .where('result_sources.owner', 'is', null)
        .where('tasks.state', '=', 'succeeded')
        .where('tasks.task_id', '>', after)
        .orderBy('tasks.task_id')
        .limit(sweptTogether)
        .execute();
      for (const { taskId, owner, type, result } of page)
        await db
          .updateTable('result_sources')
          .set({ owner, bytes: type === 'run_query' ? bytesOf(result) : null })
          .where('task_id', '=', taskId)
          .where('owner', 'is', null)
          .execute();
      if (page.length < sweptTogether) return;
      after = (page.at(-1) as { taskId: string }).taskId;
    }
  }

  /**
   * Removes what is recorded of results whose task has failed, and of those without a task: a crash happened before it was recorded.
   * `before`: ids of tasks that were made earlier than this time, in milliseconds since 1970, are recorded or never will be.
   */
  async sweep(before: number): Promise<void> {
    const { db } = this.#store;
    const task = (e: ExpressionBuilder<Schema, 'result_sources'>) =>
      e.selectFrom('tasks').select('tasks.task_id').whereRef('tasks.task_id', '=', 'result_sources.task_id');
    for (let after = ''; ; ) {
      const page = await db
        .selectFrom('result_sources')
        .select((e) => [
          'task_id',
          e.exists(task(e)).as('has_task'),
          e.exists(task(e).where('tasks.state', 'in', ['failed', 'cancelled'])).as('has_failed'),
        ])
        .where('task_id', '>', after)
        .orderBy('task_id')
        .limit(sweptTogether)
        .execute();
      const abandoned = page.filter(
        ({ task_id, has_task, has_failed }) => has_failed || (!has_task && task_id < lowestIdAt(before)),
      );
      for (const { task_id } of abandoned) await this.remove(task_id);
      if (page.length < sweptTogether) return;
      after = (page.at(-1) as { task_id: string }).task_id;
    }
  }

  async isAllowed({ taskId, principal }: ResultOwner): Promise<boolean> {
    return (await this.#refusal(await this.#row(taskId), principal)) === undefined;
  }

  /** Returns where the result is. Throws FORBIDDEN. */
  async require({ taskId, principal }: ResultOwner): Promise<StoredResult> {
    const row = await this.#row(taskId);
    const refusal = await this.#refusal(row, principal);
    if (refusal) throw refusal;
    return { taskId, storedAs: row?.stored_as ?? null };
  }

  #row(taskId: string): Promise<SourcesRow | undefined> {
    return this.#store.db
      .selectFrom('result_sources')
      .select(['sources', 'stored_as'])
      .where('task_id', '=', taskId)
      .executeTakeFirst();
  }

  async #refusal(row: SourcesRow | undefined, principal: Principal): Promise<Failure | undefined> {
    if (!row) return new Failure('FORBIDDEN', 'the sources of this result are unknown');
    for (const ids of JSON.parse(row.sources) as ResultSources) {
      if (!this.#authorizer.isAllowedOn(principal, 'read', 'catalogs', await this.#existingPath(ids)))
        return new Failure(
          'FORBIDDEN',
          'the result was made for a principal that may no longer read all of its sources',
        );
    }
    return undefined;
  }

  /** The part of a dropped source's path that still exists: privileges on the table itself were dropped with it. */
  async #existingPath(ids: readonly string[]): Promise<readonly PathObject[]> {
    for (const id of ids.toReversed()) {
      const chain = await this.#catalog.findChain(id);
      if (chain.length > 0) return chain;
    }
    return [];
  }
}
