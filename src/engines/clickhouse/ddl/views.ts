// Creates, replaces, renames and restores views, and lets them follow the tables and views under them. A server keeps a view when those are
// changed, with the columns that it had, and nothing is rolled back: what a change would do to the views is asked before anything is done,
// by binding their texts to the new columns.
import { Failure } from '../../../standard/failure.ts';
import type { Change } from '../../port/changes.ts';
import type { CatalogRef, ViewRef } from '../../port/refs.ts';
import type { AppliedView, BrokenViews, DependentView, RestoredView } from '../../port/views.ts';
import { describedColumn } from '../analysis/described_query.ts';
import { readViewQuery, type ViewQuery } from '../analysis/view_query.ts';
import { isUndefinedTable } from '../cluster/missing_tables.ts';
import { ClickHouseError, serverFailure } from '../connection/clickhouse_error.ts';
import { namesOf } from '../names.ts';
import type { BoundColumn } from '../query/bound_statement.ts';
import type { ChangeOn } from './change_on.ts';
import type { TablePlace } from './server_tables.ts';
import { emptyQuery, placeKey, replaceTables, tablesIn } from './view_text.ts';

type ChangeOf<K extends Change['kind']> = Extract<Change, { readonly kind: K }>;

const placeOf = ({ catalog, database, view }: ViewRef): TablePlace =>
  namesOf({ catalog: catalog.name, database, table: view });

export async function createView(on: ChangeOn, { view, sql }: ChangeOf<'createView'>): Promise<void> {
  await store(on, view, await readQuery(on, view, sql));
}

/** Throws IN_USE (BrokenViews) before anything is done. */
export async function replaceView(on: ChangeOn, { view, sql, views = [] }: ChangeOf<'replaceView'>): Promise<void> {
  const query = await readQuery(on, view, sql);
  const bound = await bindDependents(on, { place: placeOf(view), columns: query.columns }, views);
  await store(on, view, query);
  await followSources(on, bound);
}

export async function renameView(on: ChangeOn, { view, newName }: ChangeOf<'renameView'>): Promise<void> {
  const [from, to] = [placeOf(view), placeOf({ ...view, view: newName })];
  await on.onEach((tables) => tables.renameTable(from, to));
}

export async function dropView(on: ChangeOn, view: ViewRef): Promise<void> {
  const { database, table } = placeOf(view);
  await on.onEach(async (tables) => {
    if (await tables.hasTablesOf(view.catalog.id, database, [table])) await tables.dropTable(database, table);
  });
}

/** In an order that satisfies their dependencies. Views that cannot be created are reported without columns. */
export async function restoreViews(on: ChangeOn, catalog: CatalogRef, views: readonly RestoredView[]): Promise<void> {
  const refOf = ({ database, name }: RestoredView): ViewRef => ({ catalog, database, view: name });
  for (const view of views) await dropView(on, refOf(view));
  const restored: AppliedView[] = [];
  for (let pending = [...views]; pending.length > 0; ) {
    const refused: RestoredView[] = [];
    for (const view of pending) {
      const query = await queryIfValid(on, refOf(view), view.sql);
      if (!query) refused.push(view);
      else {
        await store(on, refOf(view), query);
        restored.push({ id: view.id, columns: query.columns.map(viewColumn), sources: query.sources });
      }
    }
    if (refused.length === pending.length) {
      restored.push(...refused.map(({ id }) => ({ id })));
      break;
    }
    pending = refused;
  }
  on.reportViews(restored);
}

const refusals: readonly string[] = [
  'SQL_INVALID',
  'SQL_NOT_SUPPORTED',
  'SQL_FORBIDDEN_FUNCTION',
  'PARAMETERS_INVALID',
];

async function queryIfValid(on: ChangeOn, view: ViewRef, sql: string): Promise<ViewQuery | undefined> {
  try {
    return await readQuery(on, view, sql);
  } catch (error) {
    if (error instanceof Failure && refusals.includes(error.code)) return undefined;
    throw error;
  }
}

const readQuery = ({ context, cluster, signal }: ChangeOn, { catalog, database, view }: ViewRef, sql: string) =>
  cluster.onAny((server) => readViewQuery(server, context, { sql, catalog, database, view }, signal), {
    isWhole: true,
  });

