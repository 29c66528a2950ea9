// Where a query names tables, as DuckDB's parser reads it: exactly, while table_name_scan.ts, which reads any statement's text, may find
// a name too many.
import type { DuckDBConnection } from '@duckdb/node-api';
import { Failure } from '../../../standard/failure.ts';
import { rowsOf } from '../instance/applied_steps.ts';
import { offsetOfByte, refusedStatement, sqlInvalid } from '../instance/sql_errors.ts';
import { numberTooLarge, parseTree } from './default_expression.ts';

export interface TableInText {
  /** In its parts as written, root first: `c.d.t`, `d.t` or `t`. */
  readonly parts: readonly string[];
  /** Where it begins in the text (UTF-16). */
  readonly at: number;
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

/** Names of common table expressions are left out. Throws SQL_INVALID or SQL_NOT_SUPPORTED for what is not one query. */
export async function tablesInQuery(connection: DuckDBConnection, sql: string): Promise<TableInText[]> {
  const [[text] = []] = await rowsOf(
    connection,
    'SELECT json_serialize_sql($1::VARCHAR, skip_null := true, skip_empty := true)',
    [sql],
  );
  const parsed = parseTree<Parsed>(String(text));
  if (parsed === undefined) throw sqlInvalid(numberTooLarge, sql, undefined);
  if (parsed.error) {
    const { error_type, error_message = 'the query is not understood', position } = parsed;
    if (error_type !== 'parser') throw refusedStatement(sql, error_message);
    throw sqlInvalid(error_message, sql, position === undefined ? undefined : offsetOfByte(sql, Number(position)));
  }
  const [only, ...more] = parsed.statements ?? [];
  if (only === undefined) throw sqlInvalid('the text holds no query', sql, 0);
  if (more.length > 0) throw new Failure('SQL_NOT_SUPPORTED', 'one query is taken here; this text holds several');
  return tablesIn(only.node, sql);
}

/** An explicit stack: a tree can nest deeper than calls may. */
function tablesIn(root: unknown, sql: string): TableInText[] {
  const found: TableInText[] = [];
  const open: { readonly node: unknown; readonly hidden: ReadonlySet<string> }[] = [{ node: root, hidden: new Set() }];
  for (let seen = 0; open.length > 0; ) {
    const { node, hidden } = open.pop() as (typeof open)[number];
    if (typeof node !== 'object' || node === null) continue;
    if (++seen > nodesMax) throw new Failure('SQL_NOT_SUPPORTED', 'the query is too large to be a view');
    if (Array.isArray(node)) {
      for (const one of node) open.push({ node: one, hidden });
      continue;
    }
    const { cte_map: commonTables, ...rest } = node as Node;
    const within = new Set(hidden);
    // Each means its expression in those after it and in the body; in itself only where that is recursive.
    for (const { key, value } of ((commonTables as { map?: CommonTable[] })?.map ?? []) as CommonTable[]) {
      const own = isRecursive(value.query) ? new Set([...within, folded(key)]) : new Set(within);
      open.push({ node: value.query, hidden: own });
      within.add(folded(key));
    }
    const { type } = rest;
    if (type === 'BASE_TABLE') {
      const one = tableOf(rest, sql);
      if (one.parts.length > 1 || !hidden.has(folded(one.parts[0] as string))) found.push(one);
    }
    for (const one of Object.values(rest)) open.push({ node: one, hidden: within });
  }
  return found.sort((a, b) => a.at - b.at);
}

const isRecursive = (query: unknown): boolean =>
  (query as { node?: { type?: unknown } } | undefined)?.node?.type === 'RECURSIVE_CTE_NODE';

/** As DuckDB does: ASCII letters alone. */
const folded = (name: string) => name.replace(/[A-Z]/g, (letter) => letter.toLowerCase());

function tableOf(node: Node, sql: string): TableInText {
  const { catalog_name, schema_name, table_name, query_location } = node;
  const parts = [catalog_name, schema_name, table_name].filter((part) => typeof part === 'string' && part !== '');
  return { parts: parts as string[], at: offsetOfByte(sql, Number(query_location)) };
}
