// Views of a backup, made once the tables of all its databases are there. Their texts are whoever's who wrote the backup: each is read
// as a request of the restorer's would be, and one that is not valid, or reads what the restorer may not, is left out and named.
import type { Authorizer } from '../access/authorization/authorizer.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { NewChild } from '../catalog/object.ts';
import type { CatalogRef, EngineWarehouse, TableName } from '../engines/engine.ts';
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
  /** Into which they come. */
  readonly into: CatalogRef;
  /** Databases that are being restored: what is in them is the restorer's. */
  readonly databases: readonly string[];
}

/** `database`: by the name that it gets. */
export interface ViewToRestore {
  readonly database: string;
  readonly view: BackedUpView;
}

export interface RestoredViews {
  readonly made: readonly (NewChild & { readonly database: string })[];
  readonly left: readonly string[];
}

/** In whatever order they can be made. Idempotent: those that an attempt before this one made are made anew. */
export async function restoredViews(all: readonly ViewToRestore[], restoring: Restoring): Promise<RestoredViews> {
  const { engine, into, signal } = restoring;
  const refOf = ({ database, view }: ViewToRestore) => ({ catalog: into, database, view: view.name });
  for (const one of all) await engine.apply({ kind: 'dropView', view: refOf(one) }, { step: newId(), signal });
  const made: (NewChild & { readonly database: string })[] = [];
  for (let open = [...all]; open.length > 0; ) {
    const left: ViewToRestore[] = [];
    for (const one of open) {
      const child = await restoredView(one, restoring);
      if (child) made.push({ ...child, database: one.database });
      else left.push(one);
    }
    if (left.length === open.length)
      return { made, left: left.map(({ database, view }) => `${database}.${view.name}`).sort() };
    open = left;
  }
  return { made, left: [] };
}

/** What an engine says of a text that is no view here. */
const notHere: ReadonlySet<Code> = new Set<Code>([
  'SQL_INVALID',
  'SQL_NOT_SUPPORTED',
  'SQL_FORBIDDEN_FUNCTION',
  'PARAMETERS_INVALID',
]);

async function restoredView(one: ViewToRestore, restoring: Restoring): Promise<NewChild | undefined> {
  const { engine, into, principal, signal } = restoring;
  const { database, view } = one;
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
    if (error instanceof Failure && notHere.has(error.code)) return undefined;
    throw error;
  }
}

async function mayRead(
  { catalog: root, database, table }: TableName,
  category: 'tables' | 'views',
  { catalog, authorizer, principal, into, databases }: Restoring,
): Promise<boolean> {
  if (foldName(root) === foldName(into.name) && databases.some((one) => foldName(one) === foldName(database)))
    return true;
  const chain = await catalog.findFolded([
    { category: 'catalogs', name: root },
    { category: 'databases', name: database },
    { category, name: table },
  ]);
  return chain !== undefined && authorizer.isVisible(principal, 'read', 'catalogs', chain);
}
