// Checks whether a statement would find room in the queue of its warehouse. Runs before any other work on a request, so that a refusal
// costs little. The queue itself (engines/admission.ts) decides again when the statement arrives.
import type { Authorizer } from '../access/authorization/authorizer.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { CatalogObject } from '../catalog/object.ts';
import type { AdmissionRequest } from '../engines/admission.ts';
import type { Warehouses } from '../engines/warehouses/warehouses.ts';
import type { Principal } from '../model/principal.ts';
import type { CatalogSpec } from '../model/records.ts';
import type { ChangeFeed } from '../store/changes/change_feed.ts';

interface QueueCapacityOptions {
  readonly catalog: Pick<Catalog, 'find'>;
  readonly changes: Pick<ChangeFeed, 'follow'>;
  readonly authorizer: Pick<Authorizer, 'authorize'>;
  readonly warehouses: Pick<Warehouses, 'requireQueueCapacity'>;
}

const toUse = { privilege: 'use', on: 'object' } as const;

/** The warehouse of a catalog, in the form in which access is decided. */
type WarehouseTarget = Parameters<Authorizer['authorize']>[2] & { readonly warehouse: string };

export class QueueCapacity {
  readonly #options: QueueCapacityOptions;
  /** By catalog name; cleared when any catalog changes. */
  #warehouses = new Map<string, WarehouseTarget>();

  constructor(options: QueueCapacityOptions) {
    this.#options = options;
    const clear = () => {
      this.#warehouses = new Map();
    };
    options.changes.follow({
      changed: (change) => {
        if (change.kind === 'object' && change.category === 'catalogs') clear();
      },
      reload: clear,
    });
  }

  /**
   * Throws WAREHOUSE_BUSY if the queue is full, FORBIDDEN if the principal may not use the warehouse. A missing catalog is left for the
   * statement to report.
   */
  async require(
    catalog: string,
    request: Omit<AdmissionRequest, 'principal'> & { readonly principal: Principal },
  ): Promise<void> {
    const target = this.#warehouses.get(catalog) ?? (await this.#find(catalog));
    if (!target) return;
    const decision = this.#options.authorizer.authorize(request.principal, toUse, target);
    if (decision instanceof Promise) await decision;
    await this.#options.warehouses.requireQueueCapacity(target.warehouse, request);
  }

  async #find(name: string): Promise<WarehouseTarget | undefined> {
    const cache = this.#warehouses;
    const [root] = ((await this.#options.catalog.find([{ category: 'catalogs', name }])) ??
      []) as readonly CatalogObject<CatalogSpec>[];
    if (!root) return undefined;
    const { warehouse } = root.spec;
    const category = 'warehouses';
    const target = { category, path: [{ category, name: warehouse }], found: undefined, warehouse };
    cache.set(name, target);
    return target;
  }
}
