// Describes warehouses, and the catalogs in them, for the component that starts their processes.

import type { Transaction } from 'kysely';
import type { CatalogRef } from '../engines/refs.ts';
import type { WarehouseDescription } from '../engines/warehouse_description.ts';
import type { BackendSpec, CatalogSpec, ServerIdentity, WarehouseSpec } from '../model/records.ts';
import type { Schema } from '../store/schema.ts';
import type { Catalog } from './catalog.ts';
import type { CatalogReader } from './catalog_reader.ts';
import type { CatalogObject } from './object.ts';

const pageSize = 1000;

export async function describeWarehouse(
  catalog: CatalogReader,
  name: string,
): Promise<WarehouseDescription | undefined> {
  const [object] = (await catalog.find([{ category: 'warehouses', name }])) ?? [];
  if (!object) return undefined;
  const backends = (await catalog.list(object.id, 'backends', { limit: pageSize })) as CatalogObject<BackendSpec>[];
  return {
    id: object.id,
    name,
    spec: object.spec as WarehouseSpec,
    backends: backends.map(({ name, spec: { disabled, location, server } }) => ({ name, disabled, location, server })),
  };
}

/** The other servers of a warehouse, in the transaction that registers one. */
export async function serversBesides(
  tx: Transaction<Schema>,
  { backendId, warehouseId }: { readonly backendId: string; readonly warehouseId: string },
): Promise<ServerIdentity[]> {
  const rows = await tx
    .selectFrom('objects')
    .select('spec')
    .where('parent_id', '=', warehouseId)
    .where('category', '=', 'backends')
    .where('id', '!=', backendId)
    .execute();
  return rows.flatMap(({ spec }) => (JSON.parse(spec) as BackendSpec).server ?? []);
}

export async function warehouseNames(catalog: CatalogReader): Promise<string[]> {
  return (await catalog.list(null, 'warehouses', { limit: pageSize })).map(({ name }) => name);
}

/** The catalogs that live in a warehouse. */
export async function catalogsOf(catalog: CatalogReader, warehouse: string): Promise<readonly CatalogRef[]> {
  return (await catalogsByWarehouse(catalog)).get(warehouse) ?? [];
}

/** The catalogs of each warehouse that has any, by its name. */
export async function catalogsByWarehouse(catalog: CatalogReader): Promise<ReadonlyMap<string, CatalogRef[]>> {
  const found = new Map<string, CatalogRef[]>();
  for (let after: string | undefined; ; ) {
    const page = await catalog.list(null, 'catalogs', { after, limit: pageSize });
    for (const { id, name, spec } of page) {
      const { warehouse } = spec as CatalogSpec;
      const catalogs = found.get(warehouse);
      if (catalogs) catalogs.push({ id, name });
      else found.set(warehouse, [{ id, name }]);
    }
    if (page.length < pageSize) return found;
    after = page.at(-1)?.name;
  }
}

/** The names of the dropped catalogs of a warehouse that can be restored. */
export async function droppedCatalogsOf(catalog: Catalog, warehouse: string): Promise<string[]> {
  const dropped = await catalog.listDropped(null, 'catalogs', { limit: pageSize, keep: () => true });
  return dropped.filter((entry) => entry.warehouse === warehouse).map(({ object }) => object.name);
}
