// Finds the tables that a query names, using DuckDB's parser: exact, unlike table_name_scan.ts, which reads any text but may return
// names that are not tables.
import type { DuckDBConnection } from '@duckdb/node-api';
import { Failure } from '../../../standard/failure.ts';
import { rowsOf } from '../instance/applied_steps.ts';
import { offsetOfByte, refusedStatement, sqlInvalid } from '../instance/sql_errors.ts';
import { numberTooLarge, parseTree } from './default_expression.ts';

export interface TableInText {
  /** The parts as written, root first: `c.d.t`, `d.t` or `t`. */
  readonly parts: readonly string[];
  /** The offset in the text (UTF-16). */
  readonly offset: number;
}

interface Parsed {
  readonly error: boolean;
  readonly error_type?: string;
  readonly error_message?: string;
  readonly position?: string;
  readonly statements?: readonly { readonly node: unknown }[];
}
interface CommonTable {
  readonly key: string;
  readonly value: { readonly query?: unknown };
}
type Node = Readonly<Record<string, unknown>>;

const nodesMax = 1_000_000;

/** Names of common table expressions are omitted. Throws SQL_INVALID or SQL_NOT_SUPPORTED if the text is not a single query. */
export async function tablesInQuery(connection: DuckDBConnection, sql: string): Promise<TableInText[]> {
  const [[text] = []] = await rowsOf(
    connection,
    'SELECT json_serialize_sql($1::VARCHAR, skip_null := true, skip_empty := true)',
    [sql],
  );
  const parsed = parseTree<Parsed>(String(text));
  if (parsed === undefined) throw sqlInvalid(numberTooLarge, sql, undefined);
  if (parsed.error) {
    const { error_type, error_message = 'the query cannot be parsed', position } = parsed;
    if (error_type !== 'parser') throw refusedStatement(sql, error_message);
    throw sqlInvalid(error_message, sql, position === undefined ? undefined : offsetOfByte(sql, Number(position)));
  }
  const [only, ...more] = parsed.statements ?? [];
  if (only === undefined) throw sqlInvalid('the text contains no query', sql, 0);
  if (more.length > 0) throw new Failure('SQL_NOT_SUPPORTED', 'only a single query is allowed here');
  return tablesIn(only.node, sql);
}

/** An explicit stack, because a tree can be nested deeper than the call stack allows. */
function tablesIn(root: unknown, sql: string): TableInText[] {
  const tables: TableInText[] = [];
  const stack: { readonly node: unknown; readonly commonNames: ReadonlySet<string> }[] = [
    { node: root, commonNames: new Set() },
  ];
  for (let seen = 0; stack.length > 0; ) {
    const { node, commonNames } = stack.pop() as (typeof stack)[number];
    if (typeof node !== 'object' || node === null) continue;
    if (++seen > nodesMax) throw new Failure('SQL_NOT_SUPPORTED', 'the query is too large to be a view');
    if (Array.isArray(node)) {
      for (const child of node) stack.push({ node: child, commonNames });
      continue;
    }
    const { cte_map: commonTables, ...rest } = node as Node;
    const scope = new Set(commonNames);
    // Each name is valid in the following expressions and in the body; inside its own expression only if that is recursive.
    for (const { key, value } of ((commonTables as { map?: CommonTable[] })?.map ?? []) as CommonTable[]) {
      const inner = isRecursive(value.query) ? new Set([...scope, foldedName(key)]) : new Set(scope);
      stack.push({ node: value.query, commonNames: inner });
      scope.add(foldedName(key));
    }
    const { type } = rest;
    if (type === 'BASE_TABLE') {
      const table = tableOf(rest, sql);
      if (table.parts.length > 1 || !commonNames.has(foldedName(table.parts[0] as string))) tables.push(table);
    }
    for (const child of Object.values(rest)) stack.push({ node: child, commonNames: scope });
  }
  return tables.sort((a, b) => a.offset - b.offset);
}

const isRecursive = (query: unknown): boolean =>
  (query as { node?: { type?: unknown } } | undefined)?.node?.type === 'RECURSIVE_CTE_NODE';

/** Folds names as DuckDB does: only ASCII letters. */
const foldedName = (name: string) => name.replace(/[A-Z]/g, (letter) => letter.toLowerCase());

function tableOf(node: Node, sql: string): TableInText {
  const { catalog_name, schema_name, table_name, query_location } = node;
  const parts = [catalog_name, schema_name, table_name].filter((part) => typeof part === 'string' && part !== '');
  return { parts: parts as string[], offset: offsetOfByte(sql, Number(query_location)) };
}
