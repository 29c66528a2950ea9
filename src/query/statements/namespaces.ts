// Where statements run: the catalog and the database that a request names, and the warehouse that has the catalog at the moment.
import type { Authorizer } from '../../access/authorization/authorizer.ts';
import type { Catalog } from '../../catalog/catalog.ts';
import type { CatalogObject } from '../../catalog/object.ts';
import { mayCallCallerFunction, type Statement } from '../../engines/port/statements.ts';
import type { Principal } from '../../model/principal.ts';
import type { CatalogSpec } from '../../model/records.ts';
import { invalidParameter } from '../../standard/failure.ts';
import type { Segment } from '../../standard/paths.ts';
import type { ChangeFeed } from '../../store/changes/change_feed.ts';
import type { QueryRequest } from './query_request.ts';

interface NamespacesOptions {
  readonly catalog: Pick<Catalog, 'find' | 'require'>;
  readonly changes: Pick<ChangeFeed, 'follow' | 'poll'>;
  readonly authorizer: Authorizer;
}

/** The warehouse is in the form in which access is decided. */
interface Namespace {
  readonly root: CatalogObject<CatalogSpec>;
  readonly database: CatalogObject | undefined;
  readonly target: Parameters<Authorizer['authorize']>[2];
}

/** A statement and where it runs, as of when it was placed. */
export interface PlacedStatement {
  readonly statement: Statement;
  readonly warehouse: string;
}

const cachedNamespacesMax = 1000;
const toUse = { privilege: 'use', on: 'object' } as const;

export class Namespaces {
  readonly #options: NamespacesOptions;
  /** Cleared by every change of an object. */
  readonly #known = new Map<string, Namespace>();
  #generation = 0;

  constructor(options: NamespacesOptions) {
    this.#options = options;
    const clear = () => {
      this.#generation++;
      this.#known.clear();
    };
    options.changes.follow({
      changed: (change) => {
        if (change.kind === 'object') clear();
      },
      reload: clear,
    });
  }

  /** Counts the changes of objects. */
  get generation(): number {
    return this.#generation;
  }

  /** Throws OBJECT_NOT_FOUND, FORBIDDEN, or INVALID_PARAMETER if the request names another warehouse than that of the catalog. */
  async place(request: QueryRequest, principal: Principal): Promise<PlacedStatement> {
    const key = JSON.stringify([request.catalog, request.database]);
    const { root, database, target } = this.#known.get(key) ?? (await this.#find(request, key));
    const { warehouse } = root.spec;
    if (request.warehouse !== undefined && request.warehouse !== warehouse) {
      const message = `catalog "${root.name}" belongs to warehouse "${warehouse}"; run the statement there`;
      throw invalidParameter('/warehouse', 'warehouse', message, message);
    }
    const decision = this.#options.authorizer.authorize(principal, toUse, target);
    if (decision instanceof Promise) await decision;
    const { sql, parameters } = request;
    return {
      statement: {
        sql,
        parameters,
        catalog: { id: root.id, name: root.name },
        database: database?.name,
        caller: mayCallCallerFunction(sql) ? principal.name : undefined,
      },
      warehouse,
    };
  }

  async #find(request: QueryRequest, key: string): Promise<Namespace> {
    const generation = this.#generation;
    const path: Segment[] = [{ category: 'catalogs', name: request.catalog }];
    if (request.database !== undefined) path.push({ category: 'databases', name: request.database });
    const [root, database] = (await this.#options.catalog.require(path)) as [
      CatalogObject<CatalogSpec>,
      CatalogObject | undefined,
    ];
    const category = 'warehouses';
    const target = { category, path: [{ category, name: root.spec.warehouse }] };
    const namespace = { root, database, target };
    if (this.#known.size >= cachedNamespacesMax) this.#known.clear();
    if (generation === this.#generation) this.#known.set(key, namespace);
    return namespace;
  }

  /** Whether the catalog has been moved to another warehouse since, by any server. */
  async hasMoved({ statement, warehouse }: PlacedStatement): Promise<boolean> {
    await this.#options.changes.poll();
    const path = [{ category: 'catalogs', name: statement.catalog.name }] as const;
    const [root] = (await this.#options.catalog.find(path)) ?? [];
    return root !== undefined && root.spec.warehouse !== warehouse;
  }
}
