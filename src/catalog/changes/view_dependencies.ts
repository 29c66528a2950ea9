// Dependencies of views. An object that a view depends on cannot be dropped or renamed, and neither can the containers of a view be
// renamed. Dependencies are stored by id. Those of a dropped view remain as they were and have no effect.

import type { ViewSource } from '../../engines/port/views.ts';
import { ObjectChanged } from '../../standard/expected_version.ts';
import { Failure } from '../../standard/failure.ts';
import type { ViewSourcesTable } from '../../store/schema.ts';
import type { Store } from '../../store/store.ts';
import type { ViewSourceName } from '../object.ts';
import { isVisible, type ObjectRow } from '../object_rows.ts';
import { type AncestorRow, idsPerQueryMax } from '../statements.ts';
import { Blocked, type CatalogContext, type Tx } from './change_context.ts';
import { findSibling } from './object_names.ts';

/** Maximum depth of views on views. */
const viewLevelsMax = 16;
/** Maximum number of table references of a view after its underlying views are expanded. */
const viewTablesMax = 1000;

/** IN_USE. The caller that knows the permissions replaces the ids by the names of the views that the principal may see. */
export class UsedByViews extends Failure {
  readonly viewIds: readonly string[];
  constructor(viewIds: readonly string[]) {
    super('IN_USE', 'dependent views, or views in this object, would become invalid', {
      views: [],
      otherViews: viewIds.length,
    });
    this.viewIds = viewIds;
  }
}

type Edges = Map<string, readonly SourceRow[]>;

/**
 * Stores the sources of a view. Throws ObjectChanged if a source has changed since the text of the view was bound, Blocked if a source
 * or one of its own sources is being changed, SQL_INVALID for a circular view, SQL_NOT_SUPPORTED beyond the limits.
 */
export async function recordSources(
  context: CatalogContext,
  tx: Tx,
  viewId: string,
  sources: readonly ViewSourceName[],
): Promise<void> {
  for (const source of sources) await checkSource(context, tx, source);
  const rows = sources.map(({ id, uses }) => ({ source_id: id, uses }));
  const dependents: string[] = [];
  for (const id of await allDependents(tx, [viewId]))
    if (await chainUnlessDropped(context, tx, id)) dependents.push(id);
  const edges = await loadSourceGraph(tx, [...dependents, ...rows.map((row) => row.source_id)]);
  edges.set(viewId, rows);
  for (const id of [viewId, ...dependents]) checkSize(id, edges);
  await requireNoneChanging(context, tx, [...transitiveSources(viewId, edges)]);
  await replaceSources(tx, viewId, rows);
}

export type SourceRow = Pick<ViewSourcesTable, 'source_id' | 'uses'>;

export function sourcesOf(db: Store['db'], viewId: string): Promise<SourceRow[]> {
  return db
    .selectFrom('view_sources')
    .select(['source_id', 'uses'])
    .where('view_id', '=', viewId)
    .orderBy('source_id')
    .execute();
}

/** The ids of the views that name an object directly, dropped ones included. */
export async function dependentsOf(db: Store['db'], sourceId: string): Promise<string[]> {
  const rows = await db.selectFrom('view_sources').select('view_id').where('source_id', '=', sourceId).execute();
  return rows.map((row) => row.view_id);
}

export async function replaceSources(tx: Tx, viewId: string, rows: readonly SourceRow[]): Promise<void> {
  await tx.deleteFrom('view_sources').where('view_id', '=', viewId).execute();
  const values = rows.map((row) => ({ ...row, view_id: viewId }));
  if (values.length > 0) await tx.insertInto('view_sources').values(values).execute();
}

/** Stores the sources, given by name, of a view that the engine has created. Throws if one no longer exists. */
export async function recordSourcesByName(
  context: CatalogContext,
  tx: Tx,
  viewId: string,
  sources: readonly ViewSource[] = [],
): Promise<void> {
  const rows = new Map<string, SourceRow>();
  for (const source of sources) {
    const source_id = await idOfSource(context, tx, source);
    // The source was dropped after the engine's step. The step is repeated and omits the view.
    if (source_id === undefined) throw new Error(`a source of view ${viewId} was dropped while the view was created`);
    rows.set(source_id, { source_id, uses: (rows.get(source_id)?.uses ?? 0) + source.uses });
  }
  await replaceSources(tx, viewId, [...rows.values()]);
}

