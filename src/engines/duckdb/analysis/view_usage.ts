// Finds the views that a statement uses. Its plan does not show them: it contains only the tables under the views, and not even those
// that the binder folded into constants. So views are found in the statement's text, and in the definitions that DuckDB stores of its views.
import type { DuckDBConnection } from '@duckdb/node-api';
import type { Change } from '../../port/changes.ts';
import type { TableName } from '../../port/refs.ts';
import { rowsOf } from '../instance/applied_steps.ts';
import { foldedName } from '../sql/identifiers.ts';
import { tokensOf } from '../sql/statement_checks.ts';
import { tablesInQuery } from '../sql/table_refs.ts';

interface ViewDefinition {
  readonly name: TableName;
  readonly query: string;
  /** The tables and views in its query, parsed on first use. All names in a view's query are fully qualified. */
  names?: readonly TableName[];
}

export interface ViewExpansion {
  readonly views: readonly (TableName & { readonly query: string })[];
  /** The tables that the views read. */
  readonly tables: readonly TableName[];
}

interface Namespace {
  readonly catalog: string;
  readonly database?: string | undefined;
}

/** Changes that affect neither which views exist nor their names. */
const changesWithoutViews: ReadonlySet<Change['kind']> = new Set([
  'createCatalog',
  'createDatabase',
  'createTable',
  'dropTable',
  'hideTable',
  'restoreTable',
  'renameTable',
  'truncateTable',
  'alterTable',
  'purge',
]);

const keyOf = (parts: readonly string[]) => foldedName(JSON.stringify(parts));
const partsOf = ({ catalog, database, table }: TableName) => [catalog, database, table];

export class ViewUsage {
  #generation = 0;
  #views: ReadonlyMap<string, ViewDefinition> | undefined;

  /** Must be called before and after each change. */
  note(change: Change): void {
    if (changesWithoutViews.has(change.kind)) return;
    this.#generation++;
    this.#views = undefined;
  }

  /** Returns a check whether the views are still the same as at this call. */
  watch(): () => boolean {
    const since = this.#generation;
    return () => this.#generation === since;
  }

  /** Expands the views among `paths`, the objects that a statement's names may refer to. */
  async expand(connection: DuckDBConnection, paths: readonly (readonly string[])[]): Promise<ViewExpansion> {
    const definitions = await this.#allViews(connection);
    const views = new Map<string, ViewExpansion['views'][number]>();
    const tables = new Map<string, TableName>();
    const pending = paths.filter((parts) => definitions.has(keyOf(parts)));
    for (let parts = pending.pop(); parts !== undefined; parts = pending.pop()) {
      const key = keyOf(parts);
      const view = definitions.get(key);
      if (!view || views.has(key)) continue;
      views.set(key, { ...view.name, query: view.query });
      view.names ??= await namesIn(connection, view.query);
      for (const name of view.names) {
        if (definitions.has(keyOf(partsOf(name)))) pending.push(partsOf(name));
        else tables.set(keyOf(partsOf(name)), name);
      }
    }
    return { views: [...views.values()], tables: [...tables.values()] };
  }

  async #allViews(connection: DuckDBConnection): Promise<ReadonlyMap<string, ViewDefinition>> {
    if (this.#views) return this.#views;
    const isCurrent = this.watch();
    const rows = await rowsOf(
      connection,
      'SELECT database_name, schema_name, view_name, sql FROM duckdb_views() WHERE NOT internal',
    );
    const found = rows.map(([catalog, database, table, sql]): ViewDefinition => {
      const name = { catalog: String(catalog), database: String(database), table: String(table) };
      return { name, query: queryIn(String(sql)) };
    });
    const views = new Map(found.map((view) => [keyOf(partsOf(view.name)), view]));
    if (isCurrent()) this.#views = views;
    return views;
  }
}

/** Every object path that DuckDB might resolve a name to. */
export function candidatePaths(
  parts: readonly string[],
  { catalog, database = 'main' }: Namespace,
): (readonly string[])[] {
  const [first = '', second = ''] = parts;
  if (parts.length === 1) return [[catalog, database, first]];
  if (parts.length === 2)
    return [
      [catalog, first, second],
      [first, 'main', second],
    ];
  return [parts];
}

/** The query of a view, which DuckDB shows as `CREATE VIEW d.v AS query;`. */
function queryIn(sql: string): string {
  for (const { text, end } of tokensOf(sql)) if (text.toUpperCase() === 'AS') return sql.slice(end);
  return sql;
}

async function namesIn(connection: DuckDBConnection, query: string): Promise<TableName[]> {
  const named = await tablesInQuery(connection, query);
  return named.map(({ parts: [catalog = '', database = '', table = ''] }) => ({ catalog, database, table }));
}
