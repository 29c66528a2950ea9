// Access to stored results (pages, exported files). Each use requires that the principal for whom the result was created may still read
// every table and view that it came from.
import type { Authorizer, PathObject } from '../../access/authorization/authorizer.ts';
import type { Catalog } from '../../catalog/catalog.ts';
import type { Principal } from '../../model/principal.ts';
import { Failure } from '../../standard/failure.ts';
import type { ResultSourcesTable } from '../../store/schema.ts';
import type { Store } from '../../store/store.ts';
import type { StoredResult } from './result_store.ts';

/** One entry per table and view: the ids of its catalog, its database and itself. */
export type ResultSources = readonly (readonly string[])[];

interface ResultOwner {
  readonly taskId: string;
  readonly principal: Principal;
}

type SourcesRow = Pick<ResultSourcesTable, 'sources' | 'stored_as'>;

export class ResultAccess {
  readonly #store: Store;
  readonly #catalog: Pick<Catalog, 'findChain'>;
  readonly #authorizer: Pick<Authorizer, 'isAllowedOn'>;

  constructor(parts: {
    readonly store: Store;
    readonly catalog: Pick<Catalog, 'findChain'>;
    readonly authorizer: Pick<Authorizer, 'isAllowedOn'>;
  }) {
    this.#store = parts.store;
    this.#catalog = parts.catalog;
    this.#authorizer = parts.authorizer;
  }

  /**
   * Must be called before the result can be fetched: a result without recorded sources is refused. `storedAs`: where its rows are about to
   * be stored in the bucket; without it, what is recorded of that remains.
   */
  async record(taskId: string, sources: ResultSources, storedAs: string | null = null): Promise<void> {
    const row = { sources: JSON.stringify(sources), ...(storedAs === null ? {} : { stored_as: storedAs }) };
    await this.#store.db
      .insertInto('result_sources')
      .values({ task_id: taskId, stored_as: null, ...row })
      .onConflict((c) => c.column('task_id').doUpdateSet(row))
      .execute();
  }

  /** Where the rows are stored in the bucket; null: in the data directory; undefined: nothing is recorded. */
  async storedAs(taskId: string): Promise<string | null | undefined> {
    return (await this.#row(taskId))?.stored_as;
  }

  /** Called when the result is removed. Idempotent. */
  async remove(taskId: string): Promise<void> {
    await this.#store.db.deleteFrom('result_sources').where('task_id', '=', taskId).execute();
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
