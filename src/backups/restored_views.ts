// Restores the views of a backup after the tables of all its databases. The texts come from whoever wrote the backup: each is analyzed
// like a request of the restorer, and a view that is not valid, or reads what the restorer may not, is omitted and reported.
import type { Authorizer } from '../access/authorization/authorizer.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { NewChild } from '../catalog/object.ts';
import type { EngineWarehouse } from '../engines/port/engine.ts';
import type { CatalogRef, TableName } from '../engines/port/refs.ts';
import { newId } from '../model/ids.ts';
import { foldName } from '../model/names.ts';
import type { Principal } from '../model/principal.ts';
import type { ViewSpec } from '../model/records.ts';
import type { Code } from '../standard/codes.ts';
import { Failure } from '../standard/failure.ts';
import type { BackedUpView } from './manifest.ts';

interface Restoring {
  readonly catalog: Catalog;
  readonly authorizer: Authorizer;
  readonly principal: Principal;
  readonly engine: EngineWarehouse;
  readonly signal: AbortSignal;
  /** The catalog that the views are restored into. */
  readonly into: CatalogRef;
  /** Databases that are being restored: their contents belong to the restorer. */
  readonly databases: readonly string[];
}

/** `database`: its new name. */
export interface ViewToRestore {
  readonly database: string;
  readonly view: BackedUpView;
}

export interface RestoredViews {
  readonly restored: readonly (NewChild & { readonly database: string })[];
  readonly omitted: readonly string[];
}

/** Creates the views in any order that satisfies their dependencies. Idempotent: views of a previous attempt are created again. */
export async function restoreViews(all: readonly ViewToRestore[], restoring: Restoring): Promise<RestoredViews> {
  const { engine, into, signal } = restoring;
  const refOf = ({ database, view }: ViewToRestore) => ({ catalog: into, database, view: view.name });
  for (const candidate of all)
    await engine.apply({ kind: 'dropView', view: refOf(candidate) }, { step: newId(), signal });
  const restored: (NewChild & { readonly database: string })[] = [];
  for (let pending = [...all]; pending.length > 0; ) {
    const unresolved: ViewToRestore[] = [];
    for (const candidate of pending) {
      const child = await restoreView(candidate, restoring);
      if (child) restored.push({ ...child, database: candidate.database });
      else unresolved.push(candidate);
    }
    if (unresolved.length === pending.length)
      return { restored, omitted: unresolved.map(({ database, view }) => `${database}.${view.name}`).sort() };
    pending = unresolved;
  }
  return { restored, omitted: [] };
}

/** Codes of statements that cannot be a view in this catalog. */
const invalidViewCodes: ReadonlySet<Code> = new Set<Code>([
  'SQL_INVALID',
  'SQL_NOT_SUPPORTED',
  'SQL_FORBIDDEN_FUNCTION',
  'PARAMETERS_INVALID',
]);

async function restoreView(candidate: ViewToRestore, restoring: Restoring): Promise<NewChild | undefined> {
  const { engine, into, principal, signal } = restoring;
  const { database, view } = candidate;
  const { name, sql, comment, properties } = view;
  const statement = { sql, catalog: into, database };
  try {
    const { kind, reads, views } = await engine.analyze(statement, { principal, signal });
    if (kind !== 'select') return undefined;
    for (const [category, names] of [['tables', reads] as const, ['views', views] as const])
      for (const source of names) if (!(await mayRead(source, category, restoring))) return undefined;
    const { columns, sources } = await engine.readView(statement);
    const ref = { catalog: into, database, view: name };
    await engine.apply({ kind: 'createView', view: ref, sql }, { step: newId(), signal });
    const spec: ViewSpec = {
      sql,
      columns,
      ...(comment === undefined ? {} : { comment }),
      ...(properties === undefined ? {} : { properties }),
    };
    return { category: 'views', name, spec, sources };
  } catch (error) {
    if (error instanceof Failure && invalidViewCodes.has(error.code)) return undefined;
    throw error;
  }
}

async function mayRead(
  { catalog: root, database, table }: TableName,
  category: 'tables' | 'views',
  { catalog, authorizer, principal, into, databases }: Restoring,
): Promise<boolean> {
  if (
    foldName(root) === foldName(into.name) &&
    databases.some((candidate) => foldName(candidate) === foldName(database))
  )
    return true;
  const chain = await catalog.findFolded([
    { category: 'catalogs', name: root },
    { category: 'databases', name: database },
    { category, name: table },
  ]);
  return chain !== undefined && authorizer.isVisible(principal, 'read', 'catalogs', chain);
}
