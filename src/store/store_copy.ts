// A copy of a metadata store, looked into without a server: what a backup of the whole server needs to know of it.
import { DatabaseSync } from 'node:sqlite';

export interface CopiedCatalog {
  readonly id: string;
  readonly name: string;
  /** It was dropped and can come back, or is on its way. */
  readonly isVisible: boolean;
  /** Else it is empty, and no engine has made a file for it yet. */
  readonly hasFile: boolean;
}

/** @returns every catalog, whatever its state. */
export function catalogsInCopy(file: string): CopiedCatalog[] {
  const sql = `select id, name, state in ('ready', 'altering', 'blocked') as visible,
      id in (select catalog_id from catalog_files)
        or exists (select 1 from objects as child where child.parent_id = objects.id) as has_file
    from objects where parent_id is null and category = 'catalogs' order by name`;
  return withDatabase(file, (database) =>
    database
      .prepare(sql)
      .all()
      .map(({ id, name, visible, has_file }) => ({
        id: String(id),
        name: String(name),
        isVisible: visible === 1,
        hasFile: has_file === 1,
      })),
  );
}

/** What SQLite's own check of the file finds; empty: it is sound. */
export function integrityFaultsOfCopy(file: string): string[] {
  return withDatabase(file, (database) =>
    database
      .prepare('pragma quick_check(20)')
      .all()
      .map((row) => String(row.quick_check))
      .filter((text) => text !== 'ok'),
  );
}

/** Uploads, exports and rejected rows: their bytes are not in a backup. */
export function deleteFilesInCopy(file: string): void {
  withDatabase(file, (database) => database.exec('delete from files'));
}

/** Files are put beside it while it is open, and taken away when it is closed. */
function withDatabase<T>(file: string, work: (database: DatabaseSync) => T): T {
  const database = new DatabaseSync(file);
  try {
    return work(database);
  } finally {
    database.close();
  }
}
