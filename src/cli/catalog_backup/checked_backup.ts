// The last check of a backup before it replaces a catalog: reads all its tables and compares them with its store.
import { expectedTables } from '../../store/expected_tables.ts';
import { findRewindObstacle } from '../../store/rewound_catalog.ts';
import type { CatalogName, CatalogsToCheck } from '../check/catalog_checks.ts';
import { type FoundBackup, unusable } from './backup_candidates.ts';

/** Closes the store of the backup if it throws a Failure: the backup cannot be used. */
export async function checkedBackup(
  { store, checks }: CatalogsToCheck,
  catalog: CatalogName,
  fetched: Omit<FoundBackup, 'identity'>,
): Promise<FoundBackup> {
  const { older, directory } = fetched;
  try {
    const recorded = await older.db
      .selectFrom('catalog_files')
      .select(['identity', 'checkpoint', 'log_bytes as logBytes'])
      .where('catalog_id', '=', catalog.id)
      .executeTakeFirst();
    const expected = await expectedTables(older, catalog.id);
    const { faults } = await checks.checkCatalog(directory, catalog, recorded, expected);
    const [first = await findRewindObstacle(store.db, older.db, catalog.id)] = faults;
    if (first !== undefined) throw unusable(first);
    return { ...fetched, identity: recorded?.identity };
  } catch (error) {
    await older.close();
    throw error;
  }
}
