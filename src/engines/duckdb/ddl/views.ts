// Creates, replaces and restores views in DuckDB, and checks them after the objects that they read changed. DuckDB keeps a view when
// those objects are dropped or changed; only binding the view shows whether it is still valid.
import type { DuckDBConnection } from '@duckdb/node-api';
import type { ViewColumn } from '../../../model/records.ts';
import { Failure } from '../../../standard/failure.ts';
import type { Change } from '../../port/changes.ts';
import type { DatabaseRef, ViewRef } from '../../port/refs.ts';
import type { AppliedView, BrokenViews, DependentView, RestoredView } from '../../port/views.ts';
import { inTransaction, rowsOf } from '../instance/applied_steps.ts';
import { cleaned, sqlInvalid } from '../instance/sql_errors.ts';
import { describedBy } from '../query/results.ts';
import { qualifiedSchema, quoteIdentifier, sameName } from '../sql/identifiers.ts';
import { resultTypeText } from '../types/type_mapping.ts';
import { qualifyViewSql } from './qualified_view_sql.ts';

type ChangeOf<K extends Change['kind']> = Extract<Change, { readonly kind: K }>;

const qualifiedView = (view: ViewRef) => `${qualifiedSchema(view)}.${quoteIdentifier(view.view)}`;

export async function createView(connection: DuckDBConnection, { view, sql }: ChangeOf<'createView'>): Promise<void> {
  await inTransaction(connection, async () => {
    await createOrReplaceView(connection, view, sql);
    await requireBound(connection, view);
  });
}

/** Idempotent. */
export function replaceView(
  connection: DuckDBConnection,
  { view, sql, views = [] }: ChangeOf<'replaceView'>,
): Promise<AppliedView[]> {
  return inTransaction(connection, async () => {
    await createOrReplaceView(connection, view, sql);
    await requireBound(connection, view);
    return boundViews(connection, views);
  });
}

export async function renameView(
  connection: DuckDBConnection,
  { view, newName, sql }: ChangeOf<'renameView'>,
): Promise<void> {
  await inTransaction(connection, async () => {
    await dropView(connection, view);
    await createOrReplaceView(connection, { ...view, view: newName }, sql);
  });
}

export async function dropView(connection: DuckDBConnection, view: ViewRef): Promise<void> {
  await connection.run(`DROP VIEW IF EXISTS ${qualifiedView(view)}`);
}

/** Drops the views of one database, or of all databases of a catalog. */
export async function dropViewsOf(
  connection: DuckDBConnection,
  { catalog, database }: Omit<DatabaseRef, 'database'> & { readonly database?: string },
): Promise<void> {
  for (const view of await viewsIn(connection, catalog))
    if (database === undefined || sameName(view.database, database)) await dropView(connection, view);
}

async function viewsIn(connection: DuckDBConnection, catalog: ViewRef['catalog']): Promise<ViewRef[]> {
  const rows = await rowsOf(
    connection,
    'SELECT schema_name, view_name FROM duckdb_views() WHERE lower(database_name) = lower($1) AND NOT internal',
    [catalog.name],
  );
  return rows.map(([schema, view]) => ({ catalog, database: String(schema), view: String(view) }));
}

/** Creates views in an order that satisfies their dependencies. Views that cannot be created are returned without columns. */
export async function restoreViews(
  connection: DuckDBConnection,
  catalog: ViewRef['catalog'],
  views: readonly RestoredView[],
): Promise<AppliedView[]> {
  const refOf = ({ database, name }: RestoredView): ViewRef => ({ catalog, database, view: name });
  for (const view of views) await dropView(connection, refOf(view));
  const restored: AppliedView[] = [];
  for (let pending = [...views]; pending.length > 0; ) {
    const failed: RestoredView[] = [];
    for (const view of pending) {
      const applied = await restoreView(connection, view, refOf(view));
      if (applied) restored.push(applied);
      else failed.push(view);
    }
    if (failed.length === pending.length) return [...restored, ...failed.map(({ id }) => ({ id }))];
    pending = failed;
  }
  return restored;
}

