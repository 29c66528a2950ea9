// What views are made of, and what that forbids: an object under a view keeps its name and stays, and so do the names of all that hold
// a view. Kept by ids for views that are there; for one that was dropped they are what they were, and count for nothing.
import type { ViewSource } from '../../engines/views.ts';
import { ObjectChanged } from '../../standard/basis.ts';
import { Failure } from '../../standard/failure.ts';
import type { ViewSourcesTable } from '../../store/schema.ts';
import type { Store } from '../../store/store.ts';
import type { ViewSourceName } from '../object.ts';
import type { ObjectRow } from '../object_rows.ts';
import type { AncestorRow } from '../statements.ts';
import { Blocked, type CatalogContext, findSibling, isVisible, type Tx } from './change_context.ts';

/** Views on views. */
export const viewLevelsMax = 16;
/** How often a view, with the views under it written out, may name tables. */
export const viewTablesMax = 1000;
/** Ids in one `in (...)` of the store. */
const idsPerQueryMax = 1000;

/** IN_USE, before the callers' eyes: which of the views they may know of is for who knows them to say. */
export class UsedByViews extends Failure {
  readonly viewIds: readonly string[];
  constructor(viewIds: readonly string[]) {
    super('IN_USE', 'Views are made of it, or are in it, that would not be valid any more.', {
      views: [],
      otherViews: viewIds.length,
    });
    this.viewIds = viewIds;
  }
}

type Edges = Map<string, readonly SourceRow[]>;

/**
 * Writes down what a view is made of. Throws ObjectChanged where a source is not what it was when the view's text was read, Blocked
 * where it, or something under it, is being changed, SQL_INVALID for a view of itself, SQL_NOT_SUPPORTED past the limits.
 */
export async function recordSources(
  context: CatalogContext,
  tx: Tx,
  viewId: string,
  sources: readonly ViewSourceName[],
): Promise<void> {
  for (const source of sources) await checkSource(context, tx, source);
  const rows = sources.map(({ id, uses }) => ({ source_id: id, uses }));
  const above: string[] = [];
  for (const id of await allDependents(tx, [viewId])) if (await chainUnlessDropped(context, tx, id)) above.push(id);
  const edges = await loadSourceGraph(tx, [...above, ...rows.map((row) => row.source_id)]);
  edges.set(viewId, rows);
  for (const id of [viewId, ...above]) checkSize(id, edges);
  await requireNoneChanging(context, tx, [...transitiveSources(viewId, edges)]);
  await replaceSources(tx, viewId, rows);
}

export type SourceRow = Pick<ViewSourcesTable, 'source_id' | 'uses'>;

export function sourcesOf(on: Store['db'], viewId: string): Promise<SourceRow[]> {
  return on
    .selectFrom('view_sources')
    .select(['source_id', 'uses'])
    .where('view_id', '=', viewId)
    .orderBy('source_id')
    .execute();
}

export async function replaceSources(tx: Tx, viewId: string, rows: readonly SourceRow[]): Promise<void> {
  await tx.deleteFrom('view_sources').where('view_id', '=', viewId).execute();
  const values = rows.map((row) => ({ ...row, view_id: viewId }));
  if (values.length > 0) await tx.insertInto('view_sources').values(values).execute();
}

