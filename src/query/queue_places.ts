// Whether a statement would find a place in the queue of its warehouse. Checked before any other work is done for a request, so that
// refusing it costs little; the queue itself (engines/admission.ts) decides again when the statement comes to it.
import type { Authorizer } from '../access/authorization/authorizer.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { CatalogObject } from '../catalog/object.ts';
import type { Turn } from '../engines/admission.ts';
import type { Warehouses } from '../engines/warehouses.ts';
import type { Principal } from '../model/principal.ts';
import type { CatalogSpec } from '../model/records.ts';

interface QueuePlacesOptions {
  readonly catalog: Pick<Catalog, 'find' | 'onChange'>;
  readonly authorizer: Pick<Authorizer, 'authorize'>;
  readonly warehouses: Pick<Warehouses, 'requirePlace'>;
}

const toUse = { privilege: 'use', on: 'object' } as const;

/** The warehouse of a catalog, in the form in which access is decided. */
type WarehousePlace = Parameters<Authorizer['authorize']>[2] & { readonly warehouse: string };

export class QueuePlaces {
  readonly #options: QueuePlacesOptions;
  /** By the name of the catalog, since the last change of any catalog. */
  #warehouses = new Map<string, WarehousePlace>();

  constructor(options: QueuePlacesOptions) {
    this.#options = options;
    options.catalog.onChange(({ category }) => {
      if (category === 'catalogs') this.#warehouses = new Map();
    });
  }

  /**
   * Throws WAREHOUSE_BUSY where the queue is full, FORBIDDEN where the principal may not use the warehouse. A catalog that does not exist
   * is left for the statement to report.
   */
  async require(catalog: string, turn: Omit<Turn, 'principal'> & { readonly principal: Principal }): Promise<void> {
    const place = this.#warehouses.get(catalog) ?? (await this.#find(catalog));
    if (!place) return;
    const decided = this.#options.authorizer.authorize(turn.principal, toUse, place);
    if (decided instanceof Promise) await decided;
    await this.#options.warehouses.requirePlace(place.warehouse, turn);
  }

  async #find(name: string): Promise<WarehousePlace | undefined> {
    const known = this.#warehouses;
    const [root] = ((await this.#options.catalog.find([{ category: 'catalogs', name }])) ??
      []) as readonly CatalogObject<CatalogSpec>[];
    if (!root) return undefined;
    const { warehouse } = root.spec;
    const category = 'warehouses';
    const place = { category, path: [{ category, name: warehouse }], found: undefined, warehouse };
    known.set(name, place);
    return place;
  }
}
