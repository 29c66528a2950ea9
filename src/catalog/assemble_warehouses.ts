// Creates the warehouses: the catalog describes them, the engines run them.
import type { Secrets } from '../access/secrets/secrets.ts';
import { warehousePassword } from '../access/secrets/warehouse_password.ts';
import type { Engine } from '../engines/port/engine.ts';
import { Warehouses, type WarehousesOptions } from '../engines/warehouses/warehouses.ts';
import type { Store } from '../store/store.ts';
import type { CatalogReader } from './catalog_reader.ts';
import { definedObject } from './defined_object.ts';
import { filePositions } from './file_positions.ts';
import { catalogsOf, describeWarehouse, storedCatalogsOf } from './warehouse_objects.ts';

export interface AssembleWarehousesOptions
  extends Pick<WarehousesOptions, 'dataDirectory' | 'spoolDirectory' | 'disk' | 'observe' | 'otherServers'> {
  readonly store: Store;
  readonly secrets: Secrets;
  readonly settings: { readonly queueWaitMs: number };
  readonly loading: { readonly directories: readonly string[] };
}

export function assembleWarehouses(
  options: AssembleWarehousesOptions,
  objects: CatalogReader,
  engines: readonly Engine[],
): Warehouses {
  const { dataDirectory, spoolDirectory, disk, observe, store, secrets, settings, loading, otherServers } = options;
  return new Warehouses({
    engines,
    load: (name) => describeWarehouse(objects, name),
    passwordOf: (warehouseId) => warehousePassword(secrets).of(warehouseId),
    catalogsOf: (warehouse) => catalogsOf(objects, warehouse),
    storedCatalogsOf: (warehouse) => storedCatalogsOf(store, warehouse),
    definedObject: (warehouse, name) => definedObject({ catalog: objects, store }, warehouse, name),
    positions: filePositions(store),
    readableDirectories: loading.directories,
    queueWaitMs: settings.queueWaitMs,
    dataDirectory,
    spoolDirectory,
    disk,
    observe,
    otherServers,
  });
}
