// Access to stored results (pages, exported files): each use requires that the principal for whom the result was made may still read
// every table and view that it came from.
import type { Authorizer, PathObject } from '../../access/authorization/authorizer.ts';
import type { Catalog } from '../../catalog/catalog.ts';
import type { Principal } from '../../model/principal.ts';
import { Failure } from '../../standard/failure.ts';
import type { Store } from '../../store/store.ts';

/** Of each table and view: the ids of its catalog, its database and itself. */
export type ResultSources = readonly (readonly string[])[];

interface ResultOwner {
  readonly taskId: string;
  readonly principal: Principal;
}

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

  /** To be called before the result can be fetched: what has no recorded sources is refused. */
  async record(taskId: string, sources: ResultSources): Promise<void> {
    const row = { sources: JSON.stringify(sources) };
    await this.#store.db
      .insertInto('result_sources')
      .values({ task_id: taskId, ...row })
      .onConflict((c) => c.column('task_id').doUpdateSet(row))
      .execute();
  }

  /** The result is removed. Idempotent. */
  async forget(taskId: string): Promise<void> {
    await this.#store.db.deleteFrom('result_sources').where('task_id', '=', taskId).execute();
  }

  async isAllowed({ taskId, principal }: ResultOwner): Promise<boolean> {
    return (await this.#missing(taskId, principal)) === undefined;
  }

  /** Throws FORBIDDEN. */
  async require(owner: ResultOwner): Promise<void> {
    const missing = await this.#missing(owner.taskId, owner.principal);
    if (missing) throw missing;
  }

  async #missing(taskId: string, principal: Principal): Promise<Failure | undefined> {
    const row = await this.#store.db
      .selectFrom('result_sources')
      .select('sources')
      .where('task_id', '=', taskId)
      .executeTakeFirst();
    if (!row) return new Failure('FORBIDDEN', 'the sources of this result are unknown');
    for (const ids of JSON.parse(row.sources) as ResultSources) {
      if (!this.#authorizer.isAllowedOn(principal, 'read', 'catalogs', await this.#steps(ids)))
        return new Failure(
          'FORBIDDEN',
          'the result was made for a principal that may no longer read all of its sources',
        );
    }
    return undefined;
  }

  /** Of a source that was dropped, what is left of its path: rights on the table itself went with it. */
  async #steps(ids: readonly string[]): Promise<readonly PathObject[]> {
    for (const id of ids.toReversed()) {
      const chain = await this.#catalog.findChain(id);
      if (chain.length > 0) return chain;
    }
    return [];
  }
}
