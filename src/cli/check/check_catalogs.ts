// The part of `check` for catalogs: compares each with its description in the store. See catalog_repairs.ts for the repairs.
import { SettingsError } from '../../settings/read_settings.ts';
import { expectedTables } from '../../store/expected_tables.ts';
import type { Store } from '../../store/store.ts';
import type { CatalogName, CatalogsToCheck, RecordedFile } from './catalog_checks.ts';
import { repaired } from './catalog_repairs.ts';

/** @returns the number of catalogs that are damaged and not repaired. */
export async function checkCatalogs(work: CatalogsToCheck): Promise<number> {
  const { store, catalogName, say, dataDirectory, checks } = work;
  const rows = await store.db
    .selectFrom('objects')
    .select(['id', 'name'])
    .where('category', '=', 'catalogs')
    .where('state', 'in', ['ready', 'altering', 'blocked'])
    .orderBy('name')
    .execute();
  const catalogs = rows.filter(({ name }) => catalogName === '' || name === catalogName);
  if (catalogName !== '' && catalogs.length === 0)
    throw new SettingsError(`there is no catalog ${JSON.stringify(catalogName)}`);
  let damaged = 0;
  for (const catalog of catalogs) {
    const recorded = await recordedFile(store, catalog);
    const expected = await expectedTables(store, catalog.id);
    const { faults, bytes } = await checks.checkCatalog(dataDirectory, catalog, recorded, expected);
    const shown = JSON.stringify(catalog.name);
    // Its file is created at its first use.
    const isUnused = recorded === undefined && bytes === undefined && (await databasesIn(store, catalog)) === 0;
    if (isUnused) say(`intact  catalog ${shown}: never used, without a file`);
    else if (faults.length === 0) say(`intact  catalog ${shown}: ${bytes} bytes`);
    else {
      say(`DAMAGED catalog ${shown}: ${faults.join('; ')}`);
      if (!(await repaired(work, catalog, faults))) damaged++;
    }
  }
  return damaged;
}

/** In any state. */
async function databasesIn(store: Store, { id }: CatalogName): Promise<number> {
  return (await store.db.selectFrom('objects').select('id').where('parent_id', '=', id).execute()).length;
}

async function recordedFile(store: Store, { id }: CatalogName): Promise<RecordedFile | undefined> {
  return store.db
    .selectFrom('catalog_files')
    .select(['identity', 'checkpoint', 'log_bytes as logBytes'])
    .where('catalog_id', '=', id)
    .executeTakeFirst();
}
