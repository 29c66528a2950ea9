// Views in DuckDB: made, made anew, brought back, and looked at after something under them changed. DuckDB lets a view stand when what
// it is made of goes or changes; whether it still means something shows only when it is bound.
import type { DuckDBConnection } from '@duckdb/node-api';
import type { ViewColumn } from '../../../model/records.ts';
import { Failure } from '../../../standard/failure.ts';
import type { Change, DatabaseRef, ViewRef } from '../../engine.ts';
import type { AppliedView, BrokenViews, DependentView, KeptView } from '../../views.ts';
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
    await makeView(connection, view, sql);
    await requireBound(connection, view);
  });
}

/** Done before, it is done again: the same comes of it. */
export function replaceView(
  connection: DuckDBConnection,
  { view, sql, views = [] }: ChangeOf<'replaceView'>,
): Promise<AppliedView[]> {
  return inTransaction(connection, async () => {
    await makeView(connection, view, sql);
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
    await makeView(connection, { ...view, view: newName }, sql);
  });
}

export async function dropView(connection: DuckDBConnection, view: ViewRef): Promise<void> {
  await connection.run(`DROP VIEW IF EXISTS ${qualifiedView(view)}`);
}

/** Of one database, or of a whole catalog. */
export async function dropViewsOf(
  connection: DuckDBConnection,
  { catalog, database }: Omit<DatabaseRef, 'database'> & { readonly database?: string },
): Promise<void> {
  const rows = await rowsOf(
    connection,
    'SELECT schema_name, view_name FROM duckdb_views() WHERE lower(database_name) = lower($1) AND NOT internal',
    [catalog.name],
  );
  for (const [schema, view] of rows) {
    if (database !== undefined && !sameName(String(schema), database)) continue;
    await dropView(connection, { catalog, database: String(schema), view: String(view) });
  }
}

/** Views are made in whatever order they can be; those that cannot be made are told of as such, and are not there. */
export async function restoreViews(
  connection: DuckDBConnection,
  catalog: ViewRef['catalog'],
  views: readonly KeptView[],
): Promise<AppliedView[]> {
  const refOf = ({ database, name }: KeptView): ViewRef => ({ catalog, database, view: name });
  for (const view of views) await dropView(connection, refOf(view));
  const made: AppliedView[] = [];
  for (let left = [...views]; left.length > 0; ) {
    const failed: KeptView[] = [];
    for (const view of left) {
      const done = await restoredView(connection, view, refOf(view));
      if (done) made.push(done);
      else failed.push(view);
    }
    if (failed.length === left.length) return [...made, ...failed.map(({ id }) => ({ id }))];
    left = failed;
  }
  return made;
}

async function restoredView(
  connection: DuckDBConnection,
  { id, sql }: KeptView,
  view: ViewRef,
): Promise<AppliedView | undefined> {
  try {
    return await inTransaction(connection, async () => {
      const sources = await makeView(connection, view, sql);
      return { id, columns: await columnsOf(connection, view), sources };
    });
  } catch (error) {
    // What is wrong with the text, or missing; anything else is not the view's fault.
    const isOurs = error instanceof Failure && (error.code === 'SQL_INVALID' || error.code === 'SQL_NOT_SUPPORTED');
    if (isOurs || (error instanceof Error && /^(?:Binder|Catalog|Parser) Error/.test(error.message))) return undefined;
    throw error;
  }
}

/**
 * Each view's columns as they are now. Throws IN_USE (BrokenViews) where one has become nothing; then nothing of the transaction may
 * stay. A view that is not there any more was dropped meanwhile.
 */
export async function boundViews(
  connection: DuckDBConnection,
  views: readonly DependentView[],
): Promise<AppliedView[]> {
  const broken: string[] = [];
  const bound: AppliedView[] = [];
  for (const { id, view } of views) {
    const fault = await faultOf(connection, view);
    if (fault === undefined) bound.push({ id, columns: await columnsOf(connection, view) });
    else if (await isThere(connection, view)) broken.push(id);
  }
  if (broken.length === 0) return bound;
  const result: BrokenViews = { broken };
  throw new Failure('IN_USE', 'views are made of it that would not be valid any more', { ...result });
}

async function makeView(connection: DuckDBConnection, view: ViewRef, sql: string) {
  const { catalog, database } = view;
  const { text, sources } = await qualifyViewSql(connection, sql, { catalog: catalog.name, database });
  await connection.run(`CREATE OR REPLACE VIEW ${qualifiedView(view)} AS\n${text}`);
  return sources;
}

async function requireBound(connection: DuckDBConnection, view: ViewRef): Promise<void> {
  const fault = await faultOf(connection, view);
  if (fault !== undefined) throw sqlInvalid(fault, '', undefined);
}

/** Why it cannot be bound. By a plan: a statement that does not bind would end the transaction. */
async function faultOf(connection: DuckDBConnection, view: ViewRef): Promise<string | undefined> {
  const [[text] = []] = await rowsOf(
    connection,
    'SELECT json_serialize_plan($1::VARCHAR, skip_null := true, skip_empty := true)',
    [`SELECT * FROM ${qualifiedView(view)}`],
  );
  // What the plan is does not matter, and it may be long; an error stands at its beginning.
  const start = String(text).slice(0, errorCharactersMax);
  if (!/^\{"error":true/.test(start)) return undefined;
  const { error_message = '' } = JSON.parse(String(text)) as { error_message?: string };
  return cleaned(error_message);
}

const errorCharactersMax = 100;

async function isThere(connection: DuckDBConnection, { catalog, database, view }: ViewRef): Promise<boolean> {
  const rows = await rowsOf(
    connection,
    'SELECT schema_name, view_name FROM duckdb_views() WHERE lower(database_name) = lower($1) AND NOT internal',
    [catalog.name],
  );
  return rows.some(([schema, name]) => sameName(String(schema), database) && sameName(String(name), view));
}

function columnsOf(connection: DuckDBConnection, view: ViewRef): Promise<ViewColumn[]> {
  return columnsOfRows(connection, `FROM ${qualifiedView(view)}`);
}

/** Those that a view of the query would have; their names are made different. */
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