async function idOfSource(context: CatalogContext, tx: Tx, { name, isView }: ViewSource): Promise<string | undefined> {
  const path = [
    ['catalogs', name.catalog],
    ['databases', name.database],
    [isView ? 'views' : 'tables', name.table],
  ] as const;
  let id: string | null = null;
  for (const [category, objectName] of path) {
    const row: ObjectRow | undefined = await findSibling(context.statements, tx, id, category, objectName);
    if (!row || !isVisible(row)) return undefined;
    id = row.id;
  }
  return id ?? undefined;
}

async function checkSource(context: CatalogContext, tx: Tx, { id, version, path }: ViewSourceName): Promise<void> {
  const chain = await context.statements.ancestors.all(tx, { id });
  const row = await context.statements.byId.first(tx, { id });
  const names = chain.map(({ name }) => name).reverse();
  const isSame = row?.version === version && chain.every(isVisible) && names.join('\u007f') === path.join('\u007f');
  if (!isSame) throw new ObjectChanged();
  const altering = chain.filter(({ state }) => state === 'altering' || state === 'blocked').map((object) => object.id);
  if (altering.length > 0) throw new Blocked(altering);
}

/** Throws Blocked while a direct or indirect source of a view is being changed, because its dependent views are being updated. */
export async function requireSourcesUnchanging(context: CatalogContext, tx: Tx, viewId: string): Promise<void> {
  const edges = await loadSourceGraph(tx, [viewId]);
  await requireNoneChanging(context, tx, [...transitiveSources(viewId, edges)]);
}

async function requireNoneChanging(context: CatalogContext, tx: Tx, ids: readonly string[]): Promise<void> {
  const altering: string[] = [];
  for (const id of ids) {
    const row = await context.statements.byId.first(tx, { id });
    if (row?.state === 'altering' || row?.state === 'blocked') altering.push(id);
  }
  if (altering.length > 0) throw new Blocked(altering);
}

/** The dependent views of an object with their ancestors, direct dependents first. Throws Blocked if one of them is being changed. */
export async function dependentViewChains(context: CatalogContext, tx: Tx, id: string): Promise<AncestorRow[][]> {
  const reached: AncestorRow[][] = [];
  for (const viewId of await allDependents(tx, [id])) {
    const chain = await chainUnlessDropped(context, tx, viewId);
    if (chain?.some(({ state }) => state === 'altering' || state === 'blocked')) throw new Blocked([viewId]);
    if (chain) reached.push(chain);
  }
  return reached;
}

/** Throws UsedByViews if views outside an object depend on it or on its contents; Blocked if one of them is being changed. */
export async function requireUnused(context: CatalogContext, tx: Tx, id: string): Promise<void> {
  const used = await findAffectedViews(context, tx, id);
  if (used.outside.length > 0) throw new UsedByViews(used.outside);
}

/** Like `requireUnused`, and also throws for views inside the object: their texts contain full names and are never rewritten. */
export async function requireNameFree(context: CatalogContext, tx: Tx, id: string): Promise<void> {
  const used = await findAffectedViews(context, tx, id);
  const all = [...new Set([...used.outside, ...used.inside])];
  if (all.length > 0) throw new UsedByViews(all);
}

async function findAffectedViews(context: CatalogContext, tx: Tx, id: string) {
  if (!(await tx.selectFrom('objects').select('id').where('category', '=', 'views').limit(1).executeTakeFirst()))
    return { outside: [], inside: [] };
  const objects = await tx
    .withRecursive('below(id, category)', (w) =>
      w
        .selectFrom('objects')
        .select(['id', 'category'])
        .where('id', '=', id)
        .unionAll(
          w
            .selectFrom('below')
            .innerJoin('objects', 'objects.parent_id', 'below.id')
            .select(['objects.id', 'objects.category']),
        ),
    )
    .selectFrom('below')
    .select(['id', 'category'])
    .execute();
  const inside = new Set(objects.map((object) => object.id));
  const outside: string[] = [];
  for (const viewId of await directDependents(tx, [...inside]))
    if (!inside.has(viewId) && (await chainUnlessDropped(context, tx, viewId))) outside.push(viewId);
  const innerViews: string[] = [];
  for (const object of objects)
    if (object.category === 'views' && object.id !== id && (await chainUnlessDropped(context, tx, object.id)))
      innerViews.push(object.id);
  return { outside, inside: innerViews };
}

