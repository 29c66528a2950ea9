// The table of a task, as it is when the warehouse admits the task: it may have another name or warehouse by then, or its submitter
// fewer rights.
import { type Authorizer, forbidden } from '../access/authorization/authorizer.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { CatalogObject } from '../catalog/object.ts';
import type { EngineWarehouse } from '../engines/port/engine.ts';
import type { TableRef } from '../engines/port/refs.ts';
import type { Warehouses } from '../engines/warehouses/warehouses.ts';
import type { Principal } from '../model/principal.ts';
import type { Privilege } from '../model/privileges.ts';
import type { CatalogSpec, TableSpec } from '../model/records.ts';
import { Failure } from '../standard/failure.ts';

export interface TableTaskParts {
  readonly catalog: Pick<Catalog, 'findChain'>;
  readonly authorizer: Authorizer;
  readonly warehouses: Warehouses;
}

interface TableTask {
  readonly tableId: string;
  readonly principal: Principal;
  /** What the principal needs on the table. */
  readonly privilege: Privilege;
  readonly signal: AbortSignal;
}

/** Throws FORBIDDEN and OBJECT_NOT_FOUND, and CHANGE_IN_PROGRESS if the table was moved to another warehouse, for which the task begins again. */
export async function withAdmittedTable<T>(
  parts: TableTaskParts,
  { tableId, principal, privilege, signal }: TableTask,
  work: (engine: EngineWarehouse, table: TableRef, spec: TableSpec) => Promise<T>,
): Promise<T> {
  const { authorizer, warehouses } = parts;
  const [before] = await chainOf(parts, tableId);
  const { warehouse } = before.spec;
  return warehouses.admit(warehouse, { principal, signal, isTask: true }, async (engine) => {
    const chain = await chainOf(parts, tableId);
    const [root, database, table] = chain;
    // Each move gives the catalog another id.
    if (root.id !== before.id)
      throw new Failure('CHANGE_IN_PROGRESS', 'the catalog was moved to another warehouse while the task waited');
    if (!authorizer.isAllowedOn(principal, privilege, 'catalogs', chain))
      throw forbidden(privilege, { category: 'catalogs', path: chain });
    const path = [{ category: 'warehouses', name: warehouse }];
    await authorizer.require(principal, 'use', { category: 'warehouses', path });
    const ref = { catalog: { id: root.id, name: root.name }, database: database.name, table: table.name };
    return work(engine, ref, table.spec);
  });
}

async function chainOf({ catalog }: TableTaskParts, tableId: string) {
  const [root, database, table] = await catalog.findChain(tableId);
  if (!root || !database || !table)
    throw new Failure('OBJECT_NOT_FOUND', 'the table no longer exists', { category: 'tables' });
  return [root as CatalogObject<CatalogSpec>, database, table as CatalogObject<TableSpec>] as const;
}
