// Creates, changes and restores views, all in the same way: from the text of a query to the request to the catalog. The creator of
// a view must be allowed to run its query.

import type { PropertiesPatch } from '../../api/fields.ts';
import type { ParentSegmentsOf, SegmentsOf } from '../../api/handlers.ts';
import type { viewsApi } from '../../api/namespaces/views.ts';
import { type CatalogObject, type ChainOf, isOf, type ObjectOf, type ViewSourceName } from '../../catalog/object.ts';
import type { ViewSource } from '../../engines/port/views.ts';
import { foldName, nameFault } from '../../model/names.ts';
import type { ViewColumn, ViewSpec } from '../../model/records.ts';
import { Failure, invalidParameter } from '../../standard/failure.ts';
import { describe, requireSameName } from '../records/fields.ts';
import type { Context } from '../records/handler_context.ts';
import { newOwner, ownerId, requireUnreserved } from '../records/permissions.ts';

type ViewPath = SegmentsOf<typeof viewsApi>;
type ParentPath = ParentSegmentsOf<typeof viewsApi>;
type ViewChain = ChainOf<ViewPath>;
type ViewParents = ChainOf<ParentPath>;

/** In SQL, tables and views of a database share one namespace. */
export const sharesNames = ['tables'];

interface Described {
  readonly comment?: string | null;
  readonly properties?: PropertiesPatch | null;
  readonly owner?: string;
}

export interface CreateViewBody extends Described {
  readonly name?: string;
  readonly sql: string;
}

export interface ViewPatch extends Described {
  readonly sql?: string;
}

export function viewRef([{ id, name }, database]: ViewParents, view: string) {
  return { catalog: { id, name }, database: database.name, view };
}

export async function requireUsableViewName(name: string, [root]: ViewParents, context: Context): Promise<void> {
  const fault = nameFault(name);
  if (fault !== undefined) throw new Failure('INVALID_NAME', fault, { name });
  await requireUnreserved('views', name, root.spec.warehouse, context);
}

export async function createView(
  parents: ParentPath,
  body: CreateViewBody,
  ifExists: 'fail' | 'return',
  context: Context,
): Promise<{ readonly chain: ViewChain; readonly isNew: boolean }> {
  const chain = await context.catalog.require(parents);
  const [root, database] = chain;
  const { warehouse } = root.spec;
  const { name, sql } = await readBody(body, chain, context);
  await requireUsableViewName(name, chain, context);
  const { columns, sources } = await readQuery(sql, chain, context);
  const view = viewRef(chain, name);
  const { object, created } = await context.catalog.create<ViewSpec>({
    parent: database,
    category: 'views',
    name,
    spec: describe<ViewSpec>({ sql, columns }, body),
    owner: ownerId(body.owner, context),
    principal: context.call.actor,
    ifExists,
    sharesNames,
    sources,
    warehouse,
    change: { kind: 'createView', view, sql },
    undo: { kind: 'dropView', view },
  });
  return { chain: [root, database, object], isNew: created };
}

/** The name and the query: `sql` may be a CREATE VIEW statement. */
export async function readBody(
  body: Pick<CreateViewBody, 'name' | 'sql'>,
  [root, database]: ViewParents,
  context: Context,
) {
  const engine = await context.warehouses.use(root.spec.warehouse);
  const parsed = await engine.parseCreateView(body.sql);
  requireSameName('catalog', parsed?.catalog, root.name);
  requireSameName('database', parsed?.database, database.name);
  requireSameName('view', parsed?.view, body.name);
  const name = body.name ?? parsed?.view;
  if (name === undefined) throw invalidParameter('/name', 'required', 'is required');
  return { name, sql: parsed?.sql ?? body.sql };
}

/** The columns and sources of the query, for a caller who may run it. */
async function readQuery(
  sql: string,
  [root, database]: ViewParents,
  context: Context,
): Promise<{ readonly columns: readonly ViewColumn[]; readonly sources: readonly ViewSourceName[] }> {
  const request = { sql, numbers: 'number' as const, catalog: root.name, database: database.name };
  const { columns, sources } = await context.queries.readView(request, context.call);
  if (columns.length === 0) throw new Failure('SQL_INVALID', 'a view has at least one column');
  const seen: ViewSourceName[] = [];
  for (const source of sources) seen.push(await seenSource(source, context));
  return { columns, sources: seen };
}

async function seenSource({ name, isView, uses }: ViewSource, context: Context): Promise<ViewSourceName> {
  const chain = await context.catalog.findFolded([
    { category: 'catalogs', name: name.catalog },
    { category: 'databases', name: name.database },
    { category: isView ? 'views' : 'tables', name: name.table },
  ]);
  const object = chain?.at(-1);
  // The query was allowed just before, so an object in it was dropped or replaced since.
  if (!chain || !object || foldName(object.name) !== foldName(name.table))
    throw new Failure('CHANGE_IN_PROGRESS', 'an object that the query reads is being changed; retry later');
  return { id: object.id, version: object.version, path: chain.map((object) => object.name), uses };
}

export async function changeView(path: ViewPath, body: ViewPatch, context: Context): Promise<ViewChain> {
  const chain = await context.catalog.require(path);
  const [root, database, view] = chain;
  const { sql } = body;
  const common = {
    principal: context.call.actor,
    owner: await newOwner(body.owner, path, context),
  };
  if (sql === undefined || sql === view.spec.sql) {
    const { object } = await context.catalog.update(view, { ...common, spec: describe(view.spec, body) });
    return [root, database, object ?? view];
  }
  const { columns, sources } = await readQuery(sql, [root, database], context);
  const { object } = await context.catalog.update(view, {
    ...common,
    spec: describe({ ...view.spec, sql, columns }, body),
    sources,
    warehouse: root.spec.warehouse,
    change: { kind: 'replaceView', view: viewRef([root, database], view.name), sql },
  });
  return [root, database, object ?? view];
}

export async function renameView(path: ViewPath, newName: string, context: Context): Promise<ViewChain> {
  const chain = await context.catalog.require(path);
  const [root, database, view] = chain;
  await requireUsableViewName(newName, [root, database], context);
  const { object } = await context.catalog.update<ViewSpec>(view, {
    name: newName,
    principal: context.call.actor,
    sharesNames,
    warehouse: root.spec.warehouse,
    change: { kind: 'renameView', view: viewRef([root, database], view.name), newName, sql: view.spec.sql },
  });
  return [root, database, object ?? view];
}

/** Analyzed as a new view, because the names in it may refer to other objects than when it was dropped. */
export async function restoredView(view: ObjectOf<'views'>, name: string, parents: ViewParents, context: Context) {
  const { columns, sources } = await readQuery(view.spec.sql, parents, context);
  const change = { kind: 'createView' as const, view: viewRef(parents, name), sql: view.spec.sql };
  return {
    spec: { ...view.spec, columns },
    sources,
    change: () => change,
  };
}

/** The views that a dropped catalog or database contained. `nameOf`: returns the name of the view's database after the restore. */
export function retainedViews(descendants: readonly CatalogObject[], nameOf: (view: CatalogObject) => string) {
  return descendants
    .filter((object) => isOf(object, 'views'))
    .map((view) => ({ id: view.id, database: nameOf(view), name: view.name, sql: view.spec.sql }));
}
