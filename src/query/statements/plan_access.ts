// Whether somebody may run a statement whose plan is known: what it needs on each table that it reads or writes, and on each view that
// it goes through. What the caller may not know of is refused like what does not exist.
import { type Authorizer, forbidden } from '../../access/authorization/authorizer.ts';
import type { Catalog } from '../../catalog/catalog.ts';
import type { CatalogObject } from '../../catalog/object.ts';
import type { Statement, StatementAnalysis, TableName } from '../../engines/engine.ts';
import type { Principal } from '../../model/principal.ts';
import type { Privilege } from '../../model/privileges.ts';
import { Failure } from '../../standard/failure.ts';
import type { Segment } from '../../standard/paths.ts';
import type { ResultSources } from '../results/result_access.ts';
import type { NameVisibility } from './name_visibility.ts';
import type { ExpectedStatement } from './plan_constraints.ts';

interface Parts {
  readonly catalog: Catalog;
  readonly authorizer: Authorizer;
  readonly names: NameVisibility;
}

interface Asked {
  readonly principal: Principal;
  readonly statement: Statement;
  /** Of all that can be a table in the statement. */
  readonly names: () => readonly (readonly string[])[];
  readonly only: ExpectedStatement | undefined;
}

export const hiddenObject = () =>
  new Failure('FORBIDDEN', 'the statement names something that does not exist, or that the caller may not use');

/**
 * Objects that the caller may not know of are checked first: which of two faults is reported must not depend on whether they exist.
 * Returns the tables and views that are read.
 */
export async function requireAccess(
  parts: Parts,
  { reads, writes, views }: StatementAnalysis,
  { principal, statement, names, only }: Asked,
): Promise<ResultSources> {
  const may = (privilege: Privilege, chain: readonly CatalogObject[]) =>
    parts.authorizer.isAllowedOn(principal, privilege, 'catalogs', chain);
  const needed: (readonly [Privilege, readonly CatalogObject[]])[] = [];
  for (const [privilege, category, all] of [
    ['read', 'tables', reads],
    ['read', 'views', views],
    ['write', 'tables', only?.isNew ? [] : writes],
  ] as const)
    for (const one of all) needed.push([privilege, await chainOf(parts, one, category, principal)]);
  const shows = (privilege: Privilege, chain: readonly CatalogObject[]) =>
    parts.authorizer.isVisible(principal, privilege, 'catalogs', chain);
  // Who may read or write it knows that it is there.
  if (!needed.every(([, chain]) => shows('read', chain) || shows('write', chain))) throw hiddenObject();
  if (!(await parts.names.areKnownTo(principal, statement, names, [...reads, ...writes, ...views])))
    throw hiddenObject();
  for (const [privilege, chain] of needed)
    if (!may(privilege, chain)) throw forbidden(privilege, { category: 'catalogs', path: chain });
  return needed.filter(([privilege]) => privilege === 'read').map(([, chain]) => chain.map(({ id }) => id));
}

async function chainOf(
  { catalog, authorizer }: Parts,
  { catalog: root, database, table }: TableName,
  category: 'tables' | 'views',
  principal: Principal,
): Promise<CatalogObject[]> {
  const path: Segment[] = [
    { category: 'catalogs', name: root },
    { category: 'databases', name: database },
    { category, name: table },
  ];
  const chain = await catalog.findFolded(path);
  if (chain) return chain;
  // An object that only the engine knows is half made or internal: refused as if it did not exist.
  const holder = (await catalog.findFolded(path.slice(0, 2))) ?? [];
  if (!authorizer.isVisible(principal, 'read', 'catalogs', holder)) throw hiddenObject();
  throw new Failure('SQL_INVALID', `the table "${database}"."${table}" does not exist`);
}
