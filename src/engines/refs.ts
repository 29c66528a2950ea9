// How the engine is told which catalog, database or table is meant.

/** `id` names the files or paths of a catalog (it never changes); `name` is what SQL calls it. */
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