/** The same by names, of a view that the engine has made: throws where one of them went since, and nothing may stay then. */
export async function recordSourcesByName(
  context: CatalogContext,
  tx: Tx,
  viewId: string,
  sources: readonly ViewSource[] = [],
): Promise<void> {
  const rows = new Map<string, SourceRow>();
  for (const source of sources) {
    const source_id = await idOfSource(context, tx, source);
    // It went between the engine's step and now: the step is done again, and leaves the view out.
    if (source_id === undefined) throw new Error(`the view ${viewId} was made, and what it is made of went`);
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
  for (const [category, one] of path) {
    const row: ObjectRow | undefined = await findSibling(context, tx, id, category, one);
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
  const altering = chain.filter(({ state }) => state === 'altering' || state === 'blocked').map((one) => one.id);
  if (altering.length > 0) throw new Blocked(altering);
}

/** While something under a view is changed, which other views that reaches is settled. Throws Blocked. */
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

/** Views that an alteration of the object reaches, those that it is made of itself first. Throws Blocked where one is unsettled. */
export async function dependentViewChains(context: CatalogContext, tx: Tx, id: string): Promise<AncestorRow[][]> {
  const reached: AncestorRow[][] = [];
  for (const viewId of await allDependents(tx, [id])) {
    const chain = await chainUnlessDropped(context, tx, viewId);
    if (chain?.some(({ state }) => state === 'altering' || state === 'blocked')) throw new Blocked([viewId]);
    if (chain) reached.push(chain);
  }
  return reached;
}

/** Throws UsedByViews where views outside an object are made of it or of something in it; Blocked where one of them is unsettled. */
export async function requireUnused(context: CatalogContext, tx: Tx, id: string): Promise<void> {
  const used = await findAffectedViews(context, tx, id);
  if (used.outside.length > 0) throw new UsedByViews(used.outside);
}

/** The same, and where views are in it: their texts name what they are made of, and stay what their authors wrote. */
export async function requireNameFree(context: CatalogContext, tx: Tx, id: string): Promise<void> {
  const used = await findAffectedViews(context, tx, id);
  const all = [...new Set([...used.outside, ...used.within])];
  if (all.length > 0) throw new UsedByViews(all);
}

async function findAffectedViews(context: CatalogContext, tx: Tx, id: string) {
  if (!(await tx.selectFrom('objects').select('id').where('category', '=', 'views').limit(1).executeTakeFirst()))
    return { outside: [], within: [] };
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
  const inside = new Set(objects.map((one) => one.id));
  const outside: string[] = [];
  for (const viewId of await directDependents(tx, [...inside]))
    if (!inside.has(viewId) && (await chainUnlessDropped(context, tx, viewId))) outside.push(viewId);
  const within: string[] = [];
  for (const one of objects)
    if (one.category === 'views' && one.id !== id && (await chainUnlessDropped(context, tx, one.id)))
      within.push(one.id);
  return { outside, within };
}

/** Undefined for a view that was dropped, by itself or with what holds it. Throws Blocked where that is not settled. */
async function chainUnlessDropped(context: CatalogContext, tx: Tx, viewId: string): Promise<AncestorRow[] | undefined> {
  const chain = await context.statements.ancestors.all(tx, { id: viewId });
  if (chain.length === 0 || chain.some(({ state }) => state === 'dropped' || state === 'purging')) return undefined;
  const open = chain.filter((row) => !isVisible(row)).map(({ id }) => id);
  if (open.length > 0) throw new Blocked(open);
  return chain;
}

async function directDependents(tx: Tx, ids: readonly string[]): Promise<string[]> {
  const found = new Set<string>();
  for (let at = 0; at < ids.length; at += idsPerQueryMax) {
    const some = ids.slice(at, at + idsPerQueryMax);
    const rows = await tx.selectFrom('view_sources').select('view_id').where('source_id', 'in', some).execute();
    for (const { view_id } of rows) found.add(view_id);
  }
  return [...found];
}

/** All views that are made of some objects, directly or not. */
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
  for (const open = [...ids]; open.length > 0; ) {
    const id = open.pop() as string;
    if (edges.has(id)) continue;
    const rows = await sourcesOf(tx, id);
    edges.set(id, rows);
    open.push(...rows.map((row) => row.source_id));
  }
  return edges;
}

function transitiveSources(id: string, edges: Edges): Set<string> {
  const found = new Set<string>();
  for (const open = [id]; open.length > 0; ) {
    for (const { source_id } of edges.get(open.pop() as string) ?? []) {
      if (!found.has(source_id)) open.push(source_id);
      found.add(source_id);
    }
  }
  return found;
}

/** Throws SQL_INVALID for a circle, SQL_NOT_SUPPORTED past the limits. A table is what has no sources. */
function checkSize(id: string, edges: Edges): void {
  if (transitiveSources(id, edges).has(id)) throw new Failure('SQL_INVALID', 'The view would be made of itself.');
  const sizes = new Map<string, { readonly levels: number; readonly tables: number }>();
  const sizeOf = (one: string): { readonly levels: number; readonly tables: number } => {
    const known = sizes.get(one);
    if (known) return known;
    const sources = edges.get(one) ?? [];
    const under = sources.map(({ source_id, uses }) => ({ ...sizeOf(source_id), uses }));
    const size =
      sources.length === 0
        ? { levels: 0, tables: 1 }
        : {
            levels: 1 + Math.max(...under.map(({ levels }) => levels)),
            tables: under.reduce((sum, { tables, uses }) => sum + tables * uses, 0),
          };
    sizes.set(one, size);
    return size;
  };
  const { levels, tables } = sizeOf(id);
  if (levels > viewLevelsMax)
    throw new Failure('SQL_NOT_SUPPORTED', `Views are made of views at most ${viewLevelsMax} levels deep.`);
  if (tables > viewTablesMax) {
    const message = `A view names tables at most ${viewTablesMax} times, those under its views counted; it would be ${tables}.`;
    throw new Failure('SQL_NOT_SUPPORTED', message);
  }
}
