// The changes of objects that an engine carries out.
import type { TableDefinition } from '../../model/records.ts';
import type { CatalogRef, DatabaseRef, TableRef, ViewRef } from './refs.ts';
import type { DependentView, RestoredView } from './views.ts';

/**
 * A dropped table that can be restored. SQL cannot name it: `id` is the id of the object, `database` the name of its database when
 * it was dropped.
 */
export interface DroppedTable {
  readonly database: string;
  readonly id: string;
}

export interface DroppedTableDefinition {
  readonly id: string;
  /** The name of the table before the drop, and again after the restore. */
  readonly name: string;
  readonly definition: TableDefinition;
}

/**
 * One change of objects. Each is atomic and idempotent: when it runs again after a crash and finds its work done, it succeeds.
 * `step` is unique to the intent. Where the state alone cannot show that the work was done, the engine records the step in the same
 * transaction.
 */
export type Change =
  | { readonly kind: 'createCatalog'; readonly catalog: CatalogRef }
  | { readonly kind: 'dropCatalog'; readonly catalog: CatalogRef }
  | { readonly kind: 'renameCatalog'; readonly catalog: CatalogRef; readonly newName: string }
  /**
   * Detaches the catalog and retains its data. `restoreCatalog` attaches it again, possibly under another name; `dropCatalog`
   * deletes it.
   */
  | { readonly kind: 'hideCatalog'; readonly catalog: CatalogRef }
  | { readonly kind: 'restoreCatalog'; readonly catalog: CatalogRef; readonly views?: readonly RestoredView[] }
  | { readonly kind: 'createDatabase'; readonly database: DatabaseRef }
  /**
   * Drops the contents too; the catalog has already decided that this is wanted. Of the dropped tables that can be restored, only
   * `hidden` are deleted.
   */
  | { readonly kind: 'dropDatabase'; readonly database: DatabaseRef; readonly hidden?: readonly DroppedTable[] }
  /** Drops its views: they are created again when the database is restored. */
  | {
      readonly kind: 'hideDatabase';
      readonly database: DatabaseRef;
      readonly tables: readonly { readonly id: string; readonly name: string }[];
    }
  | {
      readonly kind: 'restoreDatabase';
      /** Under its new name. */
      readonly database: DatabaseRef;
      /** Its name when it was dropped. */
      readonly from: string;
      readonly tables: readonly DroppedTableDefinition[];
      readonly views?: readonly RestoredView[];
    }
  | {
      readonly kind: 'renameDatabase';
      readonly database: DatabaseRef;
      readonly newName: string;
      /** Every table in the database, so that an engine that cannot rename a schema can move them. */
      readonly tables: readonly { readonly name: string; readonly definition: TableDefinition }[];
    }
  | { readonly kind: 'createTable'; readonly table: TableRef; readonly definition: TableDefinition }
  | { readonly kind: 'dropTable'; readonly table: TableRef }
  | { readonly kind: 'hideTable'; readonly table: TableRef; readonly id: string }
  | {
      readonly kind: 'restoreTable';
      /** Under its new names. */
      readonly table: TableRef;
      /** The name of its database when the table was dropped. */
      readonly from: string;
      readonly id: string;
      readonly definition: TableDefinition;
    }
  /** Deletes dropped tables for good, and the databases of these names that are empty. */
  | {
      readonly kind: 'purge';
      readonly catalog: CatalogRef;
      readonly hidden: readonly DroppedTable[];
      readonly databases: readonly string[];
    }
  | {
      readonly kind: 'renameTable';
      readonly table: TableRef;
      readonly newName: string;
      readonly definition: TableDefinition;
    }
  | { readonly kind: 'truncateTable'; readonly table: TableRef }
  | {
      readonly kind: 'alterTable';
      readonly table: TableRef;
      readonly from: TableDefinition;
      readonly to: TableDefinition;
      /** Maps the old name to the new name of each column whose data is retained under another name. */
      readonly renamedColumns: Readonly<Record<string, string>>;
      /** The caller may not read the rows: of the rows that do not fit, only the number is reported. */
      readonly hidesRows?: boolean;
      /** Views that depend on the table: if the change would break one of them, nothing is done (Failure IN_USE, BrokenViews). */
      readonly views?: readonly DependentView[];
    }
  /** `sql`: a query; unqualified names in it are resolved in the database of the view. */
  | { readonly kind: 'createView'; readonly view: ViewRef; readonly sql: string }
  | {
      readonly kind: 'replaceView';
      readonly view: ViewRef;
      readonly sql: string;
      /** See `alterTable`. */
      readonly views?: readonly DependentView[];
    }
  | { readonly kind: 'renameView'; readonly view: ViewRef; readonly newName: string; readonly sql: string }
  | { readonly kind: 'dropView'; readonly view: ViewRef };

export function catalogOf(change: Change): CatalogRef {
  if ('catalog' in change) return change.catalog;
  if ('database' in change) return change.database.catalog;
  return 'table' in change ? change.table.catalog : change.view.catalog;
}

/** How a change is carried out: instantly, or by rewriting the data of the table (which belongs in a task). */
export type ChangeCost = 'instant' | 'rewrite';
