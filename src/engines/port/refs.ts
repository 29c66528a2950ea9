// References to catalogs, databases, tables and views in calls to an engine.
import type { ColumnDefinition } from '../../model/records.ts';

/** `id` identifies the files of a catalog and never changes; `name` is its name in SQL. */
export interface CatalogRef {
  readonly id: string;
  readonly name: string;
}
export interface DatabaseRef {
  readonly catalog: CatalogRef;
  readonly database: string;
}
export interface TableRef extends DatabaseRef {
  readonly table: string;
}
export interface ViewRef extends DatabaseRef {
  readonly view: string;
}

/** A table or view as a plan names it: names as stored in the engine. */
export interface TableName {
  readonly catalog: string;
  readonly database: string;
  readonly table: string;
}

/** A table or view as the store defines it. */
export interface DefinedObject {
  readonly name: TableName;
  readonly isView: boolean;
  /** Of a table; undefined while a change of it, of its database or of its catalog is open. */
  readonly columns?: readonly ColumnDefinition[] | undefined;
}

/** A table, and the columns whose checksums are wanted (model/table_checksum.ts). */
export interface TableToSum extends TableRef {
  readonly columns: readonly ColumnDefinition[];
}
