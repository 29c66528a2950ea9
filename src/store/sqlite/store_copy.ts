// Reads and edits a copy of a metadata store without a server, for backups of the whole server.
import { DatabaseSync } from 'node:sqlite';

export interface CopiedCatalog {
  readonly id: string;
  readonly name: string;
  /** False for a catalog that is dropped, being created or being restored. */
  readonly isVisible: boolean;
  /** If false, the catalog is empty and no engine has created a file for it yet. */
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

/** The faults that SQLite's quick_check finds; empty if there are none. */
export function integrityFaultsOfCopy(file: string): string[] {
  return withDatabase(file, (database) =>
    database
      .prepare('pragma quick_check(20)')
      .all()
      .map((row) => String(row.quick_check))
      .filter((text) => text !== 'ok'),
  );
}

/** Deletes the records of uploads, exports and rejected rows, because a backup does not contain their bytes. */
export function deleteFilesInCopy(file: string): void {
  withDatabase(file, (database) => database.exec('delete from files'));
}

/** SQLite creates files beside the copy while it is open and deletes them when it is closed. */
function withDatabase<T>(file: string, work: (database: DatabaseSync) => T): T {
  const database = new DatabaseSync(file);
  try {
    return work(database);
  } finally {
    database.close();
  }
}
