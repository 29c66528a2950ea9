// The SQL that DuckDB stores for a view: the caller's query with every table name fully qualified. DuckDB parses the text again at each
// use, when a partial name could refer to another table.
import type { DuckDBConnection } from '@duckdb/node-api';
import { Failure } from '../../../standard/failure.ts';
import type { ViewSource } from '../../port/views.ts';
import { rowsOf } from '../instance/applied_steps.ts';
import { sqlInvalid } from '../instance/sql_errors.ts';
import { quoteIdentifier, sameName } from '../sql/identifiers.ts';
import { refuseOtherStatement, tokensOf, withoutSemicolon, withParameters } from '../sql/statement_checks.ts';
import { type TableInText, tablesInQuery } from '../sql/table_refs.ts';

export interface Namespace {
  readonly catalog: string;
  readonly database: string;
}

export interface QualifiedView {
  readonly text: string;
  readonly sources: readonly ViewSource[];
}

/** Throws SQL_INVALID or SQL_NOT_SUPPORTED. The query need not be bound, but the objects that it names must exist. */
export async function qualifyViewSql(
  connection: DuckDBConnection,
  sql: string,
  namespace: Namespace,
): Promise<QualifiedView> {
  refuseOtherStatement(sql);
  withParameters(sql, () => {
    throw new Failure('SQL_NOT_SUPPORTED', 'a view cannot have parameters; write the values into its query');
  });
  const tables = await tablesInQuery(connection, sql);
  const query = withoutSemicolon(sql);
  const candidates = await objectsNamed(connection, tables);
  const sources = new Map<string, ViewSource>();
  let text = '';
  let offset = 0;
  for (const table of tables) {
    const source = await resolveTable(connection, table, candidates, sql, namespace);
    const key = JSON.stringify(source.name);
    sources.set(key, { ...source, uses: (sources.get(key)?.uses ?? 0) + 1 });
    const { catalog, database, table: name } = source.name;
    text += query.slice(offset, table.offset) + [catalog, database, name].map(quoteIdentifier).join('.');
    offset = endOf(query, table);
  }
  return { text: text + query.slice(offset), sources: [...sources.values()] };
}

/** The offset after the name: after its parts and the dots between them, which blanks may surround. */
function endOf(query: string, { offset, parts }: TableInText): number {
  let tokensLeft = parts.length * 2 - 1;
  for (const token of tokensOf(query.slice(offset))) if (--tokensLeft === 0) return offset + token.end;
  return query.length;
}

/** The tables and views of all databases that have one of the names. */
async function objectsNamed(connection: DuckDBConnection, tables: readonly TableInText[]): Promise<ViewSource[]> {
  if (tables.length === 0) return [];
  const rows = await rowsOf(
    connection,
    `WITH wanted AS (SELECT lower(unnest(system.main.from_json($1, '["VARCHAR"]'))) AS name)
     SELECT database_name, schema_name, table_name, false FROM duckdb_tables() WHERE lower(table_name) IN (FROM wanted)
     UNION ALL SELECT database_name, schema_name, view_name, true FROM duckdb_views()
     WHERE lower(view_name) IN (FROM wanted) AND NOT internal`,
    [JSON.stringify(tables.map(({ parts }) => parts.at(-1)))],
  );
  return rows.map(([catalog, database, table, isView]) => {
    const name = { catalog: String(catalog), database: String(database), table: String(table) };
    return { name, isView: isView === true, uses: 0 };
  });
}

async function resolveTable(
  connection: DuckDBConnection,
  { parts, offset }: TableInText,
  candidates: readonly ViewSource[],
  sql: string,
  { catalog, database }: Namespace,
): Promise<ViewSource> {
  for (const [root, schema, name] of await resolutions(connection, parts, catalog, database)) {
    const source = candidates.find(
      (candidate) =>
        sameName(candidate.name.catalog, root) &&
        sameName(candidate.name.database, schema) &&
        sameName(candidate.name.table, name),
    );
    if (source) return source;
  }
  throw sqlInvalid(`the table ${JSON.stringify(parts.at(-1))} does not exist`, sql, offset);
}

/** The objects that DuckDB resolves a name to. In `a.b` the first part is a schema if one has the name, else a catalog. */
async function resolutions(
  connection: DuckDBConnection,
  parts: readonly string[],
  catalog: string,
  database: string,
): Promise<readonly (readonly [string, string, string])[]> {
  const [first = '', second = '', third] = parts;
  if (third !== undefined) return [[first, second, third]];
  if (parts.length === 1) return [[catalog, database, first]];
  const schemas = await rowsOf(connection, 'SELECT schema_name FROM duckdb_schemas() WHERE database_name = $1', [
    catalog,
  ]);
  return schemas.some(([schema]) => sameName(String(schema), first))
    ? [[catalog, first, second]]
    : [[first, 'main', second]];
}
