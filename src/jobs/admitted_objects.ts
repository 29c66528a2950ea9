// The table or catalog of a task, as it is when the warehouse admits the task: it may have another name or warehouse by then, or its
// submitter fewer rights.
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

export interface ObjectTaskParts {
  readonly catalog: Pick<Catalog, 'findChain'>;
  readonly authorizer: Authorizer;
  readonly warehouses: Warehouses;
}

interface Admission {
  readonly principal: Principal;
  /** What the principal needs on the object, beside `use` of the warehouse. */
  readonly privilege: Privilege;
  readonly signal: AbortSignal;
}

/** Throws FORBIDDEN and OBJECT_NOT_FOUND, and CHANGE_IN_PROGRESS if the table was moved to another warehouse, for which the task begins again. */
export async function withAdmittedTable<T>(
  parts: ObjectTaskParts,
  { tableId, ...admission }: Admission & { readonly tableId: string },
  work: (engine: EngineWarehouse, table: TableRef, spec: TableSpec) => Promise<T>,
): Promise<T> {
  const chainNow = () => chainOfTable(parts, tableId);
  return withAdmitted(parts, admission, chainNow, (engine, [root, database, table]) => {
    const ref = { catalog: { id: root.id, name: root.name }, database: database.name, table: table.name };
    return work(engine, ref, table.spec);
  });
}

/** As `withAdmittedTable`, for a whole catalog. */
export async function withAdmittedCatalog<T>(
  parts: ObjectTaskParts,
  { catalogId, ...admission }: Admission & { readonly catalogId: string },
  work: (engine: EngineWarehouse, catalog: CatalogObject<CatalogSpec>) => Promise<T>,
): Promise<T> {
  const chainNow = async () => [await catalogNow(parts, catalogId)] as const;
  return withAdmitted(parts, admission, chainNow, (engine, [root]) => work(engine, root));
}

async function withAdmitted<Chain extends readonly [CatalogObject<CatalogSpec>, ...CatalogObject[]], T>(
  { authorizer, warehouses }: ObjectTaskParts,
  { principal, privilege, signal }: Admission,
  chainNow: () => Promise<Chain>,
  work: (engine: EngineWarehouse, chain: Chain) => Promise<T>,
): Promise<T> {
  const [before] = await chainNow();
  const { warehouse } = before.spec;
  return warehouses.admit(warehouse, { principal, signal, isTask: true }, async (engine) => {
    const chain = await chainNow();
    // Each move gives the catalog another id.
    if (chain[0].id !== before.id)
      throw new Failure('CHANGE_IN_PROGRESS', 'the catalog was moved to another warehouse while the task waited');
    if (!authorizer.isAllowedOn(principal, privilege, 'catalogs', chain))
      throw forbidden(privilege, { category: 'catalogs', path: chain });
    await authorizer.requireUse(principal, warehouse);
    return work(engine, chain);
  });
}

/** The catalog as it is now. Throws OBJECT_NOT_FOUND. */
export async function catalogNow(
  { catalog }: Pick<ObjectTaskParts, 'catalog'>,
  catalogId: string,
): Promise<CatalogObject<CatalogSpec>> {
  const [root] = await catalog.findChain(catalogId);
  if (!root) throw new Failure('OBJECT_NOT_FOUND', 'the catalog no longer exists', { category: 'catalogs' });
  return root as CatalogObject<CatalogSpec>;
}

async function chainOfTable({ catalog }: Pick<ObjectTaskParts, 'catalog'>, tableId: string) {
  const [root, database, table] = await catalog.findChain(tableId);
  if (!root || !database || !table)
    throw new Failure('OBJECT_NOT_FOUND', 'the table no longer exists', { category: 'tables' });
  return [root as CatalogObject<CatalogSpec>, database, table as CatalogObject<TableSpec>] as const;
}