async function store(on: ChangeOn, view: ViewRef, { text }: Pick<ViewQuery, 'text'>): Promise<void> {
  const place = placeOf(view);
  await on.onEach(async (tables) => {
    await tables.requireDatabaseOf(view.catalog.id, place.database);
    await tables.createView(place, text);
  });
}

/** A table or view with the columns that it will have. */
export interface Changed {
  readonly place: TablePlace;
  readonly columns: readonly BoundColumn[];
}

export interface BoundView extends Changed {
  readonly id: string;
}

/**
 * Binds the views to the new columns of what they read, each after those under it. Views that were dropped meanwhile are left out. Throws
 * IN_USE (BrokenViews) if one would not be valid any more.
 */
export async function bindDependents(
  on: ChangeOn,
  changed: Changed,
  views: readonly DependentView[],
): Promise<readonly BoundView[]> {
  if (views.length === 0) return [];
  const columnsAt = new Map([[placeKey(changed.place), changed.columns]]);
  const bound: BoundView[] = [];
  const broken: string[] = [];
  for (const { id, place, text } of await inOrder(on, views)) {
    const columns = await columnsWith(on, text, columnsAt);
    if (columns) bound.push({ id, place, columns });
    else broken.push(id);
    // A view on a broken one is broken: it has no columns to bind to.
    columnsAt.set(placeKey(place), columns ?? []);
  }
  if (broken.length === 0) return bound;
  const result: BrokenViews = { broken };
  throw new Failure('IN_USE', 'views that read it would become invalid', { ...result });
}

interface StoredView {
  readonly id: string;
  readonly place: TablePlace;
  readonly text: string;
}

/** The views with their texts, each after those that it names. */
async function inOrder(
  { cluster, tablesOf }: ChangeOn,
  views: readonly DependentView[],
): Promise<readonly StoredView[]> {
  const stored: StoredView[] = [];
  await cluster.onAny(async (server) => {
    stored.length = 0;
    for (const { id, view } of views) {
      const place = placeOf(view);
      const text = await tablesOf(server).viewText(place);
      if (text !== undefined) stored.push({ id, place, text });
      else await isUndefinedTable(server, place);
    }
  });
  const ordered: StoredView[] = [];
  const waiting = new Map(stored.map((view) => [placeKey(view.place), view]));
  const add = (view: StoredView) => {
    if (!waiting.delete(placeKey(view.place))) return;
    for (const key of tablesIn(view.text)) {
      const under = waiting.get(key);
      if (under) add(under);
    }
    ordered.push(view);
  };
  for (const view of stored) add(view);
  return ordered;
}

/** The columns that the view has when it reads these; undefined if a server refuses its query then. */
async function columnsWith(
  { cluster, tablesOf }: ChangeOn,
  text: string,
  columnsAt: ReadonlyMap<string, readonly BoundColumn[]>,
): Promise<readonly BoundColumn[] | undefined> {
  const query = replaceTables(text, (key) => {
    const columns = columnsAt.get(key);
    return columns && emptyQuery(columns);
  });
  try {
    const columns = await cluster.onAny((server) => tablesOf(server).columnsOfQuery(query));
    return columns.length === 0 || hasDuplicates(columns) ? undefined : columns;
  } catch (error) {
    const failure = serverFailure(error);
    if (failure instanceof ClickHouseError) return undefined;
    throw failure;
  }
}

const hasDuplicates = (columns: readonly BoundColumn[]): boolean =>
  new Set(columns.map(({ name }) => name)).size < columns.length;

/** Gives the views the columns that they have now, by their own texts, and reports these. */
export async function followSources(on: ChangeOn, views: readonly BoundView[]): Promise<void> {
  for (const { place } of views)
    await on.onEach(async (tables) => {
      const text = await tables.viewText(place);
      if (text !== undefined) await tables.createView(place, text);
    });
  on.reportViews(views.map(({ id, columns }) => ({ id, columns: columns.map(viewColumn) })));
}

const viewColumn = (column: BoundColumn) => ({ name: column.name, type: describedColumn(column).type });