async function restoreView(
  connection: DuckDBConnection,
  { id, sql }: RestoredView,
  view: ViewRef,
): Promise<AppliedView | undefined> {
  try {
    return await inTransaction(connection, async () => {
      const sources = await createOrReplaceView(connection, view, sql);
      return { id, columns: await columnsOf(connection, view), sources };
    });
  } catch (error) {
    // An invalid query or a missing object; any other error is not about the view.
    const isRefusal = error instanceof Failure && (error.code === 'SQL_INVALID' || error.code === 'SQL_NOT_SUPPORTED');
    if (isRefusal || (error instanceof Error && /^(?:Binder|Catalog|Parser) Error/.test(error.message)))
      return undefined;
    throw error;
  }
}

/**
 * Binds the views and returns their current columns. Throws IN_USE (BrokenViews) if one cannot be bound any more; the caller must then
 * roll back the transaction. Views that were dropped meanwhile are left out.
 */
export async function boundViews(
  connection: DuckDBConnection,
  views: readonly DependentView[],
): Promise<AppliedView[]> {
  const broken: string[] = [];
  const applied: AppliedView[] = [];
  for (const { id, view } of views) {
    const fault = await faultOf(connection, view);
    if (fault === undefined) applied.push({ id, columns: await columnsOf(connection, view) });
    else if (await viewExists(connection, view)) broken.push(id);
  }
  if (broken.length === 0) return applied;
  const result: BrokenViews = { broken };
  throw new Failure('IN_USE', 'views that read it would become invalid', { ...result });
}

async function createOrReplaceView(connection: DuckDBConnection, view: ViewRef, sql: string) {
  const { catalog, database } = view;
  const { text, sources } = await qualifyViewSql(connection, sql, { catalog: catalog.name, database });
  await connection.run(`CREATE OR REPLACE VIEW ${qualifiedView(view)} AS\n${text}`);
  return sources;
}

async function requireBound(connection: DuckDBConnection, view: ViewRef): Promise<void> {
  const fault = await faultOf(connection, view);
  if (fault !== undefined) throw sqlInvalid(fault, '', undefined);
}

/** Why the view cannot be bound. Checked by planning: a statement that fails to bind would abort the transaction. */
async function faultOf(connection: DuckDBConnection, view: ViewRef): Promise<string | undefined> {
  const [[text] = []] = await rowsOf(
    connection,
    'SELECT json_serialize_plan($1::VARCHAR, skip_null := true, skip_empty := true)',
    [`SELECT * FROM ${qualifiedView(view)}`],
  );
  // The plan itself is not needed and may be long; an error is at its beginning.
  const start = String(text).slice(0, errorCharactersMax);
  if (!/^\{"error":true/.test(start)) return undefined;
  const { error_message = '' } = JSON.parse(String(text)) as { error_message?: string };
  return cleaned(error_message);
}

const errorCharactersMax = 100;

async function viewExists(connection: DuckDBConnection, { catalog, database, view }: ViewRef): Promise<boolean> {
  const views = await viewsIn(connection, catalog);
  return views.some((other) => sameName(other.database, database) && sameName(other.view, view));
}

function columnsOf(connection: DuckDBConnection, view: ViewRef): Promise<ViewColumn[]> {
  return columnsOfRows(connection, `FROM ${qualifiedView(view)}`);
}

/** The columns that a view of the query would have; DuckDB makes their names unique. */
export function columnsOfQuery(connection: DuckDBConnection, query: string): Promise<ViewColumn[]> {
  return columnsOfRows(connection, `FROM (\n${query}\n) AS q`);
}

async function columnsOfRows(connection: DuckDBConnection, from: string): Promise<ViewColumn[]> {
  const prepared = await connection.prepare(`SELECT * ${from}`);
  try {
    return (describedBy(prepared) ?? []).map(({ name, type }) => ({ name, type: resultTypeText(type) }));
  } finally {
    prepared.destroySync();
  }
}
