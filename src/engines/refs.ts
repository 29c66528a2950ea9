// How the engine is told which catalog, database, table or view is meant.

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
export interface ViewRef extends DatabaseRef {
  readonly view: string;
}

/** A table or view as a plan names it: names as the engine holds them. */
export interface TableName {
  readonly catalog: string;
  readonly database: string;
  readonly table: string;
}
