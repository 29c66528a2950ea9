// What a table or view of an engine is by the store, for an engine on servers that can lose what they have.
import type { DefinedObject, TableName } from '../engines/port/refs.ts';
import type { CatalogSpec, TableSpec } from '../model/records.ts';
import type { Store } from '../store/store.ts';
import type { CatalogReader } from './catalog_reader.ts';
import { nextOf } from './changes/intents.ts';
import type { CatalogObject } from './object.ts';

interface Sources {
  readonly catalog: CatalogReader;
  readonly store: Store;
}

/** See `EngineWarehouseOptions.definedObject`. Reads the store, which is ahead of what this server has cached. */
export async function definedObject(
  { catalog, store }: Sources,
  warehouse: string,
  name: TableName,
): Promise<DefinedObject | undefined> {
  for (const category of ['tables', 'views'] as const) {
    const chain = await catalog.findFolded([
      { category: 'catalogs', name: name.catalog },
      { category: 'databases', name: name.database },
      { category, name: name.table },
    ]);
    if (!chain) continue;
    const [root, database, object] = chain as [CatalogObject, CatalogObject, CatalogObject];
    if ((root.spec as CatalogSpec).warehouse !== warehouse || !(await keepNames(store, chain))) return undefined;
    const isView = category === 'views';
    const isSettled = !isView && chain.every(({ state }) => state === 'ready');
    return {
      name: { catalog: root.name, database: database.name, table: object.name },
      isView,
      columns: isSettled ? (object.spec as TableSpec).columns : undefined,
    };
  }
  return undefined;
}

/** Whether no open change renames one of the objects. */
async function keepNames({ db }: Store, objects: readonly CatalogObject[]): Promise<boolean> {
  const ids = objects.filter(({ state }) => state !== 'ready').map(({ id }) => id);
  if (ids.length === 0) return true;
  const intents = await db.selectFrom('intents').selectAll().where('object_id', 'in', ids).execute();
  // One that ends meanwhile may have renamed its object.
  if (ids.some((id) => !intents.some((intent) => intent.object_id === id))) return false;
  return intents.every((intent) => intent.verb === 'update' && nextOf(intent).name === undefined);
}