/** The view and its ancestors; undefined if it was dropped, by itself or with a container. Throws Blocked while that is in progress. */
async function chainUnlessDropped(context: CatalogContext, tx: Tx, viewId: string): Promise<AncestorRow[] | undefined> {
  const chain = await context.statements.ancestors.all(tx, { id: viewId });
  if (chain.length === 0 || chain.some(({ state }) => state === 'dropped' || state === 'purging')) return undefined;
  const changing = chain.filter((row) => !isVisible(row)).map(({ id }) => id);
  if (changing.length > 0) throw new Blocked(changing);
  return chain;
}

async function directDependents(tx: Tx, ids: readonly string[]): Promise<string[]> {
  const found = new Set<string>();
  for (let start = 0; start < ids.length; start += idsPerQueryMax) {
    const chunk = ids.slice(start, start + idsPerQueryMax);
    const rows = await tx.selectFrom('view_sources').select('view_id').where('source_id', 'in', chunk).execute();
    for (const { view_id } of rows) found.add(view_id);
  }
  return [...found];
}

/** All views that depend on the objects, directly or indirectly. */
async function allDependents(tx: Tx, ids: readonly string[]): Promise<string[]> {
  const found = new Set<string>();
  for (let next = [...ids]; next.length > 0; ) {
    next = (await directDependents(tx, next)).filter((id) => !found.has(id));
    for (const id of next) found.add(id);
  }
  return [...found];
}

async function loadSourceGraph(tx: Tx, ids: readonly string[]): Promise<Edges> {
  const edges: Edges = new Map();
  for (const pending = [...ids]; pending.length > 0; ) {
    const id = pending.pop() as string;
    if (edges.has(id)) continue;
    const rows = await sourcesOf(tx, id);
    edges.set(id, rows);
    pending.push(...rows.map((row) => row.source_id));
  }
  return edges;
}

function transitiveSources(id: string, edges: Edges): Set<string> {
  const found = new Set<string>();
  for (const pending = [id]; pending.length > 0; ) {
    for (const { source_id } of edges.get(pending.pop() as string) ?? []) {
      if (!found.has(source_id)) pending.push(source_id);
      found.add(source_id);
    }
  }
  return found;
}

/** Throws SQL_INVALID for a cycle, SQL_NOT_SUPPORTED beyond the limits. An object without sources counts as a table. */
function checkSize(id: string, edges: Edges): void {
  if (transitiveSources(id, edges).has(id)) throw new Failure('SQL_INVALID', 'the view would depend on itself');
  const sizes = new Map<string, { readonly levels: number; readonly tables: number }>();
  const sizeOf = (objectId: string): { readonly levels: number; readonly tables: number } => {
    const known = sizes.get(objectId);
    if (known) return known;
    const sources = edges.get(objectId) ?? [];
    const sourceSizes = sources.map(({ source_id, uses }) => ({ ...sizeOf(source_id), uses }));
    const size =
      sources.length === 0
        ? { levels: 0, tables: 1 }
        : {
            levels: 1 + Math.max(...sourceSizes.map(({ levels }) => levels)),
            tables: sourceSizes.reduce((sum, { tables, uses }) => sum + tables * uses, 0),
          };
    sizes.set(objectId, size);
    return size;
  };
  const { levels, tables } = sizeOf(id);
  if (levels > viewLevelsMax)
    throw new Failure('SQL_NOT_SUPPORTED', `views can be nested at most ${viewLevelsMax} levels deep`);
  if (tables > viewTablesMax) {
    const message = `a view can reference tables at most ${viewTablesMax} times, including the references of its views; this one would have ${tables}`;
    throw new Failure('SQL_NOT_SUPPORTED', message);
  }
}
