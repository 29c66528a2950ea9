// Describes warehouses, and the catalogs in them, for the component that starts their processes.

import type { Kysely, Transaction } from 'kysely';
import type { CatalogRef } from '../engines/port/refs.ts';
import type { WarehouseDescription } from '../engines/warehouse_description.ts';
import type { BackendSpec, CatalogSpec, ServerIdentity, WarehouseSpec } from '../model/records.ts';
import { Failure } from '../standard/failure.ts';
import type { Schema } from '../store/schema.ts';
import type { Store } from '../store/store.ts';
import type { Catalog } from './catalog.ts';
import type { CatalogReader } from './catalog_reader.ts';
import { leftCopyCategory } from './moves/left_copies.ts';
import type { CatalogObject, DroppedPosition } from './object.ts';
import { toRfc3339 } from './object_rows.ts';

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
    backends: backends.map(({ name, spec: { disabled, location, server, decommission } }) => ({
      name,
      disabled,
      decommissioned: decommission?.phase === 'done',
      location,
      server,
    })),
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

/** The ids of all catalogs that have data in a warehouse, in any state, and of what is left there of those that were moved away. */
export async function storedCatalogsOf({ db }: Pick<Store, 'db'>, warehouse: string): Promise<string[]> {
  const rows = await db
    .selectFrom('objects')
    .leftJoin('dropped_objects', 'dropped_objects.object_id', 'objects.id')
    .select(['objects.id', 'category', 'spec', 'dropped_objects.warehouse'])
    .where('parent_id', 'is', null)
    .where('category', 'in', ['catalogs', leftCopyCategory])
    .execute();
  const isHere = ({ category, spec, warehouse: left }: (typeof rows)[number]) =>
    (category === leftCopyCategory ? left : (JSON.parse(spec) as CatalogSpec).warehouse) === warehouse;
  return rows.filter(isHere).map(({ id }) => id);
}

/** Whether there is a warehouse of this name. `db` can be a transaction. */
export async function warehouseExists(db: Kysely<Schema>, name: string): Promise<boolean> {
  const found = db.selectFrom('objects').select('id').where('parent_id', 'is', null);
  const warehouse = found.where('category', '=', 'warehouses').where('name', '=', name);
  return (await warehouse.executeTakeFirst()) !== undefined;
}

/**
 * In the transaction that deletes a warehouse without visible catalogs. Throws IN_USE while its engine has something to complete or to delete: nobody
 * could do that afterwards.
 */
export async function requireNothingLeft(tx: Transaction<Schema>, warehouse: string): Promise<void> {
  const open = await tx.selectFrom('intents').select('id').where('warehouse', '=', warehouse).execute();
  if (open.length > 0) {
    const message = 'changes in the warehouse have not ended; they do while it runs';
    throw new Failure('IN_USE', message, { openChanges: open.length });
  }
  const dropped = await tx
    .selectFrom('dropped_objects')
    .select('purge_at')
    .where('warehouse', '=', warehouse)
    .orderBy('purge_at', 'desc')
    .limit(1)
    .executeTakeFirst();
  if (dropped) {
    const retainedUntil = toRfc3339(dropped.purge_at);
    const message = `the warehouse contains copies of moved or dropped catalogs, which are deleted after ${retainedUntil}`;
    throw new Failure('IN_USE', message, { retainedUntil });
  }
  const catalogs = await tx.selectFrom('objects').select('spec').where('category', '=', 'catalogs').execute();
  if (catalogs.some(({ spec }) => (JSON.parse(spec) as CatalogSpec).warehouse === warehouse))
    throw new Failure('IN_USE', 'the warehouse contains catalogs');
}

/** The names of the dropped catalogs of a warehouse that can be restored. */
export async function droppedCatalogsOf(catalog: Catalog, warehouse: string): Promise<string[]> {
  const names: string[] = [];
  for (let after: DroppedPosition | undefined; ; ) {
    const { items, hasMore, examined } = await catalog.searchDropped(null, 'catalogs', {
      after,
      limit: pageSize,
      keep: () => true,
    });
    names.push(...items.filter((entry) => entry.warehouse === warehouse).map(({ object }) => object.name));
    after = examined ?? items.at(-1)?.object;
    if (!hasMore) return names;
  }
}
