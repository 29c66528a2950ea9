// The views of an imported DuckDB file, and its objects that an import does not carry over.
import type { DuckDBConnection } from '@duckdb/node-api';
import type { NotCarried, SourceView } from '../../../model/import_source.ts';
import { rowsOf } from '../instance/applied_steps.ts';

const own = 'database_name = current_database()';

const viewsSql = `SELECT view_name, sql, comment FROM duckdb_views() WHERE ${own} AND schema_name = $1 AND NOT internal AND NOT temporary ORDER BY view_name`;
/** A name in a CREATE VIEW: quoted or not, and qualified or not. */
const name = String.raw`(?:"(?:[^"]|"")*"|[^\s".(]+)`;
const viewHead = new RegExp(
  String.raw`^\s*CREATE\s+(?:OR\s+REPLACE\s+)?VIEW\s+${name}(?:\.${name})*\s*(\([^)]*\))?\s*AS\s+`,
  'i',
);

export async function readViews(connection: DuckDBConnection, schema: string): Promise<SourceView[]> {
  return (await rowsOf(connection, viewsSql, [schema])).map(([name, sql, comment]) => {
    const text = String(sql);
    const [head = '', columns] = viewHead.exec(text) ?? [];
    const query = text.slice(head.length).replace(/;\s*$/, '');
    return {
      name: String(name),
      sql: columns === undefined ? query : `SELECT * FROM (${query}) AS named${columns}`,
      comment: comment === null ? undefined : String(comment),
    };
  });
}

/** For each kind of object, a query for names and a text. */
const lost: Readonly<Record<string, string>> = {
  index: `SELECT table_name || '.' || index_name, 'is not needed: queries read only the parts of a table that can match' FROM duckdb_indexes() WHERE ${own} AND schema_name = $1`,
  sequence: `SELECT sequence_name, 'there are no sequences' FROM duckdb_sequences() WHERE ${own} AND schema_name = $1`,
  macro: `SELECT DISTINCT function_name, 'there are no functions of users' FROM duckdb_functions() WHERE ${own} AND schema_name = $1 AND NOT internal AND function_type LIKE '%macro%'`,
  'enumeration type': `SELECT type_name, 'its columns are STRING, their values are not checked' FROM duckdb_types() WHERE ${own} AND schema_name = $1 AND NOT internal AND logical_type = 'ENUM'`,
  schema: `SELECT DISTINCT schema_name, 'import it with --schema into another database' FROM duckdb_tables() WHERE ${own} AND schema_name <> $1 AND NOT internal`,
};

export async function notCarriedObjects(connection: DuckDBConnection, schema: string): Promise<NotCarried[]> {
  const found: NotCarried[] = [];
  for (const [kind, sql] of Object.entries(lost))
    for (const [object, text] of await rowsOf(connection, `${sql} ORDER BY 1`, [schema]))
      found.push({ object: String(object), kind, text: String(text) });
  return found;
}
