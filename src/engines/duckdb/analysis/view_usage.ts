// Which views a statement goes through. Its plan does not tell: in it there are only the tables that views are made of, and not even
// those that binding made constants of. Read off the statement's text, and off the texts that DuckDB keeps of its views.
import type { DuckDBConnection } from '@duckdb/node-api';
import type { Change, TableName } from '../../engine.ts';
import { rowsOf } from '../instance/applied_steps.ts';
import { foldedName } from '../sql/identifiers.ts';
import { tokensOf } from '../sql/statement_checks.ts';
import { tablesInQuery } from '../sql/table_refs.ts';

interface KnownView {
  readonly name: TableName;
  readonly query: string;
  /** What it names, once somebody asked. All names in the text of a view are whole. */
  names?: readonly TableName[];
}

export interface ViewExpansion {
  readonly views: readonly (TableName & { readonly query: string })[];
  /** That they are made of. */
  readonly tables: readonly TableName[];
}

interface Namespace {
  readonly catalog: string;
  readonly database?: string | undefined;
}

/** Changes after which there are no other views than before, nor others under their names. */
const leavesViews: ReadonlySet<Change['kind']> = new Set([
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
  #views: ReadonlyMap<string, KnownView> | undefined;

  /** To be told before and after each change. */
  note(change: Change): void {
    if (leavesViews.has(change.kind)) return;
    this.#generation++;
    this.#views = undefined;
  }

  /** Tells, whenever asked, whether the views are the same as now. */
  watch(): () => boolean {
    const since = this.#generation;
    return () => this.#generation === since;
  }

  /** `paths`: what the names of a statement may stand for. */
  async through(connection: DuckDBConnection, paths: readonly (readonly string[])[]): Promise<ViewExpansion> {
    const known = await this.#all(connection);
    const views = new Map<string, ViewExpansion['views'][number]>();
    const tables = new Map<string, TableName>();
    const open = paths.filter((parts) => known.has(keyOf(parts)));
    for (let parts = open.pop(); parts !== undefined; parts = open.pop()) {
      const key = keyOf(parts);
      const view = known.get(key);
      if (!view || views.has(key)) continue;
      views.set(key, { ...view.name, query: view.query });
      view.names ??= await namesIn(connection, view.query);
      for (const name of view.names) {
        if (known.has(keyOf(partsOf(name)))) open.push(partsOf(name));
        else tables.set(keyOf(partsOf(name)), name);
      }
    }
    return { views: [...views.values()], tables: [...tables.values()] };
  }

  async #all(connection: DuckDBConnection): Promise<ReadonlyMap<string, KnownView>> {
    if (this.#views) return this.#views;
    const isCurrent = this.watch();
    const rows = await rowsOf(
      connection,
      'SELECT database_name, schema_name, view_name, sql FROM duckdb_views() WHERE NOT internal',
    );
    const found = rows.map(([catalog, database, table, sql]): KnownView => {
      const name = { catalog: String(catalog), database: String(database), table: String(table) };
      return { name, query: queryIn(String(sql)) };
    });
    const views = new Map(found.map((view) => [keyOf(partsOf(view.name)), view]));
    if (isCurrent()) this.#views = views;
    return views;
  }
}

/** All that DuckDB might take a name for. */
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

/** DuckDB shows a view as `CREATE VIEW d.v AS query;`. */
function queryIn(sql: string): string {
  for (const { text, end } of tokensOf(sql)) if (text.toUpperCase() === 'AS') return sql.slice(end);
  return sql;
}

async function namesIn(connection: DuckDBConnection, query: string): Promise<TableName[]> {
  const named = await tablesInQuery(connection, query);
  return named.map(({ parts: [catalog = '', database = '', table = ''] }) => ({ catalog, database, table }));
}
