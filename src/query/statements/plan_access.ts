// Authorizes a statement by its plan: privileges on each table that it reads or writes, and on each view that it goes through. Objects
// that are hidden from the caller are refused exactly like objects that do not exist.
import { type Authorizer, forbidden } from '../../access/authorization/authorizer.ts';
import type { Catalog } from '../../catalog/catalog.ts';
import type { CatalogObject } from '../../catalog/object.ts';
import type { TableName } from '../../engines/port/refs.ts';
import type { Statement, StatementAnalysis } from '../../engines/port/statements.ts';
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

interface AccessRequest {
  readonly principal: Principal;
  readonly statement: Statement;
  /** Every name in the statement that could be a table. */
  readonly names: () => Promise<readonly (readonly string[])[]>;
  readonly expected: ExpectedStatement | undefined;
}

export const hiddenObject = () =>
  new Failure('FORBIDDEN', 'the statement names something that does not exist, or that the caller may not use');

/**
 * Visibility is checked before privileges: which of two failures is reported must not depend on whether a hidden object exists. Returns
 * the tables and views that the statement reads.
 */
export async function requireAccess(
  parts: Parts,
  { reads, writes, views }: StatementAnalysis,
  { principal, statement, names: statementNames, expected }: AccessRequest,
): Promise<ResultSources> {
  const hasPrivilege = (privilege: Privilege, chain: readonly CatalogObject[]) =>
    parts.authorizer.isAllowedOn(principal, privilege, 'catalogs', chain);
  const needed: (readonly [Privilege, readonly CatalogObject[]])[] = [];
  for (const [privilege, category, names] of [
    ['read', 'tables', reads],
    ['read', 'views', views],
    ['write', 'tables', expected?.isNew ? [] : writes],
  ] as const)
    for (const name of names) needed.push([privilege, await chainOf(parts, name, category, principal)]);
  const shows = (privilege: Privilege, chain: readonly CatalogObject[]) =>
    parts.authorizer.isVisible(principal, privilege, 'catalogs', chain);
  // A privilege to read or write an object includes seeing that it exists.
  if (!needed.every(([, chain]) => shows('read', chain) || shows('write', chain))) throw hiddenObject();
  if (!(await parts.names.areVisibleTo(principal, statement, statementNames, [...reads, ...writes, ...views])))
    throw hiddenObject();
  for (const [privilege, chain] of needed)
    if (!hasPrivilege(privilege, chain)) throw forbidden(privilege, { category: 'catalogs', path: chain });
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
  // An object that exists only in the engine is unfinished or internal: it is refused as if it did not exist.
  const databaseChain = (await catalog.findFolded(path.slice(0, 2))) ?? [];
  if (!authorizer.isVisible(principal, 'read', 'catalogs', databaseChain)) throw hiddenObject();
  throw new Failure('SQL_INVALID', `the table "${database}"."${table}" does not exist`);
}
